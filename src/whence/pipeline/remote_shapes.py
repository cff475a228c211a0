"""What the files of a log behind a URI look like: Spark reads their footers and first lines, where it runs.

Nearly always all Parquet files of a log fit into one table, and one job finds its columns. Only where types differ, or
files are torn, is every file asked by itself.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from whence.pipeline.frames import F, SparkSession
from whence.pipeline.logs import is_parquet
from whence.pipeline.remote_runs import FILE_BYTES_MAX
from whence.pipeline.session import first_line
from whence.pipeline.storage import UriPath, listed

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TORN_MAX: Final = 3
"""Torn files that are found one by one, a job each; where there are more, every file is asked."""
_UNPACKED_BYTES: Final = 1 << 20
_LINES_LOOKED_AT: Final = 200_000
"""Lines among which names are looked for first; only where one is missing are all read."""


class RemoteShapes:
    """The shapes of files, each asked for once."""

    def __init__(self, spark: SparkSession, lines_of_json: str) -> None:
        self._spark, self._lines_of_json = spark, lines_of_json
        self._known: dict[str, tuple[str | None, str]] = {}
        self.schemas: dict[str, StructType] = {}

    def look(self, files: Sequence[UriPath]) -> Sequence[UriPath]:
        """Find the shapes of files that are not known yet; return the files."""
        new = [file for file in files if str(file) not in self._known]
        self._look_at_tables([file for file in new if is_parquet(file)])
        lines = [file for file in new if not is_parquet(file)]
        torn = self._torn([file for file in lines if file.suffix == ".gz"])
        for file in lines:
            reason = torn.get(str(file))
            self._known[str(file)] = (self._lines_of_json, "") if reason is None else (None, reason)
        return files

    def shape_of(self, file: UriPath) -> tuple[str | None, str]:
        """Return the shape of a file; None where it cannot be read, and the reason."""
        return self._known[str(file)]

    def forget(self, file: object) -> None:
        """Forget a file."""
        self._known.pop(str(file), None)

    def _look_at_tables(self, files: list[UriPath]) -> None:
        for _ in range(_TORN_MAX):
            if not files:
                return
            try:
                self._note(self._schema(files), files)
            except Exception as error:  # noqa: BLE001 - one that names a file is about that file
                torn = [file for file in files if str(file) in str(error)]
                if len(torn) != 1 or len(files) == 1:
                    break
                self._known[str(torn[0])] = None, _unreadable(error)
                files = [file for file in files if file not in torn]
            else:
                return
        for file in files:
            try:
                self._note(self._schema([file]), [file])
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the others are read
                self._known[str(file)] = None, _unreadable(error)

    def _schema(self, files: Sequence[UriPath]) -> "StructType":
        schema: StructType = self._spark.read.option("mergeSchema", "true").parquet(*map(str, files)).schema
        return schema

    def _note(self, schema: "StructType", files: Iterable[UriPath]) -> None:
        shape = schema.simpleString()
        self.schemas[shape] = schema
        self._known |= {str(file): (shape, "") for file in files}

    def _torn(self, files: Sequence[UriPath]) -> dict[str, str]:
        """Return the compressed files that are not whole, and why."""
        if not files:
            return {}
        found = listed(files).filter(F.col("length") <= FILE_BYTES_MAX).select("path", "content")
        torn = found.mapInArrow(_look_into, "path string, reason string").collect()
        return {row["path"]: f"the file cannot be read: {row['reason']}" for row in torn}


def _look_into(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the compressed files that are torn."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("path", "content"))
        torn = [(path, _why_torn(content)) for path, content in zip(*columns, strict=True)]
        rows = [{"path": path, "reason": reason} for path, reason in torn if reason is not None]
        yield pa.RecordBatch.from_pylist(rows, schema=pa.schema([("path", pa.string()), ("reason", pa.string())]))


def _why_torn(content: bytes) -> str | None:
    """Return why the members of a gzip file cannot be read to its end, or None."""
    rest = content
    while rest:
        member = zlib.decompressobj(wbits=31)
        try:
            member.decompress(rest, _UNPACKED_BYTES)
            while member.unconsumed_tail:
                member.decompress(member.unconsumed_tail, _UNPACKED_BYTES)
        except zlib.error as error:
            return str(error)
        if not member.eof:
            return "Compressed file ended before the end-of-stream marker was reached"
        rest = member.unused_data.lstrip(b"\0")
    return None


def _unreadable(error: BaseException) -> str:
    return f"the file cannot be read: {first_line(error)}"


def remote_names(spark: SparkSession, files: Sequence[UriPath], wanted: set[str]) -> set[str]:
    """Return the names in lines of JSON of files: in some of them, or in all where one that is wanted is not there."""
    if not files:
        return set()
    lines = spark.read.text([str(file) for file in files]).select(F.explode(F.json_object_keys("value")).alias("name"))
    for some in (lines.limit(_LINES_LOOKED_AT), lines):
        names = {row["name"] for row in some.distinct().collect()}
        if wanted <= names:
            break
    return names
