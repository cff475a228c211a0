"""No duplicates: a process delivers an event at most once.

A process is one incarnation of a node; where the node remembers across crashes, all of them
together. Costs nothing beyond reading the deliveries.
"""

from whence.check.history import AT_GRP, History
from whence.check.verdict import Findings, Verdict, what, who

PROMISE = "no_duplicates"


def judge(history: History) -> Verdict:
    """Judge whether no process delivered an event twice."""
    findings = Findings(PROMISE, history.incomplete)
    for process, event, row in history.repeats:
        first, name = history.delivered[process][event], history.id_of(event)
        sentence = f"{who(row[0], row[1])} delivered {what(name)} twice: at its steps {first[2]} and {row[2]}"
        findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[name], evs=[first[2], row[2]])
    return findings.verdict(
        "no process delivered an event twice", at_stake=history.deliveries, nothing="nothing was delivered"
    )
