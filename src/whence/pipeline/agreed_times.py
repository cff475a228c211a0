"""A time of every event that agrees with happened-before, so that a run can be judged stretch by stretch of it.

A time agrees if every event is published later than all that its publisher had delivered before, and not earlier than
what the publisher had published before. Then nothing can be its own cause, and whatever lies between two events in
happened-before is published between them. Only lines of publishers matter. One pass over these proves a time, so that
it need not be trusted:

1. True time, where rows have it.
2. Else the publishers' own clocks, put right. Clocks of different machines begin anywhere. Each is set by one process,
   the one that delivered most: the delivery that took least tells how far apart the two are. What is left are clocks
   that drift, and ways that are not equally long. Where an event is still too early, its publisher's clock goes forward
   by as much, for this event and all that come after it, and the pass looks again.

Clocks that run like clocks are right after a few passes, however far apart they began. Where ROUNDS are not enough, or
rows have no clock, or no order is possible, a run has no such time.
"""

from typing import Final

from whence.pipeline.columns import EVENT, LIFE, MESSAGE, PLACE, PROCESS, RUN_ID, union
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import DataFrame, F, Window
from whence.trace.schema import INC, NODE, T_CLK, T_TRUE, Kind

AGREED: Final = "agreed_at"
HEARD: Final = "heard"
"""The latest event of another process that an event's publisher had delivered before it, by its agreed time."""
ROUNDS = 8
"""How often clocks are put right."""
TIME_MAX: Final = 1 << 61
"""Times beyond, or before its negative, are none: they and what they are put right by must be longs together."""

_SHORT: Final = "short"
"""By how much an event is too early; null: no time is right."""


def agreed_times(tables: RunTables, asked: DataFrame) -> tuple[DataFrame, set[str]]:
    """Return the events (run_id, event, agreed_at, heard) of those of some runs (run_id) that have such a time, and
    which runs these are."""
    left = {row[RUN_ID] for row in asked.collect()}
    events = _of_runs(tables.published.withColumn(AGREED, F.col(T_TRUE)), left)
    delivered = tables.delivered.withColumn(HEARD, F.col(f"o_{T_TRUE}"))
    found: list[DataFrame] = []
    agreed: set[str] = set()
    for number in range(ROUNDS + 1):
        walk = tables.keep(_walked(events, _of_runs(delivered, left)))
        short = {
            row[RUN_ID]: row["most"]
            for row in walk.groupBy(RUN_ID).agg(
                F.when(F.bool_and(F.col(_SHORT).isNotNull()), F.max(_SHORT)).alias("most")
            ).collect()
        }  # fmt: skip
        right = {run for run in left if short.get(run, 0) == 0}
        found.append(_of_runs(walk, right).select(RUN_ID, EVENT, AGREED, HEARD))
        agreed, left = agreed | right, left - right
        if number:
            left -= {run for run, most in short.items() if most is None}
        if not left:
            break
        events = tables.keep(_by_clocks(tables, left) if number == 0 else _put_right(_of_runs(walk, left)))
        delivered = tables.delivered.join(events.select(RUN_ID, EVENT, F.col(AGREED).alias(HEARD)), [RUN_ID, EVENT])
    return union(found), agreed


def _of_runs(table: DataFrame, runs: set[str]) -> DataFrame:
    return table.filter(F.col(RUN_ID).isin(sorted(runs)))


def _walked(events: DataFrame, delivered: DataFrame) -> DataFrame:
    """Return every event with what its publisher had heard of before, and by how much it is too early.

    `delivered`: deliveries, with the agreed time of the event in HEARD. Where a process delivered its own event before
    it published it, there is a row without an event, and no time.
    """
    publishers = F.broadcast(events.select(*PROCESS).distinct())
    own = (F.col(NODE) == F.col(f"o_{NODE}")) & (F.col(LIFE) == F.col(f"o_{LIFE}"))
    too_soon = F.struct(*PLACE) < F.struct(*(F.col(f"o_{name}").alias(name) for name in PLACE))
    came = delivered.join(publishers, list(PROCESS), "left_semi").filter(~own | too_soon)
    none = F.lit(None).cast("bigint")
    rows = events.select(*PROCESS, *PLACE, EVENT, AGREED, none.alias(HEARD), F.lit(False).alias("is_wrong"))
    rows = rows.unionByName(
        came.select(*PROCESS, *PLACE, none.alias(EVENT), none.alias(AGREED), HEARD, own.alias("is_wrong"))
    )
    line = Window.partitionBy(*PROCESS).orderBy(*PLACE).rowsBetween(Window.unboundedPreceding, -1)
    before = rows.withColumns({HEARD: F.max(HEARD).over(line), "said": F.max(AGREED).over(line)})
    at = F.col(AGREED)
    needed = F.greatest(at, F.coalesce(F.col(HEARD) + 1, at), F.coalesce(F.col("said"), at))
    is_time = ~F.col("is_wrong") & at.between(-TIME_MAX, TIME_MAX)
    known = before.withColumn(_SHORT, F.when(is_time, needed - at))
    return known.filter(F.col(EVENT).isNotNull() | F.col("is_wrong")).drop("said", "is_wrong")


def _by_clocks(tables: RunTables, runs: set[str]) -> DataFrame:
    """Return the events of some runs by their publishers' own clocks, set by that of the process that delivered most.

    An event's time is then when that process would have delivered it, had it come as fast as any of its publisher.
    """
    clock = F.when(F.col(T_CLK).between(-(TIME_MAX >> 1), TIME_MAX >> 1), F.col(T_CLK)).alias(T_CLK)
    published = _of_runs(tables.published, runs).select(RUN_ID, *MESSAGE, NODE, LIFE, *PLACE, EVENT, clock)
    ranks = Window.partitionBy(RUN_ID).orderBy(F.desc("count"), NODE, LIFE)
    lines = _of_runs(tables.delivered, runs).groupBy(*PROCESS).agg(F.count("*").alias("count"))
    judge = F.broadcast(lines.withColumn("nth", F.row_number().over(ranks)).filter("nth = 1").select(*PROCESS))
    came = tables.steps_of(Kind.DELIVER).join(judge, list(PROCESS), "left_semi")
    came = came.select(RUN_ID, *MESSAGE, clock.alias("came"))
    took = came.join(published, [RUN_ID, *MESSAGE])
    apart = took.groupBy(RUN_ID, NODE, INC).agg(F.min(F.col("came") - F.col(T_CLK)).alias("apart"))
    known = published.join(F.broadcast(apart), [RUN_ID, NODE, INC], "left")
    at = F.col(T_CLK) + F.coalesce("apart", F.lit(0))
    return known.select(*PROCESS, *PLACE, EVENT, at.alias(AGREED))


def _put_right(walk: DataFrame) -> DataFrame:
    """Return the events, each as much later as any of its publisher up to it was too early."""
    line = Window.partitionBy(*PROCESS).orderBy(*PLACE).rowsBetween(Window.unboundedPreceding, 0)
    return walk.select(*PROCESS, *PLACE, EVENT, (F.col(AGREED) + F.max(_SHORT).over(line)).alias(AGREED))
