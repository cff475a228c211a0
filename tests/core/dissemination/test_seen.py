"""Runs of numbers are the set of numbers they stand for; and arrival order delivers exactly what was not seen."""

from hypothesis import given
from hypothesis import strategies as st

from tests.twins.orders import DumbSeen
from whence.core.dissemination.seen import Seen
from whence.core.levels.gossip.arrival import Arrival
from whence.core.ready import Delivery, Ready
from whence.limits import Limits
from whence.types import Process, packed

ME = Process(1, 1)
YOU = Process(2, 1)
SPANS = st.tuples(st.integers(1, 60), st.integers(0, 6)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(SPANS, max_size=60), st.integers(1, 8))
def test_seen_is_the_set_of_what_was_seen(spans: list[tuple[int, int]], runs_max: int) -> None:
    """And over its bound it gives up the lowest hole: whatever was missing there counts as seen."""
    seen, dumb = Seen(), DumbSeen(runs_max)
    for first, last in spans:
        assert seen.add(first, last, runs_max) == dumb.add(first, last)
        assert list(zip(seen.firsts, seen.lasts, strict=True)) == dumb.runs()
        assert len(seen.firsts) <= runs_max


@given(st.lists(st.integers(1, 30), max_size=80))
def test_no_event_is_delivered_twice_however_often_it_comes(numbers: list[int]) -> None:
    order, ready = Arrival(ME, Limits()), Ready()
    for number in numbers:
        order.admit(packed(YOU, number, [b"x"]), 0, ready)
    delivered = [out.bundle.first for out in ready.deliver if isinstance(out, Delivery)]
    assert sorted(delivered) == sorted(set(numbers))
    assert delivered == list(dict.fromkeys(numbers)), "in the order of first arrival"
    assert [note.reason for note in ready.notes] == ["duplicate"] * (len(numbers) - len(delivered))


def reasons(order: Arrival, process: Process, number: int = 1) -> list[str | None]:
    ready = Ready()
    order.admit(packed(process, number, [b"x"]), 0, ready)
    return [note.reason for note in ready.notes] if ready.notes else ["delivered"] * len(ready.deliver)


def test_a_process_over_the_limit_is_dropped_but_never_oneself() -> None:
    order = Arrival(ME, Limits(senders_max=2))
    assert reasons(order, YOU) == ["delivered"]
    assert reasons(order, Process(3, 1)) == ["senders_max"]
    assert reasons(order, ME) == ["delivered"]


def test_the_oldest_life_of_a_peer_is_closed_for_good_when_there_are_too_many() -> None:
    order = Arrival(ME, Limits(incarnations_per_sender_max=2))
    for incarnation in (2, 3):
        assert reasons(order, Process(7, incarnation)) == ["delivered"]
    assert reasons(order, Process(7, 1)) == ["closed_life"], "older than all that are remembered"
    assert reasons(order, Process(7, 4)) == ["delivered"]
    assert reasons(order, Process(7, 2), 2) == ["closed_life"]
    assert reasons(order, Process(7, 3), 2) == ["delivered"]


def test_arrival_order_waits_for_nothing_and_tells_newcomers_nothing() -> None:
    order, ready = Arrival(ME, Limits()), Ready()
    order.publish(packed(ME, 1, [b"mine"], order.stamp(0)), 0, ready)
    order.tick(10**9, ready)
    order.adopt(order.snapshot())
    assert (order.wake_at(), order.snapshot(), order.stamp(0)) == (None, b"", b"")
    assert len(ready.deliver) == 1


def test_the_gauges_of_arrival_order_tell_its_fullest_moment() -> None:
    order, ready = Arrival(ME, Limits(spans_per_sender_max=3)), Ready()
    for number in (1, 3, 5, 7, 9):
        order.admit(packed(YOU, number, [b""]), 0, ready)
    gauges = {gauge.name: (gauge.value, gauge.bound) for gauge in order.gauges()}
    assert gauges == {"senders": (2, 4096), "spans_per_sender": (3, 3)}
    assert reasons(order, YOU, 2) == ["duplicate"], "the lowest hole was given up"
