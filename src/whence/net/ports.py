"""The real world as a runner sees it: sockets, clocks, the application's inbox and the trace of one member."""

import asyncio
from collections import Counter
from collections.abc import Callable

from whence.core.offsets import Owed
from whence.core.ready import Delivery, Gap, Item, Late, Mark, Note, Returned, Unheard
from whence.errors import WhenceError
from whence.net.context import NodeServices, Sink
from whence.net.otel import Telemetry
from whence.net.recorder import TraceRecorder
from whence.net.taking import Taking
from whence.trace.schema import Kind
from whence.types import Bundle


class LivePorts:
    """What one live member does at its borders."""

    def __init__(
        self, group: str, node: NodeServices, sink: Sink, recorder: TraceRecorder | None, clock: Callable[[], int],
        woken: Callable[[], None],
    ) -> None:  # fmt: skip
        self.node, self.sink, self.recorder = node, sink, recorder
        self.taking: Taking
        self.telemetry: Telemetry | None = None
        self.counts: Counter[str] = Counter()
        self.on_unheard: Callable[[Bundle], None] = lambda bundle: None
        """Called with a publication that nobody said in time to have."""
        self.on_accepted: Callable[[Bundle, bool], None] = lambda bundle, kept: None
        """Called with what the member publishes, and whether it is written down for it."""
        self.on_taken: Callable[[Bundle], None] = lambda bundle: None
        """Called with a bundle of which the application has all, or never will."""
        self.on_note: Callable[[Note], None] = lambda note: None
        """Called with what the member says of itself, once it is written down."""
        self.now = clock
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._woken = woken
        self._timer: asyncio.TimerHandle | None = None

    # --- the network ---

    def send(self, to: tuple[int, ...], item: Item, boot: int) -> int:
        """Queue an item; return its size on the wire."""
        return self.node.send(self._group, to, item, boot)

    # --- the clock ---

    def plan(self, wake_at: int) -> None:
        """Plan the next tick."""
        self.stop_timer()
        self._timer = self._loop.call_later(max(0, wake_at - self.now()) / 1e9, self._wake)

    def stop_timer(self) -> None:
        """Plan none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._timer = None
        self._woken()

    # --- the application ---

    def accepted(self, bundle: Bundle, *, kept: bool) -> None:
        """Count a publication, before anybody can have taken any of it."""
        self.on_accepted(bundle, kept)
        if self.telemetry is not None:
            self.telemetry.published(bundle)

    def published(self, step: Returned, mark: Mark | None) -> None:
        """Write a publication down, unless an earlier life did."""
        self.taking.tell(step.bundle, mark)

    def deliver(self, step: Delivery) -> None:
        """Hand a bundle to the application, but for what it has from an earlier life."""
        have, again, position = self.taking.deliver(step.bundle)
        if have == step.bundle.count:
            self.on_taken(step.bundle)
            return
        if self.telemetry is not None:
            self.telemetry.delivered(step.bundle, step.hold_ns)
        self.sink.take(step, position, have, again)

    def skip(self, step: Gap) -> None:
        """Tell the application of events that will never come."""
        if self.recorder is not None:
            self.recorder.skipped(step.spans)
        events = sum(span.last - span.first + 1 for span in step.spans)
        self.counts["skipped"] += events
        if self.telemetry is not None:
            self.telemetry.skipped(events)
        self.sink.skip(step)

    def late(self, step: Late) -> None:
        """Hand a bundle that came after its place to the side output."""
        if self.recorder is not None:
            self.recorder.late(step)
        self.counts["late"] += step.bundle.count
        if self.telemetry is not None:
            self.telemetry.late(step.bundle.count)
        self.on_taken(step.bundle)  # it had its place; nobody must wait for it any more
        self.sink.late(step)

    def unheard(self, step: Unheard) -> None:
        """Tell the publisher of what nobody may have."""
        self.on_unheard(step.bundle)

    def resume(self, taken: int, told: int) -> None:
        """Go on from an earlier life."""
        self.taking.resume(taken, told)

    def resumed(self) -> None:
        """Learn that the member has read its journal."""
        self.taking.resumed()

    def owed(self) -> Owed | None:
        """Return what a journal that is rewritten must keep for the application."""
        return self.taking.owed()

    # --- the trace ---

    def sent(self, to: tuple[int, ...], item: Item, size: int) -> None:
        """Write down copies that leave."""
        if self.recorder is not None:
            self.recorder.sent(to, item, size)

    def refused(self, refusal: WhenceError) -> None:
        """Count an input that the member refuses."""
        self.count("reject", type(refusal).__name__)

    def noted(self, note: Note) -> None:
        """Count and write down what the member says of itself, and act on it."""
        self.counts[f"{note.kind}:{note.reason}" if note.reason else note.kind] += 1
        if self.recorder is not None:
            self.recorder.noted(note)
        self.on_note(note)

    def count(self, kind: str, reason: str, peer: int | None = None) -> None:
        """Count and write down what was done for the member."""
        self.counts[f"{kind}:{reason}"] += 1
        if self.recorder is not None:
            self.recorder.write(Kind(kind), peer=peer, reason=reason)
