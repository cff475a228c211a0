"""The spools of many live processes combined into one trace, read and passed on record by record.

Every row is read twice: once to learn about each incarnation (how it began and ended, what it was handed, what is
missing), and once to be passed on, or turned into a note where it records what the application did not keep.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from whence.errors import TraceError
from whence.trace.memory import Row, Run, Trace
from whence.trace.schema import (
    ACK_MANUAL,
    COLUMNS_OF,
    EV,
    GRP,
    INC,
    M_PID,
    M_SEQ,
    NODE,
    REASON,
    T_CLK,
    T_TRUE,
    VALUE,
    WHO,
    Kind,
)
from whence.trace.segments import NAME, NO_TRACE, ROWS_LOST, is_damaged, read_segment, segments

_EVENT = slice(COLUMNS_OF[Kind.PUBLISH].index(M_PID), COLUMNS_OF[Kind.PUBLISH].index(M_SEQ) + 1)
_HANDED = slice(COLUMNS_OF[Kind.DELIVER].index(M_PID), COLUMNS_OF[Kind.DELIVER].index(M_SEQ) + 1)
_AT_T_CLK, _AT_T_TRUE = WHO.index(T_CLK), WHO.index(T_TRUE)
_AT_VALUE, _AT_REASON = COLUMNS_OF[Kind.RESTART].index(VALUE), COLUMNS_OF[Kind.NOTE].index(REASON)


class Life(Struct):
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
    untaken: list[range] = field(default_factory=list)
    """Its deliveries that were not taken when an incarnation ended, and were handed out again."""


class Told(Struct):
    """What the rows say about one publisher's events: the last number it published, and the last that was delivered."""

    published: int = -1
    delivered: int = -1
    clock: int = 0
    """When one of its events was last delivered."""


class Gathering:
    """The spools of a group's processes as one trace, whose rows are read on demand.

    An incarnation that neither left nor was followed by an orderly end gets a crash row when a later incarnation of its
    node exists. One that lost rows ends with a note whose number is too high, so that every reader finds the trace
    incomplete. One that left no spool, and whose events were delivered or that founded a group of fixed members,
    consists of such a note. One that did not leave, and whose spool ends before events of it that others delivered,
    lost rows too. Memory holds one record of a spool at a time.
    """

    def __init__(
        self, directories: Iterable[Path], group: str, run_id: str, version: str, *, one_clock: bool = False,
        **about: Any,
    ) -> None:  # fmt: skip
        """Read every row once. Raises TraceError.

        `one_clock`: all processes ran on one machine, whose clock is true time for all of them. `about` adds to what
        the spools' heads say, or overrides it.
        """
        self._group, self._one_clock = group, one_clock
        self._lives: dict[tuple[int, int], Life] = {}
        found = [path.resolve() for directory in directories for path in segments(Path(directory), group)]
        head = self._look(sorted(set(found)))
        durable, founders = bool(head.get("durable")), list(head.get("founders", ()))
        parameters = head.get("settings") or {}
        told = {
            "seed": 0, "groups": {group: founders if durable else []}, "durable": durable, "parameters": parameters,
            **{name: parameters.get(name) for name in ("tick_ns", "epsilon", "delta")},
        }  # fmt: skip
        described: dict[str, Any] = told | about
        for node in described["groups"].get(group, ()) if described["durable"] else ():
            if not any(other == node for other, _ in self._lives):
                self._lives[node, 1] = Life(lost=NO_TRACE)
        nodes = sorted({node for node, _ in self._lives})
        self.run = Run(run_id=run_id, version=version, level=head["level"], nodes=nodes, **described)

    @property
    def incomplete(self) -> list[tuple[int, int, str]]:
        """Return the incarnations (node, inc) that miss rows, and why."""
        return [(*life, known.lost) for life, known in sorted(self._lives.items()) if known.lost is not None]

    @property
    def span(self) -> tuple[int, int]:
        """Return the earliest and the latest time on any clock."""
        firsts = [known.first_clock for known in self._lives.values() if known.first_clock is not None]
        return min(firsts, default=0), max((known.clock for known in self._lives.values()), default=0)

    def rows(self) -> Iterator[tuple[Kind, Row]]:
        """Yield all rows, incarnation by incarnation. Raises TraceError."""
        told: dict[tuple[int, int], int] = {}
        for life in sorted(self._lives):
            for kind, row in self._rows_of(life, told):
                yield kind, _timed(row) if self._one_clock else row

    def _look(self, files: list[Path]) -> dict[str, Any]:
        """Read every segment once to learn about the incarnations; return what the heads say."""
        for path in files:
            found = NAME.fullmatch(path.name)
            assert found is not None
            self._lives.setdefault((int(found[2]), int(found[3])), Life()).segments.append(path)
        heads: list[dict[str, Any]] = []
        publishers: dict[tuple[int, int], Told] = {}
        handed: dict[int, Handed] = {}
        for (node, _), known in sorted(self._lives.items()):
            heads += _look_at(known, handed.setdefault(node, Handed()), publishers)
        if not heads:
            raise TraceError(
                f"no spool of group {self._group!r} was found; give the directories that live nodes wrote traces to"
            )
        for (pid, inc), told in sorted(publishers.items()):
            if (pid, inc) not in self._lives:
                self._lives[pid, inc] = Life(lost=NO_TRACE, clock=told.clock, first_clock=told.clock)
            elif told.delivered > told.published:
                self._cut_off(pid, inc)
        founders: list[int] = next((head["founders"] for head in heads if head.get("founders")), [])
        return heads[0] | {"founders": founders}  # a returning process need not name them again

    def _cut_off(self, pid: int, since: int) -> None:
        """Note that the end of a process's spool is missing, unless its incarnations since then recorded their ends."""
        unended = [inc for node, inc in self._lives if node == pid and inc >= since and not self._lives[node, inc].left]
        if unended:
            self._lives[pid, max(unended)].lost = ROWS_LOST

    def _rows_of(self, life: tuple[int, int], told: dict[tuple[int, int], int]) -> Iterator[tuple[Kind, Row]]:
        """Yield the rows of an incarnation, and those that say how it ended.

        What the application did not keep becomes notes: deliveries that were not taken when an incarnation ended, and
        publications reported at the very moment of a crash and reported again; `told` is the highest number so far, by
        publisher.
        """
        known, deliveries = self._lives[life], 0
        for path in known.segments:
            for kind, row in read_segment(path)[1]:
                if kind is Kind.DELIVER:
                    untaken = any(deliveries in some for some in known.untaken)
                    deliveries += 1
                    yield _noted(kind, row, "untaken") if untaken else (kind, row)
                elif kind is Kind.PUBLISH:
                    pid, inc, seq = row[_EVENT]
                    again = seq <= told.get((pid, inc), -1) and known.taken is not None
                    told[pid, inc] = max(told.get((pid, inc), -1), seq)
                    yield _noted(kind, row, "told_again") if again else (kind, row)
                else:
                    yield kind, row
        last = known.last
        if known.lost is not None:
            yield Kind.NOTE, self._ending(Kind.NOTE, life, last + 2, known.lost)
            last += 2
        if not known.left and known.lost != NO_TRACE and self._is_followed(life):
            yield Kind.CRASH, self._ending(Kind.CRASH, life, last + 1, "killed")

    def _is_followed(self, life: tuple[int, int]) -> bool:
        return any(node == life[0] and inc > life[1] for node, inc in self._lives)

    def _ending(self, kind: Kind, life: tuple[int, int], ev: int, reason: str) -> Row:
        """Return a row that follows all others of an incarnation."""
        clock = self._lives[life].clock
        given = {NODE: life[0], INC: life[1], EV: ev, T_CLK: clock, GRP: self._group, REASON: reason}
        return tuple(given.get(name) for name in COLUMNS_OF[kind])


def gather(directories: Iterable[Path], group: str, run_id: str, version: str, **about: Any) -> Trace:
    """Combine the spools of a group's processes into one trace in memory; see Gathering. Raises TraceError."""
    gathering = Gathering(directories, group, run_id, version, **about)
    trace = Trace(gathering.run)
    for kind, row in gathering.rows():
        trace.rows[kind].append(row)
    return trace


class Handed:
    """What the incarnations of one node were handed, in order, as ranges of their deliveries.

    A restart says how many events the application had taken. What it was handed beyond that when its process died is
    owed again, and counts when it is handed out then. Only one event, or one batch, can have been handed out and not
    taken, unless the application acknowledges by itself: whatever else comes again is a second delivery.
    """

    def __init__(self) -> None:
        self._stretches: list[tuple[Life, int, int]] = []
        """(incarnation, first, end): a range of the deliveries of an incarnation."""
        self._last: tuple[int, int, int] | None = None
        self._batch = 0
        """The number of last events that follow each other like those of one batch."""
        self.manual = False
        """The application of the last incarnation acknowledged by itself."""

    def begin(self, taken: int) -> None:
        """Begin an incarnation that says what was taken: what was handed out beyond that was not taken."""
        beyond = sum(end - first for _, first, end in self._stretches) - taken
        in_hand = beyond if self.manual else min(beyond, self._batch)
        left = beyond
        while left > 0:
            life, first, end = self._stretches.pop()
            cut, void = max(first, end - left), max(first, end - in_hand)
            life.untaken += [range(void, end)] if in_hand > 0 else []
            self._stretches += [(life, first, cut)] if cut > first else []
            left, in_hand = left - (end - cut), in_hand - (end - void)
        self._last, self._batch = None, 0

    def add(self, life: Life, number: int, event: tuple[int, int, int]) -> None:
        """Add the number-th delivery of an incarnation."""
        if self._stretches and self._stretches[-1][0] is life and self._stretches[-1][2] == number:
            self._stretches[-1] = (life, self._stretches[-1][1], number + 1)
        else:
            self._stretches.append((life, number, number + 1))
        goes_on = self._last is not None and event == (*self._last[:2], self._last[2] + 1)
        self._last, self._batch = event, self._batch + 1 if goes_on else 1


def _look_at(known: Life, handed: Handed, publishers: dict[tuple[int, int], Told]) -> list[dict[str, Any]]:
    """Read the rows of an incarnation to learn about it; return the heads of its segments."""
    heads, deliveries, manual = [], 0, False
    for path in known.segments:
        head, rows = read_segment(path)
        heads.append(head)
        torn = is_damaged(path, last=path == known.segments[-1])
        known.lost = ROWS_LOST if head.get("lost") or torn else known.lost
        for kind, row in rows:
            _note(known, kind, row)
            if kind is Kind.RESTART and known.taken is None and row[_AT_VALUE] is not None:
                known.taken = row[_AT_VALUE]
                handed.begin(row[_AT_VALUE])
            elif kind is Kind.DELIVER:
                handed.add(known, deliveries, row[_HANDED])
                deliveries += 1
                told, seq = publishers.setdefault(row[_HANDED][:2], Told()), row[_HANDED][2]
                told.delivered, told.clock = max(told.delivered, seq), row[_AT_T_CLK]
            elif kind is Kind.PUBLISH:
                told, seq = publishers.setdefault(row[_EVENT][:2], Told()), row[_EVENT][2]
                told.published = max(told.published, seq)
            manual |= kind is Kind.NOTE and row[_AT_REASON] == ACK_MANUAL
    handed.manual = manual
    return heads


def _note(known: Life, kind: Kind, row: Row) -> None:
    """Add one row to what is known about an incarnation."""
    known.last = max(known.last, row[2])
    known.clock = max(known.clock, row[_AT_T_CLK])
    known.first_clock = row[_AT_T_CLK] if known.first_clock is None else min(known.first_clock, row[_AT_T_CLK])
    known.left |= kind is Kind.LEAVE


def _timed(row: Row) -> Row:
    return (*row[:_AT_T_TRUE], row[_AT_T_CLK], *row[_AT_T_TRUE + 1 :])


def _noted(kind: Kind, row: Row, reason: str) -> tuple[Kind, Row]:
    given = dict(zip(COLUMNS_OF[kind], row, strict=True)) | {REASON: reason}
    return Kind.NOTE, tuple(given.get(name) for name in COLUMNS_OF[Kind.NOTE])
