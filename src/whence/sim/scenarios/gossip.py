"""Scenarios of groups that gossip: what `simulate` runs at the levels eventual and fifo, and the demo's churn."""

from math import ceil, log2

from msgspec import structs

from whence.core.levels.gossip.level import settings_from
from whence.sim.network import NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import Fault, Scenario
from whence.sim.scenarios.request import DRIFTING, Request, evenly, timeline

EVENTS_PER_ROUND = 1
"""For the whole group, so that buffers of the default size suffice for a group of any size."""

SETTLE_ROUNDS = 40
"""Rounds from healing until members that lost each other have met again."""

REACH_MIN = 0.99
"""The part of the expected deliveries that must happen: gossip promises with high probability."""


def rounds_for(nodes: int) -> int:
    """Return how many rounds a bundle should be gossiped so that nearly every member gets it."""
    return max(6, ceil(1.2 * log2(nodes)) - 2)


def simulation(request: Request) -> Scenario:
    """Return the scenario that was asked for. Raises SettingError."""
    settings = {"rounds": rounds_for(request.nodes)} | request.settings
    values = settings_from(settings)
    round_ns = values.gossip.round_ns
    rng = RandomStreams(request.seed).of("workload")
    phases = timeline(request, round_ns // EVENTS_PER_ROUND, SETTLE_ROUNDS * round_ns)
    plan = request.fault_plan(phases.heal_at, rng)
    faulty = request.faulty_events
    deadline = (values.gossip.rounds + values.fifo.hold_rounds + 4) * round_ns
    return Scenario(
        level=request.level, seed=request.seed, nodes=request.nodes, settings=settings,
        network=plan.network, clocks=plan.clocks, faults=plan.faults,
        publishes=evenly(request.nodes, faulty, 0, phases.spacing, rng)
        + evenly(request.nodes, request.events - faulty, phases.live_from, phases.spacing, rng),
        heal_at_ns=phases.heal_at, live_from_ns=phases.live_from, live_until_ns=phases.live_until,
        deadline_ns=deadline, end_at_ns=phases.live_until + deadline, reach_min=REACH_MIN,
    )  # fmt: skip


def churn(level: str, nodes: int, events: int, seed: int) -> Scenario:
    """Return the demo's scenario: members come and go on a network that loses and delays.

    Some crash and come back, some leave, some join, a fifth of the group is cut off for a while, a few stall.
    """
    calm = simulation(Request(level=level, nodes=nodes, events=events, seed=seed))
    round_ns = settings_from(calm.settings).gossip.round_ns
    rng = RandomStreams(seed).of("churn")
    heal_at = events * 2 // 3 * round_ns
    live_from = heal_at + SETTLE_ROUNDS * round_ns
    shift = SETTLE_ROUNDS * round_ns
    publishes = [
        publish if publish.at_ns < heal_at else structs.replace(publish, at_ns=publish.at_ns + shift)
        for publish in calm.publishes
    ]
    shuffled = rng.sample(range(nodes), nodes)
    tenth = max(1, nodes // 10)
    crashing, leaving, stalling, cut_off = (shuffled[at * tenth : (at + 1) * tenth] for at in range(4))

    def sometime() -> int:
        return int((0.1 + 0.6 * rng.random()) * heal_at)

    faults = [
        Fault(kind="crash", at_ns=(at := sometime()), until_ns=at + heal_at // 5, nodes=[pid], between_effects=True)
        for pid in crashing
    ]
    faults += [Fault(kind="leave", at_ns=sometime(), nodes=[pid]) for pid in leaving[: tenth // 2]]
    faults += [Fault(kind="join", at_ns=sometime(), nodes=[nodes + at]) for at in range(tenth)]
    faults.append(Fault(kind="pause", at_ns=heal_at // 3, until_ns=heal_at // 3 + 8 * round_ns, nodes=stalling))
    faults.append(Fault(kind="partition", at_ns=heal_at // 2, until_ns=heal_at * 3 // 4, nodes=cut_off + stalling))
    network = NetworkModel(loss=0.03, duplicate=0.02, reorder=0.05, corrupt=0.002)
    return structs.replace(
        calm, publishes=publishes, faults=faults, network=network, clocks=DRIFTING,
        heal_at_ns=heal_at, live_from_ns=live_from,
        live_until_ns=calm.live_until_ns + shift, end_at_ns=calm.end_at_ns + shift,
    )  # fmt: skip
