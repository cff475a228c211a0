"""What a stream left out: numbers of a publisher that were leapt over, told as a gap before the event that leaps.

Law: a publisher numbers its events without a gap and its keys grow with the numbers, so a stream in key order has every
publisher's numbers in order, and one that is missing when a later one comes will never come. Lost on its way to a
merger, late, refused, or beyond a log's reach: whoever takes the stream is told what is not in it.
A member from the start expects each life of each publisher from number 1; a newcomer from what it first sees, unless it
saw an earlier life of the same peer.
"""

from whence.types import Bundle, Process, Span

PUBLISHERS_MAX = 65_536
"""Processes whose next number is remembered. Full: the oldest is forgotten; holes before its next are not told."""

HOLE_EVENTS_MAX = 65_536
"""Events one gap names. More are told as a reset: no honest publisher loses so many between two that come."""


class Holes:
    """How far a member's stream is with each publisher."""

    def __init__(self) -> None:
        self.from_the_start = False
        """Whether the stream was followed from the beginning of the group."""
        self._next: dict[Process, int] = {}
        self._lives: dict[int, int] = {}
        """The last life that was seen of each peer."""

    def before(self, bundle: Bundle) -> Span | None:
        """Take a bundle of the stream; return the numbers just before it that the stream left out."""
        process = bundle.process
        expected = self._next.get(process)
        if expected is None:
            expected = self._first_of(bundle)
        self._next[process] = max(expected, bundle.last + 1)
        return Span(*process, expected, bundle.first - 1) if bundle.first > expected else None

    def _first_of(self, bundle: Bundle) -> int:
        known = self._lives.get(bundle.pid)
        self._lives[bundle.pid] = max(known or 0, bundle.boot)
        if len(self._next) >= PUBLISHERS_MAX:
            del self._next[next(iter(self._next))]
        if self.from_the_start or (known is not None and known < bundle.boot):
            return 1
        return bundle.first
