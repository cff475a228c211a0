"""Witnesses and leases: fences for good, leases counted from the asking.

docs/papers/optimistic.md 4.4; J Lemma 4.4.
"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.core.levels.optimistic.tickets.test_records import alone
from whence.core.levels.optimistic.tickets.items import (
    AckFence,
    Alive,
    Fenced,
    Fresh,
    Probe,
    Renew,
    RequestFence,
    Stale,
)
from whence.core.levels.optimistic.tickets.lease import ALWAYS, NEVER, Leases
from whence.core.levels.optimistic.tickets.memory import Memory
from whence.core.levels.optimistic.tickets.record_bytes import pack
from whence.core.levels.optimistic.tickets.records import majority
from whence.core.levels.optimistic.tickets.witness import RECORDS_PER_TICKET_MAX, Witness
from whence.types import Process

LEASE_NS = 100
WAIT_NS = 105
SINCE = 3
ME = Process(7, SINCE)
W = tuple(Process(pid, 1) for pid in range(3))


def renew(epoch: int, version: int = 0, ticket: int = 4, sent_at: int = 0) -> Renew:
    record = alone(ticket, epoch).next() if version else alone(ticket, epoch)
    return Renew(ticket, epoch, version, sent_at, pack(record), LEASE_NS)


def witness() -> Witness:
    return Witness(9, LEASE_NS, 10 * LEASE_NS, Memory(ME, WAIT_NS, (0, 1, 2)))


def test_a_renewal_is_answered_with_the_askers_own_time() -> None:
    assert witness().renew(renew(3, sent_at=-7), 50) == Alive(4, 3, 0, -7, SINCE)


@given(st.lists(st.tuples(st.sampled_from(("renew", "fence")), st.integers(1, 6), st.integers(0, 5000)), max_size=40))
def test_a_fence_holds_for_good_and_for_every_earlier_epoch(steps: list[tuple[str, int, int]]) -> None:
    """Trap F15: a fence that is forgotten lets two owners act."""
    book, fence, now = witness(), 0, 0
    for kind, epoch, after in steps:
        now += after
        if kind == "fence":
            book.fence(RequestFence(4, epoch), now)
            fence = max(fence, epoch)
        else:
            answer = book.renew(renew(epoch), now)
            assert isinstance(answer, Fenced) == (epoch <= fence)


def test_a_fence_is_never_refused_and_shows_the_latest_record() -> None:
    book = witness()
    book.renew(renew(3), 0)
    book.renew(renew(3, version=1), 1)
    book.renew(renew(3), 2)
    assert book.fence(RequestFence(4, 3), 0) == AckFence(4, 3, renew(3, version=1).record, SINCE, WAIT_NS)
    assert book.fence(RequestFence(4, 5), 0) == AckFence(4, 5, b"", SINCE, WAIT_NS), "an epoch it never heard of"


def test_a_fence_for_one_ticket_leaves_the_others_alone() -> None:
    book = witness()
    book.fence(RequestFence(4, 9), 0)
    assert isinstance(book.renew(renew(3, ticket=5), 0), Alive)
    assert isinstance(book.renew(renew(10), 0), Alive), "a later epoch is another coordinator"


def test_a_probe_tells_who_renewed_within_a_lease_and_what_is_known_of_others() -> None:
    book = witness()
    assert book.probe(Probe(4, 3), 0) == Stale(4, 3, b"", SINCE), "it knows nothing of it"
    book.renew(renew(3), 0)
    assert book.probe(Probe(4, 3), LEASE_NS) == Fresh(4, 3, SINCE)
    assert book.probe(Probe(4, 3), LEASE_NS + 1) == Stale(4, 3, renew(3).record, SINCE)
    book.renew(renew(3), 2 * LEASE_NS)
    book.fence(RequestFence(4, 3), 0)
    assert book.probe(Probe(4, 3), 2 * LEASE_NS) == Stale(4, 3, renew(3).record, SINCE), "fenced, it acts no more"


def test_records_of_old_epochs_make_room_only_when_nobody_can_ask_for_them() -> None:
    book = witness()
    for epoch in range(1, RECORDS_PER_TICKET_MAX + 1):
        assert book.renew(renew(epoch), epoch) is not None
    assert book.renew(renew(50), 20) is None, "all are young: the renewal stays unanswered"
    assert book.renew(renew(50), 20 + 11 * LEASE_NS) is not None
    assert all(gauge.value <= gauge.bound for gauge in book.gauges())


@given(st.integers(0, 2**32))
def test_a_lease_ends_when_a_majority_of_what_was_asked_for_has_ended(seed: int) -> None:
    """optimistic 4.4: valid until D after the send time, on the asker's clock; here against a count by hand."""
    random, leases = Random(seed), Leases(LEASE_NS)
    asked: dict[Process, int] = {}
    for now in range(0, 2000, 50):
        sender = random.choice(W)
        at = now - random.randrange(300)
        leases.grant(sender, at, now)
        asked[sender] = max(at, asked.get(sender, at))
        for probe in range(now - 200, now + 200, 37):
            held = sum(at <= probe < at + LEASE_NS for at in asked.values() if at <= probe)
            if held >= majority(W):
                assert probe < leases.until(W)
            if probe >= max(asked.values()):
                assert (probe < leases.until(W)) == (held >= majority(W))


def test_an_answer_from_the_future_or_from_nobody_lends_nothing() -> None:
    leases = Leases(LEASE_NS)
    leases.grant(W[0], 51, 50)
    leases.grant(W[1], 50, 50)
    assert leases.until(W) == NEVER
    assert leases.until(()) == ALWAYS, "without witnesses nobody can object"


def test_leases_of_former_witnesses_do_not_count() -> None:
    leases = Leases(LEASE_NS)
    for each in W:
        leases.grant(each, 10, 10)
    leases.keep_only(W[:1])
    assert leases.until(W) == NEVER
    assert leases.until(W[:1]) == 110


def test_leases_that_were_dropped_do_not_come_back_with_a_late_answer() -> None:
    leases = Leases(100)
    leases.grant(W[0], 10, 20)
    leases.drop(30)
    assert leases.last(W[0]) == NEVER
    leases.grant(W[0], 29, 40)
    assert leases.last(W[0]) == NEVER
    leases.grant(W[0], 30, 40)
    assert leases.last(W[0]) == 30
