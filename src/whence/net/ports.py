"""The runner's ports in the live system: sockets, clocks, the application's inbox and the trace of one member."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from whence.core.offsets import Offsets
from whence.core.ready import Delivery, Gap, Item, Late, Mark, Note, Returned, Unheard
from whence.errors import WhenceError
from whence.net.context import NodeServices, Sink
from whence.net.otel import Telemetry
from whence.net.recorder import TraceRecorder
from whence.trace.schema import Kind
from whence.types import Bundle, Span

TIMER_NS = 1_000_000
"""The shortest time that event loops wait."""


class LivePorts:
    """The ports of one live member."""

    def __init__(
        self, group: str, node: NodeServices, sink: Sink, recorder: TraceRecorder | None, clock: Callable[[], int],
        offsets: Offsets, woken: Callable[[], None], *, flushes: bool,
    ) -> None:  # fmt: skip
        """Set up the ports of one member; `woken` is called when its timer expires. `flushes`: a later incarnation
        offers again what is published, so the trace records it first."""
        self.sink, self.recorder = sink, recorder
        self._queue: Callable[[tuple[int, ...], Item, int], int] = partial(node.send, group)
        """Queues an item; returns its size on the wire."""
        self.send: Callable[[tuple[int, ...], Item, int], object] = self._queue if recorder is None else self._sent
        """Queues an item and records its copies."""
        self.counts: Counter[str] = Counter()
        self.accepted: Callable[[Bundle, int], None] = lambda bundle, count: None
        """Called with a bundle that the member publishes and its number of events, before any process can have taken
        any of them."""
        self.retained: Callable[[Bundle], None] = lambda bundle: None
        """Called with a bundle that it publishes and that is stored on its behalf."""
        self.deliver: Callable[[Delivery], None] = sink.deliver
        """Called with each delivery of the member."""
        self.on_unheard: Callable[[Bundle], None] = lambda bundle: None
        """Called with a publication that no other process acknowledged in time."""
        self.on_left_out: Callable[[Sequence[Span]], None] = lambda spans: None
        """Called with events that will never come here in order, as the application is told."""
        self.on_note: Callable[[Note], None] = lambda note: None
        """Called with the member's notes about itself, once they are recorded."""
        self.now = clock
        self._telemetry: Telemetry | None = None
        self._loop = asyncio.get_running_loop()
        self._offsets, self._flushes = offsets, flushes
        self._woken = woken
        self._timer: asyncio.TimerHandle | None = None

    def observe(self, telemetry: Telemetry | None) -> None:
        """Report what is published and delivered to `telemetry` from now on."""
        self._telemetry = telemetry
        if telemetry is None:
            return
        accepted, deliver, offsets = self.accepted, self.deliver, self._offsets

        def observed_accepted(bundle: Bundle, count: int) -> None:
            accepted(bundle, count)
            telemetry.published(bundle)

        def observed_deliver(step: Delivery) -> None:
            before = offsets.delivered
            deliver(step)
            if offsets.delivered > before:
                telemetry.delivered(step.bundle, step.hold_ns)

        self.accepted, self.deliver = observed_accepted, observed_deliver

    # --- the clock ---

    def plan(self, wake_at: int) -> None:
        """Plan the next tick: in this turn of the loop, or not before the next millisecond. Loops count in those: they
        would come back at once for less, and again, until it is time."""
        if self._timer is not None:
            self._timer.cancel()
        wait_ns = wake_at - self.now()
        self._timer = self._loop.call_later(max(wait_ns, TIMER_NS) / 1e9 if wait_ns > 0 else 0, self._wake)

    def stop_timer(self) -> None:
        """Cancel the next tick."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._timer = None
        self._woken()

    # --- the application ---

    def published(self, step: Returned, mark: Mark | None) -> None:
        """Record a publication."""
        if self.recorder is not None:
            self.recorder.published(step.bundle, mark)
            if self._flushes:
                self.recorder.segments.flush()

    def skip(self, step: Gap) -> None:
        """Report a gap to the application: events that will never come."""
        if self.recorder is not None:
            self.recorder.skipped(step.spans)
        events = sum(span.last - span.first + 1 for span in step.spans)
        self.counts["skipped"] += events
        if self._telemetry is not None:
            self._telemetry.skipped(events)
        self.on_left_out(step.spans)
        self.sink.skip(step)

    def late(self, step: Late) -> None:
        """Hand a late bundle to the side output."""
        if self.recorder is not None:
            self.recorder.late(step)
        count = step.bundle.count
        self.counts["late"] += count
        if self._telemetry is not None:
            self._telemetry.late(count)
        bundle = step.bundle
        self.on_left_out((Span(bundle.pid, bundle.incarnation, bundle.first, bundle.first + count - 1),))
        self._offsets.on_taken(bundle, count)  # its place has passed; no publisher must wait for it
        self.sink.late(step)

    def unheard(self, step: Unheard) -> None:
        """Report to the publisher a bundle that perhaps no process has."""
        self.on_unheard(step.bundle)

    # --- the trace ---

    def _sent(self, to: tuple[int, ...], item: Item, incarnation: int) -> None:
        size = self._queue(to, item, incarnation)
        if self.recorder is not None:
            self.recorder.sent(to, item, size)

    def refused(self, refusal: WhenceError) -> None:
        """Count an input that the member refuses."""
        self.count("reject", type(refusal).__name__)

    def noted(self, note: Note) -> None:
        """Count and record the member's note about itself, and act on it."""
        self.counts[f"{note.kind}:{note.reason}" if note.reason else note.kind] += 1
        if self.recorder is not None:
            self.recorder.noted(note)
        self.on_note(note)

    def count(self, kind: str, reason: str, peer: int | None = None) -> None:
        """Count and record what was done on behalf of the member."""
        self.counts[f"{kind}:{reason}"] += 1
        if self.recorder is not None:
            self.recorder.write(Kind(kind), peer=peer, reason=reason)
