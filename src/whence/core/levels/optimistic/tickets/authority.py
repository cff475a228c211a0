"""Authority: whether a coordinator may act now. To act is to publish, to grant a ticket, or to commit a change.

Promises: it acts only while a majority of its witnesses lets it, by its own clock and their echo of it; once leaving or
closed it never acts again.
The sentence that decides: it may act now if it is active and `now` is before the end of the majority's leases.
Without leases it is suspended, not dead: it resumes if nobody fenced it.
Source: docs/papers/optimistic.md 4.4; traps F1, F6, F8, F33.
"""

from enum import Enum

from whence.core.levels.optimistic.tickets.intervals import tickets_of
from whence.core.levels.optimistic.tickets.lease import Leases
from whence.core.levels.optimistic.tickets.records import Processes, Record, TicketEpoch
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.ready import Note
from whence.types import Instant, Process


class SessionState(Enum):
    """Where a coordinator is between its ticket's grant and its end."""

    ACQUIRING = "acquiring"
    """It has a ticket, and no majority of its witnesses has lent it a lease yet."""
    ACTIVE = "active"
    """It has held a lease. It acts, or is suspended where the leases have run out."""
    LEAVING = "leaving"
    """It acts no more, and gives back what it coordinates."""
    CLOSED = "closed"


TRANSITIONS: dict[SessionState, tuple[SessionState, ...]] = {
    SessionState.ACQUIRING: (SessionState.ACTIVE, SessionState.LEAVING, SessionState.CLOSED),
    SessionState.ACTIVE: (SessionState.LEAVING, SessionState.CLOSED),
    SessionState.LEAVING: (SessionState.CLOSED,),
    SessionState.CLOSED: (),
}
"""From each state, those that may follow. A ticket epoch never comes back."""


class Authority:
    """One coordinator's state, its committed record, and the leases its witnesses lent it."""

    leases_type: type[Leases] = Leases

    def __init__(self, record: Record, settings: TicketSettings, now: Instant) -> None:
        self.state = SessionState.ACQUIRING
        self.record = record
        """What is committed."""
        self.leases = self.leases_type(settings.lease_ns)
        self.since = now
        """When the ticket was obtained; once leases have come, when they first did."""
        self.suspended_since = now
        self.announced = 0
        """How many tickets observers believe this process acts for; 0 while it may not act."""
        self._settings = settings

    @property
    def ticket_epoch(self) -> TicketEpoch:
        """Return who this coordinator is."""
        return self.record.ticket_epoch

    @property
    def lease_ns(self) -> int:
        """Return how long a witness's answer is counted on."""
        return self._settings.lease_ns

    def until(self) -> Instant:
        """Return when the majority's leases end."""
        return self.leases.until(self.record.witnesses)

    def may_act(self, now: Instant) -> bool:
        """Tell whether it may publish, grant or commit at this very moment."""
        return self.state is SessionState.ACTIVE and now < self.until()

    def coordinates(self) -> int:
        """Return for how many tickets it acts, its own among them."""
        return len(tickets_of(self.record, self._settings.tickets))

    def take_lease(self, witness: Process, asked_at: Instant, now: Instant) -> None:
        """Take the lease a witness granted to what was asked for then."""
        self.leases.grant(witness, asked_at, now)
        if self.state is SessionState.ACQUIRING and now < self.until():
            self.step(SessionState.ACTIVE)
            self.since = now

    def lenders_missing(self, now: Instant) -> Processes:
        """Return the witnesses whose lease is missing while it may not act."""
        if self.state is SessionState.LEAVING or self.may_act(now):
            return ()
        lease_ns = self._settings.lease_ns
        return tuple([witness for witness in self.record.witnesses if self.leases.last(witness) + lease_ns <= now])

    def step(self, to: SessionState) -> None:
        """Go to another state."""
        assert to in TRANSITIONS[self.state], (self.state, to)
        self.state = to

    # --- what observers are told ---

    def lapse(self, turn: Turn) -> bool:
        """Notice at the beginning of a turn that the leases ended, perhaps long ago; return whether they did."""
        if not self.announced or self.may_act(turn.now):
            return False
        late = turn.now - self.until() if self.state is SessionState.ACTIVE else 0
        self.announced = 0
        self.suspended_since = turn.now
        ticket, epoch = self.ticket_epoch
        turn.ready.notes.append(Note("ticket_suspend", ticket=ticket, epoch=epoch, late_ns=late))
        if late > self._settings.answer_ns:
            turn.note("lease_overslept", ticket, epoch)
        return True

    def announce(self, turn: Turn) -> None:
        """Tell observers at the end of a turn for how many tickets it acts from now on."""
        acts_for = self.coordinates() if self.may_act(turn.now) else 0
        if acts_for == self.announced:
            return
        if not acts_for:
            self.suspended_since = turn.now
        self.announced = acts_for
        kind = "ticket_acquire" if acts_for else "ticket_suspend"
        ticket, epoch = self.ticket_epoch
        turn.ready.notes.append(Note(kind, ticket=ticket, epoch=epoch, value=acts_for or None))

    def announce_release(self, turn: Turn) -> None:
        """Tell observers that it acts no more, for good."""
        if self.announced:
            self.announced = 0
            ticket, epoch = self.ticket_epoch
            turn.ready.notes.append(Note("ticket_release", ticket=ticket, epoch=epoch))
