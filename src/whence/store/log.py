"""An append-only journal in a file: one write and one sync commit everything that was appended before.

Law: a record is durable once `sync` returned without an error after its `append`; after a crash at any point, opening
the journal gives a prefix of what was appended, and at least all that was durable. An error of the disk (full, worn
out, gone) is final: nothing more is taken, and nothing that was not durable is ever called so. A sync that failed is
not tried again, because the kernel may have dropped the pages it could not write.
Compaction writes the records that still count to a new file and moves it over the old one in one step.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from whence.errors import StorageError
from whence.store.journal import begun, recovered

RECORD_BYTES_MAX = 1 << 24
"""A record over it is refused: it would have to be read into memory at once."""


Marked: TypeAlias = tuple[bytes, bytes]
"""A record in two pieces: what it begins with, and the rest."""

_PIECES_MAX = 1024
"""Pieces that systems write in one call."""


class File(Protocol):
    """What the journal needs of a file. A test can hand in one that fails."""

    def read(self) -> bytes:
        """Return everything in it."""

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append all of them. Raises OSError."""

    def sync(self) -> None:
        """Make everything written durable. Raises OSError."""

    def truncate(self, size: int) -> None:
        """Cut everything after `size` bytes off. Raises OSError."""

    def close(self) -> None:
        """Close it."""


class DiskFile:
    """A file on a real disk."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

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

    def sync(self) -> None:
        """Make everything written durable. Raises OSError."""
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        """Cut everything after `size` bytes off. Raises OSError."""
        os.ftruncate(self._fd, size)
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Log:
    """A journal on disk. Not for two threads at once; `append` may run while `sync` runs in another."""

    def __init__(self, path: Path, file: File | None = None) -> None:
        """Open or create it, and cut off a torn tail. Raises StorageError."""
        self.path = path
        self.syncs = 0
        self._pending: list[bytes] = []
        """Two pieces for each record: what it begins with, and the rest."""
        self._failure: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _unfinished(path).unlink(missing_ok=True)
            created = not path.exists()
            self._file: File = file if file is not None else DiskFile(path)
            data = self._file.read()
            self.records, self.size = recovered(data)
            if self.size < len(data):
                self._file.truncate(self.size)
            if created:
                sync_directory(path.parent)
        except OSError as error:
            raise StorageError(f"the journal {path} cannot be opened: {error.strerror or error}") from error

    def append(self, records: Iterable[bytes], mark: bytes = b"") -> None:
        """Take records in order, with a mark at the beginning of each; not durable yet. Raises StorageError."""
        self._check()
        for record in records:
            if len(record) > RECORD_BYTES_MAX:
                raise StorageError(f"a record of {len(record)} bytes is over the limit of {RECORD_BYTES_MAX}")
            self._pending += (begun(mark, record), record)

    def sync(self) -> None:
        """Make everything appended so far durable. Raises StorageError, now and ever after, if the disk refuses."""
        self._check()
        pieces = self._pending[:]
        if not pieces:
            return
        try:
            self._file.write(pieces)
            self._file.sync()
        except OSError as error:
            self._failure = f"the journal {self.path} failed: {error.strerror or error}"
            raise StorageError(self._failure) from error
        del self._pending[: len(pieces)]
        self.size += sum(map(len, pieces))
        self.syncs += 1

    @property
    def pending(self) -> int:
        """Return how many appended records are not durable."""
        return len(self._pending) // 2

    def rewrite(self, records: Iterable[Marked], pending: int | None = None) -> None:
        """Replace everything by these records, in one step: also the first `pending` that are not durable, else all.

        Raises StorageError; then the old journal still counts, and what was pending still is.
        """
        self._check()
        pending = self.pending if pending is None else pending
        fresh = _unfinished(self.path)
        pieces = [piece for mark, rest in records for piece in (begun(mark, rest), rest)]
        try:
            fresh.unlink(missing_ok=True)
            file = DiskFile(fresh)
            try:
                file.write(pieces)
                file.sync()
            except OSError:
                file.close()
                fresh.unlink(missing_ok=True)
                raise
            fresh.replace(self.path)
            sync_directory(self.path.parent)
        except OSError as error:
            raise StorageError(f"the journal {self.path} cannot be rewritten: {error.strerror or error}") from error
        self._file.close()
        self._file, self.size = file, sum(map(len, pieces))
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


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")
