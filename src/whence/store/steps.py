"""How many steps the application was handed in all lives of a process: eight bytes that survive its death.

Law: what was written before the process was killed is read by its next life. The bytes are mapped memory of a file:
writing costs nothing, and the kernel keeps them when the process dies. When the machine dies, an older number may come
back; steps are then handed out again, never left out.
"""

import mmap
import os
from pathlib import Path
from struct import Struct as Layout

from whence.errors import StorageError

_COUNT = Layout("<Q")


class Steps:
    """A counter in a file."""

    def __init__(self, path: Path) -> None:
        """Open or create it. Raises StorageError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(handle).st_size < _COUNT.size:
                    os.ftruncate(handle, _COUNT.size)
                self._map = mmap.mmap(handle, _COUNT.size)
            finally:
                os.close(handle)
        except OSError as error:
            raise StorageError(f"the counter {path} cannot be kept: {error.strerror or error}") from error
        (self.count,) = _COUNT.unpack_from(self._map)

    def add(self, steps: int) -> None:
        """Count further steps."""
        self.count += steps
        _COUNT.pack_into(self._map, 0, self.count)

    def close(self) -> None:
        """Let the file go."""
        self._map.close()
