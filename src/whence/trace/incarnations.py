"""What the segments of live processes tell about each incarnation, without its rows.

Rows can be missing in ways that the rows themselves do not show: the last ones of an incarnation, or all of them. Three
witnesses tell. A later incarnation's segments say which one wrote there before, and how far its whole records went. A
restart says how many events the application had taken. And others deliver what a process published.

Every segment is looked into by itself, wherever it is (`facts_of`). What all segments of one node tell is put together
from that, in order (`node_facts`); then a second look at each segment can pass its rows on (`passed_on`). All of it is
small and can be sent, so that any number of machines can share the work.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from whence.errors import TraceError
from whence.trace.memory import Row
from whence.trace.schema import (
    ACK_MANUAL,
    CLOSED,
    COLUMNS_OF,
    EV,
    M_PID,
    M_SEQ,
    REASON,
    T_CLK,
    T_TRUE,
    VALUE,
    WHO,
    Kind,
)
from whence.trace.segments import NAME, ROWS_LOST, Segment, ending_of, read_segment, rows_between

_PUBLISHED = slice(COLUMNS_OF[Kind.PUBLISH].index(M_PID), COLUMNS_OF[Kind.PUBLISH].index(M_SEQ) + 1)
_HANDED = slice(COLUMNS_OF[Kind.DELIVER].index(M_PID), COLUMNS_OF[Kind.DELIVER].index(M_SEQ) + 1)
_AT_EV, _AT_T_CLK, _AT_T_TRUE = WHO.index(EV), WHO.index(T_CLK), WHO.index(T_TRUE)
_AT_VALUE, _AT_REASON = COLUMNS_OF[Kind.RESTART].index(VALUE), COLUMNS_OF[Kind.NOTE].index(REASON)

Event: TypeAlias = tuple[int, int, int]


class PublisherSpan(Struct):
    """What the rows say about one publisher's events: the last number it published, and the last that was delivered."""

    published: int = -1
    delivered: int = -1
    clock: int = 0
    """When one of its events was last delivered, by the latest of the clocks."""

    def add(self, other: "PublisherSpan") -> None:
        """Add what other rows say."""
        self.published = max(self.published, other.published)
        self.delivered = max(self.delivered, other.delivered)
        self.clock = max(self.clock, other.clock)


Spans: TypeAlias = dict[tuple[int, int], PublisherSpan]


class SegmentFacts(Struct):
    """What one segment tells, without its rows."""

    where: str
    node: int
    inc: int
    number: int
    whole: int = 0
    """Where its last whole record ends."""
    is_torn: bool = False
    is_damaged: bool = False
    head: dict[str, Any] | None = None
    unreadable: str | None = None
    """Why it has no head."""
    wrong: str | None = None
    """Why its rows cannot be read."""
    rows: int = 0
    first: int = 0
    last: int = -1
    """The numbers of its first row, and the greatest."""
    has_holes: bool = False
    """Its rows do not follow each other by their numbers."""
    holes: list[tuple[int, int]] = field(default_factory=list)
    """The numbers that are missing between its rows, as ranges (first, end)."""
    clock: int = 0
    first_clock: int | None = None
    left: bool = False
    closed: bool = False
    taken: int | None = None
    is_manual: bool = False
    deliveries: int = 0
    first_handed: Event | None = None
    last_handed: Event | None = None
    batch: int = 0
    """The number of last deliveries that follow each other like those of one batch."""
    spans: list[tuple[int, int, PublisherSpan]] = field(default_factory=list)


def facts_of(path: Segment, start: int = 0) -> SegmentFacts:
    """Look into a segment, or into what was written after a place in it."""
    name = NAME.fullmatch(path.name)
    assert name is not None
    facts = SegmentFacts(str(path), int(name[2]), int(name[3]), int(name[4]))
    facts.whole, facts.is_torn, facts.is_damaged = ending_of(path)
    try:
        facts.head, _ = read_segment(path)
    except TraceError as error:
        facts.unreadable = str(error)
        return facts
    spans: Spans = {}
    try:
        for kind, row in rows_between(path, start, facts.whole):
            _note(facts, kind, row, spans)
    except TraceError as error:
        facts.wrong = str(error)
    facts.spans = [(*publisher, span) for publisher, span in spans.items()]
    return facts


def _note(facts: SegmentFacts, kind: Kind, row: Row, spans: Spans) -> None:
    """Add one row to what is known about a segment."""
    ev, clock = row[_AT_EV], row[_AT_T_CLK]
    if not facts.rows:
        facts.first = ev
    elif ev != facts.last + 1:
        facts.has_holes = True
        facts.holes += [(facts.last + 1, ev)] if ev > facts.last + 1 else []
    facts.rows += 1
    facts.last = max(facts.last, ev)
    facts.clock = max(facts.clock, clock)
    facts.first_clock = clock if facts.first_clock is None else min(facts.first_clock, clock)
    facts.left |= kind is Kind.LEAVE
    facts.closed |= kind is Kind.NOTE and row[_AT_REASON] == CLOSED
    if kind is Kind.RESTART and facts.taken is None:
        facts.taken = row[_AT_VALUE]
    elif kind is Kind.DELIVER:
        event = row[_HANDED]
        before = facts.last_handed
        goes_on = before is not None and event == (*before[:2], before[2] + 1)
        facts.deliveries, facts.batch, facts.last_handed = facts.deliveries + 1, facts.batch * goes_on + 1, event
        facts.first_handed = facts.first_handed or event
        span = spans.setdefault(event[:2], PublisherSpan())
        span.delivered, span.clock = max(span.delivered, event[2]), max(span.clock, clock)
    elif kind is Kind.PUBLISH:
        event = row[_PUBLISHED]
        span = spans.setdefault(event[:2], PublisherSpan())
        span.published = max(span.published, event[2])
    facts.is_manual |= kind is Kind.NOTE and row[_AT_REASON] == ACK_MANUAL


class Incarnation(Struct):
    """What is known about one incarnation of a process, without its rows."""

    last: int = -1
    """The number of its last row, and the latest time on its clock."""
    clock: int = 0
    first_clock: int | None = None
    left: bool = False
    closed: bool = False
    """It closed the group in order, and did not leave it."""
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
    durable: bool | None = None
    """It remembers across crashes; None where no segment says."""
    took_more: bool = False
    """The application had taken more than the rows of earlier incarnations say it was handed."""
    untaken: list[tuple[int, int]] = field(default_factory=list)
    """Ranges (first, end) of its deliveries that were not taken when an incarnation ended, and came again."""
    reach: tuple[int, int] | None = None
    """The number of its last segment, and where the last whole record of that ends."""

    @property
    def vouches(self) -> bool:
        """Whether it names the incarnation that it goes on from: all before it wrote their rows in one directory."""
        return self.before is not None and self.previous in (None, self.before[0])

    def reaches(self, number: int, size: int) -> bool:
        """Tell whether its segments go as far as a later incarnation found them."""
        return self.reach is not None and self.reach >= (number, size)


class SegmentPass(Struct):
    """What is needed to pass the rows of one segment on."""

    where: str
    inc: int
    end: int
    """Rows up to here were looked at; its process may have written more since."""
    deliveries: int
    """The deliveries of its incarnation before it."""
    highest: list[Event]
    """The last number that each publisher told before it."""
    untaken: list[tuple[int, int]] = field(default_factory=list)
    is_resumed: bool = False
    """Its incarnation goes on from an earlier one."""
    rows: int = 0


class NodeFacts(Struct):
    """What all segments of one node tell."""

    incarnations: dict[int, Incarnation] = field(default_factory=dict)
    passes: list[SegmentPass] = field(default_factory=list)
    spans: list[tuple[int, int, PublisherSpan]] = field(default_factory=list)
    head: dict[str, Any] | None = None
    """That of its first segment that has one."""
    founders: list[int] = field(default_factory=list)
    name: str | None = None
    levels: dict[str, str] = field(default_factory=dict)
    """The levels that its segments name, each with the first segment that does."""
    unreadable: str | None = None
    """Why its first segment without a head has none."""
    wrong: str | None = None


class Handed(Struct):
    """What the incarnations of one node were handed, in order, as ranges of their deliveries.

    A restart says how many events the application had taken. What it was handed beyond that when its process died is
    owed again, and counts when it is handed out then. Only one event, or one batch, can have been handed out and not
    taken, unless the application acknowledges by itself: whatever else comes again is a second delivery.
    """

    stretches: list[tuple[int, int, int]] = field(default_factory=list)
    """(incarnation, first, end): a range of the deliveries of an incarnation."""
    unseen: int = 0
    """The number of events that were taken and that no row says were handed out."""
    last: Event | None = None
    batch: int = 0
    """The number of last events that follow each other like those of one batch."""
    manual: bool = False
    """The application of the last incarnation acknowledged by itself."""
    untaken: list[tuple[int, int, int]] = field(default_factory=list)
    """(incarnation, first, end): ranges that were not taken when an incarnation ended."""

    def forget(self) -> None:
        """Begin with a data directory that knows no earlier incarnation: what was handed out before is not counted in
        it."""
        self.stretches = []
        self.unseen, self.last, self.batch = 0, None, 0

    def copy(self) -> "Handed":
        """Return the same, to go on from later."""
        return replace(self, stretches=list(self.stretches), untaken=list(self.untaken))

    def back_to(self, inc: int, then: "Handed") -> None:
        """Go on from an incarnation that others have followed already: they began with an older copy of the data
        directory, so what that did not know to be taken was taken all the same."""
        later = [each for each in self.untaken if each[0] > inc]
        self.stretches, self.untaken = list(then.stretches), then.untaken + later
        self.unseen, self.last, self.batch, self.manual = then.unseen, then.last, then.batch, then.manual

    def begin(self, taken: int) -> bool:
        """Begin an incarnation that says what was taken: what was handed out beyond that was not taken. Return whether
        more was taken than handed out."""
        beyond = self.unseen + sum(end - first for _, first, end in self.stretches) - taken
        in_hand = beyond if self.manual else min(beyond, self.batch)
        left = beyond
        while left > 0 and self.stretches:
            inc, first, end = self.stretches.pop()
            cut, void = max(first, end - left), max(first, end - in_hand)
            self.untaken += [(inc, void, end)] if in_hand > 0 else []
            self.stretches += [(inc, first, cut)] if cut > first else []
            left, in_hand = left - (end - cut), in_hand - (end - void)
        self.unseen -= min(beyond, 0) + max(left, 0)
        self.last, self.batch = None, 0
        return beyond < 0

    def add(self, inc: int, number: int, facts: SegmentFacts) -> None:
        """Add the deliveries of a segment; `number` of its incarnation came before them."""
        if facts.first_handed is None:
            return
        end = number + facts.deliveries
        if self.stretches and self.stretches[-1][0] == inc and self.stretches[-1][2] == number:
            self.stretches[-1] = (inc, self.stretches[-1][1], end)
        else:
            self.stretches.append((inc, number, end))
        follows = self.last is not None and facts.first_handed == (*self.last[:2], self.last[2] + 1)
        goes_on = follows and facts.batch == facts.deliveries
        self.last, self.batch = facts.last_handed, facts.batch + (self.batch if goes_on else 0)


def level_of(head: dict[str, Any]) -> str:
    """Return what decides which promises are made to a segment's group: its level, and whether it is on views."""
    is_on_views = (head.get("settings") or {}).get("membership") == "living"
    return f"{head['level']} on views" if is_on_views else str(head["level"])


def check_one_level(levels: Iterable[tuple[str, str]], group: str) -> None:
    """Check that what segments name is one level; each comes with where it was found. Raises TraceError."""
    found: dict[str, str] = {}
    for level, where in levels:
        found.setdefault(level, where)
    if len(found) > 1:
        (one, here), (other, there) = list(found.items())[:2]
        raise TraceError(
            f"groups of different levels are called {group!r}: one is {one} ({here}), another is {other} ({there}); "
            "give the directories of one of them"
        )


def node_facts(facts: Iterable[SegmentFacts]) -> NodeFacts:
    """Put together what the segments of one node tell."""
    by_incarnation: dict[int, list[SegmentFacts]] = {}
    for each in sorted(facts, key=lambda each: (each.inc, each.number, each.where)):
        by_incarnation.setdefault(each.inc, []).append(each)
    node, handed, spans = NodeFacts(), Handed(), Spans()
    after: dict[int, Handed] = {}
    for inc, segments in by_incarnation.items():
        _follow(segments, handed, after)
        node.incarnations[inc] = _incarnation(node, segments, handed, spans)
        after[inc] = handed.copy()
    for inc, first, end in handed.untaken:
        node.incarnations[inc].untaken.append((first, end))
    for passing in node.passes:
        known = node.incarnations[passing.inc]
        passing.untaken, passing.is_resumed = known.untaken, known.taken is not None
    node.spans = [(*publisher, span) for publisher, span in sorted(spans.items())]
    return node


def _follow(segments: Sequence[SegmentFacts], handed: Handed, after: dict[int, Handed]) -> None:
    """Go on from the incarnation that a data directory names as the one before: mostly the last, or none."""
    head = next((facts.head for facts in segments if facts.head is not None), None)
    if head is None or "previous" not in head:
        return
    previous = head["previous"]
    if previous is None:
        handed.forget()
    elif previous in after and previous != max(after):
        handed.back_to(previous, after[previous])


def _incarnation(node: NodeFacts, segments: Sequence[SegmentFacts], handed: Handed, spans: Spans) -> Incarnation:
    """Return what is known about an incarnation from its segments, in order; those without a head are left out."""
    known, deliveries, is_manual = Incarnation(), 0, False
    for facts in segments:
        is_last = facts is segments[-1]
        known.lost = ROWS_LOST if facts.is_damaged or (facts.is_torn and not is_last) else known.lost
        head = facts.head
        if head is None:
            node.unreadable = node.unreadable or facts.unreadable
            continue
        node.wrong = node.wrong or facts.wrong
        node.head = node.head or head
        node.levels.setdefault(level_of(head), facts.where)
        node.founders = node.founders or list(head.get("founders") or ())
        node.name = head.get("name") or node.name
        known.reach = (facts.number, facts.whole)
        known.lost = ROWS_LOST if head.get("lost") else known.lost
        known.before, known.previous = head.get("before") and tuple(head["before"]), head.get("previous")
        known.durable = bool(head.get("durable"))
        if facts.rows:
            known.has_holes |= facts.has_holes or facts.first != known.last + 1
            known.last, known.clock = max(known.last, facts.last), max(known.clock, facts.clock)
            clocks = [clock for clock in (known.first_clock, facts.first_clock) if clock is not None]
            known.first_clock, known.left = min(clocks), known.left or facts.left
            known.closed |= facts.closed
        if facts.taken is not None and known.taken is None:
            known.taken = facts.taken
            known.took_more = handed.begin(facts.taken)
        highest = [(*publisher, span.published) for publisher, span in spans.items() if span.published >= 0]
        node.passes.append(SegmentPass(facts.where, facts.inc, facts.whole, deliveries, highest, rows=facts.rows))
        handed.add(facts.inc, deliveries, facts)
        deliveries += facts.deliveries
        is_manual |= facts.is_manual
        for pid, inc, span in facts.spans:
            spans.setdefault((pid, inc), PublisherSpan()).add(span)
    handed.manual = is_manual
    return known


def passed_on(path: Segment, how: SegmentPass, *, one_clock: bool) -> Iterator[tuple[Kind, Row]]:
    """Yield the rows of a segment as they are in a trace. Raises TraceError.

    What the application did not keep becomes notes: deliveries that were not taken when an incarnation ended, and
    publications reported at the very moment of a crash and reported again. `one_clock`: its clock is true time.
    """
    deliveries = how.deliveries
    highest = {event[:2]: event[2] for event in how.highest}
    for kind, row in rows_between(path, 0, how.end):
        if one_clock:
            row = (*row[:_AT_T_TRUE], row[_AT_T_CLK], *row[_AT_T_TRUE + 1 :])
        if kind is Kind.DELIVER:
            untaken = any(first <= deliveries < end for first, end in how.untaken)
            deliveries += 1
            yield _noted(kind, row, "untaken") if untaken else (kind, row)
        elif kind is Kind.PUBLISH:
            pid, inc, seq = row[_PUBLISHED]
            again = seq <= highest.get((pid, inc), -1) and how.is_resumed
            highest[pid, inc] = max(highest.get((pid, inc), -1), seq)
            yield _noted(kind, row, "told_again") if again else (kind, row)
        else:
            yield kind, row


def _noted(kind: Kind, row: Row, reason: str) -> tuple[Kind, Row]:
    given = dict(zip(COLUMNS_OF[kind], row, strict=True)) | {REASON: reason}
    return Kind.NOTE, tuple(given.get(name) for name in COLUMNS_OF[Kind.NOTE])
