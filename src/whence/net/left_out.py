"""Events that members left out: told to their publisher, so that it does not take them for settled.

Law: of every own event that a member left out, the publisher learns no later than that the member has taken all before
and after it. Where so many were left out that the oldest are forgotten, it knows between which events these were.
"""

from collections.abc import Iterable

SPANS_MAX = 1024
"""Spans that are remembered of one process. Full: the oldest is forgotten."""

LOOK_BACK = 64
"""A span that is told again, after a connection was lost, is found among so many."""


class LeftOut:
    """Spans of one publisher's events, first to last, in the order in which they became known."""

    __slots__ = ("_highest", "forgotten", "spans")

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self.forgotten: tuple[int, int] | None = None
        """All spans that were forgotten lie between these two events."""
        self._highest = 0

    def add(self, first: int, last: int) -> None:
        """Add a span; one that goes on from the span before makes that longer."""
        self._highest = max(self._highest, last)
        if self.spans and self.spans[-1][1] + 1 == first:
            self.spans[-1] = (self.spans[-1][0], last)
        elif (first, last) not in self.spans[-LOOK_BACK:]:
            self.spans.append((first, last))
            if len(self.spans) > SPANS_MAX:
                self._forget(*self.spans.pop(0))

    def _forget(self, first: int, last: int) -> None:
        before = self.forgotten or (first, last)
        self.forgotten = (min(before[0], first), max(before[1], last))

    def add_all(self, spans: Iterable[tuple[int, int]]) -> None:
        """Add spans."""
        for first, last in spans:
            self.add(first, last)

    def has_any(self, first: int, last: int) -> bool:
        """Return whether any event of a span was left out."""
        return any(begin <= last and first <= end for begin, end in self.spans)

    def may_have_any(self, first: int, last: int) -> bool:
        """Return whether an event of a span may be among those that were left out and forgotten."""
        return self.forgotten is not None and self.forgotten[0] <= last and first <= self.forgotten[1]

    def beyond(self, last: int) -> int:
        """Return the last event up to which everything was left out that follows an event."""
        if last < self._highest:
            for begin, end in sorted(self.spans):
                if begin <= last + 1 <= end:
                    last = end
        return last
