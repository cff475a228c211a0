"""Publishers wait for the slowest consumer of their group, and nobody else does."""

import asyncio

import pytest

from tests.net.live import QUICK, nodes, open_all, take, within
from whence.api.group import Group
from whence.core.credit import CREDIT_BYTES
from whence.errors import BackPressureError

PIECE = bytes(256 << 10)

WAIT_S = 2.0
"""Far longer than a busy machine keeps publishers waiting that need not; less than until a member is given up."""


async def publish_until_it_waits(group: Group) -> int:
    """Publish large events until one has to wait too long; return how many went out."""
    for count in range(1000):
        try:
            await group.publish(PIECE)
        except BackPressureError:
            return count
        await asyncio.sleep(0.01)
    raise AssertionError("nobody ever had to wait")


def test_a_consumer_that_stops_taking_stops_its_own_group_only() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            alps = await open_all(started, "alps", publish_wait_s=WAIT_S)
            andes = await open_all(started, "andes")
            drained = asyncio.create_task(take(alps[0], 1000))
            sent = await publish_until_it_waits(alps[0])
            assert CREDIT_BYTES <= sent * len(PIECE) <= 2 * CREDIT_BYTES, "one of the two never takes anything"
            for number in range(50):
                await andes[0].publish(b"%d" % number)
            assert [int(delivery.payload) for delivery in await take(andes[1], 50)] == list(range(50))
            assert len(await take(alps[1], sent)) == sent, "nothing that was accepted is lost"
            await alps[0].publish(b"again", until="accepted")
            drained.cancel()

    within(main())


@pytest.mark.parametrize("level", ["causal", "fifo"])
def test_settled_means_that_every_member_has_it(level: str) -> None:
    async def main() -> None:
        async with nodes(3, first=0) as started:
            options = {"founders": [0, 1, 2]} if level == "causal" else {"settings": QUICK}
            groups = await asyncio.gather(*[node.open("alps", level, **options) for node in started])
            if level == "fifo":
                for group in groups:
                    await group.gathered(3)
            readers = [asyncio.create_task(take(group, 1)) for group in groups]
            await asyncio.wait_for(groups[0].publish(b"x", until="settled"), 20)
            assert [[delivery.payload for delivery in await reader] for reader in readers] == [[b"x"]] * 3

    within(main())


def test_a_member_that_is_gone_is_not_waited_for() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            groups = await open_all(started, publish_wait_s=20.0)
            reader = asyncio.create_task(take(groups[0], 1000))
            for _ in range(8):
                await groups[0].publish(PIECE)
            await started[1].close()
            for _ in range(3 * CREDIT_BYTES // len(PIECE)):
                await groups[0].publish(PIECE)
                await asyncio.sleep(0.002)
            reader.cancel()

    within(main())
