"""The loop: time decides, then the order of planning, and nothing else."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.sim.loop import Loop


@given(st.lists(st.integers(0, 5)))
def test_things_happen_by_time_and_at_one_instant_in_the_order_of_planning(times: list[int]) -> None:
    loop, happened = Loop(), list[tuple[int, int]]()
    for order, time in enumerate(times):
        loop.at(time, lambda order: happened.append((loop.now, order)), order)
    loop.run(5)
    assert happened == sorted((time, order) for order, time in enumerate(times))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=20))
def test_what_is_planned_while_running_takes_its_place_behind_what_was_planned_for_the_same_instant(
    chains: list[tuple[int, int]],
) -> None:
    """Each thing plans a second one; a dumb twin sorts all of them by (time, number of planning)."""
    loop, happened, planned = Loop(), list[int](), list[tuple[int, int]]()

    def plan(time: int, then: int | None) -> None:
        number = len(planned)
        planned.append((time, number))
        loop.at(time, act, (number, then))

    def act(subject: tuple[int, int | None]) -> None:
        number, then = subject
        happened.append(number)
        if then is not None:
            plan(loop.now + then, None)

    for time, then in chains:
        plan(time, then)
    loop.run(8)
    assert happened == [number for _, number in sorted(planned)]


def test_a_run_does_what_is_planned_up_to_and_including_its_end_and_leaves_the_rest() -> None:
    loop, happened = Loop(), list[str]()
    for time in (1, 3, 4):
        loop.at(time, happened.append, f"at {time}")
    loop.run(3)
    assert (happened, loop.now, loop.steps) == (["at 1", "at 3"], 3, 2)
    loop.run(10)
    assert (happened, loop.now, loop.steps) == (["at 1", "at 3", "at 4"], 10, 3)


def test_subjects_are_never_compared() -> None:
    """Two things at one instant are ordered by their numbers, so that what they are about need not have an order."""
    loop, happened = Loop(), list[object]()
    first, second = object(), object()
    loop.at(1, happened.append, first)
    loop.at(1, happened.append, second)
    loop.run(1)
    assert happened == [first, second]


def test_the_collector_works_again_after_a_run_even_one_that_failed() -> None:
    loop = Loop()

    def fail(_: object) -> None:
        assert not gc.isenabled()
        raise ZeroDivisionError

    loop.at(1, fail)
    with pytest.raises(ZeroDivisionError):
        loop.run(1)
    assert gc.isenabled()
