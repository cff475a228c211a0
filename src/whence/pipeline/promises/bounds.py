"""Bounds: no buffer ever held more than its limit."""

from whence.pipeline.columns import text, violations, who
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import DataFrame, F
from whence.trace.schema import BOUND, EV, REASON, VALUE, Kind

PROMISE = "bounds"


def bound_violations(tables: RunTables) -> DataFrame:
    """Return every measurement over its bound."""
    return over_bounds(tables.rows_of(Kind.NOTE))


def over_bounds(notes: DataFrame) -> DataFrame:
    """Return those of some notes that are over their bounds."""
    over = notes.filter(F.col(VALUE) > F.col(BOUND))
    value, bound = F.format_number(VALUE, 0), F.format_number(BOUND, 0)
    sentence = text(who(), " had ", F.col(REASON), " at ", value, ", over its bound of ", bound)
    return violations(over, PROMISE, sentence, evs=F.array(EV))
