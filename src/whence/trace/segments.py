"""Traces of live processes: rows go to a file before the bytes they describe leave the process.

A process killed at any point has then spooled everything that others can have seen of it. Each process writes its own
segments, `DIR/spool-<group>-<node>-<inc>-<number>.rows`: frames (wire/frame.py), each a batch of rows. The oldest
segments are removed over the bound, and rows that the disk does not accept are lost: the process goes on, and the
missing numbers show that the trace is incomplete. Missing last rows would not show, so the segment's head says it too,
which needs no space. A head also says which incarnation wrote here before, and how far its whole records went: segments
that are removed or cut later are missed. `gather` combines the segments of many processes into one run that every
reader of traces accepts.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from whence.errors import TraceError
from whence.trace.memory import Row
from whence.trace.schema import (
    COLUMNS_OF,
    DESTS,
    IDS,
    Kind,
)
from whence.wire.frame import HEADER_BYTES, FrameError, FrameReader, announced, find_frame, sealed

SEGMENT_BYTES = 32 << 20
SEGMENTS_MAX = 64
READ_BYTES = 64 << 10
"""The bytes of a segment read at once, unless a record is larger."""

ROWS_LOST, NO_TRACE, FORMER_MISSING = "rows_lost", "no_trace", "former_missing"
"""Why a gathered incarnation is incomplete; the last one: it goes on from an earlier one of which rows are missing."""

_KINDS = tuple(Kind)
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}
SCANNED_BYTES = 1 << 20
"""How far to search for whole records after one that is not."""
NAME = re.compile(r"spool-([0-9a-f]*)-(\d+)-(\d+)-(\d+)\.rows")


class SegmentBytes:
    """A segment that was read whole, from wherever it lies: what readers need of a path."""

    __slots__ = ("_content", "_where")

    def __init__(self, where: str, content: bytes) -> None:
        self._where, self._content = where, content

    def __str__(self) -> str:
        return self._where

    @property
    def name(self) -> str:
        """The name of its file."""
        return self._where.rpartition("/")[2]

    def open(self) -> BytesIO:
        """Return its bytes as a file."""
        return BytesIO(self._content)

    def size(self) -> int:
        """Return how many bytes there are."""
        return len(self._content)


Segment: TypeAlias = Path | SegmentBytes


class TraceSegmentWriter:
    """One process's rows of one group, on their way to disk."""

    def __init__(
        self, directory: Path, group: str, level: str, node: int, inc: int,
        segment_bytes: int = SEGMENT_BYTES, segments_max: int = SEGMENTS_MAX,
        on_lost: Callable[[int, TraceError], None] = lambda count, error: None, about: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Begin the first segment. Raises TraceError. `on_lost` is called with the number of rows that the disk did not
        accept, and why.

        `about` says how to judge the rows: whether processes remember (durable), the group's founders and settings.
        """
        self._directory = directory
        self._stem = f"spool-{group.encode().hex()}-{node}-{inc}"
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
        before = last_segment_before(directory, group, node, inc)
        self._about = {"group": group, "level": level, "node": node, "inc": inc, "before": before, **(about or {})}
        self._next_segment()

    def add(self, kind: Kind, row: Row) -> None:
        """Add a row; it is on file after the next flush."""
        self._rows.append((_NUMBER[kind], row))

    def flush(self) -> None:
        """Write the rows added so far; what cannot be written is lost."""
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
                        os.pwrite(self._file.fileno(), sealed(self._head()), 0)
            self._on_lost(len(rows), error)

    def rest(self) -> None:
        """Write what is left and close the file until more comes."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Write what is left, and accept nothing more."""
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
        """Return the first record of a segment; its size never depends on its content."""
        return self._encode({**self._about, "lost": self._lost})

    def _put(self, file: FileIO, size: int, record: bytes) -> int:
        """Append a record; return the new size. Raises TraceError; what was there stays."""
        frame = sealed(record)
        try:
            if file.write(frame) != len(frame):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with suppress(OSError):
                file.seek(size)
                file.truncate()
            raise TraceError(f"{self._directory} cannot be written: {error.strerror or error}") from error
        return size + len(frame)

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


def segments(directory: Path, group: str) -> list[Path]:
    """Return the segments of a group below a directory, those of each incarnation in order."""
    named = ((path, NAME.fullmatch(path.name)) for path in sorted(Path(directory).rglob("spool-*.rows")))
    return [path for path, found in named if found is not None and bytes.fromhex(found[1]).decode() == group]


def groups_of(names: Iterable[str]) -> list[str]:
    """Return the groups that left segments among files of some names."""
    named = map(NAME.fullmatch, names)
    return sorted({bytes.fromhex(found[1]).decode() for found in named if found is not None})


def node_of(path: Path) -> int:
    """Return whose rows a segment holds, which its name says. Raises TraceError for other files."""
    found = NAME.fullmatch(path.name)
    if found is None:
        raise TraceError(f"{path} is no trace segment: its name does not say whose it is")
    return int(found[2])


def last_segment_before(directory: Path, group: str, node: int, inc: int) -> tuple[int, int, int] | None:
    """Return the last segment that an earlier incarnation left in a directory: which one's, its number, and where its
    last whole record ends. None where there is none."""
    named = map(NAME.fullmatch, (path.name for path in directory.glob(f"spool-{group.encode().hex()}-{node}-*.rows")))
    found = max(((int(name[3]), int(name[4]), name[0]) for name in named if name and int(name[3]) < inc), default=None)
    if found is None:
        return None
    before, number, file = found
    try:
        return before, number, whole_until(directory / file, 0)
    except OSError:  # whoever can read it will say what it holds
        return before, number, 0


def whole_until(path: Segment, start: int) -> int:
    """Return where the last whole record of a segment ends; `start` is the end of an earlier one."""
    return start + sum(HEADER_BYTES + len(record) for record in _records(path, start, None))


def rows_between(path: Segment, start: int, end: int) -> Iterator[tuple[Kind, Row]]:
    """Return the rows of the whole records between two places of a segment, decoded on demand. Raises TraceError."""
    records = _records(path, start, end)
    if not start:
        next(records, None)
    return _rows(path, records)


def read_segment(path: Segment) -> tuple[dict[str, Any], Iterator[tuple[Kind, Row]]]:
    """Return a segment's head and its rows, decoded on demand; a torn tail is left out."""
    records = _records(path, 0, None)
    try:
        head = msgspec.msgpack.decode(next(records), type=dict[str, Any])
    except (StopIteration, msgspec.DecodeError) as error:
        raise TraceError(
            f"{path} is no trace segment: it does not begin with a whole record that says whose it is"
        ) from error
    return head, _rows(path, records)


class Ending(NamedTuple):
    """How a segment ends: where its last whole record does, whether anything follows, and whether that is damage."""

    whole: int
    is_torn: bool
    is_damaged: bool
    """Also of a segment that no other one follows."""


def ending_of(path: Segment) -> Ending:
    """Tell how a segment ends.

    Every write appends in one piece, so only the last record of the last segment can be incomplete. A record that is
    complete and wrong, or whole records after a wrong one, are damage.
    """
    size = _size(path)  # before reading: its process may still be writing
    end = whole_until(path, 0)
    if end >= size:
        return Ending(end, False, False)
    with _opened(path) as file:
        file.seek(end)
        rest = file.read(SCANNED_BYTES) or b""
    in_full = len(rest) >= HEADER_BYTES and 0 < announced(rest) <= len(rest) - HEADER_BYTES
    return Ending(end, True, in_full or find_frame(rest, 1) is not None)


def is_damaged(path: Segment, *, last: bool) -> bool:
    """Tell whether rows that were on file are gone: damage, or an incomplete record before another segment."""
    ending = ending_of(path)
    return ending.is_damaged or (ending.is_torn and not last)


def _opened(path: Segment) -> FileIO | BytesIO:
    return path.open("rb", buffering=0) if isinstance(path, Path) else path.open()


def _size(path: Segment) -> int:
    return path.stat().st_size if isinstance(path, Path) else path.size()


def _records(path: Segment, start: int, end: int | None) -> Iterator[memoryview]:
    """Yield the whole records between two places of a segment, each to be read before the next."""
    end = _size(path) if end is None else end
    with _opened(path) as file:
        file.seek(start)
        reader = FrameReader(end - start, READ_BYTES)  # do not trust a torn length beyond the end of the file
        with suppress(FrameError):
            while size := file.readinto(reader.space()[: end - start]):
                start += size
                yield from reader.cut(size)


def _rows(path: Segment, records: Iterable[memoryview]) -> Iterator[tuple[Kind, Row]]:
    try:
        for record in records:
            for number, row in msgspec.msgpack.decode(record):
                yield _KINDS[number], _row(_KINDS[number], row)
    except (IndexError, msgspec.DecodeError, TypeError, ValueError) as error:
        raise TraceError(f"{path} is no trace segment: {type(error).__name__}") from error


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
