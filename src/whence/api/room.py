"""Where publishers wait: for room, or until the member would not refuse them; each wait knows why it waits."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from whence.api.inbox import Inbox
from whence.core.flow import Reason
from whence.errors import ClosedError
from whence.net.driver import Driver
from whence.net.outboxes import Outboxes
from whence.net.wait_log import log_long_wait

AGAIN_S = 0.002
"""What a member refuses because too much is in flight is offered to it again after this time."""

Found = TypeVar("Found")


class Room:
    """The waiting publishers of one group."""

    def __init__(self, driver: Driver, inbox: Inbox, outbox: Outboxes, wait_s: float) -> None:
        self._driver, self._flow = driver, driver.flow
        self.wait_s = wait_s
        self._eased: dict[Reason, Callable[[], Awaitable[None]]] = {
            Reason.MEMBER: _a_moment,
            Reason.INBOX: inbox.room,
            Reason.OUTBOX: outbox.caught_up,
            Reason.WINDOW: driver.waiters.wait,
            Reason.CREDIT: driver.waiters.wait,
        }
        """For each reason, a wait until it may no longer apply."""

    async def wait(self, publish: Callable[[], Found | None]) -> Found:
        """Call `publish` until it returns something; return that.

        Raises the error that refuses it and, when it takes too long, BackPressureError or another error that says why.
        """
        flow = self._flow
        reason = flow.reason()
        try:
            async with asyncio.timeout(self.wait_s):
                with log_long_wait(lambda: f"group {self._driver.group!r} waits for room: {flow.describe(reason)}"):
                    while True:
                        await asyncio.sleep(0)
                        now = flow.reason()
                        if now is not None:
                            reason = now
                            await self._eased[now]()
                        published = publish()
                        if published is not None:
                            return published
        except TimeoutError:
            raise flow.error(reason) from None

    async def drained(self) -> None:
        """Wait until the member has taken what is pending, at most `publish_wait_s`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.wait_s
        while self._flow.refused is not None and loop.time() < deadline:
            await asyncio.sleep(AGAIN_S)

    async def unrefused(self, timeout_s: float | None) -> None:
        """Wait until publishing would not be refused for want of a ticket, a lease or a clock.

        Raises what publishing would raise, if that takes longer, and ClosedError.
        """
        driver = self._driver
        refusal = driver.refusal()
        try:
            async with asyncio.timeout(timeout_s):
                with log_long_wait(lambda: f"group {driver.group!r} waits: {refusal}"):
                    # Look when something happens, and when the refusal says: no event announces what only time ends.
                    while not driver.left and refusal is not None:
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(refusal.retry_ns / 1e9 if refusal.retry_ns else None):
                                await driver.until(lambda: driver.refusal() is None or driver.left)
                        refusal = driver.refusal()
        except TimeoutError:
            refusal = driver.refusal()
            if refusal is not None:
                raise refusal from None
        if driver.left:
            raise ClosedError(f"group {driver.group!r} was closed before it could publish")


async def _a_moment() -> None:
    await asyncio.sleep(AGAIN_S)
