"""Groups on a tree, of three kinds (LoCaMu section 10): sim, hard and chain.

sim: random trees, groups and faults of every kind. hard: small groups whose members answer each other, on links a
thousand times as fast as others. chain: one slow message to many, and fast messages to two members that overtake it. Of
each kind, some have no tree: everybody sends to everybody, in one group. Crashes are transient; what was synced
survives, what was only written may be torn. Half of them have processes with arbitrary ids, and half the timers of live
groups. In some, applications take events slowly, one by one or in batches, and crash inside a bundle.
"""

from random import Random
from typing import Any, Literal

from msgspec import Struct, structs

from whence.core.levels.causal.reliability import LIVE_TIMERS, ReliabilitySettings
from whence.core.levels.causal.tree.overlay import Overlay
from whence.sim.network import Latency, LatencyShape, NetworkModel
from whence.sim.process_ids import draw_process_ids
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, Act, Clocks, Fault, Publish, Reaction, Scenario

SAFETY_NS = 2_500 * MS
SETTLE_NS = 7_000 * MS
"""The time from healing until everything expected has arrived: a few times the longest back-off."""
LIVE_NS = 400 * MS
DEADLINE_NS = 3_000 * MS
REST_NS = 6_000 * MS

MESH_EVERY = 5
"""One schedule in this many has all nodes in one group without a tree: each sends to all others itself."""


class Plan(Struct):
    """The parts of a scenario while it is drawn."""

    parents: list[int]
    groups: list[list[int]]
    publishes: list[Publish] = []
    reactions: list[Reaction] = []
    faults: list[Fault] = []
    acts: list[Act] = []


def draw(level: str, seed: int) -> Scenario:
    """Return the scenario of a seed: a tree or a mesh, whose applications may be slow."""
    return _draw(level, seed, has_variants=True)


def draw_calm(level: str, seed: int) -> Scenario:
    """Return a scenario for a rival: the same trees, groups and traffic, slow links that reorder, but no losses."""
    return structs.replace(draw_calm_with_suspicions(level, seed), acts=[])


def draw_calm_with_suspicions(level: str, seed: int) -> Scenario:
    """Return the same, with nodes that suspect others wrongly."""
    full = _draw(level, seed, has_variants=False)
    settings = {name: full.settings[name] for name in ("tree", "groups", "f")}
    calm = NetworkModel(latency=full.network.latency, reorder=full.network.reorder, straggle_ns=500 * MS)
    slow = [fault for fault in full.faults if fault.kind == "slow"]
    return structs.replace(full, settings=settings, network=calm, faults=slow)


def _draw(level: str, seed: int, *, has_variants: bool) -> Scenario:
    rng = RandomStreams(seed).of("swarm")
    shape = rng.choice(tuple(SHAPES))
    f = rng.choice((1, 1, 1, 2, 2, 3))
    plan = SHAPES[shape](f, rng)
    nodes = len(plan.parents) + 1
    lossy = rng.random() < (0.7 if shape == "sim" else 0.3)
    live_from = SAFETY_NS + SETTLE_NS
    for at in range(4):
        group = rng.randrange(len(plan.groups))
        plan.publishes.append(Publish(at_ns=live_from + at * 90 * MS, node=rng.randrange(nodes), group=group))
    settings: dict[str, Any] = {
        "tree": ",".join(map(str, plan.parents)),
        "groups": ";".join(" ".join(map(str, sorted(members))) for members in plan.groups),
        "f": f,
        "identity": rng.choice(("uid", "uid", "uid", "paper")),
        "coding": rng.choice(("whole", "predicted", "predicted", "predicted")),
        "replay": rng.random() < 0.7,
        "retry_ns": 100 * MS,
        "retry_ns_max": 800 * MS,
        "suspect_ns": rng.choice((150, 400)) * MS,
        "ask_ns": rng.choice((20, 60)) * MS,
        "held_copies_max": rng.choice((512, 512, 3)),
        "retain": RandomStreams(seed).of("retention").random() < 0.3,
    }
    kind = f"{shape} f={f}"
    take_ns = 0
    if has_variants and seed % MESH_EVERY == MESH_EVERY - 1:
        kind = f"direct {shape}"
        settings |= {"spread": "mesh", "groups": "all"}
        take_ns = _without_tree(plan, RandomStreams(seed).of("direct"))
    if has_variants and not take_ns:
        take_ns = _slow_applications(plan, nodes, RandomStreams(seed).of("slow"))
    id_rng = RandomStreams(seed).of("numbers")
    ids = draw_process_ids(nodes, id_rng) if id_rng.random() < 0.5 else []
    more = 0
    if RandomStreams(seed).of("timing").random() < 1 / 2:
        kind += " live"
        settings |= {"retry_ns_max": ReliabilitySettings().retry_ns_max, **LIVE_TIMERS}
        # A member that is down is waited for until it is suspected.
        more = settings["suspect_ns"] + settings["retry_ns_max"]
    return Scenario(
        level=level, seed=seed, shape=kind, nodes=nodes, numbers=ids, settings=settings,
        publishes=plan.publishes, reactions=plan.reactions, faults=sorted(plan.faults, key=lambda fault: fault.at_ns),
        acts=plan.acts,
        network=_network(shape, rng, lossy=lossy),
        clocks=Clocks(offset_ns=rng.choice((0, 10**9)), drift_ppm=rng.choice((0, 20_000))),
        sync_ns=rng.choice((0, 2 * MS, 20 * MS)), take_ns=take_ns,
        heal_at_ns=SAFETY_NS, live_from_ns=live_from, live_until_ns=live_from + LIVE_NS,
        deadline_ns=DEADLINE_NS + more, rest_at_ns=live_from + LIVE_NS + REST_NS + more,
        end_at_ns=live_from + LIVE_NS + REST_NS + more + MS,
    )  # fmt: skip


def _slow_applications(plan: Plan, nodes: int, rng: Random) -> int:
    """Make some applications slow; return how long they take to ask for the next event, or 0.

    If so, some bundles are large, and some processes crash while these are taken.
    """
    take_ns = rng.choice((0, 0, 5 * MS, 30 * MS, 150 * MS))
    early = [publish for publish in plan.publishes if publish.at_ns < SAFETY_NS // 2]
    if not take_ns or not early:
        return take_ns
    for publish in rng.sample(early, min(len(early), 3)):
        plan.publishes[plan.publishes.index(publish)] = structs.replace(publish, events=rng.choice((3, 10, 20)))
        at = publish.at_ns + rng.randrange(1, 8 * take_ns)
        until = min(SAFETY_NS - MS, at + rng.randrange(20, 500) * MS)
        victims = [publish.node if rng.random() < 0.3 else rng.randrange(nodes)]
        if rng.random() < 0.5:  # it publishes as soon as it is back, with part of a bundle taken
            plan.publishes.append(structs.replace(publish, at_ns=until + MS, node=victims[0], events=1))
        between = rng.random() < 0.2
        plan.faults.append(
            Fault(kind="crash", at_ns=at, until_ns=until, nodes=victims, disk="lost", between_effects=between)
        )
    return take_ns


def _without_tree(plan: Plan, rng: Random) -> int:
    """Turn a plan into one with a single group; return how slow its applications are, or 0.

    Some publishers crash soon after they published.
    """
    plan.publishes = [structs.replace(publish, group=0) for publish in plan.publishes]
    plan.reactions = [structs.replace(reaction, group=0) for reaction in plan.reactions]
    if rng.random() < 1 / 2:
        return _few_messages(plan, rng)
    before = [publish for publish in plan.publishes if publish.at_ns < SAFETY_NS // 2]
    for publish in rng.sample(before, min(len(before), rng.choice((0, 1, 3)))):
        _crash_after(plan, publish, rng)
    return 0


def _few_messages(plan: Plan, rng: Random) -> int:
    """Reduce a plan to a few messages that follow each other; return how slow its applications are.

    The publisher of one crashes, some of the repair is lost when it is back, and then nothing more is published. So no
    new message shows what is missing.
    """
    early = [publish for publish in plan.publishes if publish.at_ns < SAFETY_NS // 2]
    some = rng.sample(early, min(len(early), rng.randint(2, 4)))
    start = rng.randrange(SAFETY_NS // 2)
    times = [start, *(start + rng.randrange(30, 100) * MS for _ in some)]
    plan.publishes = [structs.replace(publish, at_ns=at) for publish, at in zip(some, times, strict=False)]
    plan.reactions, plan.faults, plan.acts = [], [], []
    for publish in plan.publishes[1:2]:
        back = _crash_after(plan, publish, rng)
        end = back + rng.randrange(10, 200) * MS
        plan.faults.append(Fault(kind="burst", at_ns=back - MS, until_ns=end, amount=rng.uniform(0.3, 0.7)))
    return rng.choice((150 * MS, 300 * MS))


def _crash_after(plan: Plan, publish: Publish, rng: Random) -> int:
    """Crash a publisher soon after; return when it is back."""
    at = publish.at_ns + rng.randrange(1, 200) * MS
    until = at + rng.randrange(20, 500) * MS
    plan.faults.append(Fault(kind="crash", at_ns=at, until_ns=until, nodes=[publish.node], disk="lost"))
    return until


def _network(shape: str, rng: Random, *, lossy: bool) -> NetworkModel:
    def sometimes(most: float) -> float:
        return rng.random() * most if lossy and rng.random() < 0.6 else 0.0

    kinds: tuple[LatencyShape, ...] = ("uniform", "exponential", "heavy") if shape == "sim" else ("uniform", "heavy")
    kind = rng.choice(kinds)
    return NetworkModel(
        latency=Latency(shape=kind, low_ns=MS // 10, high_ns=rng.choice((1, 5, 25)) * MS),
        fifo_links=kind != "heavy" and rng.random() < 0.3,
        loss=sometimes(0.3), duplicate=sometimes(0.2), reorder=sometimes(0.3), replay=sometimes(0.05),
        corrupt=sometimes(0.02), straggle_ns=1_000 * MS,
    )  # fmt: skip


# --- the kinds ---


def _sim(f: int, rng: Random) -> Plan:
    nodes = rng.randint(4, 9)
    parents = _random_tree(nodes, rng)
    groups = [_some(nodes, rng, rng.randint(1, nodes)) for _ in range(rng.randint(1, 4))]
    plan = Plan(parents, groups)
    for _ in range(rng.randint(5, 25)):
        _publish(plan, rng.randrange(SAFETY_NS - 300 * MS), rng.randrange(nodes), rng.randrange(len(groups)), rng)
    _random_faults(plan, nodes, rng)
    _crashes(plan, nodes, f, rng)
    _wrong_suspicions(plan, nodes, rng.choice((0, 2, 6)), rng)
    return plan


def _hard(f: int, rng: Random) -> Plan:
    nodes = rng.randint(4, 9)
    parents = _random_tree(nodes, rng)
    groups = [_some(nodes, rng, rng.randint(2, 3)) for _ in range(rng.randint(2, 5))]
    groups.append(list(range(nodes)))
    plan = Plan(parents, groups)
    for _ in range(rng.randint(3, 10)):
        _publish(plan, rng.randrange(SAFETY_NS // 2), rng.randrange(nodes), rng.randrange(len(groups)), rng)
    for _ in range(rng.randint(2, 8)):
        plan.reactions.append(_reaction(nodes, len(groups), rng))
    _slow_links(plan, nodes, 0.3, rng)
    _crashes(plan, nodes, f, rng)
    _wrong_suspicions(plan, nodes, rng.choice((2, 6, 12)), rng)
    return plan


def _chain(f: int, rng: Random) -> Plan:
    """One slow message to many; reactions to it, of two members each, hop along beside it."""
    shape = rng.choice(("line", "caterpillar", "branch", "random"))
    nodes = rng.randint(5, 9)
    if shape == "branch":
        parents, nodes = [0, 1, 2, 2, 4], 6  # X-U-V, V-W, V-P, P-Y: the counter-example for f = 2
    else:
        parents = {
            "line": list(range(nodes - 1)),
            "caterpillar": [node - 1 if node % 2 else node - 2 for node in range(1, nodes)],
            "random": _random_tree(nodes, rng),
        }[shape]
    wide = list(range(nodes)) if rng.random() < 0.5 else _some(nodes, rng, rng.randint(2, nodes))
    groups = [wide, *(_some(nodes, rng, 2) for _ in range(rng.randint(3, 6)))]
    plan = Plan(parents, groups)
    _slow_links(plan, nodes, 0.5, rng)
    for _ in range(rng.randint(1, 3)):
        _publish(plan, rng.randrange(400 * MS), rng.randrange(nodes), 0, rng)
    for _ in range(rng.randint(3, 10)):
        plan.reactions.append(_reaction(nodes, len(groups), rng))
    for _ in range(rng.randint(2, 6)):
        _publish(plan, rng.randrange(SAFETY_NS // 2), rng.randrange(nodes), rng.randrange(1, len(groups)), rng)
    _longest_jumps(plan, f, rng)
    _wrong_suspicions(plan, nodes, rng.choice((0, 4, 10)), rng, SAFETY_NS // 3)
    if rng.random() < 0.5:
        _crashes(plan, nodes, f, rng)
    return plan


SHAPES = {"sim": _sim, "hard": _hard, "chain": _chain}


# --- their parts ---


def _random_tree(nodes: int, rng: Random) -> list[int]:
    """Draw the parents of nodes 1, 2, …; either any earlier node, or one of the latest, for longer paths."""
    depth = rng.choice((nodes, 2, 1))
    return [rng.randrange(max(0, node - depth), node) for node in range(1, nodes)]


def _some(nodes: int, rng: Random, count: int) -> list[int]:
    return rng.sample(range(nodes), min(count, nodes))


def _publish(plan: Plan, at: int, node: int, group: int, rng: Random) -> None:
    for extra in range(rng.choice((1, 1, 1, 3))):
        events, size = rng.choice((1, 1, 3)), rng.choice((0, 8, 40))
        plan.publishes.append(Publish(at_ns=at + extra * MS, node=node, group=group, events=events, size=size))


def _reaction(nodes: int, groups: int, rng: Random) -> Reaction:
    return Reaction(
        node=rng.randrange(nodes), group=rng.randrange(groups), after_ns=rng.choice((0, 0, 5, 50)) * MS,
        times=rng.randint(1, 4),
    )  # fmt: skip


def _span(rng: Random, least_ms: int, most_ms: int) -> tuple[int, int]:
    at = rng.randrange(SAFETY_NS - 100 * MS)
    return at, min(SAFETY_NS - MS, at + rng.randint(least_ms, most_ms) * MS)


def _slow_links(plan: Plan, nodes: int, part: float, rng: Random) -> None:
    """Make some links up to a thousand times slower for most of the time, each direction by itself."""
    amount = rng.choice((100.0, 1000.0))
    until = rng.randrange(SAFETY_NS // 2, SAFETY_NS)
    for node in range(nodes):
        others = [other for other in range(nodes) if other != node and rng.random() < part]
        if others:
            plan.faults.append(Fault(kind="slow", at_ns=0, until_ns=until, nodes=[node], others=others, amount=amount))


def _crashes(plan: Plan, nodes: int, f: int, rng: Random) -> None:
    """Crash some nodes for a while: one at a time, as many as f, or far more; even then the order must hold."""
    for _ in range(rng.choice((0, 1, 2, 3))):
        at, until = _span(rng, 50, 1_200)
        victims = _some(nodes, rng, rng.choice((1, 1, f, nodes // 2)))
        disks: tuple[Literal["lost"], Literal["torn"]] = ("lost", "torn")
        disk, between = rng.choice(disks), rng.random() < 0.4
        plan.faults.append(
            Fault(kind="crash", at_ns=at, until_ns=until, nodes=victims, disk=disk, between_effects=between)
        )


def _wrong_suspicions(plan: Plan, nodes: int, count: int, rng: Random, end: int = SAFETY_NS - 100 * MS) -> None:
    """Let nodes suspect others that are up, for a while. Suspecting a node out of range does nothing."""
    for _ in range(count):
        at = rng.randrange(end)
        until = min(SAFETY_NS - MS, at + rng.randint(50, 1_500) * MS)
        node, other = rng.sample(range(nodes), 2)
        _suspect(plan, node, other, at, until)


def _suspect(plan: Plan, node: int, other: int, at: int, until: int) -> None:
    plan.acts += [
        Act(at_ns=at, node=node, name="suspect", argument=other),
        Act(at_ns=until, node=node, name="trust", argument=other),
        Act(at_ns=SAFETY_NS + MS, node=node, name="trust", argument=other),  # it may be down or paused before
    ]


def _longest_jumps(plan: Plan, f: int, rng: Random) -> None:
    """Let some nodes suspect all that are nearer than f+1 hops, so that copies jump as far as they may."""
    overlay = Overlay([-1, *plan.parents], [[0]], f)
    for node in range(overlay.size):
        if rng.random() < 0.5:
            continue
        at, until = rng.randrange(300) * MS, rng.randint(500, 2_000) * MS
        for other in range(overlay.size):
            if 0 < overlay.distance(node, other) <= f:
                _suspect(plan, node, other, at, until)


def _random_faults(plan: Plan, nodes: int, rng: Random) -> None:
    for kind in ("pause", "cut", "partition", "slow", "burst"):
        if rng.random() > 0.3:
            continue
        at, until = _span(rng, 50, 1_200)
        some, others = _some(nodes, rng, rng.randint(1, nodes // 2)), _some(nodes, rng, rng.randint(1, nodes // 2))
        amount = {"slow": rng.choice((10.0, 1000.0)), "burst": rng.uniform(0.3, 1.0)}.get(kind, 0.0)
        if kind != "cut":
            others = []
        plan.faults.append(Fault(kind=kind, at_ns=at, until_ns=until, nodes=some, others=others, amount=amount))
