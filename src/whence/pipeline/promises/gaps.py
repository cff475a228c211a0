"""A gap is a promise: what a process reported as skipped for good it does not deliver afterwards."""

from whence.pipeline.columns import EVENT, PROCESS, message, place, text, violations, what, who
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import DataFrame, F
from whence.trace.schema import EV, INC


def gap_violations(tables: RunTables, promise: str) -> DataFrame:
    """Return the deliveries of events that the process had given up."""
    late = tables.delivered.join(tables.given_up, [*PROCESS, EVENT])
    late = late.filter(F.col("gap") < place(F.col(INC), F.col(EV)))
    sentence = text(who(), " delivered ", what(), " after it had reported it as skipped")
    return violations(late, promise, sentence, events=F.array(message()), evs=F.array("gap.ev", EV))
