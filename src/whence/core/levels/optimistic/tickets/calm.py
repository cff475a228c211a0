"""Tickets where nothing fails: Algorithm 1 with every point its theorem needs. For study, and as the yardstick.

Promises: without failures, the intervals of those who act stay disjoint at every step, and cover all tickets whenever
no message is under way; nobody is stuck. Assumes: no process fails, every message arrives once, in any order; somebody
never leaves. The sentence that decides: one acts after the successor has confirmed, serves one change at a time, and a
leaver stops before it says farewell. Source: tickets_twolayer 3; J and TR Algorithm 1; traps B1 to B10, B13.

The fault-tolerant protocol (seat.py) needs none of this; it registers changes with witnesses instead of asking the
successor.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeAlias

from whence.core.levels.optimistic.tickets.records import Claim, covered
from whence.core.ready import Dice


class Place(NamedTuple):
    """A coordinator and where it is."""

    pid: int
    claim: Claim


class Cjoin(NamedTuple):
    """Give me a ticket."""

    nonce: int


class AckCjoin(NamedTuple):
    """It is yours; these are your neighbours."""

    nonce: int
    claim: Claim
    pred: Place
    succ: Place


class Reject(NamedTuple):
    """Not now, not here."""

    nonce: int


class NewSucc(NamedTuple):
    """To a claim: I precede you now."""

    to: Claim
    pred: Place


class AckSucc(NamedTuple):
    """From a claim to a claim: you do."""

    to: Claim
    succ: Claim


class Cleave(NamedTuple):
    """From a claim that has stopped to the one before it: this was my successor."""

    to: Claim
    leaver: Place
    succ: Place
    top: int


class AckCleave(NamedTuple):
    """I have your interval."""

    to: Claim


Word: TypeAlias = Cjoin | AckCjoin | Reject | NewSucc | AckSucc | Cleave | AckCleave
Say: TypeAlias = Callable[[int, Word], None]


NOBODY = Claim(0, 0)
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


STEPS: dict[State, tuple[State, ...]] = {
    State.OUTSIDE: (State.JOINING,),
    State.JOINING: (State.JOINED, State.OUTSIDE),
    State.JOINED: (State.STABLE, State.JOINED),
    State.STABLE: (State.EXCLUSION, State.LEAVING),
    State.EXCLUSION: (State.STABLE, State.EXCLUSION),
    State.LEAVING: (State.OUTSIDE,),
}
"""From each state, those that may follow."""


class CalmPeer:
    """One process."""

    def __init__(self, pid: int, tickets: int, dice: Dice, say: Say) -> None:
        self.pid = pid
        self.state = State.OUTSIDE
        self.claim = NOBODY
        self.succ = Place(pid, self.claim)
        self.pred = Place(pid, self.claim)
        self.top = 0
        self._tickets = tickets
        self._dice = dice
        self._say = say
        self._nonce = 0
        self._deferred: list[tuple[int, Word]] = []

    # --- what it may do ---

    def found(self, ticket: int) -> None:
        """Begin as the only coordinator."""
        self.claim, self.top, self.state = Claim(ticket, 1), 1, State.STABLE
        self.succ = self.pred = Place(self.pid, self.claim)

    def acts_for(self) -> list[int]:
        """Return the tickets it owns or may give away now."""
        if self.state not in (State.STABLE, State.EXCLUSION):
            return []
        return covered(self.claim.ticket, self.succ.claim.ticket, self._tickets)

    def cjoin(self, coordinator: int) -> None:
        """Ask a coordinator for a ticket."""
        self._step(State.JOINING)
        self._nonce += 1
        self._say(coordinator, Cjoin(self._nonce))

    def cleave(self) -> bool:
        """Stop acting and give the interval back; refuse for the last one and while a change is under way."""
        if self.state is not State.STABLE or self.succ.claim == self.claim:
            return False
        self._step(State.LEAVING)
        self._farewell(self.pred)
        return True

    # --- what it hears ---

    def hear(self, sender: int, word: Word) -> None:
        """Take a word; what is for a claim that has not come yet waits for it."""
        to = getattr(word, "to", None)
        if to is not None and to != self.claim:
            if self.state is State.JOINING:
                self._deferred.append((sender, word))
            return
        match word:
            case Cjoin():
                self._serve(sender, word.nonce)
            case AckCjoin():
                self._begin(word)
            case Reject():
                if self.state is State.JOINING and word.nonce == self._nonce:
                    self._step(State.OUTSIDE)
            case NewSucc():
                self._precede(word.pred)
            case AckSucc():
                self._confirm(word.succ)
            case Cleave():
                self._absorb(word)
            case AckCleave():
                if self.state is State.LEAVING:
                    self._step(State.OUTSIDE)
                    self.claim = NOBODY  # what still comes for it is for nobody

    def _serve(self, joiner: int, nonce: int) -> None:
        free = self._grantable()
        if self.state is not State.STABLE or not free:
            self._say(joiner, Reject(nonce))
            return
        self.top += 1
        claim = Claim(free[int(self._dice() * len(free))], self.top)
        before, self.succ = self.succ, Place(joiner, claim)
        self._say(joiner, AckCjoin(nonce, claim, Place(self.pid, self.claim), before))

    def _grantable(self) -> list[int]:
        return self.acts_for()[1:]

    def _begin(self, word: AckCjoin) -> None:
        if self.state is not State.JOINING or word.nonce != self._nonce:
            return
        self._step(State.JOINED)
        self.claim, self.pred, self.succ, self.top = word.claim, word.pred, word.succ, word.claim.epoch
        self._greet()
        deferred, self._deferred = self._deferred, []
        for sender, each in deferred:
            self.hear(sender, each)

    def _greet(self) -> None:
        """Tell the successor that we precede it; alone, there is nobody to tell."""
        if self.succ.claim == self.claim:
            self._step(State.STABLE)
        else:
            self._say(self.succ.pid, NewSucc(self.succ.claim, Place(self.pid, self.claim)))

    def _precede(self, pred: Place) -> None:
        if self.state is State.LEAVING:
            self._farewell(pred)
        else:
            self.pred = pred
            self._say(pred.pid, AckSucc(pred.claim, self.claim))

    def _confirm(self, succ: Claim) -> None:
        if succ == self.succ.claim and self.state in (State.JOINED, State.EXCLUSION):
            self._step(State.STABLE)

    def _absorb(self, word: Cleave) -> None:
        if self.state is State.LEAVING or not self._is_successor(word.leaver):
            return
        self.succ = word.succ
        self.top = max(self.top, word.top)
        self._say(word.leaver.pid, AckCleave(word.leaver.claim))
        self._step(State.JOINED if self.state is State.JOINED else State.EXCLUSION)
        self._greet()

    def _is_successor(self, leaver: Place) -> bool:
        return leaver.claim == self.succ.claim

    def _farewell(self, pred: Place) -> None:
        self._say(pred.pid, Cleave(pred.claim, Place(self.pid, self.claim), self.succ, self.top))

    def _step(self, to: State) -> None:
        assert to in STEPS[self.state], (self.state, to)
        self.state = to
