"""Bundles go out as far apart as delivery takes anyway, so that members short of time have fewer of them."""

from hypothesis import given
from hypothesis import strategies as st

from whence.core.pacing import ALONE_S, GAP_S_MAX, QUICK_S, REMEMBERED_MAX, BundlePacer


def measured(delivery_s: float, times: int = 60) -> BundlePacer:
    """Return a pacer that has seen deliveries take so long, the last bundle of which went out at second 0."""
    pacer = BundlePacer()
    for last in range(1, times + 1):
        pacer.published(last, 0.0)
        pacer.taken(last, 0.0, delivery_s)
    return pacer


@given(st.floats(0, QUICK_S * 0.99))
def test_while_delivery_is_quick_nothing_is_held_back(delivery_s: float) -> None:
    assert measured(delivery_s).gap_s(0.0) <= 0


@given(st.floats(QUICK_S * 1.1, 10), st.floats(0, 0.1))
def test_a_bundle_is_held_back_for_no_longer_than_delivery_takes_and_never_beyond_the_limit(
    delivery_s: float, later_s: float
) -> None:
    gap_s = measured(delivery_s).gap_s(later_s)
    assert gap_s <= min(GAP_S_MAX, delivery_s) - later_s + 1e-9
    assert gap_s > 0 or later_s >= QUICK_S, "what follows at once is held back"


@given(st.floats(0, 1), st.floats(0, 1))
def test_what_word_of_it_waited_for_company_is_no_part_of_delivery(delivery_s: float, waited_s: float) -> None:
    pacer = BundlePacer()
    pacer.published(1, 0.0)
    pacer.taken(1, waited_s, delivery_s + waited_s)
    assert abs(pacer.delivery_s - delivery_s / 8) < 1e-6


def test_word_of_a_bundle_that_is_not_remembered_changes_nothing() -> None:
    pacer = BundlePacer()
    for last in range(1, REMEMBERED_MAX + 2):
        pacer.published(last, 0.0)
    pacer.taken(1, 0.0, 100.0)
    pacer.taken(REMEMBERED_MAX + 2, 0.0, 100.0)
    assert pacer.delivery_s == 0.0
    assert len(pacer._sent) == REMEMBERED_MAX


def test_where_members_hold_events_on_purpose_nothing_is_held_back_for_company() -> None:
    pacer = BundlePacer(measures=False)
    for last in range(1, 60):
        pacer.published(last, 0.0)
        pacer.taken(last, 0.0, 10.0)
    assert pacer.gap_s(0.0) == 0.0


def test_what_follows_soon_on_something_that_went_alone_does_not() -> None:
    pacer = BundlePacer()
    assert pacer.may_go_alone(1.0)
    assert not pacer.may_go_alone(1.0 + 0.9 * ALONE_S)
    assert pacer.may_go_alone(1.0 + 1.1 * ALONE_S)
