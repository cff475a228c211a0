"""Publications on their way to the mergers: sent to each, and again until acknowledged or too late to matter.

Law: a publication reaches every merger that can be reached within δ, unless all its copies are lost. After δ it is
given up, because it would only be late. An omission is reported to its publisher: at once if every merger says that it
came late, or if the stream it follows passes the publication's place without it; after a while if nobody acknowledged
it and there is no stream. What is lost is not recovered.
Cost: one acknowledgement per publication and merger. How much may be in transit: window.py.
Source: docs/papers/merge.md: merge 11.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from whence.core.clocks.stamp import MergeKey
from whence.core.clocks.ticks import NEVER
from whence.core.levels.total.items import PUBLICATION_ID, Batch, Offer
from whence.core.levels.total.window import PublishWindow
from whence.core.ready import Gauge, Item, Ready, Send, Unheard
from whence.types import Bundle, Instant

PublicationId: TypeAlias = tuple[int, int, int]
"""Pid, incarnation, number of the first event."""

SPARE_TIMERS = 64
"""Timers left over from publications already acknowledged. They are swept when there are more than this many, plus one
for each unacknowledged publication."""


class PendingPublication:
    """A publication, the peers that have not acknowledged it, and the last tick at which it is worth sending."""

    __slots__ = ("item", "last_tick", "resend_at", "sent_at", "size", "targets", "unheard")

    def __init__(
        self, item: Item, size: int, targets: tuple[int, ...], sent_at: Instant, resend_at: Instant, last_tick: int,
        unheard: Bundle | None,
    ) -> None:  # fmt: skip
        self.item = item
        self.size = size
        self.targets = targets
        self.sent_at = sent_at
        self.resend_at = resend_at
        self.last_tick = last_tick
        self.unheard = unheard
        """The bundle to report to the application if nobody acknowledges it; None once somebody has."""


class Outbox:
    """The publications of one process, and those it passes on as a relay, that some peer has not acknowledged."""

    def __init__(self, resend_ns: int, delta_ns: int, pending_max: int, doubt_ns: int) -> None:
        self.window = PublishWindow(delta_ns)
        self._delta_ns = max(resend_ns, delta_ns)
        self._resend_ns = resend_ns
        self._pending_max = pending_max
        self._pending: dict[PublicationId, PendingPublication] = {}
        self._timers: list[tuple[Instant, PublicationId]] = []
        """A heap of when each is sent again. A timer that no longer matches its publication is ignored."""
        self._doubt_ns = doubt_ns
        self._doubtful: dict[PublicationId, tuple[Bundle, Instant]] = {}
        """Publications of ours that nobody acknowledged, and when they are reported to the application."""
        self.expected: dict[PublicationId, tuple[MergeKey, Bundle]] = {}
        """Publications of ours that have not come in the stream, with their keys, in key order. Full: the oldest is
        dropped; it was acknowledged, or is reported in time."""
        self.bytes = 0
        """Payload bytes that some peer has not acknowledged."""
        self.given_up = 0
        """Publications that some merger never acknowledged: lost on the way, or rejected for a clock that is ahead."""

    def __len__(self) -> int:
        return len(self._pending)

    def send(
        self, bundle: Bundle, topic: int, targets: tuple[int, ...], now: Instant, last_tick: int, ready: Ready,
        *, own: bool, tell: bool = False, key: MergeKey | None = None,
    ) -> None:  # fmt: skip
        """Send a publication, and retain it to send it again until the clock is past `last_tick`.

        `tell`: nobody has it yet; if nobody acknowledges it, report that to the application. `key`: its place in the
        stream that is followed here; if the stream passes that place without it, report that too.
        """
        if not targets:
            return
        pending = self._pending
        short = own and topic == 0 and len(bundle.sizes) == 4
        item: Item = Offer(bundle.first, bundle.stamp, bundle.body) if short else Batch(bundle, topic)
        while len(pending) >= self._pending_max:
            self._give_up(next(iter(pending)), now, ready)
        publication = (bundle.pid, bundle.incarnation, bundle.first)
        if publication in pending:
            self._drop(publication)
        size = len(bundle.body)
        resend_at = now + self.window.resend_ns(self._resend_ns)
        pending[publication] = PendingPublication(
            item, size, targets, now, resend_at, last_tick, bundle if tell else None
        )
        heappush(self._timers, (resend_at, publication))
        if len(self._timers) > 2 * len(pending) + SPARE_TIMERS:
            self._sweep_timers()
        if key is not None:
            self.expected[publication] = (key, bundle)
            if len(self.expected) > self._pending_max:
                del self.expected[next(iter(self.expected))]
        self.bytes += size
        ready.send.append(Send(targets, item))

    def acknowledged(self, by: int, ids: bytes, now: Instant, ready: Ready, *, late: bool = False) -> None:
        """Learn what has arrived at a merger; `late`: after its place, so that what all mergers say that of is lost."""
        for publication in PUBLICATION_ID.iter_unpack(ids):
            pending = self._pending.get(publication)  # None: it was given up, and the acknowledgement came after δ
            if pending is not None and by in pending.targets:
                pending.targets = tuple([target for target in pending.targets if target != by])
                if not late:
                    pending.unheard = None
                if not pending.targets:
                    self.window.acknowledged(pending.sent_at, now, self.bytes)
                    self._drop(publication)
                    if pending.unheard is not None:
                        self.expected.pop(publication, None)
                        ready.deliver.append(Unheard(pending.unheard))

    def tick(self, rt: int, now: Instant, last_tick_max: int, ready: Ready) -> None:
        """Send again what is due; give up what is too late, or claims to be worth sending for longer than possible."""
        resend_ns = self.window.resend_ns(self._resend_ns)
        for publication, pending in list(self._pending.items()):
            if rt > pending.last_tick or pending.last_tick > last_tick_max:
                self._give_up(publication, now, ready)
            elif now >= pending.resend_at or pending.resend_at > now + self._delta_ns:
                pending.resend_at = now + resend_ns
                heappush(self._timers, (pending.resend_at, publication))
                ready.send.append(Send(pending.targets, pending.item))
        for publication, (_, tell_at) in list(self._doubtful.items()):
            if now >= tell_at or tell_at > now + self._doubt_ns:
                self._tell(publication, ready)

    def wake_at(self) -> Instant:
        """Return when something is next sent again or reported; NEVER if nothing is."""
        timers, pending = self._timers, self._pending
        while timers:
            at, publication = timers[0]
            due = pending.get(publication)
            if due is not None and due.resend_at == at:
                break
            heappop(timers)
        soonest = timers[0][0] if timers else NEVER
        return min([soonest, *[at for _, at in self._doubtful.values()]]) if self._doubtful else soonest

    # --- omissions ---

    def arrived_in_stream(self, bundle: Bundle) -> None:
        """Learn that a publication of ours came in the stream: it has its place, acknowledged or not."""
        publication = (bundle.pid, bundle.incarnation, bundle.first)
        self.expected.pop(publication, None)
        self._trust(publication)

    def stream_passed(self, key: MergeKey, ready: Ready) -> None:
        """Learn the stream's progress: what should have come before this key, and did not, was left out."""
        while self.expected:
            publication, (place, bundle) = next(iter(self.expected.items()))
            if place >= key:
                return
            del self.expected[publication]
            self._trust(publication)
            ready.deliver.append(Unheard(bundle))

    def merge_here(self, has: Callable[[Bundle], bool], ready: Ready) -> None:
        """Report what has not come in the stream and is not in the buffer of the merger that begins to serve here."""
        for publication, (_, bundle) in list(self.expected.items()):
            if not has(bundle):
                self._trust(publication)
                ready.deliver.append(Unheard(bundle))
        self.expected.clear()

    def expect_nothing(self) -> None:
        """Forget what has not come in the stream: the stream is no longer followed, or not all of it."""
        self.expected.clear()

    def tell_all(self, ready: Ready) -> None:
        """Report everything that nobody is known to have, because no further acknowledgement will come."""
        for pending in self._pending.values():
            if pending.unheard is not None:
                ready.deliver.append(Unheard(pending.unheard))
        for publication in list(self._doubtful):
            self._tell(publication, ready)

    def gauges(self) -> list[Gauge]:
        """Return how much is in transit."""
        return [Gauge("outbox_bundles", len(self._pending), self._pending_max, must_drain=True)]

    def _give_up(self, publication: PublicationId, now: Instant, ready: Ready) -> None:
        unheard = self._pending[publication].unheard
        self._drop(publication)
        self.given_up += 1
        if unheard is not None:
            if len(self._doubtful) >= self._pending_max:
                self._tell(next(iter(self._doubtful)), ready)
            self._doubtful[publication] = (unheard, now + self._doubt_ns)

    def _tell(self, publication: PublicationId, ready: Ready) -> None:
        self.expected.pop(publication, None)
        ready.deliver.append(Unheard(self._doubtful.pop(publication)[0]))

    def _trust(self, publication: PublicationId) -> None:
        self._doubtful.pop(publication, None)
        if publication in self._pending:
            self._pending[publication].unheard = None

    def _drop(self, publication: PublicationId) -> None:
        self.bytes -= self._pending.pop(publication).size

    def _sweep_timers(self) -> None:
        self._timers = [(pending.resend_at, publication) for publication, pending in self._pending.items()]
        heapify(self._timers)
