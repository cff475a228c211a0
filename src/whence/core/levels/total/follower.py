"""The follower's side of a member: it delivers a merger's stream.

Law: keys are delivered in increasing order, and every delivered stamp is observed, so that whatever is published here
afterwards has a larger key. A bundle whose key is not above the last one is dropped; one whose stamp is invalid, or
ahead of every sensible clock, is rejected. What the stream left out is reported as a gap before the next bundle; an
omitted publication of this member's own is reported to it as publisher. Late bundles are delivered beside the stream,
each once.
The stream itself, and switching to another merger: subscription.py.
Source: docs/papers/merge.md: merge 5, 6 and 11.
"""

from collections import deque

from whence.core.clocks.stamp import REST_BITS, MergeKey, last_key_of, low_key
from whence.core.levels.total.clock import GuardedClock
from whence.core.levels.total.gaps import GapDetector, report
from whence.core.levels.total.items import Bye, Closed, LateBundle, Opened, Stream
from whence.core.levels.total.metrics import MemberMetrics
from whence.core.levels.total.outbox import Outbox
from whence.core.levels.total.settings import ALL_TOPICS
from whence.core.levels.total.subscription import Subscription
from whence.core.ready import Delivery, Item, Late, Mark, Ready
from whence.errors import LimitError
from whence.types import Bundle, Instant, Process

LATE_REMEMBERED = 64
"""Late bundles a follower remembers, so that a copy of one is not delivered twice."""


class StreamState:
    """What a member knows of the streams it has read. It outlasts a change of merger, and a time as merger."""

    def __init__(self, gaps: GapDetector) -> None:
        self.gaps = gaps
        self.late: deque[int] = deque(maxlen=LATE_REMEMBERED)
        """k_lo of the most recent late bundles."""
        self.last: MergeKey | None = None
        """The last key delivered, whoever merged it; None: nothing yet."""


class Follower:
    """Reads the stream of one merger after another."""

    def __init__(
        self, me: Process, subscription: Subscription, clock: GuardedClock, state: StreamState, outbox: Outbox,
        metrics: MemberMetrics, tick_ns: int,
    ) -> None:  # fmt: skip
        self.subscription = subscription
        self._pid = me.pid
        self._clock = clock
        self._state = state
        self._outbox = outbox
        self._metrics = metrics
        self._tick_ns = tick_ns
        self._origin = clock.timing.origin
        self._ahead_max = clock.lead_max + clock.timing.stall_max

    def guard(self, ready: Ready) -> None:
        """Discard a last key from the future: nothing would pass it any more."""
        last, rt = self.subscription.last, self._clock.rt
        if last is not None and (last[0] >> REST_BITS) + self._origin > rt + self._ahead_max:
            self.subscription.last = last_key_of(rt + self._clock.lead_max, self._origin)
            self._clock.repaired("last_key", ready)

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> bool:
        """Take what a merger sends; return whether the stream just began."""
        if isinstance(item, Stream):
            for each in self.subscription.take(sender, item, now, ready):
                if isinstance(each, Closed):
                    self._close(each, ready)
                else:
                    self._deliver(each, ready)
        elif isinstance(item, Opened):
            return self.subscription.opened(sender, item, now, ready)
        elif isinstance(item, LateBundle):
            self._deliver_late(item, ready)
        elif isinstance(item, Bye):
            self.subscription.unreachable(sender.pid, now, ready)
        return False

    def _deliver(self, bundle: Bundle, ready: Ready) -> None:
        """Deliver a bundle of the stream, unless its key is not above the last one or its stamp is absurd."""
        clock, subscription = self._clock, self.subscription
        stamps, rt = clock.stamps, clock.rt
        try:
            stamp = stamps.read(bundle.stamp, rt)
            key = clock.key_of(stamp, bundle)
        except (ValueError, LimitError):
            self._metrics.reject("stamp", bundle, ready)
            return
        if stamps.physical(stamp) > rt + self._ahead_max:
            self._metrics.reject("future", bundle, ready)
        elif subscription.last is not None and key <= subscription.last:
            self._metrics.drop("duplicate", bundle, ready)
        else:
            subscription.last = self._state.last = key
            stamps.observe(rt, stamp)
            if subscription.topics == ALL_TOPICS:
                gap = self._state.gaps.before(bundle)
                if gap is not None:
                    report(gap, bundle, self._metrics, ready)
            if bundle.pid == self._pid:
                self._outbox.arrived_in_stream(bundle)
            if self._outbox.expected:
                self._outbox.stream_passed(key, ready)
            ready.deliver.append(Delivery(bundle, 0, Mark(((key[0] >> REST_BITS) + self._origin, *key))))

    def _close(self, closed: Closed, ready: Ready) -> None:
        """Report what was left out at the end of a publisher's events: nothing up to here will come any more."""
        stamps, rt, subscription = self._clock.stamps, self._clock.rt, self.subscription
        try:
            stamp = stamps.read(closed.stamp, rt)
            key = (*stamps.packed(stamp), 0)
        except (ValueError, LimitError):
            return
        if stamps.physical(stamp) > rt + self._ahead_max or subscription.last is None:
            return
        subscription.last = self._state.last = max(subscription.last, key)
        if subscription.topics == ALL_TOPICS:
            gap = self._state.gaps.closed(closed.pid, closed.incarnation, closed.following)
            if gap is not None:
                report(gap, None, self._metrics, ready)
        if self._outbox.expected:
            self._outbox.stream_passed(key, ready)

    def _deliver_late(self, item: LateBundle, ready: Ready) -> None:
        """Deliver a late bundle beside the stream, unless it is a copy."""
        bundle, stamps, rt = item.bundle, self._clock.stamps, self._clock.rt
        try:
            stamp = stamps.read(bundle.stamp, rt)
            k_lo = low_key(bundle.pid, bundle.incarnation, bundle.first)
        except (ValueError, LimitError):
            self._metrics.reject("stamp", bundle, ready)
            return
        if k_lo not in self._state.late and stamps.wrong(stamp, rt) is None:
            self._state.late.append(k_lo)
            stamps.observe(rt, stamp)
            self._metrics.counts["late"] += bundle.count
            ready.deliver.append(Late(bundle, item.late_ticks * self._tick_ns))

    def subscribe(self, topics: int, now: Instant, ready: Ready) -> None:
        """Read only these topics from now on."""
        self.subscription.topics = topics
        self._outbox.expect_nothing()
        self.subscription.begin(now, ready)
