"""Judge runs by their promises on Spark: a table of verdicts, and of witnesses with their sentences.

The names, the meaning and the answers are those of `whence check`; the code is written apart from it, so that each is
a witness for the other. A finding that rests on absence counts only in runs whose rows are all there.
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.check.judge import promises_of
from whence.check.verdict import Outcome, Verdict, Violation
from whence.errors import TraceError, UsageError
from whence.pipeline.certificate import PROVABLE, proofs
from whence.pipeline.columns import EVS, IDS_SHOWN, KIND, PROMISE, RUN_ID, SENTENCE
from whence.pipeline.docket import PROMISES, Docket, violations_table
from whence.pipeline.events import Events, Input, SetAside, find_input, read_events, runs_table
from whence.pipeline.session import first_line, is_local, suit
from whence.pipeline.verdicts import verdict_table, witness_table
from whence.trace.memory import Run
from whence.trace.schema import GRP, INC, NODE, Kind
from whence.types import EventId


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
        """Tell whether any promise of any run is broken."""
        return any(verdict.outcome is Outcome.BROKEN for judged in self.runs for verdict in judged.verdicts)


def verify(
    spark: SparkSession, paths: Iterable[Path | str], promises: Iterable[str] | None = None, *,
    certify: bool | None = None, found: Input | None = None,
) -> Verified:  # fmt: skip
    """Judge every run below the paths, by the given promises or its own. Raises TraceError and UsageError.

    `certify` first looks for runs that show in one pass that all went well; unless told, where the input is large.
    `found` is what lies below the paths, for who has looked already.
    """
    given, names = list(paths), asked(promises)
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
    """Tell whether Spark failed on a file's bytes; its messages quote whole plans, so only the first line counts."""
    words = ("FAILED_READ_FILE", "ParquetDecodingException", "CANNOT_READ_FILE", "corrupt")
    return not isinstance(error, AnalysisException) and any(word in str(error)[:2000] for word in words)


def _verified(spark: SparkSession, found: Input, names: list[str] | None, certify: bool | None) -> Verified:
    suit(spark, found.bytes)
    wanted = {run_id: list(promises_of(run)) if names is None else names for run_id, run in found.runs.items()}
    with TemporaryDirectory(prefix="whence-") as scratch:
        events = read_events(spark, found, wanted, Path(scratch) if is_local(spark) else None)
        try:
            judged = proofs(events, wanted) if certify or (certify is None and not events.is_small) else {}
            open_ones = {run: [each for each in wanted[run] if each not in judged.get(run, {})] for run in wanted}
            if any(open_ones.values()):
                tables = Docket(still_open(spark, events, found, open_ones))
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


def still_open(spark: SparkSession, events: Events, found: Input, open_ones: dict[str, list[str]]) -> Events:
    """Return the events of the runs that something is left to judge of; deliveries only where it rests on them."""
    by_deliveries = [run for run, promises in open_ones.items() if set(promises) & set(PROVABLE)]
    by_others = [run for run, promises in open_ones.items() if promises and run not in by_deliveries]
    rows = events.events
    if len(by_deliveries) < len(open_ones):
        rest = F.col(RUN_ID).isin(by_others) & (F.col(KIND) != Kind.DELIVER.value)
        rows = rows.filter(F.col(RUN_ID).isin(by_deliveries) | rest)
    return events._replace(events=rows, runs=runs_table(spark, found, open_ones))


def _judged(tables: Docket) -> dict[str, dict[str, Verdict]]:
    against = tables.keep(violations_table(tables))
    shown = collect_witnesses(against)
    judged: dict[str, dict[str, Verdict]] = {}
    for row in verdict_table(tables, against).collect():
        witnesses = shown.get((row[RUN_ID], row[PROMISE]), []) if row["count"] else []
        judged.setdefault(row[RUN_ID], {})[row[PROMISE]] = Verdict(
            promise=row[PROMISE], outcome=Outcome(row["outcome"]), sentence=row[SENTENCE],
            count=row["count"], violations=witnesses,
        )  # fmt: skip
    return judged


def asked(promises: Iterable[str] | None) -> list[str] | None:
    """Check the names of promises. Raises UsageError for one that nobody judges here."""
    names = None if promises is None else list(promises)
    for name in names or ():
        if name not in PROMISES:
            raise UsageError(f"no promise that Spark judges is called {name!r}; there are {', '.join(PROMISES)}")
    return names


def collect_witnesses(against: DataFrame) -> dict[tuple[str, str], list[Violation]]:
    """Bring the witnesses to the report."""
    shown: dict[tuple[str, str], list[Violation]] = {}
    for row in witness_table(against).orderBy(RUN_ID, PROMISE, "number").collect():
        shown.setdefault((row[RUN_ID], row[PROMISE]), []).append(
            Violation(
                promise=row[PROMISE], node=row[NODE], inc=row[INC], grp=row[GRP], sentence=row[SENTENCE],
                ids=tuple(EventId(each["pid"], each["inc"], each["seq"]) for each in row[IDS_SHOWN]),
                evs=tuple(row[EVS]),
            )
        )  # fmt: skip
    return shown
