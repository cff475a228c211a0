"""A stream may be cut anywhere; what is wrong in it is noticed at once and for good."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import LimitError, RemoteProtocolError
from whence.limits import PACKET_BYTES_MAX
from whence.wire.frame import HEADER_BYTES, FrameReader, sealed

BODIES = st.lists(st.binary(max_size=20), max_size=6)


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    ends = [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(BODIES, st.lists(st.integers(0, 200), max_size=30))
def test_any_cutting_of_a_stream_gives_the_same_bodies(bodies: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader()
    stream = b"".join(map(sealed, bodies))
    assert [body for piece in pieces(stream, cuts) for body in reader.feed(piece)] == bodies


@given(BODIES)
def test_a_stream_that_comes_byte_by_byte_gives_the_same_bodies(bodies: list[bytes]) -> None:
    reader = FrameReader()
    stream = b"".join(map(sealed, bodies))
    assert [body for byte in stream for body in reader.feed(bytes([byte]))] == bodies


def test_a_body_is_given_out_as_soon_as_it_is_whole_and_not_before() -> None:
    reader = FrameReader()
    frame = sealed(b"body")
    assert list(reader.feed(frame[:-1])) == []
    assert list(reader.feed(frame[-1:])) == [b"body"]


def test_bodies_that_were_not_asked_for_are_not_lost() -> None:
    reader = FrameReader()
    assert next(reader.feed(sealed(b"one") + sealed(b"two"))) == b"one"
    assert list(reader.feed(sealed(b"three"))) == [b"two", b"three"]


@pytest.mark.parametrize("length", [PACKET_BYTES_MAX + 1, 2**32 - 1])
def test_a_length_over_the_limit_is_refused_when_the_header_is_there(length: int) -> None:
    header = length.to_bytes(4, "little") + bytes(4)
    reader = FrameReader()
    assert list(reader.feed(header[:-1])) == []
    with pytest.raises(RemoteProtocolError, match="over the limit"):
        list(reader.feed(header[-1:]))


def test_a_length_at_the_limit_is_waited_for() -> None:
    reader = FrameReader()
    assert list(reader.feed(PACKET_BYTES_MAX.to_bytes(4, "little") + bytes(4))) == []


@given(st.lists(st.binary(max_size=9), max_size=3), st.integers(0, 7), st.binary(min_size=1, max_size=30))
def test_a_broken_stream_stays_broken(before: list[bytes], bit: int, after: bytes) -> None:
    """And gives out what came before the break, unharmed."""
    bad = bytearray(sealed(b"body"))
    bad[HEADER_BYTES] ^= 1 << bit
    reader = FrameReader()
    found: list[bytes] = []
    with pytest.raises(RemoteProtocolError, match="checksum"):
        found.extend(reader.feed(b"".join(map(sealed, before)) + bytes(bad) + sealed(b"next")))
    assert found == before
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="broken before"):
            reader.feed(after)


def test_a_body_over_the_limit_is_never_sealed() -> None:
    assert len(sealed(bytes(PACKET_BYTES_MAX))) == PACKET_BYTES_MAX + HEADER_BYTES
    with pytest.raises(LimitError, match="PACKET_BYTES_MAX"):
        sealed(bytes(PACKET_BYTES_MAX + 1))
