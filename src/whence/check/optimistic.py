"""Optimistic causal order: never deliver an event after one that follows it; what is skipped is skipped for good.

A process may leave events out, but f is not delivered after e when e follows f, and an event reported in a gap row is
not delivered later (two-layer delivery, section 6: order is kept across owners of a ticket because what comes late is
dropped). Needs no completeness: both deliveries are in the trace. One mask operation per delivery.
"""

from whence.check.gaps import judge_gaps
from whence.check.history import AT_GRP, History, Process
from whence.check.verdict import Findings, Verdict, what, who
from whence.trace.memory import Row

PROMISE = "optimistic_causal"


def judge(history: History) -> Verdict:
    """Judge whether no process delivered an event after one that follows it."""
    findings = Findings(PROMISE, history.incomplete)
    past = history.past
    for process, delivered in history.delivered.items():
        overtaken = 0
        for event, row in delivered.items():
            if overtaken >> event & 1:
                _report(history, findings, process, event, row)
            overtaken |= past[event]
    judge_gaps(history, findings)
    return findings.verdict("no event was delivered after one that follows it")


def _report(history: History, findings: Findings, process: Process, event: int, row: Row) -> None:
    """Report a late event with the first delivery that follows it."""
    effect, early = next(
        (other, shown) for other, shown in history.delivered[process].items() if history.past[other] >> event & 1
    )
    late, name = history.id_of(event), history.id_of(effect)
    sentence = f"{who(row[0], row[1])} delivered {what(late)} after {what(name)}, which follows it"
    findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[late, name], evs=[early[2], row[2]])
