"""One step of a streaming merge: which rows of a micro-batch and of earlier files are due, late, duplicate or rejected.

A step writes its rows, checks that none is lost, and commits with its manifest. stream.py says which rules it follows.
"""

import json
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from whence.errors import InternalError, UsageError
from whence.pipeline.batch import row_count
from whence.pipeline.columns import union
from whence.pipeline.committed_events import (
    Identity,
    already_committed,
    duplicate_total,
    row_total,
    rows_by_group,
    summary,
    with_highest,
    without_events,
)
from whence.pipeline.deduplication import IS_FIRST, with_is_first
from whence.pipeline.logs import GRP, ORDER, POS, L
from whence.pipeline.manifest import (
    HEARTBEATS,
    IN,
    LATE,
    NOTHING,
    PENDING,
    REJECTED,
    RELEASED,
    TWICE,
    VERSION,
    Manifest,
    committed_steps,
    manifest_file,
    read_manifest,
    write_manifest,
)
from whence.pipeline.pending_files import PendingFiles
from whence.pipeline.storage import AnyPath, entries, remove

Mode: TypeAlias = Literal["evidence", "frontier"]

PATH: Final = "path"
"""The column of a micro-batch that names a file."""
SMALL_BYTES: Final = 1 << 20
"""Files of a step below which its expressions are interpreted."""
_FLUSH: Final = "-flush"
_LAST: Final = "~"


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


class _NewFiles(NamedTuple):
    """What a step knows about its new files."""

    spans: dict[str, tuple[int, int]]
    events: dict[str, int]
    with_rejected: list[str]
    """Files with rejected rows."""
    rejected: int
    heartbeats: int


class StreamMerge:
    """The merge of one stream; Spark calls `step` with every micro-batch."""

    def __init__(
        self, spark: SparkSession, files: PendingFiles, out: AnyPath, rules: Rules, *, strict: bool = False,
        still_ours: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Go on where the last step ended. `still_ours` raises where another stream has begun to write there."""
        self._files = files
        self._out = out
        self._still_ours = still_ours
        self._rules = rules
        self._strict = strict
        self._spark = spark
        files.remove_others(self._before(_LAST).pending)

    def step(self, files: DataFrame, batch: int) -> None:
        """Merge a micro-batch, unless it is committed already. Raises UsageError, StorageError, InternalError."""
        name = f"{batch:08d}"
        if not manifest_file(self._out, name).exists():
            self._commit(name, files, self._before(name))

    def flush(self) -> None:
        """Release everything that is pending: the logs are complete."""
        last = self._before(_LAST)
        if last.pending:
            self._commit(last.step + _FLUSH, None, last)

    def _before(self, name: str) -> Manifest:
        """Return the manifest of the step before one."""
        steps = [step for step in committed_steps(self._out) if step < name]
        if not steps:
            return Manifest(version=VERSION)
        last = read_manifest(self._out, steps[-1])
        if last.version < VERSION:
            last.highest_seq = with_highest({}, summary(self._committed()))
        return last

    def _commit(self, name: str, files: DataFrame | None, before: Manifest) -> None:
        self._still_ours()
        after = Manifest(
            step=name, max_r=before.max_r, reached=dict(before.reached), released=dict(before.released),
            highest_seq=dict(before.highest_seq), version=VERSION,
        )  # fmt: skip
        found = _NewFiles({}, {}, [], 0, 0) if files is None else self._link_files(name, files, after)
        flushed = max((last for _, last in before.pending.values()), default=NOTHING)
        after.w = max(before.w, flushed if files is None else self._next_w(before, after))
        known = before.pending | found.spans
        after.pending = {file: span for file, span in known.items() if span[1] > after.w}
        after.events = {file: count for file, count in (before.events | found.events).items() if file in after.pending}
        due = [file for file, (first, last) in known.items() if first <= after.w and last > before.w]
        late = [file for file, (first, _) in found.spans.items() if first <= before.w]
        # Compiling takes a second or more, which a few rows are not worth.
        is_small = self._files.size({*due, *late}) < SMALL_BYTES
        self._spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if is_small else "FALLBACK")
        duplicates = self._release(name, due, before, after)
        duplicates += self._set_aside_late(name, late, before, after)
        self._replace(name, TWICE, union(duplicates) if duplicates else None)
        self._replace(name, REJECTED, self._files.rejected(found.with_rejected) if found.with_rejected else None)
        after.rows[REJECTED] = row_count(self._directory(name, REJECTED))
        after.rows[PENDING] = self._pending(after)
        self._check(before, after, found)
        self._still_ours()
        write_manifest(self._out, after)
        self._files.remove(file for file in (*known, *found.with_rejected) if file not in after.pending)
        self._files.forget_sources()

    def _link_files(self, name: str, files: DataFrame, after: Manifest) -> _NewFiles:
        """Link the files of a batch and note how far their clocks are."""
        by_publisher = self._rules.mode == "frontier"
        linked = self._files.link(name, (row[PATH] for row in files.collect()))
        spans: dict[str, tuple[int, int]] = {}
        events = dict.fromkeys(linked, 0)
        with_rejected = set()
        rows = rejected = 0
        for file, publisher, r, l_, first, last, in_all, valid, wrong in self._files.spans(
            linked, by_publisher=by_publisher
        ):
            rows, rejected, events[file] = rows + in_all, rejected + wrong, events[file] + valid
            if wrong:
                with_rejected.add(file)
            if r is None or l_ is None:
                continue
            after.max_r = max(after.max_r, r)
            if by_publisher:
                known = after.reached.get(str(publisher), (NOTHING, NOTHING))
                after.reached[str(publisher)] = max(known[0], l_), max(known[1], r)
            if first is not None and last is not None:
                least, greatest = spans.get(file, (first, last))
                spans[file] = min(least, first), max(greatest, last)
        if with_rejected and self._strict:
            raise UsageError(f"LOGS: {self._files.first_rejected(sorted(with_rejected))}")
        if (in_files := self._files.count(linked)) != rows:
            raise InternalError(f"step {name} does not balance: {in_files:,} rows are in its files, {rows:,} were read")
        return _NewFiles(spans, events, sorted(with_rejected), rejected, rows - rejected - sum(events.values()))

    def _next_w(self, before: Manifest, after: Manifest) -> int:
        if self._rules.mode == "evidence":
            return before.max_r - self._rules.wait
        alive = {pid: at for pid, at in after.reached.items() if at[1] >= after.max_r - self._rules.silent}
        gone = sorted(pid for pid in after.reached if pid not in alive)
        after.silent = [int(pid) if pid.isdecimal() else pid for pid in gone]
        return min((at[0] for at in alive.values()), default=NOTHING) - 1

    def _release(self, name: str, files: list[str], before: Manifest, after: Manifest) -> list[DataFrame]:
        """Write what is due in the order of the key, with positions; return the duplicates of events."""
        due = self._files.events_in(files).filter(F.col(L).between(before.w + 1, after.w)) if files else None
        summed, duplicates = self._write_once(
            name, RELEASED, None if due is None else due.repartition(self._rules.partitions, GRP), after,
            lambda events: positioned(events, before.released),
        )  # fmt: skip
        for grp, count in rows_by_group(summed).items():
            after.released[grp] = after.released.get(grp, 0) + count
        return duplicates

    def _set_aside_late(self, name: str, files: list[str], before: Manifest, after: Manifest) -> list[DataFrame]:
        rows = self._files.events_in(files).filter(F.col(L) <= before.w) if files else None
        return self._write_once(
            name, LATE, rows, after, lambda events: events.selectExpr("*", f"cast(null as bigint) as {POS}")
        )[1]

    def _write_once(
        self, name: str, fate: str, rows: DataFrame | None, after: Manifest, finished: Callable[[DataFrame], DataFrame]
    ) -> tuple[pa.Table, list[DataFrame]]:
        """Write every event of some rows that is not committed yet, once; return a summary of it, and the other rows.

        Nearly always all rows are written. They are looked through afterwards, which costs less than a second sort, and
        written again where some were there already.
        """
        after.rows.setdefault(TWICE, 0)
        if rows is None:
            self._replace(name, fate, None)
            after.rows[fate] = 0
            return summary([]), []
        made = self._write(name, fate, finished(rows))
        summed = summary([made])
        duplicates = duplicate_total(summed)
        if duplicates:
            self._write(name, fate, finished(_once(rows)))
            summed = summary([made])
        known = already_committed(made, summed, after.highest_seq, lambda: self._committed(name, released=fate == LATE))
        if known:
            self._write(name, fate, finished(without_events(_once(rows), known)))
            summed = summary([made])
        after.highest_seq = with_highest(after.highest_seq, summed)
        after.rows[fate] = row_total(summed)
        after.rows[TWICE] += duplicates + len(known)
        return summed, _duplicate_rows(rows, known) if duplicates or known else []

    def _committed(self, name: str = _LAST, *, released: bool = False) -> list[AnyPath]:
        """Return the directories of events that the steps before one have released or set aside as late, and with
        `released` what that step itself has released."""
        steps = [step for step in committed_steps(self._out) if step < name]
        before = [(step, fate) for step in steps for fate in (RELEASED, LATE)]
        return self._there([*before, *([(name, RELEASED)] if released else [])])

    def _there(self, wanted: list[tuple[str, str]]) -> list[AnyPath]:
        """Return those directories of rows, of steps and fates, that there are."""
        names = {fate: set(entries(self._out / fate)) for fate in {fate for _, fate in wanted}}
        return [self._directory(step, fate) for step, fate in wanted if f"step={step}" in names[fate]]

    def _pending(self, after: Manifest) -> int:
        """Return how many events are pending in the files that are kept."""
        unread = [file for file, (first, _) in after.pending.items() if first > after.w and file in after.events]
        others = [file for file in after.pending if file not in unread]
        return self._files.events_after(others, after.w) + sum(after.events[file] for file in unread)

    def _check(self, before: Manifest, after: Manifest, found: _NewFiles) -> None:
        """Check that no row is lost. Raises InternalError."""
        events = sum(found.events.values())
        after.rows |= {IN: events + found.rejected, HEARTBEATS: found.heartbeats}
        incoming = before.rows.get(PENDING, 0) + after.rows[IN]
        outgoing = sum(after.rows[fate] for fate in (RELEASED, LATE, TWICE, REJECTED, PENDING))
        if incoming != outgoing or after.rows[REJECTED] != found.rejected:
            raise InternalError(
                f"step {after.step} does not balance and is not committed: {incoming:,} rows came in, {after.rows}"
            )

    # --- directories ---

    def _directory(self, name: str, fate: str) -> AnyPath:
        return self._out / fate / f"step={name}"

    def _write(self, name: str, fate: str, rows: DataFrame) -> AnyPath:
        """Write rows where readers look for them once the step has a manifest, over what an earlier attempt left."""
        where = self._directory(name, fate)
        rows.write.mode("overwrite").parquet(str(where))
        return where

    def _replace(self, name: str, fate: str, rows: DataFrame | None) -> None:
        if rows is not None:
            self._write(name, fate, rows)
        else:
            remove(self._directory(name, fate))


def positioned(rows: DataFrame, before: dict[str, int]) -> DataFrame:
    """Return events in order with their positions; `before` is how many of each group came before."""
    order = Window.partitionBy(GRP).orderBy(*ORDER)
    base = F.from_json(F.lit(json.dumps(before)), "map<string,bigint>")[F.col(GRP)]
    return rows.withColumn(POS, F.coalesce(base, F.lit(0)) + F.row_number().over(order) - 1)


def _once(rows: DataFrame) -> DataFrame:
    """Return one row of each event, the one that counts."""
    return with_is_first(rows).filter(IS_FIRST).drop(IS_FIRST)


def _duplicate_rows(rows: DataFrame, known: list[Identity]) -> list[DataFrame]:
    """Return the rows of events that are not the first, or whose event is committed already."""
    others = [with_is_first(rows).filter(f"not {IS_FIRST}").drop(IS_FIRST)]
    if known:
        others.append(without_events(_once(rows), known, how="left_semi"))
    return others
