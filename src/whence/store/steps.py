"""What the application was handed in all lives of a process: two numbers that survive its death.

Law: what was written before the process was killed is read by its next life. The bytes are mapped memory of a file:
writing costs nothing, and the kernel keeps them when the process dies. When the machine dies, an older number may come
back; events are then handed out again, never left out.
"""

import mmap
import os
from pathlib import Path
from struct import Struct as Layout

from whence.errors import StorageError

_COUNT = Layout("<Q")
_AT_TAKEN, _AT_TOLD = 0, _COUNT.size


class Steps:
    """Two counters in a file, each written in one piece."""

    def __init__(self, path: Path) -> None:
        """Open or create it. Raises StorageError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(handle).st_size < 2 * _COUNT.size:
                    os.ftruncate(handle, 2 * _COUNT.size)
                self._map = mmap.mmap(handle, 2 * _COUNT.size)
            finally:
                os.close(handle)
        except OSError as error:
            raise StorageError(f"the counter {path} cannot be kept: {error.strerror or error}") from error
        (self.taken,) = _COUNT.unpack_from(self._map, _AT_TAKEN)
        """Events the application has taken."""
        (self.told,) = _COUNT.unpack_from(self._map, _AT_TOLD)
        """Publications the application was told of."""

    def take(self, events: int) -> None:
        """Count events that the application takes now."""
        self.taken += events
        _COUNT.pack_into(self._map, _AT_TAKEN, self.taken)

    def tell(self) -> None:
        """Count a publication that the application is told of now."""
        self.told += 1
        _COUNT.pack_into(self._map, _AT_TOLD, self.told)

    def close(self) -> None:
        """Let the file go."""
        self._map.close()
