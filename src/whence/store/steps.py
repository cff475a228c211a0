"""What the application was handed in all lives of a process: numbers that survive its death.

Law: what was written before the process was killed is read by its next life. The bytes are mapped memory of a file:
writing costs nothing, and the kernel keeps them when the process dies. When the machine dies, an older number may come
back; events are then handed out again, never left out.
"""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct as Layout

from whence.errors import StorageError

_COUNT = Layout("<Q")
_AT_TAKEN, _AT_TOLD, _AT_MESSAGES = 0, _COUNT.size, 2 * _COUNT.size

NODES_MAX = 64
"""Nodes whose messages are counted one by one, at levels that do."""

_BYTES = (2 + NODES_MAX) * _COUNT.size


class Steps:
    """Counters in a file, each written in one piece."""

    def __init__(self, path: Path) -> None:
        """Open or create it. Raises StorageError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(handle).st_size < _BYTES:
                    os.ftruncate(handle, _BYTES)
                self._map = mmap.mmap(handle, _BYTES)
            finally:
                os.close(handle)
        except OSError as error:
            raise StorageError(f"the counter {path} cannot be kept: {error.strerror or error}") from error
        (self.taken,) = _COUNT.unpack_from(self._map, _AT_TAKEN)
        """Events the application has taken."""
        (self.told,) = _COUNT.unpack_from(self._map, _AT_TOLD)
        """Publications the application was told of."""
        self.messages = [
            _COUNT.unpack_from(self._map, _AT_MESSAGES + node * _COUNT.size)[0] for node in range(NODES_MAX)
        ]
        """Messages of each node that the application has taken, where they are counted."""

    def take(self, events: int) -> None:
        """Count events that the application takes now."""
        self.taken += events
        _COUNT.pack_into(self._map, _AT_TAKEN, self.taken)

    def take_message(self, node: int) -> None:
        """Count a message of a node that the application takes now."""
        self._count_messages(node, self.messages[node] + 1)

    def catch_up(self, messages: Sequence[int]) -> None:
        """Learn that more messages were taken than is counted here: the machine died before they were."""
        for node, taken in enumerate(messages):
            if taken > self.messages[node]:
                self._count_messages(node, taken)

    def _count_messages(self, node: int, taken: int) -> None:
        self.messages[node] = taken
        _COUNT.pack_into(self._map, _AT_MESSAGES + node * _COUNT.size, taken)

    def tell(self) -> None:
        """Count a publication that the application is told of now."""
        self.told += 1
        _COUNT.pack_into(self._map, _AT_TOLD, self.told)

    def close(self) -> None:
        """Let the file go."""
        self._map.close()
