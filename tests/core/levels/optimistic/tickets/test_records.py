"""Records, intervals and quorums: the algebra that the theorems rest on (docs/papers/optimistic.md 4.2, 4.10)."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.ticket_items import some_record
from whence.core.levels.optimistic.tickets.intervals import absorbed, grantable, granted, taken_over, tickets_of
from whence.core.levels.optimistic.tickets.record_bytes import pack, readable, unpack
from whence.core.levels.optimistic.tickets.records import (
    Pointer,
    Record,
    TicketEpoch,
    blocking,
    covered,
    last_with,
    majority,
    merged_last,
)
from whence.types import Process

SEEDS = st.integers(0, 2**32)
TICKETS = 9


def alone(ticket: int = 4, epoch: int = 3) -> Record:
    ticket_epoch, me = TicketEpoch(ticket, epoch), Process(1, 1)
    return Record(
        ticket_epoch=ticket_epoch, owner=me, generation=1, version=0, top=epoch, witnesses=(Process(2, 1),),
        proposed=(), succ=Pointer(ticket_epoch, me, 0, (Process(2, 1),)),
    )  # fmt: skip


@given(SEEDS)
def test_a_record_is_read_as_it_was_written(seed: int) -> None:
    data = some_record(Random(seed))
    assert readable(data)
    assert pack(unpack(data)) == data


@given(SEEDS, st.data())
def test_bytes_that_are_no_record_are_refused_and_nothing_else_is_raised(seed: int, data: st.DataObject) -> None:
    spoiled = bytearray(some_record(Random(seed)))
    for _ in range(data.draw(st.integers(1, 4))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(spoiled[: data.draw(st.integers(0, len(spoiled)))])
    for each in (bytes(spoiled), cut):
        if readable(each):
            assert pack(unpack(each)) == each
        else:
            with pytest.raises(ValueError, match="no record"):
                unpack(each)


@given(st.integers(1, 40), st.data())
def test_the_intervals_of_a_ring_cover_every_ticket_once(tickets: int, data: st.DataObject) -> None:
    """S_p = {i, i - 1, …, j + 1}, all of them for one alone (optimistic 3; traps B6 and F31)."""
    owned = sorted(data.draw(st.sets(st.integers(0, tickets - 1), min_size=1)), reverse=True)
    ring = list(zip(owned, [*owned[1:], owned[0]], strict=True))
    assert sorted(ticket for own, succ in ring for ticket in covered(own, succ, tickets)) == list(range(tickets))
    assert all(covered(own, succ, tickets)[0] == own for own, succ in ring)


@pytest.mark.parametrize("size", range(1, 10))
def test_a_majority_and_a_blocking_set_always_share_a_witness(size: int) -> None:
    witnesses = tuple(Process(pid, 1) for pid in range(size))
    assert majority(witnesses) + blocking(witnesses) == size + 1
    assert blocking(witnesses) >= 1


@given(st.integers(0, TICKETS - 1), st.data())
def test_a_grant_splits_an_interval_and_taking_it_back_restores_it(own: int, data: st.DataObject) -> None:
    """Theorem 4.2: grant, absorb and takeover keep the intervals disjoint and complete; epochs only grow."""
    before = alone(own)
    ticket = data.draw(st.sampled_from(grantable(before, TICKETS)))
    assert ticket != own, "trap B4"
    mine, theirs = granted(before, TicketEpoch(ticket, before.top + 1), Process(7, 1), (Process(1, 1),), TICKETS)
    assert sorted(tickets_of(mine, TICKETS) + tickets_of(theirs, TICKETS)) == list(range(TICKETS))
    assert theirs.ticket_epoch.epoch == mine.top > before.top
    assert mine.succ.ticket_epoch == theirs.ticket_epoch
    assert mine.beyond == theirs.succ, "kept while the joiner may never have registered anything"
    back = absorbed(mine, theirs, TICKETS)
    assert back.alone()
    assert tickets_of(back, TICKETS) == tickets_of(before, TICKETS)
    assert back.top > mine.top
    fenced = taken_over(mine, None, None, theirs.top + 4, b"", TICKETS)
    assert fenced.alone()
    assert fenced.top == theirs.top + 5


def test_the_last_events_of_a_ticket_travel_with_whoever_coordinates_it() -> None:
    before = taken_over(alone(), None, None, 3, last_with(last_with(b"", 2, 77), 4, 5), TICKETS)
    mine, theirs = granted(before, TicketEpoch(2, before.top + 1), Process(7, 1), (), TICKETS)
    assert (before.last_of(2), mine.last_of(2), theirs.last_of(2)) == (77, 0, 77)
    assert absorbed(mine, theirs, TICKETS).last_of(2) == 77
    assert unpack(pack(mine)).last_of(4) == 5


def test_of_two_lists_of_last_events_the_higher_entries_are_kept() -> None:
    merged = merged_last(last_with(b"", 1, 5), last_with(last_with(b"", 1, 9), 2, 3))
    record = taken_over(alone(), None, None, 3, merged, TICKETS)
    assert (record.last_of(1), record.last_of(2), record.last_of(3)) == (9, 3, 0)
