"""Positions: every place names one event and every event has one place, in all lives of a process."""

from collections import deque
from collections.abc import Sequence
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from whence.core.offsets import Offsets
from whence.store.consumer_offsets import DISPLACED_MAX, ConsumerOffsets
from whence.types import Bundle, EventId


class Fetching:
    """A member that fetches again what was not taken, publisher by publisher, in any order between them."""

    def __init__(self, nodes: int) -> None:
        self.taken = [0] * nodes

    def resume(self, taken: Sequence[int], reported: int, taken_in_part: Sequence[int] = ()) -> None:
        self.taken[:] = taken[: len(self.taken)]

    def place_of(self, pid: int, incarnation: int) -> int:
        return pid


class Consumer:
    """An application that is handed events, takes them and is killed; its numbers survive."""

    def __init__(self, sizes: Sequence[Sequence[int]]) -> None:
        """`sizes`: the events of each message of each publisher."""
        self._sizes = sizes
        self._memory = bytearray(ConsumerOffsets.BYTES)
        self.places: dict[EventId, set[int]] = {}
        self.events: dict[int, set[EventId]] = {}
        self._taken: set[EventId] = set()
        self.begin()

    def begin(self) -> None:
        """Begin a life, as one that was killed goes on."""
        store = ConsumerOffsets(self._memory)
        self._member = Fetching(len(self._sizes))
        self._offsets = Offsets(store, self._member)
        self._offsets.resume()
        self._offsets.resumed()
        self._fetched = list(self._member.taken)
        self._queue: deque[tuple[Bundle, int, int]] = deque()
        self._in_hand: deque[EventId] = deque()

    def deliver(self, node: int) -> None:
        """Deliver the next message of a publisher, if it has one."""
        number = self._fetched[node]
        if number == len(self._sizes[node]):
            return
        self._fetched[node] += 1
        count = self._sizes[node][number]
        first = 1 + sum(self._sizes[node][:number])
        bundle = Bundle(node, 1, first, pack("<I", 1) * count, b"x" * count, b"")
        have, again, position, left = astuple(self._offsets.deliver(bundle))
        assert have + again <= have + left == count
        self._queue.append((bundle, have, position - have))

    def hand(self, events: int) -> None:
        """Hand out events of the first bundle that is here."""
        if not self._queue:
            return
        bundle, begin, base = self._queue.popleft()
        end = min(begin + events, bundle.count)
        self._offsets.hand(bundle, end - begin)
        for at in range(begin, end):
            event = EventId(bundle.pid, bundle.incarnation, bundle.first + at)
            assert event not in self._taken
            self.places.setdefault(event, set()).add(base + at)
            self.events.setdefault(base + at, set()).add(event)
            self._in_hand.append(event)
        if end < bundle.count:
            self._queue.appendleft((bundle, end, base))

    def take(self, events: int) -> None:
        """Take what is in hand, at most so much."""
        events = min(events, len(self._in_hand))
        self._taken |= {self._in_hand.popleft() for _ in range(events)}
        self._offsets.take(events)


SIZES = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=8), min_size=1, max_size=4)
DOINGS = st.lists(st.tuples(st.sampled_from("ddddhhhttk"), st.integers(0, 5)), min_size=30, max_size=80)


@given(SIZES, DOINGS)
def test_a_position_names_one_event_in_all_lives(sizes: list[list[int]], doings: list[tuple[str, int]]) -> None:
    """Whatever is in hand when a process is killed, and whatever comes before it in the next life."""
    consumer = Consumer(sizes)
    for doing, many in doings:
        if doing == "d":
            consumer.deliver(many % len(sizes))
        elif doing == "h":
            consumer.hand(many + 1)
        elif doing == "t":
            consumer.take(many + 1)
        else:
            consumer.begin()
    assert all(len(places) == 1 for places in consumer.places.values())
    assert all(len(events) == 1 for events in consumer.events.values())


@pytest.mark.parametrize("beyond", [0, 10])
def test_beyond_the_limit_what_was_in_hand_gets_new_positions_that_no_event_had(beyond: int) -> None:
    count = DISPLACED_MAX + 1 + beyond
    consumer = Consumer([[1] * count, [1]])
    for life in range(4):
        if life == 1:
            consumer.deliver(1)
            consumer.hand(1)
        for _ in range(count):
            consumer.deliver(0)
            consumer.hand(1)
        consumer.begin()
    assert all(len(events) == 1 for events in consumer.events.values()), "a position never names two"
    assert any(len(places) > 1 for places in consumer.places.values()) is (beyond > 0)


def bundle_of(first: int, count: int, node: int = 0) -> Bundle:
    return Bundle(node, 1, first, pack("<I", 1) * count, b"x" * count, b"")


def test_who_acknowledges_is_told_of_a_bundle_once_when_its_last_event_is_taken() -> None:
    told: list[tuple[Bundle, int]] = []
    offsets = Offsets(None, manual=True)
    offsets.on_taken = lambda bundle, count: told.append((bundle, count))
    one, two = bundle_of(1, 2), bundle_of(3, 2)
    for bundle in (one, two):
        offsets.deliver(bundle)
        offsets.hand(bundle, 2)
    assert (offsets.delivered, offsets.handed, offsets.taken) == (4, 4, 0)
    for taken, wholly in ((1, []), (1, [one]), (1, [one]), (1, [one, two])):
        offsets.take(taken)
        assert told == [(bundle, 2) for bundle in wholly]
    assert offsets.handed == offsets.taken == 4


def test_an_event_in_hand_is_marked_in_a_later_life_though_others_were_left_out_before_it() -> None:
    memory = bytearray(ConsumerOffsets.BYTES)
    offsets, left_out, next_one = Offsets(ConsumerOffsets(memory)), bundle_of(1, 3), bundle_of(4, 2)
    for bundle in (left_out, next_one):
        offsets.deliver(bundle)
    offsets.hand(next_one, 1)
    assert offsets.handed == 4, "what was left out counts with what came after it"
    later = Offsets(ConsumerOffsets(memory))
    later.resume()
    assert [later.deliver(bundle).again for bundle in (left_out, next_one)] == [3, 1]


def test_where_nobody_counts_a_delivery_costs_a_position_and_nothing_is_kept() -> None:
    offsets = Offsets(None)
    assert [astuple(offsets.deliver(bundle_of(first, 3))) for first in (1, 4)] == [(0, 0, 0, 3), (0, 0, 3, 3)]
    assert (offsets.position, offsets.delivered, offsets.handed) == (6, 6, 0)
    assert not offsets.survives
    assert offsets.owed() is None


class Anew(Fetching):
    """A member whose earlier membership has ended: it joins as another one."""

    is_member = False


def test_a_new_membership_begins_with_the_first_event_of_other_messages_in_the_same_places() -> None:
    """What the former one had handed out in part is over, and nothing of the new one passes for it."""
    memory = bytearray(ConsumerOffsets.BYTES)
    former = Offsets(ConsumerOffsets(memory), Fetching(64))
    whole, begun = (Bundle(0, 1, first, pack("<3I", 1, 1, 1), b"abc") for first in (1, 4))
    for bundle in (whole, begun):
        former.deliver(bundle)
        former.hand(bundle, 3 if bundle is whole else 2)
    former.take(4)
    member = Anew(64)
    offsets = Offsets(ConsumerOffsets(memory), member)
    offsets.resume()
    offsets.resumed()
    assert member.taken[0] == 2
    new = Bundle(0, 2, 1, pack("<3I", 1, 1, 1), b"def")
    delivered = offsets.deliver(new)
    assert (delivered.have, delivered.again, delivered.left) == (0, 0, 3)
    offsets.hand(new, 3)
    offsets.take(3)
    assert member.taken[0] == 3
    assert ConsumerOffsets(memory).messages[0] == 3


def test_without_a_store_messages_are_counted_for_a_member_that_must_know() -> None:
    member, taken = Fetching(2), list[int]()
    offsets = Offsets(None, member)
    offsets.on_taken = lambda bundle, count: taken.append(bundle.first)
    bundle = Bundle(1, 1, 1, pack("<2I", 1, 1), b"ab")
    offsets.deliver(bundle)
    offsets.hand(bundle, 1)
    offsets.take(1)
    assert (member.taken, taken) == ([0, 0], [])
    offsets.hand(bundle, 1)
    offsets.take(1)
    assert (member.taken, taken) == ([0, 1], [1])
    assert not offsets.survives
