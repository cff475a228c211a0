"""Metrics of runs as tables: throughput, latency, lateness, loss and bytes of metadata.

    run_metrics      one row per run and group
    window_metrics   the same over time, in windows of equal length
    latency_cdf      per run, 101 points of the latency from publication to delivery at others
    ticket_holds     per run, who held which ticket from when to when

Times are true time where the trace has it, else the processes' own clocks, which may differ by their skew.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from whence.errors import TraceError, UsageError
from whence.pipeline.columns import EVENT, KIND, MESSAGE, PROCESS, RUN_ID, renewed, union
from whence.pipeline.deliveries import RunTables
from whence.pipeline.events import Events, Input, SetAside, read_events, rows_by_run
from whence.pipeline.frames import Column, DataFrame, F, SparkSession
from whence.pipeline.promises.tickets import ticket_holds
from whence.pipeline.session import configure_for_size, first_line, is_connected, is_local, is_overflow
from whence.pipeline.sole_writer import sole_writer
from whence.pipeline.storage import AnyPath, UriPath, move, remove
from whence.trace.schema import (
    DESTS,
    EPOCH,
    GRP,
    HOLD_NS,
    IDS,
    INC,
    M_PID,
    NODE,
    PAYLOAD_BYTES,
    REASON,
    STAMP_BYTES,
    T_CLK,
    T_TRUE,
    TICKET,
    VALUE,
    Kind,
)

_MS: Final = 1_000_000
POINTS: Final = tuple(point / 100 for point in range(101))
EXACT, ROUGH = 10_000_000, 10_000
"""Accuracies of percentiles: a sketch of the first holds every value of small input, one of the second stays small."""
WINDOWS: Final = 60
"""Windows a run is cut into where nobody says how long they are."""


class Unusable(NamedTuple):
    """What could not be measured."""

    set_aside: list[SetAside]
    incomplete: dict[str, str]
    """The runs that lack rows, so that nobody knows what they lost, with a sentence each."""
    lost: list[str]
    """Those of them that had more rows when they were written."""

    @property
    def is_unreadable(self) -> bool:
        """Whether something that was there was not measured."""
        return bool(self.lost) or any(each.is_unreadable for each in self.set_aside)

    def sentences(self) -> list[str]:
        """Return it in words."""
        unknown = [f"run {run_id}: {why}; its loss is unknown" for run_id, why in self.incomplete.items()]
        return [*(each.sentence() for each in self.set_aside), *unknown]


class Measurement(NamedTuple):
    """Where the tables are, and what is not in them."""

    tables: list[AnyPath]
    unusable: Unusable


class Measures(RunTables):
    """The tables of some runs that measuring needs."""

    def __init__(self, events: Events) -> None:
        super().__init__(events)
        self.set_aside = events.set_aside

    def unusable(self) -> "Unusable":
        """Return what was not measured, and which runs lack rows."""
        said = {row[RUN_ID]: row["incomplete"] for row in self.incomplete.orderBy(RUN_ID).collect()}
        there = rows_by_run(self.lives, "rows", F.col("numbers"))
        written = {row[RUN_ID]: row["written"] for row in self.runs.select(RUN_ID, "written").collect()}
        lost = [run_id for run_id in said if there.get(run_id, 0) < (written[run_id] or 0)]
        return Unusable(self.set_aside, said, lost)

    @property
    def accuracy(self) -> int:
        """What part of the rows a percentile may be off by, as one over this: none of them where there are few."""
        return ROUGH if self.is_large else EXACT

    @cached_property
    def delays(self) -> DataFrame:
        """Every first delivery at another process, with how long it took and how long it was held, in ms."""
        at = F.coalesce(T_TRUE, T_CLK)
        origin = self.rows_of(Kind.PUBLISH).groupBy(RUN_ID, *MESSAGE).agg(F.min(at).alias("published_at"))
        rows = self.events.filter(F.col(KIND) == Kind.DELIVER.value)
        first = rows.groupBy(*PROCESS, *MESSAGE).agg(F.min(at).alias("came_at"), F.min(HOLD_NS).alias(HOLD_NS))
        known = first.join(origin, [RUN_ID, *MESSAGE])
        took = (F.col("came_at") - F.col("published_at")) / _MS
        return self.keep(
            known.select(
                *PROCESS, GRP, M_PID, "came_at", took.alias("took_ms"),
                (F.coalesce(HOLD_NS, F.lit(0)) / _MS).alias("held_ms"),
                (F.col(NODE) != F.col(M_PID)).alias("from_other"),
            )
        )  # fmt: skip

    @cached_property
    def timed(self) -> DataFrame:
        """Every row with one time, in ns."""
        return self.events.withColumn("at", F.coalesce(T_TRUE, T_CLK))


@contextmanager
def measures(spark: SparkSession, found: Input) -> Iterator[Measures]:
    """Yield the tables of some runs, and release them at the end. Raises TraceError."""
    configure_for_size(spark, found.bytes)
    try:
        with TemporaryDirectory(prefix="whence-") as scratch:
            tables = Measures(read_events(spark, found, None, Path(scratch) if is_local(spark) else None))
            try:
                yield tables
            finally:
                tables.close()
    except Exception as error:
        if not is_overflow(error) or isinstance(error, UsageError):
            raise
        raise TraceError(f"the trace cannot be measured, a number in it is too large: {first_line(error)}") from error


def run_metrics(tables: Measures) -> DataFrame:
    """Return one row per run and group: counts, loss, latency, hold time, recovery, metadata, throughput."""
    rows = tables.timed.groupBy(RUN_ID, GRP).agg(
        F.count_if(_is(Kind.PUBLISH)).alias("published"),
        F.count_if(_is(Kind.DELIVER)).alias("delivered"),
        F.count_if(_is(Kind.LATE)).alias("late"),
        F.coalesce(F.sum(F.when(_is(Kind.GAP), F.size(IDS))), F.lit(0)).alias("skipped"),
        F.count_if(_is(Kind.DROP) & (F.col(REASON) == "duplicate")).alias("duplicates_dropped"),
        F.coalesce(
            F.sum(F.when(_is(Kind.NOTE) & (F.col(REASON) == "recovered"), F.coalesce(VALUE, F.lit(1)))), F.lit(0)
        ).alias("recoveries"),
        F.size(F.collect_set(F.when(_is(Kind.VIEW), F.col(EPOCH)))).alias("views"),
        F.count_if(_is(Kind.SEND)).alias("packets"),
        F.avg(F.when(_is(Kind.SEND), F.col(STAMP_BYTES))).alias("metadata_bytes_mean"),
        F.max(F.when(_is(Kind.SEND), F.col(STAMP_BYTES))).alias("metadata_bytes_max"),
        F.avg(F.when(_is(Kind.PUBLISH), F.col(STAMP_BYTES))).alias("stamp_bytes_mean"),
        F.coalesce(F.sum(F.when(_is(Kind.DELIVER), F.col(PAYLOAD_BYTES))), F.lit(0)).alias("payload_bytes"),
        ((F.max("at") - F.min("at")) / 1e9).alias("seconds"),
        (F.count(T_TRUE) == F.count("*")).alias("true_time"),
    )
    latency = tables.delays.groupBy(RUN_ID, GRP).agg(
        *_percentiles(tables, F.when(F.col("from_other"), F.col("took_ms")), "latency_ms"),
        *_percentiles(tables, F.when(F.col("held_ms") > 0, F.col("held_ms")), "hold_ms"),
        F.count_if(F.col("held_ms") > 0).alias("held"),
    )
    known = rows.filter(F.col(GRP).isNotNull()).join(latency, [RUN_ID, GRP], "left")
    known = known.join(renewed(expected_deliveries(tables)), [RUN_ID, GRP], "left")
    known = known.withColumns(
        {
            name: F.when(F.col("published") > 0, F.col(name)).otherwise(0)
            for name in ("deliveries_expected", "owed_delivered")
        }
    )
    # What a run owed, and whether it came, nobody can say where some of its rows are missing.
    known = known.join(F.broadcast(tables.incomplete), RUN_ID, "left").withColumns(
        {name: F.when(F.col("incomplete").isNull(), F.col(name)) for name in ("deliveries_expected", "owed_delivered")}
    )
    known = known.drop("incomplete").join(F.broadcast(tables.runs.select(RUN_ID, "level")), RUN_ID)
    lost = 1 - F.col("owed_delivered") / F.nullif(F.col("deliveries_expected"), F.lit(0))
    missed = F.col("recoveries") + F.col("skipped")
    return known.select(
        "*", lost.alias("loss"), (F.col("recoveries") / F.nullif(missed, F.lit(0))).alias("recovered"),
        (F.col("delivered") / F.nullif(F.col("seconds"), F.lit(0.0))).alias("deliveries_per_second"),
    )  # fmt: skip


def expected_deliveries(tables: Measures) -> DataFrame:
    """Return, per run and group, the deliveries there would be if everybody got what was published for it.

    That is whom a publication names, else who was a member when it was published, or is in the view it was published
    in; `owed_delivered` are those of them that happened, each once. Null where events are for all members and the trace
    does not say who these were: somebody delivered in the group whose founding or joining is not in the trace, or
    nobody recorded the view.
    """
    events = tables.published.select(RUN_ID, EVENT, GRP, DESTS, T_TRUE, T_CLK, EPOCH)
    living = F.broadcast(tables.runs.filter("living").select(RUN_ID))
    on_views = events.join(living, RUN_ID)
    events = events.join(living, RUN_ID, "left_anti")
    to_all = events.filter(F.col(DESTS).isNull())
    views = tables.rows_of(Kind.VIEW).select(RUN_ID, GRP, EPOCH, F.explode(DESTS).alias(NODE)).distinct()
    of_views = on_views.join(F.broadcast(views), [RUN_ID, GRP, EPOCH]).select(RUN_ID, GRP, EVENT, NODE)
    unplaced = on_views.join(F.broadcast(views), [RUN_ID, GRP, EPOCH], "left_anti")
    stays = tables.stays.select(*PROCESS, GRP, "since", "until", "since_clk", "until_clk")
    here = F.when(F.col(T_TRUE).isNull(), _within(T_CLK, "since_clk", "until_clk")).otherwise(
        _within(T_TRUE, "since", "until")
    )
    of_all = to_all.join(F.broadcast(stays), [RUN_ID, GRP]).filter(here).select(RUN_ID, GRP, EVENT, NODE)
    of_some = events.filter(F.col(DESTS).isNotNull()).select(RUN_ID, GRP, EVENT, F.explode(DESTS).alias(NODE))
    came = tables.delivered.select(RUN_ID, EVENT, NODE, F.lit(1).alias("came")).distinct()
    expected = union([of_all, of_some, of_views]).join(came, [RUN_ID, EVENT, NODE], "left")
    counted = expected.groupBy(RUN_ID, GRP).agg(F.count("*").alias("expected"), F.count("came").alias("met"))
    strangers = tables.rows_of(Kind.DELIVER).select(*PROCESS, GRP).distinct().join(stays, [*PROCESS, GRP], "left_anti")
    nothing = F.lit(None).cast("bigint")
    unknown = union([to_all.join(strangers, [RUN_ID, GRP], "left_semi"), unplaced.select(*to_all.columns)]).select(
        RUN_ID, GRP, nothing.alias("expected"), nothing.alias("met")
    )
    none = tables.published.select(
        RUN_ID, GRP, F.lit(0).cast("bigint").alias("expected"), F.lit(0).cast("bigint").alias("met")
    )
    is_known = F.count("*") == F.count("expected")
    return (
        union([counted, unknown, none])
        .groupBy(RUN_ID, GRP)
        .agg(
            F.when(is_known, F.sum("expected")).alias("deliveries_expected"),
            F.when(is_known, F.sum("met")).alias("owed_delivered"),
        )
    )


def _within(at: str, since: str, until: str) -> Column:
    return (F.col(since) <= F.col(at)) & (F.col(at) < F.col(until))


def window_metrics(tables: Measures, window_ns: int | None = None) -> DataFrame:
    """Return, per run, group and window of time, what was published and delivered, and how long it took."""
    ends = tables.timed.groupBy(RUN_ID).agg(F.min("at").alias("begins"), F.max("at").alias("ends"))
    length = F.greatest(F.ceil((F.col("ends") - F.col("begins") + 1) / WINDOWS), F.lit(1)).cast("bigint")
    ends = F.broadcast(ends.withColumn("window_ns", F.lit(window_ns).cast("bigint") if window_ns else length))
    begins = F.col("begins") + F.floor((F.col("at") - F.col("begins")) / F.col("window_ns")) * F.col("window_ns")
    events = tables.timed.join(ends, RUN_ID).withColumn("window", begins).filter(F.col(GRP).isNotNull())
    counts = events.groupBy(RUN_ID, GRP, "window", "window_ns").agg(
        F.count_if(_is(Kind.PUBLISH)).alias("published"),
        F.count_if(_is(Kind.DELIVER)).alias("delivered"),
        F.count_if(_is(Kind.SEND)).alias("packets"),
        F.coalesce(F.sum(F.when(_is(Kind.GAP), F.size(IDS))), F.lit(0)).alias("skipped"),
    )
    delays = tables.delays.withColumn("at", F.col("came_at")).join(ends, RUN_ID).withColumn("window", begins)
    latency = delays.groupBy(RUN_ID, GRP, "window").agg(
        *_percentiles(tables, F.when(F.col("from_other"), F.col("took_ms")), "latency_ms")
    )
    return counts.join(latency, [RUN_ID, GRP, "window"], "left")


def latency_cdf(tables: Measures) -> DataFrame:
    """Return, per run, 101 points of the latency's distribution."""
    others = tables.delays.filter("from_other")
    points = F.percentile_approx("took_ms", list(POINTS), tables.accuracy)
    curve = others.groupBy(RUN_ID).agg(points.alias("points"))
    each = curve.select(RUN_ID, F.posexplode("points").alias("percent", "latency_ms"))
    return each.join(F.broadcast(tables.runs.select(RUN_ID, "level")), RUN_ID)


def ticket_timeline(tables: Measures) -> DataFrame:
    """Return who held which ticket from when to when."""
    rows = ticket_holds(tables)
    return rows.select(RUN_ID, GRP, TICKET, EPOCH, NODE, INC, "since", "until", "since_clk", "until_clk")


def _is(kind: Kind) -> Column:
    return F.col(KIND) == kind.value


def _percentiles(tables: Measures, value: Column, name: str) -> list[Column]:
    points = F.percentile_approx(value, [0.5, 0.9, 0.99, 1.0], tables.accuracy)
    return [points[at].alias(f"{name}_{label}") for at, label in enumerate(("p50", "p90", "p99", "max"))]


TABLES: Final = {
    "run_metrics": run_metrics,
    "window_metrics": window_metrics,
    "latency_cdf": latency_cdf,
    "ticket_holds": ticket_timeline,
}


def check_free(out: AnyPath, *, overwrite: bool) -> AnyPath:
    """Return the directory. Raises UsageError where tables of an earlier measurement would be lost."""
    there = [name for name in TABLES if (out / name).exists()]
    if there and not overwrite:
        raise UsageError(f"--out: {out} holds {', '.join(there)} already; give a new directory, or --overwrite")
    return out


def measure(spark: SparkSession, found: Input, out: AnyPath, *, overwrite: bool = False) -> Measurement:
    """Measure some runs and write every table. Raises TraceError and UsageError."""
    with measures(spark, found) as tables:
        return Measurement(write_metrics(tables, out, overwrite=overwrite), tables.unusable())


def write_metrics(tables: Measures, out: AnyPath, *, overwrite: bool = False) -> list[AnyPath]:
    """Write every table as Parquet below a directory; return where. Raises UsageError; nothing half-written stays.

    Tables of an earlier measurement are replaced only if that is asked for, and each only by a whole one. Through Spark
    Connect to a URI, where nothing can be moved, each is written where it belongs, and is whole once it has _SUCCESS.
    """
    with sole_writer(out):
        check_free(out, overwrite=overwrite)
        return _written(tables, out)


def _written(tables: Measures, out: AnyPath) -> list[AnyPath]:
    written = []
    measured = {name: make(tables) for name, make in TABLES.items()}
    for name, table in measured.items():
        where = out / name
        in_place = isinstance(out, UriPath) and is_connected(out.spark)
        made = where if in_place else out / f".{name}.unfinished"
        try:
            table.coalesce(1).write.mode("overwrite").parquet(str(made))
            if not in_place:
                remove(where)
                move(made, where)
        except Exception as error:
            if in_place:
                raise UsageError(f"--out: {where} could not be written whole: {first_line(error)}") from error
            remove(made)
            raise UsageError(f"--out: {where} could not be written and was removed: {first_line(error)}") from error
        written.append(where)
    return written
