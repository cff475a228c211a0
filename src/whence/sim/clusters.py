"""Scenarios of clusters with tickets for people: some members become coordinators, and only they publish."""

from random import Random
from typing import Any, Protocol

from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.levels.optimistic.settings import OptimisticSettings
from whence.errors import UsageError
from whence.sim.load import Load
from whence.sim.network import NetworkModel
from whence.sim.scenario import SECOND_NS, Act, Clocks, Fault, Publish, Scenario
from whence.sim.streams import Streams
from whence.sim.swarm.weather import draw_faults, draw_network

COORDINATORS = 8
"""Members that ask for a ticket, unless there are fewer, or the setting `tickets` is lower."""

REPAIR_ROUNDS = 24
"""Ticket rounds from healing until all tickets are back."""

REACH_MIN = 0.99
"""Gossip promises with high probability."""


class Trouble(Protocol):
    """What goes wrong, and how the network and the clocks are."""

    @property
    def faults(self) -> list[Fault]: ...
    @property
    def network(self) -> NetworkModel: ...
    @property
    def clocks(self) -> Clocks: ...


def simulation(
    nodes: int,
    events: int,
    seed: int,
    faults: str,
    settings: dict[str, Any],
    trouble: Trouble | None = None,
    load: Load | None = None,
) -> Scenario:
    """Make a scenario: tickets are asked for, then two thirds of the events in times of trouble, healing, the rest."""
    values = OptimisticLevel().settings_from(settings)
    load = load or Load()
    if missing := [pid for pid in values.tickets.seed_pids() if pid >= nodes]:
        raise UsageError(
            f"nodes: the seeds of a cluster are among its members, and {nodes} members have no {missing[-1]}; give "
            f"--nodes {missing[-1] + 1} at least, or fewer --set seeds=…"
        )
    owners = list(range(min(nodes, load.coordinators or COORDINATORS, values.tickets.tickets)))
    if load.coordinators is not None and len(owners) < load.coordinators:
        raise UsageError(
            f"coordinators: {nodes} members and {values.tickets.tickets} tickets make {len(owners)} at most, and "
            f"{load.coordinators} were asked for; see --nodes and --set tickets=…"
        )
    dice = Streams(seed).of("workload")
    spacing, ticket_round = load.spacing_ns(values.gossip.round_ns), values.tickets.ticket_round_ns
    start = warm_up(len(owners)) * ticket_round
    troubled = 0 if faults == "none" else events * 2 // 3
    heal_at = start + troubled * spacing if troubled else 0
    live_from = heal_at + REPAIR_ROUNDS * ticket_round if troubled else start
    live_until = live_from + (events - troubled) * spacing
    wait = wait_ns(values)
    drawn, network, clocks = _trouble(faults, trouble, nodes, heal_at, dice)
    return Scenario(
        level="optimistic", seed=seed, nodes=nodes, settings=settings, shape="cluster",
        network=network, clocks=clocks, faults=drawn, acts=asking(owners, ticket_round),
        publishes=_even(owners, troubled, start, spacing, dice)
        + _even(owners, events - troubled, live_from, spacing, dice),
        heal_at_ns=heal_at, live_from_ns=live_from, live_until_ns=live_until, deadline_ns=wait,
        end_at_ns=live_until + wait, reach_min=REACH_MIN,
    )  # fmt: skip


def wait_ns(values: OptimisticSettings) -> int:
    """Return how long an event may take: it spreads, waits, is asked for, and spreads again."""
    rounds = 2 * values.gossip.rounds + values.layer.hold_rounds + values.layer.recover_rounds
    return rounds * values.gossip.round_ns


def warm_up(owners: int) -> int:
    """Return the ticket rounds until so many have tickets: each coordinator lets in one after another."""
    return 6 + 2 * owners


def asking(owners: list[int], ticket_round: int) -> list[Act]:
    """Let members ask for tickets, one per ticket round; the first founds the cluster."""
    return [Act(at_ns=at * ticket_round + 1, node=pid, name="cjoin") for at, pid in enumerate(owners)]


def killed(nodes: int, events: int, seed: int) -> Scenario:
    """Make the demo's scenario: a cluster with churn, in which a coordinator is killed and another one cut off.

    Its ticket is fenced and given to a newcomer; those who were cut off skip what they missed, and are told.
    """
    settings = {"tickets": 8, "rounds": 5, "recovery_bundles": 2}
    values = OptimisticLevel().settings_from(settings)
    ticket_round, spacing = values.tickets.ticket_round_ns, values.gossip.round_ns
    owners = list(range(5))
    start = warm_up(len(owners)) * ticket_round
    length = max(22 * ticket_round, events * spacing)
    heal_at = start + length
    live_from = heal_at + REPAIR_ROUNDS * ticket_round
    live_until = live_from + 30 * spacing
    dice = Streams(seed).of("cluster")

    def at(rounds: int) -> int:
        return start + rounds * ticket_round

    newcomers = [Act(at_ns=at(9), node=5, name="cjoin"), Act(at_ns=at(12), node=6, name="cjoin")]
    publishers = [*owners, 5, 6]
    return Scenario(
        level="optimistic", seed=seed, nodes=nodes, settings=settings, shape="cluster",
        network=NetworkModel(loss=0.02, duplicate=0.02, reorder=0.02),
        clocks=Clocks(offset_ns=SECOND_NS, drift_ppm=200),
        acts=[*asking(owners, ticket_round), *newcomers, Act(at_ns=heal_at - ticket_round, node=3, name="cleave")],
        faults=[
            Fault(kind="crash", at_ns=at(2), nodes=[4]),
            Fault(kind="partition", at_ns=at(3), until_ns=at(8), nodes=[nodes - 1, nodes - 2]),
            Fault(kind="pause", at_ns=at(14), until_ns=at(16), nodes=[nodes - 3]),
        ],
        publishes=_even(publishers, length // spacing, start, spacing, dice)
        + _even(publishers, 30, live_from, spacing, dice),
        heal_at_ns=heal_at, live_from_ns=live_from, live_until_ns=live_until, deadline_ns=wait_ns(values),
        end_at_ns=live_until + wait_ns(values), reach_min=REACH_MIN,
    )  # fmt: skip


def _trouble(
    faults: str, trouble: Trouble | None, nodes: int, end: int, dice: Random
) -> tuple[list[Fault], NetworkModel, Clocks]:
    if trouble is not None:
        return trouble.faults, trouble.network, trouble.clocks
    if faults == "swarm":
        return draw_faults(nodes, max(1, end), dice), draw_network(dice), Clocks(offset_ns=SECOND_NS, drift_ppm=200)
    return [], NetworkModel(), Clocks()


def _even(owners: list[int], events: int, start: int, spacing: int, dice: Random) -> list[Publish]:
    """Spread events evenly over time, each by a coordinator drawn at random."""
    return [
        Publish(at_ns=start + at * spacing + int(dice.random() * spacing), node=dice.choice(owners))
        for at in range(events)
    ]
