"""Happened-before slice by slice: of a large run, only the stretches of time are closed in which a cause came late.

Where rows have true time that agrees with them (`orderly_runs`), a cause is published before its effect, and whatever
lies between the two in happened-before is published between them. So a violation is found in the events that were
published from its cause to its effect, and nothing else of the run is needed: a slice of time is judged by itself, by
the same code as a small run, and no task holds more than a slice.

Most slices need no look at all. An event follows what its publisher published before it, and what is not later than
the latest event that its publisher had delivered: `heard`. When a process delivers an event late, some effect of it
may have come before only if the process had delivered a later event of the same publisher, or one that had heard of
something as late. One running maximum along each process's line tells which deliveries these are (`late_causes`), and
so do events that were owed to a process and never came to it, which stand at the end of its line. The effect was then
published before the late event came, or before the process delivered a later one of the same publisher: the slice
reaches up to there. This holds for any number of publishers and groups, for events with destinations, and for members
that come and go.

A slice may show an effect that is not the first one in the run, because the first lies in another slice, which shows
it too: of each process and cause the first one in the process's line counts.
"""

from typing import Final

from whence.pipeline.columns import AFTER_ALL, BEFORE_ALL, EVENT, LIFE, PLACE, PROCESS, RUN_ID
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.pipeline.owed import SENT_AT, TIMES, covers, is_addressed, owed_times
from whence.trace.schema import DESTS, EV, GRP, INC, NODE, T_TRUE

SLICE: Final = "slice"
SLICE_ROWS = 250_000
"""Deliveries of a slice, not counting those of the time that a late event takes to come."""
COLUMNS = 1 << 16
"""Parts of equal length that a run's time is divided into; a slice begins with one."""

_PUBLISHER: Final = (f"o_{NODE}", f"o_{LIFE}")
_PUBLISHED_AT: Final = (f"o_{INC}", f"o_{EV}")
_NEVER: Final = ((1 << 31) - 1, AFTER_ALL)
"""The place of what never came: behind everything."""


# --- which runs, and what their publishers had heard ---


def walked(tables: RunTables, asked: DataFrame) -> DataFrame:
    """Return every event of some runs (run_id) with `heard`: when the latest event of another process was published
    that its publisher had delivered before it; and every other step at which true time is unknown, or contradicts the
    rows (`agrees` is false)."""
    sent, none = F.col(f"o_{T_TRUE}"), F.lit(None).cast("bigint")
    after = F.struct(*PLACE) > F.struct(*_PUBLISHED_AT)
    agrees = F.when(_is_own(), after & (sent <= F.col(T_TRUE))).otherwise(sent < F.col(T_TRUE))
    delivered = tables.delivered.select(
        *PROCESS, *PLACE, T_TRUE, none.alias(EVENT), F.when(~_is_own(), sent).alias(SENT_AT), agrees.alias("agrees")
    )
    published = tables.published.select(
        *PROCESS, *PLACE, T_TRUE, EVENT, none.alias(SENT_AT), F.col(T_TRUE).isNotNull().alias("agrees")
    )
    rows = published.unionByName(delivered).join(F.broadcast(asked.select(RUN_ID)), RUN_ID)
    line = Window.partitionBy(*PROCESS).orderBy(*PLACE)
    falls = F.coalesce(F.lag(T_TRUE).over(line) > F.col(T_TRUE), F.lit(False))
    heard = F.max(SENT_AT).over(line.rowsBetween(Window.unboundedPreceding, -1))
    walk = rows.withColumns({"heard": heard, "agrees": F.coalesce(F.col("agrees"), F.lit(False)) & ~falls})
    return walk.filter(F.col(EVENT).isNotNull() | ~F.col("agrees")).select(RUN_ID, EVENT, "heard", "agrees")


def orderly_runs(tables: RunTables, asked: DataFrame, walk: DataFrame) -> set[str]:
    """Return the runs in which true time is known and never contradicts happened-before.

    It never falls along a process's line; what comes from another process was published before it came, and a process
    delivers its own events after it published them. Then nothing can be its own cause.
    """
    unsure = tables.stays.filter((F.col("since") == AFTER_ALL) | (F.col("until") == BEFORE_ALL)).select(RUN_ID)
    out = walk.filter("not agrees").select(RUN_ID).unionByName(unsure).distinct()
    return {row[RUN_ID] for row in asked.collect()} - {row[RUN_ID] for row in out.collect()}


def _is_own() -> Column:
    return (F.col(NODE) == F.col(_PUBLISHER[0])) & (F.col(LIFE) == F.col(_PUBLISHER[1]))


# --- what came late ---


def late_causes(tables: RunTables, walk: DataFrame, runs: DataFrame, absences: DataFrame) -> DataFrame:
    """Return the stretches of time (run_id, low, high) that hold every cause that came late, or never, to a process
    which had delivered something that may follow it, and all that lies between the two.

    `walk`: what `walked` returned. `runs`: the orderly runs (run_id). `absences`: those in which what never came
    counts too.
    """
    heard = walk.filter(F.col(EVENT).isNotNull() & F.col("heard").isNotNull()).select(RUN_ID, EVENT, "heard")
    came = _deliveries(tables, runs).withColumn("is_debt", F.lit(False))
    rows = came.unionByName(_debts(tables, absences)).join(heard, [RUN_ID, EVENT], "left")
    line = Window.partitionBy(*PROCESS).orderBy(*PLACE).rowsBetween(Window.unboundedPreceding, -1)
    of_publisher = Window.partitionBy(*PROCESS, *_PUBLISHER).orderBy(*(F.desc(name) for name in _PUBLISHED_AT))
    later = F.min(F.struct(*PLACE, T_TRUE)).over(of_publisher.rowsBetween(Window.unboundedPreceding, -1))
    known = rows.withColumns({
        "most_heard": F.max(F.when(~F.col("is_debt"), F.col("heard"))).over(line),
        "last_at": F.max(F.when(~F.col("is_debt"), F.col(T_TRUE))).over(line),
        "later": later,
    })  # fmt: skip
    overtaken = F.coalesce(F.struct(*(F.col(f"later.{name}") for name in PLACE)) < F.struct(*PLACE), F.lit(False))
    overtaken = F.col("later").isNotNull() & overtaken
    until = F.when(overtaken, F.col(f"later.{T_TRUE}")).when(F.col("is_debt"), F.col("last_at"))
    late = known.filter(overtaken | F.coalesce(F.col(SENT_AT) <= F.col("most_heard"), F.lit(False)))
    return late.select(RUN_ID, F.col(SENT_AT).alias("low"), F.coalesce(until, F.col(T_TRUE)).alias("high"))


def _deliveries(tables: RunTables, runs: DataFrame) -> DataFrame:
    return tables.delivered.join(F.broadcast(runs), RUN_ID).select(
        *PROCESS, *PLACE, EVENT, T_TRUE, F.col(f"o_{T_TRUE}").alias(SENT_AT), *_PUBLISHER, *_PUBLISHED_AT
    )


def _debts(tables: RunTables, runs: DataFrame) -> DataFrame:
    """Return what was published while a process was a member, meant for it, and neither published nor delivered by
    it, in the shape of deliveries: with the last place of all."""
    events = tables.published.join(F.broadcast(runs), RUN_ID).select(
        RUN_ID, GRP, EVENT, DESTS, F.col(T_TRUE).alias(SENT_AT),
        *(F.col(name).alias(f"o_{name}") for name in (NODE, LIFE, INC, EV)),
    )  # fmt: skip
    stays = tables.stays.join(F.broadcast(runs), RUN_ID).select(*PROCESS, GRP, "since", "until")
    has = _there(tables, runs).filter(is_addressed()).join(F.broadcast(stays), [*PROCESS, GRP])
    has = has.filter(covers(F.col("since"), F.col("until")))
    sums = owed_times(events, stays).unionByName(has.select(RUN_ID, EVENT, F.lit(-1).cast("bigint").alias(TIMES)))
    in_debt = sums.groupBy(RUN_ID, EVENT).agg(F.sum(TIMES).alias(TIMES)).filter(F.col(TIMES) > 0)
    lacked = events.join(tables.keep(in_debt.select(RUN_ID, EVENT)), [RUN_ID, EVENT], "left_semi")
    owed = lacked.join(F.broadcast(stays), [RUN_ID, GRP]).filter(
        covers(F.col("since"), F.col("until")) & is_addressed()
    )
    debts = owed.join(_there(tables, runs).select(*PROCESS, EVENT), [*PROCESS, EVENT], "left_anti")
    never = (F.lit(_NEVER[0]).cast("int").alias(INC), F.lit(_NEVER[1]).cast("bigint").alias(EV))
    return debts.select(
        *PROCESS, *never, EVENT, F.lit(None).cast("bigint").alias(T_TRUE), SENT_AT, *_PUBLISHER, *_PUBLISHED_AT,
        F.lit(True).alias("is_debt"),
    )  # fmt: skip


def _there(tables: RunTables, runs: DataFrame) -> DataFrame:
    """Return every event once with each process that published or delivered it."""
    delivered = tables.delivered.filter(~_is_own()).select(
        *PROCESS, GRP, EVENT, F.col(f"o_{DESTS}").alias(DESTS), F.col(f"o_{T_TRUE}").alias(SENT_AT)
    )
    published = tables.published.select(*PROCESS, GRP, EVENT, DESTS, F.col(T_TRUE).alias(SENT_AT))
    return published.unionByName(delivered).join(F.broadcast(runs), RUN_ID)


# --- slices ---


def run_times(tables: RunTables) -> DataFrame:
    """Return when the first and the last event of every run were published."""
    return tables.published.groupBy(RUN_ID).agg(F.min(T_TRUE).alias("begin"), F.max(T_TRUE).alias("end"))


def slices(tables: RunTables, stretches: DataFrame, times: DataFrame) -> DataFrame:
    """Return slices (run_id, slice, low, high) of stretches of time: those that begin within the same SLICE_ROWS
    deliveries, in the order of their publications, are one."""
    rows = tables.delivered.select(RUN_ID, F.col(f"o_{T_TRUE}").alias(SENT_AT))
    weights = in_columns(rows, times).groupBy(RUN_ID, "column").agg(F.count("*").alias("rows"))
    along = Window.partitionBy(RUN_ID).orderBy("column").rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum("rows").over(along), F.lit(0))
    places = weights.select(RUN_ID, "column", F.floor(before / SLICE_ROWS).alias(SLICE))
    begun = in_columns(stretches.withColumn(SENT_AT, F.col("low")), times)
    placed = begun.join(F.broadcast(places), [RUN_ID, "column"], "left")
    # Of a column without deliveries nobody knows the slice; it is one by itself.
    placed = placed.withColumn(SLICE, F.coalesce(SLICE, -F.col("column") - 1))
    return placed.groupBy(RUN_ID, SLICE).agg(F.min("low").alias("low"), F.max("high").alias("high"))


def in_columns(rows: DataFrame, times: DataFrame, at: str = SENT_AT) -> DataFrame:
    """Return rows with the column of their run's time that a moment lies in; what is later than the last publication
    lies in the last one."""
    here = rows.join(F.broadcast(times), RUN_ID)
    length = F.greatest((F.col("end") - F.col("begin")) / COLUMNS, F.lit(1.0))
    column = F.floor((F.least(F.col(at), F.col("end")) - F.col("begin")) / length)
    return here.withColumn("column", column).drop("begin", "end")


def sliced(steps: DataFrame, found: DataFrame, times: DataFrame) -> DataFrame:
    """Return steps (with sent_at) once for each slice that their events belong to."""
    first = in_columns(found, times, "low").withColumnRenamed("column", "from")
    reach = in_columns(first, times, "high").withColumn("column", F.explode(F.sequence("from", "column"))).drop("from")
    rows = in_columns(steps, times).join(F.broadcast(reach), [RUN_ID, "column"])
    return rows.filter(F.col(SENT_AT).between(F.col("low"), F.col("high"))).drop("column", "low", "high", SENT_AT)
