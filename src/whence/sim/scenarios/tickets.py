"""Scenarios of clusters with tickets (level optimistic): some members become coordinators, and only they publish."""

from random import Random

from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.levels.optimistic.settings import OptimisticSettings
from whence.errors import UsageError
from whence.sim.network import NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import Act, Fault, Publish, Scenario
from whence.sim.scenarios.gossip import REACH_MIN, rounds_for
from whence.sim.scenarios.request import DRIFTING, Request, timeline

COORDINATORS = 8
"""Members that ask for a ticket, unless there are fewer, or the setting `tickets` is lower."""

REPAIR_ROUNDS = 24
"""Ticket rounds from healing until all tickets are back."""


def simulation(request: Request) -> Scenario:
    """Return the scenario that was asked for, after the rounds in which coordinators get tickets. Raises UsageError."""
    settings = {"rounds": rounds_for(request.nodes)} | request.settings
    values = OptimisticLevel().settings_from(settings)
    coordinators = _coordinators(request, values)
    rng = RandomStreams(request.seed).of("workload")
    ticket_round = values.tickets.ticket_round_ns
    start = warm_up_rounds(len(coordinators)) * ticket_round
    phases = timeline(request, values.gossip.round_ns, REPAIR_ROUNDS * ticket_round, start)
    plan = request.fault_plan(phases.heal_at, rng)
    faulty, deadline = request.faulty_events, deadline_ns(values)
    return Scenario(
        level=request.level, seed=request.seed, nodes=request.nodes, settings=settings, shape="cluster",
        network=plan.network, clocks=plan.clocks, faults=plan.faults, acts=ticket_requests(coordinators, ticket_round),
        publishes=_evenly(coordinators, faulty, start, phases.spacing, rng)
        + _evenly(coordinators, request.events - faulty, phases.live_from, phases.spacing, rng),
        heal_at_ns=phases.heal_at, live_from_ns=phases.live_from, live_until_ns=phases.live_until,
        deadline_ns=deadline, end_at_ns=phases.live_until + deadline, reach_min=REACH_MIN,
    )  # fmt: skip


def _coordinators(request: Request, values: OptimisticSettings) -> list[int]:
    """Return the members that ask for tickets. Raises UsageError where the cluster is too small."""
    nodes, wanted, tickets = request.nodes, request.workload.coordinators, values.tickets.tickets
    seeds = values.tickets.seed_pids()
    if max(seeds) >= nodes:
        raise UsageError(
            f"--nodes must be at least {max(seeds) + 1}, not {nodes}: tickets rest on the answers of the seeds "
            f"{','.join(map(str, seeds))}, which must be members; or choose others with --set seeds=…"
        )
    coordinators = list(range(min(nodes, wanted or COORDINATORS, tickets)))
    if wanted is not None and len(coordinators) < wanted:
        raise UsageError(
            f"coordinators: {nodes} members and {tickets} tickets make {len(coordinators)} at most, and "
            f"{wanted} were asked for; see --nodes and --set tickets=…"
        )
    return coordinators


def deadline_ns(values: OptimisticSettings) -> int:
    """Return how long a delivery may take: the event spreads, waits, is requested, and spreads again."""
    rounds = 2 * values.gossip.rounds + values.layer.hold_rounds + values.layer.recover_rounds
    return rounds * values.gossip.round_ns


def warm_up_rounds(coordinators: int) -> int:
    """Return the ticket rounds until all coordinators have tickets: each admits one after another."""
    return 6 + 2 * coordinators


def ticket_requests(coordinators: list[int], ticket_round: int) -> list[Act]:
    """Return requests for tickets, one per ticket round; the first founds the cluster."""
    return [Act(at_ns=at * ticket_round + 1, node=pid, name="cjoin") for at, pid in enumerate(coordinators)]


def coordinator_killed(nodes: int, events: int, seed: int) -> Scenario:
    """Return the demo's scenario: a cluster with churn, in which a coordinator is killed and others are cut off.

    The ticket is fenced and given to a newcomer. Members that were cut off skip what they missed, and report it.
    """
    settings = {"tickets": 8, "rounds": 5, "recovery_bundles": 2}
    values = OptimisticLevel().settings_from(settings)
    ticket_round, spacing = values.tickets.ticket_round_ns, values.gossip.round_ns
    founders = list(range(5))
    start = warm_up_rounds(len(founders)) * ticket_round
    length = max(22 * ticket_round, events * spacing)
    heal_at = start + length
    live_from = heal_at + REPAIR_ROUNDS * ticket_round
    live_until = live_from + 30 * spacing
    deadline = deadline_ns(values)
    rng = RandomStreams(seed).of("cluster")

    def at(rounds: int) -> int:
        return start + rounds * ticket_round

    newcomers = [Act(at_ns=at(9), node=5, name="cjoin"), Act(at_ns=at(12), node=6, name="cjoin")]
    leaver = Act(at_ns=heal_at - ticket_round, node=3, name="cleave")
    publishers = [*founders, 5, 6]
    return Scenario(
        level="optimistic", seed=seed, nodes=nodes, settings=settings, shape="cluster",
        network=NetworkModel(loss=0.02, duplicate=0.02, reorder=0.02), clocks=DRIFTING,
        acts=[*ticket_requests(founders, ticket_round), *newcomers, leaver],
        faults=[
            Fault(kind="crash", at_ns=at(2), nodes=[4]),
            Fault(kind="partition", at_ns=at(3), until_ns=at(8), nodes=[nodes - 1, nodes - 2]),
            Fault(kind="pause", at_ns=at(14), until_ns=at(16), nodes=[nodes - 3]),
        ],
        publishes=_evenly(publishers, length // spacing, start, spacing, rng)
        + _evenly(publishers, 30, live_from, spacing, rng),
        heal_at_ns=heal_at, live_from_ns=live_from, live_until_ns=live_until, deadline_ns=deadline,
        end_at_ns=live_until + deadline, reach_min=REACH_MIN,
    )  # fmt: skip


def _evenly(publishers: list[int], events: int, start: int, spacing: int, rng: Random) -> list[Publish]:
    """Return publications spread evenly over time, each by a coordinator drawn at random."""
    return [
        Publish(at_ns=start + at * spacing + int(rng.random() * spacing), node=rng.choice(publishers))
        for at in range(events)
    ]
