"""Publishers' logs: what merges read, the documented columns, and how foreign logs are mapped to them.

A log has one row per published event, in Parquet or NDJSON (one JSON object a line, optionally compressed):

    column    type      meaning
    grp       string    group; all of a log without it is one group, "all"
    pid       int       publisher, 0 to 32,767
    inc       int       its incarnation, 0 to 255; 1 where a log has none
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

from pyspark.sql import DataFrame, SparkSession
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

_NEEDED = (PID, SEQ, L)
_KINDS: Final = {GRP: "string", PID: "int", INC: "int", SEQ: "bigint", R: "bigint", L: "bigint", K: "int",
                 K_HI: "bigint", K_MID: "bigint", K_LO: "bigint", KIND: "string"}  # fmt: skip
LOG_DDL: Final = ", ".join(f"{name} {_KINDS.get(name, 'binary')}" for name in LOG)


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
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if _is_log(file)]
    kinds = {"parquet" if file.name.endswith(".parquet") else "json" for file in files if _is_log(file)}
    if len(kinds) != 1:
        found = "both Parquet and NDJSON files" if kinds else "no .parquet, .ndjson, .jsonl or .json file"
        raise UsageError(f"LOGS: {path} holds {found}; give publishers' logs of one format")
    return kinds.pop()


def _is_log(file: Path) -> bool:
    hidden = any(part[0] in "._" for part in file.parts[-1:])
    named = [file.name.removesuffix(".gz").removesuffix(".zst").endswith(end) for end in (".ndjson", ".jsonl", ".json")]
    return file.is_file() and not hidden and file.name != "run.json" and (file.name.endswith(".parquet") or any(named))


def log_files(path: Path) -> list[str]:
    """Return the log files below a path; of a trace, those of publications."""
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if _is_log(file)]
    if any("kind=" in str(file) for file in files):
        files = [file for file in files if "kind=publish" in str(file)]
    return [str(file) for file in files]


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


def log_table(raw: DataFrame, mapping: dict[str, str], where: str) -> DataFrame:
    """Return rows of any log with our columns, by a mapping and by names. Raises UsageError."""
    have = _names(raw.schema)
    trace = {PID: "m_pid", INC: "m_inc", SEQ: "m_seq"} if {"m_pid", "m_seq"} <= set(have) else {}
    chosen = trace | mapping
    for name in _NEEDED:
        if name not in chosen and name not in have:
            raise UsageError(f'LOGS: {where} has no column {name}; name it in a mapping file, such as {name} = "…"')
    defaults: dict[str, Any] = {GRP: "all", INC: 1, K: 0}
    columns = {}
    for name, kind in _KINDS.items():
        if name in chosen:
            columns[name] = F.expr(chosen[name]).cast(kind)
        elif name in have:
            columns[name] = F.col(name).cast(kind)
        else:
            columns[name] = F.lit(defaults.get(name)).cast(kind)
    payload = F.expr(chosen[PAYLOAD]) if PAYLOAD in chosen else F.col(PAYLOAD) if PAYLOAD in have else F.lit(None)
    payload = payload.cast("binary")
    rows = raw.select(*(column.alias(name) for name, column in columns.items()), payload.alias(PAYLOAD))
    return with_keys(rows).select(*LOG, (F.col(KIND) == HEARTBEAT).eqNullSafe(True).alias(HEARTBEAT))


def with_keys(rows: DataFrame) -> DataFrame:
    """Return rows with packed keys: the given ones, else those of a hybrid clock's (l, k), pid, inc and seq."""
    high = F.shiftleft(F.col(L), K_BITS).bitwiseOR(F.col(K).cast("bigint"))
    low = F.shiftleft(F.col(PID).cast("bigint"), INC_BITS + SEQ_BITS)
    low = low.bitwiseOR(F.shiftleft(F.col(INC).cast("bigint"), SEQ_BITS)).bitwiseOR(F.col(SEQ))
    return rows.select(
        GRP, PID, INC, SEQ, F.coalesce(R, L).alias(R), L, F.coalesce(K_HI, high).alias(K_HI),
        F.coalesce(F.col(K_MID), F.lit(0)).alias(K_MID), F.coalesce(K_LO, low).alias(K_LO), PAYLOAD, KIND,
    )  # fmt: skip


def _names(schema: StructType) -> list[str]:
    return [field.name for field in schema.fields]
