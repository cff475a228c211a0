"""Publishers of one group that wait for its members, and waking them when somebody took something or is gone."""

import asyncio
from collections.abc import Callable

LOOK_AGAIN_S = 0.1
"""A publisher that waits looks again by itself so often: who takes nothing is given up after a while."""


class Waiters:
    """Whoever waits until nothing is in the way any more."""

    def __init__(self, in_the_way: Callable[[], object | None]) -> None:
        self.awaited: asyncio.Future[None] | None = None
        """Whom to wake; None: nobody waits."""
        self._in_the_way = in_the_way
        self._loop = asyncio.get_running_loop()

    async def wait(self) -> None:
        """Wait until nothing is in the way, or for a moment."""
        if self.awaited is None:
            self.awaited = self._loop.create_future()
        await asyncio.wait([self.awaited], timeout=LOOK_AGAIN_S)

    def look(self) -> None:
        """Wake those that wait, if any do and nothing is in the way."""
        if self.awaited is not None and self._in_the_way() is None:
            self.awaited.set_result(None)
            self.awaited = None
