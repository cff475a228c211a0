"""The buffer: order, lateness, duplicates, bounds, guards, snapshots; against a deliberately dumb twin."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.core.clocks.stamp import FIRST_KEY, Timing, last_key_of, low_key
from whence.core.levels.total.merge_buffer import BUNDLE, SIZE, Entry, Fate, MergeBuffer, entry_of, key_of
from whence.limits import MergeLimits
from whence.sim.corruption import corrupt_buffer
from whence.types import Process, packed

TIMING = Timing(epsilon=2, delta=5, stall_max=0)
WAIT = 7
MEMORY = 14
ROOMY = MergeLimits()


def entry(tick: int, pid: int = 1, seq: int = 1, counter: int = 0, body: bytes = b"x", since: int = 0) -> Entry:
    bundle = packed(Process(pid, 1), seq, [body])
    return entry_of((tick << 20 | counter, 0, low_key(pid, 1, seq)), since, 0, bundle)


def named(entries: list[Entry]) -> list[tuple[int, int]]:
    return [(each[BUNDLE].pid, each[BUNDLE].first) for each in entries]


class Dumb:
    """The rules of merge 5, word for word, over a list."""

    def __init__(self) -> None:
        self.held: list[Entry] = []
        self.gone: dict[int, int] = {}
        self.last = FIRST_KEY

    def arrive(self, rt: int, new: Entry) -> Fate:
        if new[2] in [each[2] for each in self.held] or self.gone.get(new[2], -1) > rt:
            return Fate.DUPLICATE
        if new[0] >> 20 < rt - MEMORY:
            return Fate.STALE
        if key_of(new) <= self.last:
            self.gone[new[2]] = rt + MEMORY
            return Fate.LATE
        self.held.append(new)
        return Fate.BUFFERED

    def release(self, rt: int) -> list[Entry]:
        due = sorted(each for each in self.held if (each[0] >> 20) + WAIT <= rt)
        self.held = [each for each in self.held if each not in due]
        for each in due:
            self.last = key_of(each)
            self.gone[each[2]] = rt + MEMORY
        return due


ARRIVALS = st.tuples(st.integers(-20, 1), st.integers(1, 3), st.integers(1, 8), st.integers(0, 2))
STEPS = st.lists(st.one_of(ARRIVALS, ARRIVALS, st.integers(0, 9)), max_size=60)


@given(STEPS)
def test_the_merger_does_what_its_dumb_twin_does(steps: list[tuple[int, int, int, int] | int]) -> None:
    buffer, dumb, rt = MergeBuffer(TIMING, ROOMY), Dumb(), 100
    for step in steps:
        if isinstance(step, int):
            rt += step
            assert buffer.guard(rt) is None
            assert buffer.release(rt) == dumb.release(rt)
        else:
            ago, pid, seq, counter = step
            new = entry(rt + ago, pid, seq, counter)
            assert buffer.arrive(rt, new) is dumb.arrive(rt, new)
            assert buffer.release(rt) == dumb.release(rt)
        due = [(each[0] >> 20) + WAIT for each in dumb.held]
        assert buffer.next_tick() == min(due, default=None)
        assert buffer.last == dumb.last


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4), st.integers(0, 3)), max_size=40), st.randoms())
def test_released_keys_only_grow_whatever_arrives_and_however_the_clock_runs(
    arrivals: list[tuple[int, int, int]], random: Random
) -> None:
    buffer, rt, out = MergeBuffer(TIMING, MergeLimits(buffer_bundles_max=5, remembered_max=4)), 0, list[Entry]()
    for seq, (tick, pid, counter) in enumerate(arrivals, 1):
        rt += random.choice((0, 1, 10))
        buffer.arrive(rt, entry(tick, pid, seq, counter))
        out += buffer.release(rt)
        assert all(gauge.value <= gauge.bound for gauge in buffer.gauges())
    out += buffer.flush(rt)
    keys = [key_of(each) for each in out]
    assert keys == sorted(set(keys))
    assert buffer.position == len(out)


def test_a_bundle_waits_exactly_until_l_plus_delta_plus_epsilon_and_a_jump_does_not_strand_it() -> None:
    buffer = MergeBuffer(TIMING, ROOMY)
    buffer.arrive(10, entry(10))
    assert buffer.next_tick() == 17
    assert buffer.release(16) == []
    buffer.arrive(16, entry(11, seq=2))
    assert named(buffer.release(30)) == [(1, 1), (1, 2)]


def test_the_tight_rule_waits_until_the_clock_is_past_l_plus_delta() -> None:
    buffer = MergeBuffer(TIMING, ROOMY, "tight")
    buffer.arrive(10, entry(10))
    assert buffer.release(15) == []
    assert len(buffer.release(16)) == 1


def test_the_frontier_releases_what_every_publisher_has_passed_before_its_time() -> None:
    buffer = MergeBuffer(Timing(epsilon=2, delta=50), ROOMY, "frontier")
    frontier = buffer.frontier
    assert frontier is not None
    one, two = Process(1, 1), Process(2, 1)
    frontier.heard(0, one, (1 << 20, 0, 1), 1, 1)
    frontier.heard(0, two, (1 << 20, 0, 1), 1, 1)
    for rt in range(60, 64):
        for process in (one, two):
            new = entry(rt, process.pid, rt - 59)
            buffer.arrive(rt, new)
            frontier.heard(rt, process, key_of(new), rt - 59, rt - 58)
    assert named(buffer.release(63)) == [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3), (1, 4)]
    frontier.heard(64, one, (64 << 20, 0, 0), 7, 7)  # 5 and 6 are on the way
    frontier.heard(64, two, (64 << 20, 0, 0), 5, 5)
    assert named(buffer.release(64)) == []
    assert named(buffer.release(64 + 52)) == [(2, 4)]


def test_a_late_bundle_is_told_once_and_its_copies_are_duplicates() -> None:
    buffer = MergeBuffer(TIMING, ROOMY)
    buffer.arrive(10, entry(10, seq=2))
    buffer.release(17)
    assert buffer.arrive(17, entry(9, pid=2)) is Fate.LATE
    assert buffer.arrive(18, entry(9, pid=2)) is Fate.DUPLICATE
    assert buffer.arrive(18, entry(10, seq=2)) is Fate.DUPLICATE
    buffer.release(60)
    assert buffer.arrive(60, entry(10, seq=2)) is Fate.STALE


def test_a_full_buffer_releases_the_first_in_order_before_its_time() -> None:
    buffer = MergeBuffer(TIMING, MergeLimits(buffer_bundles_max=2))
    for seq, tick in enumerate((13, 11, 12), 1):
        buffer.arrive(13, entry(tick, seq=seq))
    assert named(buffer.release(13)) == [(1, 2)]
    assert buffer.early == 1
    assert buffer.arrive(13, entry(10, pid=2)) is Fate.LATE


def test_a_buffer_full_of_bytes_makes_room_too() -> None:
    buffer = MergeBuffer(TIMING, MergeLimits(buffer_bytes_max=10))
    for seq in (1, 2, 3):
        buffer.arrive(10, entry(10, seq=seq, body=b"12345"))
    assert [each[SIZE] for each in buffer.release(10)] == [5]


def test_forgetting_early_makes_what_is_as_old_stale_instead_of_releasing_it_again() -> None:
    buffer = MergeBuffer(TIMING, MergeLimits(remembered_max=1))
    for seq, tick in ((1, 10), (2, 11)):
        buffer.arrive(12, entry(tick, seq=seq))
        buffer.release(tick + WAIT)
    assert buffer.arrive(18, entry(10, seq=1)) is Fate.STALE
    assert buffer.arrive(18, entry(11, seq=2)) is Fate.DUPLICATE


@pytest.mark.parametrize("kind", range(4))
def test_a_spoiled_state_is_repaired_at_the_next_guard(kind: int) -> None:
    buffer = MergeBuffer(TIMING, ROOMY)
    for seq in range(1, 6):
        buffer.arrive(10, entry(10, seq=seq))
    corrupt_buffer(buffer, 10, 1_000_000, kind)
    buffer.guard(11)
    buffer.guard(11 + MEMORY)
    assert buffer.last <= last_key_of(12)
    buffer.arrive(40, entry(40, pid=3))
    out = buffer.release(47)
    assert named(out)[-1] == (3, 1)
    assert all(each[BUNDLE].body != b"garbage" for each in out)
    assert buffer.gauges()[0].value == buffer.gauges()[1].value == 0


def test_the_origin_of_the_key_shifts_ticks_and_nothing_else() -> None:
    timing = Timing(epsilon=2, delta=5, origin=1000)
    buffer = MergeBuffer(timing, ROOMY)
    buffer.arrive(1010, entry(10))
    assert buffer.next_tick() == 1017
    assert buffer.release(1016) == []
    assert len(buffer.release(1017)) == 1
