"""What the application was handed in all lives of a process: numbers that survive its death.

Law: what was written before the process was killed is read by its next life. The bytes are mapped memory of a file:
writing costs nothing, and the kernel keeps them when the process dies. When the machine dies, an older number may come
back; events are then handed out again, never left out.

Each number is written in one piece, and a process may be killed between any two. Where messages are counted by node,
the events of all of them are a second number that must agree: it is written first, to one of two places, and the sum of
the messages tells by its parity which of the two counts.
"""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct as Layout

from whence.errors import StorageError
from whence.limits import CLOCK_NODES_MAX

_COUNT = Layout("<Q")
_TAKEN, _TOLD, _TAKEN_BY_PARITY, _MESSAGES = 0, 1, 2, 4
"""The places of the numbers."""
_PLACES = _MESSAGES + CLOCK_NODES_MAX


class Steps:
    """Counters in a file, each written in one piece."""

    def __init__(self, path: Path) -> None:
        """Open or create it. Raises StorageError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(handle).st_size < _PLACES * _COUNT.size:
                    os.ftruncate(handle, _PLACES * _COUNT.size)
                self._map = mmap.mmap(handle, _PLACES * _COUNT.size)
            finally:
                os.close(handle)
        except OSError as error:
            raise StorageError(f"the counter {path} cannot be kept: {error.strerror or error}") from error
        self.messages = [self._get(_MESSAGES + node) for node in range(CLOCK_NODES_MAX)]
        """Messages of each node that the application has taken, where they are counted."""
        self._sum = sum(self.messages)
        self.taken = self._get(_TAKEN_BY_PARITY + self._sum % 2 if self._sum else _TAKEN)
        """Events the application has taken."""
        self.told = self._get(_TOLD)
        """Publications the application was told of."""

    def take(self, events: int, node: int | None = None) -> None:
        """Count events that the application takes now; `node`: as one message of that node."""
        self.taken += events
        if node is None:
            self._put(_TAKEN, self.taken)
            return
        self._sum += 1
        self._put(_TAKEN_BY_PARITY + self._sum % 2, self.taken)
        self.messages[node] += 1
        self._put(_MESSAGES + node, self.messages[node])

    def catch_up(self, messages: Sequence[int]) -> None:
        """Learn that more messages were taken than are counted here: the machine died before they were."""
        behind = [node for node, taken in enumerate(messages) if taken > self.messages[node]]
        for place in (0, 1) if behind else ():
            self._put(_TAKEN_BY_PARITY + place, self.taken)
        for node in behind:
            self.messages[node] = messages[node]
            self._put(_MESSAGES + node, messages[node])
        self._sum = sum(self.messages)

    def tell(self) -> None:
        """Count a publication that the application is told of now."""
        self.told += 1
        self._put(_TOLD, self.told)

    def close(self) -> None:
        """Let the file go."""
        self._map.close()

    def _get(self, place: int) -> int:
        number: int = _COUNT.unpack_from(self._map, place * _COUNT.size)[0]
        return number

    def _put(self, place: int, number: int) -> None:
        _COUNT.pack_into(self._map, place * _COUNT.size, number)
