"""Long waits say what they wait for: once, however many wait for the same."""

import asyncio

import pytest

from tests.net.live import within
from whence.net.wait_log import log_long_wait


def test_many_that_wait_for_the_same_say_it_once(caplog: pytest.LogCaptureFixture) -> None:
    async def wait_for(what: str, done: asyncio.Event) -> None:
        with log_long_wait(lambda: f"waits for {what}", after_s=0.01):
            await done.wait()

    async def main() -> None:
        done = asyncio.Event()
        waits = [asyncio.create_task(wait_for(what, done)) for what in ["room"] * 50 + ["the disk"]]
        while len(caplog.records) < 2:
            await asyncio.sleep(0.01)
        done.set()
        await asyncio.gather(*waits)

    within(main())
    assert sorted({record.message for record in caplog.records}) == ["waits for room", "waits for the disk"]
    assert len(caplog.records) < 25
