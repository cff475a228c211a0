"""Reads the rows of any log in the documented columns, for batch and stream alike.

Every row is read by itself. A column that its file lacks, or that is null in it, has its default; a row that has no
place in any order is not dropped but gets a `reason`, beside its file and the row as it was (log_sql.py). So the result
for a row never depends on the rows, files or steps that it is read with.

Parquet files are read by the columns each of them has. The values of NDJSON are text until they are cast, exactly as
they were written; a line counts only if all of it is one JSON object. A file that cannot be read is one row, with its
reason.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from whence.errors import UsageError
from whence.pipeline.columns import union
from whence.pipeline.footers import ranges_of_numbers
from whence.pipeline.frames import Column, DataFrame, F, SparkSession
from whence.pipeline.log_sql import GIVEN, Known, ValueKinds, event_sql, row_sql, value_kind
from whence.pipeline.logs import (
    COLUMNS,
    FILE,
    GRP,
    HEARTBEAT,
    INC,
    K_HI,
    K_LO,
    K_MID,
    LOG,
    NEEDED,
    PAYLOAD,
    PID,
    PUBLISHER,
    RAW,
    REASON,
    ROW,
    SEQ,
    TRACE_NAMES,
    K,
    L,
    R,
    is_parquet,
    log_files,
)
from whence.pipeline.rejected import lines_of
from whence.pipeline.remote_shapes import RemoteShapes, remote_names
from whence.pipeline.session import first_line
from whence.pipeline.storage import AnyPath, UriPath, located
from whence.pipeline.whole_trace import check_whole

_FILES_LOOKED_AT, _LINES_LOOKED_AT = 200, 1000
"""Files of NDJSON, and lines of each, in which a column must show that is asked for."""
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")
_DOTTED: Final = re.compile(r"(?<![\w.`])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_LITERAL: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
_CAST: Final = re.compile(rf"({_LITERAL.pattern})|\bcast\s*\(", re.IGNORECASE | re.DOTALL)
"""What cannot be cast is null, and so is what does not fit: a number must not become another one. Not in literals."""

Shape: TypeAlias = str
"""Files of one shape are read together: those with the same columns, or NDJSON."""
_LINES_OF_JSON: Final = "ndjson"
_FIT: Final = "all numbers fit: "
"""Before the columns of files whose footers say so."""


class FilesByShape(NamedTuple):
    """Files by shape, and those that cannot be read, with the reason."""

    by_shape: dict[Shape, list[AnyPath]]
    unreadable: dict[AnyPath, str]


# --- files ---


def files_by_shape(files: Iterable[Path]) -> FilesByShape:
    """Look at the footers of files of this machine's disk, and whether what is compressed is whole."""
    found = FilesByShape({}, {})
    for file in files:
        try:
            found.by_shape.setdefault(_shape_of(file), []).append(file)
        except (OSError, EOFError, pa.ArrowException) as error:
            found.unreadable[file] = f"the file cannot be read: {first_line(error)}"
    return found


def _shape_of(file: Path) -> Shape:
    if is_parquet(file):
        footer = pq.read_metadata(file)
        columns = str(footer.schema.to_arrow_schema().remove_metadata())
        return columns if ranges_of_numbers(footer) is None else f"{_FIT}{columns}"
    for _ in lines_of(file) if file.suffix == ".gz" else ():
        pass
    return _LINES_OF_JSON


# --- reading ---

_IS_TEXT: Final = "trim(value) <> ''"
"""Empty lines are none."""
_RAW_ROW, _RAW_FILE, _RAW_AT, _RAW_BAD = "whence raw", "whence file", "whence row", "whence bad"
_STRICT: Final = {"allowSingleQuotes": "false"}
_PAIR: Final = r"\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
"""Two escapes of JSON that are one character; either alone is none, and parsers write ? for it."""
_KINDS: Final = {
    GRP: "string", PID: "bigint", PUBLISHER: "string", INC: "int", SEQ: "bigint", R: "bigint", L: "bigint",
    K_HI: "bigint", K_MID: "bigint", K_LO: "bigint", PAYLOAD: "binary", HEARTBEAT: "boolean", FILE: "string",
    ROW: "bigint", RAW: "string", REASON: "string",
}  # fmt: skip


@contextmanager
def lenient_casts(spark: SparkSession) -> Iterator[None]:
    """Switch ANSI mode off within the block: casts of a mapping give null for what they cannot read, and no error."""
    setting = "spark.sql.ansi.enabled"
    before = spark.conf.get(setting, "true")
    spark.conf.set(setting, "false")
    try:
        yield
    finally:
        spark.conf.set(setting, str(before))


class LogReader:
    """Reads files of any shapes by one mapping."""

    def __init__(self, spark: SparkSession, mapping: Mapping[str, str]) -> None:
        self._spark = spark
        self._mapping = {name: _CAST.sub(_tried, expression) for name, expression in mapping.items()}
        self._is_plain = set(mapping) <= {PAYLOAD}
        self._schemas: dict[Shape, Any] = {}
        self._fields: dict[str, Any] = dict.fromkeys(COLUMNS)
        """Of lines of JSON: names, each with None for text or with the names within it."""
        self._remote = RemoteShapes(spark, _LINES_OF_JSON)
        self.unreadable: dict[AnyPath, str] = {}
        """Files that cannot be read, with the reason; each is one row."""
        for expression in self._mapping.values():
            for path in _DOTTED.findall(_LITERAL.sub("", expression)):
                _add_field(self._fields, path.split("."))

    def _by_shape(self, files: Iterable[AnyPath]) -> FilesByShape:
        known = list(files)
        found = files_by_shape(file for file in known if isinstance(file, Path))
        for file in self._remote.look([file for file in known if isinstance(file, UriPath)]):
            shape, reason = self._remote.shape_of(file)
            if shape is None:
                found.unreadable[file] = reason
            else:
                found.by_shape.setdefault(shape, []).append(file)
        self._schemas |= self._remote.schemas
        return found

    def forget(self, files: Iterable[AnyPath]) -> None:
        """Forget what was learned about files that are not read again."""
        for file in files:
            self.unreadable.pop(file, None)
            self._remote.forget(file)

    def rows(self, files: Sequence[AnyPath], *, are_sound: bool = False) -> DataFrame:
        """Return all rows of files in the columns of LOG, whether one only tells the time, and those of REJECTED.

        A row has a place in the order if its reason is null. `are_sound`: all are known to have one.
        """
        found = self._by_shape(files)
        unreadable = dict(found.unreadable)
        tables = []
        with lenient_casts(self._spark):
            for shape, group in found.by_shape.items():
                try:
                    fit = Known.NUMBERS if self._is_plain and shape.startswith(_FIT) else Known.NOTHING
                    tables.append(self._shaped(shape, group, Known.ALL if are_sound else fit))
                except UsageError as error:
                    unreadable |= dict.fromkeys(group, str(error))
        self.unreadable |= unreadable
        return union([*tables, *([self._unreadable_rows(unreadable)] if unreadable else [])])

    def sound_events(self, files: Sequence[AnyPath]) -> DataFrame:
        """Return the rows of Parquet files, all known to be events with a place in the order, in the columns of LOG.

        Nobody asks for more of such rows, and a stream plans every step anew: a plan of a few columns takes a fraction
        of the time. Raises UsageError where a file cannot be read.
        """
        if self._mapping:
            return self.rows(files, are_sound=True).filter(F.col(REASON).isNull() & ~F.col(HEARTBEAT)).select(*LOG)
        found = self._by_shape(files)
        for file, reason in found.unreadable.items():
            raise UsageError(f"LOGS: {file.name}: {reason}")
        tables = []
        for shape, group in found.by_shape.items():
            raw = self._parquet_table(shape, [str(file) for file in group])
            chosen = _chosen(raw.columns, self._mapping)
            given = raw.selectExpr(*(f"{each} as {GIVEN}{name}" for name, each in chosen.items()))
            values, keyed = event_sql(_kinds_of(given, chosen))
            tables.append(given.selectExpr(*values).selectExpr(*keyed))
        return union(tables)

    def count(self, files: Sequence[AnyPath]) -> int:
        """Count the rows that are in files, without looking at what is in them."""
        readable = [file for file in files if file not in self.unreadable]
        lines = [str(file) for file in readable if not is_parquet(file)]
        text = self._spark.read.text(lines).filter(_IS_TEXT).count() if lines else 0
        tables: int = sum(
            pq.read_metadata(file).num_rows for file in readable if is_parquet(file) and isinstance(file, Path)
        )
        remote = [str(file) for file in readable if is_parquet(file) and isinstance(file, UriPath)]
        tables += self._spark.read.schema(f"{GRP} string").parquet(*remote).count() if remote else 0
        return tables + text + len(files) - len(readable)

    def check(self, files: Sequence[AnyPath], where: str) -> None:
        """Look whether files can be a log: some can be read, the mapping fits, nothing needed lacks everywhere.

        Raises UsageError that says what to do.
        """
        found = self._by_shape(files)
        if not found.by_shape:
            file, reason = next(iter(found.unreadable.items()))
            raise UsageError(f"LOGS: {where}: {file.name}: {reason}")
        unfit: list[str] = []
        have: set[str] = set()
        with lenient_casts(self._spark):
            for shape, group in found.by_shape.items():
                try:
                    raw, chosen, asked = self._raw(shape, group)
                    is_json = shape == _LINES_OF_JSON
                    names = _names_in(self._spark, group, asked) if is_json else {*raw.columns} - asked
                    have |= names | set(chosen) - set(COLUMNS) | set(self._mapping) | _trace_columns(names)
                    unfit += [self._missing_column(name, where) for name in sorted(asked - names)[:1]]
                except UsageError as error:
                    unfit.append(str(error))
        if len(unfit) >= len(found.by_shape):
            raise UsageError(unfit[0])
        for name in NEEDED:
            if name not in have and not (name == PID and PUBLISHER in have):
                raise UsageError(f'LOGS: {where} has no column {name}; name it in a mapping file, such as {name} = "…"')

    def _missing_column(self, column: str, where: str) -> str:
        for name, expression in self._mapping.items():
            if re.search(rf"\b{re.escape(column)}\b", expression):
                return f'--mapping: {name} = "{expression}" does not fit {where}: no log has a column {column}'
        return f"--mapping: no log of {where} has a column {column}"

    def _unreadable_rows(self, unreadable: Mapping[AnyPath, str]) -> DataFrame:
        """Return a row for each file that cannot be read."""
        rows = [(str(file), reason) for file, reason in unreadable.items()]
        table = self._spark.createDataFrame(rows, f"{FILE} string, {REASON} string")
        empty = {name: "false" if name == HEARTBEAT else f"cast(null as {kind})" for name, kind in _KINDS.items()}
        return table.selectExpr(*(f"{(empty | {FILE: FILE, REASON: REASON})[name]} as {name}" for name in _KINDS))

    def _shaped(self, shape: Shape, files: Sequence[AnyPath], known: Known) -> DataFrame:
        raw, chosen, _ = self._raw(shape, files)
        about = [f"{_quoted(name)} as {short}" for name, short in
                 ((_RAW_FILE, FILE), (_RAW_AT, ROW), (_RAW_ROW, RAW), (_RAW_BAD, "bad"))]  # fmt: skip
        try:
            given = raw.selectExpr(*(f"({each}\n) as {GIVEN}{name}" for name, each in chosen.items()), *about)
        except Exception as error:
            raise UsageError(f"--mapping does not fit {files[0].name}: {first_line(error)}") from error
        parsed, keyed = row_sql(_kinds_of(given, chosen), known)
        return given.selectExpr(*parsed).selectExpr(*keyed)

    def _raw(self, shape: Shape, files: Sequence[AnyPath]) -> tuple[DataFrame, dict[str, str], set[str]]:
        """Return the rows of files of one shape, SQL for the documented columns, and columns that the mapping needs.

        Columns that a mapping asks for and files lack are null. Raises UsageError.
        """
        paths = [str(file) for file in files]
        is_json = shape == _LINES_OF_JSON
        try:
            raw = _json_rows(self._spark, paths, self._fields) if is_json else self._parquet_rows(shape, paths)
        except Exception as error:
            raise UsageError(f"LOGS: {files[0].name} cannot be read: {first_line(error)}") from error
        chosen = _chosen(raw.columns, self._mapping)
        asked = {name for name in raw.columns if is_json and name not in COLUMNS and not name.startswith("whence ")}
        for name, expression in self._mapping.items():
            while (missing := _missing_path(raw, name, expression, files[0].name)) is not None:
                asked.add(missing[0])
                if is_json:
                    _add_field(self._fields, missing)
                    raw = _json_rows(self._spark, paths, self._fields)
                else:
                    raw = raw.withColumn(missing[0], F.lit(None).cast("string"))
        return raw, chosen, asked

    def _parquet_table(self, shape: Shape, paths: list[str]) -> DataFrame:
        if shape not in self._schemas:
            self._schemas[shape] = self._spark.read.parquet(paths[0]).schema
        return self._spark.read.schema(self._schemas[shape]).parquet(*paths)

    def _parquet_rows(self, shape: Shape, paths: list[str]) -> DataFrame:
        raw = self._parquet_table(shape, paths)
        return raw.select(
            "*", F.col("_metadata.file_path").alias(_RAW_FILE), F.col("_metadata.row_index").alias(_RAW_AT),
            F.to_json(F.struct(*(F.col(_quoted(name)) for name in raw.columns))).alias(_RAW_ROW),
            F.lit(None).cast("string").alias(_RAW_BAD),
        )  # fmt: skip


def _kinds_of(given: DataFrame, chosen: Iterable[str]) -> ValueKinds:
    schema = given.schema
    return tuple(sorted((name, value_kind(schema[f"{GIVEN}{name}"].dataType)) for name in chosen))


def read_logs(spark: SparkSession, path: AnyPath | str, mapping: Mapping[str, str] | None = None) -> DataFrame:
    """Return all rows of the logs below a path or URI, with reasons for those that have no place.

    Raises UsageError, and TraceError for a trace that did not finish.
    """
    reader, files = LogReader(spark, mapping or {}), log_files(located(path, lambda: spark))
    check_whole(spark, files)
    reader.check(files, str(path))
    return reader.rows(files)


def _json_rows(spark: SparkSession, paths: list[str], fields: Mapping[str, Any]) -> DataFrame:
    """Return the lines of files, and the values in them, each as its text."""
    line = F.ltrim(F.col("value"), F.lit("\ufeff"))
    text = spark.read.text(paths).filter(_IS_TEXT)
    text = text.select(line.alias("value"), F.col("_metadata.file_path").alias(_RAW_FILE))
    # In brackets the parser must read to the line's end: what follows an object is an error, or a second one.
    objects = F.from_json(F.concat(F.lit("["), F.col("value"), F.lit("]")), f"array<{_ddl(fields)}>", _STRICT)
    rows = text.select("value", _quoted(_RAW_FILE), objects.alias("objects"))
    one = F.get(F.col("objects"), F.lit(0))
    is_one = F.coalesce((F.size("objects") == 1) & one.isNotNull(), F.lit(False))
    bad = F.when(~F.is_valid_utf8("value"), "the line is not UTF-8").when(~is_one, "the line is no JSON object")
    bad = bad.when(_has_half_a_character(F.col("value")), "the line has half a character: one surrogate of two")
    return rows.select(
        *(one.getField(name).alias(name) for name in fields),
        F.make_valid_utf8("value").alias(_RAW_ROW), F.col(_quoted(_RAW_FILE)),
        F.lit(None).cast("bigint").alias(_RAW_AT), bad.alias(_RAW_BAD),
    )  # fmt: skip


def _has_half_a_character(line: Column) -> Column:
    """Return whether a line of JSON escapes a surrogate that does not stand beside the other one of its pair."""
    plain = F.regexp_replace(F.replace(line, F.lit("\\\\"), F.lit(" ")), _PAIR, "")
    return F.lower(line).contains("\\ud") & plain.rlike(r"\\u[dD][89a-fA-F]")


def _tried(found: re.Match[str]) -> str:
    """Return try_cast for a cast, which gives null on failure, and a literal as it is."""
    return found[1] if found[1] is not None else "try_cast("


def _ddl(fields: Mapping[str, Any] | None) -> str:
    if fields is None:
        return "string"
    return f"struct<{', '.join(f'{_quoted(name)}: {_ddl(within)}' for name, within in fields.items())}>"


def _add_field(fields: dict[str, Any], path: Sequence[str]) -> None:
    """Add a name, and those within it, to what is read of a line."""
    for name in path[:-1]:
        fields[name] = fields.get(name) or {}
        fields = fields[name]
    fields.setdefault(path[-1], None)


def _chosen(names: Sequence[str], mapping: Mapping[str, str]) -> dict[str, str]:
    """Return our columns as expressions over a log's: by a mapping, as those of a trace, else by their names."""
    chosen = {name: _quoted(name) for name in COLUMNS if name in names}
    if _trace_columns(names):
        chosen |= {PID: "m_pid", INC: "m_inc", SEQ: "m_seq"}
        chosen |= {L: f"coalesce({L}, t_true div 1000000)", K: f"if({L} is null, t_true % 1000000, 0)"}
    return chosen | dict(mapping)


def _trace_columns(names: Iterable[str]) -> set[str]:
    """Return the columns that a trace has under other names; none for other logs."""
    return {PID, SEQ} if set(names) >= TRACE_NAMES else set()


def _missing_path(raw: DataFrame, name: str, expression: str, where: str) -> list[str] | None:
    """Return the first column, and the names within it, that an expression needs and the log lacks.

    Raises UsageError where the expression is wrong for another reason.
    """
    try:
        _ = raw.select(F.expr(expression)).schema
    except Exception as error:
        ask = getattr(error, "getMessageParameters", None)
        name_in_error = (ask() or {}).get("objectName", "") if ask is not None else ""
        path = [each.replace("``", "`") for each in _NAME.findall(name_in_error)]
        if "UNRESOLVED_COLUMN" in str(error) and path and path[0] not in raw.columns:
            return path
        raise UsageError(f'--mapping: {name} = "{expression}" does not fit {where}: {first_line(error)}') from error
    return None


def _names_in(spark: SparkSession, files: Sequence[AnyPath], asked: set[str]) -> set[str]:
    """Return the names in the first lines of some files; without a line that can be read, all that could be."""
    names = remote_names(spark, [file for file in files if isinstance(file, UriPath)], {*asked, *NEEDED})
    for file in [file for file in files[:_FILES_LOOKED_AT] if isinstance(file, Path)]:
        for line, _ in zip(lines_of(file), range(_LINES_LOOKED_AT), strict=False):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                names |= set(msgspec.json.decode(line, type=dict[str, Any]))
    return names or set(COLUMNS)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
