"""Streaming merge: publishers' logs that keep growing become the same order as in batch, as soon as it is safe.

Every micro-batch b reads the manifest of the step before it, never a clock: W is the tick up to which everything is
released. New rows at or below the old W are late and go to a side table; rows between the old W and the new one are
released, in the order of the key; the rest is pending. Rows that have no place in any order are set aside as rejected,
further rows of an event that is released or late already as there twice. Pending rows are not written again: the step
holds on to the files they lie in, by a link of its own, and the manifest says between which ticks the events of each
file are, so that a later step reads just those that are due, whatever becomes of the logs. Then the manifest is moved
into place: that is the commit. A batch that is done again after a crash, at whatever point, reads the same files and
the same manifest and writes the same rows over what it left; a batch whose manifest is there is not done again. Readers
trust only batches that have a manifest.

    evidence   W = greatest r seen − (δ + 2ε − 1): a row with clock r proves that every clock has reached r − (ε − 1)
    frontier   W = least of the publishers' last l − 1; needs publishers whose logs are in order, and heartbeats of
               idle ones. One that is silent for longer than `silent` ticks is left out, and the manifest names it.

W only grows, so batches release disjoint, increasing ranges of l, and (batch, pos) is the order.

Rows are conserved. What a step has found and what was pending before it is what it released, set aside as late, there
twice or rejected, and what is pending after it, each counted where it lies; a step that does not balance is not
committed.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from whence.errors import InternalError, UsageError, WhenceError
from whence.pipeline.accounted import Identity, groups_of, grown, identities, known_among, without
from whence.pipeline.batch import rows_in
from whence.pipeline.columns import union
from whence.pipeline.held import Held
from whence.pipeline.logs import GRP, HEARTBEAT, LOG, ORDER, L, log_files
from whence.pipeline.merge import POS
from whence.pipeline.normalise import Reader, tolerant
from whence.pipeline.session import first_line, is_connected
from whence.pipeline.unique import IS_FIRST, with_first
from whence.places import local
from whence.store.lock import locked

Mode: TypeAlias = Literal["evidence", "frontier"]

IN, HEARTBEATS = "in", "heartbeats"
PENDING, RELEASED, LATE, TWICE, REJECTED = "pending", "released", "late", "twice", "rejected"
NOTHING: Final = -(2**62)
MANIFESTS: Final = "manifests"
_FLUSH: Final = "-flush"
_LAST: Final = "~"
_PATH: Final = "path"
_FILES_DDL: Final = f"{_PATH} string, modificationTime timestamp, length bigint, content binary"
"""The stream is one of files, a row for each; what is in them is not read before it is due."""
SMALL_BYTES: Final = 1 << 20
"""Files of a step below which its expressions are interpreted."""
_ANY_AGE: Final = "36500d"
"""Files count however old they are: Spark leaves out those of last week unless it is told."""
_VERSION: Final = 2
"""Manifests of version 1 do not know the numbers of publishers, nor how many events a held file has."""


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
    left_out: list[int | str] = []
    released: dict[str, int] = {}
    """Per group, how many rows have been released so far: the next position."""
    held: dict[str, tuple[int, int]] = {}
    """Per file that has pending rows, in `held` of the directory of work, the least and the greatest l in it."""
    events: dict[str, int] = {}
    """Per held file, how many events it has."""
    numbers: dict[str, int] = {}
    """Per group, publisher and incarnation, the greatest number that was released or late."""
    rows: dict[str, int] = {}
    """What this step did: rows that came in, and were released, late, there twice or rejected; what is pending now."""
    version: int = 1


class _Found(NamedTuple):
    """What a step has found in new files."""

    spans: dict[str, tuple[int, int]]
    events: dict[str, int]
    unsound: list[str]
    """Files with rows that have no place in any order."""
    rejected: int
    heartbeats: int


class Merging:
    """One stream's directories and rules; `step` is what Spark calls with every micro-batch."""

    def __init__(
        self, spark: SparkSession, held: Held, out: Path, work: Path, rules: Rules, *, strict: bool = False
    ) -> None:
        self._held = held
        self._out = out
        self._work = work
        self._rules = rules
        self._strict = strict
        self._spark = spark
        held.keep_only(self._before(_LAST).held)

    def step(self, files: DataFrame, batch: int) -> None:
        """Merge a micro-batch, unless it is committed already. Raises UsageError, StorageError, InternalError."""
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
        if not steps:
            return Manifest(version=_VERSION)
        last = read_manifest(self._out, steps[-1])
        if last.version < _VERSION:
            last.numbers = grown({}, identities(self._accounted()))
        return last

    def _commit(self, name: str, files: DataFrame | None, before: Manifest) -> None:
        after = Manifest(
            step=name, max_r=before.max_r, reached=dict(before.reached), released=dict(before.released),
            numbers=dict(before.numbers), version=_VERSION,
        )  # fmt: skip
        found = _Found({}, {}, [], 0, 0) if files is None else self._look(name, files, after)
        flushed = max((last for _, last in before.held.values()), default=NOTHING)
        after.w = max(before.w, flushed if files is None else self._next_w(before, after))
        known = before.held | found.spans
        after.held = {file: span for file, span in known.items() if span[1] > after.w}
        after.events = {file: count for file, count in (before.events | found.events).items() if file in after.held}
        due = [file for file, (first, last) in known.items() if first <= after.w and last > before.w]
        late = [file for file, (first, _) in found.spans.items() if first <= before.w]
        # Compiling takes a second or more, which a few rows are not worth.
        is_small = self._held.size({*due, *late}) < SMALL_BYTES
        self._spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if is_small else "FALLBACK")
        doubled = self._release(name, due, before, after)
        doubled += self._put_aside_late(name, late, before, after)
        self._publish(name, TWICE, union(doubled) if doubled else None)
        self._publish(name, REJECTED, self._held.rejected(found.unsound) if found.unsound else None)
        after.rows[REJECTED] = rows_in(self._place(name, REJECTED))
        after.rows[PENDING] = self._pending(after)
        self._check(before, after, found)
        _put(_manifest_file(self._out, name), msgspec.json.encode(after))
        self._held.let_go(file for file in (*known, *found.unsound) if file not in after.held)
        self._held.forget_sources()

    def _look(self, name: str, files: DataFrame, after: Manifest) -> _Found:
        """Hold the files of a batch and note how far their clocks are."""
        by_publisher = self._rules.mode == "frontier"
        held = self._held.hold(name, (row[_PATH] for row in files.collect()))
        spans: dict[str, tuple[int, int]] = {}
        events = dict.fromkeys(held, 0)
        unsound = set()
        rows = rejected = 0
        for file, publisher, r, l_, first, last, in_all, sound, wrong in self._held.spans(
            held, by_publisher=by_publisher
        ):
            rows, rejected, events[file] = rows + in_all, rejected + wrong, events[file] + sound
            if wrong:
                unsound.add(file)
            if r is None or l_ is None:
                continue
            after.max_r = max(after.max_r, r)
            if by_publisher:
                known = after.reached.get(str(publisher), (NOTHING, NOTHING))
                after.reached[str(publisher)] = max(known[0], l_), max(known[1], r)
            if first is not None and last is not None:
                least, greatest = spans.get(file, (first, last))
                spans[file] = min(least, first), max(greatest, last)
        if unsound and self._strict:
            raise UsageError(f"LOGS: {self._held.first_rejected(sorted(unsound))}")
        if (lying := self._held.count(held)) != rows:
            raise InternalError(f"step {name} does not balance: {lying:,} rows lie in its files, {rows:,} were read")
        return _Found(spans, events, sorted(unsound), rejected, rows - rejected - sum(events.values()))

    def _next_w(self, before: Manifest, after: Manifest) -> int:
        if self._rules.mode == "evidence":
            return before.max_r - self._rules.wait
        alive = {pid: at for pid, at in after.reached.items() if at[1] >= after.max_r - self._rules.silent}
        gone = sorted(pid for pid in after.reached if pid not in alive)
        after.left_out = [int(pid) if pid.isdecimal() else pid for pid in gone]
        return min((at[0] for at in alive.values()), default=NOTHING) - 1

    def _release(self, name: str, files: list[str], before: Manifest, after: Manifest) -> list[DataFrame]:
        """Write what is due in the order of the key, each with its place; return the rows of events already there."""
        due = self._events(files).filter(F.col(L).between(before.w + 1, after.w)) if files else None
        doubled = self._write_once(
            name, RELEASED, None if due is None else due.repartition(self._rules.partitions, GRP), after,
            lambda events: positioned(events, before.released),
        )  # fmt: skip
        for grp, count in groups_of(identities([self._place(name, RELEASED)])).items():
            after.released[grp] = after.released.get(grp, 0) + count
        return doubled

    def _put_aside_late(self, name: str, files: list[str], before: Manifest, after: Manifest) -> list[DataFrame]:
        rows = self._events(files).filter(F.col(L) <= before.w) if files else None
        return self._write_once(
            name, LATE, rows, after, lambda events: events.selectExpr("*", f"cast(null as bigint) as {POS}")
        )

    def _write_once(
        self, name: str, fate: str, rows: DataFrame | None, after: Manifest, finished: Callable[[DataFrame], DataFrame]
    ) -> list[DataFrame]:
        """Write every event of some rows that is not accounted for yet, once; return the other rows."""
        after.rows.setdefault(TWICE, 0)
        if rows is None:
            self._publish(name, fate, None)
            after.rows[fate] = 0
            return []
        seen = Observation(f"{fate}-{name}")
        marked = with_first(rows)
        # Counted in the last stage: what an earlier one does again would count again.
        first = marked.observe(seen, F.count_if(~F.col(IS_FIRST)).alias(TWICE)).filter(IS_FIRST).drop(IS_FIRST)
        made = self._make(fate, finished(first))
        beside = seen.get[TWICE]
        known = known_among(made, after.numbers, self._accounted(name))
        if known:
            made = self._make(fate, finished(without(marked.filter(IS_FIRST).drop(IS_FIRST), known)))
        self._move(name, fate, made)
        table = identities([self._place(name, fate)])
        after.numbers = grown(after.numbers, table)
        after.rows[fate] = table.num_rows
        after.rows[TWICE] += beside + len(known)
        return _others(marked, known) if beside or known else []

    def _accounted(self, name: str = _LAST) -> list[Path]:
        """Return where events lie that steps before one, and that one itself, have released or put aside as late."""
        steps = [step for step in manifests(self._out) if step < name]
        places = [self._place(step, fate) for step in (*steps, name) for fate in (RELEASED, LATE)]
        return [place for place in places if place.exists()]

    def _pending(self, after: Manifest) -> int:
        """Count what is pending, in the files that are held."""
        unread = [file for file, (first, _) in after.held.items() if first > after.w and file in after.events]
        others = [file for file in after.held if file not in unread]
        rest = self._events(others).filter(F.col(L) > after.w).count() if others else 0
        return rest + sum(after.events[file] for file in unread)

    def _check(self, before: Manifest, after: Manifest, found: _Found) -> None:
        """Look whether all rows are accounted for. Raises InternalError."""
        events = sum(found.events.values())
        after.rows |= {IN: events + found.rejected, HEARTBEATS: found.heartbeats}
        came = before.rows.get(PENDING, 0) + after.rows[IN]
        went = sum(after.rows[fate] for fate in (RELEASED, LATE, TWICE, REJECTED, PENDING))
        if came != went or after.rows[REJECTED] != found.rejected:
            raise InternalError(
                f"step {after.step} does not balance and is not committed: {came:,} rows came, {after.rows}"
            )

    # --- directories ---

    def _place(self, name: str, fate: str) -> Path:
        return self._out / fate / f"step={name}"

    def _make(self, fate: str, rows: DataFrame) -> Path:
        made = self._work / fate
        shutil.rmtree(made, ignore_errors=True)
        rows.write.parquet(str(made))
        return made

    def _move(self, name: str, fate: str, made: Path | None) -> None:
        """Move rows to where readers look, over what is left there."""
        target = self._place(name, fate)
        shutil.rmtree(target, ignore_errors=True)
        if made is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(made, target)

    def _publish(self, name: str, fate: str, rows: DataFrame | None) -> None:
        self._move(name, fate, None if rows is None else self._make(fate, rows))

    def _events(self, files: list[str]) -> DataFrame:
        return self._held.sound(files).filter(~F.col(HEARTBEAT)).select(*LOG)


# --- tables ---


def positioned(rows: DataFrame, before: dict[str, int]) -> DataFrame:
    """Return events in order with their positions, after so many of each group."""
    order = Window.partitionBy(GRP).orderBy(*ORDER)
    base = F.from_json(F.lit(json.dumps(before)), "map<string,bigint>")[F.col(GRP)]
    return rows.withColumn(POS, F.coalesce(base, F.lit(0)) + F.row_number().over(order) - 1)


def _others(marked: DataFrame, known: list[Identity]) -> list[DataFrame]:
    """Return the rows of events that are not the first, or are accounted for before."""
    others = [marked.filter(f"not {IS_FIRST}").drop(IS_FIRST)]
    if known:
        others.append(without(marked.filter(IS_FIRST).drop(IS_FIRST), known, how="left_semi"))
    return others


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


# --- running ---


def run_stream(
    spark: SparkSession, logs: Path, out: Path, work: Path, rules: Rules, mapping: Mapping[str, str],
    *, once: bool, flush: bool, strict: bool = False, files_per_batch: int = 8, every_seconds: int = 10,
    on_step: Callable[[Manifest], None] | None = None,
) -> None:  # fmt: skip
    """Merge logs as they come, from where the last run stopped. Raises UsageError and InternalError."""
    if is_connected(spark):
        raise UsageError(
            "--master: a stream needs Spark's driver inside the command; give local[*] or spark://HOST:PORT"
        )
    for path, option in ((out, "--out"), (work, "--work")):
        local(path, option)
    files = log_files(logs)
    _check_apart(logs, out, work)
    Reader(spark, mapping).check(files, str(logs))
    with ExitStack() as held:
        for path, what in ((work, "--work:"), (out, "--out:")):
            held.enter_context(locked(path / ".lock", what, "one stream at a time writes there"))
        _run(
            spark, logs, out, work, rules, mapping, once=once, flush=flush, strict=strict,
            files_per_batch=files_per_batch, every_seconds=every_seconds, on_step=on_step,
        )  # fmt: skip


def _check_apart(logs: Path, out: Path, work: Path) -> None:
    """Refuse directories that would be read as logs or written twice. Raises UsageError."""
    if out.resolve() == work.resolve():
        raise UsageError(f"--work: {work} is where --out is; what is pending needs a directory of its own")
    for path, option in ((out, "--out"), (work, "--work")):
        if path.resolve().is_relative_to(logs.resolve()):
            raise UsageError(f"{option}: {path} lies within {logs}, and would be read as logs; choose another place")


def _check_pair(out: Path, work: Path, checkpoint: Path) -> None:
    """Refuse directories that do not belong together; begin anew where nothing was committed. Raises UsageError."""
    if manifests(out):
        if not checkpoint.exists():
            raise UsageError(
                f"--work: {work} does not belong to {out}: it lacks the checkpoint of what was merged there"
            )
    elif any(path.name.isdecimal() for path in checkpoint.glob("commits/*")):
        raise UsageError(
            f"--work: {work} does not belong to {out}: what it has merged is not there; give both as before, or others"
        )
    else:
        shutil.rmtree(checkpoint, ignore_errors=True)  # of a first step that broke off: Spark takes it for another's


def _run(
    spark: SparkSession, logs: Path, out: Path, work: Path, rules: Rules, mapping: Mapping[str, str],
    *, once: bool, flush: bool, strict: bool, files_per_batch: int, every_seconds: int,
    on_step: Callable[[Manifest], None] | None,
) -> None:  # fmt: skip
    checkpoint = work / "checkpoint"
    _check_pair(out, work, checkpoint)
    source = spark.readStream.format("binaryFile").schema(_FILES_DDL).option("maxFileAge", _ANY_AGE)
    source = source.option("recursiveFileLookup", "true").option("maxFilesPerTrigger", files_per_batch)
    merging = Merging(spark, Held(spark, work / "held", mapping), out, work, rules, strict=strict)
    why: list[WhenceError] = []

    def step(batch: DataFrame, number: int) -> None:
        try:
            merging.step(batch, number)
        except WhenceError as error:
            why.append(error)
            raise
        if on_step is not None:
            on_step(read_manifest(out, f"{number:08d}"))

    writer = source.load(str(logs)).select(_PATH).writeStream.foreachBatch(step)
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_seconds} seconds")
    with tolerant(spark):
        try:
            query: Any = writer.start()
            query.awaitTermination()
            if flush:
                merging.flush()
        except Exception as error:
            cause = why[0] if why else error
            if isinstance(cause, WhenceError):
                raise cause from None
            raise UsageError(f"the stream stopped and can be started again: {first_line(cause)}") from error
