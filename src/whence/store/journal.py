"""The journal's record format: a length, a checksum of length and record, the record. A torn tail is cut off.

Law: after a crash, what can be read back is a prefix of what was written, and at least all that was synced. The
checksum covers the length too, so that a tail of zeros, as some file systems leave it, is no row of empty records.
"""

from struct import Struct as Layout
from zlib import crc32

_HEADER = Layout("<II")
_LENGTH = Layout("<I")

FRAME_BYTES = _HEADER.size
"""What a record takes beyond itself."""


def framed(record: bytes) -> bytes:
    """Return the bytes to append for one record."""
    return begun(b"", record) + record


def begun(mark: bytes, rest: bytes) -> bytes:
    """Return what stands before the rest of a record that begins with a mark: nothing large is copied."""
    size = len(mark) + len(rest)
    return _HEADER.pack(size, crc32(rest, crc32(mark, crc32(_LENGTH.pack(size))))) + mark


def recovered(journal: bytes | bytearray) -> tuple[list[bytes], int]:
    """Return the whole records at the start of a journal, and how many of its bytes they take."""
    records = []
    start = 0
    while len(journal) - start >= FRAME_BYTES:
        length, checksum = _HEADER.unpack_from(journal, start)
        end = start + FRAME_BYTES + length
        record = bytes(journal[start + FRAME_BYTES : end])
        if end > len(journal) or _checksum(record) != checksum:
            break
        records.append(record)
        start = end
    return records, start


def _checksum(record: bytes) -> int:
    return crc32(record, crc32(_LENGTH.pack(len(record))))
