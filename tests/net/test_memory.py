"""A node with one dead and one slow peer stays small: the slope of its memory is what is judged, not a moment of it."""

import asyncio
import resource
import time

import pytest

from tests.net.live import QUICK, fast, nodes, within

SECONDS, SECONDS_LONG = 4.0, 600.0
RATE = 5_000
PAYLOAD = b"x" * 200
BYTES_MAX = 256 << 20


def used_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


@pytest.mark.no_cover
def test_memory_stays_flat_with_one_dead_and_one_slow_peer(long_mode: bool) -> None:
    async def main() -> list[int]:
        settings = fast(outbox_high_bytes=1 << 20, outbox_bytes_max=2 << 20, stall_ns=500_000_000)
        async with nodes(3, settings=settings) as started:
            groups = [await node.open("alps", settings=QUICK, receive=False) for node in started]
            for group in groups:
                await group.gathered(3)
            await started[2].close()  # dead without a farewell
            started[1].live.switch.pause_reading(pause=True)  # slow: takes nothing for now
            begin, count = time.monotonic(), 0
            used: list[int] = []
            length = SECONDS_LONG if long_mode else SECONDS
            while (spent := time.monotonic() - begin) < length:
                due = int(spent * RATE) - count
                if due > 0:
                    await groups[0].publish_many([PAYLOAD] * min(due, 500))
                    count += min(due, 500)
                await asyncio.sleep(0.01)
                if len(used) < 8 * spent / length:
                    used.append(used_bytes())
            return used

    async def bounded() -> list[int]:
        return await main()

    used = asyncio.run(asyncio.wait_for(bounded(), SECONDS_LONG * 2)) if long_mode else within(main())
    later = used[len(used) // 2 :]
    assert max(later) - min(later) < 24 << 20, [value >> 20 for value in used]
    assert max(used) < BYTES_MAX
