"""How a trace lies on disk, spelled once for writer, reader and pipeline.

    DIR/run_id=…/run.json                            what was run
    DIR/run_id=…/kind=…/part-00000.parquet           rows of one kind, all columns
    DIR/run_id=…/membership/part-00000.parquet       who was a member of which group, as event numbers of that member:
                                                     made of the rows, for readers elsewhere; nothing here reads it

A file is written under a name that readers skip and renamed when it is complete; run.json comes last, so a directory
without it is a run that did not finish.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from whence.errors import UsageError
from whence.trace.schema import (
    COLUMNS,
    EPOCH,
    EV,
    HOLD_NS,
    INC,
    LATE_NS,
    M_SEQ,
    POS,
    T_CLK,
    T_TRUE,
    TICKET,
    VALUE,
    Kind,
)

RUN_FILE: Final = "run.json"
RUN_PREFIX: Final = "run_id="
MEMBERSHIP: Final = "membership"

_INT, _LONG, _STRING = pa.int32(), pa.int64(), pa.string()
_EVENT_ID = pa.struct([("pid", _INT), ("inc", _INT), ("seq", _LONG)])

TYPES: Final[dict[str, Any]] = dict.fromkeys(COLUMNS, _LONG) | {
    "node": _INT, "inc": _INT, "m_pid": _INT, "m_inc": _INT, "peer": _INT, "ticket": _INT,
    "stamp_bytes": _INT, "payload_bytes": _INT,
    "grp": _STRING, "reason": _STRING, "payload": pa.binary(),
    "dests": pa.list_(_INT), "ids": pa.list_(_EVENT_ID),
}  # fmt: skip
"""The Arrow type of every column: a long unless listed here."""

SCHEMA: Final = pa.schema([(name, TYPES[name]) for name in COLUMNS])


TIME_MAX: Final = 2**62 - 1
"""The latest time, in ns: some 146 years. The sum of two times is still a long."""

LIMITS: Final[dict[str, tuple[int, int]]] = (
    dict.fromkeys((T_CLK, M_SEQ, EPOCH, HOLD_NS, POS), (-(2**61), TIME_MAX))
    | dict.fromkeys((EV, T_TRUE), (0, TIME_MAX))
    | {INC: (0, 2**31 - 1), TICKET: (-(2**30), 2**31 - 1), LATE_NS: (-(2**59), 2**59)}
)
"""The least and the greatest value of columns that are counted with: others were forged or torn, and would overflow
sums and differences of engines that count in 64 bits. An owner's clock may have begun before 1970."""


TICKETS_MAX: Final = 1 << 20
"""A process acts for so many tickets at most, and a run has no more."""


def limits_of(kind: str) -> dict[str, tuple[int, int]]:
    """Return the limits of the columns of a kind of rows: who acquires a ticket says for how many it acts."""
    return LIMITS | ({VALUE: (-(2**61), TICKETS_MAX)} if kind == Kind.TICKET_ACQUIRE.value else {})


def beyond_limits(kind: str, name: str, least: int | None, greatest: int | None) -> str | None:
    """Return what is wrong with a column by its least and greatest value; None where nothing is."""
    if name not in (limits := limits_of(kind)):
        return None
    low, high = limits[name]
    for value in (least, greatest):
        if value is not None and not low <= value <= high:
            return f"its column {name} has the value {value}, and must be from {low} to {high}"
    return None


def alike(have: Any, want: Any) -> bool:
    """Tell whether a column of another writer holds the same sort of values, perhaps in another width."""
    sorts = (pa.types.is_integer, pa.types.is_list, _is_text, _is_bytes)
    return pa.types.is_null(have) or any(is_sort(have) and is_sort(want) for is_sort in sorts)


def fitted(name: str, column: Any) -> Any:
    """Return a column in the type it has in a trace. Raises ValueError that says what does not fit."""
    want = TYPES[name]
    if column.type == want:
        return column
    if not alike(column.type, want):
        raise ValueError(f"its column {name} is {column.type} and must be {want}")
    try:
        return column.cast(want)
    except pa.ArrowException as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"its column {name} is {column.type} and does not fit {want}: {reason[0]}") from error


def _is_text(of: Any) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def _is_bytes(of: Any) -> bool:
    return bool(pa.types.is_binary(of) or pa.types.is_large_binary(of))


MEMBERSHIP_SCHEMA: Final = pa.schema(
    [("run_id", _STRING), ("grp", _STRING), ("node", _INT), ("inc", _INT), ("from_ev", _LONG), ("to_ev", _LONG)]
)
"""`from_ev` is null for founders; `to_ev` is the leave or crash that ended it, null while it lasts."""


def run_directory_name(run_id: str) -> str:
    """Return what the directory of a run is called. Raises UsageError for a name that is not a plain file name."""
    if not re.fullmatch(r"[\w.+-]+", run_id, re.ASCII):
        raise UsageError(f"run_id may have letters, digits and . _ + - only, not {run_id!r}")
    return f"{RUN_PREFIX}{run_id}"


def claim_name(run_id: str) -> str:
    """Return the name of the file, beside a run's directory, that its only writer has locked. Raises UsageError."""
    return f".{run_directory_name(run_id)}.lock"


def run_directory(directory: Path, run_id: str) -> Path:
    """Return the directory of a run among the traces. Raises UsageError for a name that is not a plain file name."""
    return directory / run_directory_name(run_id)


def part(run: Path, kind: Kind, number: int) -> Path:
    """Return the file of the number-th rows of a kind."""
    return run / f"kind={kind.value}" / f"part-{number:05d}.parquet"


def parts(run: Path, kind: Kind) -> list[Path]:
    """List the finished files of a kind in order; names that begin with . or _ are unfinished or foreign."""
    return sorted(path for path in (run / f"kind={kind.value}").glob("*.parquet") if path.name[0] not in "._")


def unknown_kinds(run: Path) -> list[Path]:
    """List the directories of rows whose kind nobody knows, in order."""
    known = {f"kind={kind.value}" for kind in Kind}
    others = sorted(path for path in run.glob("kind=*") if path.name not in known)
    return [path for path in others if any(file.name[0] not in "._" for file in path.glob("*.parquet"))]


def put(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a name that readers skip, then move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    write(unfinished)
    unfinished.replace(path)
