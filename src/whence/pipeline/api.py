"""The pipeline for programs and notebooks: functions from paths and DataFrames to DataFrames.

Each takes a session: one of Spark (`session()`), or of the local engine (`with local_session() as session:`), on which
everything but logs works alike. `frames` has the functions of columns for both.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from whence.errors import UsageError
from whence.pipeline import log_reader
from whence.pipeline import merge as merging
from whence.pipeline import metrics as measuring
from whence.pipeline import verify as judging
from whence.pipeline.columns import EVS, IDS_SHOWN, PROMISE, RUN_ID, SENTENCE
from whence.pipeline.events import find_input, read_events, small_table
from whence.pipeline.frames import DataFrame, SparkSession
from whence.pipeline.local.session import LocalSession, is_local_engine, local_session
from whence.pipeline.logs import read_mapping
from whence.pipeline.session import session
from whence.pipeline.storage import located
from whence.trace.schema import GRP, INC, NODE

__all__ = [
    "Judgement", "local_session", "merge", "metrics", "read_live", "read_logs", "read_trace", "session", "verify",
]  # fmt: skip

_VERDICTS: Final = f"{RUN_ID} string, level string, {PROMISE} string, outcome string, count bigint, {SENTENCE} string"
_VIOLATIONS: Final = (
    f"{RUN_ID} string, {PROMISE} string, {NODE} int, {INC} int, {GRP} string, {SENTENCE} string, {EVS} array<bigint>, "
    f"{IDS_SHOWN} array<string>"
)


class Judgement(NamedTuple):
    """What was found about some runs: a row per verdict, and a row per witness of what is broken."""

    verdicts: DataFrame
    violations: DataFrame


def read_trace(session: SparkSession, *paths: Path | str) -> DataFrame:
    """Return the rows of all runs below some paths: `run_id`, `kind` and the columns of a trace. Raises TraceError.

    Rows that were shipped twice are there once, and rows that do not say whose they are are left out.
    """
    _check_session(session)
    return read_events(session, find_input(paths)).events


def verify(session: SparkSession, *paths: Path | str, promises: Iterable[str] | str | None = None) -> Judgement:
    """Judge all runs below some paths, by their own promises or by those named. Raises TraceError and UsageError.

    Of a broken promise at most 1,000 witnesses are told; their events are named as publisher.incarnation.number.
    """
    _check_session(session)
    done = judging.verify(session, paths, promises)
    every = [(judged.run, verdict) for judged in done.runs for verdict in judged.verdicts]
    verdicts = [
        {RUN_ID: run.run_id, "level": run.level, PROMISE: verdict.promise, "outcome": verdict.outcome.value,
         "count": verdict.count, SENTENCE: verdict.sentence}
        for run, verdict in every
    ]  # fmt: skip
    witnesses = [
        {RUN_ID: run.run_id, PROMISE: found.promise, NODE: found.node, INC: found.inc, GRP: found.grp,
         SENTENCE: found.sentence, EVS: list(found.evs),
         IDS_SHOWN: [f"{each.pid}.{each.incarnation}.{each.seq}" for each in found.ids]}
        for run, verdict in every for found in verdict.violations
    ]  # fmt: skip
    return Judgement(small_table(session, verdicts, _VERDICTS), small_table(session, witnesses, _VIOLATIONS))


@contextmanager
def metrics(session: SparkSession, *paths: Path | str) -> Iterator[dict[str, DataFrame]]:
    """Yield the tables that `whence metrics` writes, by name; they can be read within the block. Raises TraceError."""
    _check_session(session)
    with measuring.measures(session, find_input(paths)) as tables:
        yield {name: make(tables) for name, make in measuring.TABLES.items()}


def read_logs(
    session: SparkSession, path: Path | str, mapping: Mapping[str, str] | Path | str | None = None
) -> DataFrame:
    """Return the rows of publishers' logs on Spark; `reason` says why one has no place in the order. Raises UsageError,
    and TraceError for a trace that did not finish.

    `mapping` gives our columns as SQL expressions over those of the log, or is the path of a mapping file.
    """
    _check_session(session)
    if is_local_engine(session):
        raise UsageError("logs are read as tables on Spark alone: give the session of api.session()")
    given = read_mapping(located(mapping, lambda: session)) if isinstance(mapping, Path | str) else mapping
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"mapping must be a dictionary or the path of a mapping file, not {given!r}")
    return log_reader.read_logs(session, path, given)


def read_live(session: SparkSession, *paths: Path | str, group: str) -> DataFrame:
    """Return the rows that the running nodes of a group have written below some paths or URIs, on Spark: the columns of
    a trace, `kind`, and the names `name` of the row's process and `publisher` of the event's. Raises UsageError."""
    _check_session(session)
    if is_local_engine(session):
        raise UsageError("segments of live nodes are read as tables on Spark alone: give the session of api.session()")
    from whence.pipeline.live_rows import live_rows

    return live_rows(session, [located(path, lambda: session) for path in paths], group)


def merge(logs: DataFrame, *, by_group: bool = True, parts: int = 16) -> DataFrame:
    """Return the events of logs that were read, each with its place `pos` in its group's order, or in one over all.

    Rows without a place, and those that only tell the time, are left out; an event that is there twice stays twice.
    """
    if not hasattr(logs, "columns"):
        raise UsageError(f"merge takes the rows that read_logs returns, not {logs!r}")
    events = merging.events_of_groups(logs, None)
    return merging.merged_by_group(events, parts) if by_group else merging.merged_in_one(events, parts)


def _check_session(session: object) -> None:
    """Check that a session is one, and open. Raises UsageError."""
    if not hasattr(session, "createDataFrame"):
        raise UsageError(f"the first argument must be a session of session() or local_session(), not {session!r}")
    if isinstance(session, LocalSession) and session.is_closed:
        raise UsageError("the session is closed: a local one lasts as long as its with block")
