"""The same door without asyncio, for scripts and notebooks: a loop runs in a thread of its own, calls wait for it.

with whence.blocking.join(1, contacts=["127.0.0.1:4000"]) as node:
    group = node.open("alps", level="fifo")
    group.publish(b"hello")
    for delivery in group.take(10):
        ...
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from whence import group as live
from whence import node as door
from whence.net.run import loop_factory
from whence.types import EventId

Result = TypeVar("Result")


class _Thread:
    """A loop in a thread."""

    def __init__(self) -> None:
        self._loop = loop_factory()()
        self._thread = threading.Thread(target=self._loop.run_forever, name="whence", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Run a coroutine there and wait for its result. Raises what it raises, or TimeoutError."""
        future: Future[Result] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Group:
    """A group, for code without a loop."""

    def __init__(self, thread: _Thread, group: live.Group) -> None:
        self._thread = thread
        self.group = group

    def publish(self, payload: bytes, *, until: str = "accepted") -> EventId:
        """Publish an event; return its identity once `until` is reached. Raises as Group.publish does."""
        return self._thread.do(self._published([payload], until))

    def publish_many(self, payloads: Sequence[bytes], *, until: str = "accepted") -> EventId:
        """Publish events as one bundle; return the first one's identity."""
        return self._thread.do(self._published(payloads, until))

    async def _published(self, payloads: Sequence[bytes], until: str) -> EventId:
        receipt = await self.group.publish_many(payloads, until=until)
        return await receipt.accepted()

    def gathered(self, count: int, timeout_s: float = 30.0) -> None:
        """Wait until the group has so many members. Raises JoinError."""
        self._thread.do(self.group.gathered(count, timeout_s))

    def ticket(self) -> live.Status | None:
        """Return how this process stands at a level with tickets; see whence.group.Group.ticket."""

        async def ask() -> live.Status | None:
            return self.group.ticket()

        return self._thread.do(ask())

    def cjoin(self, timeout_s: float = 30.0) -> live.Status:
        """Ask for a ticket and wait until it may be used; raises as Group.cjoin does."""
        return self._thread.do(self.group.cjoin(timeout_s))

    def cleave(self, timeout_s: float = 30.0) -> None:
        """Give the ticket back; raises as Group.cleave does."""
        self._thread.do(self.group.cleave(timeout_s))

    def __iter__(self) -> Iterator[live.Delivery]:
        """Yield deliveries until the group is closed."""
        while (batch := self._thread.do(self._next())) is not None:
            yield from batch

    def take(self, count: int, timeout_s: float | None = None) -> Iterator[live.Delivery]:
        """Yield so many deliveries, fewer if the group ends or none comes for `timeout_s`.

        A batch is taken whole: what is over `count` of its last one is not yielded again.
        """
        while count > 0:
            try:
                batch = self._thread.do(self._next(), timeout_s)
            except TimeoutError:
                return
            if batch is None:
                return
            for delivery in list(batch)[:count]:
                count -= 1
                yield delivery

    async def _next(self) -> live.Batch | None:
        return await anext(self.group.batches(), None)

    def close(self) -> None:
        """Leave the group."""
        self._thread.do(self.group.close())


class Node:
    """A node, for code without a loop; a context manager."""

    def __init__(self, node: door.Node) -> None:
        self._node = node
        self._thread: _Thread | None = None

    def __enter__(self) -> "Node":
        """Start. Raises JoinError, StorageError, UsageError."""
        self._thread = _Thread()
        try:
            self._thread.do(self._node.__aenter__())
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every group and connection."""
        assert self._thread is not None
        self._thread.do(self._node.close())
        self._thread.close()

    @property
    def address(self) -> str:
        """Return host:port where others can reach this node."""
        return self._node.address

    def open(self, name: str, level: str = "fifo", **options: Any) -> Group:
        """Become a member of a group; see whence.node.Node.open."""
        assert self._thread is not None
        return Group(self._thread, self._thread.do(self._node.open(name, level, **options)))


def join(pid: int, **options: Any) -> Node:
    """Return a node to enter with `with`; see whence.join for the options."""
    return Node(door.join(pid, **options))
