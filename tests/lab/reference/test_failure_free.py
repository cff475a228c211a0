"""Tickets without failures (docs/papers/optimistic.md 3): no two act for one ticket at any step, none is stuck."""

from random import Random

import pytest

from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence_lab.reference.failure_free import TRANSITIONS, FailureFreePeer, Message, Neighbour, NewSucc, State

TICKETS, PEERS = 6, 6
RUNS, RUNS_LONG = 300, 30_000


class Interleaving:
    """Processes and a bag of messages that arrive in any order; the first founds the cluster and stays."""

    def __init__(self, kind: type[FailureFreePeer], random: Random) -> None:
        self.random = random
        self.bag: list[tuple[int, int, Message]] = []
        self.peers = [kind(pid, TICKETS, random.random, self._outlet(pid)) for pid in range(PEERS)]
        self.peers[0].found(random.randrange(TICKETS))

    def _outlet(self, pid: int):  # type: ignore[no-untyped-def]
        return lambda to, message: self.bag.append((pid, to, message))

    def coordinators(self) -> list[FailureFreePeer]:
        return [peer for peer in self.peers if peer.state is not State.OUTSIDE and peer.state is not State.JOINING]

    def step(self, *, calm: bool = False) -> None:
        draw = self.random.random()
        peer = self.random.choice(self.peers[1:])
        if not calm and draw < 0.25 and peer.state is State.OUTSIDE:
            peer.cjoin(self.random.choice(self.coordinators()).pid)
        elif not calm and draw < 0.4 and peer.state is State.STABLE:
            peer.cleave()
        elif self.bag:
            sender, to, message = self.bag.pop(self.random.randrange(len(self.bag)))
            self.peers[to].hear(sender, message)

    def overlap(self) -> bool:
        acting = [ticket for peer in self.peers for ticket in peer.acts_for()]
        return len(acting) != len(set(acting))

    def live(self, steps: int = 80) -> bool:
        """Run for a while, then let everything arrive; return whether two ever acted for one ticket."""
        for _ in range(steps):
            self.step()
            if self.overlap():
                return True
        while self.bag:
            self.step(calm=True)
            if self.overlap():
                return True
        return False


def test_no_two_act_for_one_ticket_and_nobody_is_stuck(long_mode: bool) -> None:
    """Theorem 4.1, and Lemma 4.1(2) at rest: random interleavings of joins, leaves and messages."""
    for seed in range(RUNS_LONG if long_mode else RUNS):
        run = Interleaving(FailureFreePeer, Random(seed))
        assert not run.live(), seed
        states = [peer.state for peer in run.peers]
        assert set(states) <= {State.OUTSIDE, State.STABLE}, seed
        covered = sorted(ticket for peer in run.peers for ticket in peer.acts_for())
        assert covered == list(range(TICKETS)), seed


class ActsTooEarly(FailureFreePeer):
    """B1: J's Algorithm 1 makes it a coordinator with ACKCJOIN. B2: ACKSUCC sets the successor, undoing grants."""

    def _greet(self) -> None:
        super()._greet()
        if self.state is State.JOINED:
            self.state = State.STABLE

    def _confirm(self, succ: TicketEpoch) -> None:
        for sender_claim in (succ,):
            if sender_claim != self.succ.ticket_epoch:
                self.succ = Neighbour(self.succ.pid, sender_claim)


class AbsorbsAnybody(FailureFreePeer):
    """B3: TR's CLEAVE handler does not ask whether the leaver is its successor."""

    def _is_successor(self, leaver: Neighbour) -> bool:
        return True


class GivesItsOwn(FailureFreePeer):
    """B4: "select t in S" may select its own."""

    def _grantable(self) -> list[int]:
        return self.acts_for()


class LeavesLate(FailureFreePeer):
    """B5: a leaver owns until it is answered."""

    def acts_for(self) -> list[int]:
        if self.state is not State.LEAVING:
            return super().acts_for()
        self.state = State.STABLE
        tickets = super().acts_for()
        self.state = State.LEAVING
        return tickets


@pytest.mark.parametrize("printed", [ActsTooEarly, AbsorbsAnybody, GivesItsOwn, LeavesLate])
def test_the_printed_algorithm_lets_two_act_for_one_ticket_even_without_failures(
    printed: type[FailureFreePeer],
) -> None:
    """optimistic 3: both papers' versions violate their own theorem when taken literally."""
    overlapping = 0
    for seed in range(400):
        try:
            overlapping += Interleaving(printed, Random(seed)).live()
        except AssertionError:
            continue  # it took a step that its own table forbids
    assert overlapping


class NeverDefers(FailureFreePeer):
    """B7: what reaches a joiner before its ticket is lost."""

    def hear(self, sender: int, message: Message) -> None:
        if not (self.state is State.JOINING and isinstance(message, NewSucc)):
            super().hear(sender, message)


def test_words_that_overtake_a_ticket_must_wait_or_neighbours_are_stuck() -> None:
    stuck = 0
    for seed in range(400):
        run = Interleaving(NeverDefers, Random(seed))
        run.live()
        stuck += any(peer.state in (State.JOINED, State.EXCLUSION, State.LEAVING) for peer in run.peers)
    assert stuck


def test_the_last_coordinator_stays_and_a_busy_one_finishes_first() -> None:
    run = Interleaving(FailureFreePeer, Random(1))
    assert not run.peers[0].cleave()
    run.peers[1].cjoin(0)
    sender, to, message = run.bag.pop()
    run.peers[to].hear(sender, message)
    sender, to, message = run.bag.pop()
    run.peers[to].hear(sender, message)
    assert run.peers[1].state is State.JOINED
    assert not run.peers[1].cleave()


def test_every_state_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(State)
