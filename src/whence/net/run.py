"""The event loop: uvloop where it is installed, else the standard one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes loops."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a program on a fresh loop, like asyncio.run."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
