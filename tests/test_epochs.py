"""Epochs: one integer that names a group, its generation and a view."""

from hypothesis import given
from hypothesis import strategies as st

from whence import epochs

births = st.integers(0, epochs.BIRTHS - 1)
forks = st.integers(0, epochs.FORKS - 1)
numbers = st.integers(0, epochs.NUMBER_MAX - 1)


@given(births, numbers)
def test_an_epoch_has_the_birth_of_its_group_and_counts_from_nought(birth: int, number: int) -> None:
    first = epochs.first_epoch(birth)
    assert epochs.is_founding(first)
    assert (epochs.birth_of(first), epochs.generation_of(first)) == (birth, 0)
    later = first + number
    assert epochs.number_of(later) == number
    assert epochs.line_of(later) == epochs.line_of(first)
    assert not epochs.is_foreign(later, first)


@given(births, numbers, forks, st.integers(1, epochs.GENERATION_MAX))
def test_a_forced_epoch_compares_after_every_view_of_the_generations_before(
    birth: int, number: int, fork: int, times: int
) -> None:
    epoch = epochs.first_epoch(birth) + number
    for generation in range(1, times + 1):
        before, epoch = epoch, epochs.forced_epoch(epoch, fork)
        if epochs.number_of(epoch) == epochs.NUMBER_MAX:
            return
        assert epochs.generation_of(epoch) == generation
        assert epochs.birth_of(epoch) == birth
        assert epochs.number_of(epoch) == epochs.number_of(before) + 1
        assert epoch > before | epochs.NUMBER_MAX
        assert not epochs.is_foreign(epoch, before)
        assert epoch <= epochs.EPOCH_MAX


@given(births, births, numbers, numbers)
def test_groups_begun_separately_are_foreign_to_each_other(one: int, other: int, here: int, there: int) -> None:
    first, second = epochs.first_epoch(one) + here, epochs.first_epoch(other) + there
    assert epochs.is_foreign(first, second) == epochs.is_foreign(second, first) == (one != other)


@given(births, numbers, forks, forks)
def test_generations_forced_separately_are_foreign_to_each_other(birth: int, number: int, one: int, other: int) -> None:
    before = epochs.first_epoch(birth) + number
    assert epochs.is_foreign(epochs.forced_epoch(before, one), epochs.forced_epoch(before, other)) == (one != other)


def test_sentences_name_a_view_by_its_number_and_by_its_generation_if_there_are_two() -> None:
    epoch = epochs.first_epoch(77) + 5
    assert epochs.view_name(epoch) == "5"
    assert epochs.view_name(epochs.forced_epoch(epoch, 9)) == "6 of generation 1"
