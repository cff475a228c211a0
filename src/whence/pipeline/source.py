"""A running group as a DataFrame: spark.read or readStream, format("whence").

    use_live_source(spark)
    rows = spark.readStream.format("whence").option("group", "alps").load("traces/")

The rows are those of a trace, with their kind, as the group's nodes write them down (whence node --trace DIR): a node
writes a row before it sends the bytes, so that the journal of a running group is at most one record behind it. With
`--payloads` they have the payloads too. `name` is what the row's process is called, and `publisher` who published the
event it tells of; null for processes without a name, and for publishers that left no segment here.
An offset says how many bytes of which segment have been read, always up to the end of a whole record. It means the
same after any restart, of Spark or of a node, since segments only grow. One that was removed because its node keeps no
more is passed over; the missing event numbers show it.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from whence.errors import TraceError, UsageError
from whence.pipeline.segment_rows import ROWS_DDL, batches_of
from whence.places import is_uri, path_of
from whence.trace.schema import M_PID, NODE
from whence.trace.segments import node_of, read_segment, rows_between, segments, whole_until

NAME: Final = "whence"
DIRECTORY, GROUP = "path", "group"
CALLED, PUBLISHER = "name", "publisher"
LIVE_DDL: Final = f"{ROWS_DDL}, {CALLED} string, {PUBLISHER} string"
"""The columns of a trace with the kind of each row, and the names of two processes."""

Names = dict[int, str]


def use_live_source(spark: SparkSession) -> None:
    """Register format("whence") with a session."""
    spark.dataSource.register(LiveSource)


class LiveSource(DataSource):
    """The rows of a live group, from the directories its nodes write to."""

    @classmethod
    def name(cls) -> str:
        """Return what the format is called."""
        return NAME

    def schema(self) -> str:
        """Return the columns of a trace, with the kind of each row and names."""
        return LIVE_DDL

    def reader(self, schema: Any) -> "LiveReader":
        """Return what reads all that is there now."""
        return LiveReader(*_options(self.options))

    def streamReader(self, schema: Any) -> "LiveStreamReader":
        """Return what reads on as nodes write."""
        return LiveStreamReader(*_options(self.options))


class SegmentRange(InputPartition):
    """A range of a segment, between the ends of two records, and the names that are known."""

    def __init__(self, path: str, start: int, end: int, names: Names) -> None:
        self.path, self.start, self.end, self.names = path, start, end, names


class LiveReader(DataSourceReader):
    """Reads what is there once."""

    def __init__(self, directory: Path, group: str) -> None:
        self._directory, self._group = directory, group

    def partitions(self) -> list[SegmentRange]:
        """Return every segment as far as it is whole."""
        here = segments(self._directory, self._group)
        names = named(here, {})
        return [SegmentRange(str(path), 0, whole_until(path, 0), names) for path in here]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a stretch."""
        assert isinstance(partition, SegmentRange)
        return _batches(partition)


class LiveStreamReader(DataSourceStreamReader):
    """Reads on from where the last micro-batch ended."""

    def __init__(self, directory: Path, group: str) -> None:
        self._directory, self._group = directory, group
        self._names: Names = {}

    def initialOffset(self) -> dict[str, int]:
        """Return the beginning: no byte of any segment."""
        return {}

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        """Return how far every segment is whole now."""
        known = start or {}
        here = {str(path.relative_to(self._directory)): path for path in segments(self._directory, self._group)}
        return known | {name: whole_until(path, known.get(name, 0)) for name, path in here.items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[SegmentRange]:
        """Return what was written between two offsets."""
        grown = [(name, start.get(name, 0), until) for name, until in sorted(end.items()) if until > start.get(name, 0)]
        self._names = named((self._directory / name for name in sorted(end)), self._names) if grown else self._names
        return [SegmentRange(str(self._directory / name), begin, until, self._names) for name, begin, until in grown]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a stretch."""
        assert isinstance(partition, SegmentRange)
        return _batches(partition)

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: nodes remove old segments by themselves."""


def _options(options: Any) -> tuple[Path, str]:
    """Check the options. Raises UsageError."""
    directory, group = options.get(DIRECTORY), options.get(GROUP)
    if directory and is_uri(directory):
        raise UsageError(
            f"format({NAME!r}) reads directories of this machine, not {directory}: Spark gives such a format no access "
            "to its file systems; behind URIs whence.pipeline.api.read_live reads what is there now, "
            "whence.pipeline.follow (whence gather --follow) reads segments as they grow, and read_trace and read_logs "
            "whole traces and logs"
        )
    place = path_of(directory or "")
    if not directory or not place.is_dir():
        raise UsageError(f"format({NAME!r}): load() needs the directory that nodes write traces to, not {directory!r}")
    if not group:
        raise UsageError(f"format({NAME!r}): option('group', …) must name the group to read")
    return place, group


def named(paths: Iterable[Path], known: Names) -> Names:
    """Return what the processes that wrote some segments are called, with those known before, "" for none.

    A process says it in the head of every segment, and stays who it is.
    """
    names = dict(known)
    for path in paths:
        if (node := node_of(path)) not in names:
            with suppress(TraceError, OSError):  # not written whole yet, or removed
                names[node] = read_segment(path)[0].get(CALLED) or ""
    return names


def _batches(part: SegmentRange) -> Iterator[pa.RecordBatch]:
    numbers, names = (
        pa.array(list(part.names), pa.int32()),
        pa.array([name or None for name in part.names.values()], pa.string()),
    )
    try:
        for batch in batches_of(rows_between(Path(part.path), part.start, part.end)):
            for column, whose in ((CALLED, NODE), (PUBLISHER, M_PID)):
                batch = batch.append_column(column, names.take(pc.index_in(batch.column(whose), value_set=numbers)))
            yield batch
    except FileNotFoundError:
        return
