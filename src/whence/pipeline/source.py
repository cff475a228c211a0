"""A running group as a DataFrame: spark.read or readStream, format("whence").

    use_live_source(spark)
    rows = spark.readStream.format("whence").option("group", "alps").load("traces/")

The rows are those of a trace, with their kind, as the group's nodes write them down (whence node --trace DIR): a node
writes a row before it sends the bytes, so that the journal of a running group is at most one record behind it.
An offset says how many bytes of which segment have been read, always up to the end of a whole record. It means the
same after any restart, of Spark or of a node, since segments only grow. One that was removed because its node keeps no
more is passed over; the missing event numbers show it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from whence.errors import UsageError
from whence.pipeline.segment_rows import ROWS_DDL, batches_of
from whence.places import is_uri
from whence.trace.segments import rows_between, segments, whole_until

NAME: Final = "whence"
DIRECTORY, GROUP = "path", "group"


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
        """Return the columns of a trace, with the kind of each row."""
        return ROWS_DDL

    def reader(self, schema: Any) -> "LiveReader":
        """Return what reads all that is there now."""
        return LiveReader(*_options(self.options))

    def streamReader(self, schema: Any) -> "LiveStreamReader":
        """Return what reads on as nodes write."""
        return LiveStreamReader(*_options(self.options))


class SegmentRange(InputPartition):
    """A range of a segment, between the ends of two records."""

    def __init__(self, path: str, start: int, end: int) -> None:
        self.path, self.start, self.end = path, start, end


class LiveReader(DataSourceReader):
    """Reads what is there once."""

    def __init__(self, directory: Path, group: str) -> None:
        self._directory, self._group = directory, group

    def partitions(self) -> list[SegmentRange]:
        """Return every segment as far as it is whole."""
        return [SegmentRange(str(path), 0, whole_until(path, 0)) for path in segments(self._directory, self._group)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a stretch."""
        assert isinstance(partition, SegmentRange)
        return _batches(partition)


class LiveStreamReader(DataSourceStreamReader):
    """Reads on from where the last micro-batch ended."""

    def __init__(self, directory: Path, group: str) -> None:
        self._directory, self._group = directory, group

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
        grown = ((name, start.get(name, 0), until) for name, until in sorted(end.items()))
        return [
            SegmentRange(str(self._directory / name), begin, until) for name, begin, until in grown if until > begin
        ]

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
            "to its file systems; whence gather --follow reads segments behind URIs as they grow"
        )
    if not directory or not Path(directory).is_dir():
        raise UsageError(f"format({NAME!r}): load() needs the directory that nodes write traces to, not {directory!r}")
    if not group:
        raise UsageError(f"format({NAME!r}): option('group', …) must name the group to read")
    return Path(directory), group


def _batches(part: SegmentRange) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches_of(rows_between(Path(part.path), part.start, part.end))
    except FileNotFoundError:
        return
