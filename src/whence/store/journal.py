"""The journal's format: a head that says how much is durable, then records: a length, a checksum of both, the record.

Law: after a crash, what can be read back is a prefix of what was written, and at least all that was synced. The
checksum covers the length too, so that a tail of zeros, as some file systems leave it, is no row of empty records.
What was synced once and cannot be read any more is damage, never a torn tail: the head tells the two apart. It is
written after each sync and becomes durable with the next one, so when the machine dies it may be one sync behind.
"""

from struct import Struct as Layout
from typing import NamedTuple
from zlib import crc32

_HEADER = Layout("<II")
_LENGTH = Layout("<I")
_HEAD = Layout("<8sQI4x")
_MAGIC = b"whence\x00\x02"
_KIND, _FORMAT_AT = _MAGIC[:7], 7

FRAME_BYTES = _HEADER.size
"""What a record takes beyond itself."""

HEAD_BYTES = _HEAD.size
"""What a journal takes beyond its records."""


class Damage(Exception):
    """What was durable is not there any more: at which byte, and how that is known."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(f"at byte {at}: {why}")
        self.at, self.why = at, why


class Journal(NamedTuple):
    """What a journal's bytes hold."""

    records: list[bytes]
    size: int
    """So many bytes hold the head and whole records; what comes after them was never durable."""
    synced: int | None
    """So many are known to be durable; None: of the first format, which did not tell."""


def framed(record: bytes) -> bytes:
    """Return the bytes to append for one record."""
    return begun(b"", record) + record


def begun(mark: bytes, rest: bytes) -> bytes:
    """Return what stands before the rest of a record that begins with a mark: nothing large is copied."""
    size = len(mark) + len(rest)
    return _HEADER.pack(size, crc32(rest, crc32(mark, crc32(_LENGTH.pack(size))))) + mark


def head(synced: int) -> bytes:
    """Return the first bytes of a journal that is durable up to a byte, these included."""
    return _HEAD.pack(_MAGIC, synced, _head_checksum(synced))


def read(data: bytes) -> Journal:
    """Return what a journal holds. Raises Damage where something is missing that was durable."""
    if not _is_headed(data):
        records, size = recovered(data)
        if (again := _next_record(data, size + 1)) is not None:
            raise Damage(size, f"no whole record is there, and one follows at byte {again}")
        if not records:
            raise Damage(0, "neither a head nor a whole record is there")
        return Journal(records, size, None)
    synced = _synced(data)
    if synced > len(data):
        raise Damage(len(data), f"the file ends there, and was durable up to byte {synced}")
    records, size = recovered(data, HEAD_BYTES)
    if size < synced:
        raise Damage(size, f"no whole record is there, and the file was durable up to byte {synced}")
    return Journal(records, size, synced)


def _is_headed(data: bytes) -> bool:
    """Tell whether a journal begins with a head, be it a damaged one."""
    if len(data) < HEAD_BYTES:
        return _MAGIC.startswith(data[:8])
    _, synced, checksum = _HEAD.unpack_from(data)
    return data.startswith(_KIND) or checksum == _head_checksum(synced)


def _synced(data: bytes) -> int:
    if len(data) < HEAD_BYTES:
        raise Damage(len(data), f"the file ends there, and a journal has at least {HEAD_BYTES} bytes")
    magic, synced, checksum = _HEAD.unpack_from(data)
    intact = checksum == _head_checksum(synced) and not any(data[_HEAD.size - 4 : _HEAD.size])
    if magic != _MAGIC and not intact and magic[_FORMAT_AT] > _MAGIC[_FORMAT_AT]:
        raise Damage(_FORMAT_AT, f"format {magic[_FORMAT_AT]} is of a later version, or its head is not intact")
    if magic != _MAGIC or not intact or synced < HEAD_BYTES:
        raise Damage(0, "its head is not intact")
    return int(synced)


def _head_checksum(synced: int) -> int:
    return crc32(_MAGIC + synced.to_bytes(8, "little"))


def recovered(journal: bytes | bytearray, start: int = 0) -> tuple[list[bytes], int]:
    """Return the whole records of a journal from some byte on, and the byte after the last of them."""
    records = []
    while (record := _record_at(journal, start)) is not None:
        records.append(record)
        start += FRAME_BYTES + len(record)
    return records, start


def _record_at(journal: bytes | bytearray, start: int) -> bytes | None:
    if len(journal) - start < FRAME_BYTES:
        return None
    length, checksum = _HEADER.unpack_from(journal, start)
    end = start + FRAME_BYTES + length
    if end > len(journal):
        return None
    record = bytes(journal[start + FRAME_BYTES : end])
    return record if crc32(record, crc32(_LENGTH.pack(length))) == checksum else None


def _next_record(journal: bytes, start: int) -> int | None:
    """Return where a whole record begins, at any byte from one on."""
    return next((at for at in range(start, len(journal)) if _record_at(journal, at) is not None), None)
