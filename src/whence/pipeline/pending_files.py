"""Log files with pending rows: their rows are read when they are due.

On this machine's disk they are kept as hard links. A link costs nothing and outlives the log, so that logs may be
removed or compacted as soon as the step that read them is committed. Where the file system cannot link, the file is
copied. Names begin with the step. Other file systems have no links, and a copy would pass every byte through the
driver: behind a URI, files are read where they lie, and must stay there until no manifest names them any more.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.pipeline.footers import ranges_of_numbers
from whence.pipeline.log_reader import LogReader
from whence.pipeline.log_sql import GRP_BYTES_SURE, NO_PARTITION
from whence.pipeline.logs import (
    FILE,
    GRP,
    HEARTBEAT,
    LOG,
    PAYLOAD,
    PID,
    PUBLISHER,
    REASON,
    L,
    R,
    check_one_run,
    has_events,
    is_log,
    is_parquet,
)  # fmt: skip
from whence.pipeline.rejected import first_rejected, local_path, rejected_rows
from whence.pipeline.storage import AnyPath, at, bytes_below, entries, remove


class FileSpan(NamedTuple):
    """Counts and ranges of some rows of a file: all of a publisher, or a row group."""

    file: str
    publisher: str | None
    max_r: int | None
    max_l: int | None
    """None: all rows are rejected."""
    first: int | None
    """The least l of events; heartbeats do not count."""
    last: int | None
    rows: int
    events: int
    rejected: int
    """Rejected rows."""


class PendingFiles:
    """The pending files of one stream, all in one directory, by name."""

    def __init__(self, spark: SparkSession, directory: AnyPath, mapping: Mapping[str, str]) -> None:
        self._spark = spark
        self._directory = directory.absolute() if isinstance(directory, Path) else directory
        self._reader = LogReader(spark, mapping)
        self._is_plain = set(mapping) <= {PAYLOAD}
        self._sources: dict[str, str] = {}
        self._footers: dict[str, list[FileSpan] | None] = {}
        """By file, what its footer tells; None where it does not suffice."""

    def link(self, step: str, found: Iterable[str]) -> list[str]:
        """Link the logs among the new files of a step; return their names here. Raises UsageError."""
        paths = [at(self._spark, each) for each in sorted(found)]
        logs = [path for path in paths if is_log(path) and has_events(path)]
        check_one_run(logs)
        return [self._link(path, f"{step}-{number}{_suffixes(path)}") for number, path in enumerate(logs)]

    def _link(self, source: AnyPath, name: str) -> str:
        if not isinstance(source, Path) or not isinstance(self._directory, Path):
            return str(source)
        self._directory.mkdir(parents=True, exist_ok=True)
        target = self._directory / name
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
        self._sources[str(target)] = str(source)
        self._footers.pop(name, None)  # of an earlier attempt at this step
        return name

    def rows(self, files: Iterable[str]) -> DataFrame:
        """Return the rows of files, with reasons for those that have no place in the order."""
        return self._reader.rows([self._at(file) for file in files])

    def count(self, files: Iterable[str]) -> int:
        """Return how many rows are in files, without reading them."""
        return self._reader.count([self._at(file) for file in files])

    def events_after(self, files: Iterable[str], tick: int) -> int:
        """Return how many events of files come after a tick; where footers suffice, from the one column alone."""
        given = list(files)
        plain = [file for file in given if self._from_footer(file) is not None]
        others = [file for file in given if file not in plain]
        count = self.events_in(others).filter(F.col(L) > tick).count() if others else 0
        here = [ds.dataset(str(self._at(file))).count_rows(filter=ds.field(L) > tick) for file in plain]
        return count + sum(map(int, here))

    def size(self, files: Iterable[str]) -> int:
        """Return the size of files in bytes."""
        return bytes_below(self._at(file) for file in files)

    def _at(self, file: str) -> AnyPath:
        """Return where a file is: in the directory, or where it lay."""
        return at(self._spark, file) if "/" in file else self._directory / file

    def events_in(self, files: Iterable[str]) -> DataFrame:
        """Return the events of files that have a place in the order: all rows, where footers say so."""
        given = list(files)
        if all(self._from_footer(file) is not None for file in given):
            return self._reader.sound_events([self._at(file) for file in given])
        return self.rows(given).filter(F.col(REASON).isNull() & ~F.col(HEARTBEAT)).select(*LOG)

    def rejected(self, files: Iterable[str]) -> DataFrame:
        """Return the rejected rows, each with the file it came in, the row as it was and the reason."""
        rows = rejected_rows(self.rows(files))
        source = F.lit(None).cast("string")
        for link, path in self._sources.items():
            source = F.when(F.endswith(F.col(FILE), F.lit(f"/{Path(link).name}")), path).otherwise(source)
        return rows.withColumn(FILE, F.coalesce(source, FILE))

    def first_rejected(self, files: Iterable[str]) -> str:
        """Return a sentence about the first rejected row."""
        return first_rejected(self.rows(files).filter(F.col(REASON).isNotNull()), self._sources)

    def forget_sources(self) -> None:
        """Forget where files came from, once the rejected rows are written."""
        self._sources.clear()

    def spans(self, files: Collection[str], *, by_publisher: bool) -> list[FileSpan]:
        """Return the ranges of ticks in files: from their footers, unless a mapping computes columns."""
        if not by_publisher:
            known = [self._from_footer(file) for file in files]
            if all(each is not None for each in known):
                return [span for spans in known for span in spans or ()]
        if not files:
            return []
        is_valid = F.col(REASON).isNull()
        clock, l_ = F.when(is_valid, F.col(R)), F.when(is_valid, F.col(L))
        ticks = F.when(~F.col(HEARTBEAT), l_)
        # A publisher called 17 is not the one whose number that is; in quotes, no name is taken for another.
        quoted = F.concat(F.lit('"'), PUBLISHER, F.lit('"'))
        called = F.when(F.col(PUBLISHER).rlike('^([0-9]+$|")'), quoted).otherwise(F.col(PUBLISHER))
        name = F.coalesce(called, F.col(PID).cast("string")) if by_publisher else F.lit(None).cast("string")
        found = (
            self.rows(files)
            .groupBy(FILE, name.alias("name"))
            .agg(
                F.max(clock), F.max(l_), F.min(ticks), F.max(ticks), F.count("*"), F.count(ticks),
                F.count_if(~is_valid),
            )
        )  # fmt: skip
        names = {str(self._at(file)): file for file in files}
        told = [(local_path(row[0]), row) for row in found.collect()]
        return [FileSpan(names.get(path, PurePath(path).name), *row[1:]) for path, row in told]

    def _from_footer(self, file: str) -> list[FileSpan] | None:
        """Return the row groups of a file whose footer shows that all its rows have a place in the order."""
        if file not in self._footers:
            self._footers[file] = self._read_footer(file) if self._is_plain else None
        return self._footers[file]

    def _read_footer(self, file: str) -> list[FileSpan] | None:
        where = self._at(file)
        if not isinstance(where, Path) or not is_parquet(where):
            return None
        try:
            footer = pq.read_metadata(where)
            if GRP in footer.schema.to_arrow_schema().names and not _fit(_groups_of(where)):
                return None
        except (OSError, pa.ArrowException):
            return None
        groups = ranges_of_numbers(footer)
        if groups is None:
            return None
        spans = []
        for number, known in enumerate(groups):
            clock, l_ = known[R if R in known else L], known[L]
            rows = footer.row_group(number).num_rows
            spans.append(FileSpan(file, None, clock.max, l_.max, l_.min, l_.max, rows, rows, 0))
        return spans

    def remove(self, files: Iterable[str]) -> None:
        """Remove files whose rows are all released."""
        gone = {file: self._at(file) for file in files}
        self._reader.forget(gone.values())
        for file, where in gone.items():
            self._footers.pop(file, None)
            if "/" not in file:
                remove(where)

    def remove_others(self, files: Collection[str]) -> None:
        """Remove all files but these: what a step that failed has left."""
        if isinstance(self._directory, Path):
            for name in entries(self._directory):
                if name not in files:
                    remove(self._directory / name)


def _groups_of(file: Path) -> pa.ChunkedArray:
    return pq.read_table(file, columns=[GRP], partitioning=None).column(GRP)


def _fit(groups: pa.ChunkedArray) -> bool:
    """Return whether all names of groups are good for directories, however they are escaped."""
    if not pa.types.is_string(groups.type):
        return False
    names = groups.unique().to_pylist()
    return all(
        name and name != NO_PARTITION and "\0" not in name and len(name.encode()) <= GRP_BYTES_SURE for name in names
    )


def _suffixes(path: AnyPath) -> str:
    """Return the suffixes of a name: the format, and the compression."""
    name = PurePath(path.name)
    plain = name.with_suffix("") if name.suffix in (".gz", ".zst") else name
    return plain.suffix + (name.suffix if plain is not name else "")
