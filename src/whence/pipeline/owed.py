"""How many members events are owed to, and which members lack one: without meeting every event with every member.

A member is owed what is published during its stays. How many stays there are changes only where one begins or ends, so
one walk in time along those turns and the events tells the number for each event. Only events that fewer members got
than are owed meet the members one by one.
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
    timed = to_all.filter(F.col(SENT_AT).isNotNull())
    begun = stays.select(RUN_ID, GRP, F.col("since").alias(SENT_AT), F.lit(1).alias("more"))
    ended = stays.filter(F.col("until") < AFTER_ALL)
    turns = begun.unionByName(ended.select(RUN_ID, GRP, F.col("until").alias(SENT_AT), F.lit(-1).alias("more")))
    turns = turns.groupBy(RUN_ID, GRP, SENT_AT).agg(F.sum("more").alias("more"))
    none = F.lit(None).cast("bigint")
    walk = timed.select(RUN_ID, GRP, SENT_AT, EVENT, F.lit(0).cast("bigint").alias("more"), F.lit(1).alias("turn"))
    walk = walk.unionByName(turns.select(RUN_ID, GRP, SENT_AT, none.alias(EVENT), "more", F.lit(0).alias("turn")))
    along = Window.partitionBy(RUN_ID, GRP).orderBy(SENT_AT, "turn").rowsBetween(Window.unboundedPreceding, 0)
    counted = walk.withColumn(TIMES, F.sum("more").over(along)).filter(F.col(EVENT).isNotNull())
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
