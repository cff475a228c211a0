"""Scenarios for people on a tree: what `simulate` runs for `causal` and its rivals, and the demo's tree of groups."""

from typing import Any

from whence.core.levels.causal.tree.overlay import Overlay, overlay_of
from whence.errors import UsageError
from whence.sim.lab import RIVALS, recipe_of
from whence.sim.load import Load
from whence.sim.network import Latency, NetworkModel
from whence.sim.scenario import SECOND_NS, Clocks, Fault, Publish, Scenario
from whence.sim.streams import Streams

LEVELS = ("causal", *RIVALS)

MS = 1_000_000
SPACING_NS = 20 * MS
"""Between two publications of the whole tree."""
SETTLE_NS = 8 * SECOND_NS
DEADLINE_NS = 3 * SECOND_NS
REST_NS = 6 * SECOND_NS


def simulation(
    level: str,
    nodes: int,
    events: int,
    seed: int,
    faults: str,
    settings: dict[str, Any],
    trouble: Any = None,
    load: Load | None = None,
) -> Scenario:
    """Make a scenario on a tree: two thirds of the events in times of trouble, then healing, then the rest.

    `faults` is none, swarm, or the name of the file that `trouble` was read from. Rivals know no faults. Raises
    UsageError.
    """
    if faults != "none" and level in RIVALS:
        raise UsageError(f"--faults: {level} survives no faults; give none, or take --level causal")
    chosen: dict[str, Any] = {"tree": "binary", "tree_nodes": nodes} | settings
    values: Any = recipe_of(level).settings_from(chosen)
    overlay = overlay_of(values.overlay)
    if overlay.size != nodes:
        raise UsageError(f"--nodes: the tree has {overlay.size} nodes, not {nodes}")
    dice = Streams(seed).of("workload")
    troubled = 0 if faults == "none" else events * 2 // 3
    spacing = (load or Load()).spacing_ns(SPACING_NS)
    heal_at = troubled * spacing
    live_from = heal_at + SETTLE_NS if troubled else 0
    live_until = live_from + (events - troubled) * spacing

    def some(count: int, start: int) -> list[Publish]:
        return [
            Publish(at_ns=start + at * spacing, node=dice.randrange(nodes), group=dice.randrange(overlay.group_count))
            for at in range(count)
        ]

    network, clocks, planned = NetworkModel(fifo_links=True), Clocks(), []
    if trouble is not None:
        network, clocks, planned = trouble.network, trouble.clocks, trouble.faults
    elif troubled:
        network = NetworkModel(fifo_links=True, loss=0.05, duplicate=0.02)
        clocks = Clocks(offset_ns=SECOND_NS, drift_ppm=200)
        planned = crashes_within(overlay, max(1, nodes // 6), heal_at, seed)
    return Scenario(
        level=level, seed=seed, nodes=nodes, settings=chosen, network=network, clocks=clocks, faults=planned,
        publishes=some(troubled, 0) + some(events - troubled, live_from), sync_ns=MS if level == "causal" else 0,
        heal_at_ns=heal_at, live_from_ns=live_from, live_until_ns=live_until, deadline_ns=DEADLINE_NS,
        rest_at_ns=live_until + REST_NS, end_at_ns=live_until + REST_NS + MS,
    )  # fmt: skip


def crashes_within(overlay: Overlay, count: int, end: int, seed: int) -> list[Fault]:
    """Draw crashes so that of every path of 2f+1 nodes at most f are down at a time; all come back."""
    dice = Streams(seed).of("crashes")
    faults: list[Fault] = []
    for _ in range(20 * count):
        if len(faults) == count:
            break
        node, at = dice.randrange(overlay.size), dice.randrange(max(1, end * 3 // 4))
        until = min(end, at + dice.randint(200, 1500) * MS)
        meanwhile = [fault for fault in faults if fault.at_ns < until and at < fault.until_ns]
        close = [fault for fault in meanwhile if overlay.distance(fault.nodes[0], node) <= 2 * overlay.f]
        if len(close) < overlay.f and until > at:
            faults.append(
                Fault(kind="crash", at_ns=at, until_ns=until, nodes=[node], disk="torn", between_effects=bool(at % 2))
            )
    return sorted(faults, key=lambda fault: fault.at_ns)


def recovering(seed: int, nodes: int = 31, events: int = 120) -> Scenario:
    """Make the demo's scenario: subtrees are groups; nodes crash within f, lose what was not synced, and return."""
    settings = {"tree": "binary", "tree_nodes": nodes, "groups": "subtrees"}
    dice = Streams(seed).of("demo")
    end = events * 2 // 3 * SPACING_NS
    live_from = end + SETTLE_NS
    values: Any = recipe_of("causal").settings_from(settings)
    overlay = overlay_of(values.overlay)
    publishes = [
        Publish(
            at_ns=at * SPACING_NS + (SETTLE_NS if at * SPACING_NS >= end else 0), node=dice.randrange(nodes),
            group=dice.choice((0, 0, dice.randrange(overlay.group_count))),
        )
        for at in range(events)
    ]  # fmt: skip
    return Scenario(
        level="causal", seed=seed, nodes=nodes, settings=settings, publishes=publishes,
        network=NetworkModel(latency=Latency(shape="uniform", low_ns=MS, high_ns=10 * MS), fifo_links=True, loss=0.02),
        faults=crashes_within(overlay, 8, end, seed), sync_ns=2 * MS,
        heal_at_ns=end, live_from_ns=live_from, live_until_ns=live_from + events // 3 * SPACING_NS,
        deadline_ns=DEADLINE_NS, rest_at_ns=live_from + events // 3 * SPACING_NS + REST_NS,
        end_at_ns=live_from + events // 3 * SPACING_NS + REST_NS + MS,
    )  # fmt: skip
