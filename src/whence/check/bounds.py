"""Bounds: no buffer ever held more than its limit.

Every note row that states a bound keeps value <= bound. One look at every note.
"""

from collections.abc import Callable

from whence.check.history import History
from whence.check.verdict import Findings, Verdict, counted, who
from whence.trace.schema import BOUND, COLUMNS_OF, GRP, REASON, VALUE, Kind

PROMISE = "bounds"

_AT = COLUMNS_OF[Kind.NOTE].index
_VALUE, _BOUND, _REASON, _GRP = _AT(VALUE), _AT(BOUND), _AT(REASON), _AT(GRP)


AT_REST = "_at_rest"
"""How the reasons of measurements end that were made when everything should have been empty."""


def judge(history: History) -> Verdict:
    """Judge whether every measured value kept its bound."""
    return judge_rows(history, lambda reason, grp: True)


def judge_rows(history: History, counts: Callable[[str, str], bool]) -> Verdict:
    """Judge the measurements that count, by reason and group."""
    findings = Findings(PROMISE, history.incomplete)
    bounded = 0
    for row in history.trace.rows[Kind.NOTE]:
        value, bound = row[_VALUE], row[_BOUND]
        if value is None or bound is None or not counts(str(row[_REASON]), str(row[_GRP])):
            continue
        bounded += 1
        if value > bound:
            sentence = f"{who(row[0], row[1])} had {row[_REASON]} at {value:,}, over its bound of {bound:,}"
            findings.add(row[:2], sentence, grp=row[_GRP], evs=[row[2]])
    return findings.verdict(
        f"{counted(bounded, 'measurement')} kept their bounds", at_stake=bounded, nothing="nothing was measured"
    )
