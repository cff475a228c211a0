"""The rows of a live group as they are now, wherever Spark reaches its segments: what format("whence") (`source.py`)
gives for a directory of this machine, for URIs too.

Spark gives a registered format no access to its file systems; a function on a session has it. Spark lists the segments
and reads them whole, and tasks decode them up to the last whole record of each.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.errors import TraceError, UsageError
from whence.pipeline.segment_rows import ROWS_DDL, batches_of, segment_files, segments_in
from whence.pipeline.session import first_line
from whence.pipeline.source import CALLED, PUBLISHER
from whence.pipeline.storage import AnyPath
from whence.trace.schema import M_PID, NODE
from whence.trace.segments import read_segment


def live_rows(spark: SparkSession, places: list[AnyPath], group: str) -> DataFrame:
    """Return the rows that the processes of a group have written below some places, with the columns of a trace, the
    kind of each row, and the names of its process and of the publisher. Raises UsageError where no place is."""
    try:
        files = segment_files(spark, [str(place) for place in places], group, may_vanish=True)
    except AnalysisException as error:
        raise UsageError(f"{first_line(error)}; give the directories that live nodes write traces to") from error
    files = files.select("path", "content")
    rows, names = files.mapInArrow(_rows, ROWS_DDL), files.mapInArrow(_names, f"{NODE} int, {CALLED} string")
    # A process says its name in the head of every segment, and stays who it is.
    names = names.groupBy(NODE).agg(F.max(CALLED).alias(CALLED))
    publishers = names.withColumnsRenamed({NODE: M_PID, CALLED: PUBLISHER})
    return rows.join(F.broadcast(names), NODE, "left").join(F.broadcast(publishers), M_PID, "left").select(
        *rows.columns, CALLED, PUBLISHER
    )  # fmt: skip


# --- where Spark runs ---


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of segments; one that is not written whole yet has none."""
    for segment, _ in segments_in(batches):
        try:
            _, rows = read_segment(segment)
        except TraceError:
            continue
        yield from batches_of(rows)


def _names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what the processes that wrote segments are called."""
    shape = pa.schema([(NODE, pa.int32()), (CALLED, pa.string())])
    for segment, _ in segments_in(batches):
        try:
            head, _ = read_segment(segment)
        except TraceError:
            continue
        yield pa.RecordBatch.from_pylist([{NODE: head[NODE], CALLED: head.get(CALLED) or None}], schema=shape)
