"""Ingest: the runs below some paths become clean events; what cannot be used is set aside with a reason, and counted.

A file counts when it is whole Parquet with the trace's columns; a run counts when its run.json is there, which is
written last. Files that a writer has not finished have names that readers skip. A row counts when it says whose it is
and which number it has. A duplicate row counts once. Missing rows show in the numbers: every incarnation of a process
numbers its rows 0, 1, 2, …, and a hole makes its run incomplete.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whence.check.levels import is_living, promises_of
from whence.check.ticket_coverage import REPAIR_ROUNDS
from whence.check.ticket_exclusivity import DRIFT_MAX
from whence.errors import TraceError
from whence.pipeline.columns import (
    FILE,
    KIND,
    LIFE,
    NEVER_NULL,
    NEVER_NULL_IN,
    NEVER_NULL_ON_VIEWS,
    ROW,
    RUN_ID,
    TRACE_DDL,
    ddl_of,
    union,
)
from whence.pipeline.frames import Column, DataFrame, F, SparkSession
from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.session import is_local_engine
from whence.pipeline.local.types import arrow_schema
from whence.pipeline.remote_runs import ROW_BYTES, RemoteRuns
from whence.pipeline.session import SMALL_BYTES
from whence.pipeline.storage import AnyPath, UriPath, files_below, located
from whence.trace.layout import (
    RUN_FILE,
    SCHEMA,
    TYPES,
    beyond_limits,
    fitted,
    limits_of,
    parts,
    run_directory_name,
    unknown_kinds,
)
from whence.trace.memory import Run
from whence.trace.reader import NO_ROWS, read_run
from whence.trace.schema import COLUMNS, EV, GRP, INC, NODE, PAYLOAD_BYTES, STAMP_BYTES, WHO, Kind

_TRAFFIC = (Kind.SEND.value, Kind.RECV.value)
"""Most rows of a trace are these; promises read only their numbers, metrics their sizes."""
_OF_TRAFFIC = (*WHO, GRP, STAMP_BYTES, PAYLOAD_BYTES)

_UNREADABLE = (pa.ArrowException, OSError, ValueError, TypeError, MemoryError, OverflowError)
RUNS_DDL = (
    f"{RUN_ID} string, level string, durable boolean, reach_min double, expects_all boolean, full_view boolean, "
    "heal_at bigint, live_from bigint, live_until bigint, deadline_ns bigint, skew_ns bigint, tickets int, k int, "
    "repair_ns bigint, slower double, faster double, promises array<string>, groups array<string>, living boolean, "
    "strict boolean, uniform boolean, keeps_own boolean, forgetful array<bigint>, nodes int, written bigint"
)


FILES_READ = 64
"""More files than this are put into one first, where all are small."""

FILE_BYTES_READ = 1 << 20
"""Files up to this are read whole before use, so that a torn page is found before Spark meets it."""


UNKNOWN_KIND: Final = "it holds rows of a kind that no trace has"
UNIDENTIFIED: Final = "rows without node, inc, ev or the event or view they tell of"


class SetAside(NamedTuple):
    """What was not used, and why. `rows` is None where they cannot be counted."""

    run_id: str | None
    path: str
    reason: str
    rows: int | None = None

    @property
    def is_unreadable(self) -> bool:
        """Whether something is missing that was there: not where rows are there twice, or claim one number."""
        return self.rows is None or self.reason == UNIDENTIFIED

    def sentence(self) -> str:
        """Return it in words."""
        rows = "" if self.rows is None else f" ({self.rows:,} rows)"
        return f"set aside: {self.path}{rows}: {self.reason}"


class Input(NamedTuple):
    """What lies below the paths that were given: runs with their files, by the directory that holds them."""

    runs: dict[str, Run]
    files: dict[AnyPath, list[AnyPath]]
    """Behind a URI also directories, each with all its files."""
    set_aside: list[SetAside]
    other_types: frozenset[AnyPath]
    """Files whose columns have other widths than a trace's, and whose values fit all the same."""
    bytes: int
    """What Spark will have to handle: compressed, millions of rows that are much alike are a small file."""


class Events(NamedTuple):
    """Clean events of all runs, and a table each of the runs and the incarnations in them."""

    runs: DataFrame
    founders: DataFrame
    events: DataFrame
    lives: DataFrame
    set_aside: list[SetAside]
    is_small: bool = True
    """A job takes seconds, most of them for planning."""
    is_clean: bool = False
    """Nothing had to be taken out: the rows are those of the files."""
    work: str | None = None
    """A directory for large tables that are made of the rows, where Spark and this process share a disk."""


# --- what lies on disk ---


def find_input(paths: Iterable[AnyPath | str], *, thorough: bool = False) -> Input:
    """Return every run below the paths; `thorough` reads every page. Raises TraceError where there is none.

    This process looks at files of its own disk; at those behind a URI Spark looks, where it runs.
    """
    found = Input({}, {}, [], frozenset(), 0)
    for path in map(located, paths):
        found = _add_remote(found, path, thorough) if isinstance(path, UriPath) else _add_local(found, path, thorough)
    if not found.runs:
        raise TraceError(found.set_aside[0].reason if found.set_aside else "give the directory of a trace")
    return found


def _add_local(found: Input, path: Path, thorough: bool) -> Input:
    size, other_types = 0, list[Path]()
    for directory in _runs_below(path):
        run_id = _add_run(found, directory, lambda directory=directory: read_run(directory))  # type: ignore[misc]
        for unknown in unknown_kinds(directory) if run_id is not None else ():
            found.set_aside.append(SetAside(run_id, str(unknown), UNKNOWN_KIND))
        for file in [file for kind in Kind for file in parts(directory, kind)] if run_id is not None else ():
            facts = _inspected_here(file, thorough)
            if isinstance(facts, str):
                found.set_aside.append(SetAside(run_id, str(file), facts))
            else:
                found.files.setdefault(directory.parent, []).append(file)
                size += max(file.stat().st_size, ROW_BYTES * facts.rows)
                other_types += [file] if facts.has_other_types else []
        if run_id is not None and not any(parts(directory, kind) for kind in Kind):
            _miss_rows(found, directory, run_id)
    return found._replace(bytes=found.bytes + size, other_types=found.other_types | frozenset(other_types))


def _add_remote(found: Input, path: UriPath, thorough: bool) -> Input:
    listing = RemoteRuns(path)
    if not listing.runs:
        raise TraceError(f"{path} holds no run_id=… directory; give the directory of a trace, or one that holds some")
    run_ids = {
        directory: _add_run(found, directory, lambda directory=directory: listing.described(directory))  # type: ignore[misc]
        for directory in listing.runs
    }
    usable = {directory: run_id for directory, run_id in run_ids.items() if run_id is not None}
    facts = listing.inspected(list(usable), partial(_file_facts, thorough=thorough))
    other_types = [each.file for each in facts.troubled if each.reason is None]
    for directory, run_id in usable.items():
        for each in [directory / f"kind={kind.value}" for kind in Kind if kind.value in listing.runs[directory]]:
            bad: dict[AnyPath, str | None] = {one.file: one.reason for one in facts.troubled if one.file.parent == each}
            found.set_aside.extend(
                SetAside(run_id, str(file), reason) for file, reason in sorted(bad.items()) if reason is not None
            )
            whole: list[AnyPath] = [each]
            if bad:
                whole = [file for file in files_below(each) if bad.get(file, "") is None or file not in bad]
            found.files.setdefault(directory.parent, []).extend(whole)
        for unknown in sorted(listing.runs[directory] - {kind.value for kind in Kind} - {"", None}):
            found.set_aside.append(SetAside(run_id, str(directory / f"kind={unknown}"), UNKNOWN_KIND))
        if not {kind.value for kind in Kind} & listing.runs[directory]:
            _miss_rows(found, directory, run_id)
    return found._replace(bytes=found.bytes + facts.bytes, other_types=found.other_types | frozenset(other_types))


def _add_run(found: Input, directory: AnyPath, read: Callable[[], Run]) -> str | None:
    """Add the run of a directory; return its id, or None where it is set aside."""
    try:
        run = read()
        promises_of(run)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the other runs are judged
        found.set_aside.append(SetAside(None, str(directory), str(error)))
        return None
    if run.run_id in found.runs:
        twice = "another run with the same run_id was given before it"
        found.set_aside.append(SetAside(run.run_id, str(directory), twice))
        return None
    found.runs[run.run_id] = run
    return run.run_id


def _miss_rows(found: Input, directory: AnyPath, run_id: str) -> None:
    """Set a run aside of which only the description is there, unless it says that there are no rows."""
    run = found.runs[run_id]
    if run.rows or (run.rows is None and run.nodes):
        found.set_aside.append(SetAside(run_id, str(directory), "none of its rows is there"))


def _runs_below(path: Path) -> list[Path]:
    """Return the directories of runs: the path itself, or all run_id=… below it."""
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "does not exist"
        raise TraceError(f"{path} {what}; give the directory of a trace (it holds {RUN_FILE})")
    if path.name.startswith("run_id="):
        return [path]
    runs = sorted(entry for entry in path.glob("run_id=*") if entry.is_dir())
    if not runs and (path / RUN_FILE).exists():
        name = run_directory_name(read_run(path).run_id)
        raise TraceError(f"{path} is the directory of a run, and must be called {name} here; whence check takes it so")
    if not runs:
        raise TraceError(f"{path} holds no run_id=… directory; give the directory of a trace, or one that holds some")
    return runs


class _FileFacts(NamedTuple):
    """The rows of a usable file, and whether its columns have other types."""

    rows: int
    has_other_types: bool


def _inspected_here(file: Path, thorough: bool) -> _FileFacts | str:
    """Return the facts of a file of this machine's disk, or why it cannot be used."""
    try:
        return _inspect(file, _kind_of(file), thorough or file.stat().st_size < FILE_BYTES_READ)
    except OSError as error:  # such as a link to itself
        return f"it cannot be read: {error.strerror or error}"


def _kind_of(file: AnyPath) -> str:
    return file.parent.name.removeprefix(f"{KIND}=")


def _file_facts(path: str, content: bytes, *, thorough: bool) -> tuple[int, bool, str | None]:
    """Return the rows of a file's content, whether its columns have other types, and why it cannot be used if so."""
    kind = _kind_of(Path(path))
    facts = _inspect(pa.BufferReader(content), kind, thorough or len(content) < FILE_BYTES_READ)
    return (0, False, facts) if isinstance(facts, str) else (facts.rows, facts.has_other_types, None)


def _inspect(file: Any, kind: str, thorough: bool) -> _FileFacts | str:
    """Return the facts of a file, or why it cannot be used."""
    try:
        with pq.ParquetFile(file, page_checksum_verification=thorough) as parquet:
            have = parquet.schema_arrow
            if missing := [name for name in COLUMNS if name not in have.names]:
                return f"it lacks the column {missing[0]}"
            others = [name for name in COLUMNS if not _same(have.field(name).type, TYPES[name])]
            if thorough:
                parquet.read(use_threads=False)
            if wrong := _unfit_column(parquet, others) or _column_beyond_limits(parquet, kind):
                return wrong
            return _FileFacts(int(parquet.metadata.num_rows), bool(others))
    except _UNREADABLE as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return f"it is not a whole Parquet file: {lines[0]}"


def _unfit_column(parquet: Any, names: list[str]) -> str | None:
    """Return which column of another type does not fit a trace, or None."""
    for name in names:
        try:
            fitted(name, parquet.read(columns=[name], use_threads=False).column(name))
        except ValueError as error:
            return str(error)
    return None


def _column_beyond_limits(parquet: Any, kind: str) -> str | None:
    """Return which column has a value that no trace has, or None. A file says what its least and greatest values are;
    only where it does not is the column read."""
    metadata, limits = parquet.metadata, limits_of(kind)
    for at in range(metadata.num_columns):
        name = metadata.schema.column(at).path
        if name not in limits:
            continue
        for group in range(metadata.num_row_groups):
            told = metadata.row_group(group).column(at).statistics
            if told is not None and told.has_min_max:
                span = {"min": told.min, "max": told.max}
            else:
                span = pc.min_max(parquet.read_row_group(group, columns=[name], use_threads=False).column(0)).as_py()
            if wrong := beyond_limits(kind, name, span["min"], span["max"]):
                return wrong
    return None


def _same(have: Any, want: Any) -> bool:
    if pa.types.is_list(want) and pa.types.is_list(have):
        return _same(have.value_type, want.value_type)
    return bool(have == want)


# --- as tables ---


def read_events(
    spark: SparkSession, found: Input, promises: dict[str, list[str]] | None = None, scratch: Path | None = None
) -> Events:
    """Return clean events: invalid rows are set aside, duplicate rows are used once.

    `promises` says what each run is judged by; without it, by its own. `scratch` is a directory that lasts
    as long as the events are read, where Spark and this process share a disk.
    """
    raw = raw_events(spark, found, scratch)
    on_views = [run_id for run_id, run in found.runs.items() if is_living(run)]
    lives = lives_table(raw, on_views).persist()
    invalid = rows_by_run(lives, "invalid", F.col("invalid"))
    aside = [*found.set_aside, *_set_aside(invalid, UNIDENTIFIED)]
    events = valid_rows(raw, on_views) if invalid else raw
    if rows_by_run(lives, "twice", F.col("rows") - F.col("numbers")):
        events = events.dropDuplicates([RUN_ID, KIND, *COLUMNS])
        before, lives = rows_by_run(lives, "rows", F.col("rows")), lives_table(events).persist()
        after = rows_by_run(lives, "rows", F.col("rows"))
        gone = {run_id: rows - after.get(run_id, 0) for run_id, rows in before.items()}
        aside += _set_aside(gone, "rows that are there twice")
        if contested := rows_by_run(lives, "contested", F.col("rows") - F.col("numbers")):
            # Rows that differ and have one number: nobody knows which is true. The lives still tell of the number.
            claims = events.groupBy(RUN_ID, NODE, INC, EV).agg(F.count("*").alias("claims")).filter("claims > 1")
            left_out = claims.groupBy(RUN_ID).agg(F.sum("claims").alias("rows")).collect()
            contested |= {row[RUN_ID]: row["rows"] for row in left_out}
            aside += _set_aside(contested, "rows whose numbers other rows claim: it is unknown which are true")
            events = events.join(F.broadcast(claims), [RUN_ID, NODE, INC, EV], "left_anti")
    return Events(
        runs_table(spark, found, promises or {}), founders_table(spark, found), with_life(events, lives, found),
        lives.filter("node is not null"), aside, found.bytes < SMALL_BYTES, events is raw,
        None if scratch is None else str(scratch),
    )  # fmt: skip


def with_life(events: DataFrame, lives: DataFrame, found: Input) -> DataFrame:
    """Return the rows, each with the process of its node that it belongs to: one for all incarnations where processes
    remember, and no missing row can say that something handed to an earlier incarnation was not taken."""
    durable = [run_id for run_id, run in found.runs.items() if run.durable]
    if not durable:
        return events.withColumn(LIFE, F.col(INC))
    # Collected, one name per run: a join here would be repeated in the plan of everything that reads the rows.
    runs = runs_table(lives.sparkSession, found, {run_id: [] for run_id in found.runs})
    holes = {row[RUN_ID] for row in incomplete_runs(lives, runs).select(RUN_ID).collect()}
    whole = [run_id for run_id in durable if run_id not in holes]
    return events.withColumn(LIFE, F.when(F.col(RUN_ID).isin(whole), 0).otherwise(F.col(INC)))


def rows_by_run(lives: DataFrame, name: str, rows: Column) -> dict[str, int]:
    """Return how many rows of each run are of some sort, for the report; runs without any are left out."""
    sums = lives.groupBy(RUN_ID).agg(F.sum(rows).alias(name)).filter(F.col(name) > 0)
    return {row[RUN_ID]: row[name] for row in sums.collect()}


def _set_aside(rows: dict[str, int], reason: str) -> list[SetAside]:
    return [SetAside(run_id, f"run {run_id}", reason, count) for run_id, count in sorted(rows.items()) if count]


def raw_events(spark: SparkSession, found: Input, scratch: Path | None = None) -> DataFrame:
    """Return every row of every usable file, with its run, its kind and where it lies.

    Many small files are first put into one: opening a thousand of them costs Spark a minute.
    """
    are_many_small = found.bytes < SMALL_BYTES and sum(map(len, found.files.values())) > FILES_READ
    if is_local_engine(spark):
        return _read_here(spark, found, whole=not are_many_small)
    is_here = scratch is not None and all(isinstance(base, Path) for base in found.files)
    if is_here and are_many_small:
        assert scratch is not None
        pq.write_table(_in_one(found), scratch / "events.parquet", compression="lz4")
        return spark.read.parquet(str(scratch / "events.parquet"))
    where = (F.col("_metadata.file_name").alias(FILE), F.col("_metadata.row_index").alias(ROW))
    tables = []
    for base, files in sorted(found.files.items(), key=lambda each: str(each[0])):
        plain = [str(file) for file in files if file not in found.other_types]
        reader = spark.read.schema(f"{TRACE_DDL}, {RUN_ID} string, {KIND} string").option("basePath", str(base))
        tables += [reader.parquet(*plain).select("*", *where)] if plain else []
        tables += [_fitted(spark, file, where) for file in files if file in found.other_types]
    if not tables:
        return spark.createDataFrame([], f"{TRACE_DDL}, {RUN_ID} string, {KIND} string, {FILE} string, {ROW} bigint")
    return union(tables)


def _fitted(spark: SparkSession, file: AnyPath, where: tuple[Column, ...]) -> DataFrame:
    """Return the rows of a file whose columns have widths of their own, in those of a trace."""
    run_id, kind = (name.split("=", 1)[1] for name in file.parts[-3:-1])
    rows = spark.read.parquet(str(file))
    columns = [F.col(name).cast(ddl_of(name)).alias(name) for name in COLUMNS]
    return rows.select(*columns, F.lit(run_id).alias(RUN_ID), F.lit(kind).alias(KIND), *where)


def _read_here(session: Any, found: Input, *, whole: bool) -> DataFrame:
    """Return the rows as the local engine reads them.

    `whole`: with all columns of traffic, too, which tell rows that are there twice from those that claim one number.
    """
    files = [file for below in found.files.values() for file in below]
    if any(not isinstance(file, Path) for file in files):
        raise NotLocal("places behind a URI")
    traffic = [] if whole else [file for file in files if file.parts[-2].split("=", 1)[1] in _TRAFFIC]
    parts = ((traffic, _OF_TRAFFIC), ([file for file in files if file not in set(traffic)], COLUMNS))
    tables = [
        session.read_parquet(some, RUN_ID, KIND, FILE, ROW).select(
            *((F.col(name) if name in read else F.lit(None)).cast(ddl_of(name)).alias(name) for name in COLUMNS),
            RUN_ID, KIND, FILE, ROW,
        )
        for some, read in parts if some
    ]  # fmt: skip
    if not tables:
        return small_table(session, [], f"{TRACE_DDL}, {RUN_ID} string, {KIND} string, {FILE} string, {ROW} bigint")
    rows = union(tables)
    return rows.localCheckpoint() if found.bytes < SMALL_BYTES else rows


def _in_one(found: Input) -> pa.Table:
    """Read small files as one table, with the columns and the order that Spark would give them."""
    tables = []
    for file in [file for files in found.files.values() for file in files]:
        run_id, kind = (name.split("=", 1)[1] for name in file.parts[-3:-1])
        wanted = list(_OF_TRAFFIC if kind in _TRAFFIC else COLUMNS)
        table = pq.read_table(file, columns=wanted, partitioning=None, use_threads=False).cast(
            pa.schema([(name, TYPES[name]) for name in wanted])
        )
        rows = table.num_rows
        where = {RUN_ID: pa.array([run_id] * rows), KIND: pa.array([kind] * rows), FILE: pa.array([file.name] * rows)}
        for name, column in where.items():
            table = table.append_column(name, column)
        tables.append(table.append_column(ROW, pa.array(range(rows), pa.int64())))
    shape = pa.schema([*SCHEMA, *((name, pa.string()) for name in (RUN_ID, KIND, FILE)), (ROW, pa.int64())])
    return pa.concat_tables([*tables, shape.empty_table()], promote_options="default").select(shape.names)


def _is_invalid(on_views: Iterable[str] = ()) -> Column:
    """Return the condition, mostly as text: as columns it nests so deep that Spark Connect refuses plans built on it.

    `on_views`: the runs of groups on views.
    """
    anywhere = [f"`{name}` is null" for name in NEVER_NULL]
    in_kind = [
        f"(`{KIND}` = '{kind.value}' and `{name}` is null)" for kind, names in NEVER_NULL_IN.items() for name in names
    ]
    in_any_run = F.expr(" or ".join(anywhere + in_kind))
    if not (runs := list(on_views)):
        return in_any_run
    in_views = [
        f"(`{KIND}` = '{kind.value}' and `{name}` is null)" for kind, names in NEVER_NULL_ON_VIEWS.items()
        for name in names
    ]  # fmt: skip
    return in_any_run | (F.col(RUN_ID).isin(runs) & F.expr(" or ".join(in_views)))


def valid_rows(raw: DataFrame, on_views: Iterable[str] = ()) -> DataFrame:
    """Return the rows whose required columns are not null."""
    return raw.filter(~_is_invalid(on_views))


def lives_table(events: DataFrame, on_views: Iterable[str] = ()) -> DataFrame:
    """Return, for every incarnation of every node, how many rows it left, how many numbers they have, and up to which;
    and how many rows tell more than that packets travelled (`told`).

    The numbers are counted exactly, 64 to a word: each word is the union of the bits of its rows.
    """
    bit = F.when(F.col(EV) >= 0, F.call_function("shiftleft", F.lit(1).cast("bigint"), (F.col(EV) % 64).cast("int")))
    words = events.groupBy(RUN_ID, NODE, INC, F.shiftright(EV, 6).alias("word")).agg(
        F.count("*").alias("rows"), F.bit_or(bit).alias("bits"), F.max(EV).alias("last_ev"),
        F.count_if(_is_invalid(on_views)).alias("invalid"), F.count_if(~F.col(KIND).isin(*_TRAFFIC)).alias("told"),
    )  # fmt: skip
    return words.groupBy(RUN_ID, NODE, INC).agg(
        F.sum(F.col("rows") - F.col("invalid")).alias("rows"),
        F.coalesce(F.sum(F.bit_count("bits")), F.lit(0)).alias("numbers"),
        F.max("last_ev").alias("last_ev"), F.sum("invalid").alias("invalid"), F.sum("told").alias("told"),
    )  # fmt: skip


def incomplete_runs(lives: DataFrame, runs: DataFrame) -> DataFrame:
    """Return the runs in which rows are missing or contradict each other, with a sentence: about one incarnation, or
    where the numbers show nothing, about all rows that were written."""
    hole = (F.col("rows") != F.col("numbers")) | (F.col("numbers") != F.col("last_ev") + 1)
    said = F.format_string(
        "the trace is incomplete: the rows of process %d in its incarnation %d should be numbered from 0 without "
        "gaps, and there are %d rows with %d numbers up to %d",
        NODE, INC, "rows", "numbers", "last_ev",
    )  # fmt: skip
    numbers = F.when(F.col(NODE).isNotNull(), F.col("numbers"))
    sums = lives.groupBy(RUN_ID).agg(F.sum(numbers).alias("there"), F.min(F.when(hole, said)).alias("hole"))
    known = runs.select(RUN_ID, "nodes", "written").join(sums, RUN_ID, "left")
    known = known.withColumn("there", F.coalesce("there", F.lit(0)))
    fewer, more = (
        F.format_string(
            f"the trace {wrong}: %s rows were written, and %s are there",
            F.format_number("written", 0), F.format_number("there", 0),
        )
        for wrong in ("is incomplete", "contradicts itself")
    )  # fmt: skip
    lost = F.when((F.col("there") == 0) & (F.col("nodes") > 0) & F.col("written").isNull(), F.lit(NO_ROWS))
    lost = lost.when(F.col("there") < F.col("written"), fewer).when(F.col("there") > F.col("written"), more)
    why = F.coalesce("hole", lost)
    return known.select(RUN_ID, why.alias("incomplete")).filter(F.col("incomplete").isNotNull())


def runs_table(spark: SparkSession, found: Input, promises: dict[str, list[str]]) -> DataFrame:
    """Return what each run says about itself, and what it is judged by where that is not its own promises."""
    rows = [_described(run, promises.get(run.run_id)) for run in found.runs.values()]
    return small_table(spark, rows, RUNS_DDL)


def small_table(spark: SparkSession, rows: list[dict[str, Any]], ddl: str) -> DataFrame:
    """Return rows that this process has as a table."""
    if is_local_engine(spark):
        return spark.createDataFrame([tuple(row.values()) for row in rows], ddl)
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(ddl)))


def _described(run: Run, asked: list[str] | None) -> dict[str, Any]:
    phases = run.phases
    skew = run.epsilon * run.tick_ns if run.epsilon is not None and run.tick_ns is not None else None
    return {
        RUN_ID: run.run_id, "level": run.level, "durable": run.durable, "reach_min": run.reach_min,
        "expects_all": run.durable or run.parameters.get("agreement") == "all",
        "full_view": run.parameters.get("view") == "full",
        "heal_at": phases and phases.heal_at, "live_from": phases and phases.live_from,
        "live_until": phases and phases.live_until, "deadline_ns": phases and phases.deadline_ns,
        "skew_ns": skew, "tickets": _whole(run, "tickets"), "k": _whole(run, "k"),
        "repair_ns": REPAIR_ROUNDS * int(run.parameters.get("ticket_round_ns", 0)),
        "slower": 1 - float(run.parameters.get("drift_max", DRIFT_MAX)),
        "faster": 1 + float(run.parameters.get("drift_max", DRIFT_MAX)),
        "promises": list(promises_of(run)) if asked is None else asked,
        "groups": list(run.groups), "living": is_living(run), "strict": bool(run.parameters.get("strict")),
        "uniform": bool(run.parameters.get("uniform")),
        "keeps_own": run.durable and run.parameters.get("keep", "own") == "own",
        "forgetful": [(node << 32) + inc for node, inc in run.forgetful], "nodes": len(run.nodes), "written": run.rows,
    }  # fmt: skip


def _whole(run: Run, name: str) -> int | None:
    value = run.parameters.get(name)
    return value if isinstance(value, int) else None


def founders_table(spark: SparkSession, found: Input) -> DataFrame:
    """Return who was a member of which group from the start."""
    rows = [
        {RUN_ID: run.run_id, GRP: grp, NODE: node}
        for run in found.runs.values() for grp, nodes in run.groups.items() for node in nodes
    ]  # fmt: skip
    return small_table(spark, rows, f"{RUN_ID} string, {GRP} string, {NODE} int")
