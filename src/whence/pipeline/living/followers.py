"""From which event of each publisher on everything follows something that a joiner was handed or published.

Everything that a publisher published after an event that follows something follows it too, so one number says it for
each joiner and publisher. A publisher's events follow what it was handed before. So one hop leads from what is known to
follow to all who were handed any of that, and to what they published next; hop by hop until nothing new follows. Of
what publishers were handed, only the latest event of each other one before each publication matters. The rules are
built-ins of the engine, and no task holds a run.
"""

from typing import Final

from whence.pipeline.columns import LIFE, PLACE, PROCESS, RANK, RUN_ID, renewed
from whence.pipeline.frames import DataFrame, F, Window
from whence.pipeline.living.tables import LivingTables
from whence.trace.schema import NODE

PUBLISHER: Final = ("p_node", "p_life")
FROM: Final = "from_rank"

_PAIR: Final = (*PROCESS, *PUBLISHER)
_SOURCE: Final = ("o_node", "o_life")


def followers(tables: LivingTables, runs: DataFrame) -> DataFrame:
    """Return, for each joiner of some runs (run_id) and each publisher, the rank of the first of its events that
    follows something that the joiner was handed or published (run_id, node, life, p_node, p_life, from_rank).

    Happened-before of these runs must be an order.
    """
    steps = tables.keep(_steps(tables).join(F.broadcast(runs), RUN_ID))
    handed = tables.keep(_handed_before(steps))
    joiners = tables.members.filter("is_joiner").select(*PROCESS)
    known = tables.keep(
        steps.join(F.broadcast(renewed(joiners)), list(PROCESS))
        .select(*PROCESS, *(F.col(name).alias(to) for name, to in zip(_SOURCE, PUBLISHER, strict=True)), RANK)
        .groupBy(*_PAIR).agg(F.min(RANK).alias(RANK))
    )  # fmt: skip
    reached, size = known, _size(known)
    while True:
        hop = _hop(handed, reached)
        further = tables.keep(reached.unionByName(hop).groupBy(*_PAIR).agg(F.min(RANK).alias(RANK)))
        if (now := _size(further)) == size:
            break
        reached, size = further, now
    last = steps.filter("is_publish").groupBy(RUN_ID, *_SOURCE).agg(F.max(RANK).alias("last"))
    last = F.broadcast(last.withColumnsRenamed(dict(zip(_SOURCE, PUBLISHER, strict=True))))
    after = (
        known.withColumn(RANK, F.col(RANK) + 1).join(last, [RUN_ID, *PUBLISHER]).filter(F.col(RANK) <= F.col("last"))
    )
    return after.select(*_PAIR, RANK).unionByName(hop).groupBy(*_PAIR).agg(F.min(RANK).cast("bigint").alias(FROM))


def _steps(tables: LivingTables) -> DataFrame:
    """Return publications and deliveries, each with the event's publisher and rank."""
    handed = tables.delivered.select(*PROCESS, *PLACE, *_SOURCE, RANK, F.lit(False).alias("is_publish"))
    whose = (F.col(NODE).alias(_SOURCE[0]), F.col(LIFE).alias(_SOURCE[1]))
    return handed.unionByName(tables.published.select(*PROCESS, *PLACE, *whose, RANK, F.lit(True).alias("is_publish")))


def _handed_before(steps: DataFrame) -> DataFrame:
    """Return the last event (`most`) of each publisher that every publisher was handed between its event before and
    the `next`."""
    backwards = Window.partitionBy(*PROCESS).orderBy(*(F.desc(name) for name in PLACE))
    following = F.min(F.when(F.col("is_publish"), F.col(RANK)))
    after = following.over(backwards.rowsBetween(Window.unboundedPreceding, -1))
    known = steps.withColumn("next", after).filter(~F.col("is_publish") & F.col("next").isNotNull())
    return known.groupBy(*PROCESS, *_SOURCE, "next").agg(F.max(RANK).alias("most"))


def _hop(handed: DataFrame, reached: DataFrame) -> DataFrame:
    """Return what publishers published next after they were handed any of what is reached."""
    of_joiner = reached.withColumnsRenamed(dict(zip(PUBLISHER, _SOURCE, strict=True)))
    by = handed.withColumnsRenamed({NODE: PUBLISHER[0], LIFE: PUBLISHER[1]})
    met = by.join(F.broadcast(renewed(of_joiner)), [RUN_ID, *_SOURCE]).filter(F.col("most") >= F.col(RANK))
    return met.groupBy(*_PAIR).agg(F.min("next").alias(RANK))


def _size(reached: DataFrame) -> tuple[int, int]:
    """Return a pair that changes as long as more is reached: more pairs, or lower ranks."""
    row = reached.agg(F.count("*").alias("pairs"), F.coalesce(F.sum(RANK), F.lit(0)).alias("ranks")).collect()[0]
    return row["pairs"], row["ranks"]
