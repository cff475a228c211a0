"""The report: one HTML page that needs nothing else, with verdicts, numbers and plots of any number of runs."""

import os
from collections.abc import Sequence
from contextlib import suppress

from whence.errors import UsageError
from whence.pipeline.columns import RUN_ID
from whence.pipeline.events import Input, find_input
from whence.pipeline.frames import SparkSession
from whence.pipeline.metrics import latency_cdf, measures, run_metrics, ticket_timeline, window_metrics
from whence.pipeline.page import Measured, report_page
from whence.pipeline.storage import AnyPath, UriPath, put
from whence.pipeline.stories import broken_promises
from whence.pipeline.verify import Verified, verify
from whence.trace.schema import EPOCH, GRP


def measure(spark: SparkSession, paths: Sequence[AnyPath], found: Input | None = None) -> Measured:
    """Bring the numbers of all runs below the paths to the report. Raises TraceError."""
    found = find_input(paths) if found is None else found
    simulated = frozenset(run_id for run_id, run in found.runs.items() if "network" in run.parameters)
    with measures(spark, found) as tables:
        return Measured(
            run_metrics(tables).orderBy("level", RUN_ID, GRP).collect(),
            window_metrics(tables).orderBy(RUN_ID, "window", GRP).collect(),
            latency_cdf(tables).orderBy(RUN_ID, "percent").collect(),
            ticket_timeline(tables).orderBy(RUN_ID, "ticket", "since", EPOCH, GRP).collect(),
            simulated,
        )


def write_report(spark: SparkSession, paths: Sequence[AnyPath], out: AnyPath, found: Input | None = None) -> Verified:
    """Judge and measure all runs and write the page; return the verdicts. Raises TraceError and UsageError."""
    found = find_input(paths) if found is None else found
    judged = verify(spark, paths, found=found)
    write_page(out, report_page(judged, measure(spark, paths, found), broken_promises(found, judged)))
    return judged


def write_page(out: AnyPath, page: str) -> None:
    """Write a page whole or not at all. Raises UsageError and StorageError."""
    if isinstance(out, UriPath):
        put(out, page.encode())
        return
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.unfinished")  # of two at once, the later page stays whole
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(page, encoding="utf-8")
        unfinished.replace(out)
    except OSError as error:
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            unfinished.unlink(missing_ok=True)
        raise UsageError(f"--out: {out} cannot be written: {error.strerror}") from None
