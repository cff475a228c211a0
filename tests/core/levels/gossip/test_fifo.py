"""Each sender's events in the order it published them (gossip 3.2)."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.orders import DumbFifo, Outcome
from whence.core.levels.gossip.fifo import SEQ_END, Fifo
from whence.core.ready import Delivery, Gap, Ready
from whence.limits import INCARNATION_MAX, PEER_ID_MAX, SEQ_MAX, Limits
from whence.types import Bundle, Process, Span, packed

ME = Process(1, 1)
YOU = Process(2, 1)
HOLD_NS = 10
CUTS = (1, 2, 5, 6, 9, 10, 11, 15)
"""Where every sender's bundles begin, and the last one ends: bundles of one to four events."""

STREAM = list(pairwise(CUTS))


def bundle_of(process: Process, number: int) -> Bundle:
    first, end = STREAM[number]
    return packed(process, first, [b"x" * seq for seq in range(first, end)])


def outcomes(ready: Ready) -> list[Outcome]:
    out: list[Outcome] = []
    for each in ready.deliver:
        if isinstance(each, Delivery):
            bundle = each.bundle
            out.append(("delivered", bundle.process, list(range(bundle.first, bundle.last + 1))))
        else:
            assert isinstance(each, Gap)
            out += [
                ("gap", Process(span.pid, span.incarnation), list(range(span.first, span.last + 1)))
                for span in each.spans
            ]
    for note in ready.notes:
        assert note.bundle is not None
        out.append(("dropped", note.bundle.process, list(range(note.bundle.first, note.bundle.last + 1))))
    return out


Arrive = tuple[Process, int]
ARRIVALS = st.tuples(
    st.builds(Process, st.integers(1, 4), st.integers(1, 4)),
    st.integers(0, len(STREAM) - 1),
)
STEPS = st.lists(st.one_of(ARRIVALS, ARRIVALS, ARRIVALS, st.integers(0, HOLD_NS)), max_size=80)
LIMITS = st.builds(
    Limits,
    senders_max=st.integers(1, 4),
    incarnations_per_sender_max=st.integers(1, 3),
    held_bundles_max=st.integers(1, 6),
    held_bytes_max=st.integers(1, 80),
)


def run(fifo: Fifo, steps: Sequence[Arrive | int]) -> list[list[Outcome]]:
    """Take the steps: an arrival, or so much time and a tick. Return what each caused."""
    now, caused = 0, []
    for step in steps:
        ready = Ready()
        if isinstance(step, int):
            now += step
            fifo.tick(now, ready)
        else:
            fifo.admit(bundle_of(*step), now, ready)
        caused.append(outcomes(ready))
    return caused


@settings(max_examples=max(400, settings().max_examples))
@given(STEPS, st.one_of(LIMITS, st.just(Limits())))
def test_fifo_does_what_its_dumb_twin_does(steps: list[Arrive | int], limits: Limits) -> None:
    fifo, dumb, now = Fifo(ME, limits, HOLD_NS), DumbFifo(ME, limits, HOLD_NS), 0
    for step in steps:
        ready = Ready()
        if isinstance(step, int):
            now += step
            fifo.tick(now, ready)
            expected = dumb.tick(now)
        else:
            fifo.admit(bundle_of(*step), now, ready)
            expected = dumb.admit(bundle_of(*step), now)
        assert outcomes(ready) == expected
        assert fifo.wake_at() == dumb.wake_at()
        gauges = {gauge.name: gauge.value for gauge in fifo.gauges()}
        assert gauges["held_bundles"] == len(dumb.waiting)
        assert gauges["held_bytes"] == sum(len(each.bundle.body) for each in dumb.waiting)
        assert all(gauge.value <= gauge.bound for gauge in fifo.gauges())


@settings(max_examples=max(400, settings().max_examples))
@given(STEPS, st.one_of(LIMITS, st.just(Limits())))
def test_no_event_comes_after_a_later_one_and_every_jump_is_a_gap(steps: list[Arrive | int], limits: Limits) -> None:
    """Of each process, delivered and skipped events together are 1, 2, 3, … without hole or repetition."""
    fifo = Fifo(ME, limits, HOLD_NS)
    told: dict[Process, list[int]] = {}
    for step in run(fifo, steps):
        for kind, process, numbers in step:
            if kind != "dropped":
                assert numbers, "no empty gap"
                told.setdefault(process, []).extend(numbers)
    for numbers in told.values():
        assert numbers == list(range(1, len(numbers) + 1))


@given(st.permutations(range(len(STREAM))), st.lists(st.integers(0, len(STREAM) - 1), max_size=5))
def test_any_order_of_arrival_gives_the_order_of_publishing(arrivals: list[int], again: list[int]) -> None:
    caused = run(Fifo(ME, Limits(), HOLD_NS), [(YOU, number) for number in [*arrivals, *again]])
    delivered = [seq for step in caused for kind, _, numbers in step for seq in numbers if kind == "delivered"]
    assert delivered == list(range(1, CUTS[-1]))
    assert not any(kind == "gap" for step in caused for kind, _, _ in step)


def test_every_bundle_is_delivered_or_in_a_gap_or_still_held() -> None:
    fifo = Fifo(ME, Limits(), HOLD_NS)
    caused = run(fifo, [(YOU, 0), (YOU, 2), (YOU, 5), HOLD_NS, (YOU, 1), (YOU, 6)])
    flat = [outcome for step in caused for outcome in step]
    assert flat == [
        ("delivered", YOU, [1]),
        ("gap", YOU, [2, 3, 4]),
        ("delivered", YOU, [5]),
        ("gap", YOU, [6, 7, 8, 9]),
        ("delivered", YOU, [10]),
        ("dropped", YOU, [2, 3, 4]),
        ("delivered", YOU, [11, 12, 13, 14]),
    ]


def test_a_delivery_tells_how_long_it_was_held() -> None:
    fifo, ready = Fifo(ME, Limits(), HOLD_NS), Ready()
    fifo.admit(bundle_of(YOU, 1), 3, ready)
    assert fifo.wake_at() == 3 + HOLD_NS
    fifo.admit(bundle_of(YOU, 0), 7, ready)
    assert [out.hold_ns for out in ready.deliver if isinstance(out, Delivery)] == [0, 4]
    assert fifo.wake_at() is None


def test_waiting_ends_at_its_time_and_not_before() -> None:
    fifo, early, late = Fifo(ME, Limits(), HOLD_NS), Ready(), Ready()
    fifo.admit(bundle_of(YOU, 1), 0, Ready())
    fifo.tick(HOLD_NS - 1, early)
    fifo.tick(HOLD_NS, late)
    assert early.deliver == []
    assert late.deliver == [Gap((Span(*YOU, 1, 1),)), Delivery(bundle_of(YOU, 1), HOLD_NS)]


@given(st.integers(1, 14))
def test_a_newcomer_waits_for_nothing_that_was_delivered_before_it_came(expected: int) -> None:
    """gossip 3.3: otherwise its first event looks as if all before it were missing."""
    old = Fifo(ME, Limits(), HOLD_NS)
    for seq in range(1, expected):
        old.admit(packed(YOU, seq, [b""]), 0, Ready())
    new, ready = Fifo(Process(9, 1), Limits(), HOLD_NS), Ready()
    new.adopt(old.snapshot())
    for number in range(len(STREAM)):
        new.admit(bundle_of(YOU, number), 0, ready)
    numbers = [seq for kind, _, seqs in outcomes(ready) for seq in seqs if kind == "delivered"]
    assert numbers == list(range(expected, CUTS[-1])), "a bundle that lies across the edge is cut"


def entry(pid: int, incarnation: int, expected: int) -> bytes:
    return pid.to_bytes(4, "little") + incarnation.to_bytes(4, "little") + expected.to_bytes(8, "little")


@pytest.mark.parametrize(
    "snapshot",
    [
        b"x",
        bytes(15),
        entry(PEER_ID_MAX + 1, 1, 1),
        entry(1, INCARNATION_MAX + 1, 1),
        entry(1, 1, 0),
        entry(2, 1, 5) + entry(1, 1, SEQ_END + 1),
    ],
)
def test_what_is_no_snapshot_is_refused_and_changes_nothing(snapshot: bytes) -> None:
    fifo = Fifo(ME, Limits(), HOLD_NS)
    before = fifo.snapshot()
    with pytest.raises(ValueError, match=r"snapshot|expected"):
        fifo.adopt(snapshot)
    assert fifo.snapshot() == before


def test_a_snapshot_keeps_the_limits_of_who_adopts_it() -> None:
    fifo = Fifo(ME, Limits(senders_max=2, incarnations_per_sender_max=2), HOLD_NS)
    fifo.adopt(b"".join([entry(2, 1, 5), entry(2, 3, 6), entry(2, 2, 7), entry(2, 2, 8), entry(3, 1, 9)]))
    assert fifo.snapshot() == entry(*ME, 1) + entry(2, 3, 6) + entry(2, 2, 8)


def test_a_snapshot_says_nothing_of_who_adopts_it() -> None:
    fifo, ready = Fifo(ME, Limits(), HOLD_NS), Ready()
    fifo.adopt(entry(*ME, 100))
    fifo.publish(packed(ME, 1, [b"mine"], fifo.stamp(0)), 0, ready)
    assert outcomes(ready) == [("delivered", ME, [1])]


def test_a_process_that_published_its_last_number_is_still_part_of_a_snapshot() -> None:
    fifo, ready = Fifo(ME, Limits(), HOLD_NS), Ready()
    fifo.adopt(entry(*YOU, SEQ_MAX))
    fifo.admit(packed(YOU, SEQ_MAX, [b"last"]), 0, ready)
    assert len(ready.deliver) == 1
    Fifo(Process(9, 1), Limits(), HOLD_NS).adopt(fifo.snapshot())


def test_a_closed_life_gives_out_what_it_held_and_takes_no_more() -> None:
    fifo, ready = Fifo(ME, Limits(incarnations_per_sender_max=1), HOLD_NS), Ready()
    fifo.admit(bundle_of(YOU, 1), 0, Ready())
    newer = Process(YOU.pid, YOU.incarnation + 1)
    fifo.admit(bundle_of(newer, 0), 1, ready)
    fifo.admit(bundle_of(YOU, 0), 2, ready)
    assert outcomes(ready) == [
        ("gap", YOU, [1]),
        ("delivered", YOU, [2, 3, 4]),
        ("delivered", newer, [1]),
        ("dropped", YOU, [1]),
    ]
    assert fifo.wake_at() is None


def test_a_closed_life_gives_out_all_it_held_with_every_gap_between() -> None:
    fifo, ready = Fifo(ME, Limits(incarnations_per_sender_max=1), HOLD_NS), Ready()
    for number in (1, 3, 5):
        fifo.admit(bundle_of(YOU, number), 0, Ready())
    fifo.admit(bundle_of(Process(YOU.pid, YOU.incarnation + 1), 1), 1, ready)
    told = [numbers for _, process, numbers in outcomes(ready) if process == YOU]
    assert told == [[1], [2, 3, 4], [5], [6, 7, 8], [9], [10]]
    assert [gauge.value for gauge in fifo.gauges() if gauge.name == "held_bundles"] == [1]


def test_bundles_that_overlap_cannot_repeat_an_event_nor_leak() -> None:
    """No honest sender cuts the same events in two ways; a wrong one must not harm us."""
    fifo, ready = Fifo(ME, Limits(), HOLD_NS), Ready()
    for first, count in ((5, 6), (3, 4), (3, 1), (1, 2), (8, 2)):
        fifo.admit(packed(YOU, first, [b"x"] * count), 0, ready)
    fifo.tick(HOLD_NS, ready)
    told = [seq for kind, _, seqs in outcomes(ready) for seq in seqs if kind != "dropped"]
    assert told == sorted(set(told))
    assert [gauge.value for gauge in fifo.gauges() if gauge.name.startswith("held")] == [0, 0]


def test_deadlines_of_what_was_released_are_cleared_away() -> None:
    """One bundle waits for long; meanwhile many others come in pairs, the later one first."""
    fifo = Fifo(ME, Limits(held_bundles_max=8), HOLD_NS)
    fifo.admit(packed(Process(3, 1), 2, [b""]), 0, Ready())
    for pair in range(200):
        for first in (2 * pair + 2, 2 * pair + 1):
            fifo.admit(packed(YOU, first, [b""]), 0, Ready())
        assert all(gauge.value <= gauge.bound for gauge in fifo.gauges())
    assert fifo.wake_at() == HOLD_NS


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_ones_own_bundles_are_delivered_at_creation(counts: list[int]) -> None:
    fifo, ready = Fifo(ME, Limits(senders_max=1), HOLD_NS), Ready()
    for first, end in pairwise(accumulate(counts, initial=1)):
        fifo.publish(packed(ME, first, [b"x"] * (end - first)), 0, ready)
    assert len(ready.deliver) == len(counts)
    assert ready.notes == []
