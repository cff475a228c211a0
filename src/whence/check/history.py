"""True happened-before, rebuilt from program order and deliveries alone; stamps are never looked at.

An event *follows* another when its publisher had published or delivered the other before (Lamport 1978), through any
number of processes. Program order is a process's rows by (incarnation, number). A process is one incarnation of a node,
or all of them where it remembers across crashes (`run.durable`) and no rows are missing: what an earlier incarnation
was handed counts only if it was taken, and a missing row may say that it was not. Clocks play no part, so live traces
are judged like simulated ones.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from whence.check.closure import NO_EVENT, Process, close
from whence.trace.memory import Row, Run, Trace
from whence.trace.schema import COLUMNS_OF, DESTS, GRP, M_SEQ, REASON, T_TRUE, Kind
from whence.types import EventId

Key: TypeAlias = tuple[str, int, int, int]
"""(group, publisher, its incarnation, number): an event's identity in the whole run."""

Step: TypeAlias = tuple[int, int, Kind, int, Row]
"""(incarnation, number, kind, event or NO_EVENT, row): one step of a process's program order."""

ALL_INCARNATIONS = 0
BEFORE_ALL, AFTER_ALL = -1, 2**63 - 1

_AT_PUBLISH = COLUMNS_OF[Kind.PUBLISH].index
AT_T_TRUE, AT_GRP, AT_DESTS = _AT_PUBLISH(T_TRUE), _AT_PUBLISH(GRP), _AT_PUBLISH(DESTS)
KEY_OF = slice(AT_GRP, _AT_PUBLISH(M_SEQ) + 1)
"""Where publish and deliver rows hold an event's Key."""
AT_REASON = COLUMNS_OF[Kind.CRASH].index(REASON)

_MEMBERSHIP = (Kind.JOIN, Kind.LEAVE, Kind.CRASH, Kind.RESTART)
_TICKETS = (Kind.TICKET_ACQUIRE, Kind.TICKET_RELEASE, Kind.TICKET_SUSPEND)
_IN_LINE = (Kind.PUBLISH, Kind.DELIVER, Kind.GAP, *_MEMBERSHIP, *_TICKETS)


class Stay(NamedTuple):
    """A process is a member of a group from its founding or a join row to a leave or crash row."""

    grp: str
    since: int
    """True time; BEFORE_ALL for founders, AFTER_ALL where the trace has none: then nothing is certainly expected."""
    until: int
    """True time; AFTER_ALL while it lasts, BEFORE_ALL where the trace has none."""
    first: tuple[int, int]
    last: tuple[int, int]
    """The (incarnation, number) of the rows that begin and end it."""

    @property
    def is_founding(self) -> bool:
        """Return whether it began with the group."""
        return self.since == BEFORE_ALL

    def covers(self, t_true: int | None) -> bool:
        """Return whether it certainly lasts at a time; an unknown time needs a stay without ends."""
        if t_true is None:
            return self.since == BEFORE_ALL and self.until == AFTER_ALL
        return self.since <= t_true < self.until

    def may_cover(self, t_true: int | None) -> bool:
        """Return whether it may last at a time: nothing that is known speaks against it."""
        if t_true is None:
            return True
        begun = self.since == AFTER_ALL or self.since <= t_true
        return begun and (self.until == BEFORE_ALL or t_true < self.until)


class History:
    """A run as the oracles see it: events numbered, one line of steps per process, memberships, happened-before."""

    def __init__(self, trace: Trace) -> None:
        self.source = trace
        """The trace as it was given."""
        self._distinct, self.twice = _each_once(trace)
        """How many rows were duplicates: the same in all columns."""
        self.trace, self.contested = (trace, 0) if self._distinct is trace else _undisputed(self._distinct)
        """The rows, and how many were left out because others have the same number: the true one is unknown."""
        self.run: Run = trace.run
        self.remembers = self.run.durable and self.incomplete is None
        """All incarnations of a node are one process, and the rows show what it remembers."""
        self._forgetful = frozenset(map(tuple, self.run.forgetful))
        self.published: list[Row] = []
        """The publish row of every event; an event's place in it is its number here."""
        self.republished: list[Row] = []
        """Publish rows of an identity that was already taken."""
        self.number: dict[Key, int] = {}
        self._number_events()
        self.lines: dict[Process, list[Step]] = self._lines()
        self.delivered: dict[Process, dict[int, Row]] = {}
        """Per process, its first delivery of every event, in the order of delivery."""
        self.repeats: list[tuple[Process, int, Row]] = []
        """Deliveries after the first."""
        self.unpublished: list[Row] = []
        """Deliveries of events that nobody published."""
        self._sort_deliveries()

    def is_durable(self, node: int, inc: int) -> bool:
        """Return whether an incarnation of a node remembers across crashes."""
        return self.run.durable and (node, inc) not in self._forgetful

    # --- names ---

    def process_of(self, row: Row) -> Process:
        """Return the process that a row belongs to."""
        return (row[0], ALL_INCARNATIONS) if self.remembers else (row[0], row[1])

    def id_of(self, event: int) -> EventId:
        """Return the identity of an event."""
        return EventId(*self.published[event][KEY_OF][1:])

    def group_of(self, event: int) -> str:
        """Return the group an event was published in."""
        return str(self.published[event][AT_GRP])

    # --- reading the rows ---

    def _number_events(self) -> None:
        number, published = self.number, self.published
        for row in self.trace.rows[Kind.PUBLISH]:
            key = row[KEY_OF]
            if key in number:
                self.republished.append(row)
            else:
                number[key] = len(published)
                published.append(row)

    def _lines(self) -> dict[Process, list[Step]]:
        lines: dict[Process, list[Step]] = {}
        number, remembers = self.number, self.remembers
        for kind in _IN_LINE:
            has_event = kind is Kind.PUBLISH or kind is Kind.DELIVER
            for row in self.trace.rows[kind]:
                inc = row[1]
                process = (row[0], ALL_INCARNATIONS if remembers else inc)
                event = number.get(row[KEY_OF], NO_EVENT) if has_event else NO_EVENT
                if kind is Kind.PUBLISH and self.published[event] is not row:
                    event = NO_EVENT  # a reused id is no second publication of the event
                if process not in lines:
                    lines[process] = []
                lines[process].append((inc, row[2], kind, event, row))
        for grp in self.run.groups:
            for node in self.run.groups[grp]:
                lines.setdefault((node, ALL_INCARNATIONS if remembers else self.first_incarnations.get(node, 1)), [])
        for line in lines.values():
            line.sort(key=itemgetter(0, 1))
        return dict(sorted(lines.items()))

    def _sort_deliveries(self) -> None:
        for process, line in self.lines.items():
            mine: dict[int, Row] = {}
            for _, _, kind, event, row in line:
                if kind is not Kind.DELIVER:
                    continue
                if event == NO_EVENT:
                    self.unpublished.append(row)
                elif event in mine:
                    self.repeats.append((process, event, row))
                else:
                    mine[event] = row
            self.delivered[process] = mine

    @cached_property
    def first_incarnations(self) -> dict[int, int]:
        """The first incarnation of every node that left a row."""
        first: dict[int, int] = {}
        for node, inc in self._numbers:
            first[node] = min(first.get(node, inc), inc)
        return first

    @cached_property
    def last_incarnations(self) -> dict[int, int]:
        """The last incarnation of every node that left a row."""
        last: dict[int, int] = {}
        for node, inc in self._numbers:
            last[node] = max(last.get(node, inc), inc)
        return last

    @cached_property
    def is_timed(self) -> bool:
        """Whether all rows that tell of publications and memberships have true time."""
        kinds = (Kind.PUBLISH, *_MEMBERSHIP)
        return all(row[AT_T_TRUE] is not None for kind in kinds for row in self.trace.rows[kind])

    @property
    def deliveries(self) -> int:
        """How many events were delivered, each process's first time counted."""
        return sum(map(len, self.delivered.values()))

    # --- completeness ---

    @cached_property
    def _numbers(self) -> dict[tuple[int, int], list[int]]:
        """The numbers of all rows of every incarnation of every node."""
        numbers: dict[tuple[int, int], list[int]] = {}
        for rows in self._distinct.rows.values():
            for row in rows:
                who = row[:2]
                if who in numbers:
                    numbers[who].append(row[2])
                else:
                    numbers[who] = [row[2]]
        return numbers

    @cached_property
    def incomplete(self) -> str | None:
        """Why rows may be missing; None when all are there.

        Each incarnation of a node numbers its rows 0, 1, 2, …, and the run says how many there are in all: so it shows
        where the last rows of one are missing, or all. Where there are more, it is unknown which were written.
        """
        for (node, inc), numbers in self._numbers.items():
            numbers.sort()
            if numbers != list(range(len(numbers))):
                expected = next((place for place, number in enumerate(numbers) if number != place), len(numbers))
                return (
                    f"the trace is incomplete: the rows of process {node} in its incarnation {inc} should be numbered "
                    f"from 0 without gaps, and number {expected} is missing or there twice"
                )
        there, written = self._distinct.count(), self.run.rows
        if written is not None and there < written:
            return f"the trace is incomplete: {written:,} rows were written, and {there:,} are there"
        if written is not None and there > written:
            return f"the trace contradicts itself: {written:,} rows were written, and {there:,} are there"
        return self.source.missing

    # --- who is a member, who is up ---

    @cached_property
    def stays(self) -> dict[Process, list[Stay]]:
        """Every stay of every process in a group. A restarted process is a member again from its own join row."""
        return {process: list(self._stays_of(process, line)) for process, line in self.lines.items()}

    def _stays_of(self, process: Process, line: list[Step]) -> Iterator[Stay]:
        node, inc = process
        groups, durable = self.run.groups, self.run.durable
        is_first_incarnation = durable or inc == self.first_incarnations.get(node, inc)
        here = {grp: (BEFORE_ALL, (-1, -1)) for grp in groups if is_first_incarnation and node in groups[grp]}
        for incarnation, ev, kind, _, row in line:
            if kind not in _MEMBERSHIP:
                continue
            t_true, grp, place = row[AT_T_TRUE], row[AT_GRP], (incarnation, ev)
            if kind is Kind.JOIN:
                here.setdefault(grp, (AFTER_ALL if t_true is None else t_true, place))
            elif kind is Kind.LEAVE or (kind is Kind.CRASH and not durable):
                until = BEFORE_ALL if t_true is None else t_true
                for left in [grp] if kind is Kind.LEAVE else list(here):
                    if left in here:
                        yield Stay(left, here[left][0], until, here.pop(left)[1], place)
        for grp, (since, first) in here.items():
            yield Stay(grp, since, AFTER_ALL, first, (AFTER_ALL, 0))

    @cached_property
    def up(self) -> dict[Process, bool]:
        """Whether a process is up at the end: it did not crash last, and no later incarnation replaced it."""
        states: dict[Process, bool] = {}
        for process, line in self.lines.items():
            node, inc = process
            crashed = False
            for _, _, kind, _, _ in line:
                if kind is Kind.CRASH:
                    crashed = True
                elif kind is Kind.RESTART:
                    crashed = False
            states[process] = not crashed and (self.run.durable or inc == self.last_incarnations.get(node, inc))
        return states

    def is_expected(self, event: int, process: Process) -> bool:
        """Return whether an event is addressed to a process that certainly was a member when it was published."""
        row = self.published[event]
        dests, grp, t_true = row[AT_DESTS], row[AT_GRP], row[AT_T_TRUE]
        if dests is not None and process[0] not in dests:
            return False
        return any(stay.grp == grp and stay.covers(t_true) for stay in self.stays[process])

    def may_be_expected(self, event: int, process: Process) -> bool:
        """Return whether an event may be addressed to a process and rows without true time leave it open."""
        row = self.published[event]
        dests, grp, t_true = row[AT_DESTS], row[AT_GRP], row[AT_T_TRUE]
        if dests is not None and process[0] not in dests:
            return False
        stays = [stay for stay in self.stays[process] if stay.grp == grp]
        return any(stay.may_cover(t_true) for stay in stays) and not any(stay.covers(t_true) for stay in stays)

    # --- happened-before ---

    @cached_property
    def past(self) -> list[int]:
        """The causal past of every event, as bits by event number; the event itself is not in it."""
        return self._closure[0]

    @cached_property
    def impossible(self) -> list[tuple[Process, int]]:
        """Deliveries (process, event) that no order of the steps allows: the event follows its own delivery."""
        return self._closure[1]

    @cached_property
    def _closure(self) -> tuple[list[int], list[tuple[Process, int]]]:
        return close({process: self.steps_of(process) for process in self.lines}, len(self.published))

    def steps_of(self, process: Process) -> list[tuple[int, bool]]:
        """Return the steps of a process that happened-before rests on: (event, is it its publication)."""
        first = self.delivered[process]
        return [
            (event, kind is Kind.PUBLISH)
            for _, _, kind, event, row in self.lines[process]
            if event != NO_EVENT and (kind is Kind.PUBLISH or first[event] is row)
        ]


def _each_once(trace: Trace) -> tuple[Trace, int]:
    """Return a trace without duplicate rows, and how many there were."""
    if len({row[:3] for rows in trace.rows.values() for row in rows}) == trace.count():
        return trace, 0
    once = Trace(trace.run)
    once.rows = {kind: list(dict.fromkeys(rows)) for kind, rows in trace.rows.items()}
    return once, trace.count() - once.count()


def _undisputed(trace: Trace) -> tuple[Trace, int]:
    """Return a trace without rows that differ and have the same number in one incarnation, and how many there were."""
    claims = Counter(row[:3] for rows in trace.rows.values() for row in rows)
    known = Trace(trace.run)
    known.rows = {kind: [row for row in rows if claims[row[:3]] == 1] for kind, rows in trace.rows.items()}
    return known, trace.count() - known.count()
