"""Acknowledgements: each publisher learns which of its events the application here has taken. That is its credit.

Law: the publisher of events that were taken gets an acknowledgement within LAZY_NS, or within REPORT_NS where they were
many bytes, and again when it reconnects.
"""

import asyncio
from collections.abc import Callable, Iterable

from whence.core.links.reached import LAZY_NS, LEFT_OUT_MAX, REPORT_BYTES, REPORT_NS, WAITED_US_MAX, Reached
from whence.net.left_out import SPANS_MAX, LeftOut
from whence.types import Bundle, Process, Span

PUBLISHES_S = 1.0
"""A publisher that has published nothing for this long has no share in the group's credit."""

TAKEN_MAX = 65_536
"""Publishers whose progress is remembered. Full: the oldest is forgotten; it waits AWAY_S instead."""


class Progress:
    """How far the application has taken one publisher's events."""

    __slots__ = ("at", "due", "last", "left_out", "publisher", "told", "untold_count")

    def __init__(self, publisher: Process) -> None:
        self.publisher = publisher
        self.last = 0
        """The last event taken."""
        self.at = 0.0
        """When it was taken."""
        self.due = 0
        """Bytes that were taken and not acknowledged."""
        self.left_out = LeftOut()
        """What of its events will never come here."""
        self.told: tuple[int, int] | None = None
        """The last span of these that it was told of."""
        self.untold_count = 0
        """How often some were added since."""

    def untold(self) -> list[tuple[int, int]]:
        """Return the spans that the publisher was not told of, which it is told now."""
        spans = self.left_out.spans
        self.untold_count = 0
        if not spans or spans[-1] == self.told:
            return []
        told = self.told
        since = next((at + (span == told) for at, span in enumerate(spans) if told and span[0] == told[0]), 0)
        self.told = spans[-1]
        return spans[since:]


class Acknowledgements:
    """What one member acknowledges to the publishers of its group."""

    def __init__(
        self,
        me: Process,
        send: Callable[[Process, Reached], None],
        own: Callable[[int], None],
        guarded: Callable[[Callable[[], None]], Callable[[], None]] = lambda step: step,
        *,
        in_order: bool = False,
    ) -> None:
        """`send` is called with a publisher and its acknowledgement; `own` with the last event taken of this process,
        which is acknowledged to no other process. `in_order`: every publisher's events come in order, so what is
        missing before one that came was left out, even if the application is told later."""
        self._me, self._in_order = me, in_order
        self._send, self._own = send, own
        self._reports = guarded(self._report)
        self._loop = asyncio.get_running_loop()
        self._taken: dict[tuple[int, int], Progress] = {}
        self._due: dict[Progress, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._heard: dict[int, float] = {}
        """When each active publisher last got an acknowledgement."""

    def taken(self, bundle: Bundle, count: int) -> None:
        """Note that the application has taken a bundle of `count` events."""
        last = bundle.first + count - 1
        if bundle.pid == self._me.pid and bundle.incarnation == self._me.incarnation:
            self._own(last)
            return
        progress = self._taken.get((bundle.pid, bundle.incarnation)) or self._begin(bundle.process)
        if last > progress.last:
            if self._in_order and 0 < progress.last < bundle.first - 1:
                self._leave_out(progress, progress.last + 1, bundle.first - 1)
            progress.last, progress.at = last, self._loop.time()
            self._plan(progress, len(bundle.body))

    def left_out(self, spans: Iterable[Span]) -> None:
        """Note that events will never come here in order, as the application is told."""
        for pid, incarnation, first, last in spans:
            if pid != self._me.pid:
                progress = self._taken.get((pid, incarnation)) or self._begin(Process(pid, incarnation))
                self._leave_out(progress, first, last)
                self._plan(progress, 0)

    def _leave_out(self, progress: Progress, first: int, last: int) -> None:
        """Note a span; its publisher is told before it can be forgotten here."""
        progress.left_out.add(first, last)
        progress.untold_count += 1
        if progress.untold_count >= SPANS_MAX // 2:
            self._tell_left_out(progress)

    def _tell_left_out(self, progress: Progress, most: int = 0) -> list[tuple[int, int]]:
        """Tell a publisher what was left out; return the rest of it, of `most` spans at most."""
        untold = progress.untold()
        while len(untold) > most:
            self._send(progress.publisher, Reached(0, 0, untold[:LEFT_OUT_MAX]))
            untold = untold[LEFT_OUT_MAX:]
        return untold

    def peer_up(self, peer: Process) -> None:
        """Acknowledge again to a publisher that has reconnected."""
        for progress in self._taken.values():
            if progress.publisher.pid == peer.pid and progress.publisher.incarnation >= peer.incarnation:
                progress.told = None
                self._plan(progress, REPORT_BYTES)  # a later incarnation belongs to a group opened again

    def _begin(self, publisher: Process) -> Progress:
        progress = self._taken[publisher] = Progress(publisher)
        if len(self._taken) > TAKEN_MAX:
            self._due.pop(self._taken.pop(next(iter(self._taken))), None)
        return progress

    def _plan(self, progress: Progress, size: int) -> None:
        progress.due += size
        self._due[progress] = None
        if progress.due >= REPORT_BYTES and not self._soon:
            self._soon = True
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(REPORT_NS / 1e9, self._reports)
        elif self._timer is None:
            self._timer = self._loop.call_later(LAZY_NS / 1e9, self._reports)

    def _report(self) -> None:
        self._timer, self._soon = None, False
        due, self._due = self._due, {}
        now = self._loop.time()
        for progress in due:
            progress.due = 0
            self._heard[progress.publisher.pid] = now
            waited_us = min(int((now - progress.at) * 1e6), WAITED_US_MAX)
            untold = self._tell_left_out(progress, LEFT_OUT_MAX)
            self._send(progress.publisher, Reached(progress.last, waited_us, untold))

    def publishers(self) -> int:
        """Return the number of other processes that publish at present."""
        since = self._loop.time() - PUBLISHES_S
        self._heard = {pid: at for pid, at in self._heard.items() if at > since}
        return len(self._heard)
