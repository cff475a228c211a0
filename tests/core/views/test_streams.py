"""Streams: what an application has taken of numbered messages, some of which are marks that nobody takes."""

from hypothesis import given
from hypothesis import strategies as st

from whence.core.views.items import Message, ViewMark, ViewMessage
from whence.core.views.streams import Stream
from whence.core.views.view import MemberId
from whence.types import Process, packed

kinds = st.lists(st.booleans(), max_size=12)
"""The messages of a stream in order: True for a mark."""


def message(number: int, *, is_mark: bool) -> Message:
    """Return a message of member 7, the only one of its view."""
    if is_mark:
        return ViewMark(0, number, [number - 1], 0, number - 1)
    return ViewMessage(0, 0, [number - 1], 0, False, [], packed(Process(7, 1), number, [b"x"]))


def stream_of(marks: list[bool], start: int = 0) -> Stream:
    """Return a stream in which these messages were got."""
    stream = Stream(MemberId(7, 0), 0, 0, start, 1)
    for number, is_mark in enumerate(marks, start=1):
        stream.get(message(number, is_mark=is_mark), number)
    return stream


def taken_of(marks: list[bool], handed: int, counted: int) -> int:
    """Return the longest prefix whose events were taken, and whose marks were handed out."""
    taken = 0
    for number, is_mark in enumerate(marks, start=1):
        if number > handed or (not is_mark and counted == 0):
            break
        counted -= not is_mark
        taken = number
    return taken


@given(kinds, st.data())
def test_taken_is_the_longest_prefix_of_which_every_event_was_taken(marks: list[bool], data: st.DataObject) -> None:
    """However the application's progress comes: in one step or in many."""
    start = data.draw(st.integers(0, 5))
    stream = stream_of(marks, start)
    counted = 0
    for handed in sorted(data.draw(st.lists(st.integers(0, len(marks)), max_size=6))):
        stream.handed = handed
        events = sum(not is_mark for is_mark in marks[:handed])
        counted = data.draw(st.integers(counted, max(counted, events)))
        stream.take(start + counted)
        assert stream.taken == taken_of(marks, handed, counted)


@given(kinds, st.data())
def test_looking_twice_changes_nothing(marks: list[bool], data: st.DataObject) -> None:
    stream = stream_of(marks)
    stream.handed = data.draw(st.integers(0, len(marks)))
    counted = data.draw(st.integers(0, sum(not is_mark for is_mark in marks[: stream.handed])))
    stream.take(counted)
    before = stream.taken, list(stream.silent)
    stream.take(counted)
    assert (stream.taken, list(stream.silent)) == before


@given(kinds, st.data())
def test_a_message_that_is_skipped_need_not_be_taken(marks: list[bool], data: st.DataObject) -> None:
    """At a strict group a newcomer is not handed what comes before its first key."""
    stream = stream_of(marks)
    skipped = data.draw(st.integers(0, len(marks)))
    for number in range(1, skipped + 1):
        stream.skip(number)
    stream.handed = len(marks)
    events = sum(not is_mark for is_mark in marks[skipped:])
    stream.take(events)
    assert stream.taken == len(marks)


@given(kinds, st.data())
def test_what_a_member_can_supply_ends_with_what_it_got_and_has_no_hole(marks: list[bool], data: st.DataObject) -> None:
    stream = stream_of(marks)
    for number in data.draw(st.sets(st.integers(1, max(1, len(marks))))):
        stream.retained.pop(number, None)
    supplied = range(stream.held_from, stream.got + 1)
    assert all(number in stream.retained for number in supplied)
    assert stream.held_from - 1 not in stream.retained


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=10), st.integers(1, 30))
def test_a_stream_begins_at_the_mark_for_the_newcomer(steps: list[tuple[int, int]], joined: int) -> None:
    stream = Stream(MemberId(7, 0), 0, 0, 0, 1)
    epoch = number = 0
    for epochs, messages in steps:
        number += messages
        stream.seen(ViewMark(0, epoch + epochs, [number - 1], 0, epoch).at())
        if epoch < joined <= epoch + epochs:
            assert stream.base_for(joined) == number
        epoch += epochs
    assert (stream.base_for(joined) is None) == (joined > epoch)


def test_beginning_a_stream_counts_what_came_before_as_got_and_taken() -> None:
    stream = Stream(MemberId(7, 0), 0, 0, 0, None)
    stream.begin_at(5)
    assert (stream.got, stream.taken, stream.handed) == (4, 4, 4)
