"""Publishers of one group that wait for its members; they are woken when a member took something or is gone."""

import asyncio
from collections.abc import Callable

LOOK_AGAIN_S = 0.1
"""How often a waiting publisher looks again by itself: a member that takes nothing is given up after a while."""


class Waiters:
    """The publishers that wait until nothing is in the way any more."""

    def __init__(self, in_the_way: Callable[[], object | None]) -> None:
        self.awaited: asyncio.Future[None] | None = None
        """The future to wake them with; None: no publisher waits."""
        self._in_the_way = in_the_way
        self._loop = asyncio.get_running_loop()

    async def wait(self) -> None:
        """Wait until nothing is in the way, at most LOOK_AGAIN_S."""
        if self.awaited is None:
            self.awaited = self._loop.create_future()
        await asyncio.wait([self.awaited], timeout=LOOK_AGAIN_S)

    def look(self) -> None:
        """Wake the waiting publishers, if there are any and nothing is in the way."""
        if self.awaited is not None and self._in_the_way() is None:
            self.awaited.set_result(None)
            self.awaited = None
