"""FIFO: events of one process are delivered in the order it published them, and none is skipped without a gap row.

`reached` is the furthest place among a publisher's events that a receiver has come to before a row: one running
maximum per receiver and publisher. Below it, a delivery is an inversion; beyond the next, it skips. A receiver that
joined after the start may begin anywhere with each publisher, once per time it joined.
"""

from whence.pipeline.columns import (
    EVENT,
    PLACE,
    PROCESS,
    RANK,
    RUN_ID,
    message,
    place,
    text,
    union,
    violations,
    what,
    who,
)
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import DataFrame, F, Window
from whence.pipeline.promises.gaps import gap_violations
from whence.trace.schema import DESTS, EV, GRP, INC, M_INC, M_PID, M_SEQ, NODE

PROMISE = "fifo"

PUBLISHER = (GRP, M_PID, M_INC)


def fifo_violations(tables: RunTables) -> DataFrame:
    """Return deliveries out of order, events skipped without a gap row, and deliveries of events given up."""
    steps = tables.keep(_wrong_steps(tables))
    return union([_inversions(steps), _silent_skips(tables, steps), gap_violations(tables, PROMISE)])


def _wrong_steps(tables: RunTables) -> DataFrame:
    """Return the first deliveries that go back or skip, with how far their receiver had come with their publisher.

    A receiver may begin anywhere with each publisher, once per time it joined: with the first delivery in order since
    that join.
    """
    line = Window.partitionBy(*PROCESS, *PUBLISHER).orderBy(*PLACE)
    before = line.rowsBetween(Window.unboundedPreceding, -1)
    furthest = F.max(F.struct(RANK, F.col(M_SEQ).alias("early_seq"), F.col(EV).alias("early_ev"))).over(before)
    rows = tables.delivered.select(*PROCESS, *PLACE, *PUBLISHER, M_SEQ, EVENT, RANK)
    rows = _with_joins(tables, rows).withColumn("furthest", furthest)
    rows = rows.withColumn("reached", F.coalesce(F.col(f"furthest.{RANK}"), F.lit(-1)))
    in_order = F.col(RANK) >= F.col("reached")
    rows = rows.withColumn("begun", F.max(F.when(in_order, F.col("joined"))).over(before))
    has_begun = F.coalesce(F.col("begun") == F.col("joined"), F.lit(False))
    may_begin = ~has_begun & ((F.col("joined") > 0) | ~F.col("is_founder"))
    skips = (F.col(RANK) > F.col("reached") + 1) & ~may_begin
    wrong = (F.col(RANK) < F.col("reached")) | skips
    return rows.filter(wrong).select(*PROCESS, *PLACE, *PUBLISHER, M_SEQ, EVENT, RANK, "furthest", "reached")


def _with_joins(tables: RunTables, rows: DataFrame) -> DataFrame:
    """Return deliveries with how often their receiver had joined their group before, and whether it is a founder."""
    here = place(F.col(INC), F.col(EV))
    joins = tables.stays.groupBy(*PROCESS, GRP).agg(
        F.bool_or("is_founding").alias("is_founder"),
        F.collect_list(F.when(~F.col("is_founding"), F.col("first"))).alias("joins"),
    )
    known = rows.join(F.broadcast(joins), [*PROCESS, GRP], "left")
    joined = F.when(F.col("joins").isNull(), 0).otherwise(F.size(F.filter("joins", lambda join: join < here)))
    known = known.withColumns({"joined": joined, "is_founder": F.coalesce("is_founder", F.lit(False))})
    return known.drop("joins")


def _inversions(steps: DataFrame) -> DataFrame:
    late = steps.filter(F.col(RANK) < F.col("reached")).withColumn("early_seq", F.col("furthest.early_seq"))
    sentence = text(who(), " delivered ", what(), " after event ", F.col("early_seq"), " of the same process")
    shown = F.array(message(), message(seq="early_seq"))
    return violations(late, PROMISE, sentence, events=shown, evs=F.array("furthest.early_ev", EV))


def _silent_skips(tables: RunTables, steps: DataFrame) -> DataFrame:
    """Return skipped events that were addressed to the process, and that it neither delivered nor gave up before."""
    here = place(F.col(INC), F.col(EV))
    jumps = steps.filter(F.col(RANK) > F.col("reached") + 1)
    skipped = jumps.select(
        *PROCESS, *PLACE, *PUBLISHER, M_SEQ, F.explode(F.sequence(F.col("reached") + 1, F.col(RANK) - 1)).alias(RANK)
    )
    missing = tables.published.select(
        RUN_ID, *PUBLISHER, RANK, EVENT, DESTS, F.col(M_SEQ).alias("missing_seq")
    )  # fmt: skip
    silent = (
        skipped.join(missing, [RUN_ID, *PUBLISHER, RANK])
        .filter(F.col(DESTS).isNull() | F.array_contains(DESTS, F.col(NODE)))
        .join(tables.delivered.select(*PROCESS, EVENT), [*PROCESS, EVENT], "left_anti")
        .join(tables.given_up, [*PROCESS, EVENT], "left")
        .filter(F.col("gap").isNull() | (F.col("gap") > here))
    )
    sentence = text(
        who(), " delivered ", what(), " but neither delivered event ", F.col("missing_seq"),
        " before it nor reported it as skipped",
    )  # fmt: skip
    shown = F.array(message(seq="missing_seq"), message())
    return violations(silent, PROMISE, sentence, events=shown, evs=F.array(EV), absence=True)
