"""Streaming merge: publishers' logs that keep growing become the same order as in batch, as soon as it is safe.

Every micro-batch b reads the manifest of the step before it, never a clock: W is the tick up to which everything is
released. New rows at or below the old W are late and go to a side table; rows between the old W and the new one are
released, in the order of the key; the rest is pending. Rows that have no place in any order, because they lack a part
of their key or are out of its range, are set aside as rejected. Pending rows are not written again: the step holds on
to the files they lie in, by a link of its own, and the manifest says between which ticks the events of each file are,
so that a later step reads just those that are due, whatever becomes of the logs. One Spark job writes what is released,
and one more what is late if there is any; then the manifest is moved into place: that is the commit. A batch that is
done again after a crash, at whatever point, reads the same files and the same manifest and writes the same rows over
what it left; a batch whose manifest is there is not done again. Readers trust only batches that have a manifest.

    evidence   W = greatest r seen − (δ + 2ε − 1): a row with clock r proves that every clock has reached r − (ε − 1)
    frontier   W = least of the publishers' last l − 1; needs publishers whose logs are in order, and heartbeats of
               idle ones. One that is silent for longer than `silent` ticks is left out, and the manifest names it.

W only grows, so batches release disjoint, increasing ranges of l, and (batch, pos) is the order.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from whence.errors import UsageError
from whence.pipeline.held import Held
from whence.pipeline.logs import GRP, HEARTBEAT, KEY, L, check_mapping, format_of, log_files
from whence.pipeline.merge import POS
from whence.pipeline.session import first_line, is_connected

Mode: TypeAlias = Literal["evidence", "frontier"]

PENDING, RELEASED, LATE, TWICE, REJECTED = "pending", "released", "late", "twice", "rejected"
NOTHING: Final = -(2**62)
MANIFESTS: Final = "manifests"
_FLUSH: Final = "-flush"
_LAST: Final = "~"
_IS_FIRST: Final = "is_first"
_PATH: Final = "path"
_FILES_DDL: Final = f"{_PATH} string, modificationTime timestamp, length bigint, content binary"
"""The stream is one of files, a row for each; what is in them is not read before it is due."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """When a row is released, in ticks."""

    epsilon: int = 5
    delta: int = 100
    mode: Mode = "evidence"
    silent: int = 60_000
    partitions: int = 2

    @property
    def wait(self) -> int:
        """How far behind the greatest clock everything is released."""
        return self.delta + 2 * self.epsilon - 1


class Manifest(msgspec.Struct, kw_only=True):
    """What a step committed, and all that the next one needs to know."""

    step: str = ""
    w: int = NOTHING
    max_r: int = NOTHING
    reached: dict[str, tuple[int, int]] = {}
    """Per publisher, the last (l, r) seen; only in frontier mode."""
    left_out: list[int] = []
    released: dict[str, int] = {}
    """Per group, how many rows have been released so far: the next position."""
    held: dict[str, tuple[int, int]] = {}
    """Per file that has pending rows, in `held` of the directory of work, the least and the greatest l in it."""
    rows: dict[str, int] = {}
    """What this step did: how many rows are pending, released, late, rejected, or were there twice."""


class Merging:
    """One stream's directories and rules; `step` is what Spark calls with every micro-batch."""

    def __init__(self, spark: SparkSession, held: Held, out: Path, work: Path, rules: Rules) -> None:
        self._held = held
        self._out = out
        self._work = work
        self._rules = rules
        held.keep_only(self._before(_LAST).held)
        # Batches are alike: a comparison that was compiled for one serves all, however small they are.
        spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")

    def step(self, files: DataFrame, batch: int) -> None:
        """Merge a micro-batch, unless it is committed already."""
        name = f"{batch:08d}"
        if not _manifest_file(self._out, name).exists():
            self._commit(name, files, self._before(name))

    def flush(self) -> None:
        """Release everything that is pending: the logs are complete."""
        last = self._before(_LAST)
        if last.held:
            self._commit(last.step + _FLUSH, None, last)

    def _before(self, name: str) -> Manifest:
        """Return the manifest of the step before one."""
        steps = [step for step in manifests(self._out) if step < name]
        return read_manifest(self._out, steps[-1]) if steps else Manifest()

    def _commit(self, name: str, files: DataFrame | None, before: Manifest) -> None:
        after = Manifest(step=name, max_r=before.max_r, reached=dict(before.reached), released=dict(before.released))
        after.rows[PENDING] = before.rows.get(PENDING, 0)
        new, unsound = ({}, []) if files is None else self._look(name, files, after)
        flushed = max((last for _, last in before.held.values()), default=NOTHING)
        after.w = max(before.w, flushed if files is None else self._next_w(before, after))
        known = before.held | new
        after.held = {file: span for file, span in known.items() if span[1] > after.w}
        due = [file for file, (first, last) in known.items() if first <= after.w and last > before.w]
        self._release(name, due, before, after)
        late = [file for file, (first, _) in new.items() if first <= before.w]
        self._put_aside(name, LATE, self._events(late).filter(F.col(L) <= before.w) if late else None, after)
        self._put_aside(name, REJECTED, self._held.rejected(unsound) if unsound else None, after)
        after.rows[PENDING] -= sum(after.rows[fate] for fate in (RELEASED, LATE, TWICE))
        _put(_manifest_file(self._out, name), msgspec.json.encode(after))
        self._held.let_go(file for file in known if file not in after.held)

    def _look(self, name: str, files: DataFrame, after: Manifest) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """Hold the files of a batch and note how far their clocks are.

        Return the least and the greatest l of each, and those that have rows without a place in any order.
        """
        by_publisher = self._rules.mode == "frontier"
        held = self._held.hold(name, (row[_PATH] for row in files.collect()))
        new: dict[str, tuple[int, int]] = {}
        unsound = []
        for file, pid, r, l_, first, last, events, rejected in self._held.spans(held, by_publisher=by_publisher):
            if rejected:
                unsound.append(file)
            if r is None or l_ is None:
                continue
            after.max_r = max(after.max_r, r)
            if by_publisher:
                known = after.reached.get(str(pid), (NOTHING, NOTHING))
                after.reached[str(pid)] = max(known[0], l_), max(known[1], r)
            if first is not None and last is not None:
                least, greatest = new.get(file, (first, last))
                new[file] = min(least, first), max(greatest, last)
            after.rows[PENDING] += events
        return new, sorted({*unsound})

    def _next_w(self, before: Manifest, after: Manifest) -> int:
        if self._rules.mode == "evidence":
            return before.max_r - self._rules.wait
        alive = {pid: at for pid, at in after.reached.items() if at[1] >= after.max_r - self._rules.silent}
        after.left_out = sorted(int(pid) for pid in after.reached if pid not in alive)
        return min((at[0] for at in alive.values()), default=NOTHING) - 1

    def _release(self, name: str, files: list[str], before: Manifest, after: Manifest) -> None:
        """Write what is due in the order of the key, each with its place; an event that is there twice, once."""
        seen = Observation(f"seen-{name}")
        rows = None
        if files:
            due = self._events(files).filter(F.col(L).between(before.w + 1, after.w))
            placed = positioned(due.repartition(self._rules.partitions, GRP), before.released)
            # Counted in the last stage: what an earlier one does again would count again.
            placed = placed.observe(seen, F.count_if(~F.col(_IS_FIRST)).alias(TWICE))
            rows = placed.filter(_IS_FIRST).drop(_IS_FIRST)
        counts = self._publish(name, RELEASED, rows)
        for grp, count in counts.items():
            after.released[grp] = after.released.get(grp, 0) + count
        after.rows[RELEASED] = sum(counts.values())
        after.rows[TWICE] = seen.get[TWICE] if files else 0

    def _put_aside(self, name: str, fate: str, rows: DataFrame | None, after: Manifest) -> None:
        """Write rows that are not released to where nobody takes them for that."""
        if rows is not None:
            rows = rows.withColumn(POS, F.lit(None).cast("bigint"))
        after.rows[fate] = sum(self._publish(name, fate, rows).values())

    def _publish(self, name: str, fate: str, rows: DataFrame | None) -> dict[str, int]:
        """Write rows, then move them to where readers look, over what is left there; return how many a group has."""
        made, target = self._work / fate, self._out / fate / f"step={name}"
        for directory in (made, target):
            shutil.rmtree(directory, ignore_errors=True)
        if rows is None:
            return {}
        rows.write.parquet(str(made))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, target)
        return _groups_in(target)

    def _events(self, files: list[str]) -> DataFrame:
        return self._held.sound(files).filter(~F.col(HEARTBEAT)).drop(HEARTBEAT)


# --- tables ---


def positioned(rows: DataFrame, before: dict[str, int]) -> DataFrame:
    """Return rows in order with their positions, after so many of each group, and which are the first of an event."""
    order = Window.partitionBy(GRP).orderBy(*KEY)
    base = F.from_json(F.lit(json.dumps(before)), "map<string,bigint>")[F.col(GRP)]
    place = F.coalesce(base, F.lit(0)) + F.dense_rank().over(order) - 1
    is_first = F.row_number().over(order) == F.rank().over(order)
    return rows.withColumns({POS: place, _IS_FIRST: is_first})


def read_released(spark: SparkSession, out: Path, cls: str = RELEASED) -> DataFrame:
    """Return what a stream has released, or its late or rejected rows: only of steps that are committed.

    Raises UsageError.
    """
    steps = [step for step in manifests(out) if (out / cls / f"step={step}").exists()]
    if not steps:
        raise UsageError(f"{out} holds no {cls} rows yet")
    return spark.read.option("basePath", str(out / cls)).parquet(*(str(out / cls / f"step={step}") for step in steps))


def manifests(out: Path) -> list[str]:
    """Return the names of the committed steps, in order."""
    return sorted(path.stem for path in (out / MANIFESTS).glob("*.json"))


def read_manifest(out: Path, step: str) -> Manifest:
    """Read the manifest of a step."""
    return msgspec.json.decode(_manifest_file(out, step).read_bytes(), type=Manifest)


def _manifest_file(out: Path, step: str) -> Path:
    return out / MANIFESTS / f"{step}.json"


def _put(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and make sure that it is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _groups_in(directory: Path) -> dict[str, int]:
    if not directory.exists():
        return {}
    column = ds.dataset(directory, format="parquet", partitioning=None).to_table(columns=[GRP]).column(GRP)
    return {each["values"]: each["counts"] for each in column.value_counts().to_pylist()}


# --- running ---


def _schema_of(spark: SparkSession, kind: str, logs: Path, mapping: dict[str, str]) -> StructType:
    """Return the columns of all logs that are there by now. Raises UsageError."""
    try:
        rows = spark.read.format(kind).option("mergeSchema", "true").load(log_files(logs))
    except Exception as error:
        raise UsageError(f"LOGS: {logs} cannot be read: {first_line(error)}") from error
    check_mapping(rows, mapping, str(logs))
    return rows.schema


def run_stream(
    spark: SparkSession, logs: Path, out: Path, work: Path, rules: Rules, mapping: dict[str, str],
    *, once: bool, flush: bool, files_per_batch: int = 8, every_seconds: int = 10,
    on_step: Callable[[Manifest], None] | None = None,
) -> None:  # fmt: skip
    """Merge logs as they come, from where the last run stopped. Raises UsageError."""
    if is_connected(spark):
        raise UsageError(
            "--master: a stream needs Spark's driver inside the command; give local[*] or spark://HOST:PORT"
        )
    kind = format_of(logs)
    checkpoint = work / "checkpoint"
    if manifests(out) and not checkpoint.exists():
        raise UsageError(f"--work: {work} does not belong to {out}: it lacks the checkpoint of what was merged there")
    schema = _schema_of(spark, kind, logs, mapping)
    source = spark.readStream.format("binaryFile").schema(_FILES_DDL)
    source = source.option("recursiveFileLookup", "true").option("maxFilesPerTrigger", files_per_batch)
    held = Held(spark, work / "held", kind, schema, mapping)
    merging = Merging(spark, held, out, work, rules)

    def step(batch: DataFrame, number: int) -> None:
        merging.step(batch, number)
        if on_step is not None:
            on_step(read_manifest(out, f"{number:08d}"))

    writer = source.load(str(logs)).select(_PATH).writeStream.foreachBatch(step)
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_seconds} seconds")
    try:
        query: Any = writer.start()
        query.awaitTermination()
        if flush:
            merging.flush()
    except Exception as error:
        raise UsageError(f"the stream stopped and can be started again: {first_line(error)}") from error
