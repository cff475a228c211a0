"""How far the application is, across all incarnations of a process: numbers that survive its death.

Law: the next incarnation reads what was written before the process was killed. The bytes are mapped memory of a file:
writing costs nothing, and the kernel keeps them when the process dies. When the machine dies, an older number may come
back; events are then handed out again, never left out. The file's space on disk is allocated before it is mapped: a
full disk refuses it then, instead of ending the process when a page is written.

Each number is written atomically, and a process may be killed between any two: a single write makes a step count. Where
steps are counted by node, a node's 64-bit word holds the number of its messages that were taken, the number of events
taken of its next one, and a bit that flips whenever the word is written. The events of all nodes together are a second
number that must agree: it is written first, to one of two places, and the bits of all words together say which of the
two counts.

The highest bits of a word check the others, so that no flipped bit passes for a step, and are never all zero, so that
no lost block passes for numbers that are still zero: a file with either is refused.
"""

import mmap
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from whence.errors import StorageError
from whence.limits import BUNDLE_EVENTS_MAX, CLOCK_NODES_MAX
from whence.store.log import WHAT_TO_DO, make_directory, sync_directory
from whence.store.owner import Owner

_TAKEN, _REPORTED, _TAKEN_BY_BIT, _WORDS = 0, 1, 2, 4
_HANDED, _PLACED, _DISPLACED = [_WORDS + part * CLOCK_NODES_MAX for part in (1, 2, 3)]
DISPLACED_MAX = 512
"""Messages handed out and not taken, besides the newest of each node, whose positions a later incarnation knows. Full:
the oldest are forgotten, and come again at positions that no event had."""
_OWNER = _DISPLACED + 2 * DISPLACED_MAX
"""One more than the owner's pid, and the number of its data directory; 0 while nobody has said whose they are."""
_OPENED = _OWNER + 2
"""How often the group was opened."""
_FORMAT = _OPENED + 1
"""Where the numbers are in the file."""
_PLACES = _FORMAT + 1
_BYTES = 8 * _PLACES

_FORMAT_NOW = 7
_CHECK, _VALUE_BITS = 127, 57
"""A word is a number and, above it, one more than what is left of it after division: every single bit makes a
difference to that, and no word is zero."""
_WRITTEN = 1 << _VALUE_BITS
"""Zero, as a word."""
_VALUE = _WRITTEN - 1
_FIRST_BYTES, _THIRD_BYTES, _FIFTH_BYTES, _SIXTH_BYTES = [
    8 * places for places in (_HANDED, _PLACED + 1, _OWNER + 1, _OPENED + 1)
]
_FOURTH = 4 << _VALUE_BITS | 4
"""A file of the first format counts whole messages, and the parity of their sum tells which counts; one of the third
has no places; one of the fourth says so in its last word, and is as long as one of the fifth, which has no owner; one
of the sixth does not say how often the group was opened. In the third and fourth, what is above a number is what is
left."""

_EVENT_BITS, _NODE_BITS = 16, 10
_MESSAGE = 1 << _EVENT_BITS + 1
assert BUNDLE_EVENTS_MAX < 1 << _EVENT_BITS
assert CLOCK_NODES_MAX <= 1 << _NODE_BITS


class ConsumerOffsets:
    """Numbers in memory, each written atomically."""

    def __init__(self, memory: "bytearray | mmap.mmap") -> None:
        """Read them; `memory` has BYTES bytes, all zero at first. Raises ValueError where they are damaged."""
        self._memory = memory
        self.closed = False
        self._places = memoryview(memory).cast("Q")
        if any(self._places):
            numbers = _checked(self._places, _FORMAT_NOW)
        else:
            memory[:], numbers = _NOTHING, [0] * _FORMAT
        self._words = numbers[_WORDS:_HANDED]
        self._bit = sum(self._words) & 1
        self.messages = [word // _MESSAGE for word in self._words]
        """Messages of each node that the application has taken, where they are counted."""
        self.partly_taken = [word % _MESSAGE >> 1 for word in self._words]
        """Events of each node's next message that were taken."""
        self.taken = numbers[_TAKEN_BY_BIT + self._bit if any(self._words) else _TAKEN]
        """Events the application has taken."""
        self.reported = numbers[_REPORTED]
        """Publications that were reported to the application."""
        self.handed = numbers[_HANDED:_PLACED]
        """How far it was handed events of each node, taken or not; in the caller's unit."""
        self.places = [_place(word) for word in numbers[_PLACED:_DISPLACED]]
        """Of the message that each node's events were last handed out from: the position of its first event, and its
        number of events."""
        self.opened = numbers[_OPENED]
        """How often the group was opened; 0 where an earlier version wrote them."""
        keys, places = numbers[_DISPLACED:_OWNER:2], numbers[_DISPLACED + 1 : _OWNER : 2]
        self._displaced = {slot: key for slot, key in enumerate(keys) if key}
        self.displaced = {
            (key % (1 << _NODE_BITS), key >> _NODE_BITS): _place(places[slot]) for slot, key in self._displaced.items()
        }
        """The same for earlier messages, by node and number, that were handed out and not taken in full then."""
        in_hand = [
            slot for slot, key in self._displaced.items() if key >> _NODE_BITS > self.messages[key % (1 << _NODE_BITS)]
        ]
        self._slots = deque([*sorted(set(range(DISPLACED_MAX)) - set(in_hand)), *in_hand])
        """The slots, in the order in which they are written next."""

    BYTES = _BYTES

    @classmethod
    def at(cls, path: Path, owner: Owner | None = None) -> "ConsumerOffsets":
        """Open or create them in a file. Raises StorageError, also where it is damaged. With an `owner` the file says
        whose it is, and another's is refused."""
        try:
            make_directory(path.parent)
            if not path.exists():
                _put(path, _NOTHING)
            _convert(path)
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                size = os.fstat(handle).st_size
                if size != _BYTES or not any(os.pread(handle, 8, 8 * _FORMAT)):
                    raise ValueError(f"it has {size} bytes, and none of its format")
                offsets = cls(mmap.mmap(handle, _BYTES))
            finally:
                os.close(handle)
        except ValueError as error:
            raise StorageError(f"the counter {path} is damaged: {error}; nothing was changed: {WHAT_TO_DO}") from None
        except OSError as error:
            raise StorageError(
                f"the counter {path} cannot be kept: {error.strerror or error}; make room, or give another directory"
            ) from error
        if owner is not None:
            offsets._belong_to(owner, path)
        return offsets

    def _belong_to(self, owner: Owner, path: Path) -> None:
        """Note whose they are. Raises StorageError, and closes them, where they are another's."""
        pid, directory = [word & _VALUE for word in self._places[_OWNER:_OPENED]]
        if pid and (why := owner.refuses(Owner(pid - 1, directory))):
            self.close()
            raise StorageError(f"the counter {path} {why}; nothing was changed: {WHAT_TO_DO}")
        self._places[_OWNER + 1] = _sealed(owner.directory or directory)
        self._places[_OWNER] = _sealed(owner.pid + 1)

    def note_opened(self, number: int) -> None:
        """Note how often the group was opened, on disk before this returns. Raises StorageError."""
        self._places[_OPENED] = _sealed(number)
        self.opened = number
        try:
            if isinstance(self._memory, mmap.mmap):
                self._memory.flush()
        except OSError as error:
            raise StorageError(f"the counter cannot be kept: {error.strerror or error}; make room") from error

    def take(self, events: int) -> None:
        """Count events that the application has taken, in the order it was handed them."""
        self.taken += events
        self._places[_TAKEN] = _sealed(self.taken)

    def take_of(self, node: int, events: int, *, whole: bool) -> None:
        """Count events of a node's next message; `whole`: they are the last of it."""
        taken = self.taken = self.taken + events
        self._bit ^= 1
        self._places[_TAKEN_BY_BIT + self._bit] = taken % _CHECK + 1 << _VALUE_BITS | taken  # _sealed, without a call
        if whole:
            self.messages[node] += 1
            self.partly_taken[node] = 0
        else:
            self.partly_taken[node] += events
        self._write_word(node, self._words[node] & 1 ^ 1)

    def hand(self, node: int, handed: int) -> None:
        """Note how far the application was handed events of a node; it never goes back."""
        if handed > self.handed[node]:
            self.handed[node] = handed
            self._places[_HANDED + node] = handed % _CHECK + 1 << _VALUE_BITS | handed

    def place(self, node: int, position: int, count: int) -> None:
        """Note the positions of a node's message before its first event is handed out. This overwrites those of the
        message before: `displace` that one where it is not taken yet."""
        self.places[node] = position, count
        place = position << _EVENT_BITS | count
        self._places[_PLACED + node] = place % _CHECK + 1 << _VALUE_BITS | place

    def displace(self, node: int, number: int, position: int, count: int) -> None:
        """Retain the positions of a message that is not taken yet and not the last one handed out of its node."""
        slot = self._slots[0]
        self._slots.rotate(-1)
        former = self._displaced.pop(slot, None)
        if former is not None:
            self.displaced.pop((former % (1 << _NODE_BITS), former >> _NODE_BITS), None)
        place = _DISPLACED + 2 * slot
        self.displaced[node, number] = position, count
        key = self._displaced[slot] = number << _NODE_BITS | node
        self._places[place] = _WRITTEN  # whoever is killed before the last of these leaves none
        self._places[place + 1] = _sealed(position << _EVENT_BITS | count)
        self._places[place] = _sealed(key)

    def catch_up(self, messages: Sequence[int]) -> None:
        """Raise the counts to messages that were taken and are not counted here: the machine died before they were."""
        behind = [node for node, taken in enumerate(messages) if taken > self.messages[node]]
        for place in (0, 1) if behind else ():
            self._places[_TAKEN_BY_BIT + place] = _sealed(self.taken)
        for node in behind:
            self.messages[node], self.partly_taken[node] = messages[node], 0
            self._write_word(node, self._words[node] & 1)

    def reach(self, taken: int, reported: int) -> None:
        """Raise the counts to at least these: the machine died before they were written."""
        if taken > self.taken:
            self.take(taken - self.taken)
        while reported > self.reported:
            self.tell()

    def tell(self) -> None:
        """Count a publication that is reported to the application now."""
        self.reported += 1
        self._places[_REPORTED] = _sealed(self.reported)

    def close(self) -> None:
        """Release the memory."""
        self.closed = True
        self._places.release()
        if isinstance(self._memory, mmap.mmap):
            self._memory.close()

    def _write_word(self, node: int, bit: int) -> None:
        word = self._words[node] = self.messages[node] * _MESSAGE + self.partly_taken[node] * 2 + bit
        self._places[_WORDS + node] = word % _CHECK + 1 << _VALUE_BITS | word


def _sealed(number: int) -> int:
    """Return a number as it is written, with what checks it."""
    return number % _CHECK + 1 << _VALUE_BITS | number


def _words_of(numbers: list[int]) -> bytes:
    """Return all numbers but the format as they are written, with it."""
    return b"".join([_sealed(number).to_bytes(8, "little") for number in [*numbers, _FORMAT_NOW]])


_NOTHING = _words_of([0] * _FORMAT)
"""The bytes of an application that was handed nothing."""


def _place(word: int) -> tuple[int, int]:
    """Return a position and a number of events."""
    return word >> _EVENT_BITS, word % (1 << _EVENT_BITS)


def _checked(places: Sequence[int], written_as: int) -> list[int]:
    """Return the numbers that are written in a format. Raises ValueError where one is none that was."""
    numbers = [word & _VALUE for word in places]
    wrong = [place for place, word in enumerate(places) if _sealed(numbers[place]) != word]
    if wrong or numbers[-1] != written_as:
        raise ValueError(f"the number at byte {8 * (wrong[0] if wrong else len(numbers) - 1)} was never written")
    return numbers


def _convert(path: Path) -> None:
    """Replace a file of an earlier format by one of the present format. Raises OSError."""
    size = path.stat().st_size
    if size not in (_FIRST_BYTES, _THIRD_BYTES, _FIFTH_BYTES, _SIXTH_BYTES):
        return
    former = memoryview(path.read_bytes()).cast("Q").tolist()
    if size == _FIRST_BYTES:
        words = [messages * _MESSAGE for messages in former[_WORDS:]]
        words[0] |= sum(former[_WORDS:]) & 1
        numbers = [*former[:_WORDS], *words, *[0] * CLOCK_NODES_MAX]
    elif size == _SIXTH_BYTES:
        *numbers, _ = _checked(former, 6)
    elif size == _FIFTH_BYTES and former[-1] != _FOURTH:
        *numbers, _ = _checked(former, 5)
    else:
        *numbers, _ = _checked([word + _WRITTEN for word in former], 4 if size == _FIFTH_BYTES else 3)
    _put(path, _words_of([*numbers, *[0] * (_FORMAT - len(numbers))]))


def _put(path: Path, words: bytes) -> None:
    """Write numbers to a file atomically, with its space on disk allocated. Raises OSError."""
    fresh = path.with_suffix(".fresh")
    handle = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, _BYTES)
        os.pwrite(handle, words, 0)
        os.fsync(handle)
    finally:
        os.close(handle)
    fresh.replace(path)
    sync_directory(path.parent)
