"""Gather on Spark: the trace segments of any number of live nodes become one trace, wherever both lie.

Every segment is looked into by a task of its own; what the segments of a node tell is put together by one task a node,
from a few hundred bytes each. The driver learns a little about each incarnation, and decides what is missing and how
each ended. Then every segment is read again, as far as it was looked at, and its rows go to the trace. The rules are
those of `trace/incarnations.py` and `trace/gathering.py`, which `whence gather` follows without Spark, too.

The run's description is put in place last: a gathering that is killed leaves nothing that a reader takes for a run, and
one that is started again writes all of it anew.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.errors import TraceError, UsageError, WhenceError
from whence.pipeline.columns import KIND
from whence.pipeline.segment_rows import ROWS_DDL, batches_of, kind_table, segment_files, segments_in
from whence.pipeline.session import first_line
from whence.pipeline.sole_writer import sole_writer
from whence.pipeline.storage import AnyPath, Ownership, UriPath, put, remove
from whence.trace.gathering import GatheredRun
from whence.trace.incarnations import (
    NodeFacts,
    PublisherSpan,
    SegmentFacts,
    SegmentPass,
    Spans,
    facts_of,
    node_facts,
    passed_on,
)
from whence.trace.layout import MEMBERSHIP, MEMBERSHIP_SCHEMA, RUN_FILE, claim_name, run_directory_name
from whence.trace.memory import Row
from whence.trace.schema import COLUMNS_OF, Kind
from whence.trace.writer import OF_MEMBERSHIP, membership_rows

_FACTS_DDL: Final = "node int, facts binary"
_TOLD_DDL: Final = (
    "what string, node int, pid int, inc int, path string, rows bigint, published bigint, delivered bigint, "
    "clock bigint, data binary"
)
_TOLD: Final = pa.schema(
    [("what", pa.string()), ("node", pa.int32()), ("pid", pa.int32()), ("inc", pa.int32()), ("path", pa.string()),
     ("rows", pa.int64()), ("published", pa.int64()), ("delivered", pa.int64()), ("clock", pa.int64()),
     ("data", pa.binary())]
)  # fmt: skip
_NODE, _PASS, _SPAN = "node", "pass", "span"
_GONE: Final = "FAILED_READ_FILE.FILE_NOT_EXIST"
"""How Spark tells that a file is not there any more."""
_WRITERS: Final = "spark.sql.maxConcurrentOutputFileWriters"


class SparkGathering:
    """The segments of a group's processes below some places, gathered by Spark."""

    def __init__(self, spark: SparkSession, places: Sequence[AnyPath], group: str) -> None:
        """List the segments. Raises UsageError where a place does not exist."""
        self._spark, self._group = spark, group
        try:
            files = segment_files(spark, [str(place) for place in places], group, may_vanish=False)
            self._files = files.select("path", "content")
        except AnalysisException as error:
            raise UsageError(
                f"DIR: {first_line(error)}; give the directories that live nodes wrote traces to"
            ) from error
        self._told: DataFrame | None = None

    def look(self, run_id: str, version: str, *, one_clock: bool = False, **about: Any) -> GatheredRun:
        """Look into every segment; return the run as all of them tell it. Raises TraceError."""
        facts = self._files.mapInArrow(_look, _FACTS_DDL)
        self._told = told = facts.groupBy("node").applyInArrow(_put_together, _TOLD_DDL).persist()
        try:
            about_nodes = told.filter(F.col("what") == _NODE).select("node", "data").collect()
        except Exception as error:
            if _GONE not in str(error):
                raise
            raise TraceError(
                "a segment was removed while it was gathered: its node still runs, and keeps no more of them; gather "
                "again, or with --follow"
            ) from error
        nodes = {row["node"]: msgspec.msgpack.decode(row["data"], type=NodeFacts) for row in about_nodes}
        by_publisher = told.filter(F.col("what") == _SPAN).groupBy("pid", "inc")
        summed = by_publisher.agg(*(F.max(name).alias(name) for name in ("published", "delivered", "clock")))
        spans: Spans = {
            (row["pid"], row["inc"]): PublisherSpan(row["published"], row["delivered"], row["clock"])
            for row in summed.collect()
        }
        return GatheredRun(nodes, spans, self._group, run_id, version, one_clock=one_clock, **about)

    def write(self, found: GatheredRun, out: AnyPath) -> tuple[AnyPath, int]:
        """Write the trace that `look` found; return where, and how many rows. Raises TraceError and UsageError."""
        assert self._told is not None
        where = out / run_directory_name(found.run.run_id)
        passes = self._told.filter(F.col("what") == _PASS)
        endings = [row for _, ended in found.endings() for row in ended]
        found.run.rows = int(passes.agg(F.sum("rows")).collect()[0][0] or 0) + len(endings)
        rows = self._files.join(F.broadcast(passes.select("path", "data")), "path").select("path", "data", "content")
        rows = rows.mapInArrow(partial(_pass_on, one_clock=found.one_clock), ROWS_DDL)
        if endings:
            kinds = dict.fromkeys(kind for kind, _ in endings)
            table = pa.concat_tables(kind_table(kind, [row for of, row in endings if of is kind]) for kind in kinds)
            rows = rows.unionByName(self._spark.createDataFrame(table.combine_chunks(), ROWS_DDL))
        before = self._spark.conf.get(_WRITERS, "0")
        try:
            remove(where)
            owned = Ownership(where) if isinstance(where, UriPath) else None
            self._spark.conf.set(_WRITERS, str(len(Kind)))  # rows need not be sorted by kind
            rows.write.partitionBy(KIND).mode("append").parquet(str(where))
            there = self._spark.read.schema(ROWS_DDL).parquet(str(where))
            self._write_membership(found, there, where)
            _check_balance(found.run.rows, there.count(), where)
            if owned is not None:
                owned.check()
            _put(where / RUN_FILE, msgspec.json.format(msgspec.json.encode(found.run), indent=2) + b"\n")
        except WhenceError:
            raise
        except Exception as error:
            raise TraceError(f"{where} cannot be written: {first_line(error)}") from error
        finally:
            self._spark.conf.set(_WRITERS, str(before))
        return where, found.run.rows

    def close(self) -> None:
        """Forget what was learned."""
        if self._told is not None:
            self._told.unpersist()

    def _write_membership(self, found: GatheredRun, rows: DataFrame, where: AnyPath) -> None:
        """Write who was a member of which group: of rows that grow with those who came and went alone."""
        turns: list[tuple[Kind, Row]] = []
        for kind in OF_MEMBERSHIP:
            told = rows.filter(F.col(KIND) == kind.value).select(*COLUMNS_OF[kind])
            turns += [(kind, tuple(row)) for row in told.collect()]
        stays = membership_rows(found.run, turns)
        columns = list(zip(*stays, strict=True)) or [()] * len(MEMBERSHIP_SCHEMA)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, MEMBERSHIP_SCHEMA, strict=True)]
        table = self._spark.createDataFrame(pa.table(arrays, schema=MEMBERSHIP_SCHEMA))
        table.coalesce(1).write.mode("overwrite").parquet(str(where / MEMBERSHIP))


def _check_balance(rows: int, there: int, where: AnyPath) -> None:
    """Check that the rows that were found are those that were written. Raises TraceError."""
    if there != rows:
        raise TraceError(
            f"{where}: {there:,} rows are there of {rows:,} that were found, so it does not count: segments were "
            "removed while they were gathered, or another command writes there; gather again"
        )


def _put(file: AnyPath, content: bytes) -> None:
    """Write a file whole or not at all."""
    if isinstance(file, UriPath):
        put(file, content)
        return
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(file)


# --- where Spark runs ---


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what each segment tells."""
    shape = pa.schema([("node", pa.int32()), ("facts", pa.binary())])
    for segment, _ in segments_in(batches):
        facts = facts_of(segment)
        yield pa.RecordBatch.from_pylist([{"node": facts.node, "facts": msgspec.msgpack.encode(facts)}], schema=shape)


def _put_together(facts: pa.Table) -> pa.Table:
    """Return what the segments of one node tell together: about it, how to pass each on, and about publishers."""
    known = node_facts(msgspec.msgpack.decode(each, type=SegmentFacts) for each in facts.column("facts").to_pylist())
    number = facts.column("node")[0].as_py()
    passes = [
        {"what": _PASS, "path": each.where, "rows": each.rows, "data": msgspec.msgpack.encode(each)}
        for each in known.passes
    ]
    spans = [
        {"what": _SPAN, "pid": pid, "inc": inc, "published": span.published, "delivered": span.delivered,
         "clock": span.clock}
        for pid, inc, span in known.spans
    ]  # fmt: skip
    known.passes, known.spans = [], []
    rows: list[dict[str, Any]] = [{"what": _NODE, "data": msgspec.msgpack.encode(known)}, *passes, *spans]
    return pa.Table.from_pylist([row | {"node": number} for row in rows], schema=_TOLD)


def _pass_on(batches: Iterator[pa.RecordBatch], *, one_clock: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of segments as they are in a trace."""
    for segment, row in segments_in(batches):
        how = msgspec.msgpack.decode(row["data"], type=SegmentPass)
        yield from batches_of(passed_on(segment, how, one_clock=one_clock))


Prepare = Callable[[GatheredRun], None]
"""Looks at what was found before anything is written; may raise."""


def gather_on_spark(
    spark: SparkSession, places: Sequence[AnyPath], out: AnyPath, group: str, run_id: str, version: str, *,
    one_clock: bool = False, prepare: Prepare = lambda found: None,
) -> tuple[GatheredRun, AnyPath, int]:  # fmt: skip
    """Gather the segments of a group below some places into a run below `out`; return what was found, where the run is,
    and how many rows it has. Raises TraceError and UsageError."""
    gathering = SparkGathering(spark, places, group)
    try:
        with nullcontext() if isinstance(out, UriPath) else sole_writer(out, claim_name(run_id)):
            found = gathering.look(run_id, version, one_clock=one_clock)
            prepare(found)
            return found, *gathering.write(found, out)
    finally:
        gathering.close()
