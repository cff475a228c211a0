"""Connections that break: what was under way and what is published next comes as soon as there is another one."""

import asyncio
from time import perf_counter

import pytest

from tests.net.live import numbered_nodes, take, within
from whence.api.node import Node


def break_connection(one: Node, other: Node) -> None:
    link = one.live.peers.by_pid[other.pid].link
    assert link is not None
    link.close("a test breaks it")


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_the_first_event_after_a_broken_connection_does_not_wait_for_the_time_of_repeating(spread: str) -> None:
    """That time is set far beyond the test's: only word of the new connection can bring the event."""

    async def main() -> None:
        async with numbered_nodes([10, 20]) as started:
            settings = {"spread": spread, "retry_ns": 40_000_000_000, "retry_ns_max": 40_000_000_000}
            opening = [node.open("alps", "causal", founders=[10, 20], settings=settings) for node in started]
            here, there = await asyncio.gather(*opening)
            for moment in ("at once", "a while later"):
                await here.publish(b"before")
                assert [each.payload for each in await take(there, 1)] == [b"before"]
                await asyncio.sleep(0.2)  # it is acknowledged: nothing is owed
                break_connection(*started)
                if moment != "at once":
                    await asyncio.sleep(0.3)
                began = perf_counter()
                await here.publish(b"first after it")
                assert [each.payload for each in await take(there, 1)] == [b"first after it"]
                assert perf_counter() - began < 20, moment

    within(main())
