"""How many members events are owed to, and which members lack one: without meeting every event with every member.

A member is owed what is published during its stays. How many stays there are changes only where one begins or ends:
from one such turn to the next it is the same, and an event looks up the number of its time. No task has to sort
the events of a group. Only events that fewer members got than are owed meet the members one by one.
"""

from whence.pipeline.columns import AFTER_ALL, BEFORE_ALL, EVENT, RUN_ID
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.trace.schema import DESTS, GRP, NODE

SENT_AT = "sent_at"
"""When an event was published, in true time."""
TIMES = "times"


def covers(since: Column, until: Column) -> Column:
    """Return whether a stay covers the publication; without true time only one that lasts as long as the run does."""
    at = F.col(SENT_AT)
    return F.when(at.isNull(), is_always(since, until)).otherwise((since <= at) & (at < until))


def is_always(since: Column, until: Column) -> Column:
    """Return whether a stay is known to last as long as the run."""
    return (since == BEFORE_ALL) & (until == AFTER_ALL)


def is_addressed() -> Column:
    """Return whether an event names a node, or nobody and so means everybody."""
    return F.col(DESTS).isNull() | F.array_contains(DESTS, F.col(NODE))


def owed_times(events: DataFrame, stays: DataFrame) -> DataFrame:
    """Return how many stays each event is owed to (`times`), where there are any.

    `events`: run_id, grp, event, dests, sent_at. `stays`: run_id, grp, node, since, until; those of a member do not
    overlap.
    """
    stays = stays.filter(F.col("since") < F.col("until"))
    to_all = events.filter(F.col(DESTS).isNull()).select(RUN_ID, GRP, EVENT, SENT_AT)
    counted = _within(to_all.filter(F.col(SENT_AT).isNotNull()), _levels(stays))
    steady = stays.filter(is_always(F.col("since"), F.col("until"))).groupBy(RUN_ID, GRP)
    whenever = to_all.filter(F.col(SENT_AT).isNull()).join(
        F.broadcast(steady.agg(F.count("*").alias(TIMES))), [RUN_ID, GRP]
    )
    named = events.filter(F.col(DESTS).isNotNull()).select(
        RUN_ID, GRP, EVENT, SENT_AT, F.explode(F.array_distinct(DESTS)).alias(NODE)
    )
    named = named.join(F.broadcast(stays.select(RUN_ID, GRP, NODE, "since", "until")), [RUN_ID, GRP, NODE])
    named = named.filter(covers(F.col("since"), F.col("until"))).groupBy(RUN_ID, EVENT).agg(F.count("*").alias(TIMES))
    shape = (RUN_ID, EVENT, TIMES)
    every = counted.select(*shape).unionByName(whenever.select(*shape)).unionByName(named.select(*shape))
    return every.filter(F.col(TIMES) > 0)


def _levels(stays: DataFrame) -> DataFrame:
    """Return from when to when (`low`, `high`) how many stays there are (`times`) in each group."""
    begun = stays.select(RUN_ID, GRP, F.col("since").alias("low"), F.lit(1).alias("more"))
    ended = stays.filter(F.col("until") < AFTER_ALL).select(
        RUN_ID, GRP, F.col("until").alias("low"), F.lit(-1).alias("more")
    )
    turns = begun.unionByName(ended).groupBy(RUN_ID, GRP, "low").agg(F.sum("more").alias("more"))
    along = Window.partitionBy(RUN_ID, GRP).orderBy("low")
    level = F.sum("more").over(along.rowsBetween(Window.unboundedPreceding, 0))
    next_turn = F.coalesce(F.lead("low").over(along), F.lit(AFTER_ALL))
    return turns.select(RUN_ID, GRP, "low", (next_turn - 1).alias("high"), level.alias(TIMES))


def _within(events: DataFrame, spans: DataFrame) -> DataFrame:
    """Return events with `times` of the span (run_id, grp, low, high, times) that each was published in.

    The time of a group is divided into as many parts of equal length as it has spans, so that an event meets only the
    few spans that touch its part.
    """
    extent = events.groupBy(RUN_ID, GRP).agg(F.min(SENT_AT).alias("begin"), F.max(SENT_AT).alias("end"))
    parts = extent.join(spans.groupBy(RUN_ID, GRP).agg(F.count("*").alias("parts")), [RUN_ID, GRP])
    parts = parts.localCheckpoint(eager=True)
    known = spans.join(F.broadcast(parts), [RUN_ID, GRP]).withColumns({
        "low": F.greatest("low", "begin"), "high": F.least("high", "end"),
    })  # fmt: skip
    touched = F.explode(F.sequence(_part(F.col("low")), _part(F.col("high"))))
    known = known.filter(F.col("low") <= F.col("high")).withColumn("part", touched)
    rows = events.join(F.broadcast(parts), [RUN_ID, GRP]).withColumn("part", _part(F.col(SENT_AT)))
    found = rows.join(
        F.broadcast(known.select(RUN_ID, GRP, "part", "low", "high", TIMES)), [RUN_ID, GRP, "part"]
    )  # fmt: skip
    return found.filter(F.col(SENT_AT).between(F.col("low"), F.col("high")))


def _part(at: Column) -> Column:
    """Return the part of a group's time that a moment lies in: as doubles, which keep the order of moments."""
    passed = (at - F.col("begin")).cast("double") / (F.col("end") - F.col("begin") + 1).cast("double")
    return F.floor(passed * F.col("parts")).cast("bigint")
