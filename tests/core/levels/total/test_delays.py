"""The δ that a merger proposes covers what it saw, and is hardly longer than it must be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.levels.total.group import Group, metric
from whence.core.levels.total import delays
from whence.core.levels.total.delays import LATE_ONE_IN, DelayHistogram
from whence.core.levels.total.items import Offer

DELAYS = st.lists(st.integers(-50, 1 << 20), min_size=1, max_size=200)


@given(DELAYS, st.integers(2, 50))
def test_at_most_one_in_n_of_what_was_seen_is_beyond_the_proposal_which_is_rounded_up_by_a_sixteenth(
    seen: list[int], one_in: int
) -> None:
    histogram = DelayHistogram()
    for delay in seen:
        histogram.add(delay)
    proposed = histogram.covering(one_in)
    assert proposed is not None
    beyond = sum(delay > proposed for delay in seen)
    assert beyond <= len(seen) // one_in
    spare = len(seen) // one_in
    least = max(0, sorted(seen)[max(0, len(seen) - spare - 1)])
    assert least <= proposed <= least + least / 16
    assert histogram.observed == len(seen)


@given(DELAYS)
def test_clocks_that_were_seen_to_be_ahead_need_a_larger_epsilon(seen: list[int]) -> None:
    histogram = DelayHistogram()
    for delay in seen:
        histogram.add(delay)
    assert histogram.epsilon_seen() == 1 + max(0, -min(seen))


def test_nothing_is_proposed_before_anything_was_seen() -> None:
    assert DelayHistogram().covering() is None


def test_the_proposal_follows_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "COUNTED_MAX", 256)
    histogram = DelayHistogram()
    for _ in range(200):
        histogram.add(1000)
    for _ in range(2000):
        histogram.add(3)
    assert histogram.covering(100) == 3


def test_a_merger_proposes_the_delta_that_its_publications_needed() -> None:
    group = Group(3)
    for number in range(20):
        group.publish(2, b"%d" % number)
        group.run(2)
    assert metric(group.members[0], "delta_ticks") == 20
    assert metric(group.members[0], "delta_proposed_ticks", str(LATE_ONE_IN)) == 0, "everything comes at once here"
    assert metric(group.members[0], "delays_observed_total") == 20
    group.lost = (Offer,)
    group.publish(2, b"sent again")
    group.run(5)
    group.lost = ()
    group.run(10)
    proposed = metric(group.members[0], "delta_proposed_ticks", str(LATE_ONE_IN))
    assert 5 < proposed < 16
    assert metric(group.members[0], "buffering_proposed_ns", str(LATE_ONE_IN)) == (proposed + 2 * 3 - 1) * 1_000_000
    assert metric(group.members[0], "delays_observed_total") == 21, "copies count once"
    assert "delta_proposed_ticks" not in [each.name for each in group.members[2].metrics()], "only mergers see delays"
