"""Live groups on loopback for tests: a few nodes in one loop, every wait bounded."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from whence.api.group import Delivery, Group
from whence.api.node import Node, join
from whence.net.run import run
from whence.net.settings import NetSettings
from whence.store.log import DiskFile

Result = TypeVar("Result")

DEADLINE_S = 60.0
"""Far more than any of these tests takes; only a hang reaches it."""

QUICK = {"round_ns": 20_000_000}


def within(main: Coroutine[Any, Any, Result], deadline_s: float = DEADLINE_S) -> Result:
    """Run a test's coroutine, and fail instead of hanging."""

    async def bounded() -> Result:
        return await asyncio.wait_for(main, deadline_s)

    return run(bounded())


@asynccontextmanager
async def nodes(count: int, first: int = 1, **options: Any) -> AsyncIterator[list[Node]]:
    """Start nodes first, first + 1, …; each knows only the one before it."""
    async with numbered_nodes(range(first, first + count), **options) as started:
        yield started


@asynccontextmanager
async def numbered_nodes(numbers: Iterable[int], **options: Any) -> AsyncIterator[list[Node]]:
    """Start nodes with these numbers; each knows only the one before it. Each has its own part of `data`."""
    data = options.pop("data", None)
    async with AsyncExitStack() as stack:
        started: list[Node] = []
        for pid in numbers:
            contacts = [started[-1].address] if started else []
            own = data / str(pid) if data is not None else None
            started.append(await stack.enter_async_context(join(pid, contacts=contacts, data=own, **options)))
        yield started


class Full(DiskFile):
    """A disk that has just become full."""

    def write(self, pieces: Sequence[bytes]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_disk(node: Node, group: str = "alps") -> None:
    """Let the disk be full when the journal of a group is written next."""
    log = node.live.files.storage[group].commit.log
    log._file.close()
    log._file = Full(log.path)


async def open_all(started: list[Node], name: str = "alps", level: str = "fifo", **options: Any) -> list[Group]:
    """Open a group on all nodes and wait until everybody knows everybody."""
    options = {"settings": QUICK, **options}
    groups = list(await asyncio.gather(*[node.open(name, level, **options) for node in started]))
    for group in groups:
        await group.gathered(len(started), timeout_s=DEADLINE_S)
    return groups


async def take(group: Group, count: int) -> list[Delivery]:
    """Take so many deliveries, the last one too, unless the test acknowledges itself."""
    taken: list[Delivery] = []
    if count:
        async for delivery in group:
            taken.append(delivery)
            if len(taken) == count:
                break
    if taken and group.counts_taken and not group.manual:
        group.ack()
    return taken


def fast(**settings: Any) -> NetSettings:
    """Return settings whose deadlines tests can afford to reach."""
    return NetSettings(**{"call_ns": 1_000_000_000, "greeting_ns": 300_000_000, "retry_ns": 10_000_000, **settings})
