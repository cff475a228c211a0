"""Scenarios on a tree: what `simulate` runs for `causal` and its rivals, and the demo's tree of groups."""

from typing import Any

from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.topology import overlay_of
from whence.errors import UsageError
from whence.sim.fault_plan import FaultPlan
from whence.sim.lab import spec_of
from whence.sim.network import Latency, NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, SECOND_NS, Fault, Publish, Scenario
from whence.sim.scenarios.request import DRIFTING, Request, timeline

SPACING_NS = 20 * MS
"""The time between two publications of the whole tree."""
SETTLE_NS = 8 * SECOND_NS
DEADLINE_NS = 3 * SECOND_NS
REST_NS = 6 * SECOND_NS
WARM_NS = 3 * SECOND_NS
"""The time in which overlays that are not given build themselves."""


def simulation(request: Request) -> Scenario:
    """Return the scenario that was asked for, at a level whose members have a disk. Raises UsageError."""
    return _simulation(request, sync_ns=MS)


def rival_simulation(request: Request) -> Scenario:
    """Return the scenario that was asked for, at a level without fault tolerance. Raises UsageError."""
    if request.faults != "none":
        raise UsageError(f"--faults: {request.level} survives no faults; give none, or take --level causal")
    return _simulation(request, sync_ns=0)


def repairing_simulation(request: Request) -> Scenario:
    """Return the scenario that was asked for, at a level that builds its overlay first and repairs it after crashes.

    With faults, some members crash and come back, few at a time. Raises UsageError.
    """
    return _simulation(request, sync_ns=0, start=WARM_NS, lossy=False)


def _simulation(request: Request, sync_ns: int, start: int = 0, *, lossy: bool = True) -> Scenario:
    nodes = request.nodes
    settings: dict[str, Any] = {"tree": "binary", "tree_nodes": nodes} | request.settings
    values: Any = spec_of(request.level).settings_from(settings)
    overlay = overlay_of(values.overlay)
    if overlay.size != nodes:
        raise UsageError(f"--nodes: the tree has {overlay.size} nodes, not {nodes}")
    rng = RandomStreams(request.seed).of("workload")
    slack = request.slack_ns(one_by_one=sync_ns == 0)
    phases = timeline(request, SPACING_NS, SETTLE_NS + slack, start)
    faulty = request.faulty_events

    def publications(count: int, start: int) -> list[Publish]:
        return [
            Publish(
                at_ns=start + at * phases.spacing, node=rng.randrange(nodes), group=rng.randrange(overlay.group_count)
            )
            for at in range(count)
        ]  # fmt: skip

    plan = request.plan or FaultPlan(network=NetworkModel(fifo_links=True))
    if request.plan is None and faulty:
        crashes = crashes_within(overlay, max(1, nodes // 6), phases.heal_at, request.seed)
        network = NetworkModel(fifo_links=True, loss=0.05, duplicate=0.02)
        plan = FaultPlan(crashes, network if lossy else NetworkModel(fifo_links=True), DRIFTING)
    rest_at = phases.live_until + REST_NS + slack
    return Scenario(
        level=request.level, seed=request.seed, nodes=nodes, settings=settings,
        network=plan.network, clocks=plan.clocks, faults=plan.faults, sync_ns=sync_ns,
        publishes=publications(faulty, start) + publications(request.events - faulty, phases.live_from),
        heal_at_ns=phases.heal_at, live_from_ns=phases.live_from, live_until_ns=phases.live_until,
        deadline_ns=DEADLINE_NS + slack, rest_at_ns=rest_at, end_at_ns=rest_at + MS,
    )  # fmt: skip


def crashes_within(overlay: Overlay, count: int, end: int, seed: int) -> list[Fault]:
    """Return random crashes such that of every path of 2f+1 nodes at most f are down at a time; all come back."""
    rng = RandomStreams(seed).of("crashes")
    faults: list[Fault] = []
    for _ in range(20 * count):
        if len(faults) == count:
            break
        node, at = rng.randrange(overlay.size), rng.randrange(max(1, end * 3 // 4))
        until = min(end, at + rng.randint(200, 1500) * MS)
        meanwhile = [fault for fault in faults if fault.at_ns < until and at < fault.until_ns]
        close = [fault for fault in meanwhile if overlay.distance(fault.nodes[0], node) <= 2 * overlay.f]
        if len(close) < overlay.f and until > at:
            faults.append(
                Fault(kind="crash", at_ns=at, until_ns=until, nodes=[node], disk="torn", between_effects=bool(at % 2))
            )
    return sorted(faults, key=lambda fault: fault.at_ns)


def crash_recovery(seed: int, nodes: int = 31, events: int = 120) -> Scenario:
    """Return the demo's scenario: subtrees are groups; nodes crash within f, lose what was not synced, and return."""
    settings = {"tree": "binary", "tree_nodes": nodes, "groups": "subtrees"}
    rng = RandomStreams(seed).of("demo")
    end = events * 2 // 3 * SPACING_NS
    live_from = end + SETTLE_NS
    live_until = live_from + events // 3 * SPACING_NS
    values: Any = spec_of("causal").settings_from(settings)
    overlay = overlay_of(values.overlay)
    publishes = [
        Publish(
            at_ns=at * SPACING_NS + (SETTLE_NS if at * SPACING_NS >= end else 0), node=rng.randrange(nodes),
            group=rng.choice((0, 0, rng.randrange(overlay.group_count))),
        )
        for at in range(events)
    ]  # fmt: skip
    return Scenario(
        level="causal", seed=seed, nodes=nodes, settings=settings, publishes=publishes,
        network=NetworkModel(latency=Latency(shape="uniform", low_ns=MS, high_ns=10 * MS), fifo_links=True, loss=0.02),
        faults=crashes_within(overlay, 8, end, seed), sync_ns=2 * MS,
        heal_at_ns=end, live_from_ns=live_from, live_until_ns=live_until, deadline_ns=DEADLINE_NS,
        rest_at_ns=live_until + REST_NS, end_at_ns=live_until + REST_NS + MS,
    )  # fmt: skip
