"""Streaming merge: publishers' logs that keep growing become the same order as in batch, as soon as it is safe.

Every micro-batch b reads the manifest of the step before it, never a clock: W is the tick up to which everything is
released. New rows at or below the old W are late and go to a side table; rows of this batch and those still pending
are released up to the new W, in the order of the key, and the rest is pending. One Spark job writes all three, then
the manifest is moved into place: that is the commit. A batch that is done again after a crash, at whatever point,
reads the same files and the same manifest and writes the same rows over what it left; a batch whose manifest is there
is not done again. Readers trust only batches that have a manifest.

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
from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from whence.errors import UsageError
from whence.pipeline.logs import GRP, HEARTBEAT, KEY, LOG_DDL, PID, L, R, format_of, log_files, log_table
from whence.pipeline.merge import POS
from whence.pipeline.session import first_line, is_connected

Mode: TypeAlias = Literal["evidence", "frontier"]

PENDING, RELEASED, LATE, TWICE = FATES = "pending", "released", "late", "twice"
CLS: Final = "cls"
NOTHING: Final = -(2**62)
MANIFESTS: Final = "manifests"
_FLUSH: Final = "-flush"


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
    max_l: int = NOTHING
    reached: dict[str, tuple[int, int]] = {}
    """Per publisher, the last (l, r) seen; only in frontier mode."""
    left_out: list[int] = []
    released: dict[str, int] = {}
    """Per group, how many rows have been released so far: the next position."""
    rows: dict[str, int] = {}
    """What this step did: how many rows are pending, released, late, or were there twice."""


class Merging:
    """One stream's directories and rules; `step` is what Spark calls with every micro-batch."""

    def __init__(self, spark: SparkSession, out: Path, work: Path, rules: Rules) -> None:
        self._spark = spark
        self._out = out
        self._work = work
        self._rules = rules
        # Each fate is written as its rows come, in order: no second sort by fate.
        spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(len(FATES)))
        # Batches are alike: a comparison that was compiled for one serves all, however small they are.
        spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")

    def step(self, rows: DataFrame, batch: int) -> None:
        """Merge a micro-batch, unless it is committed already."""
        name = f"{batch:08d}"
        if not _manifest_file(self._out, name).exists():
            self._commit(name, rows, self._before(name), None)

    def flush(self) -> None:
        """Release everything that is pending: the logs are complete."""
        last = self._before("~")
        if last.step and not last.step.endswith(_FLUSH) and last.rows.get(PENDING):
            self._commit(last.step + _FLUSH, None, last, last.max_l)

    def _before(self, name: str) -> Manifest:
        """Return the manifest of the step before one."""
        steps = [step for step in manifests(self._out) if step < name]
        return read_manifest(self._out, steps[-1]) if steps else Manifest()

    def _commit(self, name: str, rows: DataFrame | None, before: Manifest, flush_to: int | None) -> None:
        after = Manifest(
            step=name, w=before.w, max_r=before.max_r, max_l=before.max_l, reached=dict(before.reached)
        )  # fmt: skip
        after.w = self._next_w(before, flush_to, rows, after)
        seen = Observation(f"seen-{name}")
        if rows is not None:
            latest = F.max(F.when(~F.col(HEARTBEAT), F.col(L))).alias("l")
            rows = rows.observe(seen, F.max(R).alias("r"), latest)
        self._write(name, classified(rows, self._pending(before), before.w, after.w), before)
        if rows is not None:
            found = seen.get
            after.max_r = max(before.max_r, NOTHING if found["r"] is None else found["r"])
            after.max_l = max(before.max_l, NOTHING if found["l"] is None else found["l"])
        self._publish(name, before, after)
        _put(_manifest_file(self._out, name), msgspec.json.encode(after))
        if before.step:
            shutil.rmtree(self._work / f"step={before.step}", ignore_errors=True)

    def _next_w(self, before: Manifest, flush_to: int | None, rows: DataFrame | None, after: Manifest) -> int:
        if flush_to is not None:
            return max(before.w, flush_to)
        if self._rules.mode == "evidence":
            return max(before.w, before.max_r - self._rules.wait)
        assert rows is not None
        last = rows.groupBy(PID).agg(F.max(L).alias(L), F.max(R).alias(R))
        for row in last.collect():
            known = after.reached.get(str(row[PID]), (NOTHING, NOTHING))
            after.reached[str(row[PID])] = max(known[0], row[L]), max(known[1], row[R])
        newest = max((at[1] for at in after.reached.values()), default=NOTHING)
        alive = {pid: at for pid, at in after.reached.items() if at[1] >= newest - self._rules.silent}
        after.left_out = sorted(int(pid) for pid in after.reached if pid not in alive)
        return max(before.w, min((at[0] for at in alive.values()), default=NOTHING) - 1)

    def _pending(self, before: Manifest) -> DataFrame | None:
        where = self._work / f"step={before.step}" / f"{CLS}={PENDING}"
        if not before.rows.get(PENDING):
            return None
        return self._spark.read.schema(LOG_DDL).parquet(str(where))

    def _write(self, name: str, rows: DataFrame, before: Manifest) -> None:
        """Write pending, released and late rows in one job."""
        base = F.lit(0).cast("bigint")
        if before.released:
            known = json.dumps(before.released)
            base = F.coalesce(F.from_json(F.lit(known), "map<string,bigint>")[F.col(GRP)], F.lit(0))
        placed = positioned(rows.repartition(self._rules.partitions, GRP), base)
        where = self._work / f"step={name}"
        shutil.rmtree(where, ignore_errors=True)
        placed.write.mode("overwrite").partitionBy(CLS).option("compression", "zstd").parquet(str(where))

    def _publish(self, name: str, before: Manifest, after: Manifest) -> None:
        """Move what was released and what was late to where readers look, and count it."""
        after.released = dict(before.released)
        for cls in (RELEASED, LATE):
            source, target = self._work / f"step={name}" / f"{CLS}={cls}", self._out / cls / f"step={name}"
            shutil.rmtree(target, ignore_errors=True)
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(source, target)
            counts = _groups_in(target)
            after.rows[cls] = sum(counts.values())
            if cls == RELEASED:
                for grp, count in counts.items():
                    after.released[grp] = after.released.get(grp, 0) + count
        for cls in (PENDING, TWICE):
            after.rows[cls] = sum(_groups_in(self._work / f"step={name}" / f"{CLS}={cls}").values())


# --- tables ---


def classified(rows: DataFrame | None, pending: DataFrame | None, w_before: int, w_after: int) -> DataFrame:
    """Return new and pending rows, each with what becomes of it."""
    released = F.when(F.col(L) <= w_after, RELEASED).otherwise(PENDING)
    tables = []
    if rows is not None:
        fate = F.when(F.col(L) <= w_before, LATE).otherwise(released)
        tables.append(rows.filter(~F.col(HEARTBEAT)).drop(HEARTBEAT).withColumn(CLS, fate))
    if pending is not None:
        tables.append(pending.withColumn(CLS, released))
    assert tables
    return tables[0] if len(tables) == 1 else tables[0].unionByName(tables[1])


def positioned(rows: DataFrame, base: Column) -> DataFrame:
    """Return rows in order with their positions; an event that is there twice keeps one place, and the other none."""
    order = Window.partitionBy(CLS, GRP).orderBy(*KEY)
    place = base + F.dense_rank().over(order) - 1
    is_first = F.row_number().over(order) == F.rank().over(order)
    counted = rows.withColumns({"is_first": is_first, POS: F.when(F.col(CLS) == RELEASED, place)})
    fate = F.when(F.col("is_first") | (F.col(CLS) == LATE), F.col(CLS)).otherwise(TWICE)
    return counted.withColumn(CLS, fate).drop("is_first")


def read_released(spark: SparkSession, out: Path, cls: str = RELEASED) -> DataFrame:
    """Return what a stream has released, or its late rows: only of steps that are committed. Raises UsageError."""
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
    schema = spark.read.format(kind).load(log_files(logs)[:1]).schema
    source = spark.readStream.format(kind).schema(schema).option("maxFilesPerTrigger", files_per_batch)
    rows = log_table(source.load(str(logs)), mapping, str(logs))
    merging = Merging(spark, out, work, rules)

    def step(batch: DataFrame, number: int) -> None:
        merging.step(batch, number)
        if on_step is not None:
            on_step(read_manifest(out, f"{number:08d}"))

    writer = rows.writeStream.foreachBatch(step).option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_seconds} seconds")
    try:
        query: Any = writer.start()
        query.awaitTermination()
        if flush:
            merging.flush()
    except Exception as error:
        raise UsageError(f"the stream stopped and can be started again: {first_line(error)}") from error
