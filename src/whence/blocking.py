"""The same interface without asyncio, for scripts and notebooks: a loop runs in a thread of its own, and calls wait for
it.

with whence.blocking.join("billing-1", contacts=["127.0.0.1:4000"]) as node:
    group = node.open("alps", level="fifo")
    group.publish(b"hello")
    for delivery in group.take(10):
        ...
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from whence.api import group as live
from whence.api import node as door
from whence.api.arguments import check_count
from whence.api.members import Member
from whence.core.member import ViewStatus
from whence.errors import ClosedError
from whence.net.membership import Removed, View
from whence.net.run import loop_factory
from whence.types import EventId

Result = TypeVar("Result")

FETCHED_MAX = 64
"""Deliveries that come from the loop's thread at once: few enough to be used soon, many enough to share the cost."""


class _Thread:
    """A loop in a thread."""

    def __init__(self) -> None:
        self._loop = loop_factory()()
        self._thread = threading.Thread(target=self._loop.run_forever, name="whence", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Run a coroutine there and wait for its result. Raises what it raises, or TimeoutError."""
        if self._loop.is_closed():
            work.close()
            raise ClosedError("the node is closed")
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
        self._fetched: deque[live.Delivery] = deque()
        """Deliveries that were handed out in the loop's thread and not yielded here yet."""

    def publish(self, payload: bytes, *, until: str = "accepted", timeout_s: float | None = None) -> EventId:
        """Publish an event; return its identity once `until` is reached. Raises as Group.publish does."""
        return self._thread.do(self._published([payload], until, timeout_s))

    def publish_many(
        self, payloads: Sequence[bytes], *, until: str = "accepted", timeout_s: float | None = None
    ) -> EventId:
        """Publish events as one bundle; return the first one's identity."""
        return self._thread.do(self._published(payloads, until, timeout_s))

    async def _published(self, payloads: Sequence[bytes], until: str, timeout_s: float | None) -> EventId:
        receipt = await self.group.publish_many(payloads, until=until, timeout_s=timeout_s)
        return await receipt.accepted()

    def gathered(self, count: int, timeout_s: float = 30.0) -> None:
        """Wait until the group has `count` members. Raises JoinError."""
        self._thread.do(self.group.gathered(count, timeout_s))

    def ticket(self) -> live.TicketStatus | None:
        """Return how this process stands at a level with tickets; see whence.api.group.Group.ticket."""
        return self._ask(self.group.ticket)

    def acquire_ticket(self, timeout_s: float = 30.0) -> live.TicketStatus:
        """Ask for a ticket and wait until it may be used; raises as Group.acquire_ticket does."""
        return self._thread.do(self.group.acquire_ticket(timeout_s))

    def release_ticket(self, timeout_s: float = 30.0) -> None:
        """Give the ticket back; raises as Group.release_ticket does."""
        self._thread.do(self.group.release_ticket(timeout_s))

    cjoin, cleave = acquire_ticket, release_ticket

    def __iter__(self) -> Iterator[live.Delivery]:
        """Yield deliveries until the group is closed; asking for the next one takes the one before."""
        while (delivery := self._next(None, FETCHED_MAX)) is not None:
            yield delivery

    def take(self, count: int, timeout_s: float | None = None) -> Iterator[live.Delivery]:
        """Yield `count` deliveries, fewer if the group ends or none comes for `timeout_s`. The last is taken when the
        iterator is asked for more; what is not yielded comes with the next call."""
        check_count("count", count, least=0)
        for left in range(count, 0, -1):
            try:
                delivery = self._next(timeout_s, left)
            except TimeoutError:
                return
            if delivery is None:
                return
            yield delivery
        if count > 0:
            self._thread.do(self._take_in_hand())

    def next(self, timeout: float | None = None) -> live.Delivery:
        """Return the next delivery; raises as Group.next does."""
        delivery = self._next(timeout, 1)
        if delivery is None:
            raise ClosedError(f"group {self.group.name!r} is closed, and everything was handed out")
        return delivery

    def ack(self, upto: live.Delivery | None = None) -> None:
        """Take an event and everything before it; see Group.ack."""
        self._ask(lambda: self.group.ack(upto))

    # --- the members, where they change by views ---

    def members(self) -> tuple[Member, ...]:
        """Return the other members known now; see Group.members."""
        return self._ask(self.group.members)

    def view(self) -> ViewStatus | None:
        """Return the view this member is in; see Group.view."""
        return self._ask(self.group.view)

    def events(self) -> Iterator[live.Delivery | View | Removed]:
        """Yield deliveries and, in between, the views of a living group, until it ends; see Group.events."""
        while self._fetched:
            yield self._fetched.popleft()
        events = self._ask(self.group.events)
        found: deque[live.Delivery | View | Removed] = deque()

        async def fetch() -> None:
            with contextlib.suppress(StopAsyncIteration):
                found.append(await anext(events))

        self._thread.do(fetch())
        while found:
            yield found.popleft()
            self._thread.do(fetch())

    def leave(self, timeout_s: float | None = 30.0) -> None:
        """Leave a living group for good; raises as Group.leave does."""
        self._thread.do(self.group.leave(timeout_s))

    def remove(self, pid: int, timeout_s: float | None = 30.0) -> None:
        """Remove another member of a living group, and wait until it is out; raises as Group.remove does."""
        self._thread.do(self.group.remove(pid, timeout_s))

    def force(
        self, survivors: Sequence[int | str], timeout_s: float | None = 30.0, *, despite_quorum: bool = False
    ) -> None:
        """Go on with these members where the quorum is lost; promises nothing across it, and raises as Group.force
        does."""
        self._thread.do(self.group.force(survivors, timeout_s, despite_quorum=despite_quorum))

    def _ask(self, question: Callable[[], Result]) -> Result:
        """Return what a function answers in the loop's thread."""

        async def ask() -> Result:
            return question()

        return self._thread.do(ask())

    def _next(self, timeout_s: float | None, wanted: int) -> live.Delivery | None:
        """Return the next delivery, None at the end. Raises TimeoutError."""
        if not self._fetched and not self._thread.do(self._fetch(timeout_s, wanted)):
            return None
        return self._fetched.popleft()

    async def _fetch(self, timeout_s: float | None, wanted: int) -> bool:
        """Fetch the next deliveries; return False at the end.

        They are put where the other thread finds them, so that none is lost if it stops waiting. All that are there
        come at once, unless each must be counted when the application gets it.
        """
        try:
            self._fetched.append(await self.group.next(timeout_s))
        except ClosedError:
            return False
        while len(self._fetched) < min(wanted, FETCHED_MAX) and (delivery := self.group.next_quick()) is not None:
            self._fetched.append(delivery)
        return True

    async def _take_in_hand(self) -> None:
        if self.group.counts_taken and not self.group.manual:
            with contextlib.suppress(ClosedError):
                self.group.ack()

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
            self._thread = None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every group and connection; see whence.api.node.Node."""
        thread, self._thread = self._thread, None
        assert thread is not None
        try:
            thread.do(self._node.__aexit__(kind, error, trace))
        finally:
            thread.close()

    @property
    def name(self) -> str:
        """Return the name of this process; empty if it was given a pid alone."""
        return self._node.name

    @property
    def pid(self) -> int:
        """Return the pid of this process."""
        return self._node.pid

    @property
    def address(self) -> str:
        """Return host:port where others can reach this node."""
        return self._node.address

    def open(self, name: str, level: str = "fifo", **options: Any) -> Group:
        """Become a member of a group; see whence.api.node.Node.open."""
        if self._thread is None:
            raise ClosedError("the node is not running; use it inside `with whence.blocking.join(...)`")
        return Group(self._thread, self._thread.do(self._node.open(name, level, **options)))


def join(name: str | int | None = None, **options: Any) -> Node:
    """Return a node to enter with `with`; see whence.join for the options."""
    return Node(door.join(name, **options))
