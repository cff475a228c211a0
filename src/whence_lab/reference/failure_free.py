"""Tickets where nothing fails: Algorithm 1 with every point its theorem needs. For study, and as the yardstick.

Promises: without failures, the intervals of those who act stay disjoint at every step, and cover all tickets whenever
no message is in transit; nobody is stuck. Assumes: no process fails, every message arrives once, in any order; somebody
never leaves. The sentence that decides: a coordinator acts after its successor has confirmed and serves one change at a
time, and a leaver stops acting before it sends its farewell. Messages have the paper's names.
Source: docs/papers/optimistic.md 3; J and TR Algorithm 1; traps B1 to B10, B13.

The fault-tolerant protocol (core/levels/optimistic/tickets) needs none of this; it registers changes with witnesses
instead of asking the successor.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeAlias

from whence.core.levels.optimistic.tickets.records import TicketEpoch, covered
from whence.core.ready import RandomSource


class Neighbour(NamedTuple):
    """A coordinator: its process and ticket epoch."""

    pid: int
    ticket_epoch: TicketEpoch


class Cjoin(NamedTuple):
    """Give me a ticket."""

    nonce: int


class AckCjoin(NamedTuple):
    """The ticket is yours; these are your neighbours."""

    nonce: int
    ticket_epoch: TicketEpoch
    pred: Neighbour
    succ: Neighbour


class Reject(NamedTuple):
    """Not now, not here."""

    nonce: int


class NewSucc(NamedTuple):
    """To a ticket epoch: I precede you now."""

    to: TicketEpoch
    pred: Neighbour


class AckSucc(NamedTuple):
    """From a ticket epoch to a ticket epoch: you do."""

    to: TicketEpoch
    succ: TicketEpoch


class Cleave(NamedTuple):
    """From a ticket epoch that has stopped to the one before it: this was my successor."""

    to: TicketEpoch
    leaver: Neighbour
    succ: Neighbour
    top: int


class AckCleave(NamedTuple):
    """I have your interval."""

    to: TicketEpoch


Message: TypeAlias = Cjoin | AckCjoin | Reject | NewSucc | AckSucc | Cleave | AckCleave
Send: TypeAlias = Callable[[int, Message], None]


NOBODY = TicketEpoch(0, 0)
"""No coordinator: epochs begin at 1."""


class State(Enum):
    """Where a process is."""

    OUTSIDE = "outside"
    JOINING = "joining"
    JOINED = "joined"
    """It has a ticket, and its successor does not know yet."""
    STABLE = "stable"
    EXCLUSION = "exclusion"
    """It took in a leaver's interval, and the new successor does not know yet."""
    LEAVING = "leaving"


TRANSITIONS: dict[State, tuple[State, ...]] = {
    State.OUTSIDE: (State.JOINING,),
    State.JOINING: (State.JOINED, State.OUTSIDE),
    State.JOINED: (State.STABLE, State.JOINED),
    State.STABLE: (State.EXCLUSION, State.LEAVING),
    State.EXCLUSION: (State.STABLE, State.EXCLUSION),
    State.LEAVING: (State.OUTSIDE,),
}
"""The states that may follow each state."""


class FailureFreePeer:
    """One process."""

    def __init__(self, pid: int, tickets: int, rng: RandomSource, send: Send) -> None:
        self.pid = pid
        self.state = State.OUTSIDE
        self.ticket_epoch = NOBODY
        self.succ = Neighbour(pid, self.ticket_epoch)
        self.pred = Neighbour(pid, self.ticket_epoch)
        self.top = 0
        self._tickets = tickets
        self._rng = rng
        self._send = send
        self._nonce = 0
        self._deferred: list[tuple[int, Message]] = []

    # --- what it may do ---

    def found(self, ticket: int) -> None:
        """Begin as the only coordinator."""
        self.ticket_epoch, self.top, self.state = TicketEpoch(ticket, 1), 1, State.STABLE
        self.succ = self.pred = Neighbour(self.pid, self.ticket_epoch)

    def acts_for(self) -> list[int]:
        """Return the tickets it owns or may give away now."""
        if self.state not in (State.STABLE, State.EXCLUSION):
            return []
        return covered(self.ticket_epoch.ticket, self.succ.ticket_epoch.ticket, self._tickets)

    def cjoin(self, coordinator: int) -> None:
        """Ask a coordinator for a ticket."""
        self._step(State.JOINING)
        self._nonce += 1
        self._send(coordinator, Cjoin(self._nonce))

    def cleave(self) -> bool:
        """Stop acting and give the interval back; refuse for the last coordinator and while a change is in progress."""
        if self.state is not State.STABLE or self.succ.ticket_epoch == self.ticket_epoch:
            return False
        self._step(State.LEAVING)
        self._farewell(self.pred)
        return True

    # --- what it hears ---

    def hear(self, sender: int, message: Message) -> None:
        """Take a message; one for a ticket epoch that has not come yet waits for it."""
        to = getattr(message, "to", None)
        if to is not None and to != self.ticket_epoch:
            if self.state is State.JOINING:
                self._deferred.append((sender, message))
            return
        match message:
            case Cjoin():
                self._serve(sender, message.nonce)
            case AckCjoin():
                self._begin(message)
            case Reject():
                if self.state is State.JOINING and message.nonce == self._nonce:
                    self._step(State.OUTSIDE)
            case NewSucc():
                self._precede(message.pred)
            case AckSucc():
                self._confirm(message.succ)
            case Cleave():
                self._absorb(message)
            case AckCleave():
                if self.state is State.LEAVING:
                    self._step(State.OUTSIDE)
                    self.ticket_epoch = NOBODY  # what still comes for it is for nobody

    def _serve(self, joiner: int, nonce: int) -> None:
        free = self._grantable()
        if self.state is not State.STABLE or not free:
            self._send(joiner, Reject(nonce))
            return
        self.top += 1
        ticket_epoch = TicketEpoch(free[int(self._rng() * len(free))], self.top)
        before, self.succ = self.succ, Neighbour(joiner, ticket_epoch)
        self._send(joiner, AckCjoin(nonce, ticket_epoch, Neighbour(self.pid, self.ticket_epoch), before))

    def _grantable(self) -> list[int]:
        return self.acts_for()[1:]

    def _begin(self, message: AckCjoin) -> None:
        if self.state is not State.JOINING or message.nonce != self._nonce:
            return
        self._step(State.JOINED)
        self.ticket_epoch, self.top = message.ticket_epoch, message.ticket_epoch.epoch
        self.pred, self.succ = message.pred, message.succ
        self._greet()
        deferred, self._deferred = self._deferred, []
        for sender, each in deferred:
            self.hear(sender, each)

    def _greet(self) -> None:
        """Notify the successor that we precede it; a single coordinator has none."""
        if self.succ.ticket_epoch == self.ticket_epoch:
            self._step(State.STABLE)
        else:
            self._send(self.succ.pid, NewSucc(self.succ.ticket_epoch, Neighbour(self.pid, self.ticket_epoch)))

    def _precede(self, pred: Neighbour) -> None:
        if self.state is State.LEAVING:
            self._farewell(pred)
        else:
            self.pred = pred
            self._send(pred.pid, AckSucc(pred.ticket_epoch, self.ticket_epoch))

    def _confirm(self, succ: TicketEpoch) -> None:
        if succ == self.succ.ticket_epoch and self.state in (State.JOINED, State.EXCLUSION):
            self._step(State.STABLE)

    def _absorb(self, message: Cleave) -> None:
        if self.state is State.LEAVING or not self._is_successor(message.leaver):
            return
        self.succ = message.succ
        self.top = max(self.top, message.top)
        self._send(message.leaver.pid, AckCleave(message.leaver.ticket_epoch))
        self._step(State.JOINED if self.state is State.JOINED else State.EXCLUSION)
        self._greet()

    def _is_successor(self, leaver: Neighbour) -> bool:
        return leaver.ticket_epoch == self.succ.ticket_epoch

    def _farewell(self, pred: Neighbour) -> None:
        self._send(pred.pid, Cleave(pred.ticket_epoch, Neighbour(self.pid, self.ticket_epoch), self.succ, self.top))

    def _step(self, to: State) -> None:
        assert to in TRANSITIONS[self.state], (self.state, to)
        self.state = to
