"""Granting tickets and taking them back: a coordinator serves one joiner or one leaver at a time.

Promises: it gives away no ticket but of its own interval, none that it owns itself, under an epoch nobody has had, and
says so only once that is registered. It takes back only what its own successor releases.
The sentence that decides: it serves while it may act, its successor is confirmed, and no change or walk is under way.
A grant lasts while the coordinator's record names it; one that was closed is void, and its request is served anew. A
joiner whose grant had to be fenced lets others go first for a while: closing it took a whole lease, and one that hears
no answers would keep its coordinator busy for ever.
Source: docs/papers/optimistic.md 4.8, X1; traps B3 to B5, B9, F18, F23 to F25.
"""

from collections.abc import Callable

from msgspec import Struct

from whence.core.clocks.cct import epoch_of
from whence.core.levels.optimistic.tickets.authority import Authority
from whence.core.levels.optimistic.tickets.epochs import Reservation
from whence.core.levels.optimistic.tickets.exclusion import Exclusion
from whence.core.levels.optimistic.tickets.intervals import absorbed, grantable, granted
from whence.core.levels.optimistic.tickets.items import AckAcquireTicket, AckReleaseTicket, ReleaseTicket
from whence.core.levels.optimistic.tickets.known_peers import KnownPeers
from whence.core.levels.optimistic.tickets.record_bytes import pack, unpack
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.levels.optimistic.tickets.registration import ChangeKind, Registration
from whence.core.levels.optimistic.tickets.ring import Ring
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.walk import Walk
from whence.core.ready import RandomSource
from whence.limits import EPOCH_MAX
from whence.types import Instant, Process

ABSORBED_MAX = 16
"""Leavers whose repeated farewells are still answered. Full: the one absorbed first is forgotten."""

UNHEARD_MAX = 64
"""Joiners that did not take up a grant. Full: the one noted first is forgotten."""

UNHEARD_ROUNDS = 8
"""Ticket rounds for which such a joiner lets others go first."""


class Grant(Struct, frozen=True):
    """A ticket given away, to whom, and the answer that says so."""

    joiner: Process
    nonce: int
    ticket_epoch: TicketEpoch
    answer: AckAcquireTicket


class Grants:
    """What one coordinator gives away and takes back."""

    def __init__(
        self,
        authority: Authority,
        registration: Registration,
        ring: Ring,
        exclusion: Exclusion,
        epochs: Reservation,
        peers: KnownPeers,
        settings: TicketSettings,
        rng: RandomSource,
        entry_of: Callable[[int], int],
    ) -> None:
        self.last: Grant | None = None
        self._authority = authority
        self._registration = registration
        self._ring = ring
        self._exclusion = exclusion
        self._epochs = epochs
        self._peers = peers
        self._settings = settings
        self._rng = rng
        self._entry_of = entry_of
        self._absorbed: dict[TicketEpoch, Process] = {}
        """Who released what; the latest is the one being absorbed."""
        self._unheard: dict[Process, Instant] = {}
        """Joiners that did not take up a grant, and until when others go first."""

    def is_busy(self) -> bool:
        """Tell whether a change or a walk is under way."""
        return self._registration.pending is not None or self._exclusion.walk is not None

    def serve(self, joiner: Process, nonce: int, turn: Turn) -> str:
        """Give a joiner a ticket; return "" if that began, or why not: busy or full."""
        last = self.last
        if last is not None and (last.joiner, last.nonce) == (joiner, nonce) and self._stands(last):
            if not self.is_busy() and not self._ring.confirmed:
                turn.post(joiner, last.answer)
            return ""
        if self.is_busy() or not self._authority.may_act(turn.now) or not self._ring.confirmed:
            return "busy"
        if self._unheard.get(joiner, turn.now) > turn.now:
            return "busy"
        free = self._grantable()
        if not free:
            return "full"
        ticket = free[int(self._rng() * len(free))]
        record = self._authority.record
        base = max(record.last_of(ticket), self._entry_of(ticket))
        epoch = max(record.top, epoch_of(base), self._epochs.floor) + 1
        if epoch > EPOCH_MAX:
            return "full"
        if not self._epochs.covers(epoch):
            self._epochs.ask(epoch, turn)
            return "busy"
        self._grant(TicketEpoch(ticket, epoch), base, joiner, nonce, turn)
        return ""

    def _grant(self, ticket_epoch: TicketEpoch, base: int, joiner: Process, nonce: int, turn: Turn) -> None:
        """Begin to register a grant."""
        record = self._authority.record
        predecessors = (record.owner, *self._ring.predecessors)
        witnesses = self._peers.witnesses_for(joiner, predecessors, {}, (), turn.now)
        mine, theirs = granted(record, ticket_epoch, joiner, witnesses, self._settings.tickets)
        self.last = Grant(joiner, nonce, ticket_epoch, AckAcquireTicket(nonce, pack(theirs), base))
        self._registration.propose(ChangeKind.GRANT, mine, turn)

    def _stands(self, grant: Grant) -> bool:
        """Tell whether a grant is being registered, or named by the record; one that was closed is void."""
        pending = self._registration.pending
        registering = pending is not None and pending.kind is ChangeKind.GRANT
        return registering or self._authority.record.succ.ticket_epoch == grant.ticket_epoch

    def _grantable(self) -> list[int]:
        return grantable(self._authority.record, self._settings.tickets)

    def answer(self, kind: ChangeKind, turn: Turn) -> bool:
        """Answer whoever asked for a change that was committed; return whether the new successor may be greeted now."""
        if kind is ChangeKind.GRANT and self.last is not None:
            turn.post(self.last.joiner, self.last.answer)
            return False  # it is greeted with the next round, so that no greeting overtakes its ticket
        if kind is ChangeKind.ABSORB:
            ticket_epoch, leaver = next(reversed(self._absorbed.items()))
            turn.post(leaver, AckReleaseTicket(*ticket_epoch))
        return True

    def on_closed(self, walk: Walk, now: Instant) -> None:
        """Note a joiner that never took up its grant, so that it had to be fenced."""
        if self._ring.confirmed or self.last is None or not walk.hard or self.last.ticket_epoch not in walk.closed:
            return
        self._unheard[self.last.joiner] = now + UNHEARD_ROUNDS * self._settings.ticket_round_ns
        if len(self._unheard) > UNHEARD_MAX:
            del self._unheard[next(iter(self._unheard))]

    def on_release(self, sender: Process, item: ReleaseTicket, turn: Turn) -> None:
        """Take back what the successor gives up; answer repeats."""
        ticket_epoch = TicketEpoch(item.ticket, item.epoch)
        record = self._authority.record
        if ticket_epoch in self._absorbed and record.succ.ticket_epoch != ticket_epoch:
            turn.post(sender, AckReleaseTicket(*ticket_epoch))
            return
        if ticket_epoch != record.succ.ticket_epoch or self.is_busy():
            return
        leaver = unpack(item.record)
        if leaver.ticket_epoch != ticket_epoch or not self._authority.may_act(turn.now):
            return
        self._absorbed[ticket_epoch] = sender
        if len(self._absorbed) > ABSORBED_MAX:
            del self._absorbed[next(iter(self._absorbed))]
        self._registration.propose(ChangeKind.ABSORB, absorbed(record, leaver, self._settings.tickets), turn)
