"""Optimistic causal order: never deliver an event after one that follows it; what is skipped is skipped for good.

A process may leave events out, but f is not delivered after e when e follows f, and an event reported in a gap row is
not delivered later (optimistic 6: order is kept across owners of a ticket because what comes late is
dropped). Needs no completeness: both deliveries are in the trace. One mask operation per delivery.
"""

from whence.check.closure import Process, bits
from whence.check.gaps import judge_gaps
from whence.check.history import AT_GRP, History
from whence.check.verdict import Findings, Verdict, what, who
from whence.trace.memory import Row

PROMISE = "optimistic_causal"

NOTHING_FOLLOWS = "nobody delivered anything that follows something else"


def judge(history: History) -> Verdict:
    """Judge whether no process delivered an event after one that follows it."""
    findings = Findings(PROMISE, history.incomplete)
    past = history.past
    for process, delivered in history.delivered.items():
        overtaken = late = 0
        for event in delivered:
            if overtaken >> event & 1:
                late |= 1 << event
            overtaken |= past[event]
        if late:
            _report_all(history, findings, process, late)
    judge_gaps(history, findings)
    return findings.verdict(
        "no event was delivered after one that follows it",
        at_stake=followers_delivered(history), nothing=NOTHING_FOLLOWS,
    )  # fmt: skip


def followers_delivered(history: History) -> int:
    """Return how many deliveries there were of events that follow others: only they can show causal order broken."""
    begins = {steps[0][0]: True for process in history.lines if (steps := history.steps_of(process)) and steps[0][1]}
    return sum(event not in begins for delivered in history.delivered.values() for event in delivered)


def _report_all(history: History, findings: Findings, process: Process, late: int) -> None:
    """Report every late event of a process with the first delivery that follows it."""
    delivered, effect_of = history.delivered[process], dict[int, int]()
    left = late
    for effect in delivered:
        for event in bits(history.past[effect] & left):
            effect_of[event] = effect
        left &= ~history.past[effect]
    for event, row in delivered.items():
        if event in effect_of:
            _report(history, findings, event, row, effect_of[event], delivered[effect_of[event]])


def _report(history: History, findings: Findings, event: int, row: Row, effect: int, early: Row) -> None:
    late, name = history.id_of(event), history.id_of(effect)
    sentence = f"{who(row[0], row[1])} delivered {what(late)} after {what(name)}, which follows it"
    findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[late, name], evs=[early[2], row[2]])
