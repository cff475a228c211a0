"""Groups on a tree, of three kinds (LoCaMu section 10): sim, hard and chain.

sim: random trees, groups and faults of every kind. hard: small groups whose members answer each other, on links a
thousand times apart in speed. chain: one slow message to many, and quick messages to two that jump over those who have
not got it yet. Of each kind, some have no tree: everybody sends to everybody, in one group. Crashes are transient; what
was synced survives, what was only written may be torn. Half of them have processes with numbers from anywhere, and half
the timers that live groups have. In some, applications take event by event or in batches, slowly, break off, and die
inside a bundle.
"""

from random import Random
from typing import Any, Literal

from msgspec import Struct, structs

from whence.core.levels.causal.reliability import LIVE_TIMERS, ReliabilitySettings
from whence.core.levels.causal.tree.overlay import Overlay
from whence.sim.network import Latency, LatencyShape, NetworkModel
from whence.sim.numbers import draw_numbers
from whence.sim.scenario import Act, Clocks, Fault, Publish, Reaction, Scenario
from whence.sim.streams import Streams
from whence.sim.swarm.weather import MS

SAFETY_NS = 2_500 * MS
SETTLE_NS = 7_000 * MS
"""From healing until all that was owed has come: the longest back-off, a few times over."""
LIVE_NS = 400 * MS
DEADLINE_NS = 3_000 * MS
REST_NS = 6_000 * MS

DIRECT_EVERY = 5
"""One schedule of `causal` in so many has all nodes in one group without a tree: each sends to all others itself."""


class Plan(Struct):
    """What a kind of scenario consists of, while it is drawn."""

    parents: list[int]
    groups: list[list[int]]
    publishes: list[Publish] = []
    reactions: list[Reaction] = []
    faults: list[Fault] = []
    acts: list[Act] = []


def draw(level: str, seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    dice = Streams(seed).of("swarm")
    shape = dice.choice(tuple(SHAPES))
    f = dice.choice((1, 1, 1, 2, 2, 3))
    plan = SHAPES[shape](f, dice)
    nodes = len(plan.parents) + 1
    lossy = dice.random() < (0.7 if shape == "sim" else 0.3)
    live_from = SAFETY_NS + SETTLE_NS
    for at in range(4):
        group = dice.randrange(len(plan.groups))
        plan.publishes.append(Publish(at_ns=live_from + at * 90 * MS, node=dice.randrange(nodes), group=group))
    settings: dict[str, Any] = {
        "tree": ",".join(map(str, plan.parents)),
        "groups": ";".join(" ".join(map(str, sorted(members))) for members in plan.groups),
        "f": f,
        "identity": dice.choice(("uid", "uid", "uid", "paper")),
        "coding": dice.choice(("whole", "predicted", "predicted", "thesis")),
        "replay": dice.random() < 0.7,
        "retry_ns": 100 * MS,
        "retry_ns_max": 800 * MS,
        "suspect_ns": dice.choice((150, 400)) * MS,
        "ask_ns": dice.choice((20, 60)) * MS,
        "held_copies_max": dice.choice((512, 512, 3)),
        "retain": Streams(seed).of("retention").random() < 0.3,
    }
    kind = f"{shape} f={f}"
    take_ns = 0
    if level == "causal" and seed % DIRECT_EVERY == DIRECT_EVERY - 1:
        kind = f"direct {shape}"
        settings |= {"spread": "mesh", "groups": "all"}
        take_ns = _without_tree(plan, Streams(seed).of("direct"))
    if level == "causal" and not take_ns:
        take_ns = _slow_applications(plan, nodes, Streams(seed).of("slow"))
    odd = Streams(seed).of("numbers")
    numbers = draw_numbers(nodes, odd) if odd.random() < 0.5 else []
    more = 0
    if Streams(seed).of("timing").random() < 1 / 2:
        kind += " live"
        settings |= {"retry_ns_max": ReliabilitySettings().retry_ns_max, **LIVE_TIMERS}
        # Whoever must be suspected first is waited for so long.
        more = settings["suspect_ns"] + settings["retry_ns_max"]
    return Scenario(
        level=level, seed=seed, shape=kind, nodes=nodes, numbers=numbers, settings=settings,
        publishes=plan.publishes, reactions=plan.reactions, faults=sorted(plan.faults, key=lambda fault: fault.at_ns),
        acts=plan.acts,
        network=_network(shape, dice, lossy=lossy),
        clocks=Clocks(offset_ns=dice.choice((0, 10**9)), drift_ppm=dice.choice((0, 20_000))),
        sync_ns=dice.choice((0, 2 * MS, 20 * MS)), take_ns=take_ns,
        heal_at_ns=SAFETY_NS, live_from_ns=live_from, live_until_ns=live_from + LIVE_NS,
        deadline_ns=DEADLINE_NS + more, rest_at_ns=live_from + LIVE_NS + REST_NS + more,
        end_at_ns=live_from + LIVE_NS + REST_NS + more + MS,
    )  # fmt: skip


def _slow_applications(plan: Plan, nodes: int, dice: Random) -> int:
    """Make some applications slow; return how long they take to ask for the next event, or 0.

    Some bundles are large then, and some processes die while they are taken.
    """
    take_ns = dice.choice((0, 0, 5 * MS, 30 * MS, 150 * MS))
    early = [publish for publish in plan.publishes if publish.at_ns < SAFETY_NS // 2]
    if not take_ns or not early:
        return take_ns
    for publish in dice.sample(early, min(len(early), 3)):
        plan.publishes[plan.publishes.index(publish)] = structs.replace(publish, events=dice.choice((3, 10, 20)))
        at = publish.at_ns + dice.randrange(1, 8 * take_ns)
        until = min(SAFETY_NS - MS, at + dice.randrange(20, 500) * MS)
        victims = [publish.node if dice.random() < 0.3 else dice.randrange(nodes)]
        if dice.random() < 0.5:  # it publishes as soon as it is back, after a part of something
            plan.publishes.append(structs.replace(publish, at_ns=until + MS, node=victims[0], events=1))
        between = dice.random() < 0.2
        plan.faults.append(
            Fault(kind="crash", at_ns=at, until_ns=until, nodes=victims, disk="lost", between_effects=between)
        )
    return take_ns


def _without_tree(plan: Plan, dice: Random) -> int:
    """Make a plan one of a single group; return how slow its applications must be, or 0.

    Some crash soon after they published.
    """
    plan.publishes = [structs.replace(publish, group=0) for publish in plan.publishes]
    plan.reactions = [structs.replace(reaction, group=0) for reaction in plan.reactions]
    if dice.random() < 1 / 2:
        return _few_words(plan, dice)
    before = [publish for publish in plan.publishes if publish.at_ns < SAFETY_NS // 2]
    for publish in dice.sample(before, min(len(before), dice.choice((0, 1, 3)))):
        _fall_after(plan, publish, dice)
    return 0


def _few_words(plan: Plan, dice: Random) -> int:
    """Leave a plan a few messages, of which the later follow the first; who published one of them crashes, some of what
    is said when it is back is lost, and then there is silence: nothing new asks for what is missing.
    """
    early = [publish for publish in plan.publishes if publish.at_ns < SAFETY_NS // 2]
    some = dice.sample(early, min(len(early), dice.randint(2, 4)))
    start = dice.randrange(SAFETY_NS // 2)
    times = [start, *(start + dice.randrange(30, 100) * MS for _ in some)]
    plan.publishes = [structs.replace(publish, at_ns=at) for publish, at in zip(some, times, strict=False)]
    plan.reactions, plan.faults, plan.acts = [], [], []
    for publish in plan.publishes[1:2]:
        back = _fall_after(plan, publish, dice)
        end = back + dice.randrange(10, 200) * MS
        plan.faults.append(Fault(kind="burst", at_ns=back - MS, until_ns=end, amount=dice.uniform(0.3, 0.7)))
    return dice.choice((150 * MS, 300 * MS))


def _fall_after(plan: Plan, publish: Publish, dice: Random) -> int:
    """Crash a publisher soon after; return when it is back."""
    at = publish.at_ns + dice.randrange(1, 200) * MS
    until = at + dice.randrange(20, 500) * MS
    plan.faults.append(Fault(kind="crash", at_ns=at, until_ns=until, nodes=[publish.node], disk="lost"))
    return until


def draw_calm(level: str, seed: int) -> Scenario:
    """Draw for a rival: the same trees, groups and traffic, links that are slow and overtake, but nothing is lost."""
    full = draw(level, seed)
    settings = {name: full.settings[name] for name in ("tree", "groups", "f")}
    calm = NetworkModel(latency=full.network.latency, reorder=full.network.reorder, straggle_ns=500 * MS)
    slow = [fault for fault in full.faults if fault.kind == "slow"]
    mistakes = [act for act in full.acts if level == "neighbourhood"]
    return structs.replace(full, settings=settings, network=calm, faults=slow, acts=mistakes)


def _network(shape: str, dice: Random, *, lossy: bool) -> NetworkModel:
    def sometimes(most: float) -> float:
        return dice.random() * most if lossy and dice.random() < 0.6 else 0.0

    kinds: tuple[LatencyShape, ...] = ("uniform", "exponential", "heavy") if shape == "sim" else ("uniform", "heavy")
    kind = dice.choice(kinds)
    return NetworkModel(
        latency=Latency(shape=kind, low_ns=MS // 10, high_ns=dice.choice((1, 5, 25)) * MS),
        fifo_links=kind != "heavy" and dice.random() < 0.3,
        loss=sometimes(0.3), duplicate=sometimes(0.2), reorder=sometimes(0.3), replay=sometimes(0.05),
        corrupt=sometimes(0.02), straggle_ns=1_000 * MS,
    )  # fmt: skip


# --- the kinds ---


def _sim(f: int, dice: Random) -> Plan:
    nodes = dice.randint(4, 9)
    parents = _random_tree(nodes, dice)
    groups = [_some(nodes, dice, dice.randint(1, nodes)) for _ in range(dice.randint(1, 4))]
    plan = Plan(parents, groups)
    for _ in range(dice.randint(5, 25)):
        _publish(plan, dice.randrange(SAFETY_NS - 300 * MS), dice.randrange(nodes), dice.randrange(len(groups)), dice)
    _weather(plan, nodes, dice)
    _crashes(plan, nodes, f, dice)
    _mistakes(plan, nodes, dice.choice((0, 2, 6)), dice)
    return plan


def _hard(f: int, dice: Random) -> Plan:
    nodes = dice.randint(4, 9)
    parents = _random_tree(nodes, dice)
    groups = [_some(nodes, dice, dice.randint(2, 3)) for _ in range(dice.randint(2, 5))]
    groups.append(list(range(nodes)))
    plan = Plan(parents, groups)
    for _ in range(dice.randint(3, 10)):
        _publish(plan, dice.randrange(SAFETY_NS // 2), dice.randrange(nodes), dice.randrange(len(groups)), dice)
    for _ in range(dice.randint(2, 8)):
        plan.reactions.append(_reaction(nodes, len(groups), dice))
    _slow_links(plan, nodes, 0.3, dice)
    _crashes(plan, nodes, f, dice)
    _mistakes(plan, nodes, dice.choice((2, 6, 12)), dice)
    return plan


def _chain(f: int, dice: Random) -> Plan:
    """One slow message to many; reactions to it, of two members each, hop along beside it."""
    shape = dice.choice(("line", "caterpillar", "branch", "random"))
    nodes = dice.randint(5, 9)
    if shape == "branch":
        parents, nodes = [0, 1, 2, 2, 4], 6  # X-U-V, V-W, V-P, P-Y: the counter-example for f = 2
    else:
        parents = {
            "line": list(range(nodes - 1)),
            "caterpillar": [node - 1 if node % 2 else node - 2 for node in range(1, nodes)],
            "random": _random_tree(nodes, dice),
        }[shape]
    wide = list(range(nodes)) if dice.random() < 0.5 else _some(nodes, dice, dice.randint(2, nodes))
    groups = [wide, *(_some(nodes, dice, 2) for _ in range(dice.randint(3, 6)))]
    plan = Plan(parents, groups)
    _slow_links(plan, nodes, 0.5, dice)
    for _ in range(dice.randint(1, 3)):
        _publish(plan, dice.randrange(400 * MS), dice.randrange(nodes), 0, dice)
    for _ in range(dice.randint(3, 10)):
        plan.reactions.append(_reaction(nodes, len(groups), dice))
    for _ in range(dice.randint(2, 6)):
        _publish(plan, dice.randrange(SAFETY_NS // 2), dice.randrange(nodes), dice.randrange(1, len(groups)), dice)
    _jumps(plan, f, dice)
    _mistakes(plan, nodes, dice.choice((0, 4, 10)), dice, SAFETY_NS // 3)
    if dice.random() < 0.5:
        _crashes(plan, nodes, f, dice)
    return plan


SHAPES = {"sim": _sim, "hard": _hard, "chain": _chain}


# --- their parts ---


def _random_tree(nodes: int, dice: Random) -> list[int]:
    """Draw the parents of nodes 1, 2, …; either any earlier node, or one of the latest, for longer paths."""
    depth = dice.choice((nodes, 2, 1))
    return [dice.randrange(max(0, node - depth), node) for node in range(1, nodes)]


def _some(nodes: int, dice: Random, count: int) -> list[int]:
    return dice.sample(range(nodes), min(count, nodes))


def _publish(plan: Plan, at: int, node: int, group: int, dice: Random) -> None:
    for extra in range(dice.choice((1, 1, 1, 3))):
        events, size = dice.choice((1, 1, 3)), dice.choice((0, 8, 40))
        plan.publishes.append(Publish(at_ns=at + extra * MS, node=node, group=group, events=events, size=size))


def _reaction(nodes: int, groups: int, dice: Random) -> Reaction:
    return Reaction(
        node=dice.randrange(nodes), group=dice.randrange(groups), after_ns=dice.choice((0, 0, 5, 50)) * MS,
        times=dice.randint(1, 4),
    )  # fmt: skip


def _span(dice: Random, least_ms: int, most_ms: int) -> tuple[int, int]:
    at = dice.randrange(SAFETY_NS - 100 * MS)
    return at, min(SAFETY_NS - MS, at + dice.randint(least_ms, most_ms) * MS)


def _slow_links(plan: Plan, nodes: int, part: float, dice: Random) -> None:
    """Make some links a thousand times slower than others for most of the time, each way by itself."""
    amount = dice.choice((100.0, 1000.0))
    until = dice.randrange(SAFETY_NS // 2, SAFETY_NS)
    for node in range(nodes):
        others = [other for other in range(nodes) if other != node and dice.random() < part]
        if others:
            plan.faults.append(Fault(kind="slow", at_ns=0, until_ns=until, nodes=[node], others=others, amount=amount))


def _crashes(plan: Plan, nodes: int, f: int, dice: Random) -> None:
    """Crash some nodes for a while: one at a time, as many as f, or, to see that order is kept, far more."""
    for _ in range(dice.choice((0, 1, 2, 3))):
        at, until = _span(dice, 50, 1_200)
        victims = _some(nodes, dice, dice.choice((1, 1, f, nodes // 2)))
        disks: tuple[Literal["lost"], Literal["torn"]] = ("lost", "torn")
        disk, between = dice.choice(disks), dice.random() < 0.4
        plan.faults.append(
            Fault(kind="crash", at_ns=at, until_ns=until, nodes=victims, disk=disk, between_effects=between)
        )


def _mistakes(plan: Plan, nodes: int, count: int, dice: Random, end: int = SAFETY_NS - 100 * MS) -> None:
    """Let nodes suspect others that are up, for a while. Who is not in reach cannot be suspected: that does nothing."""
    for _ in range(count):
        at = dice.randrange(end)
        until = min(SAFETY_NS - MS, at + dice.randint(50, 1_500) * MS)
        node, other = dice.sample(range(nodes), 2)
        _mistake(plan, node, other, at, until)


def _mistake(plan: Plan, node: int, other: int, at: int, until: int) -> None:
    plan.acts += [
        Act(at_ns=at, node=node, name="suspect", argument=other),
        Act(at_ns=until, node=node, name="trust", argument=other),
        Act(at_ns=SAFETY_NS + MS, node=node, name="trust", argument=other),  # it may be down or paused before
    ]


def _jumps(plan: Plan, f: int, dice: Random) -> None:
    """Let some nodes suspect all that are nearer than f+1 hops, so that they leap as far as they may."""
    overlay = Overlay([-1, *plan.parents], [[0]], f)
    for node in range(overlay.size):
        if dice.random() < 0.5:
            continue
        at, until = dice.randrange(300) * MS, dice.randint(500, 2_000) * MS
        for other in range(overlay.size):
            if 0 < overlay.distance(node, other) <= f:
                _mistake(plan, node, other, at, until)


def _weather(plan: Plan, nodes: int, dice: Random) -> None:
    for kind in ("pause", "cut", "partition", "slow", "burst"):
        if dice.random() > 0.3:
            continue
        at, until = _span(dice, 50, 1_200)
        some, others = _some(nodes, dice, dice.randint(1, nodes // 2)), _some(nodes, dice, dice.randint(1, nodes // 2))
        amount = {"slow": dice.choice((10.0, 1000.0)), "burst": dice.uniform(0.3, 1.0)}.get(kind, 0.0)
        if kind != "cut":
            others = []
        plan.faults.append(Fault(kind=kind, at_ns=at, until_ns=until, nodes=some, others=others, amount=amount))
