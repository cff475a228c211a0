"""An append-only journal in a file: one write and one sync commit everything that was appended before.

Law: a record is durable once `sync` returned without an error after its `append`; after a crash at any point, opening
the journal gives a prefix of what was appended, and at least all that was durable. Where that is impossible, because
something durable is damaged or gone, opening fails and changes nothing. A disk error (full, worn out, gone) is final:
nothing more is accepted, and nothing that is not durable is ever called durable. A failed sync is not tried again,
because the kernel may have dropped the pages it could not write.
Compaction writes the records that still count to a new file and atomically moves it over the old one; a journal is
created in the same way, so that there is never one without a head.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeAlias

from whence.errors import StorageError
from whence.store.journal import HEAD_BYTES, Damage, OtherFormat, head, read
from whence.store.owner import Owner, opening_in, opening_record, owner_in, owner_record
from whence.wire.frame import frame_start

log = logging.getLogger("whence.store")

WHAT_TO_DO = (
    "restore the whole data directory from a copy, or move it away and let this process come back as a new one, "
    "without what only it had"
)
"""Advice to an operator whose node's data directory can no longer be trusted."""

RECORD_BYTES_MAX = 1 << 24
"""A record over it is refused: it would have to be read into memory at once."""


Marked: TypeAlias = tuple[bytes, bytes]
"""A record in two pieces: what it begins with, and the rest."""

_PIECES_MAX = 1024
"""The most pieces that systems write in one call."""


class File(Protocol):
    """What the journal needs of a file. A test can hand in one that fails."""

    def read(self) -> bytes:
        """Return everything in it."""

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append all of them. Raises OSError."""

    def overwrite(self, first: bytes) -> None:
        """Overwrite the first bytes. Raises OSError."""

    def sync(self) -> None:
        """Make everything written durable. Raises OSError."""

    def truncate(self, size: int) -> None:
        """Cut off everything after `size` bytes. Raises OSError."""

    def close(self) -> None:
        """Close it."""


class DiskFile:
    """A file on a real disk."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.lseek(self._fd, 0, os.SEEK_END)

    def read(self) -> bytes:
        """Return everything in it."""
        size = os.fstat(self._fd).st_size
        pieces, at = [], 0
        while at < size:
            piece = os.pread(self._fd, size - at, at)
            if not piece:
                break
            pieces.append(piece)
            at += len(piece)
        return b"".join(pieces)

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append all of them. Raises OSError."""
        for start in range(0, len(pieces), _PIECES_MAX):
            together = pieces[start : start + _PIECES_MAX]
            written = os.writev(self._fd, together)
            if written < sum(map(len, together)):
                view = memoryview(b"".join(together))[written:]
                while view:
                    view = view[os.write(self._fd, view) :]

    def overwrite(self, first: bytes) -> None:
        """Overwrite the first bytes. Raises OSError."""
        os.pwrite(self._fd, first, 0)

    def sync(self) -> None:
        """Make everything written durable. Raises OSError."""
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        """Cut off everything after `size` bytes. Raises OSError."""
        os.ftruncate(self._fd, size)
        os.lseek(self._fd, size, os.SEEK_SET)
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Log:
    """A journal on disk. Not for two threads at once; `append` may run while `sync` runs in another."""

    def __init__(self, path: Path, file: File | None = None, owner: Owner | None = None) -> None:
        """Open or create it, and cut off a torn tail. Raises StorageError, also where it is damaged.

        With an `owner` it says whose it is, and another's is refused; its own records are the rest.
        """
        self.path = path
        self._owner = [] if owner is None else [owner_record(owner)]
        self.opened = 0
        """How often the group was opened; 0 where an earlier version wrote the journal."""
        self.syncs = 0
        self._pending: list[bytes] = []
        """Two pieces for each record: what it begins with, and the rest."""
        self._failure: str | None = None
        try:
            make_directory(path.parent)
            _unfinished(path).unlink(missing_ok=True)
            if not path.exists():
                _put_in_place(path, _framed((b"", record) for record in self._owner)).close()
                sync_directory(path.parent)
            self._file: File = file if file is not None else DiskFile(path)
            self._recover(self._file.read(), owner)
        except OSError as error:
            raise StorageError(f"the journal {path} cannot be opened: {error.strerror or error}") from error
        if owner is not None and not self._is_owned:
            self.append(self._owner)
            self.sync()

    def _recover(self, data: bytes, owner: Owner | None) -> None:
        try:
            self.records, self.size, synced = read(data)
        except Damage as damage:
            self._file.close()
            raise StorageError(
                f"the journal {self.path} is damaged {damage}; nothing was changed: {WHAT_TO_DO}"
            ) from None
        except OtherFormat as other:
            self._file.close()
            raise StorageError(
                f"the journal {self.path} {other}; nothing was changed: use the version that wrote it, or move the "
                "data directory away and let this process come back as a new one, without what only it had"
            ) from None
        found = [owner_in(record) for record in self.records]
        self.records = [record for record, whose in zip(self.records, found, strict=True) if whose is None]
        openings = [opening_in(record) for record in self.records]
        self.records = [record for record, number in zip(self.records, openings, strict=True) if number is None]
        self.opened = max([number for number in openings if number is not None], default=0)
        owners = [whose for whose in found if whose is not None]
        self._is_owned = bool(owners)
        if why := next(filter(None, map(owner.refuses, owners)), "") if owner is not None else "":
            self._file.close()
            raise StorageError(f"the journal {self.path} {why}; nothing was changed: {WHAT_TO_DO}")
        if self.size < len(data):
            log.warning(
                "the journal %s had a torn tail, which was never durable: cut off %d bytes after byte %d",
                self.path, len(data) - self.size, self.size,
            )  # fmt: skip
            self._file.truncate(self.size)
        if synced < self.size:  # written and perhaps not durable: it counts from now on
            self._file.sync()
            self._file.overwrite(head(self.size))

    def note_opened(self, number: int) -> None:
        """Note how often the group was opened, durably. Raises StorageError."""
        self.opened = number
        self.append([opening_record(number)])
        self.sync()

    def append(self, records: Iterable[bytes], mark: bytes = b"") -> None:
        """Accept records in order, each prefixed with the mark; not durable yet. Raises StorageError.

        Raises LimitError for a record that is empty, mark included: it cannot be told from a disk's zeros.
        """
        self._check()
        for record in records:
            if len(record) > RECORD_BYTES_MAX:
                raise StorageError(f"a record of {len(record)} bytes is over the limit of {RECORD_BYTES_MAX}")
            self._pending += (frame_start(mark, record), record)

    def sync(self) -> None:
        """Make everything appended so far durable. Raises StorageError, on this and every later call, if the disk
        refuses."""
        self._check()
        pieces = self._pending[:]
        if not pieces:
            return
        try:
            self._file.write(pieces)
            self._file.sync()
            size = self.size + sum(map(len, pieces))
            self._file.overwrite(head(size))
        except OSError as error:
            self._failure = f"the journal {self.path} failed: {error.strerror or error}"
            raise StorageError(self._failure) from error
        del self._pending[: len(pieces)]
        self.size = size
        self.syncs += 1

    @property
    def pending(self) -> int:
        """Return the number of appended records that are not durable."""
        return len(self._pending) // 2

    def rewrite(self, records: Iterable[Marked], pending: int | None = None) -> None:
        """Replace everything by these records, atomically: also the first `pending` records that are not durable, by
        default all.

        Raises StorageError; then the old journal still counts and what was pending still is, or nothing more is
        accepted.
        """
        self._check()
        pending = self.pending if pending is None else pending
        opening = [opening_record(self.opened)] if self.opened else []
        pieces = _framed(chain(((b"", record) for record in (*self._owner, *opening)), records))
        try:
            file = _put_in_place(self.path, pieces)
        except OSError as error:
            raise StorageError(f"the journal {self.path} cannot be rewritten: {error.strerror or error}") from error
        self._file.close()
        self._file, self.size = file, HEAD_BYTES + sum(map(len, pieces))
        try:
            sync_directory(self.path.parent)
        except OSError as error:  # which of the two files a crash would leave is unknown
            self._failure = f"the journal {self.path} failed: {error.strerror or error}"
            raise StorageError(self._failure) from error
        del self._pending[: 2 * pending]

    def close(self) -> None:
        """Close the file; what was not synced may be lost."""
        self._failure = self._failure or f"the journal {self.path} is closed"
        self._file.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise StorageError(self._failure)


def sync_directory(directory: Path) -> None:
    """Make names in a directory durable. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(directory: Path) -> None:
    """Make a directory, and those above it, that only this user may read. Raises OSError."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _put_in_place(path: Path, pieces: Sequence[bytes]) -> DiskFile:
    """Write a journal beside its place, then move it there; return it open. Raises OSError; then nothing has changed.

    The directory is not synced yet.
    """
    fresh = _unfinished(path)
    fresh.unlink(missing_ok=True)
    file = DiskFile(fresh)
    try:
        file.write([head(HEAD_BYTES + sum(map(len, pieces))), *pieces])
        file.sync()
        fresh.replace(path)
    except OSError:
        file.close()
        fresh.unlink(missing_ok=True)
        raise
    return file


def _framed(records: Iterable[Marked]) -> list[bytes]:
    """Return the pieces that records take in a file."""
    return [piece for mark, rest in records for piece in (frame_start(mark, rest), rest)]


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")
