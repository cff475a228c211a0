"""Scenarios for the rivals, drawn from a seed: the trees, groups and traffic of `causal`, and the faults that each
promises to survive, no others."""

from collections.abc import Callable
from random import Random

from msgspec import structs

from whence.core.levels.causal.tree.overlay import Overlay
from whence.sim.network import NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, Act, Fault, Publish, Scenario
from whence.sim.swarm import tree

DOWN_MS = (50, 1_200)
"""How long a crashed node is down."""


def draw_crashes_within_f(level: str, seed: int) -> Scenario:
    """Return a scenario on ordered links with wrong suspicions, links that are cut, and nodes that crash for a while.

    Of every path of 2f+1 nodes at most f are down at a time, as Delta-Neighbourhood assumes.
    """
    drawn = tree.draw_calm_with_suspicions(level, seed)
    rng = RandomStreams(seed).of("crashes of rivals")
    network = structs.replace(drawn.network, fifo_links=rng.random() < 0.5)
    parents = [-1, *map(int, str(drawn.settings["tree"]).split(","))] if drawn.settings["tree"] else [-1]
    overlay = Overlay(parents, [[0]], int(drawn.settings["f"]))
    faults, acts = list(drawn.faults), _one_at_a_time(drawn.acts)
    down: list[Fault] = []
    if rng.random() < 0.7:
        acts = []
        for _ in range(20):
            fault = _crash(rng, [rng.randrange(drawn.nodes)])
            meanwhile = [other for other in down if other.at_ns < fault.until_ns and fault.at_ns < other.until_ns]
            close = [other for other in meanwhile
                     if overlay.distance(other.nodes[0], fault.nodes[0]) <= 2 * overlay.f]  # fmt: skip
            if len(down) < 3 and len(close) < overlay.f:
                down.append(fault)
        if rng.random() < 0.3:
            one, other = rng.sample(range(drawn.nodes), 2)
            down = [structs.replace(_crash(rng, [one]), kind="cut", others=[other])]
    return structs.replace(drawn, network=network, faults=[*faults, *down], acts=acts)


def _one_at_a_time(acts: list[Act]) -> list[Act]:
    """Return the wrong suspicions that begin when no other lasts: each of them is a fault, and f of these are allowed
    on a path."""
    kept: list[Act] = []
    free_at = 0
    ends: dict[tuple[int, int], list[int]] = {(act.node, act.argument): [] for act in acts if act.name == "trust"}
    for act in acts:
        if act.name == "trust":
            ends[act.node, act.argument].append(act.at_ns)
    for act in sorted(acts, key=lambda act: act.at_ns):
        if act.name == "suspect" and act.at_ns >= free_at:
            free_at = min(end for end in ends[act.node, act.argument] if end > act.at_ns)
            kept += [act, structs.replace(act, name="trust", at_ns=free_at)]
            kept.append(structs.replace(act, name="trust", at_ns=tree.SAFETY_NS + MS))
    return kept


def draw_one_topic(level: str, seed: int) -> Scenario:
    """Return a calm scenario with one topic, of all or some: VCube-PS promises nothing between topics."""
    drawn = tree.draw_calm(level, seed)
    groups = str(drawn.settings["groups"]).split(";")
    group = RandomStreams(seed).of("topic").randrange(len(groups))
    return structs.replace(
        drawn,
        settings=drawn.settings | {"groups": groups[group]},
        publishes=[structs.replace(publish, group=0) for publish in drawn.publishes],
        reactions=[structs.replace(reaction, group=0) for reaction in drawn.reactions],
    )


def draw_crashes(level: str, seed: int) -> Scenario:
    """Return a scenario in which some nodes crash and come back, at most half of them at a time."""
    drawn = tree.draw_calm(level, seed)
    rng = RandomStreams(seed).of("crashes of rivals")
    faults = [fault for fault in drawn.faults if fault.kind != "slow"]
    faults += [
        _crash(rng, rng.sample(range(drawn.nodes), rng.randint(1, max(1, drawn.nodes // 4))))
        for _ in range(rng.choice((0, 1, 2, 3)))
    ]
    network = NetworkModel(latency=drawn.network.latency, fifo_links=True)
    return structs.replace(drawn, faults=faults, network=network)


def draw_lossy(level: str, seed: int) -> Scenario:
    """Return a scenario that loses, doubles and reorders, in which a broker of a cell may crash and come back."""
    drawn = tree.draw_calm(level, seed)
    rng = RandomStreams(seed).of("losses of rivals")
    network = structs.replace(
        drawn.network, loss=rng.choice((0.0, 0.05, 0.2)), duplicate=rng.choice((0.0, 0.1)),
        reorder=rng.choice((0.0, 0.2)), straggle_ns=300 * MS,
    )  # fmt: skip
    faults = [fault for fault in drawn.faults if fault.kind != "slow"]
    for cell in rng.sample(range((drawn.nodes + 1) // 2), rng.choice((0, 1, 2))):
        victim = min(2 * cell + rng.randrange(2), drawn.nodes - 1)
        faults.append(_crash(rng, [victim]))
    more = [Publish(at_ns=at, node=0, group=0) for at in range(0, 2_000 * MS, 250 * MS)]
    return structs.replace(drawn, network=network, faults=faults, publishes=[*drawn.publishes, *more])


def _crash(rng: Random, nodes: list[int]) -> Fault:
    at = rng.randrange(tree.SAFETY_NS - 200 * MS)
    until = min(tree.SAFETY_NS - MS, at + rng.randint(*DOWN_MS) * MS)
    return Fault(kind="crash", at_ns=at, until_ns=until, nodes=nodes)


SWARMS: dict[str, Callable[[str, int], Scenario]] = {
    "cbcast": tree.draw_calm,
    "barriers": tree.draw_calm,
    "neighbourhood": draw_crashes_within_f,
    "vcube": draw_one_topic,
    "scribe": draw_crashes,
    "gryphon": draw_lossy,
    "plumtree": draw_crashes,
    "thicket": draw_crashes,
}
"""The function that draws a rival's scenarios."""
