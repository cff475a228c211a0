"""Liveness: once the faults have stopped, expected deliveries are made within the deadline.

Every event of the liveness phase is delivered by every member it is meant for within `run.phases.deadline_ns` of true
time after its publication; for levels that promise with high probability, the stated part of them (`run.reach_min`).
A trace without true time (a live one) cannot tell, and nobody knows when a delivery came whose row has none: it counts
neither as in time nor as late.
"""

from whence.check.expected import NO_PHASES, NOTHING_EXPECTED, expected_after_healing
from whence.check.history import AT_T_TRUE, History
from whence.check.verdict import Findings, Verdict, counted, unknown, what, who

PROMISE = "liveness"

_MS = 1_000_000


def judge(history: History) -> Verdict:
    """Judge whether enough of the expected deliveries were made in time."""
    phases, by_process = history.run.phases, expected_after_healing(history)
    if phases is None or by_process is None:
        return unknown(PROMISE, NO_PHASES)
    findings = Findings(PROMISE, history.incomplete)
    published, deadline_ns = history.published, phases.deadline_ns
    late: list[tuple[tuple[int, int], int, int | None]] = []
    untimed = 0
    for process, events in by_process.items():
        delivered = history.delivered[process]
        for event in events:
            row = delivered.get(event)
            if row is not None and row[AT_T_TRUE] is None:
                untimed += 1
                continue
            took = None if row is None else row[AT_T_TRUE] - published[event][AT_T_TRUE]
            if took is None or took > deadline_ns:
                late.append((process, event, took))
    expected = sum(map(len, by_process.values()))
    in_time, promised = expected - len(late) - untimed, history.run.reach_min * expected
    if in_time + untimed < promised:
        for process, event, took in late:
            _report(history, findings, process, event, took, deadline_ns)
    deadline = f"{deadline_ns / _MS:,.0f} ms"
    return findings.verdict(
        f"{in_time:,} of {expected:,} expected deliveries came within {deadline}",
        f"{len(late):,} of {expected:,} expected deliveries did not come within {deadline}, and at least "
        f"{history.run.reach_min:.2%} of them were promised to",
        at_stake=expected, nothing=NOTHING_EXPECTED,
        doubts=f"{counted(untimed, 'expected delivery', 'expected deliveries')} came at a time that no "
        "row tells" if in_time < promised else None,
    )  # fmt: skip


def _report(
    history: History, findings: Findings, process: tuple[int, int], event: int, took: int | None, deadline_ns: int
) -> None:
    name = history.id_of(event)
    node, inc = process[0], process[1] or history.last_incarnations.get(process[0], 1)
    when = "never" if took is None else f"only {took / _MS:,.1f} ms after its publication"
    sentence = f"{who(node, inc)} delivered {what(name)} {when}; the deadline is {deadline_ns / _MS:,.0f} ms"
    evs = [history.delivered[process][event][2]] if took is not None else []
    grp = history.group_of(event)
    findings.add((node, inc), sentence, grp=grp, ids=[name], evs=evs, rests_on_absence=took is None)
