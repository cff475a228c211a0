"""The batch merge from logs to a directory: every row is in the order or set aside, and none is lost.

OUT/…               the order, by group or as one
OUT/_rejected       rows that have no place in it, each with its file, the row as it was and the reason
OUT/_twice          further rows of the same event
OUT/_SUCCESS        written last, and only if the rows that were read are those that were written: a row is merged,
                    a duplicate, rejected, a heartbeat, or of a group that was not asked for
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq

from whence.errors import InternalError, UsageError, WhenceError
from whence.pipeline.deduplication import duplicate_blocks, split_duplicates
from whence.pipeline.frames import DataFrame, F, SparkSession
from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.session import is_local_engine
from whence.pipeline.log_reader import LogReader, lenient_casts
from whence.pipeline.logs import GRP, HEARTBEAT, REASON, check_apart, log_files
from whence.pipeline.merge import discarded, events_of_groups, mark_done, new_directory, write_merged
from whence.pipeline.rejected import first_rejected, rejected_rows
from whence.pipeline.session import configure_for_size, first_line
from whence.pipeline.storage import AnyPath, UriPath
from whence.pipeline.whole_trace import check_whole

REJECTED_TO, TWICE_TO = "_rejected", "_twice"
ROWS_TO_BYTES: Final = 4
"""A log takes about so many times its size on disk as rows."""


class MergeCounts(msgspec.Struct, frozen=True):
    """How many rows of logs went where."""

    read: int
    rows: int
    twice: int
    rejected: int
    heartbeats: int
    elsewhere: int
    """Of groups that were not asked for."""

    @property
    def is_balanced(self) -> bool:
        """Whether every row that was read is counted."""
        return self.read == self.rows + self.twice + self.rejected + self.heartbeats + self.elsewhere


def merge_logs(
    spark: SparkSession, logs: AnyPath, out: AnyPath, parts: int, mapping: Mapping[str, str] | None = None,
    *, groups: Sequence[str] | None = None, by_group: bool = True, strict: bool = False,
) -> MergeCounts:  # fmt: skip
    """Merge the logs below a path into a new directory. Raises UsageError, TraceError; then nothing is left there."""
    check_apart(logs, out)
    with new_directory(out), lenient_casts(spark):
        files = log_files(logs)
        check_whole(spark, files)
        reader = LogReader(spark, mapping or {})
        reader.check(files, str(logs))
        rows = reader.rows(files)
        try:
            counts = _counts(rows, groups)
            check_groups(groups, counts.rows, counts.elsewhere)
            _check_rejected(rows, counts, logs, strict=strict)
            done = _write(rows, counts, out, parts, groups, by_group=by_group)
            _check_balance(done, reader.count(files), out)
        except WhenceError:
            raise
        except Exception as error:
            said = discarded(out)
            raise UsageError(f"LOGS: {logs} cannot be merged: {first_line(error)}; {out} {said}") from error
        mark_done(out, by_group=by_group)
        return done


def merge_on(
    session: SparkSession, logs: AnyPath, out: AnyPath, input_bytes: int, mapping: Mapping[str, str],
    *, groups: Sequence[str] | None, by_group: bool, strict: bool,
) -> MergeCounts:  # fmt: skip
    """Merge logs on the engine that a session is of. Raises UsageError, TraceError; of the local engine, NotLocal."""
    partitions = configure_for_size(session, input_bytes)
    if not is_local_engine(session):
        return merge_logs(session, logs, out, partitions, mapping, groups=groups, by_group=by_group, strict=strict)
    from whence.pipeline.local.merging import merge_here

    if mapping:
        raise NotLocal("mapping files")
    if not isinstance(logs, Path) or not isinstance(out, Path):
        raise NotLocal("places behind a URI")
    return merge_here(session, logs, out, groups=groups, by_group=by_group)


def _counts(rows: DataFrame, groups: Sequence[str] | None) -> MergeCounts:
    """Return the counts before deduplication."""
    is_event = F.col(REASON).isNull() & ~F.col(HEARTBEAT)
    is_wanted = F.lit(True) if groups is None else F.col(GRP).isin(list(groups))
    counts = rows.agg(
        F.count("*"), F.count_if(is_event & is_wanted), F.lit(0), F.count_if(F.col(REASON).isNotNull()),
        F.count_if(F.col(REASON).isNull() & F.col(HEARTBEAT)), F.count_if(is_event & ~is_wanted),
    ).collect()[0]  # fmt: skip
    return MergeCounts(*counts)


def check_groups(groups: Sequence[str] | None, events: int, elsewhere: int) -> None:
    """Check that some event is of the groups that were asked for, where there are events at all. Raises UsageError."""
    if groups and elsewhere and not events:
        named = " or ".join(map(repr, groups))
        raise UsageError(f"--group: no event is of group {named}; {elsewhere:,} are of other groups")


def _check_rejected(rows: DataFrame, counts: MergeCounts, logs: AnyPath, *, strict: bool) -> None:
    if counts.rejected and (strict or counts.rejected == counts.read):
        named = first_rejected(rows.filter(F.col(REASON).isNotNull()))
        every = "" if strict else f"none of the {counts.read:,} rows of {logs} has a place in the order; the first: "
        raise UsageError(f"LOGS: {every}{named}")


def _write(
    rows: DataFrame, counts: MergeCounts, out: AnyPath, parts: int, groups: Sequence[str] | None, *, by_group: bool
) -> MergeCounts:
    events = events_of_groups(rows, None if groups is None else list(groups))
    blocks = duplicate_blocks(events, by_group=by_group).persist()
    try:
        is_unique = blocks.isEmpty()
        once, others = (events, None) if is_unique else split_duplicates(events, blocks)
        merged = write_merged(once, out, parts, by_group=by_group, unique_across_groups=is_unique)
        twice = 0 if others is None else _write_rows(others, out, TWICE_TO)
        if counts.rejected:
            _write_rows(rejected_rows(rows), out, REJECTED_TO)
    finally:
        blocks.unpersist()
    return msgspec.structs.replace(counts, rows=merged, twice=twice)


def _write_rows(rows: DataFrame, out: AnyPath, name: str) -> int:
    where = out / name
    try:
        rows.coalesce(1).write.parquet(str(where))
    except Exception as error:
        raise UsageError(f"--out: {where} could not be written and {discarded(out)}: {first_line(error)}") from error
    count = row_count(where)
    if not count:
        discarded(where)
    return count


def _check_balance(done: MergeCounts, in_files: int, out: AnyPath) -> None:
    """Check that all rows of the files were read, counted and written. Raises InternalError."""
    written = row_count(out)
    if in_files != done.read or written != done.rows or not done.is_balanced:
        said = discarded(out)
        raise InternalError(
            f"the merge does not balance and {said}: {in_files:,} rows in logs, {written:,} written, {done}"
        )


def row_count(directory: AnyPath) -> int:
    """Count the rows of the Parquet files in a directory by their footers; behind a URI, Spark reads them.

    What lies in directories that readers pass over does not count.
    """
    if isinstance(directory, UriPath):
        if not directory.exists():
            return 0
        return directory.spark.read.schema(f"{GRP} string").parquet(str(directory)).count()
    there = [
        each for each in directory.rglob("*.parquet")
        if not {part[0] for part in each.relative_to(directory).parts} & set("._")
    ]  # fmt: skip
    return sum(pq.read_metadata(file).num_rows for file in there)
