"""Bounds in living runs: no buffer ever held more than its limit, and at rest none holds anything.

What should be empty at rest is so only where the group need not wait for a quorum, an operator, or a member that is
down, and was not closed by its last member.
"""

from whence.pipeline.columns import RUN_ID, counted, text
from whence.pipeline.frames import DataFrame, F
from whence.pipeline.living.tables import LivingTables
from whence.pipeline.promises.bounds import PROMISE, over_bounds
from whence.trace.schema import BOUND, GRP, REASON, VALUE, Kind

__all__ = ["NOTHING", "PROMISE", "bound_violations", "measured_at_stake"]

NOTHING = "nothing was measured"
AT_REST = "_at_rest"
"""How the reasons of measurements end that were made when everything should have been empty."""


def measured(tables: LivingTables) -> DataFrame:
    """Return the measurements that count."""
    named = tables.runs.select(RUN_ID, F.explode("groups").alias(GRP))
    standing = tables.standing.filter("standstill is not null or awaited is not null").select(RUN_ID, GRP)
    closed = tables.staying.filter("ended").select(RUN_ID, GRP)
    waiting = standing.union(closed).distinct().join(named, [RUN_ID, GRP])
    rows = tables.rows_of(Kind.NOTE).filter(F.col(VALUE).isNotNull() & F.col(BOUND).isNotNull())
    marked = rows.join(
        F.broadcast(waiting.select(RUN_ID, GRP, F.lit(True).alias("waits"))), [RUN_ID, GRP], "left"
    )  # fmt: skip
    at_rest = F.coalesce(F.col(REASON).endswith(AT_REST), F.lit(False))
    return marked.filter(~at_rest | F.col("waits").isNull())


def bound_violations(tables: LivingTables) -> DataFrame:
    """Return every measurement that counts and is over its bound."""
    return over_bounds(measured(tables))


def measured_at_stake(tables: LivingTables) -> DataFrame:
    """Return how many measurements of each run count."""
    said = text(counted(F.count("*"), "measurement", "measurements"), " kept their bounds")
    return measured(tables).groupBy(RUN_ID).agg(F.count("*").alias("at_stake"), said.alias("holds"))
