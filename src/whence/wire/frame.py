"""Frames: a length, a checksum, a body. The one framing: of packets on sockets, records in journals, rows in traces.

Law: whatever bytes come, in whatever pieces, they become the bodies that were framed, up to the first invalid frame,
and then one error, at this call and at every later one. The length is checked before the reader waits for a byte of the
body, so a stream costs at most its usual buffer and the longest frame that it may carry.

A body is cut in place: it is a view of the buffer, to be read before the next one is requested. No frame is empty, so
that zeros, which some file systems leave after the last write, are not a sequence of frames.
"""

from collections.abc import Iterator
from struct import Struct as Layout
from zlib import crc32

from whence.errors import LimitError, RemoteProtocolError
from whence.limits import PACKET_BYTES_MAX

_HEADER = Layout("<II")
_unpack = _HEADER.unpack_from

HEADER_BYTES = _HEADER.size
"""The bytes that a frame takes beyond its body."""

BODY_BYTES_MAX = 2**32 - 1
"""The longest body that a header can announce; every reader and writer of frames has a lower limit of its own."""


class FrameError(RemoteProtocolError):
    """A frame is too long, empty or not what was framed. From a peer: end the stream. In a file: the valid part ends
    before it."""


# --- writing ---


def sealed(body: bytes) -> bytes:
    """Return the frame around a body. Raises LimitError if it is empty."""
    size = len(body)
    if not size:
        raise _empty()
    return _HEADER.pack(size, crc32(body)) + body


def frame_start(first: bytes, rest: bytes, last: bytes = b"") -> bytes:
    """Return a frame up to the first piece of its body: the other pieces are written after it, without being copied.

    Raises LimitError if all pieces are empty.
    """
    size, checksum = len(first) + len(rest), crc32(rest, crc32(first))
    if last:
        size, checksum = size + len(last), crc32(last, checksum)
    if not size:
        raise _empty()
    return _HEADER.pack(size, checksum) + first


def _empty() -> LimitError:
    return LimitError("BODY_BYTES_MIN", 1, 0)


# --- reading ---


def announced(header: bytes) -> int:
    """Return the length of the body that a header announces."""
    length: int = _unpack(header)[0]
    return length


def opened(frame: bytes) -> bytes:
    """Return the body of a packet's frame that arrived whole and alone, as in a datagram. Raises FrameError."""
    if len(frame) < HEADER_BYTES:
        raise FrameError(f"a frame has at least {HEADER_BYTES} bytes, not {len(frame)}")
    length, checksum = _unpack(frame)
    body = frame[HEADER_BYTES:]  # most bodies are so short that a copy costs less than a view
    if length != len(body) or length > PACKET_BYTES_MAX or not length:
        if length > PACKET_BYTES_MAX or not length:
            raise _refused(length, PACKET_BYTES_MAX)
        raise FrameError(f"the frame announces {length} bytes and carries {len(body)}")
    if crc32(body) != checksum:
        raise FrameError("the frame's checksum does not match its body")
    return body


class Frames:
    """Frames one after another in a complete buffer."""

    __slots__ = ("end", "longest", "start", "usual", "view")

    def __init__(self, content: bytes | bytearray, start: int = 0, longest: int = BODY_BYTES_MAX) -> None:
        self.view = memoryview(content)
        """The buffer itself; it is filled from `end` on."""
        self.start = start
        """Where the next frame begins: all frames before it were whole."""
        self.end = len(content)
        self.longest = longest
        """The longest body that is accepted; it may change between two frames."""
        self.usual = -1
        """A buffer of this size is filled again from its beginning once it has been cut to the end."""

    def cut(self, more: int = 0) -> Iterator[memoryview]:
        """Yield the bodies that are whole, after `more` further bytes came. Raises FrameError at an invalid frame."""
        view, start, needed = self.view, self.start, HEADER_BYTES
        end = self.end = self.end + more
        while end - start >= HEADER_BYTES:
            length, checksum = _unpack(view, start)
            if not 0 < length <= self.longest:
                raise _refused(length, self.longest)
            needed = HEADER_BYTES + length
            stop = start + needed
            if stop > end:
                break
            body = view[start + HEADER_BYTES : stop]
            if crc32(body) != checksum:
                raise FrameError("the frame's checksum does not match its body")
            self.start = start = stop
            yield body
        if start != end or len(view) != self.usual:
            self._keep(needed)
        else:
            self.start = self.end = 0

    def _keep(self, needed: int) -> None:
        """Keep what is left. The last frame that was read has `needed` bytes, whether it is whole or not."""


class FrameReader(Frames):
    """Frames of a stream, in a buffer that is filled again and again: bytes go to `space`, their number to `cut`."""

    __slots__ = ("_full",)

    def __init__(self, longest: int, usual: int, full: int = 0) -> None:
        """Begin with a buffer of the usual size; see `allow`."""
        super().__init__(bytearray(usual))
        self.end = 0
        self.allow(longest, usual, full)

    def allow(self, longest: int, usual: int, full: int = 0) -> None:
        """Accept bodies up to `longest` bytes, from now on in a buffer of `usual` bytes; of `full` once that was full.

        A frame that needs more gets a buffer of its own size.
        """
        self.longest, self.usual, self._full = longest, usual, max(usual, full)

    def space(self) -> memoryview:
        """Return where the next bytes go."""
        return self.view[self.end :] if self.end else self.view

    def _keep(self, needed: int) -> None:
        """Move what is left to the front of a buffer that has room for the rest of its frame, or another as long."""
        view, start, end = self.view, self.start, self.end
        rest = end - start
        if end == len(view) == self.usual:
            self.usual = self._full
        size = max(self.usual, needed)
        if size != len(view) and (size > len(view) or rest <= self.usual):
            fresh = bytearray(size)
            fresh[:rest] = view[start:end]
            self.view = memoryview(fresh)
        elif start and rest:
            view[:rest] = view[start:end]  # memoryviews may overlap; bytearrays may not
        self.start, self.end = 0, rest


def find_frame(content: bytes, start: int) -> int | None:
    """Return where the first whole frame begins, at any byte from `start` on; None if there is none."""
    frames = Frames(content)
    for at in range(start, len(content) - HEADER_BYTES):
        frames.start = at
        try:
            if next(frames.cut(), None) is not None:
                return at
        except FrameError:
            continue
    return None


def _refused(length: int, longest: int) -> FrameError:
    return FrameError(f"a frame of {length} bytes is over the limit of {longest}" if length else "a frame is empty")
