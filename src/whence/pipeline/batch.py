"""The batch merge from logs to a directory that counts: every row is in the order or set aside, and none is lost.

OUT/…               the order, by group or as one
OUT/_rejected       rows that have no place in it, each with its file, the row as it was and the reason
OUT/_twice          further rows of events that are there more than once
OUT/_SUCCESS        written last, and only if the rows that were read are those that were written: a row is merged,
                    there twice, rejected, a heartbeat, or of a group that was not asked for
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.errors import InternalError, UsageError, WhenceError
from whence.pipeline.logs import GRP, HEARTBEAT, log_files
from whence.pipeline.merge import DONE, check_empty, subscribed, write_merged
from whence.pipeline.normalise import REASON, Reader, rejected_rows, tolerant
from whence.pipeline.session import first_line
from whence.pipeline.strict import first_rejected
from whence.pipeline.unique import meeting, parted

REJECTED_TO, TWICE_TO = "_rejected", "_twice"


class Merged(msgspec.Struct, frozen=True):
    """What became of the rows of logs."""

    read: int
    rows: int
    twice: int
    rejected: int
    heartbeats: int
    elsewhere: int
    """Of groups that were not asked for."""

    @property
    def is_balanced(self) -> bool:
        """Whether every row that was read is told of."""
        return self.read == self.rows + self.twice + self.rejected + self.heartbeats + self.elsewhere


def merge_logs(
    spark: SparkSession, logs: Path, out: Path, parts: int, mapping: Mapping[str, str] | None = None,
    *, groups: Sequence[str] | None = None, by_group: bool = True, strict: bool = False,
) -> Merged:  # fmt: skip
    """Merge the logs below a path into a new directory. Raises UsageError; then nothing is left there."""
    check_empty(out)
    with tolerant(spark):
        files = log_files(logs)
        reader = Reader(spark, mapping or {})
        reader.check(files, str(logs))
        rows = reader.rows(files)
        try:
            counts = _tally(rows, groups)
            _refuse(rows, counts, logs, strict=strict)
            done = _write(rows, counts, out, parts, groups, by_group=by_group)
            _check(done, reader.count(files), out)
        except WhenceError:
            raise
        except Exception as error:
            shutil.rmtree(out, ignore_errors=True)
            raise UsageError(f"LOGS: {logs} cannot be merged: {first_line(error)}") from error
        (out / DONE).touch()
        return done


def _tally(rows: DataFrame, groups: Sequence[str] | None) -> Merged:
    """Count what there is, before anything is known of events that are there twice."""
    is_event = F.col(REASON).isNull() & ~F.col(HEARTBEAT)
    is_wanted = F.lit(True) if groups is None else F.col(GRP).isin(list(groups))
    counts = rows.agg(
        F.count("*"), F.count_if(is_event & is_wanted), F.lit(0), F.count_if(F.col(REASON).isNotNull()),
        F.count_if(F.col(REASON).isNull() & F.col(HEARTBEAT)), F.count_if(is_event & ~is_wanted),
    ).collect()[0]  # fmt: skip
    return Merged(*counts)


def _refuse(rows: DataFrame, counts: Merged, logs: Path, *, strict: bool) -> None:
    if counts.rejected and (strict or counts.rejected == counts.read):
        named = first_rejected(rows.filter(F.col(REASON).isNotNull()))
        every = "" if strict else f"none of the {counts.read:,} rows of {logs} has a place in the order; the first: "
        raise UsageError(f"LOGS: {every}{named}")


def _write(
    rows: DataFrame, counts: Merged, out: Path, parts: int, groups: Sequence[str] | None, *, by_group: bool
) -> Merged:
    events = subscribed(rows, None if groups is None else list(groups))
    blocks = meeting(events, by_group=by_group).persist()
    try:
        is_apart = blocks.isEmpty()
        once, others = (events, None) if is_apart else parted(events, blocks)
        merged = write_merged(once, out, parts, by_group=by_group, apart=is_apart, rows=counts.rows)
        twice = 0 if others is None else _put(others, out / TWICE_TO)
        if counts.rejected:
            _put(rejected_rows(rows), out / REJECTED_TO)
    finally:
        blocks.unpersist()
    return msgspec.structs.replace(counts, rows=merged, twice=twice)


def _put(rows: DataFrame, where: Path) -> int:
    rows.coalesce(1).write.parquet(str(where))
    count = rows_in(where)
    if not count:
        shutil.rmtree(where)
    return count


def _check(done: Merged, lying: int, out: Path) -> None:
    """Look whether what lies in files was read, all that was read is told of, and what is to be there lies in OUT."""
    there = [
        each for each in out.rglob("*.parquet") if not {part[0] for part in each.relative_to(out).parts} & set("._")
    ]
    written = sum(pq.read_metadata(file).num_rows for file in there)
    if lying != done.read or written != done.rows or not done.is_balanced:
        shutil.rmtree(out, ignore_errors=True)
        raise InternalError(
            f"the merge does not balance and was removed: {lying:,} rows lie in logs, {written:,} were written, {done}"
        )


def rows_in(directory: Path) -> int:
    """Count the rows of the Parquet files in a directory, by their footers."""
    return sum(pq.read_metadata(file).num_rows for file in directory.rglob("*.parquet") if file.name[0] not in "._")
