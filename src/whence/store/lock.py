"""A directory that one process at a time may use."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from whence.errors import StorageError
from whence.store.log import make_directory


def locked(file: Path, what: str, rule: str) -> IO[bytes]:
    """Return a lock file, locked. The system releases it when this process ends, however it ends.

    `what` names the directory, and `rule` says what to do where another process has it. Raises StorageError.
    """
    path = file.parent
    try:
        make_directory(path)
        lock = os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
    except OSError as error:
        raise StorageError(f"{what} {path} cannot be used: {error.strerror or error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.truncate(0)
        lock.write(b"%d\n" % os.getpid())
    except BlockingIOError:
        holder = lock.read(32).decode(errors="replace").strip() or "unknown"
        lock.close()
        raise StorageError(f"{what} {path} is in use in process {holder} of this system; {rule}") from None
    except OSError as error:
        lock.close()
        raise StorageError(f"{what} {path} cannot be locked: {error.strerror or error}") from error
    return lock


@contextmanager
def locked_while(file: Path, what: str, rule: str) -> Iterator[None]:
    """Hold a lock file in a directory of anybody's within the block, and leave neither it nor an empty directory made
    for it; as `locked`. Raises StorageError."""
    was_there = file.parent.is_dir()
    with suppress(OSError):  # `locked` says what is wrong
        file.parent.mkdir(parents=True, exist_ok=True)
    lock = _still_there(file, what, rule)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        lock.close()
        if not was_there:
            with suppress(OSError):
                file.parent.rmdir()


def _still_there(file: Path, what: str, rule: str) -> IO[bytes]:
    """Return a lock file, locked, that others find in its place: not one that its owner was just removing."""
    while True:
        lock = locked(file, what, rule)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), file.stat()):
                return lock
        lock.close()
