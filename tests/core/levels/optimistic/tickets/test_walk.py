"""The walk closes whoever it passes, for certain, and misses nobody.

docs/papers/optimistic.md 4.7; Lemmas A, B and C.
"""

import pytest
from msgspec import structs

from tests.core.levels.optimistic.tickets.test_records import alone
from whence.core.levels.optimistic.tickets.items import (
    AckExclude,
    AckFence,
    Exclude,
    Fresh,
    NotCoordinator,
    Probe,
    RequestFence,
    Stale,
)
from whence.core.levels.optimistic.tickets.record_bytes import pack
from whence.core.levels.optimistic.tickets.records import Pointer, Record, TicketEpoch
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.walk import TRANSITIONS, Found, Stage, Walk
from whence.core.ready import Item
from whence.types import Process

SETTINGS = TicketSettings(tickets=9, seeds="0,1,2", ticket_round_ns=1_000_000, answer_ns=1000)
OWN = TicketEpoch(8, 1)
ME = Process(8, 1)
W1 = tuple(Process(pid, 1) for pid in (10, 11, 12))
W2 = tuple(Process(pid, 1) for pid in (20, 21, 22))


def record_of(ticket: int, epoch: int, succ: Pointer, **changes: object) -> Record:
    fields = {"witnesses": W1, "proposed": (), "succ": succ, "owner": Process(ticket, 1), **changes}
    return structs.replace(alone(ticket, epoch), **fields)


SELF = Pointer(OWN, ME, 0, ())
LAST = record_of(2, 7, SELF)
VICTIM = record_of(5, 4, LAST.pointer(), top=11)


class Path:
    """A walk and everything it said."""

    def __init__(self, first: Record = VICTIM, beyond: Pointer | None = None, own: TicketEpoch | None = OWN) -> None:
        self.said: list[tuple[Process, Item]] = []
        self.walk = Walk(SETTINGS, own, first.pointer(), beyond, {})
        self.now = 0

    def post(self, to: Process, item: Item) -> None:
        self.said.append((to, item))

    def fence(self) -> "Path":
        self.walk.fence(self.now, self.post)
        return self

    def fenced_by(
        self, witness: Process, record: Record | None, ticket_epoch: TicketEpoch = VICTIM.ticket_epoch
    ) -> None:
        self.now += 1
        item = AckFence(*ticket_epoch, pack(record) if record is not None else b"", 1, SETTINGS.wait_ns)
        self.walk.on_ack_fence(witness, item, self.now, self.post)

    def asked(self, kind: type[Item]) -> list[Process]:
        return [to for to, item in self.said if isinstance(item, kind)]


def stage_of(path: Path) -> Stage:
    return path.walk.stage


def test_a_coordinator_is_closed_when_no_majority_of_its_witnesses_is_left() -> None:
    path = Path().fence()
    assert path.asked(RequestFence) == list(W1)
    path.fenced_by(W1[0], VICTIM)
    assert stage_of(path) is Stage.FENCING
    path.fenced_by(W1[0], VICTIM)
    assert stage_of(path) is Stage.FENCING, "the same witness twice is one witness"
    path.fenced_by(W1[2], VICTIM)
    assert stage_of(path) is Stage.ASKING
    assert path.asked(Exclude) == [LAST.owner]


def test_every_witness_set_the_victim_may_count_must_be_blocked() -> None:
    """Lemma A: x installs W' only after a majority of W knew of it, so whoever fences W learns of W'."""
    path = Path().fence()
    changing = VICTIM.next(proposed=W2)
    path.fenced_by(W1[0], changing)
    path.fenced_by(W1[1], changing)
    assert stage_of(path) is Stage.FENCING
    path.fenced_by(W2[0], None)
    assert stage_of(path) is Stage.FENCING
    path.fenced_by(W2[1], None)
    assert stage_of(path) is Stage.ASKING


def test_a_set_that_a_later_record_replaced_need_not_be_blocked() -> None:
    """A record that names W' as installed proves that W is no longer counted, so its dead members do not matter."""
    path = Path().fence()
    path.fenced_by(W1[0], VICTIM.next().next(witnesses=W2))
    path.fenced_by(W2[0], None)
    path.fenced_by(W2[1], None)
    assert stage_of(path) is Stage.ASKING


def test_after_a_hard_close_a_whole_lease_must_pass_since_the_last_fence() -> None:
    """Lemma B and trap F2: on clocks that differ by ρ, D (1 + ρ) / (1 - ρ)."""
    path = Path(record_of(5, 4, SELF)).fence()
    path.fenced_by(W1[0], record_of(5, 4, SELF))
    path.now = 500_000
    path.fenced_by(W1[1], None)
    assert stage_of(path) is Stage.DRAINING
    ends = path.walk.wake_at()
    assert ends == path.now + SETTINGS.wait_ns
    assert SETTINGS.wait_ns * (1 - SETTINGS.drift_max) >= SETTINGS.lease_ns * (1 + SETTINGS.drift_max)
    path.walk.tick(ends - 1, path.post)
    assert stage_of(path) is Stage.DRAINING
    path.walk.tick(ends, path.post)
    assert stage_of(path) is Stage.DONE
    assert path.walk.found is None, "the ring is round: the walker is alone"


def test_a_coordinator_that_says_itself_that_it_is_closed_needs_no_fence_and_no_wait() -> None:
    path = Path(record_of(5, 4, SELF))
    path.walk.ask(0, path.post)
    answer = NotCoordinator(5, 4, False, pack(record_of(5, 4, SELF)))
    path.walk.on_not_coordinator(Process(5, 1), answer, 1, path.post)
    assert (stage_of(path), path.walk.hard) == (Stage.DONE, False)


def test_who_forgot_its_record_is_closed_by_its_witnesses() -> None:
    path = Path()
    path.walk.ask(0, path.post)
    path.walk.on_not_coordinator(VICTIM.owner, NotCoordinator(5, 4, True, b""), 1, path.post)
    assert stage_of(path) is Stage.FENCING


def test_the_walk_ends_at_the_first_that_lives_and_knows_what_lies_beyond_it() -> None:
    path = Path()
    path.walk.ask(0, path.post)
    path.walk.on_ack_exclude(VICTIM.owner, AckExclude(5, 4, False, pack(VICTIM)), 1, path.post)
    assert stage_of(path) is Stage.DONE
    assert path.walk.found == Found(VICTIM.pointer(), VICTIM.succ)


def test_a_ticket_never_registered_is_passed_by_what_its_granter_wrote_of_it() -> None:
    """Trap F23: without the nested pointer the interval behind an unconfirmed joiner would be lost."""
    path = Path(VICTIM, beyond=LAST.pointer()).fence()
    for witness in W1[:2]:
        path.fenced_by(witness, None)
    assert path.asked(Exclude) == [LAST.owner]
    lost = Path(VICTIM, beyond=None).fence()
    for witness in W1[:2]:
        lost.fenced_by(witness, None)
    assert stage_of(lost) is Stage.STUCK


def test_answers_are_matched_by_ticket_and_epoch_never_by_process() -> None:
    """Section 1: a process may have left and come back with another ticket epoch; its old self must still be closed."""
    path = Path()
    path.walk.ask(0, path.post)
    newer = structs.replace(VICTIM, ticket_epoch=TicketEpoch(5, 9))
    path.walk.on_ack_exclude(VICTIM.owner, AckExclude(5, 9, False, pack(newer)), 1, path.post)
    path.walk.on_not_coordinator(VICTIM.owner, NotCoordinator(5, 3, False, b""), 1, path.post)
    assert stage_of(path) is Stage.ASKING
    assert path.walk.found is None
    own_past = Path(record_of(3, 2, SELF, owner=ME), own=OWN)
    own_past.walk.ask(0, own_past.post)
    assert own_past.asked(Exclude) == [ME], "one's own earlier ticket epoch is asked like anybody's"


def test_a_silent_coordinator_is_asked_twice_before_its_witnesses_are() -> None:
    path = Path()
    path.walk.ask(0, path.post)
    for _ in range(2):
        at = path.walk.wake_at()
        assert at is not None
        path.walk.tick(at, path.post)
    assert path.asked(Exclude) == [VICTIM.owner] * 2
    assert stage_of(path) is Stage.FENCING


def test_a_founder_stops_when_anybody_lives_and_goes_round_when_nobody_does() -> None:
    """optimistic 4.9: any coordinator that answers and is not leaving aborts the founding of a generation."""
    path = Path(own=None)
    path.walk.ask(0, path.post)
    path.walk.on_ack_exclude(VICTIM.owner, AckExclude(5, 4, True, pack(VICTIM)), 1, path.post)
    assert stage_of(path) is Stage.ASKING, "a leaver closes itself before long"
    path.walk.on_ack_exclude(VICTIM.owner, AckExclude(5, 4, False, pack(VICTIM)), 1, path.post)
    assert stage_of(path) is Stage.ALIVE
    first = record_of(5, 4, LAST.pointer())
    last = record_of(2, 7, first.pointer(), top=12)
    ring = Path(first, own=None)
    ring.walk.ask(0, ring.post)
    for record in (first, last):
        answer = NotCoordinator(*record.ticket_epoch, False, pack(record))
        ring.walk.on_not_coordinator(record.owner, answer, 1, ring.post)
    assert stage_of(ring) is Stage.DONE
    assert ring.walk.top == 12, "the next generation's epochs begin above"


def test_a_process_an_operator_declared_dead_counts_as_fenced() -> None:
    dead: dict[Process, int] = {}
    walk = Walk(SETTINGS, OWN, record_of(5, 4, SELF).pointer(), SELF, dead)
    walk.fence(0, lambda to, item: None)
    assert walk.waits_for() == W1
    dead[W1[0]] = 100
    walk.tick(SETTINGS.ticket_round_ns, lambda to, item: None)
    assert walk.waits_for() == W1[1:], "one of three is not enough"
    told_at = 10 * SETTINGS.wait_ns
    dead[W1[1]] = told_at
    walk.tick(told_at, lambda to, item: None)
    assert Stage(walk.stage) is Stage.DRAINING
    assert walk.waits_for() == ()
    assert walk.wake_at() == told_at + SETTINGS.wait_ns, "it may have renewed a lease until just before it died"


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_is_in_the_table(stage: Stage) -> None:
    assert stage in TRANSITIONS


def test_who_founds_anew_gives_up_when_most_witnesses_renewed_a_lease_a_moment_ago() -> None:
    """X2: the coordinator lives, whether or not it is heard here, and nobody has been fenced yet."""
    path = Path(own=None)
    path.walk.ask(0, path.post)
    assert path.asked(Probe) == list(W1)
    path.walk.on_fresh(W1[0], Fresh(*VICTIM.ticket_epoch, 1))
    path.walk.on_fresh(W1[0], Fresh(*VICTIM.ticket_epoch, 1))
    assert stage_of(path) is Stage.ASKING, "the same witness twice is one witness"
    path.walk.on_fresh(W1[2], Fresh(*LAST.ticket_epoch, 1))
    assert stage_of(path) is Stage.ASKING, "it speaks of another coordinator"
    path.walk.on_fresh(W1[2], Fresh(*VICTIM.ticket_epoch, 1))
    assert stage_of(path) is Stage.ALIVE
    assert path.asked(RequestFence) == []


def test_witnesses_of_before_lead_to_those_of_now() -> None:
    """X2: a record of long ago names witnesses that were replaced; they know by whom."""
    path = Path(own=None)
    path.walk.ask(0, path.post)
    later = VICTIM.next(proposed=W2).next(witnesses=W2, proposed=())
    path.walk.on_stale(W1[1], Stale(*VICTIM.ticket_epoch, pack(later), 1), path.post)
    assert path.asked(Probe) == [*W1, *W2]
    path.walk.on_fresh(W2[0], Fresh(*VICTIM.ticket_epoch, 1))
    path.walk.on_fresh(W2[1], Fresh(*VICTIM.ticket_epoch, 1))
    assert stage_of(path) is Stage.ALIVE


def test_witnesses_that_were_only_proposed_are_asked_too() -> None:
    """X2: one that was replaced has seen the proposal, and not that it was installed."""
    path = Path(own=None)
    path.walk.ask(0, path.post)
    path.walk.on_stale(W1[1], Stale(*VICTIM.ticket_epoch, pack(VICTIM.next(proposed=W2)), 1), path.post)
    assert path.asked(Probe) == [*W1, *W2]
    path.walk.on_fresh(W2[0], Fresh(*VICTIM.ticket_epoch, 1))
    path.walk.on_fresh(W2[2], Fresh(*VICTIM.ticket_epoch, 1))
    assert stage_of(path) is Stage.ALIVE


def test_so_many_witnesses_as_let_it_act_are_enough_whichever_sets_they_are_of() -> None:
    """X2: the record of the set they form need not be known here; those who hear of it do not show it."""
    path = Path(own=None)
    path.walk.ask(0, path.post)
    path.walk.on_fresh(W1[0], Fresh(*VICTIM.ticket_epoch, 1))
    path.walk.on_stale(W1[1], Stale(*VICTIM.ticket_epoch, pack(VICTIM.next(proposed=W2)), 1), path.post)
    path.walk.on_fresh(W2[0], Fresh(*VICTIM.ticket_epoch, 1))
    assert stage_of(path) is Stage.ALIVE


def waits(path: Path, times: int = 10) -> None:
    """Let time pass in which nobody answers."""
    for _ in range(times):
        path.now += 1000
        path.walk.tick(path.now, path.post)


def test_who_founds_anew_fences_whom_most_witnesses_did_not_hear_lately() -> None:
    """X2: as many must say so as must fence it; one that still hears it does not save it."""
    path = Path(own=None)
    path.walk.ask(0, path.post)
    path.walk.on_fresh(W1[0], Fresh(*VICTIM.ticket_epoch, 1))
    path.walk.on_stale(W1[1], Stale(*VICTIM.ticket_epoch, b"", 1), path.post)
    path.walk.on_stale(W1[2], Stale(*VICTIM.ticket_epoch, b"", 1), path.post)
    waits(path)
    assert stage_of(path) is Stage.FENCING
    assert set(path.asked(RequestFence)) == set(W1)


def test_who_founds_anew_does_not_take_a_witness_it_does_not_hear_for_one_that_heard_nothing() -> None:
    """X2: who is deaf to the coordinators may be deaf to their witnesses too, and be one itself."""
    path = Path(own=None)
    path.walk.ask(0, path.post)
    path.walk.on_fresh(W1[0], Fresh(*VICTIM.ticket_epoch, 1))
    path.walk.on_stale(W1[1], Stale(*VICTIM.ticket_epoch, b"", 1), path.post)
    path.walk.on_stale(W1[2], Stale(*LAST.ticket_epoch, b"", 1), path.post)
    waits(path)
    assert stage_of(path) is Stage.ASKING, "the third was not heard, or spoke of another coordinator"
    assert path.walk.waits_for() == (W1[2],), "and an operator is told whose word is missing"
    assert path.asked(Probe).count(W1[0]) > 2, "who said that it lives is asked again: its lease may end"
    path.walk.on_stale(W1[0], Stale(*VICTIM.ticket_epoch, b"", 1), path.post)
    waits(path)
    assert stage_of(path) is Stage.FENCING, "its lease with the first one has ended since"
