"""Judge runs by their promises, as tables: a table of verdicts, and of witnesses with their sentences.

The names, the meaning and the answers are those of `whence check`; the code is independent of it, so that each is
a check of the other. A finding that rests on absence counts only in runs whose rows are all there.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from whence.check.levels import is_living, promises_of
from whence.check.verdict import Outcome, Verdict, Violation, vacuous
from whence.errors import TraceError, UsageError
from whence.pipeline.certificate import PROVABLE, Certified, certified
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
from whence.pipeline.frames import DataFrame, F, SparkSession
from whence.pipeline.living.promise_tables import JUDGEMENTS, LivingPromiseTables, living_violations
from whence.pipeline.living.verdicts import living_verdicts
from whence.pipeline.neighbourhood import can_be_judged_nearby, nearby_events, settled
from whence.pipeline.promise_tables import PROMISES, PromiseTables, all_violations, counted_violations
from whence.pipeline.promises import bounds
from whence.pipeline.remote_runs import ROW_BYTES
from whence.pipeline.session import (
    SMALL_BYTES,
    configure_for_size,
    first_line,
    is_local,
    is_out_of_memory,
    is_overflow,
)
from whence.pipeline.storage import AnyPath, located
from whence.pipeline.verdicts import Told, verdict_table, witness_table
from whence.trace.memory import Run
from whence.trace.schema import GRP, INC, NODE, Kind
from whence.types import EventId

ALL_PROMISES: Final = tuple(dict.fromkeys((*PROMISES, *JUDGEMENTS)))
"""Every promise that can be judged here, by the name it has in JSON."""

ROWS_AT_ONCE = 2_000_000
"""Rows of runs, but for those of traffic, that are judged together where one pass does not settle them: a judgement
holds what it has found of all of them at once. A run with more is judged alone."""


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
    spark: SparkSession, paths: Iterable[AnyPath | str], promises: Iterable[str] | None = None, *,
    certify: bool | None = None, found: Input | None = None,
) -> Verified:  # fmt: skip
    """Judge every run below the paths, by the given promises or its own. Raises TraceError and UsageError.

    `certify` first looks for runs that one pass proves correct; None: only where the input is large.
    `found` is what find_input returned for the paths, if it was called already.
    """
    given, names = [located(path, lambda: spark) for path in paths], check_promises(promises)
    found = find_input(given) if found is None else found
    try:
        return _verified(spark, found, names, certify)
    except Exception as error:
        if is_overflow(error):
            raise TraceError(f"the trace cannot be judged, a number in it is too large: {first_line(error)}") from error
        if is_out_of_memory(error):
            raise TraceError(f"the trace cannot be judged: {first_line(error)}") from error
        if not _is_unreadable(error):
            raise
    # A file whose beginning and end are sound may still be torn in the middle: read all, and set those aside too.
    found = find_input(given, thorough=True)
    try:
        return _verified(spark, found, names, certify)
    except Exception as error:
        raise TraceError(f"the trace cannot be read: {first_line(error)}") from error


def _is_unreadable(error: BaseException) -> bool:
    """Return whether an engine failed on a file's bytes; Spark quotes whole plans, so only the first line counts."""
    words = ("FAILED_READ_FILE", "ParquetDecodingException", "CANNOT_READ_FILE", "corrupt")
    return type(error).__name__ != "AnalysisException" and any(word in str(error)[:2000] for word in words)


def _verified(spark: SparkSession, found: Input, names: list[str] | None, certify: bool | None) -> Verified:
    configure_for_size(spark, found.bytes)
    wanted = {run_id: list(promises_of(run)) if names is None else names for run_id, run in found.runs.items()}
    with TemporaryDirectory(prefix="whence-") as scratch:
        events = read_events(spark, found, wanted, Path(scratch) if is_local(spark) else None)
        try:
            living = {run_id for run_id, run in found.runs.items() if is_living(run)}
            judged = {run_id: not_promised(run, wanted[run_id]) for run_id, run in found.runs.items()}
            rows = rows_by_run(events.lives, "rows", F.col("told"))
            if certify or (certify is None and sum(rows.values()) * ROW_BYTES >= SMALL_BYTES):
                fixed = {run_id: promises for run_id, promises in wanted.items() if run_id not in living}
                walked = certified(events, fixed)
                for run_id, verdicts in walked.verdicts.items():
                    judged[run_id].update(verdicts)
                for run_id, verdicts in _judged_nearby(spark, events, found, walked, _left(fixed, judged)).items():
                    judged[run_id].update(verdicts)
            for some in batches(rows, _left(wanted, judged), living):
                size = ROW_BYTES * sum(rows.get(run_id, 0) for run_id in some)
                configure_for_size(spark, size)
                here = still_open(spark, events, found, some)._replace(is_small=size < SMALL_BYTES)
                for run_id, verdicts in (_judged_on_views(here) if living & set(some) else _judged(here)).items():
                    judged[run_id].update(verdicts)
        finally:
            events.lives.unpersist()
    by_run = [
        Judged(run, [judged[run_id][promise] for promise in wanted[run_id]]) for run_id, run in found.runs.items()
    ]  # fmt: skip
    return Verified(by_run, events.set_aside)


def _left(wanted: dict[str, list[str]], judged: dict[str, dict[str, Verdict]]) -> dict[str, list[str]]:
    """Return what is left to judge of each run."""
    return {run: [each for each in promises if each not in judged[run]] for run, promises in wanted.items()}


def not_promised(run: Run, asked: list[str]) -> dict[str, Verdict]:
    """Return the verdicts on what only runs of the other kind promise: those on views, or those that are not."""
    if is_living(run):
        return {name: vacuous(name, "groups on views do not promise it") for name in asked if name not in JUDGEMENTS}
    return {name: vacuous(name, "only groups on views promise it") for name in asked if name not in PROMISES}


def batches(
    rows: dict[str, int], open_ones: dict[str, list[str]], on_views: set[str]
) -> Iterator[dict[str, list[str]]]:
    """Return the runs that something is left to judge of, as many at a time as have no more than ROWS_AT_ONCE rows;
    runs on views apart from others."""
    left = {run_id: promises for run_id, promises in open_ones.items() if promises}
    for kind in (False, True):
        batch: dict[str, list[str]] = {}
        room = ROWS_AT_ONCE
        for run_id in [run_id for run_id in left if (run_id in on_views) is kind]:
            room -= rows.get(run_id, 0)
            if batch and room < 0:
                yield batch
                batch, room = {}, ROWS_AT_ONCE - rows.get(run_id, 0)
            batch[run_id] = left[run_id]
        if batch:
            yield batch


def still_open(spark: SparkSession, events: Events, found: Input, open_ones: dict[str, list[str]]) -> Events:
    """Return the events of some runs that something is left to judge of; deliveries only where it rests on them."""
    rests = {*PROVABLE, *JUDGEMENTS} - {bounds.PROMISE}
    by_deliveries = [run for run, promises in open_ones.items() if set(promises) & rests]
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


def _judged_nearby(
    spark: SparkSession, events: Events, found: Input, walked: Certified, left: dict[str, list[str]]
) -> dict[str, dict[str, Verdict]]:
    """Judge what the pass left open of the runs that it walked, on the neighbourhood of their trouble."""
    near = {
        run_id: [promise for promise in left[run_id] if can_be_judged_nearby(promise, seen)]
        for run_id, seen in walked.seen.items()
    }
    near = {run_id: promises for run_id, promises in near.items() if promises}
    if not near:
        return {}
    rows = nearby_events(events, walked, near)
    size = ROW_BYTES * rows.count()
    configure_for_size(spark, size)
    some = found._replace(runs={run_id: found.runs[run_id] for run_id in near})
    here = events._replace(
        events=rows, runs=runs_table(spark, some, near), founders=founders_table(spark, some),
        is_small=size < SMALL_BYTES, is_clean=False,
        lives=events.lives.filter(F.col(RUN_ID).isin(list(near))),
    )  # fmt: skip
    judged: dict[str, dict[str, Verdict]] = {}
    for run_id, verdicts in _judged(here).items():
        told = {promise: settled(promise, verdict, walked.seen[run_id]) for promise, verdict in verdicts.items()}
        judged[run_id] = {promise: verdict for promise, verdict in told.items() if verdict is not None}
    return judged


def _judged(events: Events) -> dict[str, dict[str, Verdict]]:
    tables = PromiseTables(events)
    try:
        against = tables.keep(all_violations(tables))
        rows = verdict_table(tables, against).collect()
        told = [Told(row[RUN_ID], row[PROMISE], Outcome(row["outcome"]), row["count"], row[SENTENCE]) for row in rows]
        return _collected(told, against)
    finally:
        tables.close()


def _judged_on_views(events: Events) -> dict[str, dict[str, Verdict]]:
    tables = LivingPromiseTables(events)
    try:
        against = tables.keep(counted_violations(tables, living_violations(tables)))
        return _collected(living_verdicts(tables, against), against)
    finally:
        tables.close()


def _collected(told: list[Told], against: DataFrame) -> dict[str, dict[str, Verdict]]:
    shown = collect_witnesses(against) if any(each.violations for each in told) else {}
    judged: dict[str, dict[str, Verdict]] = {}
    for each in told:
        witnesses = shown.get((each.run_id, each.promise), []) if each.violations else []
        judged.setdefault(each.run_id, {})[each.promise] = Verdict(
            promise=each.promise, outcome=each.outcome, sentence=each.sentence,
            count=each.violations, violations=witnesses,
        )  # fmt: skip
    return judged


def check_promises(promises: Iterable[str] | None) -> list[str] | None:
    """Return the names of promises, or None for each run's own. Raises UsageError for an unknown one."""
    names = None if promises is None else [promises] if isinstance(promises, str) else list(promises)
    for name in names or ():
        if name not in ALL_PROMISES:
            raise UsageError(f"no promise that is judged here is called {name!r}; there are {', '.join(ALL_PROMISES)}")
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
