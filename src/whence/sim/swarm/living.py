"""Schedules of living groups: joins, leaves and removals at once, beside crashes, wiped disks, partitions, false
suspicions, deaths for good and restarts of all.

Half the groups have journals. Whoever dies for good is removed when the run heals: by an operator in groups with
journals, by itself in the others. In some runs an operator forces a generation: because most members died for good, or
though the others are there.
"""

from random import Random
from typing import Any, Literal

from msgspec import Struct, structs

from whence.sim.network import Latency, LatencyShape, NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, Act, Clocks, Fault, Publish, Reaction, Scenario

SAFETY_NS = 3_000 * MS
SETTLE_NS = 6_000 * MS
LIVE_NS = 600 * MS
REST_NS = 6_000 * MS
DEADLINE_NS = 3_000 * MS
FORCED = 0.06
"""The share of runs in which an operator forces a generation."""
MIXED = 0.3
"""The share of groups with disks in which the dead are removed unasked, and some members may have no disk."""
TOGETHER = 0.1
"""The share of runs in which several members leave within a moment, or all of them once everything has arrived."""
FIRST_NEWCOMER = 20


class Plan(Struct):
    """A scenario while it is drawn."""

    founders: int
    newcomers: list[int] = []
    publishes: list[Publish] = []
    reactions: list[Reaction] = []
    faults: list[Fault] = []
    acts: list[Act] = []
    dead: list[int] = []

    @property
    def everybody(self) -> list[int]:
        """Return all processes."""
        return [*range(self.founders), *self.newcomers]


def draw(level: str, seed: int) -> Scenario:
    """Return the scenario of a seed: a living mesh at `causal`."""
    return _draw(level, seed)


def draw_strict(level: str, seed: int) -> Scenario:
    """Return the scenario of a seed: a strict group at `total`."""
    scenario = _draw(level, seed)
    rng = RandomStreams(seed).of("strict")
    renamed, left_out = {"held_copies_max": "held_max"}, ("spread", "processes")
    settings = {renamed.get(name, name): value for name, value in scenario.settings.items() if name not in left_out}
    uniform = settings["majority"] and rng.random() < 0.5
    return structs.replace(scenario, settings=settings | {"order": "strict", "uniform": uniform})


def _draw(level: str, seed: int) -> Scenario:
    rng = RandomStreams(seed).of("living")
    plan = Plan(rng.choice((2, 2, 3, 3, 3, 4, 5)))
    durable = rng.random() < 0.5
    hard = rng.random() < 0.4
    _newcomers(plan, rng)
    _publications(plan, rng)
    _faults(plan, rng, hard=hard)
    _crashes(plan, rng, durable=durable)
    _removals(plan, rng)
    _force(plan, RandomStreams(seed).of("force"))
    settings: dict[str, Any] = {
        "membership": "living",
        "spread": "mesh",
        "processes": " ".join(map(str, range(plan.founders))),
        "journal": durable,
        "keep": rng.choice(("own", "own", "all")) if durable else "own",
        "majority": rng.random() < 0.5,
        "remove_after_ns": 0 if durable else rng.choice((300, 800)) * MS,
        "join_timeout_ns": 1_500 * MS,
        "attempt_ns": rng.choice((60, 200)) * MS,
        "retry_ns": 100 * MS,
        "retry_ns_max": 800 * MS,
        "suspect_ns": rng.choice((150, 400)) * MS,
        "ask_ns": rng.choice((20, 60)) * MS,
        "held_copies_max": rng.choice((4096, 4096, 8)),
        "ack_ns": rng.choice((10, 40)) * MS,
    }
    forgetful = _forgetful(plan, RandomStreams(seed).of("forgetful")) if durable else None
    if forgetful is not None:
        settings["remove_after_ns"] = 300 * MS
    live_from = SAFETY_NS + SETTLE_NS
    _leave_together(plan, live_from + LIVE_NS, RandomStreams(seed).of("together"))
    for at in range(6):
        plan.publishes.append(Publish(at_ns=live_from + at * 90 * MS, node=rng.choice(plan.everybody)))
    return Scenario(
        level=level, seed=seed, forgetful=forgetful or [], shape=_shape(durable, forgetful, hard),
        nodes=plan.founders, settings=settings, publishes=plan.publishes, reactions=plan.reactions,
        faults=sorted(plan.faults, key=lambda fault: fault.at_ns), acts=plan.acts, network=_network(rng, hard=hard),
        clocks=Clocks(offset_ns=rng.choice((0, 10**9)), drift_ppm=rng.choice((0, 20_000))),
        sync_ns=rng.choice((0, 2 * MS, 20 * MS)), take_ns=rng.choice((0, 0, 5 * MS, 30 * MS)) if durable else 0,
        heal_at_ns=SAFETY_NS, live_from_ns=live_from, live_until_ns=live_from + LIVE_NS,
        deadline_ns=DEADLINE_NS, rest_at_ns=live_from + LIVE_NS + REST_NS, end_at_ns=live_from + LIVE_NS + REST_NS + MS,
    )  # fmt: skip


def _network(rng: Random, *, hard: bool) -> NetworkModel:
    def sometimes(most: float) -> float:
        return rng.random() * most if rng.random() < 0.6 else 0.0

    kind: LatencyShape = rng.choice(("uniform", "exponential", "heavy"))
    return NetworkModel(
        latency=Latency(shape=kind, low_ns=MS // 10, high_ns=rng.choice((1, 5, 25)) * MS),
        fifo_links=kind != "heavy" and rng.random() < 0.4,
        loss=sometimes(0.4 if hard else 0.15), duplicate=sometimes(0.2), reorder=sometimes(0.3),
        replay=sometimes(0.05), corrupt=sometimes(0.02), straggle_ns=1_000 * MS,
    )  # fmt: skip


def _time(rng: Random) -> int:
    return rng.randrange(50 * MS, SAFETY_NS - 200 * MS)


def _span(rng: Random, least_ms: int, most_ms: int) -> tuple[int, int]:
    at = _time(rng)
    return at, min(SAFETY_NS - MS, at + rng.randint(least_ms, most_ms) * MS)


def _newcomers(plan: Plan, rng: Random) -> None:
    for number in range(rng.choice((0, 1, 1, 2, 3))):
        pid = FIRST_NEWCOMER + number
        plan.newcomers.append(pid)
        plan.faults.append(Fault(kind="join", at_ns=_time(rng), nodes=[pid]))


def _publications(plan: Plan, rng: Random) -> None:
    for _ in range(rng.randint(5, 25)):
        at, node = rng.randrange(SAFETY_NS - 100 * MS), rng.choice(plan.everybody)
        for extra in range(rng.choice((1, 1, 1, 3))):
            plan.publishes.append(
                Publish(at_ns=at + extra * MS, node=node, events=rng.choice((1, 1, 3)), size=rng.choice((0, 8, 40)))
            )
    for _ in range(rng.choice((0, 2, 6))):
        after = rng.choice((0, 0, 5, 50)) * MS
        plan.reactions.append(
            Reaction(node=rng.choice(plan.everybody), group=0, after_ns=after, times=rng.randint(1, 4))
        )


def _faults(plan: Plan, rng: Random, *, hard: bool) -> None:
    nodes = plan.everybody
    for kind in ("pause", "cut", "partition", "slow", "burst"):
        for _ in range(rng.choice((0, 0, 1, 2)) + (hard and rng.random() < 0.5)):
            at, until = _span(rng, 50, 1_200)
            some = rng.sample(nodes, rng.randint(1, max(1, len(nodes) // 2)))
            others = rng.sample(nodes, rng.randint(1, max(1, len(nodes) // 2))) if kind in ("cut", "slow") else []
            amount = {"slow": rng.choice((10.0, 1000.0)), "burst": rng.uniform(0.3, 1.0)}.get(kind, 0.0)
            plan.faults.append(Fault(kind=kind, at_ns=at, until_ns=until, nodes=some, others=others, amount=amount))
    for _ in range(rng.choice((0, 0, 2, 4))):
        at, until = _span(rng, 50, 800)
        node, other = rng.choice(nodes), rng.choice(nodes)
        if node != other:
            plan.acts += [
                Act(at_ns=at, node=node, name="suspect", argument=other),
                Act(at_ns=until, node=node, name="trust", argument=other),
                Act(at_ns=SAFETY_NS + MS, node=node, name="trust", argument=other),
            ]


def _crashes(plan: Plan, rng: Random, *, durable: bool) -> None:
    """Crash some for a while, all at once, or one for good."""
    nodes = plan.everybody
    disks: tuple[Literal["lost", "torn", "wiped"], ...] = ("lost", "lost", "torn", "wiped")
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        at, until = _span(rng, 50, 1_000)
        disk = rng.choice(disks)
        plan.faults.append(
            Fault(
                kind="crash", at_ns=at, until_ns=until, nodes=[rng.choice(nodes)], disk=disk,
                between_effects=rng.random() < 0.4,
            )
        )  # fmt: skip
    if durable and rng.random() < 0.3:
        at, until = _span(rng, 50, 600)
        plan.faults.append(
            Fault(kind="crash", at_ns=at, until_ns=until, nodes=nodes, disk=rng.choice(("lost", "torn")))
        )
    if rng.random() < 0.4:
        dead = rng.choice(nodes)
        plan.dead.append(dead)
        plan.faults.append(
            Fault(kind="crash", at_ns=_time(rng), nodes=[dead], disk="lost", between_effects=rng.random() < 0.5)
        )


def _removals(plan: Plan, rng: Random) -> None:
    nodes = plan.everybody
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        at, node, other = _time(rng), rng.choice(nodes), rng.choice(nodes)
        if node != other:
            plan.acts.append(Act(at_ns=at, node=node, name="remove", argument=other))
    if rng.random() < 0.4:
        plan.faults.append(Fault(kind="leave", at_ns=_time(rng), nodes=[rng.choice(nodes)]))
    for dead in plan.dead:
        for node in nodes:
            if node != dead:
                plan.acts.append(Act(at_ns=SAFETY_NS + 500 * MS, node=node, name="remove", argument=dead))


def _leave_together(plan: Plan, end: int, rng: Random) -> None:
    """Let several members leave within a moment: some of them while anything goes wrong, or all in the end (T67)."""
    if rng.random() >= TOGETHER:
        return
    in_the_end = rng.random() < 0.5
    at, nodes = (end, plan.everybody) if in_the_end else (_time(rng), plan.everybody)
    if not in_the_end:
        nodes = rng.sample(nodes, rng.randint(2, len(nodes)))
    apart = rng.choice((1, 10, 50)) * MS
    plan.faults += [
        Fault(kind="leave", at_ns=at + rng.randrange(apart), nodes=[node], lasting=in_the_end) for node in nodes
    ]


def _forgetful(plan: Plan, rng: Random) -> list[int] | None:
    """Draw who has no disk in a group that removes the dead by itself, though members may have one; None: all have one,
    and nobody is removed unasked."""
    if rng.random() >= MIXED:
        return None
    return sorted(rng.sample(plan.everybody, rng.randint(0, len(plan.everybody) - 1)))


def _shape(durable: bool, forgetful: list[int] | None, hard: bool) -> str:
    memory = (
        "volatile" if not durable else "durable" if forgetful is None else "mixed" if forgetful else "self-removing"
    )
    return f"living {memory}{' hard' if hard else ''}"


def _force(plan: Plan, rng: Random) -> None:
    """Let an operator name survivors: after the others died, or while they may be there."""
    if rng.random() >= FORCED:
        return
    founders = list(range(plan.founders))
    alive = [node for node in founders if node not in plan.dead]
    if alive and rng.random() < 0.5:
        survivors = rng.sample(alive, min(len(alive), rng.randint(1, max(1, (plan.founders - 1) // 2))))
        at = SAFETY_NS + 1_000 * MS
        for node in founders:
            if node not in survivors and node not in plan.dead:
                plan.dead.append(node)
                plan.faults.append(Fault(kind="crash", at_ns=_time(rng), nodes=[node], disk="lost"))
    else:
        survivors = rng.sample(plan.everybody, rng.randint(1, len(plan.everybody) - 1))
        at = _time(rng)
    mask = sum(1 << pid for pid in survivors)
    plan.acts += [Act(at_ns=at + again, node=survivors[0], name="force", argument=mask) for again in (0, 1_000 * MS)]
