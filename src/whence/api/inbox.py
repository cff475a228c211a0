"""Events that were delivered and not yet handed out: bounded, with a named action when the application is too slow.

Law: an event is handed out once within an incarnation, whichever reader asks: a `break`, a cancelled or timed-out wait
and a second iterator lose nothing and repeat nothing. It is taken when the application asks for the next one, or, with
`ack="manual"`, when it is acknowledged; core/offsets.py counts both, and where members remember, a later incarnation
begins with the first event that was not taken. Events and batches are iterated as one sequence: a batch begun as events
continues as a batch of the rest.

A row of a trace stands for an event that the application was handed, and is on file before the event counts as taken.

An application that wants to be called instead is handed every batch at once, and has taken it when the call returns.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import count, islice

from msgspec.structs import replace

from whence.api.delivery import Batch, Delivery, RoundTrip, cut
from whence.api.gaps import RESETS_MAX, bounded
from whence.api.late import LateEvents
from whence.api.signal import Signal
from whence.core.offsets import Offsets
from whence.core.ready import Delivery as Step
from whence.core.ready import Gap, Late, Mark
from whence.epochs import number_of
from whence.errors import ClosedError, LimitError, RemovedError, SlowConsumerError, UsageError, WhenceError
from whence.net.membership import Removed, View
from whence.net.recorder import TraceRecorder
from whence.types import Bundle, EventId, Span

INBOX_BYTES_MAX = 64 << 20
"""Publishers of a group wait for its slowest consumer, so an inbox holds what they have in flight. Should that ever
exceed this bound, nothing more is read from any peer until the consumer has caught up."""


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


class Ack(StrEnum):
    """When an event counts as taken."""

    NEXT = "next"
    """When the application asks for the next one."""
    MANUAL = "manual"
    """When it calls `ack`."""

    @classmethod
    def parse(cls, name: str) -> "Ack":
        """Return the mode of that name. Raises UsageError."""
        if name not in cls.__members__.values():
            raise UsageError(f"ack is next or manual, not {name!r}")
        return cls(name)


VIEWS_MAX = 256
"""Views that wait for a reader; most applications ask for deliveries only. Full: the oldest is forgotten."""

_NOTHING: tuple[Delivery, ...] = ()
_NUMBERS = count(1)


class Inbox:
    """The deliveries of one group on their way to the application, which takes them through `deliveries`."""

    def __init__(
        self,
        level: str,
        events_max: int,
        overflow: Overflow,
        *,
        receive: bool,
        on_batch: Callable[[Batch], None] | None = None,
        ack: Ack = Ack.NEXT,
    ) -> None:
        if on_batch is not None and not receive:
            raise UsageError("receive=False takes no deliveries, so on_batch would never be called; give one of them")
        self.events = 0
        """Events of batches that no reader has begun."""
        self.events_max = events_max
        self.dropped = 0
        self.ended = False
        """Nothing more will come."""
        self.manual = ack is Ack.MANUAL
        self.on_pause: Callable[[object, bool], None] = lambda who, pause: None
        self.offsets = Offsets(None, manual=self.manual)
        self.recorder: TraceRecorder | None = None
        self.rtt_ns: RoundTrip = lambda peer: None
        self.member_of: Callable[[int], int] = int
        """Returns what views tell of a member."""
        self.batches: deque[Batch] = deque()
        """Batches that no reader has begun."""
        self.deliveries = Deliveries(self)
        self.late_events = LateEvents()
        self.level = level
        self._overflow = overflow
        self._receive = receive
        self._on_batch = on_batch
        self._number = next(_NUMBERS)
        """Distinguishes its deliveries from those of other inboxes of this process."""
        self._gaps: list[Span] = []
        self._resets: dict[str, None] = {}
        self._closing = False
        self._is_over = False
        """The application has closed the group, and what still comes is dropped."""
        self._error: WhenceError | None = None
        self._arrived, self._room = Signal(), Signal()
        self._paused = False
        self._bytes = 0
        self.begun = 0
        """Batches that a reader has begun, or that were dropped."""
        self.views: deque[tuple[int, View]] = deque(maxlen=VIEWS_MAX)
        """Views that no reader has asked for, each with the number of batches that come before it."""

    # --- what the driver brings ---

    def deliver(self, step: Step) -> None:
        """Queue a bundle that the member delivers, or call the application with it, without the events that it took in
        an earlier incarnation."""
        bundle, mark, offsets = step.bundle, step.mark, self.offsets
        delivered = offsets.deliver(bundle)
        have, left = delivered.have, delivered.left
        if not left:
            offsets.on_taken(bundle, have)
            return
        if have:
            bundle, mark = cut(bundle, mark, have)
        if not self._receive:
            self.hand(bundle, left, step.hold_ns, mark)
            self.take_in_hand()
            return
        if self._error is not None or self._is_over:
            if self._is_over and not offsets.counts:
                offsets.on_taken(bundle, left)
            return
        batch = Batch(bundle, left, delivered.position, self.level, step.hold_ns, self.rtt_ns, mark)
        if delivered.again:
            batch.redelivered = delivered.again
        if offsets.counts:
            batch._ordinal, batch._inbox = offsets.delivered - left, self._number
        if self._gaps or self._resets:
            batch.gaps, batch.resets = tuple(self._gaps), tuple(self._resets)
            self._gaps.clear()
            self._resets.clear()
        if self._on_batch is not None:
            self._call(self._on_batch, batch)
            return
        self.batches.append(batch)
        self.events += left
        self._bytes += len(bundle.body)
        if self.events >= self.events_max:
            self._overflowed()
        if self._arrived.waiting:
            self._arrived.wake()

    def _call(self, on_batch: Callable[[Batch], None], batch: Batch) -> None:
        """Call the application with a batch; it has taken it when the call returns."""
        offsets = self.offsets
        if self.recorder is not None:
            self.recorder.handed(batch.bundle, batch.held_ns, batch._mark, 0, batch.payloads())
        if offsets.counts:
            offsets.hand(batch.bundle, batch.count)
        try:
            on_batch(batch)
        except Exception as error:  # noqa: BLE001 - the application's, of any kind; the next batch still comes
            _report(batch, error)
        if not offsets.counts:
            offsets.on_taken(batch.bundle, batch.count)
        elif not self.manual:
            self.take_in_hand()

    def skip(self, gap: Gap) -> None:
        """Remember a gap, to report it with the next delivery."""
        if self._receive:
            self._gaps, self._resets = bounded((*self._gaps, *gap.spans), self._resets)

    def reset(self, reason: str) -> None:
        """Remember a reset, to report it with the next delivery."""
        if self._receive and len(self._resets) < RESETS_MAX:
            self._resets[reason] = None

    def late(self, late: Late) -> None:
        """Queue a late bundle's events."""
        if self._receive:
            self.late_events.add(late)

    def entered(self, view: View) -> None:
        """Queue a view that the member entered, before the first delivery that was published in it."""
        epochs = [batch._mark.epoch if batch._mark is not None else None for batch in self.batches]
        later = (at for at, epoch in enumerate(epochs) if epoch is not None and number_of(epoch) >= view.epoch)
        before = next(later, len(epochs))
        self.views.append((self.begun + before, view))
        if self._arrived.waiting:
            self._arrived.wake()

    def closing(self) -> None:
        """Note that the application closes the group itself: what it was handed is taken. Nobody waits for it any more:
        what comes now and does not fit is dropped."""
        self._closing = True
        if self._paused:
            self._pause(False)
        if not self.manual:
            self.take_in_hand()

    def end(self, error: WhenceError | None) -> None:
        """End the iterators once they have handed out what is here; where a later incarnation continues, once what is
        taken can no longer be counted."""
        if self._closing and not self.ended:
            self.closing()
        self.ended = True
        self._error = self._error or error
        self._arrived.wake()
        self._room.wake()
        self.late_events.end()

    # --- what the application takes ---

    async def more(self) -> None:
        """Wait until more may be here. Raises StopAsyncIteration when nothing more will come, or what ended it."""
        if self._error is not None:
            raise self._error
        if self.ended:
            raise StopAsyncIteration
        await self._arrived.wait()

    def ack(self, upto: Delivery | Batch | None) -> None:
        """Count an event or a batch as taken, and all before it; None: all that was handed out. Raises UsageError, also
        where events are not counted one by one."""
        if not isinstance(upto, Delivery | Batch | None):
            raise UsageError(f"a delivery or a batch is acknowledged, not {type(upto).__name__}")
        if self.ended and self.offsets.closed:
            raise ClosedError("the group is closed; what was not acknowledged comes again where its level remembers")
        if not self.offsets.counts:
            raise UsageError(
                f"at level {self.level} an event counts as taken when it is handed out: open the group with "
                'ack="manual" to acknowledge events yourself'
            )
        handed = self.offsets.handed
        inbox = self._number
        if isinstance(upto, Batch):
            handed, inbox = upto._ordinal + upto.count, upto._inbox
        elif upto is not None:
            handed, inbox = upto._origin.ordinal + upto._offset + 1, upto._origin.inbox
        if inbox != self._number or not 0 <= handed <= self.offsets.handed:
            raise UsageError("only what this group handed out in this incarnation can be acknowledged")
        self._take_upto(handed)

    def check_iterable(self) -> None:
        """Raise UsageError where there is nothing to iterate over."""
        if self._on_batch is not None:
            raise UsageError("the deliveries of this group go to on_batch; open it without to iterate over them")
        if not self._receive:
            raise UsageError("this group was opened with receive=False; open it without to iterate over its deliveries")

    @property
    def quick(self) -> bool:
        """Tell whether handing out an event needs no bookkeeping."""
        return not self.offsets.counts and self.recorder is None

    def full(self) -> bool:
        """Tell whether publishers should wait for the consumer."""
        return self._overflow is Overflow.PAUSE and self.events >= self.events_max

    async def room(self) -> None:
        """Wait until the consumer has taken something."""
        if self.full() and not self.ended:
            await self._room.wait()

    # --- handing out ---

    def begin_batch(self) -> Batch:
        """Remove and return the next batch."""
        batch = self.batches.popleft()
        self.begun += 1
        self._bytes -= len(batch.bundle.body)
        self.events -= batch.count
        if self._paused and self._bytes <= INBOX_BYTES_MAX // 2:
            self._pause(False)
        if self.events < self.events_max and self._room.waiting:
            self._room.wake()
        return batch

    def hand(self, bundle: Bundle, count: int, hold_ns: int, mark: Mark | None) -> None:
        """Hand out a bundle as a whole."""
        if self.recorder is not None:
            self.recorder.handed(bundle, hold_ns, mark, 0, bundle.payloads())
        if self.offsets.counts:
            self.offsets.hand(bundle, count)
        else:
            self.offsets.on_taken(bundle, count)

    def check_room(self) -> None:
        """Raise LimitError where too many events wait to be acknowledged."""
        in_hand = self.offsets.handed - self.offsets.taken
        if in_hand >= self.events_max:
            raise LimitError("inbox_events_max", self.events_max, in_hand + 1)

    def take_in_hand(self) -> None:
        """Take all that was handed out."""
        self._take_upto(self.offsets.handed)

    def _take_upto(self, handed: int) -> None:
        """Take what was handed out up to an event of this incarnation; its trace row is on file before."""
        offsets = self.offsets
        if handed > offsets.taken:
            if self.recorder is not None and offsets.survives:
                self.recorder.segments.flush()
            offsets.take(handed - offsets.taken)

    # --- when it is full ---

    def _overflowed(self) -> None:
        if self._overflow is Overflow.PAUSE:
            if self._bytes > INBOX_BYTES_MAX:
                if self._closing:
                    self._drop_last()
                elif not self._paused:
                    self._pause(True)
        elif self._overflow is Overflow.CLOSE:
            self._error = SlowConsumerError("inbox_events_max", self.events_max, self.events)
        else:
            while self.events > self.events_max and len(self.batches) > 1:
                self._drop(self.batches.popleft())

    def _drop(self, gone: Batch) -> None:
        """Drop a batch, and report the gap with the next one. It is taken together with that one's first event."""
        bundle, first = gone.bundle, self.batches[0]
        self.begun += 1
        self.events -= gone.count
        self.dropped += gone.count
        self._bytes -= len(bundle.body)
        here = Span(bundle.pid, bundle.incarnation, bundle.first, bundle.last)
        if self.recorder is not None:
            self.recorder.skipped([here])
        if not self.offsets.counts:
            self.offsets.on_taken(bundle, gone.count)
        gaps, resets = bounded((*gone.gaps, here, *first.gaps), dict.fromkeys((*gone.resets, *first.resets)))
        first.gaps, first.resets = tuple(gaps), tuple(resets)

    def _drop_last(self) -> None:
        """Drop the batch that came last, and all that comes after it: the application has closed the group."""
        gone, self._is_over = self.batches.pop(), True
        self.events -= gone.count
        self._bytes -= len(gone.bundle.body)
        if not self.offsets.counts:
            self.offsets.on_taken(gone.bundle, gone.count)

    def _pause(self, pause: bool) -> None:
        self._paused = pause
        self.on_pause(self, pause)


def _report(batch: Batch, error: Exception) -> None:
    failure = {"message": f"on_batch failed with a batch of {batch.sender}", "exception": error}
    asyncio.get_running_loop().call_exception_handler(failure)


class Deliveries:
    """An iterator over the deliveries of a group, event by event. A group has one, which all its readers share."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._current: Batch | None = None
        """The batch whose events are being handed out one by one."""
        self._rest: Iterator[Delivery] = iter(_NOTHING)
        """Its events that were not handed out yet."""
        self._quick: Iterator[Delivery] = iter(_NOTHING)
        """All of those but the last, where handing one out needs no bookkeeping."""
        self._in_batch = False
        """Events of that batch are left."""

    def __aiter__(self) -> "Deliveries":
        return self

    async def __anext__(self) -> Delivery:
        """Return the next event; end when nothing more will come. Raises what ended the group, if it was an error."""
        for delivery in self._quick:
            return delivery
        while (found := self.next_now()) is None:
            await self._inbox.more()
        return found

    def next_now(self) -> Delivery | None:
        """Return the next event, None if none is here; the one before is taken. Raises LimitError where too many wait
        to be acknowledged."""
        for delivery in self._quick:
            return delivery
        inbox = self._inbox
        offsets, recorder = inbox.offsets, inbox.recorder
        if inbox.ended and offsets.closed:
            self._leave_to_a_later_incarnation()
        if inbox.manual:
            inbox.check_room()
        found = next(self._rest, None)
        batch = self._current
        if offsets.counts and not inbox.manual:
            if found is not None and batch is not None and offsets.handed - offsets.taken == 1:
                if recorder is not None:
                    recorder.segments.flush()
                offsets.step()
                if recorder is not None:
                    recorder.handed(batch.bundle, batch.held_ns, batch._mark, found._offset, (found.payload,))
                self._in_batch = found._offset < batch.count - 1
                return found
            inbox.take_in_hand()
        if found is None:
            if not inbox.batches:
                return None
            batch = inbox.begin_batch()
            found = self._begin(batch)
        assert batch is not None
        self._in_batch = found._offset < batch.count - 1
        if recorder is not None:
            recorder.handed(batch.bundle, batch.held_ns, batch._mark, found._offset, (found.payload,))
        if offsets.counts:
            offsets.hand(batch.bundle, 1)
        elif found._offset == batch.count - 1:
            offsets.on_taken(batch.bundle, batch.count)
        return found

    def view_now(self) -> View | None:
        """Return the view whose turn it is, None if it is a delivery's; what was handed out before is taken."""
        inbox = self._inbox
        if self._in_batch or not inbox.views or inbox.views[0][0] > inbox.begun:
            return None
        if inbox.offsets.counts and not inbox.manual:
            inbox.take_in_hand()
        return inbox.views.popleft()[1]

    def next_batch_now(self) -> Batch | None:
        """Return the next batch or the rest of one that was begun, None if none is here; what was before is taken."""
        inbox = self._inbox
        if inbox.ended and inbox.offsets.closed:
            self._leave_to_a_later_incarnation()
        if inbox.manual:
            inbox.check_room()
        elif inbox.offsets.counts:
            inbox.take_in_hand()
        left = sum(1 for _ in self._quick) + sum(1 for _ in self._rest)
        if left:
            assert self._current is not None
            batch = self._current.rest(self._current.count - left)
        elif inbox.batches:
            batch = inbox.begin_batch()
        else:
            return None
        self._current, self._in_batch = None, False
        inbox.hand(batch.bundle, batch.count, batch.held_ns, batch._mark)
        return batch

    def _begin(self, batch: Batch) -> Delivery:
        """Begin to hand out a batch event by event; return the first event."""
        self._current = batch
        count = batch.count
        if count == 1:
            return batch.only()
        self._rest = rest = iter(batch)
        first = next(rest)
        if self._inbox.quick:
            self._quick = islice(rest, count - 2)
        return first

    def _leave_to_a_later_incarnation(self) -> None:
        """Hand out nothing more, and count nothing as taken."""
        self._inbox.batches.clear()
        self._in_batch = False
        self._current, self._rest, self._quick = None, iter(_NOTHING), iter(_NOTHING)
        self._inbox.offsets.leave_untaken()


class Batches:
    """An iterator over the deliveries of a group, a batch at a time; it shares the sequence of single events."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def __aiter__(self) -> "Batches":
        return self

    async def __anext__(self) -> Batch:
        """Return the next batch; end when nothing more will come. Raises what ended the group, if it was an error."""
        while (batch := self._inbox.deliveries.next_batch_now()) is None:
            await self._inbox.more()
        return batch


class Events:
    """An iterator over deliveries and, between them, what becomes of the members; it shares the sequence of events."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._is_over = False

    def __aiter__(self) -> "Events":
        return self

    async def __anext__(self) -> Delivery | View | Removed:
        """Return the next delivery or view; Removed is the last. Raises what else ended the group, if it was an
        error."""
        deliveries = self._inbox.deliveries
        while True:
            found = deliveries.view_now() or deliveries.next_now()
            if isinstance(found, View):
                return self._named(found)
            if found is not None:
                return found
            try:
                await self._inbox.more()
            except RemovedError as error:
                if self._is_over:
                    raise StopAsyncIteration from None
                self._is_over = True
                cut = None if error.cut is None else EventId(*error.cut)
                return Removed(error.epoch, cut, error.is_known, error.generation)

    def _named(self, view: View) -> View:
        """Return a view whose members tell their names."""
        members, added, removed = (
            tuple(map(self._inbox.member_of, pids)) for pids in (view.members, view.added, view.removed)
        )
        return replace(view, members=members, added=added, removed=removed)
