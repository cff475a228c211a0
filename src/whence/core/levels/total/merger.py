"""The merger's side of a member: takes publications, releases them in the order of their keys, serves followers.

Law: what is released is first written to the journal (its last key), then delivered here and sent to followers; each
stream has increasing keys. A late bundle is delivered beside the stream, here and at followers, or only counted
(setting `late`). What the stream left out is reported as a gap: before the publisher's next event, or where it paused.
The order, and when it is safe: merge_buffer.py.
A merger without a server warms up: it only collects, until all publishers have sent to it for δ (roles.py).
Cost per bundle: an acknowledgement, and what the buffer and the streams cost.
Source: docs/papers/merge.md: merge 5, 6 and 11.
"""

from whence.core.clocks.stamp import REST_BITS, MergeKey, last_key_of
from whence.core.levels.total.clock import GuardedClock
from whence.core.levels.total.follower import StreamState
from whence.core.levels.total.gaps import PUBLISHERS_MAX, report
from whence.core.levels.total.items import Alive, Bye, Follow, LateBundle, journal_entry
from whence.core.levels.total.merge_buffer import ARRIVED, BUNDLE, Entry, Fate, MergeBuffer, entry_of
from whence.core.levels.total.metrics import MemberMetrics
from whence.core.levels.total.settings import TotalSettings
from whence.core.levels.total.stream_server import StreamServer
from whence.core.ready import Delivery, Gauge, Item, Late, Mark, Metric, Note, Ready, Send
from whence.errors import LimitError
from whence.types import Bundle, Instant, Process


class Merger:
    """A buffer in key order, and the server that streams what leaves it."""

    def __init__(
        self, buffer: MergeBuffer, settings: TotalSettings, clock: GuardedClock, stream: StreamState,
        metrics: MemberMetrics,
    ) -> None:  # fmt: skip
        self.buffer = buffer
        self.server: StreamServer | None = None
        """None while it warms up."""
        self.warm_at = 0
        """The tick from which it serves: by then all publishers have known it for δ."""
        self._clock = clock
        self._stream = stream
        self._metrics = metrics
        self._merge = settings.merge
        self._origin = settings.timing.origin
        self._delta = settings.timing.delta
        self._wait_max = settings.timing.delta + settings.timing.epsilon
        self._pauses: dict[Process, tuple[MergeKey, Alive]] = {}
        """Publishers that said with which number they continue, and where."""
        self._paused_at: dict[Process, int] = {}
        """The number that each last continued with: a pause is told once."""
        self._on_time_ticks = settings.timing.delta + settings.timing.lead_max

    def repaired(self, what: str, ready: Ready) -> None:
        """Note that the buffer was corrupt. Its member may go on publishing: the buffer makes no stamps."""
        self._metrics.counts[f"reset_{what}"] += 1
        ready.notes.append(Note("reset", what))

    # --- publications ---

    def arrive(self, key: MergeKey, bundle: Bundle, topic: int, published: int, now: Instant, ready: Ready) -> Fate:
        """Take a publication and return what becomes of it; `published` is its publisher's clock when it was made."""
        rt = self._clock.rt
        fate = self.buffer.arrive(rt, (*key, now, topic, len(bundle.body), bundle))
        if rt - published > self._on_time_ticks:
            self._metrics.counts["g2_violation"] += 1
        if fate is Fate.BUFFERED:
            return fate
        # While it warms up it serves nobody: the other mergers report what is late.
        if fate is Fate.LATE and self._merge.late == "side" and self.server is not None:
            self._late(self.server, bundle, max(0, rt - published - self._delta), ready)
        else:
            self._metrics.drop(fate.value, bundle, ready)
        return fate

    def _late(self, server: StreamServer, bundle: Bundle, late_ticks: int, ready: Ready) -> None:
        """Deliver a bundle beside the stream, here and at followers."""
        self._metrics.counts["late"] += bundle.count
        self._clock.observe(bundle)
        ready.deliver.append(Late(bundle, late_ticks * self._merge.tick_ns))
        if server.followers():
            ready.send.append(Send(server.followers(), LateBundle(bundle, late_ticks)))

    def heard(self, publisher: Process, item: Alive, ready: Ready) -> None:
        """Learn a publisher's progress. Every message carries a stamp, and every stamp seen is observed."""
        stamps, rt = self._clock.stamps, self._clock.rt
        try:
            stamp = stamps.read(item.stamp, rt)
            k_hi, k_mid = stamps.packed(stamp)
        except (ValueError, LimitError):
            ready.notes.append(Note("reject", "stamp", peer=publisher.pid))
            return
        if stamps.wrong(stamp, rt) is None:
            stamps.observe(rt, stamp)
            if self._paused_at.get(publisher, 0) < item.following:
                self._pauses[publisher] = ((k_hi, k_mid, 0), item)
                if len(self._pauses) > PUBLISHERS_MAX:
                    del self._pauses[next(iter(self._pauses))]
            if self.buffer.frontier is not None:
                self.buffer.frontier.heard(rt, publisher, (k_hi, k_mid, 0), item.following, item.following)

    # --- release ---

    def release(self, server: StreamServer, now: Instant, ready: Ready) -> None:
        """Deliver what is due, and stream it to followers."""
        buffer, clock = self.buffer, self._clock
        rt = clock.rt
        released = buffer.release(rt)
        if self._pauses:
            self._close(server, rt, now, released, ready)
        elif released:
            self._hand_out(server, rt, now, released, ready)

    def _close(self, server: StreamServer, rt: int, now: Instant, released: list[Entry], ready: Ready) -> None:
        """Hand out what was released, and then close what publishers had published before they paused."""
        buffer, paused = self.buffer, []
        if released:
            self._hand_out(server, rt, now, released, ready)
        for publisher, (key, item) in list(self._pauses.items()):
            if not buffer.is_due(rt, key):
                continue
            del self._pauses[publisher]
            self._paused_at[publisher] = item.following
            if len(self._paused_at) > PUBLISHERS_MAX:
                del self._paused_at[next(iter(self._paused_at))]
            buffer.last = self._stream.last = max(buffer.last, key)
            gap = self._stream.gaps.closed(publisher.pid, publisher.incarnation, item.following)
            if gap is not None:
                report(gap, None, self._metrics, ready)
            mark = Bundle(publisher.pid, publisher.incarnation, item.following, b"", b"", item.stamp)
            paused.append(entry_of(buffer.last, now, 0, mark))
        if paused:
            if self._merge.journal:
                ready.persist.append(journal_entry(buffer.last, buffer.position))
            server.log.append(paused, rt)
            server.pump(ready)

    def _hand_out(self, server: StreamServer, rt: int, now: Instant, released: list[Entry], ready: Ready) -> None:
        buffer, clock = self.buffer, self._clock
        gaps, origin, tick_ns = self._stream.gaps, self._origin, self._merge.tick_ns
        self._stream.last = buffer.last
        if self._merge.journal:
            ready.persist.append(journal_entry(buffer.last, buffer.position))
        waits = []
        for entry in released:
            bundle, held_ns = entry[BUNDLE], max(0, now - entry[ARRIVED])
            clock.observe(bundle)
            waits.append(held_ns // tick_ns)
            gap = gaps.before(bundle)
            if gap is not None:
                report(gap, bundle, self._metrics, ready)
            k_hi, k_mid, k_lo = entry[:3]
            mark = Mark(((k_hi >> REST_BITS) + origin, k_hi, k_mid, k_lo))
            ready.deliver.append(Delivery(bundle, held_ns, mark))
        self._metrics.released(waits, buffer.lag_of(rt, released[0]), buffer.lag_of(rt, released[-1]))
        server.log.append(released, rt)
        server.pump(ready)

    def next_tick(self) -> int | None:
        """Return the tick at which something becomes due; None if nothing is pending."""
        due = self.buffer.next_tick()
        if not self._pauses:
            return due
        pause = min([self.buffer.due_tick(key) for key, _ in self._pauses.values()])
        return pause if due is None else min(due, pause)

    # --- followers ---

    def receive(
        self, server: StreamServer, sender: Process, item: Item, now: Instant, ready: Ready, *, admits: bool
    ) -> None:
        """Take an item from a follower or publisher; `admits`: new followers are served."""
        if isinstance(item, Follow):
            if admits:
                server.follow(sender, item, self._newest(), now, ready)
        elif isinstance(item, Bye):
            server.forget(sender.pid)
        elif isinstance(item, Alive):
            self.heard(sender, item, ready)

    def _newest(self) -> MergeKey:
        """Return a key such that everything this merger releases from now on is above it, if it arrives within δ."""
        return max(self.buffer.last, last_key_of(self._clock.rt - self._wait_max, self._origin))

    def tick(self, server: StreamServer, now: Instant, ready: Ready) -> None:
        """Report the stream's position to followers; drop what the log has retained long enough."""
        server.tick(now, ready)
        server.log.trim(self._clock.rt - self._merge.log_ticks)

    # --- what an observer sees ---

    def gauges(self) -> list[Gauge]:
        """Return how full the buffer, the log and the list of followers are."""
        return [] if self.server is None else [*self.buffer.gauges(), *self.server.gauges()]

    def metrics(self) -> list[Metric]:
        """Return what the buffer counted."""
        buffer = self.buffer
        return [
            Metric("early_total", buffer.early),
            Metric("purged_total", buffer.purged),
            Metric("position", buffer.position),
        ]
