"""J's experiments with its two layers (section 6): PrCast below, optimistic causal delivery above, coordinators fixed.

J measures clusters whose coordinators hold their tickets from the beginning. Here too tickets are dealt at the start
and kept; the ticket protocol is not run. Every ticket has been used before the run, as in a cluster that has been up
for a while, so that every stamp has all its entries from the first event on.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from whence.core.clocks.cct import Stamp, entry_of
from whence.core.dissemination.gossip import PrCast
from whence.core.level import BuildContext
from whence.core.levels.optimistic.delivery import TwoLayerDelivery
from whence.core.levels.optimistic.held import HeldBundle
from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.levels.optimistic.missing import Id, entries_in
from whence.core.levels.optimistic.recovery import Recover, Recovered
from whence.core.levels.optimistic.settings import OptimisticSettings
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.membership.full_view import FullView
from whence.core.ready import Item, Note, Ready
from whence.core.staged import Lifecycle, StagedMember
from whence.errors import NotCoordinatorError
from whence.sim.network import Latency, NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.run import run
from whence.sim.scenario import Publish, Scenario
from whence.trace.memory import Trace
from whence.trace.schema import (
    COLUMNS_OF,
    M_PID,
    NODE,
    PAYLOAD_BYTES,
    PEER,
    REASON,
    STAMP_BYTES,
    T_TRUE,
    VALUE,
    Kind,
)
from whence.types import Bundle, Instant, Process

EPOCH = 1
USED_BEFORE = 1000
"""Events of every ticket before the run. Beyond 255 an entry's width on the wire no longer changes."""

GOSSIP_ALONE = "gossip only"
"""In place of a recovery mode: no causality layer."""

IDS_ASKED, IDS_DELIVERED = "ids_asked", "ids_delivered"
"""Notes: how many ids a bundle's wait made its holder ask for; how many of those it delivered in the end."""


class CountingDelivery(TwoLayerDelivery):
    """The causality layer; it also notes how many ids it asks for, and how many of them it delivers."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._wanted: dict[Id, None] = {}

    def _ask(self, key: Id, early: HeldBundle, now: Instant, ready: Ready) -> None:
        super()._ask(key, early, now, ready)
        if early.asked:
            self._wanted |= dict.fromkeys(early.asked)
            ready.notes.append(Note("note", IDS_ASKED, value=len(early.asked)))

    def _deliver(self, bundle: Bundle, stamp: Stamp, hold_ns: int, ready: Ready) -> None:
        super()._deliver(bundle, stamp, hold_ns, ready)
        came = [entry for entry in entries_in(stamp) if self._wanted.pop((stamp.ticket, entry), 0) is None]
        if came:
            ready.notes.append(Note("note", IDS_DELIVERED, value=len(came)))


class ByArrival(CountingDelivery):
    """Gossip alone, by J's count: every event is delivered as it comes, and one that comes after an event which
    follows it is lost (J section 6, optimistic C15)."""

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver it unless it is too late for its order."""
        stamp = self._take_in(bundle, ready)
        if stamp is not None:
            self.publishers.report_skipped(stamp, self.clock, ready)
            self._deliver(bundle, stamp, 0, ready)


class DealtMember(StagedMember):
    """A member whose ticket, if it has one, is the one with its own number."""

    def __init__(self, me: Process, delivery: TwoLayerDelivery, spread: PrCast, members: FullView, tickets: int,
                 limits: Any) -> None:  # fmt: skip
        super().__init__(me, delivery, spread, members, limits)
        self.delivery = delivery
        self._tickets = tickets

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Begin with all that was published before the run."""
        self.delivery.clock[:] = [entry_of(EPOCH, USED_BEFORE)] * self._tickets
        ready = super().found(peers, now)
        if self.me.pid < self._tickets:
            self.delivery.epoch.begin(TicketEpoch(self.me.pid, EPOCH), 0)
            ready.notes.append(Note("ticket_acquire", ticket=self.me.pid, epoch=EPOCH, value=1))
        return ready

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish under the ticket. Raises NotCoordinatorError without one."""
        if self.delivery.epoch.ticket_epoch is None:
            raise NotCoordinatorError("no ticket was dealt to it", None)
        return super().publish(payloads, now)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take what recovery exchanges here, all else as any member does."""
        if not isinstance(item, Recover | Recovered):
            return super().receive(sender, item, now)
        ready = Ready()
        if self.lifecycle is Lifecycle.MEMBER:
            self.delivery.receive(sender, item, now, ready)
        return self._wake(ready)


class DealtLevel(NamedTuple):
    """Level optimistic with dealt tickets."""

    delivery: Callable[..., TwoLayerDelivery] = CountingDelivery

    def settings_from(self, given: Mapping[str, Any]) -> OptimisticSettings:
        """Make settings from values by name. Raises SettingError."""
        return OptimisticLevel().settings_from(given)

    def build(self, me: Process, settings: OptimisticSettings, around: BuildContext) -> DealtMember:
        """Compose a member."""
        round_ns, tickets = settings.gossip.round_ns, settings.tickets.tickets
        delivery = self.delivery(me, tickets, settings.layer, round_ns, settings.limits)
        members = FullView(me, settings.views, round_ns, around.rng, delivery.snapshot, around.directory)
        spread = PrCast(members, settings.gossip, around.rng, around.now)
        delivery.requests.targets = members.targets
        delivery.publishers.owner_of = lambda ticket_epoch: Process(ticket_epoch.ticket, 1)
        return DealtMember(me, delivery, spread, members, tickets, settings.limits)

    def first_peers(self, settings: OptimisticSettings) -> int:
        """Return 0: the directory knows everybody."""
        return 0

    def reads_wall_clock(self, settings: object) -> bool:
        """Return False: rounds must not jump."""
        return False


class Experiment(Struct, frozen=True, kw_only=True):
    """One run: J's parameters under J's names where it has any."""

    members: int
    coordinators: int
    events_per_round: float
    """n · p of J: of the whole cluster."""
    round_ns: int
    rounds: int
    """Measured; more run before and after, until the cluster is as full, and as empty, as it gets."""
    recovery: str = "R1"
    """R1, Rk, R1+Rk, none, or GOSSIP_ALONE."""
    recovery_fanout: int = 4
    recovery_bundles: int = 512
    fanout: int = 4
    hops: int = 5
    gossip_events: int = 20
    history: int = 40
    payload: int = 64
    latency_ns: tuple[int, int] = (500_000, 2_500_000)
    bandwidth_bps: int = 0
    loss: float = 0.0

    @property
    def warm_up(self) -> int:
        """Return the rounds before those that are measured: two spreads."""
        return 2 * self.hops

    def window_ns(self) -> tuple[int, int]:
        """Return when the measured rounds begin and end."""
        return self.warm_up * self.round_ns, (self.warm_up + self.rounds) * self.round_ns

    def level(self) -> DealtLevel:
        """Return the parts of its members."""
        return DealtLevel(ByArrival if self.recovery == GOSSIP_ALONE else CountingDelivery)

    def scenario(self, seed: int) -> Scenario:
        """Return the run: every coordinator publishes in every round with probability p, or p times where p > 1."""
        rng = RandomStreams(seed).of("two-layer workload")
        chance = self.events_per_round / self.coordinators
        last = self.warm_up + self.rounds + self.hops
        publishes = [
            Publish(at_ns=int((at + rng.random()) * self.round_ns), node=node, size=self.payload)
            for at in range(last)
            for node in range(self.coordinators)
            for _ in range(int(chance) + (rng.random() < chance % 1))
        ]
        mode = "none" if self.recovery == GOSSIP_ALONE else self.recovery
        low, high = self.latency_ns
        return Scenario(
            level="optimistic", seed=seed, nodes=self.members, publishes=publishes,
            settings={
                "tickets": self.coordinators, "seeds": "0,1,2,3", "view": "full", "fanout": self.fanout,
                "rounds": self.hops, "round_ns": self.round_ns, "gossip_bundles": self.gossip_events,
                "buffer_bundles": self.gossip_events, "history": self.history, "hold_rounds": self.hops,
                "recover_rounds": self.hops, "recovery": mode, "recovery_fanout": self.recovery_fanout,
                "recovery_bundles": self.recovery_bundles, "idle_rounds": 255,
            },
            network=NetworkModel(
                latency=Latency(shape="uniform", low_ns=low, high_ns=high), bandwidth_bps=self.bandwidth_bps,
                bandwidth_both_ways=bool(self.bandwidth_bps), fifo_links=True, loss=self.loss,
            ),
            end_at_ns=(last + 4 * self.hops) * self.round_ns,
        )  # fmt: skip

    def run(self, seed: int) -> "Observed":
        """Run it."""
        return Observed(self, run(self.scenario(seed), self.level()).trace)


_SENT = COLUMNS_OF[Kind.SEND]
_NOTE = COLUMNS_OF[Kind.NOTE]
_AT, _NODE, _PEER = _SENT.index(T_TRUE), _SENT.index(NODE), _SENT.index(PEER)
_STAMP, _PAYLOAD = _SENT.index(STAMP_BYTES), _SENT.index(PAYLOAD_BYTES)
_ID = COLUMNS_OF[Kind.PUBLISH].index(M_PID)
_REASON, _VALUE = _NOTE.index(REASON), _NOTE.index(VALUE)
assert COLUMNS_OF[Kind.DELIVER].index(M_PID) == _ID


class Observed:
    """What the trace of a run shows of its measured rounds: of the events published in them, and of the messages."""

    def __init__(self, experiment: Experiment, trace: Trace) -> None:
        self._of = experiment
        self._rows = trace.rows
        self._begin, self._end = experiment.window_ns()
        self._published = {
            row[_ID : _ID + 3]: row[_AT] for row in trace.rows[Kind.PUBLISH] if self._begin <= row[_AT] < self._end
        }
        self._delays = [
            (row[_AT] - self._published[row[_ID : _ID + 3]], row[_NODE] == row[_ID])
            for row in trace.rows[Kind.DELIVER]
            if row[_ID : _ID + 3] in self._published
        ]

    @property
    def seconds(self) -> float:
        """Return how long the measured rounds took."""
        return (self._end - self._begin) / 1e9

    def throughput(self) -> float:
        """Return the events that a member delivers in a second."""
        return len(self._delays) / self._of.members / self.seconds

    def latency_ms(self) -> float:
        """Return the mean time from publication to delivery at other members."""
        others = [delay for delay, own in self._delays if not own]
        return float(sum(others)) / max(1, len(others)) / 1e6

    def owed(self) -> int:
        """Return the deliveries at other members if nothing were lost."""
        return len(self._published) * (self._of.members - 1)

    def loss(self) -> float:
        """Return the part of the deliveries at other members that did not happen."""
        return 1 - sum(not own for _, own in self._delays) / max(1, self.owed())

    def message_bytes(self) -> float:
        """Return the mean size of a message: what it carries and what it adds."""
        sizes = [
            row[_STAMP] + row[_PAYLOAD] for row in self._rows[Kind.SEND] if self._begin <= row[_AT] < self._end
        ]  # fmt: skip
        return float(sum(sizes)) / max(1, len(sizes))

    def noted(self, reason: str, *, measured: bool = False) -> int:
        """Return the sum of a note's values over the whole run, or over the measured rounds."""
        rows = [row for row in self._rows[Kind.NOTE] if row[_REASON] == reason]
        return sum(row[_VALUE] or 0 for row in rows if not measured or self._begin <= row[_AT] < self._end)

    def transfers_ns(self) -> list[int]:
        """Return how long each message of the measured rounds took from its sender's round to its receiver's hand.

        Links keep their order and lose nothing here, so the n-th message sent on a link is the n-th that came.
        """
        waiting: dict[tuple[int, int], deque[int]] = {}
        for row in self._rows[Kind.SEND]:
            waiting.setdefault((row[_NODE], row[_PEER]), deque()).append(row[_AT])
        taken = []
        for row in self._rows[Kind.RECV]:
            sent_at = waiting[row[_PEER], row[_NODE]].popleft()
            if self._begin <= sent_at < self._end:
                taken.append(row[_AT] - sent_at)
        return sorted(taken)

    def failed_connections(self) -> float:
        """Return the part of the messages that took longer than a round: J's senders give up then (section 6.1)."""
        transfers = self.transfers_ns()
        return sum(each > self._of.round_ns for each in transfers) / max(1, len(transfers))


FAILURES = 0.002
"""J tunes rounds so that 0.2 % of all TCP connections fail (section 6.2)."""

TUNED_WITHIN = 1.5
"""Tuning ends when the rate of a probe is within this factor of FAILURES."""
PROBES_MAX = 10
"""By then a bisection has come to a thousandth of where it began; what is left is chance."""
PROBE_MESSAGES = 8000
"""So many transfers show 16 failures where two in a thousand fail."""


def rounds_for(experiment: Experiment, messages: int) -> int:
    """Return the rounds in which a cluster sends so many messages."""
    return -(-messages // (experiment.members * experiment.fanout))


def tuned_round_ns(experiment: Experiment, seed: int) -> int:
    """Return the round length with which about FAILURES of all messages take longer than a round.

    Shorter rounds overlap more and make transfers longer; so the length is between that of a probe and the one that
    its transfers ask for. Bisect; every probe is a run of its own.
    """
    round_ns, rounds = experiment.round_ns, rounds_for(experiment, PROBE_MESSAGES)
    ends: list[tuple[int, int]] = []
    for probe in range(PROBES_MAX):
        seen = with_round(experiment, round_ns, rounds).run(seed + 1 + probe)
        if FAILURES / TUNED_WITHIN <= seen.failed_connections() <= FAILURES * TUNED_WITHIN:
            break
        transfers = seen.transfers_ns()
        asked = transfers[int(len(transfers) * (1 - FAILURES))]
        ends.append((min(round_ns, asked), max(round_ns, asked)))
        round_ns = (max(low for low, _ in ends) + min(high for _, high in ends)) // 2
    return round_ns


def with_round(experiment: Experiment, round_ns: int, rounds: int) -> Experiment:
    """Return an experiment with another length and number of rounds."""
    return structs.replace(experiment, round_ns=round_ns, rounds=rounds)
