"""Strict total order: one sequence for all, without omissions and without a bound on time.

Promises: members that stay hand out the same sequence, by key; a newcomer hands out what follows its first key.
The sentence that decides: hand out the message with the smallest key once every other member has promised to publish
only with later clocks.
Costs: a clock per message, and an acknowledgement of each member for each message that raises its clock.
Source: docs/papers/views.md, strict total order; keys extend happened-before (Lamport 1978).
"""

from collections.abc import Callable
from heapq import heappop, heappush

from whence.core.ready import Delivery, Mark, Ready
from whence.core.views.items import Message, ViewMessage
from whence.core.views.journal import Reserve, Skipped, encode
from whence.core.views.order import Order
from whence.core.views.state import ViewState
from whence.core.views.streams import Stream
from whence.core.views.view import MarkAt, MemberId
from whence.epochs import NUMBER_BITS, is_founding, number_of
from whence.types import Instant

RESERVE = 1 << 16
"""How far ahead the clock is reserved: a later incarnation begins at the reserve."""


class TotalOrder(Order):
    """Holds what was got until its place in the sequence is certain."""

    def __init__(self, state: ViewState) -> None:
        super().__init__(state)
        self.clock = 0
        self._reserved = 0
        self._promised = 0
        """The clock that all others were last told."""
        self._waiting: list[tuple[int, int, int, int, Instant, Stream]] = []
        """Messages that were got and not handed out: clock, peer, the epoch it joined in, number, since when, stream.
        No two agree in the first four, so streams are never compared."""
        self._latecomer: Stream | None = None
        """The member whose promise was last waited for: most likely it still is."""
        self._pending: dict[MemberId, tuple[int, int]] = {}
        """Promises that wait for a number: it, and the clock."""
        self.start: int | None = None
        """A newcomer hands out nothing up to this clock; None: not known yet. Founders begin at 0."""
        self.owe: Callable[[Instant], None] = lambda now: None
        """Called when others must learn that the clock has risen."""
        self.is_safe: Callable[[Stream, int], bool] = lambda stream, number: True
        """Tells whether a message may be handed out as far as its copies go (`uniform`)."""

    # --- the clock ---

    def next_clock(self, now: Instant) -> int:
        """Return the clock of the next own message."""
        self.clock += 1
        return self.clock

    def promise(self) -> int:
        """Return the clock that all later own messages exceed."""
        return self.clock

    def told(self) -> None:
        """Note that all others are told the clock."""
        self._promised = self.clock

    def reserve(self, ready: Ready) -> None:
        """Write down how far the clock may go, before anybody is told."""
        if self.state.remembers and self.clock >= self._reserved:
            self._reserved = self.clock + RESERVE
            ready.persist.append(encode(Reserve(self._reserved)))

    def restore(self, limit: int) -> None:
        """Begin where an earlier incarnation must have stopped."""
        self.clock = self._reserved = max(limit, self._reserved)

    def records(self) -> list[Reserve]:
        """Return what a rewritten journal must have of the clock."""
        return [Reserve(self._reserved)]

    def promised(self, member: MemberId, number: int, clock: int) -> None:
        """Take the promise of a member: it counts once its messages up to a number were got."""
        stream = self.state.streams.get(member)
        if stream is None:
            return
        self.clock = max(self.clock, clock)
        if stream.got >= number:
            stream.promised = max(stream.promised, clock)
        elif clock > self._pending.get(member, (0, 0))[1]:
            self._pending[member] = (number, clock)

    # --- newcomers ---

    def may_mark(self) -> bool:
        """Tell whether an own mark may be published: a newcomer must know where it begins."""
        me = self.state.me
        if self.start is not None or me is None or is_founding(me.joined):
            return True
        start = 0
        for epoch, view in self.state.views.items():
            if epoch < me.joined:
                continue
            for cut in view.cuts:
                if cut.member.joined < me.joined and not any(mark.is_base_for(me.joined) for mark in cut.marks):
                    start = max(start, cut.clock)
        for member, stream in self.state.streams.items():
            if member.joined >= me.joined:
                continue
            marks = [mark for mark in stream.marks if mark.is_base_for(me.joined)]
            if stream.base is None or not (marks or self._is_removed(member)):
                return False
            start = max([start, *[mark.clock for mark in marks]])
        self.begin_at(start)
        return True

    def _is_removed(self, member: MemberId) -> bool:
        return any(view.cut_of(member) is not None for view in self.state.views.values())

    def begin_at(self, start: int) -> None:
        """Set the first clock of a newcomer."""
        me = self.state.me
        assert me is not None
        self.start = start
        self.clock = max(self.clock, start)
        for member, stream in self.state.streams.items():
            if member.joined == me.joined:
                stream.promised = max(stream.promised, start)

    def marked(self, mark: MarkAt) -> None:
        """Note that members added since the mark before, and after this one, have only later clocks than this mark:
        they begin after it."""
        me = self.state.me
        assert me is not None
        for member, stream in self.state.streams.items():
            if max(mark.prev, me.joined) < member.joined <= mark.epoch:
                stream.promised = max(stream.promised, mark.clock)

    def is_caught_up(self) -> bool:
        """Tell whether a newcomer has everything of the older members up to where it begins."""
        me, start = self.state.me, self.start
        if me is None or is_founding(me.joined):
            return True
        return start is not None and all(
            max(stream.promised, stream.clock) >= start
            for stream in self.state.here
            if stream.member.joined < me.joined
        )

    # --- messages ---

    def mark_of(self, message: Message) -> Mark:
        """Return what is stated about a message: its key and epoch."""
        member = self.state.origin_of(message)
        assert member is not None
        return _mark(message, member)

    def arrived(self, clock: int, now: Instant) -> None:
        """Let nobody wait for the clock here because this member waits: a newcomer counts nothing before it is opened,
        and everybody else goes by its promises as soon as it is in the view."""
        if clock > self.clock:
            self.clock = clock
        if clock > self._promised:
            self.owe(now)

    def got(self, stream: Stream, message: Message, hold_ns: int, now: Instant, ready: Ready) -> None:
        """Take a message that was got just now."""
        member, clock = stream.member, message.clock
        if clock > self.clock:
            self.clock = clock
        if clock > self._promised:
            self.owe(now)
        if clock > stream.promised:
            stream.promised = clock
        pending = self._pending.get(member)
        if pending is not None and stream.got >= pending[0]:
            stream.promised = max(stream.promised, pending[1])
            del self._pending[member]
        heappush(self._waiting, (clock, member.pid, member.joined, message.number, now - hold_ns, stream))
        self.progress(now, ready)

    def progress(self, now: Instant, ready: Ready) -> None:
        """Hand out what may be handed out by now."""
        state, waiting, last = self.state, self._waiting, self._latecomer
        if not waiting:
            return
        if last is not None and last.promised < waiting[0][0] and last.place >= 0 and last.member.pid != waiting[0][1]:
            return  # the one that was waited for has not promised enough
        while waiting and not state.open_cuts and state.live:
            clock, _, _, number, since, stream = waiting[0]
            if number <= stream.handed:
                heappop(waiting)
                continue
            if not self._is_due(clock, stream):
                return
            if isinstance(stream.retained[number], ViewMessage) and not self.is_safe(stream, number):
                return
            heappop(waiting)
            self._hand(stream, number, now - since, ready)

    def _is_due(self, clock: int, stream: Stream) -> bool:
        """Tell whether every other member of the view has promised to publish only later."""
        state = self.state
        own = state.own
        for other in state.here:
            if other.promised < clock and other is not stream and other is not own:
                self._latecomer = other
                return False
        return True

    def _hand(self, stream: Stream, number: int, hold_ns: int, ready: Ready) -> None:
        state = self.state
        message = stream.retained[number]
        stream.handed = number
        if stream.place >= 0:
            state.note_handed(stream.place)
        if not isinstance(message, ViewMessage):
            return
        if self.start is not None and message.clock <= self.start:
            stream.skip(number)
            if state.remembers:
                ready.persist.append(encode(Skipped(stream.member.pid, stream.member.joined, number)))
        else:
            ready.deliver.append(Delivery(message.bundle, hold_ns, _mark(message, stream.member)))


def _mark(message: Message, member: MemberId) -> Mark:
    """Return the place of a message as columns of a trace have it: whoever merges a trace goes by the last three."""
    who = member.pid << NUMBER_BITS | number_of(member.joined)
    return Mark((message.clock, message.clock, who, 0), epoch=message.epoch)
