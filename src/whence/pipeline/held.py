"""Log files that a stream still needs, kept as links of its own: their rows are read when they are due.

A link costs nothing and outlives what it was made from, so logs may be cleaned up or compacted as soon as the step that
found them is committed. Where the file system cannot link, the file is copied. Names tell the step.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.pipeline.logs import (
    GRP,
    HEARTBEAT,
    INC,
    KEY,
    KIND,
    PAYLOAD,
    PID,
    PUBLISHER,
    ROOM,
    SEQ,
    K,
    L,
    R,
    is_log,
    is_parquet,
    one_run,
    tells_events,
)  # fmt: skip
from whence.pipeline.normalise import FILE, REASON, Reader, on_disk, rejected_rows
from whence.pipeline.strict import first_rejected

_TOLD: Final = (PID, INC, SEQ, R, L, K, *KEY)
"""Columns that must all be whole numbers, and in their range, for a footer to say enough."""


class Span(NamedTuple):
    """What is known of some rows of a file: all of a publisher's, or those that lie together."""

    file: str
    publisher: str | None
    max_r: int | None
    max_l: int | None
    """None: no row has a place in any order."""
    first: int | None
    """The least l of events; rows that only tell the time are none."""
    last: int | None
    rows: int
    events: int
    rejected: int
    """Rows that have no place in the order."""


class Held:
    """The held files of one stream, all in one directory, by their names."""

    def __init__(self, spark: SparkSession, where: Path, mapping: Mapping[str, str]) -> None:
        self._where = where.absolute()
        self._reader = Reader(spark, mapping)
        self._is_plain = set(mapping) <= {PAYLOAD}
        self._sources: dict[str, str] = {}

    def hold(self, step: str, found: Iterable[str]) -> list[str]:
        """Link the logs among the files that a step has found; return their names here. Raises UsageError."""
        paths = [Path(each.removeprefix("file:")) for each in sorted(found)]
        logs = [path for path in paths if is_log(path) and tells_events(path)]
        one_run(logs)
        return [self._link(path, f"{step}-{number}{_suffixes(path)}") for number, path in enumerate(logs)]

    def _link(self, source: Path, name: str) -> str:
        self._where.mkdir(parents=True, exist_ok=True)
        target = self._where / name
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
        self._sources[str(target)] = str(source)
        return name

    def rows(self, files: Iterable[str]) -> DataFrame:
        """Return the rows of held files, as of a log."""
        return self._reader.rows([self._where / file for file in files])

    def count(self, files: Iterable[str]) -> int:
        """Count the rows that are in held files, without looking at what is in them."""
        return self._reader.count([self._where / file for file in files])

    def size(self, files: Iterable[str]) -> int:
        """Return how many bytes held files have."""
        return sum((self._where / file).stat().st_size for file in files)

    def sound(self, files: Iterable[str]) -> DataFrame:
        """Return those rows of held files that have a place in the order."""
        return self.rows(files).filter(F.col(REASON).isNull())

    def rejected(self, files: Iterable[str]) -> DataFrame:
        """Return the others, each with the file it came in, the row as it was and the reason."""
        rows = rejected_rows(self.rows(files))
        source = F.lit(None).cast("string")
        for link, path in self._sources.items():
            source = F.when(F.endswith(F.col(FILE), F.lit(f"/{Path(link).name}")), path).otherwise(source)
        return rows.withColumn(FILE, F.coalesce(source, FILE))

    def first_rejected(self, files: Iterable[str]) -> str:
        """Say of one of them where it is and what is wrong."""
        return first_rejected(self.rows(files).filter(F.col(REASON).isNotNull()), self._sources)

    def forget_sources(self) -> None:
        """Forget where files came from, once what had to be told of them is written."""
        self._sources.clear()

    def spans(self, files: Collection[str], *, by_publisher: bool) -> list[Span]:
        """Tell between which ticks files are. Their footers know it, unless columns are made of others."""
        if self._is_plain and not by_publisher:
            told = [self._from_footer(file) for file in files]
            if all(each is not None for each in told):
                return [span for spans in told for span in spans or ()]
        if not files:
            return []
        is_sound = F.col(REASON).isNull()
        clock, l_ = F.when(is_sound, F.col(R)), F.when(is_sound, F.col(L))
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
                F.count_if(~is_sound),
            )
        )  # fmt: skip
        return [Span(Path(on_disk(row[0])).name, *row[1:]) for row in found.collect()]

    def _from_footer(self, file: str) -> list[Span] | None:
        if not is_parquet(Path(file)):
            return None
        try:
            footer = pq.read_metadata(self._where / file)
            kinds = {field.name: field.type for field in pq.read_schema(self._where / file)}
        except (OSError, pa.ArrowException):
            return None
        told = [name for name in _TOLD if name in kinds]
        is_whole = all(pa.types.is_signed_integer(kinds[name]) for name in told)
        if not is_whole or not {PID, SEQ, L} <= set(told) or KIND in kinds:
            return None
        places = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
        spans = []
        for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
            known = {name: group.column(places[name]).statistics for name in (*told, *([GRP] * (GRP in kinds)))}
            if not all(each and each.has_min_max and each.null_count == 0 for each in known.values()):
                return None
            if GRP in known and not known[GRP].min:
                return None
            if any(known[name].min < 0 or known[name].max >> ROOM.get(name, 63) for name in told):
                return None  # some rows may have no place: they are looked for one by one
            clock, l_ = known[R if R in known else L], known[L]
            spans.append(Span(file, None, clock.max, l_.max, l_.min, l_.max, group.num_rows, group.num_rows, 0))
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


def _suffixes(path: Path) -> str:
    """Return the end of a name that tells the format, and how it is compressed."""
    plain = path.with_suffix("") if path.suffix in (".gz", ".zst") else path
    return plain.suffix + (path.suffix if plain is not path else "")
