"""Views: at the end, partial views name live members only, every live member is in some view, and none its owner.

After healing, at the end of the run: (a) no view of a live member names a node that left or crashed for good before
the faults stopped; (b) every member since the liveness phase began was named in another live member's view at one of
the times they were recorded since, or gossip could never reach it (partial views change all the time, so that one
record proves nothing); (c) at no time does a view name its owner (lpbcast: a view holds others); (d) every process that
has been up since the liveness phase began is a member. All but (c) need true time: who was there, and since when.
"""

from whence.check.closure import Process
from whence.check.history import AFTER_ALL, AT_T_TRUE, History
from whence.check.verdict import Findings, Verdict, unknown, vacuous, who
from whence.trace.memory import Phases, Row
from whence.trace.schema import COLUMNS_OF, DESTS, GRP, Kind

PROMISE = "views"

_TIMED = (Kind.VIEW, Kind.JOIN, Kind.LEAVE, Kind.CRASH)
"""Rows that show who was a member, who was in whose view, and since when."""

_AT_GRP, _AT_VIEW = COLUMNS_OF[Kind.VIEW].index(GRP), COLUMNS_OF[Kind.VIEW].index(DESTS)


def judge(history: History) -> Verdict:
    """Judge the views that members held, above all at the end."""
    rows = history.trace.rows[Kind.VIEW]
    if not rows:
        if history.run.parameters.get("view") == "full":
            return vacuous(PROMISE, "every member knows all others by setting")
        return unknown(PROMISE, "the trace has no view rows, and the run does not say that views are full")
    findings = Findings(PROMISE, history.incomplete)
    _judge_owners(findings, rows)
    if history.run.phases is not None and _is_timed(history):
        for grp in history.run.groups:
            _judge_end(history, findings, grp, history.run.phases)
    elif not findings.count:
        return unknown(PROMISE, "the run does not say when its faults stopped, or its rows have no true time")
    return findings.verdict(
        "at the end every member is in another's view, and views name only the living",
        at_stake=len(rows), nothing="no view was recorded",
    )  # fmt: skip


def _is_timed(history: History) -> bool:
    return all(row[AT_T_TRUE] is not None for kind in _TIMED for row in history.trace.rows[kind])


def _judge_owners(findings: Findings, rows: list[Row]) -> None:
    for row in rows:
        if row[_AT_VIEW] and row[0] in row[_AT_VIEW]:
            sentence = f"{who(row[0], row[1])} had itself in its view"
            findings.add(row[:2], sentence, grp=row[_AT_GRP], evs=[row[2]])


def _judge_end(history: History, findings: Findings, grp: str, phases: Phases) -> None:
    steady, live, gone = _members_at_end(history, grp, phases)
    views = _last_views(history, grp)
    for process in live:
        row = views.get(process)
        if row is None:
            continue
        for node in row[_AT_VIEW] or ():
            if node in gone:
                sentence = f"{who(row[0], row[1])} still has process {node} in its view, {gone[node]}"
                findings.add(row[:2], sentence, grp=grp, evs=[row[2]], rests_on_absence=True)
    if len(live) > 1:
        named = _named_since(history, grp, phases.live_from, live)
        for node, inc in steady:
            if node not in named:
                sentence = f"{who(node, inc)} was in nobody's view whenever one was recorded, so nothing reaches it"
                findings.add((node, inc), sentence, grp=grp, rests_on_absence=True)
    for node, inc in _outside(history, phases.live_from, live):
        sentence = f"{who(node, inc)} was up since before the liveness phase and was never let in"
        findings.add((node, inc), sentence, grp=grp, rests_on_absence=True)


def _members_at_end(history: History, grp: str, phases: Phases) -> tuple[list[Process], list[Process], dict[int, str]]:
    """Return the members since the liveness phase began, the live members, and who is gone since before healing."""
    steady: list[Process] = []
    live: list[Process] = []
    ended: dict[int, int] = {}
    for process, stays in history.stays.items():
        for stay in stays:
            if stay.grp != grp:
                continue
            if stay.until == AFTER_ALL and history.up[process]:
                live.append(process)
                if stay.since <= phases.live_from:
                    steady.append(process)
            else:
                until = stay.until if stay.until != AFTER_ALL else _crashed_at(history, process)
                ended[process[0]] = max(ended.get(process[0], until), until)
    alive = [node for node, _ in live]
    gone = {
        node: "which was gone for good before the faults stopped"
        for node, until in ended.items()
        if until < phases.heal_at and node not in alive
    }
    return steady, live, gone


def _named_since(history: History, grp: str, since: int, live: list[Process]) -> dict[int, bool]:
    """Return the nodes that a view of another live member named at some time since then."""
    named: dict[int, bool] = {}
    living = dict.fromkeys(live)
    for row in history.trace.rows[Kind.VIEW]:
        if row[_AT_GRP] == grp and row[AT_T_TRUE] >= since and history.process_of(row) in living:
            for node in row[_AT_VIEW] or ():
                if node != row[0]:
                    named[node] = True
    return named


def _outside(history: History, since: int, live: list[Process]) -> list[Process]:
    """Return the processes that began before then, are up at the end, never left, and are no members."""
    members = dict.fromkeys(live)
    return [
        process
        for process, line in history.lines.items()
        if process not in members
        and line
        and history.up[process]
        and line[0][4][AT_T_TRUE] is not None
        and line[0][4][AT_T_TRUE] < since
        and all(kind is not Kind.LEAVE for _, _, kind, _, _ in line)
    ]


def _crashed_at(history: History, process: Process) -> int:
    """Return when a process that remembers crashed for good."""
    crashes = [row[AT_T_TRUE] for _, _, kind, _, row in history.lines[process] if kind is Kind.CRASH]
    return AFTER_ALL if not crashes or crashes[-1] is None else int(crashes[-1])


def _last_views(history: History, grp: str) -> dict[Process, Row]:
    views: dict[Process, Row] = {}
    for row in history.trace.rows[Kind.VIEW]:
        process = history.process_of(row)
        if row[_AT_GRP] == grp and (process not in views or row[1:3] > views[process][1:3]):
            views[process] = row
    return views
