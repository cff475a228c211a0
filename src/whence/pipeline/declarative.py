"""The verification and the metrics as a Spark Declarative Pipeline, for teams that schedule such: the same functions.

A definitions file of a pipeline calls `define(spark)`; examples/declarative has one that runs as it is:

    spark-pipelines run --spec examples/declarative/spark-pipeline.yml

Its configuration names the traces (whence.traces) and, if not each run's own, the promises (whence.promises, separated
by commas). The tables: events, lives, violations_… by promise, violations, verdicts, witnesses, run_metrics,
window_metrics, latency_cdf and ticket_holds. A pipeline only describes its tables, so nothing here looks at rows: rows
that say nothing and rows that are there twice are always taken out, and no run is settled by a certificate. Runs on
views are measured, and their verdicts are unknown here: `whence verify` judges them.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Final

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

from whence.check.levels import is_living, promises_of
from whence.check.verdict import Outcome
from whence.errors import UsageError
from whence.pipeline.columns import KIND, PROMISE, RUN_ID, SENTENCE, union
from whence.pipeline.events import (
    Events,
    Input,
    find_input,
    founders_table,
    lives_table,
    raw_events,
    runs_table,
    valid_rows,
    with_life,
)
from whence.pipeline.metrics import TABLES, Measures
from whence.pipeline.promise_tables import PromiseTables, counted_violations, violation_tables
from whence.pipeline.storage import located
from whence.pipeline.verdicts import verdict_table, witness_table
from whence.pipeline.verify import check_promises
from whence.trace.schema import COLUMNS

TRACES: Final = "whence.traces"
PROMISES: Final = "whence.promises"
UNJUDGED: Final = "a pipeline does not judge groups on views; whence verify does"
IN_PYTHON: Final = ("violations_causal", "violations_total")
"""Tables made by Python from groups of rows. Their plans name all columns, which a table that is not made yet cannot
tell; the others must read tables, because a plan from the files on would be deeper than Spark Connect takes."""


def define(spark: SparkSession) -> None:
    """Describe every table to the pipeline that is being defined. Raises UsageError and TraceError."""
    traces = spark.conf.get(TRACES, None)
    if not traces:
        raise UsageError(f"the pipeline's configuration must name the directory of traces as {TRACES}")
    names = spark.conf.get(PROMISES, None)
    found = find_input([located(traces, lambda: spark)])
    wanted = check_promises(names.split(",")) if names else None
    fixed, on_views = _apart(found)
    promises = {run_id: wanted or list(promises_of(run)) for run_id, run in found.runs.items()}
    unjudged = {run_id: promises.pop(run_id) for run_id in on_views.runs}
    described: dict[str, Callable[[], DataFrame]] = {
        "events": lambda: clean_events(spark, found),
        "lives": lambda: lives_table(spark.read.table("events")).filter("node is not null"),
        "verdicts": lambda: verdict_table(
            Described(_events(spark, fixed, promises), promises), spark.read.table("violations")
        ).unionByName(unjudged_table(spark, on_views, unjudged)),
        "witnesses": lambda: witness_table(spark.read.table("violations")),
    }
    parts = {f"violations_{name}": make for name, make in violation_tables(set().union(*promises.values())).items()}
    for name, make_part in parts.items():
        read = _read_events if name in IN_PYTHON else _events
        described[name] = lambda make=make_part, read=read: _part(
            make, Described(read(spark, fixed, promises), promises)
        )  # type: ignore[misc]
    described["violations"] = lambda: union([spark.read.table(name) for name in parts])
    for name, make in TABLES.items():
        described[name] = lambda make=make: make(DescribedMeasures(_events(spark, found, promises)))  # type: ignore[misc]
    for name, make_table in described.items():
        pipelines.materialized_view(name=name)(make_table)


def _apart(found: Input) -> tuple[Input, Input]:
    """Return the runs whose members do not change by views, and those whose members do."""
    fixed = {run_id: run for run_id, run in found.runs.items() if not is_living(run)}
    on_views = {run_id: run for run_id, run in found.runs.items() if is_living(run)}
    return found._replace(runs=fixed), found._replace(runs=on_views)


def unjudged_table(spark: SparkSession, found: Input, promises: dict[str, list[str]]) -> DataFrame:
    """Return a verdict for every promise of some runs: unknown, and who judges it."""
    rows = [
        (
            run_id,
            number,
            promise,
            Outcome.UNKNOWN.value,
            0,
            UNJUDGED,
            run.level,
        )
        for run_id, run in found.runs.items()
        for number, promise in enumerate(promises[run_id])
    ]
    shape = (
        f"{RUN_ID} string, number int, {PROMISE} string, outcome string, count bigint, {SENTENCE} string, level string"
    )
    return spark.createDataFrame(rows, shape)


def _part(make: Callable[[PromiseTables], DataFrame], tables: PromiseTables) -> DataFrame:
    return counted_violations(tables, make(tables))


def clean_events(spark: SparkSession, found: Input) -> DataFrame:
    """Return clean events, whether or not anything had to be taken out."""
    rows = valid_rows(raw_events(spark, found)).dropDuplicates([RUN_ID, KIND, *COLUMNS])
    return with_life(rows, lives_table(rows).filter("node is not null"), found)


def _events(spark: SparkSession, found: Input, promises: dict[str, list[str]]) -> Events:
    events, lives = spark.read.table("events"), spark.read.table("lives")
    return Events(runs_table(spark, found, promises), founders_table(spark, found), events, lives, [])


def _read_events(spark: SparkSession, found: Input, promises: dict[str, list[str]]) -> Events:
    """Describe the same from the files on, for those IN_PYTHON."""
    events = clean_events(spark, found)
    lives = lives_table(events).filter("node is not null")
    return Events(runs_table(spark, found, promises), founders_table(spark, found), events, lives, [])


class Described(PromiseTables):
    """Tables that are described and not made: nothing is kept, and what is wanted is known beforehand."""

    def __init__(self, events: Events, promises: dict[str, list[str]]) -> None:
        self._promises = promises
        super().__init__(events)

    @cached_property
    def wanted(self) -> set[str]:
        """The promises that any run is judged by."""
        return {promise for names in self._promises.values() for promise in names}

    def keep(self, table: DataFrame) -> DataFrame:
        """Return the table: whoever reads it makes it."""
        return table


class DescribedMeasures(Measures):
    """The same for what is measured."""

    def keep(self, table: DataFrame) -> DataFrame:
        """Return the table: whoever reads it makes it."""
        return table
