"""Streaming merge: publishers' logs that keep growing become the same order as in batch, as soon as it is safe.

Every micro-batch b reads the manifest of the step before it, never a clock: W is the tick up to which everything is
released. New rows at or below the old W are late and go to a side table; rows between the old W and the new one are
released, in the order of the key; the rest is pending. Rows that have no place in any order are set aside as rejected,
further rows of an event that is released or late already as duplicates. Pending rows are not written again: the step
keeps the files they are in, by a link of its own where the file system has links, and the manifest has the range of
ticks of each file, so that a later step reads just those that are due. Then the manifest is moved into place: that is
the commit. A batch that is repeated after a crash, at whatever point, reads the same files and the same manifest and
overwrites its rows with the same rows; a batch that has a manifest is not repeated. Readers trust only batches that
have a manifest.

    evidence   W = greatest r seen − (δ + 2ε − 1): a row with clock r proves that every clock has reached r − (ε − 1)
    frontier   W = least of the publishers' last l − 1; needs publishers whose logs are in order, and heartbeats of
               idle ones. One that is silent for longer than `silent` ticks is ignored, and the manifest names it.

W only grows, so batches release disjoint, increasing ranges of l, and (batch, pos) is the order.

No row is lost. New rows and those pending before a step are released, late, duplicates, rejected or pending after it,
each counted where it was written; a step that does not balance is not committed.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from whence.errors import UsageError, WhenceError
from whence.pipeline.log_reader import LogReader, lenient_casts
from whence.pipeline.logs import check_apart, log_files
from whence.pipeline.manifest import PENDING_DIRECTORY, Manifest, committed_steps, read_manifest
from whence.pipeline.pending_files import PendingFiles
from whence.pipeline.session import first_line, is_connected
from whence.pipeline.storage import AnyPath, Ownership, UriPath, entries, remove
from whence.pipeline.stream_step import PATH, Rules, StreamMerge
from whence.store.lock import locked

_FILES_DDL: Final = f"{PATH} string, modificationTime timestamp, length bigint, content binary"
"""The stream is one of files, a row for each; what is in them is not read before it is due."""
_ANY_AGE: Final = "36500d"
"""Files count however old they are: by default Spark ignores those older than a week."""


def run_stream(
    spark: SparkSession, logs: AnyPath, out: AnyPath, work: AnyPath, rules: Rules, mapping: Mapping[str, str],
    *, once: bool, flush: bool, strict: bool = False, files_per_batch: int = 8, every_seconds: int = 10,
    on_step: Callable[[Manifest], None] | None = None,
) -> None:  # fmt: skip
    """Merge logs as they come, from where the last run stopped. Raises UsageError and InternalError."""
    if is_connected(spark):
        raise UsageError(
            "--master: a stream needs Spark's driver inside the command; give local[*] or spark://HOST:PORT"
        )
    files = log_files(logs)
    _check_apart(logs, out, work)
    LogReader(spark, mapping).check(files, str(logs))
    with ExitStack() as locks:
        owned = []
        for path, what in ((work, "--work:"), (out, "--out:")):
            if isinstance(path, UriPath):
                owned.append(Ownership(path))
            else:
                locks.enter_context(locked(path / ".lock", what, "one stream at a time writes there"))

        def still_ours() -> None:
            for each in owned:
                each.check()

        _run(
            spark, logs, out, work, rules, mapping, once=once, flush=flush, strict=strict, still_ours=still_ours,
            files_per_batch=files_per_batch, every_seconds=every_seconds, on_step=on_step,
        )  # fmt: skip


def _check_apart(logs: AnyPath, out: AnyPath, work: AnyPath) -> None:
    """Check that directories do not overlap. Raises UsageError."""
    target, pending = (path.resolve() if isinstance(path, Path) else path for path in (out, work))
    if target == pending:
        raise UsageError(f"--work: {work} is where --out is; what is pending needs a directory of its own")
    check_apart(logs, out)
    check_apart(logs, work, "--work")


def _check_pair(out: AnyPath, work: AnyPath, checkpoint: AnyPath) -> None:
    """Check that two directories belong together; start over where nothing was committed. Raises UsageError."""
    if committed_steps(out):
        if not checkpoint.exists():
            raise UsageError(
                f"--work: {work} does not belong to {out}: it lacks the checkpoint of what was merged there"
            )
    elif any(name.isdecimal() for name in entries(checkpoint / "commits")):
        raise UsageError(
            f"--work: {work} does not belong to {out}: what it has merged is not there; give both as before, or others"
        )
    else:
        remove(checkpoint)  # of a first step that failed: Spark takes it for another stream's


def _run(
    spark: SparkSession, logs: AnyPath, out: AnyPath, work: AnyPath, rules: Rules, mapping: Mapping[str, str],
    *, once: bool, flush: bool, strict: bool, files_per_batch: int, every_seconds: int,
    on_step: Callable[[Manifest], None] | None, still_ours: Callable[[], None],
) -> None:  # fmt: skip
    checkpoint = work / "checkpoint"
    _check_pair(out, work, checkpoint)
    source = spark.readStream.format("binaryFile").schema(_FILES_DDL).option("maxFileAge", _ANY_AGE)
    source = source.option("recursiveFileLookup", "true").option("maxFilesPerTrigger", files_per_batch)
    merging = StreamMerge(
        spark, PendingFiles(spark, work / PENDING_DIRECTORY, mapping), out, rules, strict=strict,
        still_ours=still_ours,
    )  # fmt: skip
    why: list[WhenceError] = []

    def step(batch: DataFrame, number: int) -> None:
        try:
            merging.step(batch, number)
        except WhenceError as error:
            why.append(error)
            raise
        if on_step is not None:
            on_step(read_manifest(out, f"{number:08d}"))

    writer = source.load(str(logs)).select(PATH).writeStream.foreachBatch(step)
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_seconds} seconds")
    with lenient_casts(spark):
        try:
            query: Any = writer.start()
            query.awaitTermination()
            if flush:
                merging.flush()
        except Exception as error:
            cause = why[0] if why else error
            if isinstance(cause, WhenceError):
                raise cause from None
            raise UsageError(f"the stream stopped and can be started again: {first_line(cause)}") from error
