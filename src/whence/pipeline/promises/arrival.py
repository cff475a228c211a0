"""Agreement and liveness: once the faults have stopped, expected deliveries are made, and in time.

An event published in the liveness phase must reach every process that is a member from before the phase on, until the
deadline of the event has passed or the run ends, and is up at the end; where the run promises everything, every event
must reach every process that was a member when it was published and is up at the end. Levels that promise with high
probability state the part that must arrive, and only where less arrived are there violations. Nobody knows when a
delivery came whose row has no true time: it is neither in time nor late.
"""

from whence.pipeline.columns import (
    AFTER_ALL,
    BEFORE_ALL,
    EVENT,
    PROCESS,
    RUN_ID,
    message,
    text,
    union,
    violations,
    what,
    who,
)
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import Column, DataFrame, F
from whence.pipeline.owed import SENT_AT, TIMES, owed_times
from whence.trace.schema import DESTS, EV, GRP, INC, M_INC, M_PID, M_SEQ, NODE, T_TRUE

AGREEMENT, LIVENESS = "agreement", "liveness"
_MS = 1_000_000


def owed_after_healing(tables: RunTables) -> DataFrame:
    """Return whom events of the liveness phase are owed to, in runs that have one, and until when they must come.

    Runs in which some publication has no true time are left out: it may or may not fall into that phase.
    """
    phased = tables.runs.filter("live_from is not null").select(RUN_ID, "live_from", "live_until", "deadline_ns")
    untimed = tables.published.filter(F.col(T_TRUE).isNull()).select(RUN_ID).distinct()
    phased = phased.join(untimed, RUN_ID, "left_anti")
    steady = (
        tables.stays.join(F.broadcast(phased), RUN_ID)
        .filter(F.col("since") <= F.col("live_from"))
        .withColumn("last", F.least("live_until", F.col("until") - F.col("deadline_ns")))
        .filter(F.col("last") >= F.col("live_from"))
        .join(tables.processes.filter("up").select(*PROCESS, INC), list(PROCESS))
    )
    phase = F.struct(F.col("live_from").alias("since"), "last")
    return steady.select(*PROCESS, INC, GRP, F.array(phase).alias("stays"), "deadline_ns")


def owed_in_whole_run(tables: RunTables) -> DataFrame:
    """Return whom events are owed to in runs that promise everything: those published while it was a member."""
    everything = tables.runs.filter("expects_all").select(RUN_ID)
    stay = F.struct("since", (F.col("until") - 1).alias("last"))
    return (
        tables.stays.join(F.broadcast(everything), RUN_ID)
        .join(tables.processes.filter("up").select(*PROCESS, INC), list(PROCESS))
        .groupBy(*PROCESS, INC, GRP)
        .agg(F.array_sort(F.collect_list(stay)).alias("stays"))
        .withColumn("deadline_ns", F.lit(None).cast("bigint"))
    )


def arrival_counts(tables: RunTables, members: DataFrame, kept: str, prefix: str) -> DataFrame:
    """Return, per run, how many deliveries were expected and made, and whether that breaks the promise.

    No event meets every member: an event is expected as often as there are members at its time, and what was made is
    counted where it was made.
    """
    events = tables.published.select(RUN_ID, GRP, DESTS, EVENT, F.col(T_TRUE).alias("published_at"))
    sums = _owed_times(events, members).groupBy(RUN_ID).agg(F.sum(TIMES).alias(f"{prefix}_expected"))
    made = (
        _made(tables, members)
        .groupBy(RUN_ID)
        .agg(
            F.count_if(F.col(kept)).alias(f"{prefix}_made"),
            F.count_if(~F.col(kept) & F.col("took").isNull()).alias(f"{prefix}_untimed"),
        )
    )
    known = sums.filter(f"{prefix}_expected > 0").join(made, RUN_ID, "left")
    known = known.withColumns({
        name: F.coalesce(name, F.lit(0)) for name in (f"{prefix}_made", f"{prefix}_untimed")
    })  # fmt: skip
    return known.join(F.broadcast(tables.runs.select(RUN_ID, "reach_min")), RUN_ID).withColumn(
        f"{prefix}_broken",
        F.col(f"{prefix}_made") + F.col(f"{prefix}_untimed") < F.col("reach_min") * F.col(f"{prefix}_expected"),
    )  # fmt: skip


def _owed_times(events: DataFrame, members: DataFrame) -> DataFrame:
    """Return how many members each event is owed to (run_id, event, times), where there are any."""
    each = members.select(RUN_ID, GRP, NODE, F.explode("stays").alias("stay"))
    stays = each.select(
        RUN_ID, GRP, NODE, F.col("stay.since").alias("since"), (F.col("stay.last") + 1).alias("until")
    )  # fmt: skip
    return owed_times(events.withColumnRenamed("published_at", SENT_AT), stays)


def _made(tables: RunTables, members: DataFrame) -> DataFrame:
    """Return the deliveries that were expected and made, and whether they came in time."""
    named = {f"o_{DESTS}": DESTS, f"o_{T_TRUE}": "published_at", T_TRUE: "came_at"}
    rows = tables.delivered.select(*PROCESS, GRP, EVENT, *named).withColumnsRenamed(named)
    owed = rows.join(F.broadcast(members.drop(INC)), [*PROCESS, GRP])
    return _timed(owed.filter(F.exists("stays", _covers) & _is_addressed()).withColumn("came", F.lit(True)))


def _timed(rows: DataFrame) -> DataFrame:
    took = F.col("came_at") - F.col("published_at")
    return rows.withColumn("took", took).withColumn(
        "in_time", F.coalesce(F.col("took") <= F.col("deadline_ns"), F.lit(False))
    )  # fmt: skip


def _unpaid(tables: RunTables, members: DataFrame, broken: DataFrame, kept: str) -> DataFrame:
    """Return what was expected in the runs that broke a promise and was not made, or not in time."""
    in_broken = F.broadcast(broken.select(RUN_ID))
    named = (RUN_ID, GRP, M_PID, M_INC, M_SEQ, DESTS, EVENT)
    events = tables.published.select(*named, F.col(T_TRUE).alias("published_at")).join(in_broken, RUN_ID)
    paid = _made(tables, members).join(in_broken, RUN_ID).filter(kept).select(*PROCESS, EVENT)
    if tables.is_large:  # only the events that somebody lacks meet the members one by one
        sums = _owed_times(events, members)
        sums = sums.unionByName(paid.select(RUN_ID, EVENT, F.lit(-1).cast("bigint").alias(TIMES)))
        in_debt = sums.groupBy(RUN_ID, EVENT).agg(F.sum(TIMES).alias(TIMES)).filter(F.col(TIMES) > 0)
        events = events.join(tables.keep(in_debt), [RUN_ID, EVENT], "left_semi")
    owed = events.join(F.broadcast(members), [RUN_ID, GRP]).filter(F.exists("stays", _covers) & _is_addressed())
    came = tables.delivered.select(*PROCESS, EVENT, F.col(T_TRUE).alias("came_at"), EV, F.lit(True).alias("came"))
    missing = owed.join(paid, [*PROCESS, EVENT], "left_anti")
    return _timed(missing.join(came, [*PROCESS, EVENT], "left"))


def possibly_expected(tables: RunTables) -> DataFrame:
    """Return, per run that promises everything and lacks true time, how many missing deliveries may be expected."""
    everything = tables.runs.filter("expects_all").select(RUN_ID)
    members = (
        tables.stays.join(F.broadcast(everything), RUN_ID)
        .join(tables.processes.filter("up").select(*PROCESS), list(PROCESS))
        .groupBy(*PROCESS, GRP)
        .agg(F.array_sort(F.collect_list(F.struct("since", "until"))).alias("stays"))
        .filter(~F.exists("stays", lambda stay: (stay["since"] == BEFORE_ALL) & (stay["until"] == AFTER_ALL)))
    )  # whoever was always there is certainly owed everything
    members = tables.keep(members)
    counts = _without_time(tables, members).unionByName(_with_time(tables, members))
    return counts.groupBy(RUN_ID).agg(F.sum("n").alias("possibly_expected"))


def _without_time(tables: RunTables, members: DataFrame) -> DataFrame:
    """Return how many deliveries of events without a time may be expected and were not made: all that there are, less
    those that were made, so that no event meets every member."""
    events = tables.published.filter(F.col(T_TRUE).isNull()).select(RUN_ID, GRP, DESTS, EVENT)
    sizes = members.groupBy(RUN_ID, GRP).agg(F.count("*").alias("members"))
    to_all = events.filter(F.col(DESTS).isNull()).groupBy(RUN_ID, GRP).agg(F.count("*").alias("events"))
    to_all = to_all.join(sizes, [RUN_ID, GRP]).select(RUN_ID, (F.col("events") * F.col("members")).alias("n"))
    named = events.filter(F.col(DESTS).isNotNull()).select(RUN_ID, GRP, F.explode(F.array_distinct(DESTS)).alias(NODE))
    named = named.join(F.broadcast(members.select(RUN_ID, GRP, NODE)), [RUN_ID, GRP, NODE])
    made = tables.delivered.filter(F.col(f"o_{T_TRUE}").isNull()).withColumn(DESTS, F.col(f"o_{DESTS}"))
    made = made.filter(_is_addressed()).join(F.broadcast(members.select(*PROCESS, GRP)), [*PROCESS, GRP])
    one = F.lit(1).cast("bigint")
    return union([to_all, named.select(RUN_ID, one.alias("n")), made.select(RUN_ID, (-one).alias("n"))])


def _with_time(tables: RunTables, members: DataFrame) -> DataFrame:
    """Return the missing deliveries of events with a time that may be expected of members whose stays have none."""
    unsure = F.exists("stays", lambda stay: (stay["since"] == AFTER_ALL) | (stay["until"] == BEFORE_ALL))
    at = F.col("published_at")
    covered = F.exists("stays", lambda stay: (stay["since"] <= at) & (at < stay["until"]))
    window = tables.published.filter(F.col(T_TRUE).isNotNull())
    window = window.select(RUN_ID, GRP, DESTS, EVENT, F.col(T_TRUE).alias("published_at"))
    may = window.join(F.broadcast(members.filter(unsure)), [RUN_ID, GRP])
    may = may.filter(F.exists("stays", _may_cover) & ~covered & _is_addressed())
    missing = may.join(tables.delivered.select(*PROCESS, EVENT), [*PROCESS, EVENT], "left_anti")
    return missing.select(RUN_ID, F.lit(1).cast("bigint").alias("n"))


def _may_cover(stay: Column) -> Column:
    at = F.col("published_at")
    begun = (stay["since"] == AFTER_ALL) | (stay["since"] <= at)
    return begun & ((stay["until"] == BEFORE_ALL) | (at < stay["until"]))


def _covers(stay: Column) -> Column:
    at = F.col("published_at")
    always = (stay["since"] == BEFORE_ALL) & (stay["last"] == AFTER_ALL - 1)
    return F.when(at.isNull(), always).otherwise(at.between(stay["since"], stay["last"]))


def _is_addressed() -> Column:
    return F.col(DESTS).isNull() | F.array_contains(DESTS, F.col(NODE))


def agreement_violations(tables: RunTables, members: DataFrame, by_run: DataFrame) -> DataFrame:
    """Return every expected delivery that was not made, in runs where too few were."""
    missing = _unpaid(tables, members, by_run.filter("agreement_broken"), "came").drop(EV)
    sentence = text(who(), " never delivered ", what(), ", though it stayed a member and up to the end")
    return violations(missing, AGREEMENT, sentence, events=F.array(message()), absence=True)


def liveness_violations(tables: RunTables, members: DataFrame, by_run: DataFrame) -> DataFrame:
    """Return every expected delivery that did not come in time, in runs where too few did."""
    late = _unpaid(tables, members, by_run.filter("liveness_broken"), "in_time")
    deadline = text("; the deadline is ", F.format_number(F.col("deadline_ns") / _MS, 0), " ms")
    never = violations(
        late.filter("came is null"), LIVENESS, text(who(), " delivered ", what(), " never", deadline),
        events=F.array(message()), absence=True,
    )  # fmt: skip
    took = text(" only ", F.format_number(F.col("took") / _MS, 1), " ms after its publication")
    slow = violations(
        late.filter("took is not null"), LIVENESS, text(who(), " delivered ", what(), took, deadline),
        events=F.array(message()), evs=F.array(EV),
    )  # fmt: skip
    return never.unionByName(slow)
