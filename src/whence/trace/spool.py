"""Traces of live processes: rows go to a file before the bytes they tell of leave the process.

A process killed at any point has then spooled everything that others can have seen of it. Each process writes its own
segments, `DIR/spool-<group>-<node>-<inc>-<number>.rows`: records as in the journal, each a batch of rows. The oldest
segments are removed over the bound, and rows that the disk does not take are lost: the process goes on, and the missing
numbers show that the trace is incomplete. The last rows would not be missed, so the segment's head says it too, which
needs no room. `gather` puts the spools of many processes together into one run that every reader of traces takes.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from struct import Struct as Layout
from typing import Any, Literal
from zlib import crc32

import msgspec

from whence.errors import TraceError
from whence.trace.memory import Row, Run, Trace
from whence.trace.schema import (
    ACK_MANUAL,
    COLUMNS_OF,
    DESTS,
    EV,
    GRP,
    IDS,
    INC,
    M_PID,
    M_SEQ,
    NODE,
    REASON,
    T_CLK,
    T_TRUE,
    VALUE,
    WHO,
    Kind,
)

SEGMENT_BYTES = 32 << 20
SEGMENTS_MAX = 64

ROWS_LOST, NO_TRACE = "rows_lost", "no_trace"
"""Why a gathered life is incomplete."""

_HEADER = Layout("<II")
_KINDS = tuple(Kind)
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}
_AT_REASON = COLUMNS_OF[Kind.NOTE].index(REASON)
_EVENT = slice(COLUMNS_OF[Kind.PUBLISH].index(M_PID), COLUMNS_OF[Kind.PUBLISH].index(M_SEQ) + 1)
_PUBLISHER = slice(COLUMNS_OF[Kind.DELIVER].index(M_PID), COLUMNS_OF[Kind.DELIVER].index(M_SEQ))
_AT_T_CLK, _AT_T_TRUE = WHO.index(T_CLK), WHO.index(T_TRUE)
_NAME = re.compile(r"spool-([0-9a-f]*)-(\d+)-(\d+)-(\d+)\.rows")


class Spool:
    """One process's rows of one group, on their way to disk."""

    def __init__(
        self, directory: Path, group: str, level: str, node: int, inc: int,
        segment_bytes: int = SEGMENT_BYTES, segments_max: int = SEGMENTS_MAX,
        on_lost: Callable[[int, TraceError], None] = lambda count, error: None,
    ) -> None:  # fmt: skip
        """Begin the first segment. Raises TraceError. `on_lost` hears how many rows the disk did not take, and why."""
        self._directory = directory
        self._stem = f"spool-{group.encode().hex()}-{node}-{inc}"
        self._about = {"group": group, "level": level, "node": node, "inc": inc}
        self._lost = False
        self._segment_bytes, self._segments_max = segment_bytes, segments_max
        self._encode = msgspec.msgpack.Encoder().encode
        self._rows: list[tuple[int, Row]] = []
        self._on_lost = on_lost
        self._number = -1
        self._file: FileIO | None = None
        self._closed = False
        self._size = 0
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise TraceError(f"{directory} cannot be written: {error.strerror or error}") from error
        self._next_segment()

    def add(self, kind: Kind, row: Row) -> None:
        """Take a row; it is on file after the next flush."""
        self._rows.append((_NUMBER[kind], row))

    def flush(self) -> None:
        """Write the rows taken so far; what cannot be written is lost."""
        if not self._rows or self._closed:
            return
        rows, self._rows = self._rows, []
        try:
            if self._file is None:
                self._file = self._open(self._number, "r+b")
                self._file.seek(self._size)
            if self._size >= self._segment_bytes:
                self._next_segment()
            self._size = self._put(self._file, self._size, self._encode(rows))
        except TraceError as error:
            if not self._lost:
                self._lost = True
                if self._file is not None:
                    with suppress(OSError):
                        os.pwrite(self._file.fileno(), _framed(self._head()), 0)
            self._on_lost(len(rows), error)

    def rest(self) -> None:
        """Write what is left and let the file go until more comes."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Write what is left, and nothing after it."""
        self.rest()
        self._closed = True

    def _open(self, number: int, mode: Literal["wb", "r+b"]) -> FileIO:
        """Open a segment, which only this user may read. Raises TraceError."""
        path = self._directory / f"{self._stem}-{number:06d}.rows"
        try:
            path.touch(mode=0o600)
            return path.open(mode, buffering=0)
        except OSError as error:
            raise TraceError(f"{path} cannot be written: {error.strerror or error}") from error

    def _head(self) -> bytes:
        """Return the first record of a segment; it has the same size whatever it says."""
        return self._encode({**self._about, "lost": self._lost})

    def _put(self, file: FileIO, size: int, record: bytes) -> int:
        """Write a record behind what is there; return the new size. Raises TraceError, and what was there stays."""
        framed = _framed(record)
        try:
            if file.write(framed) != len(framed):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with suppress(OSError):
                file.seek(size)
                file.truncate()
            raise TraceError(f"{self._directory} cannot be written: {error.strerror or error}") from error
        return size + len(framed)

    def _next_segment(self) -> None:
        """Begin another segment; where that fails, the present one stays. Raises TraceError."""
        file = self._open(self._number + 1, "wb")
        try:
            self._size = self._put(file, 0, self._head())
        except TraceError:
            file.close()
            (self._directory / f"{self._stem}-{self._number + 1:06d}.rows").unlink(missing_ok=True)
            raise
        if self._file is not None:
            self._file.close()
        self._file = file
        self._number += 1
        gone = self._number - self._segments_max
        if gone >= 0:
            (self._directory / f"{self._stem}-{gone:06d}.rows").unlink(missing_ok=True)


def _framed(record: bytes) -> bytes:
    return _HEADER.pack(len(record), crc32(record)) + record


def gather(
    directories: Iterable[Path], group: str, run_id: str, version: str, *, one_clock: bool = False, **about: Any
) -> Trace:
    """Put the spools of a group's processes together into one trace. Raises TraceError.

    A life that neither left nor was followed by an orderly end gets a crash row when a later life of its node exists.
    One that lost rows ends with a note whose number is too high, so that every reader finds the trace incomplete; one
    whose events were delivered and that left no spool consists of such a note.
    `one_clock`: all processes ran on one machine, whose clock is true time for all of them.
    """
    files = sorted(path for directory in directories for path in Path(directory).rglob("spool-*.rows"))
    level = ""
    lives: dict[tuple[int, int], list[tuple[Kind, Row]]] = {}
    lost: dict[tuple[int, int], None] = {}
    for path in files:
        found = _NAME.fullmatch(path.name)
        if found is None or bytes.fromhex(found[1]).decode() != group:
            continue
        head, rows = _read(path)
        level = head["level"]
        life = (int(found[2]), int(found[3]))
        lives.setdefault(life, []).extend(rows)
        if head.get("lost"):
            lost[life] = None
    if not lives:
        raise TraceError(f"no spool of group {group!r} was found; give the directories that live nodes wrote traces to")
    for life, at in sorted(_untraced(lives).items()):
        lives[life] = [(Kind.NOTE, _ending(Kind.NOTE, *life, [], group, NO_TRACE, missing=1, at=at))]
    nodes = sorted({node for node, _ in lives})
    described: dict[str, Any] = {"seed": 0, "groups": {group: []}, **about}
    run = Run(run_id=run_id, version=version, level=level, nodes=nodes, **described)
    trace = Trace(run)
    _void(lives)
    for (node, inc), entries in sorted(lives.items()):
        if (node, inc) in lost:
            entries.append((Kind.NOTE, _ending(Kind.NOTE, node, inc, entries, group, ROWS_LOST, missing=1)))
        followed = any(other == node and later > inc for other, later in lives)
        if followed and not any(kind is Kind.LEAVE for kind, _ in entries):
            entries.append((Kind.CRASH, _ending(Kind.CRASH, node, inc, entries, group, "killed")))
        for kind, row in entries:
            trace.rows[kind].append((*row[:_AT_T_TRUE], row[_AT_T_CLK], *row[_AT_T_TRUE + 1 :]) if one_clock else row)
    return trace


def _untraced(lives: dict[tuple[int, int], list[tuple[Kind, Row]]]) -> dict[tuple[int, int], int]:
    """Return the lives that published something and have no row, and a moment when somebody delivered it."""
    delivered = (row for rows in lives.values() for kind, row in rows if kind is Kind.DELIVER)
    publishers = {row[_PUBLISHER]: row[_AT_T_CLK] for row in delivered}
    return {(pid, inc): at for (pid, inc), at in publishers.items() if (pid, inc) not in lives}


def _void(lives: dict[tuple[int, int], list[tuple[Kind, Row]]]) -> None:
    """Turn rows of what the application did not keep into notes: what it had in hand at a crash, repeated tellings.

    A restart says how many events the application had taken. What it had in hand beyond that when its process died is
    owed again, and counts when it is handed out then. Only an event, or a batch, can have been in hand, unless the
    application acknowledges by itself: whatever else comes again is a second delivery. A publication told of in the
    very moment of a crash is told of again.
    """
    published: set[tuple[Any, ...]] = set()
    for node in sorted({node for node, _ in lives}):
        handed: list[tuple[list[tuple[Kind, Row]], int]] = []
        """The rows of what the node was handed so far, in the order in which it was taken."""
        manual = False
        for life in sorted(life for life in lives if life[0] == node):
            rows = lives[life]
            taken = _taken(rows)
            if taken is not None:
                for where, at in _in_hand(handed[taken:], manual=manual):
                    where[at] = _noted(*where[at], "untaken")
                del handed[taken:]
            manual = any(kind is Kind.NOTE and row[_AT_REASON] == ACK_MANUAL for kind, row in rows)
            handed += [(rows, at) for at, (kind, _) in enumerate(rows) if kind is Kind.DELIVER]
            for at, (kind, row) in enumerate(rows):
                if kind is Kind.PUBLISH:
                    if row[_EVENT] in published and taken is not None:
                        rows[at] = _noted(kind, row, "told_again")
                    published.add(row[_EVENT])


def _in_hand(
    untaken: list[tuple[list[tuple[Kind, Row]], int]], *, manual: bool
) -> list[tuple[list[tuple[Kind, Row]], int]]:
    """Return which of the last events that an application was handed and did not take it can have had in hand: all, or
    the last ones that are of one batch."""
    events = [rows[at][1][_EVENT] for rows, at in untaken]
    first = max(0, len(events) - 1)
    while first > 0 and events[first - 1] == (*events[first][:2], events[first][2] - 1):
        first -= 1
    return untaken if manual else untaken[first:]


def _taken(rows: list[tuple[Kind, Row]]) -> int | None:
    """Return what a life's restart says that the application had taken before."""
    at = COLUMNS_OF[Kind.RESTART].index(VALUE)
    return next((row[at] for kind, row in rows if kind is Kind.RESTART), None)


def _noted(kind: Kind, row: Row, reason: str) -> tuple[Kind, Row]:
    given = dict(zip(COLUMNS_OF[kind], row, strict=True)) | {REASON: reason}
    return Kind.NOTE, tuple(given.get(name) for name in COLUMNS_OF[Kind.NOTE])


def _ending(
    kind: Kind, node: int, inc: int, entries: list[tuple[Kind, Row]], group: str, reason: str, missing: int = 0,
    at: int = 0,
) -> Row:  # fmt: skip
    """Return a row that follows all others of a life, and some that are missing; `at` a time if it is the only one."""
    last = max((row[2] for _, row in entries), default=-1)
    clock = max((row[3] for _, row in entries), default=at)
    given = {NODE: node, INC: inc, EV: last + missing + 1, T_CLK: clock, GRP: group, REASON: reason}
    return tuple(given.get(name) for name in COLUMNS_OF[kind])


def segments(directory: Path, group: str) -> list[Path]:
    """Return the segments of a group's spools below a directory, each life's in order."""
    named = ((path, _NAME.fullmatch(path.name)) for path in sorted(Path(directory).rglob("spool-*.rows")))
    return [path for path, found in named if found is not None and bytes.fromhex(found[1]).decode() == group]


def whole_until(path: Path, start: int) -> int:
    """Return where the last whole record of a segment ends, looking from a place where one does."""
    return start + sum(_HEADER.size + len(record) for record in _records(path, start, None))


def rows_between(path: Path, start: int, end: int) -> list[tuple[Kind, Row]]:
    """Return the rows of the whole records between two places of a segment. Raises TraceError."""
    records = _records(path, start, end)
    return _rows(path, records if start else records[1:])


def _read(path: Path) -> tuple[dict[str, Any], list[tuple[Kind, Row]]]:
    """Return a segment's head and rows; a torn tail is left out."""
    records = _records(path, 0, None)
    try:
        head = msgspec.msgpack.decode(records[0])
    except (IndexError, msgspec.DecodeError) as error:
        raise TraceError(f"{path} is no spool: {type(error).__name__}") from error
    return head, _rows(path, records[1:])


def _records(path: Path, start: int, end: int | None) -> list[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(-1 if end is None else end - start)
    records, at = [], 0
    while len(data) - at >= _HEADER.size:
        length, checksum = _HEADER.unpack_from(data, at)
        record = data[at + _HEADER.size : at + _HEADER.size + length]
        if len(record) != length or crc32(record) != checksum:
            break
        records.append(record)
        at += _HEADER.size + length
    return records


def _rows(path: Path, records: list[bytes]) -> list[tuple[Kind, Row]]:
    try:
        return [
            (_KINDS[number], _row(_KINDS[number], row))
            for record in records
            for number, row in msgspec.msgpack.decode(record)
        ]
    except (IndexError, msgspec.DecodeError, TypeError, ValueError) as error:
        raise TraceError(f"{path} is no spool: {type(error).__name__}") from error


def _row(kind: Kind, values: list[Any]) -> Row:
    """Return a row in the form that rows in memory have."""
    columns = COLUMNS_OF[kind]
    if len(values) != len(columns):
        raise ValueError("a row has other columns")
    for name in (DESTS, IDS):
        if name in columns and values[columns.index(name)] is not None:
            inner = values[columns.index(name)]
            values[columns.index(name)] = tuple(tuple(v) if isinstance(v, list) else v for v in inner)
    return tuple(values)
