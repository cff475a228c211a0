"""Rows of any log in the documented columns: the one way in, for batch and stream alike.

Every row is taken by itself. A column that its file lacks, or that is null in it, has its default; a value is cast if
nothing of it is lost; a row that has no place in any order is not dropped but gets a `reason`, beside the file it came
from and the row as it was. So what becomes of a row never depends on the rows, files or steps that it is read with.

Parquet files are read by the columns each of them has. The values of NDJSON are text until they are cast, exactly as
they were written; a line counts only if all of it is one JSON object. A file that cannot be read is one row, with its
reason.
"""

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    FractionalType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructType,
)

from whence.errors import UsageError
from whence.pipeline.columns import union
from whence.pipeline.logs import (
    COLUMNS,
    GRP,
    HEARTBEAT,
    INC,
    INC_BITS,
    K_BITS,
    K_HI,
    K_LO,
    K_MID,
    KEY,
    KIND,
    NEEDED,
    PAYLOAD,
    PID,
    PID_BITS,
    PUBLISHER,
    ROOM,
    SEQ,
    SEQ_BITS,
    K,
    L,
    R,
    is_parquet,
    log_files,
)
from whence.pipeline.session import first_line

FILE, ROW, RAW, REASON = "file", "row", "raw", "reason"
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""What Spark and Hive call the directory of rows without a value."""
REJECTED: Final = (FILE, ROW, RAW, REASON)
"""What is told of a row that has no place: its file, its number there (of Parquet), the row as it was, and why."""

_FILES_LOOKED_AT, _LINES_LOOKED_AT = 200, 1000
"""Files of NDJSON, and lines of each, in which a column must show that is asked for."""
_VALUE_SHOWN: Final = 100
GRP_BYTES_MAX: Final = 200
"""A group has a directory of its own; file systems take names of 255 bytes."""
_ESCAPED: Final = r"""'"#%\'*/:=?\\{[]^'"""
_ESCAPED_BYTES: Final = f"octet_length({GRP}) + 2 * (length({GRP}) - length(translate({GRP}, {_ESCAPED}, '')))"
"""Characters for which Spark writes three in the name of a directory, and how long that is then."""
_EXACT: Final = 1 << 53
"""Whole numbers below this are exact as doubles."""
_UUID: Final = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")
_DOTTED: Final = re.compile(r"(?<![\w.`])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_LITERAL: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
_CAST: Final = re.compile(rf"({_LITERAL.pattern})|\bcast\s*\(", re.IGNORECASE | re.DOTALL)
"""What cannot be cast is null, and so is what does not fit: a number must not become another one. Not in literals."""

Shape: TypeAlias = str
"""Files of one shape are read together: those with the same columns, or NDJSON."""
_LINES_OF_JSON: Final = "ndjson"

Types: TypeAlias = tuple[tuple[str, str], ...]


class Sorted(NamedTuple):
    """Files by shape, and those that cannot be read, with the reason."""

    by_shape: dict[Shape, list[Path]]
    unreadable: dict[Path, str]


# --- files ---


def shapes_of(files: Iterable[Path]) -> Sorted:
    """Look at the footers of files, and whether what is compressed is whole."""
    found = Sorted({}, {})
    for file in files:
        try:
            found.by_shape.setdefault(_shape_of(file), []).append(file)
        except (OSError, EOFError, pa.ArrowException) as error:
            found.unreadable[file] = f"the file cannot be read: {first_line(error)}"
    return found


def _shape_of(file: Path) -> Shape:
    if is_parquet(file):
        return str(pq.read_schema(file).remove_metadata())
    for _ in lines_of(file) if file.suffix == ".gz" else ():
        pass
    return _LINES_OF_JSON


def lines_of(file: Path) -> Iterator[bytes]:
    """Return the lines of a file, which may be compressed."""
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        yield from lines


def on_disk(path: str) -> str:
    """Return a path as it is on disk, from how Spark tells it."""
    return unquote(re.sub(r"^file:/+", "/", path))


# --- reading ---

_G: Final = "given_"
_IS_TEXT: Final = "trim(value) <> ''"
"""Empty lines are none."""
_RAW_ROW, _RAW_FILE, _RAW_AT, _RAW_BAD = "whence raw", "whence file", "whence row", "whence bad"
_KINDS: Final = {
    GRP: "string", PID: "bigint", PUBLISHER: "string", INC: "int", SEQ: "bigint", R: "bigint", L: "bigint",
    K_HI: "bigint", K_MID: "bigint", K_LO: "bigint", PAYLOAD: "binary", HEARTBEAT: "boolean", FILE: "string",
    ROW: "bigint", RAW: "string", REASON: "string",
}  # fmt: skip


@contextmanager
def tolerant(spark: SparkSession) -> Iterator[None]:
    """Let expressions of a mapping give null for what they cannot read, rather than end the job, for a while."""
    setting = "spark.sql.ansi.enabled"
    before = spark.conf.get(setting, "true")
    spark.conf.set(setting, "false")
    try:
        yield
    finally:
        spark.conf.set(setting, str(before))


class Reader:
    """Reads files of any shapes by one mapping; remembers what it has learnt about shapes."""

    def __init__(self, spark: SparkSession, mapping: Mapping[str, str]) -> None:
        self._spark = spark
        self._mapping = {name: _CAST.sub(_tried, expression) for name, expression in mapping.items()}
        self._schemas: dict[Shape, StructType] = {}
        self._fields: dict[str, Any] = dict.fromkeys(COLUMNS)
        """Of lines of JSON: names, each with None for text or with the names within it."""
        self.unreadable: dict[Path, str] = {}
        """Files that cannot be read, with the reason; each is one row."""
        for expression in self._mapping.values():
            for path in _DOTTED.findall(_LITERAL.sub("", expression)):
                _add_field(self._fields, path.split("."))

    def rows(self, files: Sequence[Path]) -> DataFrame:
        """Return all rows of files in the columns of LOG, whether one only tells the time, and those of REJECTED.

        A row has a place in the order if its reason is null.
        """
        found = shapes_of(files)
        unreadable = dict(found.unreadable)
        tables = []
        with tolerant(self._spark):
            for shape, group in found.by_shape.items():
                try:
                    tables.append(self._shaped(shape, group))
                except UsageError as error:
                    unreadable |= dict.fromkeys(group, str(error))
        self.unreadable |= unreadable
        return union([*tables, *([self._told(unreadable)] if unreadable else [])])

    def count(self, files: Sequence[Path]) -> int:
        """Count the rows that are in files, without looking at what is in them."""
        readable = [file for file in files if file not in self.unreadable]
        lines = [str(file) for file in readable if not is_parquet(file)]
        text = self._spark.read.text(lines).filter(_IS_TEXT).count() if lines else 0
        tables: int = sum(pq.read_metadata(file).num_rows for file in readable if is_parquet(file))
        return tables + text + len(files) - len(readable)

    def check(self, files: Sequence[Path], where: str) -> None:
        """Look whether files can be a log: some can be read, the mapping fits, nothing needed lacks everywhere.

        Raises UsageError that says what to do.
        """
        found = shapes_of(files)
        if not found.by_shape:
            file, reason = next(iter(found.unreadable.items()))
            raise UsageError(f"LOGS: {where}: {file.name}: {reason}")
        unfit: list[str] = []
        have: set[str] = set()
        with tolerant(self._spark):
            for shape, group in found.by_shape.items():
                try:
                    raw, chosen, asked = self._raw(shape, group)
                    names = _names_told(group) if shape == _LINES_OF_JSON else {*raw.columns} - asked
                    have |= names | set(chosen) - set(COLUMNS) | set(self._mapping) | _told_by_traces(names)
                    unfit += [self._missed(name, where) for name in sorted(asked - names)[:1]]
                except UsageError as error:
                    unfit.append(str(error))
        if len(unfit) >= len(found.by_shape):
            raise UsageError(unfit[0])
        for name in NEEDED:
            if name not in have and not (name == PID and PUBLISHER in have):
                raise UsageError(f'LOGS: {where} has no column {name}; name it in a mapping file, such as {name} = "…"')

    def _missed(self, column: str, where: str) -> str:
        for name, expression in self._mapping.items():
            if re.search(rf"\b{re.escape(column)}\b", expression):
                return f'--mapping: {name} = "{expression}" does not fit {where}: no log has a column {column}'
        return f"--mapping: no log of {where} has a column {column}"

    def _told(self, unreadable: Mapping[Path, str]) -> DataFrame:
        """Return a row for each file that cannot be read."""
        told = [(str(file), reason) for file, reason in unreadable.items()]
        rows = self._spark.createDataFrame(told, f"{FILE} string, {REASON} string")
        empty = {name: "false" if name == HEARTBEAT else f"cast(null as {kind})" for name, kind in _KINDS.items()}
        return rows.selectExpr(*(f"{(empty | {FILE: FILE, REASON: REASON})[name]} as {name}" for name in _KINDS))

    def _shaped(self, shape: Shape, files: Sequence[Path]) -> DataFrame:
        raw, chosen, _ = self._raw(shape, files)
        about = [f"{_quoted(name)} as {short}" for name, short in
                 ((_RAW_FILE, FILE), (_RAW_AT, ROW), (_RAW_ROW, RAW), (_RAW_BAD, "bad"))]  # fmt: skip
        try:
            given = raw.selectExpr(*(f"({each}\n) as {_G}{name}" for name, each in chosen.items()), *about)
        except Exception as error:
            raise UsageError(f"--mapping does not fit {files[0].name}: {first_line(error)}") from error
        kinds = {name: _kind_of(given.schema[f"{_G}{name}"].dataType) for name in chosen}
        parsed, keyed = _sql(tuple(sorted(kinds.items())))
        return given.selectExpr(*parsed).selectExpr(*keyed)

    def _raw(self, shape: Shape, files: Sequence[Path]) -> tuple[DataFrame, dict[str, str], set[str]]:
        """Return rows as they lie in files of one shape, our columns in their terms, and what the mapping asks for.

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
            while (lacking := _lacking(raw, name, expression, files[0].name)) is not None:
                asked.add(lacking[0])
                if is_json:
                    _add_field(self._fields, lacking)
                    raw = _json_rows(self._spark, paths, self._fields)
                else:
                    raw = raw.withColumn(lacking[0], F.lit(None).cast("string"))
        return raw, chosen, asked

    def _parquet_rows(self, shape: Shape, paths: list[str]) -> DataFrame:
        if shape not in self._schemas:
            self._schemas[shape] = self._spark.read.parquet(paths[0]).schema
        raw = self._spark.read.schema(self._schemas[shape]).parquet(*paths)
        return raw.select(
            "*", F.col("_metadata.file_path").alias(_RAW_FILE), F.col("_metadata.row_index").alias(_RAW_AT),
            F.to_json(F.struct(*(F.col(_quoted(name)) for name in raw.columns))).alias(_RAW_ROW),
            F.lit(None).cast("string").alias(_RAW_BAD),
        )  # fmt: skip


def rejected_rows(rows: DataFrame) -> DataFrame:
    """Return the rows that have no place in the order, each with its file, the row as it was and the reason."""
    path = f"url_decode(replace(regexp_replace({FILE}, '^file:/+', '/'), '+', '%2B')) as {FILE}"
    return rows.filter(F.col(REASON).isNotNull()).selectExpr(path, ROW, RAW, REASON)


def read_logs(spark: SparkSession, path: Path, mapping: Mapping[str, str] | None = None) -> DataFrame:
    """Return all rows of the logs below a path, with reasons for those that have no place. Raises UsageError."""
    reader, files = Reader(spark, mapping or {}), log_files(path)
    reader.check(files, str(path))
    return reader.rows(files)


def _json_rows(spark: SparkSession, paths: list[str], fields: Mapping[str, Any]) -> DataFrame:
    """Return the lines of files, and the values in them, each as its text."""
    line = F.ltrim(F.col("value"), F.lit("\ufeff"))
    text = spark.read.text(paths).filter(_IS_TEXT)
    text = text.select(line.alias("value"), F.col("_metadata.file_path").alias(_RAW_FILE))
    # In brackets the parser must read to the line's end: what follows an object is an error, or a second one.
    objects = F.from_json(F.concat(F.lit("["), F.col("value"), F.lit("]")), f"array<{_ddl(fields)}>")
    rows = text.select("value", _quoted(_RAW_FILE), objects.alias("objects"))
    one = F.get(F.col("objects"), F.lit(0))
    is_one = F.coalesce((F.size("objects") == 1) & one.isNotNull(), F.lit(False))
    bad = F.when(~F.is_valid_utf8("value"), "the line is not UTF-8").when(~is_one, "the line is no JSON object")
    return rows.select(
        *(one.getField(name).alias(name) for name in fields),
        F.make_valid_utf8("value").alias(_RAW_ROW), F.col(_quoted(_RAW_FILE)),
        F.lit(None).cast("bigint").alias(_RAW_AT), bad.alias(_RAW_BAD),
    )  # fmt: skip


def _tried(found: re.Match[str]) -> str:
    """Return a cast that gives null where it cannot be, and a literal as it is."""
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
    if _told_by_traces(names):
        chosen |= {PID: "m_pid", INC: "m_inc", SEQ: "m_seq"}
        chosen |= {L: f"coalesce({L}, t_true div 1000000)", K: f"if({L} is null, t_true % 1000000, 0)"}
    return chosen | dict(mapping)


def _told_by_traces(names: Iterable[str]) -> set[str]:
    """Return what traces have under other names, if this is one."""
    return {PID, SEQ} if {"m_pid", "m_inc", "m_seq", "t_true", L} <= set(names) else set()


def _lacking(raw: DataFrame, name: str, expression: str, where: str) -> list[str] | None:
    """Return the first column, and the names within it, that an expression asks for in vain.

    Raises UsageError where it cannot be for another reason.
    """
    try:
        _ = raw.select(F.expr(expression)).schema
    except Exception as error:
        ask = getattr(error, "getMessageParameters", None)
        told = (ask() or {}).get("objectName", "") if ask is not None else ""
        path = [each.replace("``", "`") for each in _NAME.findall(told)]
        if "UNRESOLVED_COLUMN" in str(error) and path and path[0] not in raw.columns:
            return path
        raise UsageError(f'--mapping: {name} = "{expression}" does not fit {where}: {first_line(error)}') from error
    return None


def _names_told(files: Sequence[Path]) -> set[str]:
    """Return the names in the first lines of some files; without a line that can be read, all that could be."""
    names: set[str] = set()
    for file in files[:_FILES_LOOKED_AT]:
        for line, _ in zip(lines_of(file), range(_LINES_LOOKED_AT), strict=False):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                names |= set(msgspec.json.decode(line, type=dict[str, Any]))
    return names or set(COLUMNS)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# --- values ---

WHOLE, DECIMAL, DOUBLE, TEXT, BYTES, NESTED, OTHER, ABSENT = (
    "whole", "decimal", "double", "text", "bytes", "nested", "other", "absent"
)  # fmt: skip


def _kind_of(kind: DataType) -> str:
    """Return what can be made of values of a type."""
    if isinstance(kind, NullType):
        return ABSENT
    if isinstance(kind, IntegralType):
        return WHOLE
    if isinstance(kind, DecimalType):
        return DECIMAL
    if isinstance(kind, FractionalType):
        return DOUBLE
    if isinstance(kind, StructType | ArrayType | MapType):
        return NESTED
    return TEXT if isinstance(kind, StringType) else BYTES if isinstance(kind, BinaryType) else OTHER


@lru_cache(maxsize=256)
def _sql(kinds: Types) -> tuple[list[str], list[str]]:
    """Return two lists of SQL columns: values and reasons from given values, then rows with keys from these."""
    of = dict(kinds)
    numbers = {name: _number(name, of.get(name, ABSENT)) for name in (INC, SEQ, R, L, K, *KEY)}
    word, digits = _publisher_word(of.get(PID, ABSENT))
    names = [f"nullif({_text(PUBLISHER, of)}, '')"] if PUBLISHER in of else []
    uuids = [f"if({_text(PID, of)} rlike '{_UUID}', lower({_text(PID, of)}), null)"] if _may_be_text(of) else []
    has_pid = f"{_G}{PID} is not null" if PID in of else "false"
    spoken = f"if({has_pid}, {uuids[0] if uuids else 'cast(null as string)'}, {names[0] if names else 'null'})"
    parsed = [
        f"coalesce({_text(GRP, of)}, 'all') as {GRP}" if GRP in of else f"'all' as {GRP}",
        f"{word} as word", f"{digits} as digits", f"cast({spoken} as string) as named",
        *(f"{number} as {name}" for name, number in numbers.items()),
        f"{_payload(of.get(PAYLOAD, ABSENT))} as {PAYLOAD}",
        f"{_text(KIND, of)} <=> '{HEARTBEAT}' as {HEARTBEAT}" if KIND in of else f"false as {HEARTBEAT}",
        *(f"{_shown(name)} as {_G}{name}" for name in of if name not in (GRP, PUBLISHER, PAYLOAD, KIND)),
        FILE, ROW, RAW, "bad",
    ]  # fmt: skip
    return parsed, _keyed(of, has_names=bool(names or uuids))


def _text(name: str, of: Mapping[str, str]) -> str:
    return "cast(null as string)" if of[name] == ABSENT else f"cast({_G}{name} as string)"


def _shown(name: str) -> str:
    return f"{_G}{name}"


def _may_be_text(of: Mapping[str, str]) -> bool:
    return of.get(PID) in (TEXT, BYTES)


def _number(name: str, kind: str) -> str:
    """Return a value as a whole number, or null where that would lose anything of it."""
    given = f"{_G}{name}"
    whole = f"try_cast({given} as bigint)"
    if kind == WHOLE:
        return whole
    if kind == DECIMAL:
        return f"if({given} = floor({given}), {whole}, null)"
    if kind == DOUBLE:
        return f"if({given} = floor({given}) and abs({given}) < {_EXACT}, {whole}, null)"
    if kind in (TEXT, BYTES):
        text = given if kind == TEXT else f"cast({given} as string)"
        exact = _decimal(text)
        is_whole = f"{exact} = floor({exact}) and abs({exact}) < {_EXACT}"
        return f"coalesce({_long(text)}, if({is_whole}, try_cast({exact} as bigint), null))"
    return "cast(null as bigint)"


def _long(text: str) -> str:
    """Return digits as a number. What has a fraction was perhaps a double in between, and is exact only below _EXACT:
    a line of JSON says 9007199254740993.0, and its parser passes on 9.007199254740992E15."""
    return f"if({text} rlike '[.eE]', null, try_cast({text} as bigint))"


def _decimal(text: str) -> str:
    return f"try_cast({text} as decimal(38, 9))"


def _publisher_word(kind: str) -> tuple[str, str]:
    """Return a publisher's number as 64 bits, and its digits where these are more than a long's 63."""
    number = _number(PID, kind)
    if kind not in (DECIMAL, TEXT, BYTES):
        return number, "cast(null as string)"
    given = f"{_G}{PID}"
    exact = given if kind == DECIMAL else _decimal(f"cast({given} as string)")
    is_big = f"{exact} = floor({exact}) and {exact} > {2**63 - 1}BD and {exact} < {2**64}BD"
    if kind != DECIMAL:
        is_big = f"{is_big} and not cast({given} as string) rlike '[.eE]'"
    word = f"coalesce({number}, if({is_big}, try_cast({exact} - {2**64}BD as bigint), null))"
    return word, f"if({is_big}, cast(cast({exact} as decimal(20, 0)) as string), null)"


def _payload(kind: str) -> str:
    given = f"{_G}{PAYLOAD}"
    if kind == ABSENT:
        return "cast(null as binary)"
    if kind == BYTES:
        return given
    return f"cast({f'to_json({given})' if kind == NESTED else f'cast({given} as string)'} as binary)"


# --- reasons and keys ---


def _keyed(of: Mapping[str, str], *, has_names: bool) -> list[str]:
    inc, k, r = f"coalesce({INC}, 1L)", f"coalesce({K}, 0L)", f"coalesce({R}, {L})"
    tail = f"shiftleft({inc} & {(1 << INC_BITS) - 1}, {SEQ_BITS}) | {SEQ}"
    is_small = f"digits is null and word between 0 and {(1 << PID_BITS) - 1}"
    mid, low = "shiftrightunsigned(word, 2)", f"shiftleft(word & 3, {INC_BITS + SEQ_BITS}) | {tail}"
    if has_names:
        mid = f"if(named is null, {mid}, {1 << 62}L | shiftleft({_letters(1)}, 6))"
        low = f"if(named is null, {low}, {_letters(8)})"
    made_mid = f"if({is_small}, 0L, {mid})"
    made_low = f"if({is_small}, shiftleft(word, {INC_BITS + SEQ_BITS}) | {tail}, {low})"
    return [
        GRP, f"if(digits is null, word, null) as {PID}", f"coalesce(digits, named) as {PUBLISHER}",
        f"try_cast({inc} as int) as {INC}", SEQ, f"{r} as {R}", L,
        f"coalesce({K_HI}, shiftleft({L}, {K_BITS}) | {k}) as {K_HI}",
        f"coalesce({K_MID}, if({K_HI} is null, {made_mid}, 0L)) as {K_MID}",
        f"coalesce({K_LO}, {made_low}) as {K_LO}",
        PAYLOAD, HEARTBEAT, FILE, ROW, RAW, f"{_reason(of)} as {REASON}",
    ]  # fmt: skip


def _letters(first: int) -> str:
    """Return seven bytes of a name as a number, so that names compare as their bytes do."""
    return f"cast(conv(rpad(hex(substr(cast(named as binary), {first}, 7)), 14, '0'), 16, 10) as bigint)"


def _reason(of: Mapping[str, str]) -> str:
    """Return why a row has no place in the order: the first thing that is wrong with it."""
    is_made = f"({K_HI} is null or {K_LO} is null)"
    parts = [
        "bad",
        f"case when {GRP} = '' then 'grp is empty' end",
        f"case when octet_length({GRP}) > {GRP_BYTES_MAX // 3} and {_ESCAPED_BYTES} > {GRP_BYTES_MAX} "
        f"then 'grp has more than {GRP_BYTES_MAX} bytes as the name of a directory' end",
        f"case when {GRP} = '{NO_PARTITION}' then 'grp is {NO_PARTITION}, which stands for none in directories' end",
        *_reasons_of_publisher(of),
        *_reasons_of(of, SEQ, ROOM[SEQ], is_made, f"not {HEARTBEAT}"),
        *_reasons_of(of, L, ROOM[L], is_made, "true"),
        *_reasons_of(of, INC, ROOM[INC], "true", None),
        *_reasons_of(of, K, ROOM[K], is_made, None),
        *(each for name in (R, *KEY) for each in _reasons_of(of, name, 63, "true", None)),
        f"case when ({K_HI} is null) <> ({K_LO} is null) then 'one of {K_HI} and {K_LO} is missing' end",
    ]
    return f"coalesce({', '.join(parts)})"


def _reasons_of_publisher(of: Mapping[str, str]) -> list[str]:
    parts = ["case when word is null and named is null and {given} is null then 'pid is missing' end"]
    if PID in of:
        shown = _value_shown(PID)
        hint = "no whole number and no UUID; names of publishers belong into the column publisher"
        parts.append(f"case when word is null and named is null then concat('pid is ', {shown}, ', {hint}') end")
        parts.append(f"case when word < 0 and digits is null then concat('pid is ', {shown}, ', out of its range') end")
    given = f"{_G}{PID}" if PID in of else "cast(null as string)"
    return [part.replace("{given}", given) for part in parts]


def _reasons_of(of: Mapping[str, str], name: str, bits: int, is_made: str, needed: str | None) -> list[str]:
    parts = []
    if name in of:
        shown = _value_shown(name)
        if of[name] != WHOLE:
            cannot = f"{name} is null and {_G}{name} is not null"
            parts.append(f"case when {cannot} then concat('{name} is ', {shown}, ', no whole number') end")
        over = f"({name} > {(1 << bits) - 1}L and {is_made})" if bits < 63 else "false"
        beyond = f"', out of its range, 0 to {(1 << bits) - 1:,}'"
        parts.append(f"case when {name} < 0 or {over} then concat('{name} is ', {shown}, {beyond}) end")
    if needed:
        parts.append(f"case when {name} is null and {needed} then '{name} is missing' end")
    return parts


def _value_shown(name: str) -> str:
    return f"substr(cast({_G}{name} as string), 1, {_VALUE_SHOWN})"
