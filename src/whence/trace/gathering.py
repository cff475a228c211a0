"""The trace segments of many live processes combined into one trace, read and passed on record by record.

Every row is read twice: once to learn about each incarnation (how it began and ended, what it was handed, what is
missing), and once to be passed on, or turned into a note where it records what the application did not keep.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from whence.errors import TraceError
from whence.trace.incarnations import AT_T_CLK, EVENT, Handed, Incarnation, PublisherSpan, look_at
from whence.trace.memory import Row, Run, Trace
from whence.trace.schema import COLUMNS_OF, EV, GRP, INC, NODE, REASON, T_CLK, T_TRUE, WHO, Kind
from whence.trace.segments import FORMER_MISSING, NAME, NO_TRACE, ROWS_LOST, read_segment, segments

_AT_T_TRUE = WHO.index(T_TRUE)


class Gathering:
    """The segments of a group's processes as one trace, whose rows are read on demand.

    An incarnation that neither left nor was followed by an orderly end gets a crash row when a later incarnation of its
    node exists. One that lost rows ends with a note whose number is too high, so that every reader finds the trace
    incomplete. One that left no segment, and whose events were delivered, whose segments a later incarnation found, or
    that founded a group of fixed members, consists of such a note. One that did not leave, and whose segments end
    before events of it that others delivered, or before where a later incarnation found its end, lost rows too. One
    whose application had taken more than it was handed goes on from one whose rows are missing, unless the segments
    show that there was none: then it counted wrongly. Memory holds one record of a segment at a time.
    """

    def __init__(
        self, directories: Iterable[Path], group: str, run_id: str, version: str, *, one_clock: bool = False,
        **about: Any,
    ) -> None:  # fmt: skip
        """Read every row once. Raises TraceError.

        `one_clock`: all processes ran on one machine, whose clock is true time for all of them. `about` adds to what
        the segments' headers say, or overrides it.
        """
        self._group, self._one_clock = group, one_clock
        self._incarnations: dict[tuple[int, int], Incarnation] = {}
        found = [path.resolve() for directory in directories for path in segments(Path(directory), group)]
        head = self._look(sorted(set(found)))
        durable, founders = bool(head.get("durable")), list(head.get("founders", ()))
        parameters = head.get("settings") or {}
        agreed = {
            "seed": 0, "groups": {group: founders if durable else []}, "durable": durable, "parameters": parameters,
            "names": head["names"],
            **{name: parameters.get(name) for name in ("tick_ns", "epsilon", "delta")},
        }  # fmt: skip
        described: dict[str, Any] = agreed | about
        for node in described["groups"].get(group, ()) if described["durable"] else ():
            if not any(other == node for other, _ in self._incarnations):
                self._incarnations[node, 1] = Incarnation(lost=NO_TRACE)
        nodes = sorted({node for node, _ in self._incarnations})
        self.run = Run(run_id=run_id, version=version, level=head["level"], nodes=nodes, **described)

    @property
    def incomplete(self) -> list[tuple[int, int, str]]:
        """Return the incarnations (node, inc) that miss rows, and why."""
        why = {
            incarnation: ROWS_LOST if known.has_holes else known.lost
            for incarnation, known in sorted(self._incarnations.items())
        }
        return [(*incarnation, reason) for incarnation, reason in why.items() if reason is not None]

    @property
    def span(self) -> tuple[int, int]:
        """Return the earliest and the latest time on any clock."""
        firsts = [known.first_clock for known in self._incarnations.values() if known.first_clock is not None]
        return min(firsts, default=0), max((known.clock for known in self._incarnations.values()), default=0)

    def rows(self) -> Iterator[tuple[Kind, Row]]:
        """Yield all rows, incarnation by incarnation. Raises TraceError."""
        highest: dict[tuple[int, int], int] = {}
        for incarnation in sorted(self._incarnations):
            for kind, row in self._rows_of(incarnation, highest):
                yield kind, _timed(row) if self._one_clock else row

    def _look(self, files: list[Path]) -> dict[str, Any]:
        """Read every segment once to learn about the incarnations; return what the heads say."""
        for path in files:
            found = NAME.fullmatch(path.name)
            assert found is not None
            self._incarnations.setdefault((int(found[2]), int(found[3])), Incarnation()).segments.append(path)
        heads: list[dict[str, Any]] = []
        unreadable: list[TraceError] = []
        publishers: dict[tuple[int, int], PublisherSpan] = {}
        handed: dict[int, Handed] = {}
        for (node, _), known in sorted(self._incarnations.items()):
            read, errors = look_at(known, handed.setdefault(node, Handed()), publishers)
            heads, unreadable = heads + read, unreadable + errors
        if unreadable and not heads:
            raise unreadable[0]
        if not heads:
            raise TraceError(
                f"no trace of group {self._group!r} was found; give the directories that live nodes wrote traces to"
            )
        self._miss_former()
        for (pid, inc), span in sorted(publishers.items()):
            if (pid, inc) not in self._incarnations:
                self._incarnations[pid, inc] = Incarnation(lost=NO_TRACE, clock=span.clock, first_clock=span.clock)
            elif span.delivered > span.published:
                self._cut_off(pid, inc)
        founders: list[int] = next((head["founders"] for head in heads if head.get("founders")), [])
        names = {head["node"]: head["name"] for head in heads if head.get("name")}
        # a returning process need not name the founders again
        return heads[0] | {"founders": founders, "names": names or None}

    def _cut_off(self, pid: int, since: int) -> None:
        """Note that the end of a process's trace is missing, unless its incarnations since then recorded their ends, or
        rows of them are missing anyway."""
        later = {inc: known for (node, inc), known in self._incarnations.items() if node == pid and inc >= since}
        unended = [inc for inc, known in later.items() if not known.left]
        if unended and not any(known.lost or known.has_holes for known in later.values()):
            later[max(unended)].lost = ROWS_LOST

    def _miss_former(self) -> None:
        """Note the incarnations whose rows are missing according to those that came after them."""
        for (node, _), known in sorted(self._incarnations.items()):
            if known.before is not None:
                before, *end = known.before
                untraced = Incarnation(lost=NO_TRACE, clock=known.first_clock or 0, first_clock=known.first_clock)
                former = self._incarnations.setdefault((node, before), untraced)
                former.lost = former.lost if former.lost or former.reaches(*end) else ROWS_LOST
            if known.took_more and known.lost is None and not known.vouches:
                known.lost = FORMER_MISSING

    def _rows_of(self, incarnation: tuple[int, int], highest: dict[tuple[int, int], int]) -> Iterator[tuple[Kind, Row]]:
        """Yield the rows of an incarnation, and those that say how it ended.

        What the application did not keep becomes notes: deliveries that were not taken when an incarnation ended, and
        publications reported at the very moment of a crash and reported again; `highest` is the last number so far, by
        publisher.
        """
        known, deliveries = self._incarnations[incarnation], 0
        for path in known.segments:
            for kind, row in read_segment(path)[1]:
                if kind is Kind.DELIVER:
                    untaken = any(deliveries in some for some in known.untaken)
                    deliveries += 1
                    yield _noted(kind, row, "untaken") if untaken else (kind, row)
                elif kind is Kind.PUBLISH:
                    pid, inc, seq = row[EVENT]
                    again = seq <= highest.get((pid, inc), -1) and known.taken is not None
                    highest[pid, inc] = max(highest.get((pid, inc), -1), seq)
                    yield _noted(kind, row, "told_again") if again else (kind, row)
                else:
                    yield kind, row
        last = known.last
        if known.lost is not None:
            yield Kind.NOTE, self._ending(Kind.NOTE, incarnation, last + 2, known.lost)
            last += 2
        if not known.left and known.last >= 0 and self._is_followed(incarnation):
            yield Kind.CRASH, self._ending(Kind.CRASH, incarnation, last + 1, "killed")

    def _is_followed(self, incarnation: tuple[int, int]) -> bool:
        return any(node == incarnation[0] and inc > incarnation[1] for node, inc in self._incarnations)

    def _ending(self, kind: Kind, incarnation: tuple[int, int], ev: int, reason: str) -> Row:
        """Return a row that follows all others of an incarnation."""
        clock = self._incarnations[incarnation].clock
        given = {NODE: incarnation[0], INC: incarnation[1], EV: ev, T_CLK: clock, GRP: self._group, REASON: reason}
        return tuple(given.get(name) for name in COLUMNS_OF[kind])


def gather(directories: Iterable[Path], group: str, run_id: str, version: str, **about: Any) -> Trace:
    """Combine the segments of a group's processes into one trace in memory; see Gathering. Raises TraceError."""
    gathering = Gathering(directories, group, run_id, version, **about)
    trace = Trace(gathering.run)
    for kind, row in gathering.rows():
        trace.rows[kind].append(row)
    return trace


def _timed(row: Row) -> Row:
    return (*row[:_AT_T_TRUE], row[AT_T_CLK], *row[_AT_T_TRUE + 1 :])


def _noted(kind: Kind, row: Row, reason: str) -> tuple[Kind, Row]:
    given = dict(zip(COLUMNS_OF[kind], row, strict=True)) | {REASON: reason}
    return Kind.NOTE, tuple(given.get(name) for name in COLUMNS_OF[Kind.NOTE])
