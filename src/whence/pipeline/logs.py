"""Publishers' logs: what merges read, the documented columns, and how foreign logs are mapped to them.

A log has one row per published event, in Parquet or NDJSON (one JSON object a line, optionally compressed):

    column     type     meaning
    grp        string   group; "all" where a row has none
    pid        int      publisher: a number from 0 to 2**64 - 1, or a UUID
    publisher  string   its name, where a row has no pid
    inc        int      its incarnation, up to 2**31 - 1; 1 where a row has none
    seq        long     number within (pid, inc), up to 2**40 - 1
    r          long     the publisher's clock when it published, ticks; l where a row has none
    l          long     the greatest clock it knew of then, ticks, up to 2**43 - 1
    k          int      logical counter among events with the same l; 0 where a row has none
    k_hi, k_mid, k_lo   the packed order key; made from l, k, publisher, inc and seq where a row has none
    payload    binary or string, optional; a row without one and with kind "heartbeat" only shows the clock

A run's traces are logs too: their publish rows are read, in the order of their keys, else of true time. A mapping file
in TOML names the columns of a foreign log, each as a SQL expression: l = "unix_millis(cast(sent_at as timestamp))".
"""

import tomllib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from whence.errors import UsageError
from whence.pipeline.storage import AnyPath, files_below
from whence.trace.layout import MEMBERSHIP, RUN_FILE

GRP, PID, PUBLISHER, INC, SEQ, R, L, K = "grp", "pid", "publisher", "inc", "seq", "r", "l", "k"
K_HI, K_MID, K_LO, PAYLOAD, KIND = "k_hi", "k_mid", "k_lo", "payload", "kind"
KEY: Final = (K_HI, K_MID, K_LO)
LOG: Final = (GRP, PID, PUBLISHER, INC, SEQ, R, L, *KEY, PAYLOAD)
IDENTITY: Final = (GRP, PID, PUBLISHER, INC, SEQ)
"""What makes two rows the same event."""
ORDER: Final = (*KEY, PID, PUBLISHER, INC, SEQ)
"""What orders two events of a group; a computed key decides alone, unless publishers have long names."""
COLUMNS: Final = (GRP, PID, PUBLISHER, INC, SEQ, R, L, K, *KEY, KIND, PAYLOAD)
"""What a log may have, and a mapping may name."""
POS: Final = "pos"
MERGED: Final = tuple(name for name in (*LOG, POS) if name != GRP)
"""What every file of a merge has: a row's place, too."""
DONE: Final = "_SUCCESS"
NEEDED: Final = (PID, SEQ, L)
HEARTBEAT: Final = "heartbeat"
FILE, ROW, RAW, REASON = "file", "row", "raw", "reason"
REJECTED: Final = (FILE, ROW, RAW, REASON)
"""Columns of a rejected row: its file, its number there (of Parquet), the row as it was, and why it was rejected."""

PID_BITS, INC_BITS, SEQ_BITS, K_BITS = 15, 8, 40, 20
BITS_OF: Final = {INC: 31, SEQ: SEQ_BITS, L: 63 - K_BITS, K: K_BITS}
"""Bits of each part of a computed key. It has only the lowest INC_BITS of an incarnation; where these are equal, the
incarnation itself decides."""
TRACE_NAMES: Final = frozenset({"m_pid", "m_inc", "m_seq", "t_true", L})
"""Columns by which a trace is known, which names a log's columns otherwise."""

_ENDS: Final = (".ndjson", ".jsonl", ".json")
_RUN: Final = "run_id="


def read_mapping(path: AnyPath | None) -> dict[str, str]:
    """Read a mapping file: our column to an expression over the log's. Raises UsageError."""
    if path is None:
        return {}
    try:
        mapping = tomllib.loads(path.read_bytes().decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--mapping: {path} cannot be read as TOML: {error}") from None
    for name, expression in mapping.items():
        if name not in COLUMNS or not isinstance(expression, str):
            raise UsageError(
                f"--mapping: {path}: {name} must be one of {', '.join(COLUMNS)}, given as a SQL expression"
            )
    return dict(mapping)


def is_log(file: AnyPath) -> bool:
    """Return whether a file is a log, by its name."""
    plain = file.name.removesuffix(".gz").removesuffix(".zst")
    named = file.name.endswith(".parquet") or plain.endswith(_ENDS)
    return named and file.name[0] not in "._" and file.name != RUN_FILE and file.parent.name != MEMBERSHIP


def is_parquet(file: AnyPath) -> bool:
    """Return whether a log is Parquet; else it is NDJSON."""
    return file.name.endswith(".parquet")


def has_events(file: AnyPath) -> bool:
    """Return whether a log has events; of a trace, only publications count."""
    return "kind=" not in str(file) or "kind=publish" in str(file)


def log_files(path: AnyPath) -> list[AnyPath]:
    """Return the log files below a path; of a trace, those of publications. Raises UsageError where there are none."""
    if not path.exists():
        raise UsageError(f"LOGS: {path} does not exist; give a file or directory of publishers' logs")
    logs = [file for file in files_below(path) if is_log(file) and has_events(file)]
    if not logs:
        raise UsageError(
            f"LOGS: {path} holds no .parquet, .ndjson, .jsonl or .json file with events; give publishers' logs"
        )
    check_one_run(logs)
    _check_unmerged(logs)
    return logs


def _check_unmerged(files: Iterable[AnyPath]) -> None:
    """Check that no file is what a merge has made of logs: its events would be merged again. Raises UsageError.

    Nobody looks into files but where something else says it: directories of groups, or the mark of a job that is done.
    """
    looked_at: dict[AnyPath, bool] = {}
    for file in filter(is_parquet, files):
        of_group = file.parent.name.startswith(f"{GRP}=")
        directory = file.parent.parent if of_group else file.parent
        if directory not in looked_at:
            looked_at[directory] = (of_group or (directory / DONE).exists()) and set(MERGED) <= set(_columns(file))
        if looked_at[directory]:
            raise UsageError(f"LOGS: {directory} holds what a merge has made of logs, not logs; keep it elsewhere")


def _columns(file: AnyPath) -> list[str]:
    """Return the columns of a Parquet file; none where it cannot be read."""
    if isinstance(file, Path):
        with suppress(OSError, pa.ArrowException):
            return list(pq.read_schema(file).names)
        return []
    try:
        return file.spark.read.parquet(str(file)).columns
    except Exception:  # noqa: BLE001 - whoever reads the file says what is wrong
        return []


def unread_files(path: AnyPath) -> list[AnyPath]:
    """Return the files below a path that are not read because of how they are called.

    Names that begin with . or _ are those of unfinished files, and meant to be passed over.
    """
    if path.is_file():
        return []
    return [
        file for file in files_below(path)
        if not is_log(file) and file.name[0] not in "._" and file.name != RUN_FILE and file.parent.name != MEMBERSHIP
    ]  # fmt: skip


def check_apart(logs: AnyPath, out: AnyPath, option: str = "--out") -> None:
    """Check that logs and a directory to write to do not overlap. Raises UsageError that names the option."""
    source, target = (path.resolve() if isinstance(path, Path) else path for path in (logs, out))
    if type(source) is not type(target):
        return
    if target.is_relative_to(source):  # type: ignore[arg-type]
        raise UsageError(f"{option}: {out} is within {logs}, and would be read as logs; choose another place")
    if source.is_relative_to(target):  # type: ignore[arg-type]
        raise UsageError(f"{option}: {logs} is within {out}: logs and what is made of them need a place each")


def check_one_run(files: Iterable[AnyPath]) -> None:
    """Check that files are of one run at most: runs number their events alike. Raises UsageError."""
    runs = sorted({part for file in files for part in file.parts if part.startswith(_RUN)})
    if len(runs) > 1:
        raise UsageError(
            f"LOGS: they are of {len(runs):,} runs, whose events are numbered alike; give the directory of one, "
            f"such as {runs[0]}"
        )
