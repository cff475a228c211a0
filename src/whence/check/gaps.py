"""A gap is a promise: what a member reported as skipped for good it does not deliver afterwards."""

from whence.check.history import AT_GRP, History
from whence.check.verdict import Findings, what, who
from whence.trace.memory import Row
from whence.trace.schema import COLUMNS_OF, IDS, Kind

AT_IDS = COLUMNS_OF[Kind.GAP].index(IDS)


def judge_gaps(history: History, findings: Findings) -> None:
    """Find deliveries of events that a gap row had given up."""
    if not history.trace.rows[Kind.GAP]:
        return
    number = history.number
    for process, line in history.lines.items():
        given_up: dict[int, Row] = {}
        for _, _, kind, event, row in line:
            if kind is Kind.GAP:
                for skipped in skipped_in(row, number):
                    given_up.setdefault(skipped, row)
            elif kind is Kind.DELIVER and event in given_up and history.delivered[process][event] is row:
                name, gap = history.id_of(event), given_up[event]
                sentence = f"{who(row[0], row[1])} delivered {what(name)} after it had reported it as skipped"
                findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[name], evs=[gap[2], row[2]])


def skipped_in(row: Row, number: dict[tuple[str, int, int, int], int]) -> list[int]:
    """Return the events a gap row gives up, as far as they were published."""
    grp = row[AT_GRP]
    return [number[key] for pid, inc, seq in row[AT_IDS] or () if (key := (grp, pid, inc, seq)) in number]
