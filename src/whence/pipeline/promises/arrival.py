"""Agreement and liveness: once the faults have stopped, expected deliveries are made, and in time.

An event published in the liveness phase must reach every process that is a member from before it to the end and up at
the end; where the run promises everything, every event must reach every process that was a member when it was
published and is up at the end. Levels that promise with high probability state the part that must arrive, and only
where less arrived are there violations.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from whence.pipeline.columns import AFTER_ALL, BEFORE_ALL, EVENT, PROCESS, RUN_ID, message, text, violations, what, who
from whence.pipeline.deliveries import RunTables
from whence.trace.schema import DESTS, EV, GRP, INC, M_INC, M_PID, M_SEQ, NODE, T_TRUE

AGREEMENT, LIVENESS = "agreement", "liveness"
_MS = 1_000_000


def expected_after_healing(tables: RunTables) -> DataFrame:
    """Return the deliveries expected in the liveness phase of runs that have one, and when they were made (or null).

    Runs in which some publication has no true time are left out: it may or may not fall into that phase.
    """
    phased = tables.runs.filter("live_from is not null").select(RUN_ID, "live_from", "live_until", "deadline_ns")
    untimed = tables.published.filter(F.col(T_TRUE).isNull()).select(RUN_ID).distinct()
    phased = phased.join(untimed, RUN_ID, "left_anti")
    steady = (
        tables.stays.join(F.broadcast(phased), RUN_ID)
        .filter((F.col("since") <= F.col("live_from")) & (F.col("until") == AFTER_ALL))
        .join(tables.processes.filter("up").select(*PROCESS, INC), list(PROCESS))
    )
    window = tables.published.select(
        RUN_ID, GRP, M_PID, M_INC, M_SEQ, DESTS, EVENT, F.col(T_TRUE).alias("published_at")
    )
    expected = window.join(
        F.broadcast(steady.select(*PROCESS, INC, GRP, "live_from", "live_until", "deadline_ns")), [RUN_ID, GRP]
    )
    expected = expected.filter(F.col("published_at").between(F.col("live_from"), F.col("live_until")) & _is_addressed())
    return _with_deliveries(tables, expected)


def expected_in_whole_run(tables: RunTables) -> DataFrame:
    """Return the deliveries expected in runs that promise everything, with when they were made (null: never)."""
    everything = tables.runs.filter("expects_all").select(RUN_ID)
    members = (
        tables.stays.join(F.broadcast(everything), RUN_ID)
        .join(tables.processes.filter("up").select(*PROCESS, INC), list(PROCESS))
        .groupBy(*PROCESS, INC, GRP)
        .agg(F.collect_list(F.struct("since", "until")).alias("stays"))
    )
    window = tables.published.select(
        RUN_ID, GRP, M_PID, M_INC, M_SEQ, DESTS, EVENT, F.col(T_TRUE).alias("published_at")
    )
    expected = window.join(F.broadcast(members), [RUN_ID, GRP])
    expected = expected.filter(F.exists("stays", _covers) & _is_addressed()).drop("stays")
    return _with_deliveries(tables, expected.withColumn("deadline_ns", F.lit(None).cast("bigint")))


def possibly_expected(tables: RunTables) -> DataFrame:
    """Return the missing deliveries that may be expected, in runs that promise everything and lack true time."""
    everything = tables.runs.filter("expects_all").select(RUN_ID)
    members = (
        tables.stays.join(F.broadcast(everything), RUN_ID)
        .join(tables.processes.filter("up").select(*PROCESS), list(PROCESS))
        .groupBy(*PROCESS, GRP)
        .agg(F.collect_list(F.struct("since", "until")).alias("stays"))
    )
    window = tables.published.select(RUN_ID, GRP, DESTS, EVENT, F.col(T_TRUE).alias("published_at"))
    may = window.join(F.broadcast(members), [RUN_ID, GRP]).filter(
        F.exists("stays", _may_cover) & ~F.exists("stays", _covers) & _is_addressed()
    )
    return may.join(tables.delivered.select(*PROCESS, EVENT), [*PROCESS, EVENT], "left_anti")


def _may_cover(stay: Column) -> Column:
    at = F.col("published_at")
    begun = (stay["since"] == AFTER_ALL) | (stay["since"] <= at)
    return at.isNull() | (begun & ((stay["until"] == BEFORE_ALL) | (at < stay["until"])))


def _covers(stay: Column) -> Column:
    at = F.col("published_at")
    always = (stay["since"] == BEFORE_ALL) & (stay["until"] == AFTER_ALL)
    return F.when(at.isNull(), always).otherwise((stay["since"] <= at) & (at < stay["until"]))


def _is_addressed() -> Column:
    return F.col(DESTS).isNull() | F.array_contains(DESTS, F.col(NODE))


def _with_deliveries(tables: RunTables, expected: DataFrame) -> DataFrame:
    came = tables.delivered.select(*PROCESS, EVENT, F.col(T_TRUE).alias("came_at"), EV, F.lit(True).alias("came"))
    shape = [*PROCESS, INC, GRP, M_PID, M_INC, M_SEQ, EVENT, "published_at", "deadline_ns", "came_at", EV]
    took = F.col("came_at") - F.col("published_at")
    known = expected.join(came, [*PROCESS, EVENT], "left").select(
        *shape, F.coalesce("came", F.lit(False)).alias("came")
    )
    return known.withColumn("took", took).withColumn(
        "in_time", F.coalesce(F.col("took") <= F.col("deadline_ns"), F.lit(False))
    )  # fmt: skip


def arrival_counts(tables: RunTables, expected: DataFrame, kept: str, prefix: str) -> DataFrame:
    """Return, per run, how many deliveries were expected and made, and whether that breaks the promise."""
    sums = expected.groupBy(RUN_ID).agg(
        F.count("*").alias(f"{prefix}_expected"), F.count_if(F.col(kept)).alias(f"{prefix}_made")
    )
    return sums.join(F.broadcast(tables.runs.select(RUN_ID, "reach_min")), RUN_ID).withColumn(
        f"{prefix}_broken", F.col(f"{prefix}_made") < F.col("reach_min") * F.col(f"{prefix}_expected")
    )  # fmt: skip


def agreement_violations(expected: DataFrame, by_run: DataFrame) -> DataFrame:
    """Return every expected delivery that was not made, in runs where too few were."""
    missing = expected.filter(~F.col("came")).join(
        F.broadcast(by_run.filter("agreement_broken").select(RUN_ID)), RUN_ID
    )
    sentence = text(who(), " never delivered ", what(), ", though it stayed a member and up to the end")
    return violations(missing, AGREEMENT, sentence, events=F.array(message()), absence=True)


def liveness_violations(expected: DataFrame, by_run: DataFrame) -> DataFrame:
    """Return every expected delivery that did not come in time, in runs where too few did."""
    late = expected.filter(~F.col("in_time")).join(F.broadcast(by_run.filter("liveness_broken").select(RUN_ID)), RUN_ID)
    deadline = text("; the deadline is ", F.format_number(F.col("deadline_ns") / _MS, 0), " ms")
    never = violations(
        late.filter("took is null"), LIVENESS, text(who(), " delivered ", what(), " never", deadline),
        events=F.array(message()), absence=True,
    )  # fmt: skip
    took = text(" only ", F.format_number(F.col("took") / _MS, 1), " ms after its publication")
    slow = violations(
        late.filter("took is not null"), LIVENESS, text(who(), " delivered ", what(), took, deadline),
        events=F.array(message()), evs=F.array(EV),
    )  # fmt: skip
    return reduce(DataFrame.unionByName, [never, slow])
