"""A trace that is merged as a log must have all its rows: which of them are missing, publications or others, nobody can
say, and an order without some of them looks like one with all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from whence.errors import UsageError
from whence.pipeline.columns import KIND
from whence.pipeline.events import find_input, incomplete_runs, read_events
from whence.pipeline.frames import DataFrame, F, SparkSession
from whence.pipeline.storage import AnyPath
from whence.trace.layout import RUN_PREFIX
from whence.trace.schema import T_TRUE, Kind, L

_REST: Final = "to merge what is left, copy its publications (kind=publish) elsewhere, and give those as LOGS"


def check_whole(session: SparkSession, files: Sequence[AnyPath]) -> None:
    """Check that the trace of which files of publications are, if they are of one, lacks no row and can be ordered.

    Rows that are there twice are no reason to refuse it: a merge sets the others aside.

    Raises TraceError for a run that did not finish, and UsageError.
    """
    runs = {run for file in files if (run := _run_of(file)) is not None}
    if not runs:
        return
    run = runs.pop()
    known = read_events(session, find_input([run]))
    try:
        for aside in [each for each in known.set_aside if each.is_unreadable]:
            raise UsageError(f"LOGS: {aside.path}: {aside.reason}; {_REST}")
        for row in incomplete_runs(known.lives, known.runs).collect():
            raise UsageError(f"LOGS: {run}: {row['incomplete']}; {_REST}")
        _check_order(known.events, run)
    finally:
        known.lives.unpersist()


def _run_of(file: AnyPath) -> AnyPath | None:
    """Return the directory of the run whose publications are in a file; None for other logs."""
    where: AnyPath = file.absolute() if isinstance(file, Path) else file
    is_of_run = where.parent.name == f"{KIND}={Kind.PUBLISH.value}" and where.parent.parent.name.startswith(RUN_PREFIX)
    return where.parent.parent if is_of_run else None


def _check_order(rows: DataFrame, run: AnyPath) -> None:
    """Check that some publication has a key or true time. Raises UsageError."""
    published = rows.filter(F.col(KIND) == Kind.PUBLISH.value)
    told = published.agg(
        F.count("*").alias("all"), F.count_if(F.col(L).isNotNull() | F.col(T_TRUE).isNotNull()).alias("placed")
    ).collect()[0]
    if told["all"] and not told["placed"]:
        raise UsageError(
            f"LOGS: {run}: its publications have neither keys nor true time, so nothing says how they follow each "
            "other; if all nodes ran on one machine, gather the trace with --one-clock"
        )
