"""Scenarios of merged groups (level total): what `simulate` runs, and the demo's failover between mergers."""

from math import inf

from msgspec import structs

from whence.sim.fault_plan import FaultPlan
from whence.sim.merge_timing import clocks_within_epsilon, deadline_ns, merge_settings, settle_ns
from whence.sim.network import Latency, NetworkModel
from whence.sim.random_faults import draw_faults, draw_network
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, SECOND_NS, Fault, Publish, Scenario
from whence.sim.scenarios.request import OVERHEAD_BYTES, Request, evenly, timeline

SPACING_NS = 10 * MS
"""The time between two publications of the whole group."""

SLACK_NS_MAX = 30 * SECOND_NS
"""What takes longer than this over slow links is left out, and told, by then: there is nothing to go on for."""

WITH_FAULTS = {"delta": 400, "epsilon": 20}
"""Settings under a swarm's network, in ticks of a millisecond: δ covers its slowest links."""


def simulation(request: Request) -> Scenario:
    """Return the scenario that was asked for. Raises SettingError."""
    settings = WITH_FAULTS | request.settings if request.faults == "swarm" else request.settings
    values = merge_settings(settings)
    rng = RandomStreams(request.seed).of("workload")
    phases = timeline(request, SPACING_NS, settle_ns(values))
    plan = request.plan or FaultPlan(clocks=clocks_within_epsilon(values))
    if request.plan is None and request.faults == "swarm":
        network = draw_network(rng)
        drawn = draw_faults(request.nodes, phases.heal_at, rng)
        # A clock that jumps breaks ε, and the order depends on ε.
        plan = FaultPlan([fault for fault in drawn if fault.kind != "clock_jump"], network, plan.clocks)
    faulty, deadline = request.faulty_events, deadline_ns(values)
    slack = min(request.slack_ns(one_by_one=False), SLACK_NS_MAX)
    scenario = Scenario(
        level=request.level, seed=request.seed, nodes=request.nodes, settings=settings,
        network=plan.network, clocks=plan.clocks, faults=plan.faults,
        publishes=evenly(request.nodes, faulty, 0, phases.spacing, rng)
        + evenly(request.nodes, request.events - faulty, phases.live_from, phases.spacing, rng),
        heal_at_ns=phases.heal_at, live_from_ns=phases.live_from, live_until_ns=phases.live_until,
        deadline_ns=deadline, end_at_ns=phases.live_until + deadline + slack,
    )  # fmt: skip
    if slowest_ns(request, phases.spacing) <= values.timing.delta * values.merge.tick_ns:
        return scenario
    # Delays are never within δ, which is what the level promises everything for: what is missing shows nothing.
    return structs.replace(scenario, live_from_ns=0, live_until_ns=0)


def slowest_ns(request: Request, spacing_ns: int) -> float:
    """Return the longest delay of the links that were asked for; endless where publishers send more than they can."""
    work = request.workload
    link_ns = 0.0 if work.latency_ms is None else work.latency_ms * MS
    if work.bandwidth is None:
        return link_ns
    event_ns = (request.nodes - 1) * ((work.payload or 0) + OVERHEAD_BYTES) * 8 * SECOND_NS / work.bandwidth
    return link_ns + event_ns if event_ns < spacing_ns * (work.publishers or request.nodes) else inf


def merger_killed(nodes: int, events: int, seed: int) -> Scenario:
    """Return the demo's scenario: two mergers, one of which crashes for good while everybody publishes."""
    settings = {"mergers": 2, "delta": 150, "epsilon": 5}
    values = merge_settings(settings)
    rng = RandomStreams(seed).of("failover")
    span = events * SPACING_NS
    deadline = deadline_ns(values)
    survivors = [pid for pid in range(nodes) if pid != 1]
    publishes = [
        Publish(at_ns=at * SPACING_NS + int(rng.random() * SPACING_NS), node=rng.choice(survivors))
        for at in range(events)
    ]
    return Scenario(
        level="total", seed=seed, nodes=nodes, settings=settings, clocks=clocks_within_epsilon(values),
        network=NetworkModel(latency=Latency(shape="uniform", low_ns=MS, high_ns=20 * MS), loss=0.02, duplicate=0.02),
        publishes=publishes, faults=[Fault(kind="crash", at_ns=span // 2, nodes=[1])],
        live_from_ns=1, live_until_ns=span, deadline_ns=deadline, end_at_ns=span + deadline,
    )  # fmt: skip
