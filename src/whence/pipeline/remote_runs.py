"""Runs behind a URI: Spark lists their files and looks into them where it runs; this process learns what it must know.

That is a row for every run and kind, what each run says about itself, and the files that something is wrong with. None
of it grows with the rows.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from whence.pipeline.frames import F
from whence.pipeline.storage import UriPath, listed
from whence.trace.layout import RUN_FILE
from whence.trace.memory import Run
from whence.trace.reader import described_by

Facts: TypeAlias = Callable[[str, bytes], tuple[int, bool, str | None]]
"""From a file's path and content: its rows, whether its columns have other types than a trace's, and why it cannot be
used."""

FILE_BYTES_MAX: Final = 256 << 20
"""A larger file is not looked into, because a task would have to hold it whole. Where Spark cannot read it, it says
so."""
ROW_BYTES: Final = 128
"""What a row takes in memory, at least."""

_RUN: Final = r"^(.*/run_id=[^/]+)/(?:kind=([^/]+)/[^/]+\.parquet|[^/]+)$"
_READ: Final = ("path", "length", "content")
_FACTS: Final = "path string, size bigint, other boolean, reason string"
_SHAPE: Final = pa.schema([("path", pa.string()), ("size", pa.int64()), ("other", pa.bool_()), ("reason", pa.string())])


class TroubledFile(NamedTuple):
    """A file that cannot be used, or (without a reason) one whose columns have other widths."""

    file: UriPath
    reason: str | None


class Inspected(NamedTuple):
    """What Spark has to handle, and the files that need care."""

    bytes: int
    troubled: list[TroubledFile]


class RemoteRuns:
    """The runs below a URI."""

    def __init__(self, place: UriPath) -> None:
        """List them: a run is a directory run_id=…, at the place or below it."""
        self._spark, self._place = place.spark, place
        found = listed([place]).select(
            F.regexp_extract("path", _RUN, 1).alias("run"), F.regexp_extract("path", _RUN, 2).alias("kind")
        )
        self.runs: dict[UriPath, set[str]] = {}
        """The kinds of rows that each run has."""
        for row in found.filter("run <> ''").distinct().orderBy("run").collect():
            self.runs.setdefault(UriPath(self._spark, row["run"]), set()).add(row["kind"])
        self._descriptions: dict[UriPath, bytes] | None = None

    def described(self, run: UriPath) -> Run:
        """Return what a run says about itself. Raises TraceError."""
        if self._descriptions is None:
            files = listed([self._place]).filter(F.col("path").rlike(rf"/run_id=[^/]+/{re.escape(RUN_FILE)}$"))
            found = files.select("path", "content").collect()
            self._descriptions = {UriPath(self._spark, row["path"]).parent: bytes(row["content"]) for row in found}
        return described_by(self._descriptions.get(run), run)

    def inspected(self, runs: Sequence[UriPath], facts_of: Facts) -> Inspected:
        """Look into every file of some runs, in the tasks of one job."""
        if not runs:
            return Inspected(0, [])

        def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                rows = [
                    (path, length, facts_of(path, content))
                    for path, length, content in zip(*(batch.column(name).to_pylist() for name in _READ), strict=True)
                ]
                yield pa.RecordBatch.from_pylist(
                    [
                        {"path": path, "size": max(length, ROW_BYTES * count), "other": other, "reason": reason}
                        for path, length, (count, other, reason) in rows
                    ],
                    schema=_SHAPE,
                )

        files = listed(runs).filter(F.col("path").rlike(r"/run_id=[^/]+/kind=[^/]+/[^/]+\.parquet$"))
        unseen = files.filter(F.col("length") > FILE_BYTES_MAX).agg(F.sum("length")).collect()[0][0] or 0
        facts = files.filter(F.col("length") <= FILE_BYTES_MAX).select(*_READ).mapInArrow(look, _FACTS)
        is_troubled = F.col("other") | F.col("reason").isNotNull()
        usable = F.when(F.col("reason").isNull(), F.col("size"))
        summed = facts.agg(
            F.sum(usable).alias("bytes"), F.collect_list(F.when(is_troubled, F.struct("path", "reason"))).alias("files")
        ).collect()[0]  # fmt: skip
        troubled = [TroubledFile(UriPath(self._spark, each["path"]), each["reason"]) for each in summed["files"]]
        return Inspected(int(summed["bytes"] or 0) + int(unseen), sorted(troubled))
