"""Reads a trace back: what was written, or one sentence that says which file is wrong and what would be right.

Law: read_trace(write_trace(d, t)) has the rows of t, kind by kind, in order. Bytes that are not a trace raise
TraceError and nothing else. Columns we do not know are ignored, so that later versions can add some.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whence.errors import TraceError
from whence.trace.layout import (
    RUN_FILE,
    RUN_PREFIX,
    TICKETS_MAX,
    TIME_MAX,
    TYPES,
    beyond_limits,
    fitted,
    limits_of,
    parts,
    unknown_kinds,
)
from whence.trace.memory import Row, Run, Trace
from whence.trace.schema import COLUMNS_OF, DESTS, EPOCH, EV, GRP, IDS, INC, M_INC, M_PID, M_SEQ, NODE, Kind

_WHO = (NODE, INC, EV)
_WHO_AND_WHAT = (*_WHO, GRP, M_PID, M_INC, M_SEQ)
_NEVER_NULL = dict.fromkeys(Kind, _WHO) | dict.fromkeys((Kind.PUBLISH, Kind.DELIVER), _WHO_AND_WHAT)
"""Without these columns a row says nothing about any process."""
_ON_VIEWS = {Kind.VIEW: (*_WHO, GRP, EPOCH)}
"""Of groups on views besides: rows of members that enter a view say which."""

_REAL: dict[str, Callable[[float], bool]] = {
    "drift_max": lambda part: 0 <= part < 1,
    "ticket_round_ns": lambda time: 0 <= time < 2**53,
}
_WHOLE = ("tickets", "k")

NO_ROWS = "the trace is incomplete: it has no rows at all, though the run names processes"

_UNREADABLE = (pa.ArrowException, OSError, ValueError, TypeError, MemoryError, OverflowError)
"""What pyarrow raises on bytes that are not Parquet, or no longer."""


def read_trace(path: Path | str) -> Trace:
    """Read the trace of a run from its directory, or from the directory that holds it alone. Raises TraceError."""
    directory = _find_run(Path(path))
    trace = Trace(read_run(directory))
    for unknown in unknown_kinds(directory):
        raise TraceError(f"{unknown} holds rows of a kind that no trace has")
    never_null = _NEVER_NULL | (_ON_VIEWS if trace.run.parameters.get("membership") == "living" else {})
    for kind in Kind:
        for file in parts(directory, kind):
            trace.rows[kind] += _read_part(file, kind, never_null[kind])
    if trace.run.rows is None and trace.run.nodes and not trace.count():
        trace.missing = NO_ROWS
    return trace


def read_run(directory: Path) -> Run:
    """Read run.json of a run's directory. Raises TraceError."""
    file = directory / RUN_FILE
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        content = None
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from error
    return described_by(content, directory.absolute())


def described_by(content: bytes | None, directory: Any) -> Run:
    """Return the run of a directory by its run.json. Raises TraceError, also where the directory is called after
    another run: then nobody knows whose rows these are."""
    run, name = parse_run(content, directory / RUN_FILE), directory.name
    if name.startswith(RUN_PREFIX) and name != f"{RUN_PREFIX}{run.run_id}":
        raise TraceError(
            f"{directory / RUN_FILE} describes the run {run.run_id!r}, and its directory is called {name}: it is "
            "unknown which is true"
        )
    if wrong := _impossible(run):
        raise TraceError(f"{directory / RUN_FILE}: {wrong}")
    return run


def _impossible(run: Run) -> str | None:
    """Return what cannot be true of a description, or None."""
    known = set(run.nodes)
    for grp, members in run.groups.items():
        if strangers := [node for node in members if node not in known]:
            return f"the group {grp} was founded with process {strangers[0]}, which nodes does not name"
    for name, value in _numbers(run).items():
        low, high = _RANGES.get(name, (0, TIME_MAX))
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            return f"{name} is {value!r}, and must be a number from {low} to {high}"
    return None


_RANGES = {"tickets": (0, TICKETS_MAX), "k": (0, 2**31 - 1), "drift_max": (0, 0.875)}
"""Where other numbers of a description are counted with than times, in what range they are."""


def _numbers(run: Run) -> dict[str, Any]:
    """Return the numbers of a description that verdicts are made with, those that are there, by name."""
    told: dict[str, Any] = {name: run.parameters.get(name) for name in ("tickets", "k", "drift_max", "ticket_round_ns")}
    told |= {"epsilon": run.epsilon, "tick_ns": run.tick_ns}
    if run.phases is not None:
        told |= msgspec.structs.asdict(run.phases)
    return {name: value for name, value in told.items() if value is not None}


def parse_run(content: bytes | None, file: object) -> Run:
    """Return the run that run.json describes; None where there is no such file. Raises TraceError that names it."""
    if content is None:
        raise TraceError(f"{file} is missing: the run did not finish, or this is no directory of a run")
    try:
        run = msgspec.json.decode(content, type=Run)
        _check_parameters(run)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise TraceError(f"{file} is not the description of a run: {error}") from error
    return run


def _check_parameters(run: Run) -> None:
    """Make sure that judges can reckon with what a run says of itself. Raises ValueError that names what is wrong."""
    for name, is_right in _REAL.items():
        value = run.parameters.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not is_right(value):
            raise ValueError(f"its parameter {name} is {value!r}")
    for name in _WHOLE:
        value = run.parameters.get(name)
        if isinstance(value, int) and value > 2**31 - 1:
            raise ValueError(f"its parameter {name} is {value!r}")
    if (run.epsilon or 0) * (run.tick_ns or 0) > 2**61:
        raise ValueError(f"its epsilon of {run.epsilon} ticks of {run.tick_ns} ns is longer than any run")
    stated = run.parameters.get("promises", [])
    if not isinstance(stated, list):
        raise ValueError(f"its parameter promises is {stated!r} and must be a list of names")


def _find_run(path: Path) -> Path:
    """Return the run's directory: the path itself or the only run in it."""
    try:
        if not path.exists():
            raise TraceError(f"{path} does not exist; give the directory of a trace (it holds {RUN_FILE})")
        if not path.is_dir():
            raise TraceError(f"{path} is not a directory; give the directory of a trace (it holds {RUN_FILE})")
        if (path / RUN_FILE).exists():
            return path
        runs = sorted(entry for entry in path.glob("run_id=*") if entry.is_dir())
    except (OSError, ValueError) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error
    if not runs:
        raise TraceError(f"{path} holds no {RUN_FILE} and no run_id=… directory; give the directory of a trace")
    if len(runs) > 1:
        raise TraceError(f"{path} holds {len(runs)} runs; give the directory of one, such as {runs[0]}")
    return runs[0]


def _read_part(file: Path, kind: Kind, never_null: tuple[str, ...]) -> list[Row]:
    names = COLUMNS_OF[kind]
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            missing = [name for name in names if name not in parquet.schema_arrow.names]
            if missing:
                raise TraceError(f"{file} is not part of a trace: it lacks the column {missing[0]}")
            table = parquet.read(columns=list(names), use_threads=False)
        table.validate(full=True)
        columns = [_values(file, kind, name, table.column(name)) for name in names]
    except TraceError:
        raise
    except _UNREADABLE as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise TraceError(f"{file} is not a whole Parquet file: {reason[0]}") from error
    for name in never_null:
        if table.column(name).null_count:
            mixed = "; were groups of different levels gathered as one?" if name == EPOCH else ""
            raise TraceError(f"{file} is not part of a trace: its column {name} must have a value in every row{mixed}")
    return list(zip(*columns, strict=True))


def _values(file: Path, kind: Kind, name: str, column: Any) -> list[Any]:
    """Return a column as Python values, in the form the rows in memory have."""
    want = TYPES[name]
    try:
        column = fitted(name, column)
    except ValueError as error:
        raise TraceError(f"{file} is not part of a trace: {error}") from error
    if name in limits_of(kind):
        span = pc.min_max(column).as_py()
        if wrong := beyond_limits(kind, name, span["min"], span["max"]):
            raise TraceError(f"{file} is not part of a trace: {wrong}")
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_string(want):
        return _names(column)
    if pa.types.is_integer(want) and not column.null_count:
        return [value for chunk in column.chunks for value in _integers(chunk)]
    values: list[Any] = column.to_pylist()
    if name == DESTS:
        return [None if value is None else tuple(value) for value in values]
    if name == IDS:
        return [None if value is None else tuple((v["pid"], v["inc"], v["seq"]) for v in value) for value in values]
    return values


def _names(column: Any) -> list[Any]:
    """Return a column of few different strings; each is made once, which is many times faster."""
    values: list[Any] = []
    for chunk in column.chunks:
        encoded = chunk.dictionary_encode()
        words = [*encoded.dictionary.to_pylist(), None]
        values += [words[index] for index in encoded.indices.fill_null(len(words) - 1).to_pylist()]
    return values


def _integers(chunk: Any) -> list[int]:
    """Return a chunk without nulls straight from its memory: ten times faster than value by value."""
    buffer = chunk.buffers()[1]
    if not len(chunk) or buffer is None:
        return []
    wide = memoryview(buffer).cast("B")[: (chunk.offset + len(chunk)) * chunk.type.bit_width // 8]
    return wide.cast("q" if chunk.type.bit_width == 64 else "i")[chunk.offset :].tolist()
