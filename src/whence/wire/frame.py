"""Frames: a length, a checksum, a body. The length is checked before a byte of the body is waited for.

A datagram carries one frame; a stream carries one after another, cut anywhere.
"""

from collections.abc import Iterator
from struct import Struct as Layout
from zlib import crc32

from whence.errors import LimitError, RemoteProtocolError
from whence.limits import PACKET_BYTES_MAX

_HEADER = Layout("<II")
HEADER_BYTES = _HEADER.size


def header_of(*pieces: bytes) -> bytes:
    """Return what stands before a body that comes in pieces. Raises LimitError if no reader would take it."""
    size = checksum = 0
    for piece in pieces:
        size += len(piece)
        checksum = crc32(piece, checksum)
    if size > PACKET_BYTES_MAX:
        raise LimitError("PACKET_BYTES_MAX", PACKET_BYTES_MAX, size)
    return _HEADER.pack(size, checksum)


def sealed(body: bytes) -> bytes:
    """Return the frame around a body. Raises LimitError if no reader would take it."""
    size = len(body)
    if size > PACKET_BYTES_MAX:
        raise LimitError("PACKET_BYTES_MAX", PACKET_BYTES_MAX, size)
    return _HEADER.pack(size, crc32(body)) + body


def opened(frame: bytes) -> bytes:
    """Return the body of a frame that came whole. Raises RemoteProtocolError if it did not."""
    if len(frame) < HEADER_BYTES:
        raise RemoteProtocolError(f"a frame has at least {HEADER_BYTES} bytes, not {len(frame)}")
    length, checksum = _HEADER.unpack_from(frame)
    body = frame[HEADER_BYTES:]
    if length != len(body) or length > PACKET_BYTES_MAX:
        _check_length(length)
        raise RemoteProtocolError(f"the frame announces {length} bytes and carries {len(body)}")
    if crc32(body) != checksum:
        raise RemoteProtocolError("the frame's checksum does not match its body")
    return body


class FrameReader:
    """Cuts a stream into bodies. Keeps at most one frame that is not whole yet, and what was not asked for."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._broken = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the stream's next bytes; give out the bodies that are now whole, one at a time.

        Raises RemoteProtocolError at the first wrong frame and ever after: the cut is lost, close the stream.
        """
        if self._broken:
            raise RemoteProtocolError("the stream was broken before")
        self._kept += data
        return iter(self._next_body, None)

    def _next_body(self) -> bytes | None:
        """Cut the next body off, if it is whole. One at a time: a list of tiny ones would outgrow the stream."""
        kept = self._kept
        if len(kept) < HEADER_BYTES:
            return None
        length, checksum = _HEADER.unpack_from(kept)
        end = HEADER_BYTES + length
        try:
            _check_length(length)
            if len(kept) < end:
                return None
            body = bytes(memoryview(kept)[HEADER_BYTES:end])
            _check_sum(checksum, body)
        except RemoteProtocolError:
            self._broken = True
            self._kept = bytearray()
            raise
        del kept[:end]
        return body


def _check_length(length: int) -> None:
    if length > PACKET_BYTES_MAX:
        raise RemoteProtocolError(f"a frame of {length} bytes is over the limit of {PACKET_BYTES_MAX}")


def _check_sum(checksum: int, body: bytes) -> None:
    if crc32(body) != checksum:
        raise RemoteProtocolError("the frame's checksum does not match its body")
