"""What a stream left out: numbers of a publisher that were skipped, reported as a gap before the event that skips them,
or soon after the publisher's last event.

Law: a publisher numbers its events without a gap, and its keys grow with the numbers. So a stream in key order has each
publisher's numbers in order, and a number that is missing when a later one comes will never come. Whether it was lost
on its way to a merger, late, rejected, or no longer in a log: every reader of the stream learns what is not in it.
A publisher that pauses says with which number it continues; what has not come by then will never come either.
A founder expects every incarnation of every publisher from number 1. A newcomer expects one from the first number it
sees, unless it saw an earlier incarnation of the same peer.
Source: docs/papers/merge.md: merge 11.
"""

from whence.core.levels.total.metrics import MemberMetrics
from whence.core.ready import Gap, Note, Ready
from whence.types import Bundle, Span

PUBLISHERS_MAX = 65_536
"""Processes whose next number is remembered. Full: the oldest is forgotten; a gap before its next event is not seen."""

GAP_EVENTS_MAX = 65_536
"""Events one gap names. More are reported as a reset: no honest publisher loses that many between two that arrive."""


class GapDetector:
    """How far a member's stream has come with each publisher."""

    def __init__(self) -> None:
        self.from_the_start = False
        """Whether the stream was followed from the beginning of the group."""
        self._next: dict[tuple[int, int], int] = {}
        """The number each process continues with, by pid and incarnation."""
        self._incarnations: dict[int, int] = {}
        """The latest incarnation seen of each peer."""

    def before(self, bundle: Bundle) -> Span | None:
        """Take a bundle of the stream; return the numbers just before it that the stream left out."""
        pid, incarnation, first = bundle.pid, bundle.incarnation, bundle.first
        process = (pid, incarnation)
        expected = self._next.get(process)
        if expected is None:
            expected = self._first_of(pid, incarnation, first)
        following = first + (len(bundle.sizes) >> 2)
        self._next[process] = max(expected, following)
        return Span(pid, incarnation, expected, first - 1) if first > expected else None

    def closed(self, pid: int, incarnation: int, following: int) -> Span | None:
        """Learn that a process continues with a number; return what the stream left out before that."""
        process = (pid, incarnation)
        expected = self._next.get(process)
        if expected is None:
            expected = self._first_of(pid, incarnation, following)
        self._next[process] = max(expected, following)
        return Span(pid, incarnation, expected, following - 1) if following > expected else None

    def _first_of(self, pid: int, incarnation: int, first: int) -> int:
        known = self._incarnations.get(pid)
        self._incarnations[pid] = max(known or 0, incarnation)
        if len(self._next) >= PUBLISHERS_MAX:
            del self._next[next(iter(self._next))]
        if self.from_the_start or (known is not None and known < incarnation):
            return 1
        return first


def report(gap: Span, bundle: Bundle | None, metrics: MemberMetrics, ready: Ready) -> None:
    """Report to the application which events of a publisher the stream left out, before a bundle or a pause of it."""
    metrics.counts["skipped"] += gap.last - gap.first + 1
    least = gap.last - GAP_EVENTS_MAX + 1
    if gap.first < least:
        gap = gap._replace(first=least)
        ready.notes.append(Note("reset", "gap", bundle))
    ready.deliver.append(Gap((gap,)))
