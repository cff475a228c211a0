"""Waits that say in the log, once they take long, what they wait for."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger("whence.net")

LONG_WAIT_S = 5.0
"""A wait that lasts this long is logged, with what it waits for; again after twice the time, and so on."""


@contextmanager
def log_long_wait(describe: Callable[[], str]) -> Iterator[None]:
    """While the body of the `with` block takes long, log what it waits for at that time."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def tell(waited_s: float) -> None:
        log.warning("%s", describe())
        timers[:] = [loop.call_later(2 * waited_s, tell, 2 * waited_s)]

    timers.append(loop.call_later(LONG_WAIT_S, tell, LONG_WAIT_S))
    try:
        yield
    finally:
        timers[0].cancel()
