"""Frames: a length, a checksum, a body. The length is checked before a byte of the body is kept.

A datagram carries one frame; a stream carries one after another, cut anywhere.
"""

from struct import Struct as Layout
from zlib import crc32

from whence.errors import RemoteProtocolError
from whence.limits import PACKET_BYTES_MAX

_HEADER = Layout("<II")
HEADER_BYTES = _HEADER.size


def sealed(body: bytes) -> bytes:
    """Return the frame around a body."""
    return _HEADER.pack(len(body), crc32(body)) + body


def opened(frame: bytes) -> bytes:
    """Return the body of a frame that came whole. Raises RemoteProtocolError if it did not."""
    if len(frame) < HEADER_BYTES:
        raise RemoteProtocolError(f"a frame has at least {HEADER_BYTES} bytes, not {len(frame)}")
    length, checksum = _HEADER.unpack_from(frame)
    body = frame[HEADER_BYTES:]
    if length != len(body):
        raise RemoteProtocolError(f"the frame announces {length} bytes and carries {len(body)}")
    _check(length, checksum, body)
    return body


class FrameReader:
    """Cuts a stream into bodies. Keeps at most one frame that is not whole yet."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._broken = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the stream's next bytes; return the bodies that are now whole.

        Raises RemoteProtocolError at the first wrong frame and ever after: the cut is lost, close the stream.
        """
        if self._broken:
            raise RemoteProtocolError("the stream was broken before")
        self._kept += data
        bodies = []
        start = 0
        try:
            while len(self._kept) - start >= HEADER_BYTES:
                length, checksum = _HEADER.unpack_from(self._kept, start)
                if length > PACKET_BYTES_MAX:
                    raise RemoteProtocolError(f"a frame of {length} bytes is over the limit of {PACKET_BYTES_MAX}")
                end = start + HEADER_BYTES + length
                if len(self._kept) < end:
                    break
                body = bytes(memoryview(self._kept)[start + HEADER_BYTES : end])
                _check(length, checksum, body)
                bodies.append(body)
                start = end
        except RemoteProtocolError:
            self._broken = True
            self._kept.clear()
            raise
        if start:
            del self._kept[:start]
        return bodies


def _check(length: int, checksum: int, body: bytes) -> None:
    if length > PACKET_BYTES_MAX:
        raise RemoteProtocolError(f"a frame of {length} bytes is over the limit of {PACKET_BYTES_MAX}")
    if crc32(body) != checksum:
        raise RemoteProtocolError("the frame's checksum does not match its body")
