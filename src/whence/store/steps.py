"""How far the application is, in all lives of a process: numbers that survive its death.

Law: what was written before the process was killed is read by its next life. The bytes are mapped memory of a file:
writing costs nothing, and the kernel keeps them when the process dies. When the machine dies, an older number may come
back; events are then handed out again, never left out. The file has its room on the disk before it is mapped: a disk
that is full refuses it, instead of ending the process when a page is written.

Each number is written in one piece, and a process may be killed between any two: one write makes a step count. Where
steps are counted by node, a node's word says how many of its messages were taken, how many events of its next one, and
has a bit that changes whenever it is written. The events of all nodes together are a second number that must agree: it
is written first, to one of two places, and the bits of all words together tell which of the two counts.
"""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from whence.errors import StorageError
from whence.limits import BUNDLE_EVENTS_MAX, CLOCK_NODES_MAX

_TAKEN, _TOLD, _TAKEN_BY_BIT, _WORDS = 0, 1, 2, 4
_HANDED, _FORMAT = _WORDS + CLOCK_NODES_MAX, _WORDS + CLOCK_NODES_MAX + 1
"""The places of the numbers."""
_PLACES = _FORMAT + 1
_BYTES = 8 * _PLACES

_FORMAT_NOW = 2
_FORMER_BYTES = 8 * _HANDED
"""A file of the first format has no more: it counts whole messages, and the parity of their sum tells which counts."""

_EVENT_BITS = 16
_MESSAGE = 1 << _EVENT_BITS + 1
assert BUNDLE_EVENTS_MAX < 1 << _EVENT_BITS


class Steps:
    """Numbers in some memory, each written in one piece."""

    def __init__(self, memory: "bytearray | mmap.mmap") -> None:
        """Read them; `memory` has Steps.BYTES bytes, all zero at first."""
        self._memory = memory
        self.closed = False
        self._places = memoryview(memory).cast("Q")
        self._places[_FORMAT] = _FORMAT_NOW
        self._words = list(self._places[_WORDS:_HANDED])
        self._bit = sum(self._words) & 1
        self.messages = [word // _MESSAGE for word in self._words]
        """Messages of each node that the application has taken, where they are counted."""
        self.begun = [word % _MESSAGE >> 1 for word in self._words]
        """Events of each node's next message that it has taken."""
        self.taken = self._places[_TAKEN_BY_BIT + self._bit if any(self._words) else _TAKEN]
        """Events the application has taken."""
        self.told = self._places[_TOLD]
        """Publications the application was told of."""
        hand = self._places[_HANDED]
        self.handed, self.handed_of = max(self.taken, hand & (1 << 48) - 1), hand >> 48
        """Events it was handed, and the node of those it has not taken."""

    BYTES = _BYTES

    @classmethod
    def at(cls, path: Path) -> "Steps":
        """Open or create them in a file. Raises StorageError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _convert(path)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(handle, 0, _BYTES)
                return cls(mmap.mmap(handle, _BYTES))
            finally:
                os.close(handle)
        except OSError as error:
            raise StorageError(
                f"the counter {path} cannot be kept: {error.strerror or error}; make room, or give another directory"
            ) from error

    def take(self, events: int) -> None:
        """Count events that the application has taken, in the order it was handed them."""
        self.taken += events
        self._places[_TAKEN] = self.taken

    def take_of(self, node: int, events: int, *, whole: bool) -> None:
        """Count events of a node's next message; `whole`: they are the last of it."""
        self.taken += events
        self._bit ^= 1
        self._places[_TAKEN_BY_BIT + self._bit] = self.taken
        if whole:
            self.messages[node] += 1
            self.begun[node] = 0
        else:
            self.begun[node] += events
        self._write_word(node, self._words[node] & 1 ^ 1)

    def hand(self, handed: int, node: int) -> None:
        """Note how many events the application was handed in all, and of which node those are that it has not taken."""
        self.handed = handed
        self._places[_HANDED] = node << 48 | handed

    def catch_up(self, messages: Sequence[int]) -> None:
        """Learn that more messages were taken than are counted here: the machine died before they were."""
        behind = [node for node, taken in enumerate(messages) if taken > self.messages[node]]
        for place in (0, 1) if behind else ():
            self._places[_TAKEN_BY_BIT + place] = self.taken
        for node in behind:
            self.messages[node], self.begun[node] = messages[node], 0
            self._write_word(node, self._words[node] & 1)

    def reach(self, taken: int, told: int) -> None:
        """Learn that at least so much was taken and told: the machine died before it was counted."""
        if taken > self.taken:
            self.take(taken - self.taken)
        while told > self.told:
            self.tell()

    def tell(self) -> None:
        """Count a publication that the application is told of now."""
        self.told += 1
        self._places[_TOLD] = self.told

    def close(self) -> None:
        """Let the memory go."""
        self.closed = True
        self._places.release()
        if isinstance(self._memory, mmap.mmap):
            self._memory.close()

    def _write_word(self, node: int, bit: int) -> None:
        self._words[node] = self.messages[node] * _MESSAGE + self.begun[node] * 2 + bit
        self._places[_WORDS + node] = self._words[node]


def _convert(path: Path) -> None:
    """Put a file of the present format in the place of one of the first, in one step. Raises OSError."""
    if not path.exists() or path.stat().st_size != _FORMER_BYTES:
        return
    former = memoryview(path.read_bytes()).cast("Q")
    memory = bytearray(_BYTES)
    places = memoryview(memory).cast("Q")
    places[:_WORDS] = former[:_WORDS]
    for node, messages in enumerate(former[_WORDS:]):
        places[_WORDS + node] = messages * _MESSAGE
    places[_WORDS] |= sum(former[_WORDS:]) & 1
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(memory)
    fresh.replace(path)
