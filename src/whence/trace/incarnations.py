"""What the segments of one incarnation tell about it, and about the incarnations before it, without keeping its rows.

Rows can be missing in ways that the rows themselves do not show: the last ones of an incarnation, or all of them. Three
witnesses tell. A later incarnation's segments say which one wrote there before, and how far its whole records went. A
restart says how many events the application had taken. And others deliver what a process published.
"""

from pathlib import Path
from typing import Any

from msgspec import Struct, field

from whence.errors import TraceError
from whence.trace.memory import Row
from whence.trace.schema import ACK_MANUAL, COLUMNS_OF, M_PID, M_SEQ, REASON, T_CLK, VALUE, WHO, Kind
from whence.trace.segments import NAME, ROWS_LOST, is_damaged, read_segment, whole_until

EVENT = slice(COLUMNS_OF[Kind.PUBLISH].index(M_PID), COLUMNS_OF[Kind.PUBLISH].index(M_SEQ) + 1)
_HANDED = slice(COLUMNS_OF[Kind.DELIVER].index(M_PID), COLUMNS_OF[Kind.DELIVER].index(M_SEQ) + 1)
AT_T_CLK = WHO.index(T_CLK)
_AT_VALUE, _AT_REASON = COLUMNS_OF[Kind.RESTART].index(VALUE), COLUMNS_OF[Kind.NOTE].index(REASON)


class Incarnation(Struct):
    """What is known about one incarnation of a process, without its rows."""

    segments: list[Path] = field(default_factory=list)
    last: int = -1
    """The number of its last row, and the latest time on its clock."""
    clock: int = 0
    first_clock: int | None = None
    left: bool = False
    taken: int | None = None
    """The number of events that, according to its restart, the application had taken in earlier incarnations."""
    lost: str | None = None
    """Why some of its rows are missing."""
    has_holes: bool = False
    """Its rows are not numbered 0, 1, 2, …: that rows are missing shows by itself."""
    before: tuple[int, int, int] | None = None
    """The incarnation that wrote segments in the same directory before it, the number of its last one then, and where
    the last whole record of that ended."""
    previous: int | None = None
    """The incarnation before it by its data directory."""
    took_more: bool = False
    """The application had taken more than the rows of earlier incarnations say it was handed."""
    untaken: list[range] = field(default_factory=list)
    """Its deliveries that were not taken when an incarnation ended, and were handed out again."""

    @property
    def vouches(self) -> bool:
        """Whether it names the incarnation that it goes on from: all before it wrote their rows in one directory."""
        return self.before is not None and self.previous in (None, self.before[0])

    def reaches(self, number: int, size: int) -> bool:
        """Tell whether its segments go as far as a later incarnation found them."""
        if not self.segments:
            return False
        name = NAME.fullmatch(self.segments[-1].name)
        last = int(name[4]) if name is not None else -1
        return last > number or (last == number and whole_until(self.segments[-1], 0) >= size)


class PublisherSpan(Struct):
    """What the rows say about one publisher's events: the last number it published, and the last that was delivered."""

    published: int = -1
    delivered: int = -1
    clock: int = 0
    """When one of its events was last delivered."""


class Handed:
    """What the incarnations of one node were handed, in order, as ranges of their deliveries.

    A restart says how many events the application had taken. What it was handed beyond that when its process died is
    owed again, and counts when it is handed out then. Only one event, or one batch, can have been handed out and not
    taken, unless the application acknowledges by itself: whatever else comes again is a second delivery.
    """

    def __init__(self) -> None:
        self._stretches: list[tuple[Incarnation, int, int]] = []
        """(incarnation, first, end): a range of the deliveries of an incarnation."""
        self._unseen = 0
        """The number of events that were taken and that no row says were handed out."""
        self._last: tuple[int, int, int] | None = None
        self._batch = 0
        """The number of last events that follow each other like those of one batch."""
        self.manual = False
        """The application of the last incarnation acknowledged by itself."""

    def forget(self) -> None:
        """Begin with a data directory that knows no earlier incarnation: what was handed out before is not counted in
        it."""
        self._stretches.clear()
        self._unseen, self._last, self._batch = 0, None, 0

    def begin(self, taken: int) -> bool:
        """Begin an incarnation that says what was taken: what was handed out beyond that was not taken. Return whether
        more was taken than handed out."""
        beyond = self._unseen + sum(end - first for _, first, end in self._stretches) - taken
        in_hand = beyond if self.manual else min(beyond, self._batch)
        left = beyond
        while left > 0 and self._stretches:
            known, first, end = self._stretches.pop()
            cut, void = max(first, end - left), max(first, end - in_hand)
            known.untaken += [range(void, end)] if in_hand > 0 else []
            self._stretches += [(known, first, cut)] if cut > first else []
            left, in_hand = left - (end - cut), in_hand - (end - void)
        self._unseen -= min(beyond, 0) + max(left, 0)
        self._last, self._batch = None, 0
        return beyond < 0

    def add(self, known: Incarnation, number: int, event: tuple[int, int, int]) -> None:
        """Add the number-th delivery of an incarnation."""
        if self._stretches and self._stretches[-1][0] is known and self._stretches[-1][2] == number:
            self._stretches[-1] = (known, self._stretches[-1][1], number + 1)
        else:
            self._stretches.append((known, number, number + 1))
        goes_on = self._last is not None and event == (*self._last[:2], self._last[2] + 1)
        self._last, self._batch = event, self._batch + 1 if goes_on else 1


def look_at(
    known: Incarnation, handed: Handed, publishers: dict[tuple[int, int], PublisherSpan]
) -> tuple[list[dict[str, Any]], list[TraceError]]:
    """Read the rows of an incarnation to learn about it. Return the heads of its segments, and why some have none:
    these are left out from then on. Raises TraceError."""
    heads: list[dict[str, Any]] = []
    unreadable: list[TraceError] = []
    deliveries, manual, files, known.segments = 0, False, known.segments, []
    for path in files:
        known.lost = ROWS_LOST if is_damaged(path, last=path == files[-1]) else known.lost
        try:
            head, rows = read_segment(path)
        except TraceError as error:
            unreadable.append(error)
            continue
        if not known.segments and head.get("previous", known) is None:
            handed.forget()
        heads.append(head)
        known.segments.append(path)
        known.lost = ROWS_LOST if head.get("lost") else known.lost
        known.before, known.previous = head.get("before") and tuple(head["before"]), head.get("previous")
        for kind, row in rows:
            _note(known, kind, row)
            if kind is Kind.RESTART and known.taken is None and row[_AT_VALUE] is not None:
                known.taken = row[_AT_VALUE]
                known.took_more = handed.begin(row[_AT_VALUE])
            elif kind is Kind.DELIVER:
                handed.add(known, deliveries, row[_HANDED])
                deliveries += 1
                span, seq = publishers.setdefault(row[_HANDED][:2], PublisherSpan()), row[_HANDED][2]
                span.delivered, span.clock = max(span.delivered, seq), row[AT_T_CLK]
            elif kind is Kind.PUBLISH:
                span, seq = publishers.setdefault(row[EVENT][:2], PublisherSpan()), row[EVENT][2]
                span.published = max(span.published, seq)
            manual |= kind is Kind.NOTE and row[_AT_REASON] == ACK_MANUAL
    handed.manual = manual
    return heads, unreadable


def _note(known: Incarnation, kind: Kind, row: Row) -> None:
    """Add one row to what is known about an incarnation."""
    known.has_holes |= row[2] != known.last + 1
    known.last = max(known.last, row[2])
    known.clock = max(known.clock, row[AT_T_CLK])
    known.first_clock = row[AT_T_CLK] if known.first_clock is None else min(known.first_clock, row[AT_T_CLK])
    known.left |= kind is Kind.LEAVE
