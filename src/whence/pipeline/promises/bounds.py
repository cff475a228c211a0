"""Bounds: no buffer ever held more than its limit."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.pipeline.columns import text, violations, who
from whence.pipeline.deliveries import RunTables
from whence.trace.schema import BOUND, EV, REASON, VALUE, Kind

PROMISE = "bounds"


def bound_violations(tables: RunTables) -> DataFrame:
    """Return every measurement over its bound."""
    over = tables.rows_of(Kind.NOTE).filter(F.col(VALUE) > F.col(BOUND))
    value, bound = F.format_number(VALUE, 0), F.format_number(BOUND, 0)
    sentence = text(who(), " had ", F.col(REASON), " at ", value, ", over its bound of ", bound)
    return violations(over, PROMISE, sentence, evs=F.array(EV))
