"""Waits that say in the log, once they take long, what they wait for."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger("whence.net")

LONG_WAIT_S = 5.0
"""A wait that lasts this long is logged, with what it waits for; again after twice the time, and so on."""


@contextmanager
def log_long_wait(describe: Callable[[], str], after_s: float | None = None) -> Iterator[None]:
    """While the body of the `with` block takes long, log what it waits for at that time; nothing if that is empty."""
    first_s = LONG_WAIT_S if after_s is None else after_s
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def tell(waited_s: float) -> None:
        if words := describe():
            log.warning("%s", words)
        timers[:] = [loop.call_later(2 * waited_s, tell, 2 * waited_s)]

    timers.append(loop.call_later(first_s, tell, first_s))
    try:
        yield
    finally:
        timers[0].cancel()
