"""Segments of live nodes in the tasks of Spark: files that were read whole, and their rows as Arrow batches."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from whence.pipeline.columns import KIND, TRACE_DDL
from whence.trace.memory import Row
from whence.trace.schema import Kind
from whence.trace.segments import NAME, SegmentBytes
from whence.trace.writer import table_of

ROWS_DDL: Final = f"{KIND} string, {TRACE_DDL}"
"""The columns of a trace, with the kind of each row."""
CHUNK_ROWS: Final = 16_384
"""Rows of one kind that a task hands to Spark at once."""


def segment_files(spark: SparkSession, paths: Sequence[str], group: str, *, may_vanish: bool) -> DataFrame:
    """Return the segments of a group among some files, and below some directories, as files that Spark reads whole.

    `may_vanish`: pass over those that their nodes remove before they are read. Raises AnalysisException where a path
    is not there.
    """
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    reader = reader.option("ignoreMissingFiles", str(may_vanish).lower())
    return reader.option("pathGlobFilter", f"spool-{group.encode().hex()}-*.rows").load(list(paths))


def segments_in(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[SegmentBytes, dict[str, Any]]]:
    """Yield the segments among files (path and content), each with what else its row says."""
    for batch in batches:
        for number in range(batch.num_rows):
            row = {name: batch.column(name)[number].as_py() for name in batch.schema.names if name != "content"}
            if NAME.fullmatch(row["path"].rpartition("/")[2]):
                yield SegmentBytes(row["path"], batch.column("content")[number].as_py()), row


def batches_of(rows: Iterable[tuple[Kind, Row]]) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches of one kind each, in the columns of ROWS_DDL."""
    waiting: dict[Kind, list[Row]] = {}
    for kind, row in rows:
        of_kind = waiting.setdefault(kind, [])
        of_kind.append(row)
        if len(of_kind) >= CHUNK_ROWS:
            yield from kind_table(kind, waiting.pop(kind)).to_batches()
    for kind, of_kind in waiting.items():
        yield from kind_table(kind, of_kind).to_batches()


def kind_table(kind: Kind, rows: Sequence[Row]) -> pa.Table:
    """Return rows of a kind as a table with all columns of a trace, and their kind."""
    return table_of(kind, rows).add_column(0, KIND, pa.array([kind.value] * len(rows), pa.string()))
