"""How a program of live nodes runs: on uvloop where it is installed, with freed memory retained for the next bundle."""

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

RETAINED_BYTES = 16 << 20
"""Freed memory that stays with the process. Otherwise glibc returns most of it, and a member that holds bundles for a
while requests it again at once, page by page: 12,000 of them a second at `total` with payloads of 1 KiB."""

FROM_HEAP_BYTES = 4 << 20
"""An allocation larger than any bundle has pages of its own, which are returned when it is freed."""

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The numbers of these two parameters in glibc's `mallopt`."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return a factory of event loops."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a program on a fresh loop, like asyncio.run."""
    keep_freed_memory()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def keep_freed_memory() -> None:
    """Let the process retain some of the memory it frees, unless its environment tunes that; with glibc only."""
    tuned = any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ)
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" and not tuned else None
    if tune is not None:
        tune(TRIM_THRESHOLD, RETAINED_BYTES)
        tune(MMAP_THRESHOLD, FROM_HEAP_BYTES)
