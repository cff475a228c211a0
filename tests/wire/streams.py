"""Streams as a socket brings them: into the reader's own buffer, as much at a time as it has room for."""

from collections.abc import Iterator

from whence.wire.frame import FrameReader


def arriving(reader: FrameReader, data: bytes) -> Iterator[memoryview]:
    """Yield the bodies that are whole once the data has come, in place."""
    left = memoryview(data)
    while left:
        room = reader.space()
        size = min(len(room), len(left))
        room[:size] = left[:size]
        left = left[size:]
        yield from reader.cut(size)
