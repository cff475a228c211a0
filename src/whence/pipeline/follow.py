"""Follow live nodes: the rows of their trace segments as they grow, every row once, and what was lost on the way.

OUT/rows/step=…         the rows of each step, with their kind
OUT/manifests/….json    what each step committed; only steps with a manifest count

A step lists the segments, lets Spark look into those that have grown, writes the rows up to where the last whole record
of each ended, and commits: its manifest says how far every segment was read. A step that was killed, at whatever point,
left rows that no reader trusts, and the next one writes over them. Nodes remove old segments, also while a step reads
them, and go on where their disk refuses rows; nothing waits for the stream. Rows are numbered without gaps, so a step
knows which ones it will never see, says so, and counts them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from time import sleep
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.errors import InternalError, UsageError
from whence.pipeline.manifest import MANIFESTS
from whence.pipeline.segment_rows import ROWS_DDL, batches_of, segment_files, segments_in
from whence.pipeline.session import first_line
from whence.pipeline.sole_writer import sole_writer
from whence.pipeline.storage import AnyPath, Ownership, UriPath, entries, located, put_new, remove
from whence.trace.incarnations import SegmentFacts, check_one_level, facts_of, level_of
from whence.trace.layout import put as put_on_disk
from whence.trace.schema import EV, INC, NODE
from whence.trace.segments import NAME, rows_between

ROWS: Final = "rows"
_READ_DDL: Final = "path string, start bigint, end bigint"


class Followed(msgspec.Struct):
    """How far one incarnation of a process was read."""

    next_ev: int = 0
    """The number of the next row."""
    rows: int = 0
    missing: int = 0
    """Rows that will never be read."""
    says_lost: bool = False
    """Its own segments say that the disk refused rows."""


class Lost(msgspec.Struct, frozen=True):
    """Rows of an incarnation that a step found missing: their numbers, from the first to before the end."""

    node: int
    inc: int
    first: int
    end: int

    def sentence(self) -> str:
        """Return it in words."""
        return f"process {self.node}, incarnation {self.inc}, lost its rows {self.first} to {self.end - 1}"


class Step(msgspec.Struct):
    """What a step committed, and all that the next one needs."""

    number: int = -1
    rows: int = 0
    """The rows of this step."""
    offsets: dict[str, int] = {}
    """How far each segment was read; those that their nodes removed are not listed any more."""
    incarnations: dict[str, Followed] = {}
    """By node and incarnation, such as "3-1"."""
    lost: list[Lost] = []
    """What this step found missing."""
    level: list[str] = []
    """The level of the group, and a segment that names it; none before the first step, and in older manifests."""

    @property
    def missing(self) -> int:
        """Return how many rows will never be read, in all."""
        return sum(each.missing for each in self.incarnations.values())


class Following:
    """The stream of one group's rows into one directory."""

    def __init__(self, spark: SparkSession, places: Sequence[AnyPath], group: str, out: AnyPath) -> None:
        """Go on where the last committed step ended. Raises UsageError and StorageError."""
        self._spark, self._places, self._group, self._out = spark, list(places), group, out
        self._owned = Ownership(out) if isinstance(out, UriPath) else None
        self.last = last_step(out)

    def step(self) -> Step | None:
        """Read what was written since the last step; return what was committed, or None where there was nothing new.

        Raises UsageError, TraceError where groups of different levels have the name, InternalError where rows do not
        add up, and StorageError where another stream took over.
        """
        lengths = self._lengths()
        grown = {path: size for path, size in lengths.items() if size > self.last.offsets.get(path, 0)}
        facts = [each for each in self._look(grown) if each.whole > self.last.offsets.get(each.where, 0)]
        if not facts:
            return None
        named = [(level_of(each.head), each.where) for each in facts if each.head is not None]
        known = [(self.last.level[0], self.last.level[1])] if self.last.level else []
        check_one_level([*known, *named], self._group)
        where = self._out / ROWS / f"step={self.last.number + 1:08d}"
        remove(where)
        self._write(facts, where)
        after = self._balanced(facts, set(lengths), self._spark.read.schema(ROWS_DDL).parquet(str(where)))
        after.level = list([*known, *named][0])
        if self._owned is not None:
            self._owned.check()
        _commit(self._out / MANIFESTS / f"{after.number:08d}.json", msgspec.json.encode(after))
        self.last = after
        return after

    def _balanced(self, facts: list[SegmentFacts], listed: set[str], written: DataFrame) -> Step:
        """Return what a step commits: rows of the segments it looked into are there. Raises InternalError.

        A segment that its node removed before it was read is not: its rows are lost, and the step says so.
        """
        count = written.count()
        if count != sum(each.rows for each in facts):
            there = self._lengths()
            facts = [each for each in facts if each.where in there or _has_rows_of(each, written)]
        after = _after(self.last, facts, listed)
        after.rows = sum(each.rows for each in facts)
        if count != after.rows:
            raise InternalError(
                f"step {after.number} does not balance and is not committed: {after.rows:,} rows are in segments, "
                f"{count:,} were written"
            )
        return after

    def _files(self, paths: Sequence[str]) -> DataFrame:
        # Nodes remove their oldest segments, also between the moments at which one is listed and read.
        return segment_files(self._spark, paths, self._group, may_vanish=True)

    def _lengths(self) -> dict[str, int]:
        """Return the segments that are there, with their sizes. Raises UsageError where a directory is not."""
        try:
            found = self._files([str(place) for place in self._places]).select("path", "length").collect()
        except AnalysisException as error:
            sentence = "give the directories that live nodes write traces to"
            raise UsageError(f"DIR: {first_line(error)}; {sentence}") from error
        return {row["path"]: row["length"] for row in found if NAME.fullmatch(row["path"].rpartition("/")[2])}

    def _look(self, grown: dict[str, int]) -> list[SegmentFacts]:
        """Let Spark look at what is new in segments."""
        content = self._content([(path, self.last.offsets.get(path, 0), 0) for path in grown])
        told = content.mapInArrow(_look, "facts binary").collect() if content is not None else []
        return [msgspec.msgpack.decode(row["facts"], type=SegmentFacts) for row in told]

    def _write(self, facts: Sequence[SegmentFacts], where: AnyPath) -> None:
        content = self._content([(each.where, self.last.offsets.get(each.where, 0), each.whole) for each in facts])
        empty = self._spark.createDataFrame([], ROWS_DDL)
        rows = content.mapInArrow(_between, ROWS_DDL) if content is not None else empty
        rows.write.mode("overwrite").parquet(str(where))

    def _content(self, ranges: list[tuple[str, int, int]]) -> DataFrame | None:
        """Return the segments of some ranges with what is in them, or None where all of them are gone."""
        while ranges:
            try:
                files = self._files([path for path, _, _ in ranges]).select("path", "content")
            except AnalysisException:
                there = self._lengths()
                if all(path in there for path, _, _ in ranges):
                    raise
                ranges = [each for each in ranges if each[0] in there]
            else:
                return files.join(F.broadcast(self._spark.createDataFrame(ranges, _READ_DDL)), "path")
        return None


def follow(
    spark: SparkSession, places: Sequence[AnyPath], group: str, out: AnyPath, *, once: bool,
    every_seconds: float = 10.0, on_step: Callable[[Step], None] = lambda step: None,
) -> Step:  # fmt: skip
    """Read the segments of a group below some places as they grow, or with `once` what is there; return the last step.

    Raises UsageError, TraceError, InternalError and StorageError.
    """
    with nullcontext() if isinstance(out, UriPath) else sole_writer(out):
        following = Following(spark, places, group, out)
        while True:
            try:
                done = following.step()
            except AnalysisException as error:
                raise UsageError(f"the stream stopped and can be started again: {first_line(error)}") from error
            if done is not None:
                on_step(done)
            if once:
                return following.last
            sleep(every_seconds)


def last_step(out: AnyPath) -> Step:
    """Return what the last committed step says; an empty one before the first."""
    steps = committed(out)
    return msgspec.json.decode((out / MANIFESTS / f"{steps[-1]}.json").read_bytes(), type=Step) if steps else Step()


def committed(out: AnyPath) -> list[str]:
    """Return the names of the committed steps, in order."""
    names = [name for name in entries(out / MANIFESTS) if name.endswith(".json") and name[0] != "."]
    return sorted(name.removesuffix(".json") for name in names)


def read_followed(spark: SparkSession, out: AnyPath | str) -> DataFrame:
    """Return all rows of committed steps, in the columns of a trace, with their kind and step. Raises UsageError."""
    place = located(out, lambda: spark)
    steps = [str(place / ROWS / f"step={step}") for step in committed(place)]
    if not steps:
        raise UsageError(f"{out} holds no rows yet")
    reader = spark.read.schema(f"{ROWS_DDL}, step string").option("basePath", str(place / ROWS))
    return reader.parquet(*steps)


def _after(before: Step, facts: Sequence[SegmentFacts], there: set[str]) -> Step:
    """Return the step that follows one, from what is new in segments."""
    offsets = {path: end for path, end in before.offsets.items() if path in there}
    known_before = {name: msgspec.structs.replace(known) for name, known in before.incarnations.items()}
    after = Step(before.number + 1, 0, offsets, known_before)
    for each in sorted(facts, key=lambda each: (each.node, each.inc, each.number, each.where)):
        after.offsets[each.where] = each.whole
        known = after.incarnations.setdefault(f"{each.node}-{each.inc}", Followed())
        known.says_lost |= bool(each.head and each.head.get("lost"))
        if not each.rows:
            continue
        holes = [(known.next_ev, each.first), *each.holes]
        after.lost += [Lost(each.node, each.inc, first, end) for first, end in holes if first < end]
        known.missing += sum(max(0, end - first) for first, end in holes)
        known.next_ev, known.rows = max(known.next_ev, each.last + 1), known.rows + each.rows
    return after


def _has_rows_of(segment: SegmentFacts, written: DataFrame) -> bool:
    """Return whether rows of a segment were written; a segment is read whole or not at all."""
    of_process = (F.col(NODE) == segment.node) & (F.col(INC) == segment.inc)
    return not written.filter(of_process & F.col(EV).between(segment.first, segment.last)).isEmpty()


def _commit(file: AnyPath, content: bytes) -> None:
    if isinstance(file, UriPath):
        put_new(file, content)
    else:
        put_on_disk(file, lambda path: path.write_bytes(content))


# --- where Spark runs ---


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what is new in each segment."""
    for segment, row in segments_in(batches):
        facts = facts_of(segment, row["start"])
        yield pa.RecordBatch.from_pylist(
            [{"facts": msgspec.msgpack.encode(facts)}], schema=pa.schema([("facts", pa.binary())])
        )


def _between(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of segments between two places of each."""
    for segment, row in segments_in(batches):
        yield from batches_of(rows_between(segment, row["start"], row["end"]))
