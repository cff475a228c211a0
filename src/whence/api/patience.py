"""Long waits that say what they wait for."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger("whence.net")

PATIENCE_S = 5.0
"""A wait of so long is told of in the log, with what it waits for; again after twice the time, and so on."""


@contextmanager
def saying(words: Callable[[], str]) -> Iterator[None]:
    """Log these words, as they are by then, while what is inside takes long."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def say(waited_s: float) -> None:
        log.warning("%s", words())
        timers[:] = [loop.call_later(2 * waited_s, say, 2 * waited_s)]

    timers.append(loop.call_later(PATIENCE_S, say, PATIENCE_S))
    try:
        yield
    finally:
        timers[0].cancel()
