"""Live publishers hold bundles back for company while delivery is slow, and never what somebody waits for."""

import asyncio

from tests.net.live import nodes, open_all, take, within
from whence.api.group import Group
from whence.core.pacing import GAP_S_MAX


def paced(group: Group, gap_s: float) -> None:
    """Let a group's publisher hold every bundle back for so long."""
    group._driver.flow.gap_s = lambda: gap_s  # type: ignore[method-assign]


def test_events_published_while_delivery_is_slow_share_bundles_and_none_is_lost() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            groups = await open_all(started, "alps")
            paced(groups[0], 600.0)
            for number in range(200):
                await groups[0].publish(b"%d" % number)
                await asyncio.sleep(0)
            groups[0].flush()
            assert [int(payload) for payload in (await anext(groups[1].batches())).payloads()] == list(range(200))
            paced(groups[0], GAP_S_MAX)
            await groups[0].publish(b"it is not held back for good")
            assert len(await anext(groups[1].batches())) == 1

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
