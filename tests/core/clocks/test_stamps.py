"""Stamp clocks: bytes, keys, guards, limits; the laws of order are in tests/paper."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.core.clocks.hlc import Hlc
from whence.core.clocks.kn import Kn, KnStamp
from whence.core.clocks.stamp import (
    COUNTER_MAX,
    INCARNATION_BITS,
    TICKS_MAX,
    GuardResult,
    Timing,
    last_key_of,
    low_key,
    tick_of,
)
from whence.core.clocks.ticks import Ticks
from whence.core.levels.total.settings import TotalSettings
from whence.core.settings import parse
from whence.errors import LimitError, SettingError
from whence.sim.corruption import corrupt_stamps

TIMING = Timing(epsilon=3, delta=5, publishers_max=4, events_per_tick_max=2, stall_max=10)


@given(st.integers(0, TICKS_MAX), st.integers(0, COUNTER_MAX))
def test_an_hlc_stamp_survives_its_bytes(tick: int, counter: int) -> None:
    clock, stamp = Hlc(TIMING), tick << 20 | counter
    data = clock.write(stamp)
    assert clock.read(data, 0) == stamp
    assert len(data) <= 9
    assert clock.packed(stamp) == (stamp, 0)


@pytest.mark.parametrize("data", [b"", b"12345", b"1234567890", b"123456\x00", b"123456\xff\xff\xff"])
def test_bytes_that_are_no_stamp_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no stamp"):
        Hlc(TIMING).read(data, 0)


@pytest.mark.parametrize("data", [b"", b"1234567x", b"123456\x00\x0912\x00\x01"[:10], b"123456\x00\xff\x00\x00\x01"])
def test_bytes_that_are_no_array_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no stamp|no place"):
        Kn(TIMING).read(data, 0)


@given(st.integers(0, TICKS_MAX), st.integers(0, 2), st.lists(st.integers(0, 8), min_size=6, max_size=6))
def test_a_kn_stamp_survives_its_bytes_and_a_snapshot(r: int, c: int, kn: list[int]) -> None:
    clock, stamp = Kn(TIMING), KnStamp(r, c, tuple(kn))
    assert clock.read(clock.write(stamp), 0) == stamp
    clock.start(r)
    again = Kn(TIMING)
    assert again.restore(clock.snapshot(), r) is GuardResult.LEGAL
    assert again.state == clock.state


@given(
    st.tuples(*[st.integers(0, 2**15 - 1)] * 2),
    st.tuples(*[st.integers(0, (1 << INCARNATION_BITS) - 1)] * 2),
    st.data(),
)
def test_the_low_part_orders_by_publisher_life_and_number(
    pids: tuple[int, int], incarnations: tuple[int, int], data: st.DataObject
) -> None:
    seqs = [data.draw(st.integers(1, 2**40 - 1)) for _ in range(2)]
    one, other = zip(pids, incarnations, seqs, strict=True)
    assert (one < other) == (low_key(*one) < low_key(*other))
    assert 0 < low_key(*one) < 1 << 63


@given(st.integers(0, 2**15 - 1), st.integers(1, 2**31 - 256), st.integers(1, 255), st.integers(1, 2**40 - 1))
def test_lives_that_follow_each_other_have_different_low_parts(
    pid: int, incarnation: int, later: int, seq: int
) -> None:
    assert low_key(pid, incarnation, seq) != low_key(pid, incarnation + later, seq)


def test_what_does_not_fit_the_key_is_refused_where_it_is_written() -> None:
    with pytest.raises(LimitError, match="peer ids"):
        low_key(2**15, 1, 1)
    for clock, stamp in ((Hlc(TIMING), (TICKS_MAX + 1) << 20), (Kn(TIMING), KnStamp(TICKS_MAX + 1, 0, (0,) * 6))):
        with pytest.raises(LimitError, match="ticks since the origin"):
            clock.packed(stamp)  # type: ignore[arg-type]


@given(
    kind=st.sampled_from((Hlc, Kn)), epsilon=st.integers(1, 4), events=st.integers(1, 4), publishers=st.integers(1, 4),
    ahead=st.integers(0, 3), steps=st.lists(st.integers(0, 2), max_size=40),
)  # fmt: skip
def test_whatever_a_clock_creates_when_it_may_every_other_clock_of_the_group_takes(
    kind: type[Hlc | Kn], epsilon: int, events: int, publishers: int, ahead: int, steps: list[int]
) -> None:
    """So many events in a tick and no more, counted before the event is created; and the wait is as short as can be."""
    timing = Timing(epsilon=epsilon, delta=9, events_per_tick_max=events, publishers_max=publishers)
    clock: Any = kind(timing)
    other: Any = kind(timing)
    rt, there = 100, 100
    clock.start(rt)
    other.start(rt)
    for step in steps:
        rt += step
        there = max(there, rt + min(ahead, timing.lead_max))
        if step == 1 and not other.wait(there):  # another process, whose clock is ahead, was here before
            clock.observe(rt, other.local(there))
        for _ in range(timing.chain_max * epsilon + 1):
            assert clock.guard(rt) is GuardResult.LEGAL
            wait = clock.wait(rt)
            if wait:
                assert clock.wait(rt + wait - 1) > 0, "not a tick too long"
                assert clock.wait(rt + wait) == 0, "nor too short"
                assert wait <= epsilon
                break
            stamp = clock.local(rt)
            readers = [rt, rt + timing.lead_max, max(rt, clock.physical(stamp)) - timing.lead_max]
            assert [clock.wrong(stamp, reader) for reader in readers] == [None] * 3
        else:
            raise AssertionError("a tick must have an end")


@pytest.mark.parametrize(("events", "publishers", "epsilon"), [(1, 1, 1), (1, 2, 3), (2, 16, 1), (5, 3, 2)])
def test_a_tick_has_exactly_as_many_events_as_its_bound(events: int, publishers: int, epsilon: int) -> None:
    timing = Timing(epsilon=epsilon, delta=9, events_per_tick_max=events, publishers_max=publishers)
    clock = Hlc(timing)
    clock.start(99)
    created = 0
    while not clock.wait(100):
        clock.local(100)
        created += 1
    assert created == events * publishers * epsilon
    assert clock.wrong(clock.last, 100) is None
    assert clock.wrong(clock.local(100), 100) == "counter", "one more is refused by all"


def test_no_event_is_created_ahead_of_every_clock() -> None:
    clock = Hlc(TIMING)
    clock._last = 7 + TIMING.lead_max << 20 | COUNTER_MAX
    assert clock.wait(7) == TIMING.lead_max + 1, "the next one would be at l = rt + ε"
    assert clock.wait(7 + TIMING.lead_max + 1) == 0


@given(st.integers(0, 60))
def test_the_last_key_of_a_tick_is_between_the_ticks(tick: int) -> None:
    assert tick_of(last_key_of(tick)) == tick
    assert (tick << 20 | COUNTER_MAX, 0, low_key(2**15 - 1, 2**31 - 1, 2**40 - 1)) <= last_key_of(tick)
    assert last_key_of(tick) < ((tick + 1) << 20, 0, 1)


def test_hlc_stalls_while_it_is_a_little_ahead_and_resets_where_it_is_absurd() -> None:
    clock = Hlc(TIMING)
    corrupt_stamps(clock, 100)
    assert [clock.guard(rt) for rt in (98, 97, 88)] == [GuardResult.LEGAL, GuardResult.STALLED, GuardResult.STALLED]
    assert clock.guard(87) is GuardResult.RESET
    assert clock.last == 87 << 20
    clock._last = 87 << 20 | COUNTER_MAX
    assert clock.guard(87) is GuardResult.RESET, "no chain of events is so long"
    assert clock.restore(clock.write(87 << 20 | 1), 87) is GuardResult.LEGAL


def test_messages_are_refused_by_what_no_process_can_send() -> None:
    hlc, kn = Hlc(TIMING), Kn(TIMING)
    assert hlc.wrong(12 << 20, 10) is None
    assert hlc.wrong(13 << 20, 10) == "future"
    assert hlc.wrong(10 << 20 | COUNTER_MAX, 10) == "counter"
    assert kn.wrong(KnStamp(10, 0, (0, 0, 0, 1, 0, 0)), 10) is None
    assert kn.wrong(KnStamp(13, 0, (0, 0, 0, 1, 0, 0)), 10) == "future"
    assert kn.wrong(KnStamp(11, 2, (0, 0, 0, 1, 0, 1)), 10) == "future"
    for array in ((0, 0, 0, 0, 0, 0), (0, 0, 0, 1, 1, 0), (0, 0, 0, 9, 0, 0)):
        assert kn.wrong(KnStamp(10, 0, array), 10) == "array"
    assert kn.wrong(KnStamp(8, 3, (0, 0, 0, 1, 0, 0)), 12) == "array"


def test_ticks_never_go_back_stand_still_when_set_back_and_forget_the_absurd() -> None:
    ticks = Ticks(1000, TIMING)
    assert [ticks.read(now) for now in (-5, 5_000, 4_000, 2_000)] == [0, 5, 5, 5]
    assert [ticks.read(now) and ticks.stands_still for now in (2_000, 5_500)] == [True, False]
    ticks.rt = 1_000
    assert ticks.read(6_000) == 6
    assert ticks.repairs == 1
    assert ticks.instant_of(6) == 6_000


def test_with_a_least_delay_the_array_is_shorter_and_one_entry_stays_for_ticks_of_many_events() -> None:
    for delay_min, per_tick, entries in ((0, 2, 6), (1, 2, 4), (3, 2, 2), (3, 1, 0), (9, 1, 0)):
        clock = Kn(Timing(epsilon=3, publishers_max=4, events_per_tick_max=per_tick, delay_min=delay_min))
        clock.start(10)
        assert len(clock.local(11).kn) == entries
        assert clock.guard(11) is GuardResult.LEGAL


@pytest.mark.parametrize(
    ("given_values", "sentence"),
    [
        ({"stamp": "rc"}, "cannot merge: its order has cycles"),
        ({"stamp": "kn", "events_per_tick_max": 100_000}, "does not fit the merge key"),
        ({"bounded": 7, "epsilon": 2, "delta": 3}, "at least 2ε"),
        ({"bounded": 900}, "bounded must be 0 in a group"),
        ({"delta": 10**12}, "delta \\+ epsilon must be at most 3,600,000 ticks of 1,000,000 ns"),
        ({"tick_ns": 10**15}, "an hour is the limit"),
        ({"epsilon": 0}, "epsilon must be at least 1"),
        ({"mergers": 0}, "mergers must be at least 1"),
        ({"mergers": 40_000}, "at most 64 each"),
        ({"buffer_bundles_max": 0}, "buffer_bundles_max must be at least 1"),
        ({"publish_bytes_max": 1 << 30}, "publish_bytes_max must be at most"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_a_sentence(given_values: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        parse(given_values, TotalSettings)
