"""What was delivered and not yet taken: bounded, with a named action when the application is too slow.

An application that wants to be called instead takes every batch at once: then nothing is kept here.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from whence.core.ready import Delivery as Step
from whence.core.ready import Gap, Late, Mark
from whence.errors import SlowConsumerError, UsageError, WhenceError
from whence.types import Bundle, EventId, Span

INBOX_BYTES_MAX = 64 << 20
"""Publishers of a group wait for its slowest consumer, so an inbox holds what they have under way. Should that ever be
more than this, nothing more is read from any peer until the consumer has caught up."""

LATE_MAX = 4096
"""Late events waiting for their reader. Full: the oldest go, and are counted."""

GAPS_MAX = 4096
"""Spans of a gap that wait for the next delivery. Full: the oldest go."""

RESETS_MAX = 16
"""Kinds of resets that wait for the next delivery: members know fewer."""


class Overflow(StrEnum):
    """What happens when the inbox is full."""

    PAUSE = "pause"
    DROP = "drop"
    CLOSE = "close"

    @classmethod
    def parse(cls, name: str) -> "Overflow":
        """Return the action of that name. Raises UsageError."""
        if name not in cls.__members__.values():
            raise UsageError(f"overflow is pause, drop or close, not {name!r}")
        return cls(name)


class Delivery(Struct, frozen=True, gc=False):
    """One event, as the application sees it."""

    payload: bytes
    sender: int
    """The peer that published it."""
    event: EventId
    level: str
    position: int
    """Its place among all events delivered here in this group."""
    held_ns: int
    """How long it waited here for its turn."""
    latency_ns: int | None
    """About how long it took: half the usual round trip to its publisher, and the wait. None if not known."""
    gaps: tuple[Span, ...]
    """What was skipped just before it, for good."""
    key: tuple[int, int, int, int] | None
    """Its place in the merge order, at levels that have one."""
    ticket: int | None
    epoch: int | None
    """The ticket it was published with, and its fencing epoch, at levels that have them."""
    resets: tuple[str, ...] = ()
    """What happened just before it that a state built from deliveries may have to be built anew for: `too_old` (more
    is missing than is asked for), `gap` (no merger's log reached back), or the name of a part that was repaired."""


class LateEvent(Struct, frozen=True, gc=False):
    """An event that came after its place in the order had passed."""

    payload: bytes
    sender: int
    event: EventId
    late_ns: int


RoundTrip: TypeAlias = Callable[[int], int | None]
"""Returns the usual round trip to a peer, if it is known."""


class Batch(Struct, eq=False, gc=False):
    """Events of one bundle, delivered together. Iterate for single deliveries."""

    bundle: Bundle
    position: int
    level: str
    held_ns: int
    _rtt_ns: RoundTrip
    _mark: Mark | None
    gaps: tuple[Span, ...] = ()
    resets: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Return how many events it has."""
        return self.bundle.count

    @property
    def sender(self) -> int:
        """Return the peer that published it."""
        return self.bundle.pid

    def __len__(self) -> int:
        return self.bundle.count

    def payloads(self) -> list[bytes]:
        """Return the payloads alone."""
        return self.bundle.payloads()

    def __iter__(self) -> Iterator[Delivery]:
        bundle, mark, gaps, resets = self.bundle, self._mark, self.gaps, self.resets
        pid, boot, position = bundle.pid, bundle.boot, self.position
        rtt_ns = self._rtt_ns(pid)
        latency_ns = None if rtt_ns is None else rtt_ns // 2 + self.held_ns
        key, ticket, epoch = (mark.key, mark.ticket, mark.epoch) if mark is not None else (None, None, None)
        for offset, payload in enumerate(bundle.payloads()):
            yield Delivery(
                payload, pid, EventId(pid, boot, bundle.first + offset), self.level, position + offset, self.held_ns,
                latency_ns, gaps, None if key is None else (*key[:3], key[3] + offset), ticket, epoch, resets,
            )  # fmt: skip
            gaps, resets = (), ()


class Inbox:
    """The deliveries of one group on their way to the application."""

    def __init__(
        self,
        level: str,
        events_max: int,
        overflow: Overflow,
        *,
        receive: bool,
        on_batch: Callable[[Batch], None] | None = None,
    ) -> None:
        if events_max < 1:
            raise UsageError(f"inbox_events_max must be at least 1, not {events_max}")
        if on_batch is not None and not receive:
            raise UsageError("receive=False takes no deliveries, so on_batch would never be called; give one of them")
        self.events = 0
        self.events_max = events_max
        self.dropped = 0
        self.late_dropped = 0
        self.on_pause: Callable[[object, bool], None] = lambda who, pause: None
        self.on_taken: Callable[[Bundle], None] = lambda bundle: None
        self.rtt_ns: RoundTrip = lambda peer: None
        self._level = level
        self._overflow = overflow
        self._receive = receive
        self._on_batch = on_batch
        self._batches: deque[Batch] = deque()
        self._late: deque[LateEvent] = deque()
        self._gaps: list[Span] = []
        self._resets: dict[str, None] = {}
        self._ended = False
        self._error: WhenceError | None = None
        self._waiters: dict[str, list[asyncio.Future[None]]] = {"next": [], "late": [], "room": []}
        self._paused = False
        self._bytes = 0

    # --- what the driver brings ---

    def take(self, step: Step, position: int) -> None:
        """Queue a delivered bundle, or call the application with it."""
        bundle = step.bundle
        if not self._receive:
            self.on_taken(bundle)
            return
        if self._error is not None:
            return
        batch = Batch(bundle, position, self._level, step.hold_ns, self.rtt_ns, step.mark)
        if self._gaps or self._resets:
            batch.gaps, batch.resets = tuple(self._gaps), tuple(self._resets)
            self._gaps.clear()
            self._resets.clear()
        if self._on_batch is not None:
            self.on_taken(bundle)
            try:
                self._on_batch(batch)
            except Exception as error:  # noqa: BLE001 - the application's, of any kind; the next batch comes all the same
                told = {"message": f"on_batch failed with a batch of {batch.sender}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(told)
            return
        self._batches.append(batch)
        self.events += bundle.count
        self._bytes += len(bundle.body)
        if self.events >= self.events_max:
            self._overflowed()
        if self._waiters["next"]:
            self._wake("next")

    def skip(self, gap: Gap) -> None:
        """Keep word of a gap for the next delivery."""
        if self._receive:
            self._gaps += gap.spans
            del self._gaps[:-GAPS_MAX]

    def reset(self, reason: str) -> None:
        """Keep word of a reset for the next delivery."""
        if self._receive and len(self._resets) < RESETS_MAX:
            self._resets[reason] = None

    def late(self, late: Late) -> None:
        """Queue a late bundle's events."""
        if not self._receive:
            return
        bundle = late.bundle
        for seq, payload in enumerate(bundle.payloads(), bundle.first):
            self._late.append(LateEvent(payload, bundle.pid, EventId(bundle.pid, bundle.boot, seq), late.late_ns))
        while len(self._late) > LATE_MAX:
            self._late.popleft()
            self.late_dropped += 1
        self._wake("late")

    def end(self, error: WhenceError | None) -> None:
        """End the iterators once they have taken what is here."""
        self._ended = True
        self._error = self._error or error
        for name in self._waiters:
            self._wake(name)

    # --- what the application takes ---

    def batches(self) -> "Inbox":
        """Return itself to iterate over. Raises UsageError where the application is called instead."""
        if self._on_batch is not None:
            raise UsageError("the deliveries of this group go to on_batch; open it without to iterate over them")
        return self

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> Batch:
        """Return the next batch; end when nothing more comes. Raises what ended the group, if it was an error."""
        while not self._batches:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            await self._waiter("next")
        batch = self._batches.popleft()
        bundle = batch.bundle
        self.on_taken(bundle)
        self._bytes -= len(bundle.body)
        self.events -= bundle.count
        if self._paused and self._bytes <= INBOX_BYTES_MAX // 2:
            self._pause(False)
        if self.events < self.events_max and self._waiters["room"]:
            self._wake("room")
        return batch

    async def next_late(self) -> LateEvent | None:
        """Return the next late event; None when nothing more comes."""
        while not self._late:
            if self._ended:
                return None
            await self._waiter("late")
        return self._late.popleft()

    def full(self) -> bool:
        """Tell whether publishers should wait for the consumer."""
        return self._overflow is Overflow.PAUSE and self.events >= self.events_max

    async def room(self) -> None:
        """Wait until the consumer has taken something."""
        if self.full() and not self._ended:
            await self._waiter("room")

    # --- when it is full ---

    def _overflowed(self) -> None:
        if self._overflow is Overflow.PAUSE:
            if not self._paused and self._bytes > INBOX_BYTES_MAX:
                self._pause(True)
        elif self._overflow is Overflow.CLOSE:
            self._error = SlowConsumerError("inbox_events_max", self.events_max, self.events)
        else:
            while self.events > self.events_max and len(self._batches) > 1:
                gone = self._batches.popleft()
                bundle = gone.bundle
                self.events -= bundle.count
                self.dropped += bundle.count
                self._bytes -= len(bundle.body)
                self.on_taken(bundle)
                first = self._batches[0]
                first.gaps = (*gone.gaps, Span(bundle.pid, bundle.boot, bundle.first, bundle.last), *first.gaps)[-64:]
                first.resets = tuple(dict.fromkeys((*gone.resets, *first.resets)))

    def _pause(self, pause: bool) -> None:
        self._paused = pause
        self.on_pause(self, pause)

    def _waiter(self, name: str) -> "asyncio.Future[None]":
        """Return what will be done when it is time; those of waits that were given up go."""
        waiting = self._waiters[name]
        if waiting:
            waiting[:] = [future for future in waiting if not future.done()]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return future

    def _wake(self, name: str) -> None:
        woken, self._waiters[name] = self._waiters[name], []
        for future in woken:
            if not future.done():
                future.set_result(None)
