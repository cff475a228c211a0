"""Judge runs by their promises on Spark: a table of verdicts, and of witnesses with their sentences.

The names, the meaning and the answers are those of `whence check`; the code is independent of it, so that each is
a check of the other. A finding that rests on absence counts only in runs whose rows are all there.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.check.levels import promises_of
from whence.check.verdict import Outcome, Verdict, Violation
from whence.errors import TraceError, UsageError
from whence.pipeline.certificate import PROVABLE, proved_verdicts
from whence.pipeline.columns import EVS, IDS_SHOWN, KIND, PROMISE, RUN_ID, SENTENCE
from whence.pipeline.events import (
    Events,
    Input,
    SetAside,
    find_input,
    founders_table,
    read_events,
    rows_by_run,
    runs_table,
)
from whence.pipeline.promise_tables import PROMISES, PromiseTables, all_violations
from whence.pipeline.session import configure_for_size, first_line, is_local
from whence.pipeline.verdicts import verdict_table, witness_table
from whence.trace.memory import Run
from whence.trace.schema import GRP, INC, NODE, Kind
from whence.types import EventId

ROWS_AT_ONCE = 2_000_000
"""Rows of runs that are judged together where one pass does not settle them: a judgement holds what it has found of all
of them at once. A run with more is judged alone."""


class Judged(NamedTuple):
    """The verdicts about one run."""

    run: Run
    verdicts: list[Verdict]


class Verified(NamedTuple):
    """The verdicts about all runs, and what could not be used."""

    runs: list[Judged]
    set_aside: list[SetAside]

    @property
    def broken(self) -> bool:
        """Return whether any promise of any run is broken."""
        return any(verdict.outcome is Outcome.BROKEN for judged in self.runs for verdict in judged.verdicts)


def verify(
    spark: SparkSession, paths: Iterable[Path | str], promises: Iterable[str] | None = None, *,
    certify: bool | None = None, found: Input | None = None,
) -> Verified:  # fmt: skip
    """Judge every run below the paths, by the given promises or its own. Raises TraceError and UsageError.

    `certify` first looks for runs that one pass proves correct; None: only where the input is large.
    `found` is what find_input returned for the paths, if it was called already.
    """
    given, names = list(paths), check_promises(promises)
    found = find_input(given) if found is None else found
    try:
        return _verified(spark, found, names, certify)
    except Exception as error:
        if not _is_unreadable(error):
            raise
    # A file whose beginning and end are sound may still be torn in the middle: read all, and set those aside too.
    found = find_input(given, thorough=True)
    try:
        return _verified(spark, found, names, certify)
    except Exception as error:
        raise TraceError(f"the trace cannot be read: {first_line(error)}") from error


def _is_unreadable(error: BaseException) -> bool:
    """Return whether Spark failed on a file's bytes; its messages quote whole plans, so only the first line counts."""
    words = ("FAILED_READ_FILE", "ParquetDecodingException", "CANNOT_READ_FILE", "corrupt")
    return not isinstance(error, AnalysisException) and any(word in str(error)[:2000] for word in words)


def _verified(spark: SparkSession, found: Input, names: list[str] | None, certify: bool | None) -> Verified:
    configure_for_size(spark, found.bytes)
    wanted = {run_id: list(promises_of(run)) if names is None else names for run_id, run in found.runs.items()}
    with TemporaryDirectory(prefix="whence-") as scratch:
        events = read_events(spark, found, wanted, Path(scratch) if is_local(spark) else None)
        try:
            judged = proved_verdicts(events, wanted) if certify or (certify is None and not events.is_small) else {}
            open_ones = {run: [each for each in wanted[run] if each not in judged.get(run, {})] for run in wanted}
            for some in batches(events, open_ones):
                tables = PromiseTables(still_open(spark, events, found, some))
                try:
                    for run_id, verdicts in _judged(tables).items():
                        judged.setdefault(run_id, {}).update(verdicts)
                finally:
                    tables.close()
        finally:
            events.lives.unpersist()
    by_run = [
        Judged(run, [judged[run_id][promise] for promise in wanted[run_id]]) for run_id, run in found.runs.items()
    ]  # fmt: skip
    return Verified(by_run, events.set_aside)


def batches(events: Events, open_ones: dict[str, list[str]]) -> Iterator[dict[str, list[str]]]:
    """Return the runs that something is left to judge of, as many at a time as have no more than ROWS_AT_ONCE rows."""
    left = {run_id: promises for run_id, promises in open_ones.items() if promises}
    rows = rows_by_run(events.lives, "all_rows", F.col("rows")) if len(left) > 1 else {}
    batch: dict[str, list[str]] = {}
    room = ROWS_AT_ONCE
    for run_id, promises in left.items():
        room -= rows.get(run_id, 0)
        if batch and room < 0:
            yield batch
            batch, room = {}, ROWS_AT_ONCE - rows.get(run_id, 0)
        batch[run_id] = promises
    if batch:
        yield batch


def still_open(spark: SparkSession, events: Events, found: Input, open_ones: dict[str, list[str]]) -> Events:
    """Return the events of some runs that something is left to judge of; deliveries only where it rests on them."""
    by_deliveries = [run for run, promises in open_ones.items() if set(promises) & set(PROVABLE)]
    by_others = [run for run, promises in open_ones.items() if promises and run not in by_deliveries]
    rows = events.events
    if len(by_deliveries) < len(found.runs):
        rest = F.col(RUN_ID).isin(by_others) & (F.col(KIND) != Kind.DELIVER.value)
        rows = rows.filter(F.col(RUN_ID).isin(by_deliveries) | rest)
    some = found._replace(runs={run_id: found.runs[run_id] for run_id in open_ones})
    return events._replace(
        events=rows, runs=runs_table(spark, some, open_ones), founders=founders_table(spark, some),
        lives=events.lives.filter(F.col(RUN_ID).isin(list(open_ones))),
    )  # fmt: skip


def _judged(tables: PromiseTables) -> dict[str, dict[str, Verdict]]:
    against = tables.keep(all_violations(tables))
    shown = collect_witnesses(against)
    judged: dict[str, dict[str, Verdict]] = {}
    for row in verdict_table(tables, against).collect():
        witnesses = shown.get((row[RUN_ID], row[PROMISE]), []) if row["count"] else []
        judged.setdefault(row[RUN_ID], {})[row[PROMISE]] = Verdict(
            promise=row[PROMISE], outcome=Outcome(row["outcome"]), sentence=row[SENTENCE],
            count=row["count"], violations=witnesses,
        )  # fmt: skip
    return judged


def check_promises(promises: Iterable[str] | None) -> list[str] | None:
    """Return the names of promises, or None for each run's own. Raises UsageError for an unknown one."""
    names = None if promises is None else list(promises)
    for name in names or ():
        if name not in PROMISES:
            raise UsageError(f"no promise that Spark judges is called {name!r}; there are {', '.join(PROMISES)}")
    return names


def collect_witnesses(violations: DataFrame) -> dict[tuple[str, str], list[Violation]]:
    """Return the witnesses by run and promise."""
    shown: dict[tuple[str, str], list[Violation]] = {}
    for row in witness_table(violations).orderBy(RUN_ID, PROMISE, "number").collect():
        shown.setdefault((row[RUN_ID], row[PROMISE]), []).append(
            Violation(
                promise=row[PROMISE], node=row[NODE], inc=row[INC], grp=row[GRP], sentence=row[SENTENCE],
                ids=tuple(EventId(each["pid"], each["inc"], each["seq"]) for each in row[IDS_SHOWN]),
                evs=tuple(row[EVS]),
            )
        )  # fmt: skip
    return shown
