"""Bundles go out as far apart as delivery takes anyway, so that members short of time have fewer of them."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tests.net.live import nodes, open_all, take, within
from whence.api.delivery import Batch
from whence.api.group import Group
from whence.limits import MergeLimits
from whence.net.credit import Credit
from whence.net.pace import GAP_S_MAX, QUICK_S, REMEMBERED_MAX, Pace


def measured(delivery_s: float, times: int = 60) -> Pace:
    """Return a pace that has seen deliveries take so long, the last bundle of which went out at second 0."""
    pace = Pace()
    for last in range(1, times + 1):
        pace.published(last, 0.0)
        pace.taken(last, 0.0, delivery_s)
    return pace


@given(st.floats(0, QUICK_S * 0.99))
def test_while_delivery_is_quick_nothing_is_held_back(delivery_s: float) -> None:
    assert measured(delivery_s).wait_s(0.0) <= 0


@given(st.floats(QUICK_S * 1.1, 10), st.floats(0, 0.1))
def test_a_bundle_is_held_back_for_no_longer_than_delivery_takes_and_never_beyond_the_limit(
    delivery_s: float, later_s: float
) -> None:
    wait_s = measured(delivery_s).wait_s(later_s)
    assert wait_s <= min(GAP_S_MAX, delivery_s) - later_s + 1e-9
    assert wait_s > 0 or later_s >= QUICK_S, "what follows at once is held back"


@given(st.floats(0, 1), st.floats(0, 1))
def test_what_word_of_it_waited_for_company_is_no_part_of_delivery(delivery_s: float, waited_s: float) -> None:
    pace = Pace()
    pace.published(1, 0.0)
    pace.taken(1, waited_s, delivery_s + waited_s)
    assert abs(pace.delivery_s - delivery_s / 8) < 1e-6


def test_word_of_a_bundle_that_is_not_remembered_changes_nothing() -> None:
    pace = Pace()
    for last in range(1, REMEMBERED_MAX + 2):
        pace.published(last, 0.0)
    pace.taken(1, 0.0, 100.0)
    pace.taken(REMEMBERED_MAX + 2, 0.0, 100.0)
    assert pace.delivery_s == 0.0
    assert len(pace._sent) == REMEMBERED_MAX


def test_where_members_hold_events_on_purpose_nothing_is_held_back_for_company() -> None:
    credit = Credit(0, MergeLimits().buffer_bytes_max)
    assert credit.wait_s() == 0.0


def paced(group: Group, wait_s: float) -> None:
    """Let a group's publisher hold every bundle back for so long."""
    pace = group._driver.credit.pace
    assert pace is not None
    pace.wait_s = lambda now: wait_s  # type: ignore[method-assign]


def test_events_published_while_delivery_is_slow_share_bundles_and_none_is_lost() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            groups = await open_all(started, "alps")
            paced(groups[0], GAP_S_MAX)
            for number in range(200):
                await groups[0].publish(b"%d" % number)
                await asyncio.sleep(0.0005)
            batches: list[Batch] = []
            while sum([len(batch) for batch in batches]) < 200:
                batches.append(await anext(groups[1].batches()))
            assert len(batches) < 100
            assert [int(payload) for batch in batches for payload in batch.payloads()] == list(range(200))

    within(main())


def test_what_somebody_waits_for_is_not_held_back() -> None:
    """A publisher that waits for each of its events would otherwise crawl from gap to gap."""

    async def main() -> None:
        async with nodes(2) as started:
            groups = await open_all(started, "alps")
            paced(groups[0], 600.0)
            for number in range(100):
                receipt = await groups[0].publish(b"%d" % number)
                if number % 2:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)  # the turn has ended, and it is held back by now
                await receipt.accepted()
            assert len(await take(groups[1], 100)) == 100

    within(main())
