"""Log files that a stream still needs, kept as links of its own: their rows are read when they are due.

A link costs nothing and outlives what it was made from, so logs may be cleaned up or compacted as soon as the step that
found them is committed. Where the file system cannot link, the file is copied. Names tell the step.
"""

import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructType

from whence.pipeline.logs import HEARTBEAT, KIND, PID, L, R, as_log, is_log, log_columns, tells_events

_FILE = "file"


class Span(NamedTuple):
    """What is known of some rows of a file: all of a publisher's, or those that lie together."""

    file: str
    pid: int | None
    max_r: int
    max_l: int
    first: int | None
    """The least l of events; rows that only tell the time are none."""
    last: int | None
    events: int


class Held:
    """The held files of one stream, all in one directory, by their names."""

    def __init__(
        self, spark: SparkSession, where: Path, kind: str, schema: StructType, mapping: dict[str, str]
    ) -> None:
        self._where = where.absolute()
        self._reader = spark.read.format(kind).schema(schema)
        self._columns = log_columns(schema, mapping, str(where))
        self._clock = R if R in schema.names else L
        numbers = {field.name for field in schema.fields if field.dataType in (LongType(), IntegerType())}
        is_plain = KIND not in {*schema.names, *mapping} and not {R, L} & set(mapping)
        self._is_in_footers = kind == "parquet" and is_plain and {self._clock, L} <= numbers

    def hold(self, step: str, found: Iterable[str]) -> list[str]:
        """Link the logs among the files that a step has found; return their names here."""
        paths = [Path(each.removeprefix("file:")) for each in sorted(found)]
        logs = [path for path in paths if is_log(path) and tells_events(path)]
        return [self._link(path, f"{step}-{number}{path.suffix}") for number, path in enumerate(logs)]

    def _link(self, source: Path, name: str) -> str:
        self._where.mkdir(parents=True, exist_ok=True)
        target = self._where / name
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
        return name

    def rows(self, files: Iterable[str]) -> DataFrame:
        """Return the rows of held files, as of a log."""
        return as_log(self._reader.load([str(self._where / file) for file in files]), self._columns)

    def spans(self, files: Collection[str], *, by_publisher: bool) -> list[Span]:
        """Tell between which ticks files are. Their footers know it, unless columns are made of others."""
        if self._is_in_footers and not by_publisher:
            told = [self._from_footer(file) for file in files]
            if all(each is not None for each in told):
                return [span for spans in told for span in spans or ()]
        ticks = F.when(~F.col(HEARTBEAT), F.col(L))
        rows = self.rows(files).withColumn(_FILE, F.input_file_name())
        by = F.col(PID) if by_publisher else F.lit(None).alias(PID)
        found = rows.groupBy(_FILE, by).agg(F.max(R), F.max(L), F.min(ticks), F.max(ticks), F.count(ticks))
        return [Span(row[0].rpartition("/")[2], *row[1:]) for row in found.collect()]

    def _from_footer(self, file: str) -> list[Span] | None:
        footer = pq.read_metadata(self._where / file)
        places = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
        if not {self._clock, L} <= set(places):
            return None
        spans = []
        for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
            clock, l_ = (group.column(places[name]).statistics for name in (self._clock, L))
            if not all(each and each.has_min_max and each.null_count == 0 for each in (clock, l_)):
                return None
            spans.append(Span(file, None, clock.max, l_.max, l_.min, l_.max, group.num_rows))
        return spans

    def let_go(self, files: Iterable[str]) -> None:
        """Forget files whose rows are all released."""
        for file in files:
            (self._where / file).unlink(missing_ok=True)

    def keep_only(self, files: Collection[str]) -> None:
        """Forget what a step that broke off has left."""
        for path in self._where.glob("*"):
            if path.name not in files:
                path.unlink()
