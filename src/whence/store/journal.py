"""The journal's format: a head that says how much is durable, then one frame (wire/frame.py) for each record.

Law: after a crash, what can be read back is a prefix of what was written, and at least all that was synced. No record
is empty, so that a tail of zeros, as some file systems leave it, holds none.
What was synced once and can no longer be read is damage, never a torn tail: the head tells the two apart. It is written
after each sync and becomes durable with the next one, so when the machine dies it may be one sync behind.

The first format had no head, and up to the second a frame's checksum covered its length. Neither is read any more.
"""

from contextlib import suppress
from struct import Struct as Layout
from typing import NamedTuple
from zlib import crc32

from whence.wire.frame import FrameError, Frames

FORMAT = 3

_HEAD = Layout("<7sBQI4x")
_KIND, _FORMAT_AT = b"whence\x00", 7

HEAD_BYTES = _HEAD.size
"""What a journal takes beyond its records."""


class Damage(Exception):
    """Something durable is missing: at which byte, and how that is known."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(f"at byte {at}: {why}")
        self.at, self.why = at, why


class OtherFormat(Exception):
    """The journal is intact, and of another version."""

    def __init__(self, number: int) -> None:
        super().__init__(f"has format {number}, and this version knows {FORMAT}")
        self.number = number


class Journal(NamedTuple):
    """What a journal's bytes hold."""

    records: list[bytes]
    size: int
    """The bytes of the head and all whole records; what comes after them was never durable."""
    synced: int
    """The bytes that are known to be durable."""


def head(synced: int) -> bytes:
    """Return the head of a journal that is durable up to a byte, counted with the head."""
    return _HEAD.pack(_KIND, FORMAT, synced, _head_checksum(FORMAT, synced))


def read(data: bytes) -> Journal:
    """Return what a journal holds. Raises Damage where something durable is missing, and OtherFormat."""
    synced = _synced(data)
    if synced > len(data):
        raise Damage(len(data), f"the file ends there, and was durable up to byte {synced}")
    records, size = recovered(data, HEAD_BYTES)
    if size < synced:
        raise Damage(size, f"no whole record is there, and the file was durable up to byte {synced}")
    return Journal(records, size, synced)


def recovered(journal: bytes, start: int = 0) -> tuple[list[bytes], int]:
    """Return the whole records of a journal from some byte on, and the byte after the last of them."""
    frames = Frames(journal, start)
    records: list[bytes] = []
    with suppress(FrameError):
        for body in frames.cut():
            records.append(bytes(body))  # noqa: PERF401 - the records before a damaged one count
    return records, frames.start


def _synced(data: bytes) -> int:
    if len(data) < HEAD_BYTES:
        raise Damage(len(data), f"the file ends there, and a journal has at least {HEAD_BYTES} bytes")
    kind, number, synced, checksum = _HEAD.unpack_from(data)
    if kind != _KIND:
        raise Damage(0, "no head is there, or the journal is of the first format, which had none and is not read")
    intact = checksum == _head_checksum(number, synced) and not any(data[HEAD_BYTES - 4 : HEAD_BYTES])
    if number != FORMAT and intact:
        raise OtherFormat(number)
    if number > FORMAT:
        raise Damage(_FORMAT_AT, f"format {number} is of a later version, or its head is not intact")
    if not intact or synced < HEAD_BYTES:
        raise Damage(0, "its head is not intact")
    return int(synced)


def _head_checksum(number: int, synced: int) -> int:
    return crc32(_KIND + bytes([number]) + synced.to_bytes(8, "little"))
