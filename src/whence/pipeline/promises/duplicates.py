"""No duplicates: a process delivers an event at most once."""

from whence.pipeline.columns import EVENT, NTH, message, text, violations, what, who
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import DataFrame, F
from whence.trace.schema import EV

PROMISE = "no_duplicates"


def duplicate_violations(tables: RunTables) -> DataFrame:
    """Return every delivery after the first."""
    again = tables.deliver_rows.filter((F.col(NTH) > 1) & F.col(EVENT).isNotNull())
    sentence = text(who(), " delivered ", what(), " twice: at its steps ", F.col("first_ev"), " and ", F.col(EV))
    return violations(again, PROMISE, sentence, events=F.array(message()), evs=F.array("first_ev", EV))
