"""Waking tasks that wait for an inbox."""

import asyncio


class Signal:
    """Tasks that wait for the same thing; all of them are woken when it may be there."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []

    def wait(self) -> "asyncio.Future[None]":
        """Return a future that is done when it is time; futures of abandoned waits are dropped."""
        if self.waiting:
            self.waiting = [future for future in self.waiting if not future.done()]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        return future

    def wake(self) -> None:
        """Wake them all."""
        woken, self.waiting = self.waiting, []
        for future in woken:
            if not future.done():
                future.set_result(None)
