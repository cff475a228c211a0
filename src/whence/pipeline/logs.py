"""Publishers' logs: what merges read, the documented columns, and how foreign logs are mapped to them.

A log has one row per published event, in Parquet or NDJSON (one JSON object a line, optionally compressed):

    column    type      meaning
    grp       string    group; all of a log without it is one group, "all"
    pid       int       publisher, 0 to 32,767
    inc       int       its incarnation, from 0; 1 where a log has none
    seq       long      number within (pid, inc), from 1
    r         long      the publisher's clock when it published, ticks; l where a log has none
    l         long      the greatest clock it knew of then, ticks
    k         int       logical counter among events with the same l; 0 where a log has none
    k_hi, k_mid, k_lo   the packed order key; made from l, k, pid, inc and seq where a log has none
    payload   binary or string, optional; a row without one and with kind "heartbeat" only tells the time

A run's traces are logs too: their publish rows are read. A mapping file in TOML names the columns of a foreign log,
each as a SQL expression: l = "unix_millis(sent_at)".
"""

import tomllib
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from whence.errors import UsageError
from whence.pipeline.session import first_line

GRP, PID, INC, SEQ, R, L, K = "grp", "pid", "inc", "seq", "r", "l", "k"
K_HI, K_MID, K_LO, PAYLOAD, KIND = "k_hi", "k_mid", "k_lo", "payload", "kind"
KEY: Final = (K_HI, K_MID, K_LO)
LOG: Final = (GRP, PID, INC, SEQ, R, L, *KEY, PAYLOAD)
HEARTBEAT: Final = "heartbeat"

PID_BITS, INC_BITS, SEQ_BITS, K_BITS = 15, 8, 40, 20

ROOM: Final = {PID: PID_BITS, INC: 31, SEQ: SEQ_BITS, L: 63 - K_BITS, K: K_BITS}
"""Bits of each part of a made key. Of an incarnation it has the lowest INC_BITS: they tell those apart that an equal
clock leaves."""
_OVER: Final = " | ".join(f"shiftright(bigint({name}), {bits})" for name, bits in ROOM.items())
_LOW: Final = (
    f"if(({_OVER}) <> 0, shiftleft(1L, 63) | xxhash64({PID}, {INC}, {SEQ}), "
    f"shiftleft(bigint({PID}), {INC_BITS + SEQ_BITS}) | "
    f"shiftleft(bigint({INC}) & {(1 << INC_BITS) - 1}, {SEQ_BITS}) | {SEQ})"
)
"""The low word of a made key. What has no room in it gets a negative one, which no key is, so that it is counted."""
RANGES: Final = "pid 0 to 32,767, k up to 1,048,575, and nothing negative"

_NEEDED = (PID, SEQ, L)
_KINDS: Final = {GRP: "string", PID: "int", INC: "int", SEQ: "bigint", R: "bigint", L: "bigint", K: "int",
                 K_HI: "bigint", K_MID: "bigint", K_LO: "bigint", KIND: "string"}  # fmt: skip
_KEYED: Final = (
    GRP, PID, INC, SEQ, f"coalesce({R}, {L}) as {R}", L,
    f"coalesce({K_HI}, shiftleft({L}, {K_BITS}) | bigint({K})) as {K_HI}", f"coalesce({K_MID}, 0L) as {K_MID}",
    f"coalesce({K_LO}, {_LOW}) as {K_LO}",
    PAYLOAD, f"{KIND} <=> '{HEARTBEAT}' as {HEARTBEAT}",
)  # fmt: skip


def read_mapping(path: Path | None) -> dict[str, str]:
    """Read a mapping file: our column to an expression over the log's. Raises UsageError."""
    if path is None:
        return {}
    try:
        mapping = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--mapping: {path} cannot be read as TOML: {error}") from None
    known = (*_KINDS, PAYLOAD)
    for name, expression in mapping.items():
        if name not in known or not isinstance(expression, str):
            raise UsageError(f"--mapping: {path}: {name} must be one of {', '.join(known)}, given as a SQL expression")
    return dict(mapping)


def format_of(path: Path) -> str:
    """Tell whether logs below a path are Parquet or NDJSON. Raises UsageError where there are none, or both."""
    if not path.exists():
        raise UsageError(f"LOGS: {path} does not exist; give a file or directory of publishers' logs")
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if is_log(file) and file.is_file()]
    kinds = {"parquet" if file.name.endswith(".parquet") else "json" for file in files if is_log(file)}
    if len(kinds) != 1:
        found = "both Parquet and NDJSON files" if kinds else "no .parquet, .ndjson, .jsonl or .json file"
        raise UsageError(f"LOGS: {path} holds {found}; give publishers' logs of one format")
    return kinds.pop()


def is_log(file: Path) -> bool:
    """Tell whether a file is a log, by its name."""
    hidden = any(part[0] in "._" for part in file.parts[-1:])
    named = [file.name.removesuffix(".gz").removesuffix(".zst").endswith(end) for end in (".ndjson", ".jsonl", ".json")]
    return not hidden and file.name != "run.json" and (file.name.endswith(".parquet") or any(named))


def tells_events(file: Path) -> bool:
    """Tell whether a log has events in it; of a trace, only publications are."""
    return "kind=" not in str(file) or "kind=publish" in str(file)


def log_files(path: Path) -> list[str]:
    """Return the log files below a path; of a trace, those of publications."""
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if is_log(file) and file.is_file()]
    return [str(file) for file in files if tells_events(file)]


def read_logs(spark: SparkSession, path: Path, mapping: dict[str, str] | None = None) -> DataFrame:
    """Return the log as a table with the columns of LOG. Raises UsageError that says what is missing."""
    kind = format_of(path)
    files = log_files(path)
    try:
        raw = spark.read.format(kind).load(files)
        return log_table(raw, mapping or {}, str(path))
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"LOGS: {path} cannot be read: {first_line(error)}") from error


def check_mapping(raw: DataFrame, mapping: dict[str, str], where: str) -> None:
    """Look whether every expression of a mapping fits the log. Raises UsageError that names the one that does not."""
    for name, expression in mapping.items():
        try:
            _ = raw.select(F.expr(expression).cast(_KINDS.get(name, "binary"))).schema
        except Exception as error:
            raise UsageError(f'--mapping: {name} = "{expression}" does not fit {where}: {first_line(error)}') from error


def log_table(raw: DataFrame, mapping: dict[str, str], where: str) -> DataFrame:
    """Return rows of any log with our columns, by a mapping and by names. Raises UsageError."""
    check_mapping(raw, mapping, where)
    return as_log(raw, log_columns(raw.schema, mapping, where))


def log_columns(schema: StructType, mapping: dict[str, str], where: str) -> list[Column]:
    """Return our columns in terms of a log's, by a mapping and by names. Raises UsageError."""
    have = _names(schema)
    trace = {PID: "m_pid", INC: "m_inc", SEQ: "m_seq"} if {"m_pid", "m_seq"} <= set(have) else {}
    chosen = trace | mapping
    for name in _NEEDED:
        if name not in chosen and name not in have:
            raise UsageError(f'LOGS: {where} has no column {name}; name it in a mapping file, such as {name} = "…"')
    defaults: dict[str, Any] = {GRP: "all", INC: 1, K: 0}
    columns = []
    for name, kind in _KINDS.items():
        given = F.col(name) if name in have else F.lit(defaults.get(name))
        columns.append((F.expr(chosen[name]) if name in chosen else given).cast(kind).alias(name))
    payload = F.expr(chosen[PAYLOAD]) if PAYLOAD in chosen else F.col(PAYLOAD) if PAYLOAD in have else F.lit(None)
    return [*columns, payload.cast("binary").alias(PAYLOAD)]


def as_log(raw: DataFrame, columns: list[Column]) -> DataFrame:
    """Return rows of a log with our columns, given in its terms, packed keys, and whether a row only tells the time.

    Keys are the given ones, else those of a hybrid clock's (l, k), pid, inc and seq.
    """
    return raw.select(*columns).selectExpr(*_KEYED)


def _names(schema: StructType) -> list[str]:
    return [field.name for field in schema.fields]
