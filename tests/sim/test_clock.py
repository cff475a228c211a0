"""Clocks: drift and offset for the steady one; jumps for the wall alone."""

from hypothesis import example, given
from hypothesis import strategies as st

from whence.sim.clock import Clock

offsets = st.integers(-(10**12), 10**12)
drifts = st.integers(-999_999_999, 10**9)
times = st.integers(0, 10**15)


@given(offsets, drifts, times)
@example(0, -1, 10**9)
@example(0, 1, 10**9)
def test_true_when_is_the_first_true_time_at_which_the_steady_clock_shows_it(
    offset: int, drift: int, time: int
) -> None:
    clock = Clock(offset, drift)
    first = clock.true_when(time)
    assert clock.steady(first) >= time
    assert clock.steady(first - 1) < time


@given(offsets, drifts, times, st.integers(0, 10**12))
def test_the_steady_clock_never_goes_back(offset: int, drift: int, time: int, later: int) -> None:
    clock = Clock(offset, drift)
    assert clock.steady(time + later) >= clock.steady(time)


@given(offsets, drifts, times, st.integers(0, 10**12))
def test_the_steady_clock_runs_at_one_plus_its_drift(offset: int, drift: int, time: int, span: int) -> None:
    clock = Clock(offset, drift)
    elapsed = clock.steady(time + span) - clock.steady(time)
    assert abs(elapsed * 10**9 - span * (10**9 + drift)) <= 10**9


@given(offsets, drifts, times, st.lists(st.integers(-(10**11), 10**11)))
def test_a_jump_moves_the_wall_clock_and_never_the_steady_one(
    offset: int, drift: int, time: int, jumps: list[int]
) -> None:
    clock, calm = Clock(offset, drift), Clock(offset, drift)
    for jump in jumps:
        clock.jumped_ns += jump
    assert clock.steady(time) == calm.steady(time)
    assert clock.wall(time) == calm.wall(time) + sum(jumps)
    assert clock.true_when(time) == calm.true_when(time)


def test_a_clock_without_faults_shows_true_time() -> None:
    assert [Clock().steady(time) for time in (0, 1, 10**15)] == [0, 1, 10**15]
    assert Clock(5).steady(10) == 15
    assert Clock(0, 200_000).steady(10**9) == 10**9 + 200_000
