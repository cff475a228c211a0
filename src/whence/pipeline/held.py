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

from whence.pipeline.logs import (
    GRP,
    HEARTBEAT,
    INC,
    KEY,
    KIND,
    PAYLOAD,
    PID,
    ROOM,
    SEQ,
    K,
    L,
    R,
    as_log,
    is_log,
    log_columns,
    tells_events,
)  # fmt: skip

_FILE = "file"
_IS_SOUND = (
    " and ".join(f"{name} is not null" for name in (GRP, PID, SEQ, L, *KEY)) + f" and least({', '.join(KEY)}) >= 0"
)
"""A row has a place in the order."""
_TOLD = (GRP, PID, INC, SEQ, R, L, K, *KEY)
"""Columns that must all be there, and in their range, for a footer to say enough."""


class Span(NamedTuple):
    """What is known of some rows of a file: all of a publisher's, or those that lie together."""

    file: str
    pid: int | None
    max_r: int | None
    max_l: int | None
    """None: no row has a place in any order."""
    first: int | None
    """The least l of events; rows that only tell the time are none."""
    last: int | None
    events: int
    rejected: int
    """Rows that lack a part of their key, or are out of its range."""


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
        is_plain = KIND not in schema.names and set(mapping) <= {PAYLOAD}
        self._is_in_footers = kind == "parquet" and is_plain and {self._clock, PID, SEQ, L} <= numbers

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

    def sound(self, files: Iterable[str]) -> DataFrame:
        """Return those rows of held files that have a place in the order."""
        return self.rows(files).filter(_IS_SOUND)

    def rejected(self, files: Iterable[str]) -> DataFrame:
        """Return the others, as far as they can be read."""
        return self.rows(files).filter(f"not ({_IS_SOUND})").fillna({GRP: ""}).drop(HEARTBEAT)

    def spans(self, files: Collection[str], *, by_publisher: bool) -> list[Span]:
        """Tell between which ticks files are. Their footers know it, unless columns are made of others."""
        if self._is_in_footers and not by_publisher:
            told = [self._from_footer(file) for file in files]
            if all(each is not None for each in told):
                return [span for spans in told for span in spans or ()]
        is_sound = F.expr(_IS_SOUND)
        clock, l_ = F.when(is_sound, F.col(R)), F.when(is_sound, F.col(L))
        ticks = F.when(~F.col(HEARTBEAT), l_)
        rows = self.rows(files).withColumn(_FILE, F.input_file_name())
        by = F.col(PID) if by_publisher else F.lit(None).alias(PID)
        found = rows.groupBy(_FILE, by).agg(
            F.max(clock), F.max(l_), F.min(ticks), F.max(ticks), F.count(ticks), F.count_if(~is_sound)
        )
        return [Span(row[0].rpartition("/")[2], *row[1:]) for row in found.collect()]

    def _from_footer(self, file: str) -> list[Span] | None:
        footer = pq.read_metadata(self._where / file)
        places = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
        if not {self._clock, PID, SEQ, L} <= set(places):
            return None
        spans = []
        for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
            told = {name: group.column(places[name]).statistics for name in _TOLD if name in places}
            if not all(each and each.has_min_max and each.null_count == 0 for each in told.values()):
                return None
            if any(each.min < 0 or each.max >> ROOM.get(name, 63) for name, each in told.items() if name != GRP):
                return None  # some rows have no place: they are looked for one by one
            clock, l_ = told[self._clock], told[L]
            spans.append(Span(file, None, clock.max, l_.max, l_.min, l_.max, group.num_rows, 0))
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
