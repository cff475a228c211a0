"""Happened-before slice by slice: of a large run, only the stretches of time are closed in which a cause came late.

In a time that agrees with happened-before (`agreed_times`), a cause is published before its effect, and whatever lies
between the two in happened-before is published between them. So a violation is found in the events that were
published from its cause to its effect, and nothing else of the run is needed: a slice of time is judged by itself, by
the same code as a small run, and no task holds more than a slice.

Most slices need no look at all. An event follows what its publisher published before it, and what is not later than
the latest event that its publisher had delivered: `heard`. When a process delivers an event late, some effect of it
may have come before only if the process had delivered a later event of the same publisher, or one that had heard of
something as late. One running maximum along each process's line tells which deliveries these are (`late_causes`), and
so do events that were owed to a process and never came to it, which stand at the end of its line. The effect was then
among what the process had delivered before the late event, or before a later one of the same publisher: the slice
reaches up to the latest of that. This holds for any number of publishers and groups, for events with destinations, and
for members that come and go.

A slice may show an effect that is not the first one in the run, because the first lies in another slice, which shows
it too: of each process and cause the first one in the process's line counts.
"""

from typing import Final

from whence.pipeline.agreed_times import AGREED, HEARD
from whence.pipeline.columns import AFTER_ALL, EVENT, LIFE, PLACE, PROCESS, RUN_ID, merged_spans
from whence.pipeline.frames import DataFrame, F, Window
from whence.trace.schema import EV, INC, NODE

SLICE: Final = "slice"
SLICE_ROWS = 250_000
"""Deliveries of a slice, not counting those of the time that a late event takes to come."""
COLUMNS = 1 << 16
"""Parts of equal length that a run's time is divided into; a slice begins with one."""

_PUBLISHER: Final = (f"o_{NODE}", f"o_{LIFE}")
_PUBLISHED_AT: Final = (f"o_{INC}", f"o_{EV}")
_NEVER: Final = ((1 << 31) - 1, AFTER_ALL)
"""The place of what never came: behind everything."""


# --- what came late ---


def late_causes(delivered: DataFrame, times: DataFrame, debts: DataFrame) -> DataFrame:
    """Return the stretches of time (run_id, low, high) that hold every cause that came late, or never, to a process
    which had delivered something that may follow it, and all that lies between the two.

    `delivered`: deliveries; those of events that `times` (what `agreed_times` returned) has are looked at. `debts`:
    the events that each process lacks and that count as causes there (run_id, node, life, and those of `published`).
    """
    came = delivered.select(*PROCESS, *PLACE, EVENT, *_PUBLISHER, *_PUBLISHED_AT, F.lit(False).alias("is_debt"))
    rows = came.unionByName(_at_the_end(debts)).join(times, [RUN_ID, EVENT])
    line = Window.partitionBy(*PROCESS).orderBy(*PLACE)
    before = line.rowsBetween(Window.unboundedPreceding, -1)
    so_far = line.rowsBetween(Window.unboundedPreceding, 0)
    known = rows.withColumns({
        "most_heard": F.max(F.when(~F.col("is_debt"), F.col(HEARD))).over(before),
        "latest": F.max(F.when(~F.col("is_debt"), F.col(AGREED))).over(so_far),
    })  # fmt: skip
    of_publisher = Window.partitionBy(*PROCESS, *_PUBLISHER).orderBy(*(F.desc(name) for name in _PUBLISHED_AT))
    later = F.min(F.when(~F.col("is_debt"), F.struct(*PLACE, "latest")))
    known = known.withColumn("later", later.over(of_publisher.rowsBetween(Window.unboundedPreceding, -1)))
    overtaken = F.struct(*(F.col(f"later.{name}") for name in PLACE)) < F.struct(*PLACE)
    overtaken = F.col("later").isNotNull() & F.coalesce(overtaken, F.lit(False))
    followed = F.coalesce(F.col(AGREED) <= F.col("most_heard"), F.lit(False))
    high = F.when(overtaken, F.col("later.latest")).otherwise(F.col("latest"))
    late = known.filter((overtaken | followed) & (F.col(AGREED) <= high))
    return late.select(RUN_ID, F.col(AGREED).alias("low"), high.alias("high"))


def _at_the_end(debts: DataFrame) -> DataFrame:
    """Return debts in the shape of deliveries: with the last place of all."""
    return debts.select(
        *PROCESS, F.lit(_NEVER[0]).cast("int").alias(INC), F.lit(_NEVER[1]).cast("bigint").alias(EV), EVENT,
        *_PUBLISHER, *_PUBLISHED_AT, F.lit(True).alias("is_debt"),
    )  # fmt: skip


# --- slices ---


def run_spans(times: DataFrame) -> DataFrame:
    """Return when the first and the last event of every run were published."""
    return times.groupBy(RUN_ID).agg(F.min(AGREED).alias("begin"), F.max(AGREED).alias("end"))


def slices(delivered: DataFrame, times: DataFrame, stretches: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the spans of slices (run_id, slice, low, high): stretches of time that begin within the same SLICE_ROWS
    deliveries, in the order of their publications, are one slice, and what lies between them is no part of it."""
    counts = delivered.groupBy(RUN_ID, EVENT).agg(F.count("*").alias("rows")).join(times, [RUN_ID, EVENT])
    weights = in_columns(counts, spans).groupBy(RUN_ID, "column").agg(F.sum("rows").alias("rows"))
    along = Window.partitionBy(RUN_ID).orderBy("column").rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum("rows").over(along), F.lit(0))
    places = weights.select(RUN_ID, "column", F.floor(before / SLICE_ROWS).alias(SLICE))
    begun = in_columns(stretches, spans, "low")
    placed = begun.join(F.broadcast(places), [RUN_ID, "column"], "left")
    # Of a column without deliveries nobody knows the slice; it is one by itself.
    placed = placed.withColumn(SLICE, F.coalesce(SLICE, -F.col("column") - 1))
    spread = placed.groupBy(RUN_ID, SLICE, "column").agg(F.min("low").alias("low"), F.max("high").alias("high"))
    return merged_spans(spread, (RUN_ID, SLICE)).drop("number")


def in_columns(rows: DataFrame, spans: DataFrame, at: str = AGREED) -> DataFrame:
    """Return rows with the column of their run's time that a moment lies in; what is later than the last publication
    lies in the last one."""
    here = rows.join(F.broadcast(spans), RUN_ID)
    length = F.greatest((F.col("end") - F.col("begin")) / COLUMNS, F.lit(1.0))
    column = F.floor((F.least(F.col(at), F.col("end")) - F.col("begin")) / length)
    return here.withColumn("column", column).drop("begin", "end")


def sliced(times: DataFrame, found: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the events (run_id, slice, event) of each slice."""
    first = in_columns(found, spans, "low").withColumnRenamed("column", "from")
    reach = in_columns(first, spans, "high").withColumn("column", F.explode(F.sequence("from", "column"))).drop("from")
    rows = in_columns(times, spans).join(reach, [RUN_ID, "column"])
    return rows.filter(F.col(AGREED).between(F.col("low"), F.col("high"))).select(RUN_ID, SLICE, EVENT)
