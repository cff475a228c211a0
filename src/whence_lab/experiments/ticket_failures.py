"""Tickets while coordinators fail (J section 4.4): is a newcomer granted one, how soon, and what stood in the way.

A part of a cluster's tickets is in use; a part of their owners crashes at once; a newcomer asks in the same moment.
Witness sets are looked at when the crash happens: a coordinator that has lost more than k of its 2k + 1 witnesses can
neither renew its own lease nor be fenced by others, until its witnesses are back (optimistic 4.4, 4.9).
"""

from msgspec import Struct, structs

from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.levels.optimistic.member import OptimisticMember
from whence.core.levels.optimistic.tickets.items import ITEMS
from whence.core.ready import Ready
from whence.sim.cluster import Cluster
from whence.sim.faults import ScenarioScheduler
from whence.sim.run import describe
from whence.sim.scenario import Act, Fault, Scenario
from whence.sim.scenarios import simulation
from whence.sim.scenarios.tickets import warm_up_rounds
from whence.sim.workload import Workload
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, T_TRUE, Kind
from whence.types import Instant

_AT = COLUMNS_OF[Kind.TICKET_ACQUIRE].index(T_TRUE)
SETTLE_ROUNDS = 2
COUNTED_ROUNDS = 20
"""Ticket rounds over which messages are counted before anything fails."""


class TicketFailures(Struct, frozen=True, kw_only=True):
    """One experiment."""

    tickets: int = 12
    used: int
    """Tickets in use when the crash happens."""
    down: int
    """Of their owners, adjacent in the ring, those that crash."""
    k: int = 2
    rounds: int
    """Ticket rounds until the run ends."""

    def run(self, seed: int) -> "Granted":
        """Run it."""
        joiner, nodes = self.tickets, self.tickets + 1 + 2 * self.k + 2
        given = {"tickets": self.tickets, "k": self.k, "seeds": ",".join(map(str, range(joiner + 1, nodes)))}
        spec = OptimisticLevel(member=CountingMember)
        ticket_round = spec.settings_from(given).tickets.ticket_round_ns
        calm = simulation("optimistic", nodes, 1, seed, "none", given, Workload(coordinators=self.used))
        counted_from = (warm_up_rounds(self.used) + SETTLE_ROUNDS) * ticket_round
        at = counted_from + COUNTED_ROUNDS * ticket_round + seed * 37_000_000 % ticket_round
        crashing = [(seed + each) % self.used for each in range(self.down)]
        scenario = structs.replace(
            calm, acts=[*calm.acts, Act(at_ns=at + 1, node=joiner, name="cjoin")], publishes=[],
            faults=[Fault(kind="crash", at_ns=at, nodes=crashing)] if crashing else [], live_until_ns=0,
            end_at_ns=at + self.rounds * ticket_round,
        )  # fmt: skip
        return self._watched(scenario, spec, counted_from, at, crashing, joiner, ticket_round)

    def _watched(
        self, scenario: Scenario, spec: OptimisticLevel, counted_from: int, at: int, crashing: list[int], joiner: int,
        ticket_round: int,
    ) -> "Granted":  # fmt: skip
        trace = Trace(describe(scenario, spec))
        cluster = Cluster(scenario, spec, trace.rows)
        cluster.start()
        ScenarioScheduler(cluster, scenario).plan()
        cluster.loop.run(counted_from)
        before = _items(cluster)
        cluster.loop.run(at - 1)
        said = (_items(cluster) - before) / max(1, self.used) / ((at - 1 - counted_from) / ticket_round)
        lost = _witnesses_lost(cluster, crashing)
        cluster.loop.run(scenario.end_at_ns)
        granted = [row[_AT] for row in trace.rows[Kind.TICKET_ACQUIRE] if row[0] == joiner]
        return Granted((granted[0] - at) / ticket_round if granted else None, lost, said)


class Granted(Struct, frozen=True):
    """What came of a newcomer's request."""

    after_rounds: float | None
    """Ticket rounds until it had its ticket; None: it had none when the run ended."""
    witnesses_lost: int
    """The most witnesses that any one coordinator lost in the crash."""
    items_per_round: float
    """Ticket items that a coordinator sent in a ticket round before the crash."""


class CountingMember(OptimisticMember):
    """Counts the ticket items it sends to others."""

    items_sent = 0

    def _wake_by(self, ready: Ready, now: Instant) -> Ready:
        self.items_sent += sum(len(send.to) for send in ready.send if isinstance(send.item, ITEMS))
        return super()._wake_by(ready, now)


def _items(cluster: Cluster) -> int:
    members = (process.member for process in cluster.processes.values())
    return sum(member.items_sent for member in members if isinstance(member, CountingMember))


def _witnesses_lost(cluster: Cluster, crashing: list[int]) -> int:
    """Return the most witnesses of one coordinator among those that are about to crash."""
    lost = [0]
    for process in cluster.processes.values():
        member = process.member
        session = member._tickets.coordinator.session if isinstance(member, OptimisticMember) else None
        if session is not None:
            lost.append(sum(witness.pid in crashing for witness in session.authority.record.witnesses))
    return max(lost)
