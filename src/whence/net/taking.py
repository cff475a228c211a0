"""Between one live member and its application: what that is handed and takes is written down, counted and told on.

Law: a row of a trace stands for an event that the application was handed, and is on file before the event counts as
taken; a publisher hears of a bundle once its last event was taken, or where nobody counts, handed out. How far the
application is, core/offsets.py knows; it is asked only where a later life goes on from there, or where the application
acknowledges by itself.
"""

from collections.abc import Callable

from whence.core.level import Recipe, offsets_of
from whence.core.member import Resuming
from whence.core.offsets import Delivered, Offsets, Owed
from whence.core.ready import Mark
from whence.net.context import Sink
from whence.net.recorder import TraceRecorder
from whence.store.steps import Steps
from whence.trace.schema import ACK_MANUAL, Kind
from whence.types import Bundle, Span


class Taking:
    """How one application takes what its member delivers."""

    def __init__(
        self,
        sink: Sink,
        recorder: TraceRecorder | None,
        steps: Steps | None,
        resuming: Resuming | None,
        reached: Callable[[Bundle], None],
        *,
        flushes: bool = False,
    ) -> None:
        """Have the sink say what is handed out and taken, as far as somebody wants to know. `reached` is told of every
        bundle of which the application has all. `flushes`: what is published is on file at once."""
        self._recorder, self._steps, self._reached = recorder, steps, reached
        self._flushes = flushes or steps is not None
        self._replays = steps is not None and resuming is None
        self._resuming = resuming
        self.over = False
        """The member has left: what came before is still handed out, and nothing is owed."""
        self._offsets: Offsets | None = None
        self._delivered = 0
        sink.on_reached, sink.on_dropped = reached, self._dropped
        if steps is not None:
            sink.is_over = lambda: steps.closed

    def begin(self, recipe: Recipe, sink: Sink) -> None:
        """Count, if a later life goes on from there or the application acknowledges by itself."""
        if self._steps is not None or sink.manual:
            self._offsets = offsets_of(recipe)(self._steps, self._resuming)
            sink.on_taken = self._taken
            sink.on_step = None if sink.manual else self._step
        if self._offsets is not None or self._recorder is not None:
            sink.on_handed = self._handed
        if self._recorder is not None and self._steps is not None and sink.manual:
            self._recorder.write(Kind.NOTE, reason=ACK_MANUAL)

    @property
    def position(self) -> int:
        """Return the next place that no event ever had: where a later life goes on, in all lives."""
        return self._offsets.position if self._offsets is not None else self._delivered

    # --- a later life ---

    def resume(self, taken: int, told: int) -> None:
        """Go on from an earlier life, whose journal begins after so much was taken and told."""
        if self._offsets is not None:
            self._offsets.resume(taken, told)

    def resumed(self) -> None:
        """Learn that the member has read its journal."""
        if self._offsets is not None:
            self._offsets.resumed()

    def owed(self) -> Owed | None:
        """Return what a journal that is rewritten must keep for the application; None where it need not."""
        return self._offsets.owed() if self._offsets is not None and self._replays else None

    # --- what the member delivers ---

    def deliver(self, bundle: Bundle) -> Delivered:
        """Take a bundle that the member delivers; return what the application has of it."""
        if self._offsets is not None:
            return self._offsets.deliver(bundle)
        position = self._delivered
        self._delivered = position + bundle.count
        return Delivered(0, 0, position)

    def tell(self, bundle: Bundle, mark: Mark | None) -> None:
        """Tell the application of a publication, unless an earlier life did. Where a later life offers it again, the
        trace tells of it before."""
        offsets, recorder = self._offsets, self._recorder
        if offsets is not None and offsets.was_told():
            return
        if recorder is not None:
            recorder.published(bundle, mark)
            if self._flushes:
                recorder.spool.flush()
        if offsets is not None:
            offsets.tell()

    # --- what the application does ---

    def _handed(self, bundle: Bundle, hold_ns: int, mark: Mark | None, offset: int, payload: bytes | None) -> None:
        if self._recorder is not None and not self.over:
            payloads = bundle.payloads() if payload is None else (payload,)
            self._recorder.handed(bundle, hold_ns, mark, offset, payloads)
        if self._offsets is not None:
            self._offsets.hand(bundle, bundle.count if payload is None else 1)

    def _taken(self, events: int) -> None:
        assert self._offsets is not None
        if self._recorder is not None and self._steps is not None:
            self._recorder.spool.flush()
        for bundle in self._offsets.take(events):
            self._reached(bundle)

    def _step(self, bundle: Bundle, hold_ns: int, mark: Mark | None, offset: int, payload: bytes | None) -> None:
        assert self._offsets is not None
        assert payload is not None
        if self._recorder is not None:
            self._recorder.spool.flush()
        self._offsets.step()
        if self._recorder is not None and not self.over:
            self._recorder.handed(bundle, hold_ns, mark, offset, (payload,))

    def _dropped(self, bundle: Bundle) -> None:
        if self._recorder is not None:
            self._recorder.skipped([Span(bundle.pid, bundle.boot, bundle.first, bundle.last)])
