"""Waits that say in the log, once they take long, what they wait for."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

log = logging.getLogger("whence.net")

LONG_WAIT_S = 5.0
"""A wait that lasts this long is logged, with what it waits for; again after twice the time, and so on."""

TOLD_MAX = 256
"""Sentences that are remembered, so that many who wait for the same say it once. Full: all are forgotten."""

_told_in: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, float]] = WeakKeyDictionary()
"""When each was last logged, in every event loop."""


@contextmanager
def log_long_wait(describe: Callable[[], str], after_s: float | None = None) -> Iterator[None]:
    """While the body of the `with` block takes long, log what it waits for at that time; nothing if that is empty."""
    first_s = LONG_WAIT_S if after_s is None else after_s
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def tell(waited_s: float) -> None:
        words, told = describe(), _told_in.setdefault(loop, {})
        if words and (words not in told or loop.time() - told[words] >= first_s):
            if len(told) >= TOLD_MAX:
                told.clear()
            told[words] = loop.time()
            log.warning("%s", words)
        timers[:] = [loop.call_later(2 * waited_s, tell, 2 * waited_s)]

    timers.append(loop.call_later(first_s, tell, first_s))
    try:
        yield
    finally:
        timers[0].cancel()
