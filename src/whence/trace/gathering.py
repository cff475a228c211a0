"""The trace segments of many live processes combined into one trace, read and passed on record by record.

Every row is read twice: once to learn about each incarnation (how it began and ended, what it was handed, what is
missing), and once to be passed on, or turned into a note where it records what the application did not keep.
`GatheredRun` is what both readings have in common, whoever reads: this process (`Gathering`), or Spark.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from whence.errors import TraceError
from whence.trace.incarnations import (
    Incarnation,
    NodeFacts,
    Spans,
    check_one_level,
    facts_of,
    node_facts,
    passed_on,
)
from whence.trace.memory import Row, Run, Trace
from whence.trace.schema import COLUMNS_OF, EV, GRP, INC, NODE, REASON, T_CLK, T_TRUE, Kind
from whence.trace.segments import FORMER_MISSING, NO_TRACE, ROWS_LOST, segments


class GatheredRun:
    """What the segments of a group's processes tell about its run: the incarnations, what is missing, how they ended.

    An incarnation that neither left nor was followed by an orderly end gets a crash row when a later incarnation of its
    node exists; in a living group also if others ended in order: it was killed for good. One that lost rows ends with a
    note whose number is too high, so that every reader finds the trace incomplete. One that left no segment, and whose
    events were delivered, whose segments a later incarnation found, or that founded a group of fixed members, consists
    of such a note. One that did not leave, and whose segments end before events of it that others delivered, or before
    where a later incarnation found its end, lost rows too. One whose application had taken more than it was handed goes
    on from one whose rows are missing, unless the segments show that there was none: then it counted wrongly.
    """

    def __init__(
        self, nodes: Mapping[int, NodeFacts], spans: Spans, group: str, run_id: str, version: str, *,
        one_clock: bool = False, **about: Any,
    ) -> None:  # fmt: skip
        """Put together what the segments of each node tell, and what all say about publishers. Raises TraceError.

        `one_clock`: all processes ran on one machine, whose clock is true time for all of them. `about` adds to what
        the segments' headers say, or overrides it.
        """
        self._group, self.one_clock = group, one_clock
        self._incarnations = {
            (node, inc): known for node, facts in sorted(nodes.items()) for inc, known in facts.incarnations.items()
        }
        head = self._head([facts for _, facts in sorted(nodes.items())])
        self._miss_former()
        self._miss_publishers(spans)
        remember = {incarnation: known.durable for incarnation, known in sorted(self._incarnations.items())}
        durable, founders = any(remember.values()), list(head["founders"])
        forgetful = [incarnation for incarnation, does in remember.items() if does is False] if durable else []
        parameters = head.get("settings") or {}
        agreed = {
            "seed": 0, "groups": {group: founders if durable else []}, "durable": durable, "forgetful": forgetful,
            "parameters": parameters,
            "names": {node: facts.name for node, facts in sorted(nodes.items()) if facts.name} or None,
            **{name: parameters.get(name) for name in ("tick_ns", "epsilon", "delta")},
        }  # fmt: skip
        described: dict[str, Any] = agreed | about
        for node in described["groups"].get(group, ()) if described["durable"] else ():
            if not any(other == node for other, _ in self._incarnations):
                self._incarnations[node, 1] = Incarnation(lost=NO_TRACE)
        self._is_living = parameters.get("membership") == "living"
        pids = sorted({node for node, _ in self._incarnations})
        self.run = Run(run_id=run_id, version=version, level=head["level"], nodes=pids, **described)

    @property
    def incomplete(self) -> list[tuple[int, int, str]]:
        """Return the incarnations (node, inc) that miss rows, and why."""
        why = {
            incarnation: ROWS_LOST if known.has_holes else known.lost
            for incarnation, known in sorted(self._incarnations.items())
        }
        return [(*incarnation, reason) for incarnation, reason in why.items() if reason is not None]

    @property
    def killed(self) -> list[tuple[int, int]]:
        """Return the last incarnations (node, inc) that did not end in order: they were killed, or still run. Rows are
        on file before anything that follows from them leaves a process, and where members remember before an event
        counts as taken; what was handed out after that is missing."""
        return [each for each in sorted(self._incarnations) if self._is_cut_short(each)]

    @property
    def span(self) -> tuple[int, int]:
        """Return the earliest and the latest time on any clock."""
        firsts = [known.first_clock for known in self._incarnations.values() if known.first_clock is not None]
        return min(firsts, default=0), max((known.clock for known in self._incarnations.values()), default=0)

    def endings(self) -> Iterator[tuple[tuple[int, int], list[tuple[Kind, Row]]]]:
        """Yield every incarnation in order, with the rows that say how it ended."""
        for incarnation, known in sorted(self._incarnations.items()):
            rows, last = [], known.last
            if known.lost is not None:
                rows.append((Kind.NOTE, self._ending(Kind.NOTE, incarnation, last + 2, known.lost)))
                last += 2
            if not known.left and known.last >= 0 and (self._is_followed(incarnation) or self._was_killed(incarnation)):
                rows.append((Kind.CRASH, self._ending(Kind.CRASH, incarnation, last + 1, "killed")))
            yield incarnation, rows

    def _head(self, nodes: list[NodeFacts]) -> dict[str, Any]:
        """Return what the first head says, with the founders that any names: a returning process need not.

        Raises TraceError, also where the segments are of groups of different levels."""
        wrong = [facts.wrong for facts in nodes if facts.wrong]
        heads = [facts.head for facts in nodes if facts.head is not None]
        unreadable = [facts.unreadable for facts in nodes if facts.unreadable]
        if wrong or (unreadable and not heads):
            raise TraceError((wrong or unreadable)[0])
        if not heads:
            raise TraceError(
                f"no trace of group {self._group!r} was found; give the directories that live nodes wrote traces to, "
                "and the group's name as it was opened (--group; left out, the groups that are there are named)"
            )
        check_one_level((each for facts in nodes for each in facts.levels.items()), self._group)
        return heads[0] | {"founders": next((facts.founders for facts in nodes if facts.founders), [])}

    def _miss_publishers(self, spans: Spans) -> None:
        """Note the incarnations whose rows are missing according to those that delivered what they published."""
        for (pid, inc), span in sorted(spans.items()):
            if (pid, inc) not in self._incarnations:
                self._incarnations[pid, inc] = Incarnation(lost=NO_TRACE, clock=span.clock, first_clock=span.clock)
            elif span.delivered > span.published:
                self._cut_off(pid, inc)

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

    def _is_followed(self, incarnation: tuple[int, int]) -> bool:
        return any(node == incarnation[0] and inc > incarnation[1] for node, inc in self._incarnations)

    def _is_cut_short(self, incarnation: tuple[int, int]) -> bool:
        known = self._incarnations[incarnation]
        return not (known.left or known.closed or known.last < 0 or self._is_followed(incarnation))

    def _was_killed(self, incarnation: tuple[int, int]) -> bool:
        """Tell whether a member of a living group did not end in order, though others did."""
        others = (known for other, known in self._incarnations.items() if other != incarnation)
        return self._is_living and self._is_cut_short(incarnation) and any(each.left or each.closed for each in others)

    def _ending(self, kind: Kind, incarnation: tuple[int, int], ev: int, reason: str) -> Row:
        """Return a row that follows all others of an incarnation."""
        clock = self._incarnations[incarnation].clock
        given = {
            NODE: incarnation[0], INC: incarnation[1], EV: ev, T_CLK: clock, GRP: self._group, REASON: reason,
            T_TRUE: clock if self.one_clock else None,
        }  # fmt: skip
        return tuple(given.get(name) for name in COLUMNS_OF[kind])


class Gathering(GatheredRun):
    """The segments of a group's processes, in directories of this machine, as one trace, whose rows are read on demand.

    Memory holds one record of a segment at a time.
    """

    def __init__(
        self, directories: Iterable[Path], group: str, run_id: str, version: str, *, one_clock: bool = False,
        **about: Any,
    ) -> None:  # fmt: skip
        """Read every row once. Raises TraceError."""
        found = sorted({path.resolve() for directory in directories for path in segments(Path(directory), group)})
        by_node: dict[int, list[Any]] = {}
        for facts in map(facts_of, found):
            by_node.setdefault(facts.node, []).append(facts)
        self._nodes = {node: node_facts(facts) for node, facts in sorted(by_node.items())}
        spans: Spans = {}
        for known in self._nodes.values():
            add_spans(spans, known)
        super().__init__(self._nodes, spans, group, run_id, version, one_clock=one_clock, **about)

    def rows(self) -> Iterator[tuple[Kind, Row]]:
        """Yield all rows, incarnation by incarnation. Raises TraceError."""
        for (node, inc), last in self.endings():
            passes = self._nodes[node].passes if node in self._nodes else []
            for each in [each for each in passes if each.inc == inc]:
                yield from passed_on(Path(each.where), each, one_clock=self.one_clock)
            yield from last


def add_spans(spans: Spans, known: NodeFacts) -> None:
    """Add what one node says about publishers to what others say."""
    for pid, inc, span in known.spans:
        if (pid, inc) in spans:
            spans[pid, inc].add(span)
        else:
            spans[pid, inc] = span


def gather(directories: Iterable[Path], group: str, run_id: str, version: str, **about: Any) -> Trace:
    """Combine the segments of a group's processes into one trace in memory; see Gathering. Raises TraceError."""
    gathering = Gathering(directories, group, run_id, version, **about)
    trace = Trace(gathering.run)
    for kind, row in gathering.rows():
        trace.rows[kind].append(row)
    return trace
