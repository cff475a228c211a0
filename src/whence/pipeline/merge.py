"""Batch merge: publishers' logs become one causal, deterministic order, per group or over all groups.

The order is the key, so it is the same for any partitioning, any arrival order and any machine. Per group: one
exchange and one sort, and `pos` counts within the group. All together, or one huge group: rows are cut into ranges of
the key, sorted within, and written first, because the cuts are sampled; then `pos` is each row's place in its file plus
the rows of the files before it. What readers may rely on is `pos` and the key; the lines of a file are in that order.
A directory counts when its _SUCCESS file is there, which is written last.
"""

import shutil
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from whence.errors import UsageError
from whence.pipeline.logs import GRP, HEARTBEAT, INC, KEY, PID, SEQ
from whence.pipeline.session import first_line

POS: Final = "pos"
DONE: Final = "_SUCCESS"

_IN_PARTITION: Final = (1 << 33) - 1
"""The bits of Spark's growing ids that count rows within a partition."""


def unique_events(log: DataFrame) -> DataFrame:
    """Return every event once; for publishers that may write an event twice. Costs a shuffle."""
    return log.dropDuplicates([PID, INC, SEQ, GRP])


def subscribed(log: DataFrame, groups: list[str] | None) -> DataFrame:
    """Return the events of some groups, or of all, without heartbeats."""
    events = log.filter(~F.col(HEARTBEAT)).drop(HEARTBEAT)
    return events if groups is None else events.filter(F.col(GRP).isin(groups))


def merged_by_group(log: DataFrame, partitions: int) -> DataFrame:
    """Return the order of each group, with positions: the rows go through one exchange and one sort.

    A window would copy every row of a group once more. Instead rows are numbered as they leave the sort, and the rows
    of the groups before in the same partition are taken off; how many there are is known from a count of the groups.
    """
    ordered = log.repartition(partitions, GRP).sortWithinPartitions(GRP, *KEY)
    numbered = ordered.withColumn("number", F.monotonically_increasing_id().bitwiseAND(_IN_PARTITION))
    placed = numbered.join(F.broadcast(group_bases(log, partitions)), GRP)
    return placed.withColumn(POS, F.col("number") - F.col("base")).drop("number", "base")


def group_bases(log: DataFrame, partitions: int) -> DataFrame:
    """Return, for every group, how many rows lie before it in the partition it is sent to."""
    counts = log.groupBy(GRP).agg(F.count("*").alias("rows"))
    target = F.pmod(F.hash(GRP), F.lit(partitions))
    before = Window.partitionBy(target).orderBy(GRP).rowsBetween(Window.unboundedPreceding, -1)
    return counts.select(GRP, F.coalesce(F.sum("rows").over(before), F.lit(0)).alias("base"))


def merged_in_ranges(log: DataFrame, partitions: int) -> DataFrame:
    """Return all rows in one order, cut into ranges of the key; positions come when it is written."""
    return log.repartitionByRange(partitions, *KEY).sortWithinPartitions(*KEY)


def write_by_group(log: DataFrame, out: Path, partitions: int) -> None:
    """Write the order of each group below out/grp=…; nothing is left there if it fails."""
    _write(merged_by_group(log, partitions), out, [GRP])


def write_in_one(spark: SparkSession, log: DataFrame, out: Path, partitions: int) -> None:
    """Write one order over all rows, with positions; nothing is left there if it fails."""
    ranges = out.with_name(f".{out.name}.ranges")
    try:
        _write(merged_in_ranges(log, partitions), ranges, [])
        _write(with_positions(spark.read.parquet(str(ranges))), out, [])
    finally:
        shutil.rmtree(ranges, ignore_errors=True)


def with_positions(ranges: DataFrame) -> DataFrame:
    """Return written ranges with the position of every row: its place in its file plus the rows of those before."""
    # The name of a part file begins with its number, so names sort as ranges do.
    named = ranges.withColumn("file", F.col("_metadata.file_name")).withColumn("row", F.col("_metadata.row_index"))
    before = Window.orderBy("file").rowsBetween(Window.unboundedPreceding, -1)
    base = named.groupBy("file").agg(F.count("*").alias("rows"))
    base = base.select("file", F.coalesce(F.sum("rows").over(before), F.lit(0)).alias("base"))
    return (
        named.join(F.broadcast(base), "file").withColumn(POS, F.col("base") + F.col("row")).drop("file", "row", "base")
    )


def _write(table: DataFrame, out: Path, by: list[str]) -> None:
    """Write a table; a half-written one is removed. Raises UsageError."""
    if (out / DONE).exists() or (out.exists() and any(out.iterdir())):
        raise UsageError(f"--out: {out} is not empty; give a new directory")
    try:
        writer = table.write.mode("append").option("compression", "zstd")
        (writer.partitionBy(*by) if by else writer).parquet(str(out))
    except Exception as error:
        shutil.rmtree(out, ignore_errors=True)
        raise UsageError(f"--out: {out} could not be written and was removed: {first_line(error)}") from error
