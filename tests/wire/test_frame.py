"""A stream may be cut anywhere; what is wrong in it is noticed at once and for good."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.streams import arriving
from whence.errors import LimitError, RemoteProtocolError
from whence.limits import PACKET_BYTES_MAX
from whence.wire.frame import HEADER_BYTES, FrameError, FrameReader, Frames, find_frame, frame_start, opened, sealed

BODIES = st.lists(st.binary(min_size=1, max_size=20), max_size=6)
USUAL = st.integers(1, 64)
"""Buffers smaller than a header, than a frame, than several."""


def read(reader: FrameReader, *pieces: bytes) -> list[bytes]:
    return [bytes(body) for piece in pieces for body in arriving(reader, piece)]


def outcome(reader: FrameReader, *pieces: bytes) -> tuple[list[bytes], str]:
    """Return the bodies that came, and what was wrong after them."""
    found = []
    try:
        for piece in pieces:
            for body in arriving(reader, piece):
                found.append(bytes(body))  # noqa: PERF401 - those before an error count
    except FrameError as error:
        return found, str(error)
    return found, ""


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    ends = [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in zip([0, *ends], ends, strict=False)]


# --- streams ---


@given(BODIES, st.lists(st.integers(0, 200), max_size=30), USUAL, USUAL)
def test_any_cutting_of_a_stream_gives_the_same_bodies(
    bodies: list[bytes], cuts: list[int], usual: int, full: int
) -> None:
    stream = b"".join(map(sealed, bodies))
    assert read(FrameReader(20, usual, full), *pieces(stream, cuts)) == bodies


@given(BODIES, USUAL)
def test_a_stream_that_comes_byte_by_byte_gives_the_same_bodies(bodies: list[bytes], usual: int) -> None:
    stream = b"".join(map(sealed, bodies))
    assert read(FrameReader(20, usual), *[bytes([byte]) for byte in stream]) == bodies


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5), USUAL)
def test_whatever_bytes_come_they_are_frames_or_one_error_however_they_are_cut(
    noise: bytes, cuts: list[int], usual: int
) -> None:
    for stream in (noise, sealed(b"one") + noise, len(noise).to_bytes(4, "little") + noise):
        assert outcome(FrameReader(40, usual), stream) == outcome(FrameReader(40, usual), *pieces(stream, cuts))


def test_a_body_is_given_out_as_soon_as_it_is_whole_and_not_before() -> None:
    reader = FrameReader(100, 64)
    frame = sealed(b"body")
    assert read(reader, frame[:-1]) == []
    assert read(reader, frame[-1:]) == [b"body"]


def test_bodies_that_were_not_asked_for_are_not_lost() -> None:
    reader = FrameReader(100, 64)
    assert bytes(next(arriving(reader, sealed(b"one") + sealed(b"two")))) == b"one"
    assert read(reader, sealed(b"three")) == [b"two", b"three"]


@pytest.mark.parametrize("length", [PACKET_BYTES_MAX + 1, 2**32 - 1])
def test_a_length_over_the_limit_is_refused_when_the_header_is_there(length: int) -> None:
    header = length.to_bytes(4, "little") + bytes(4)
    reader = FrameReader(PACKET_BYTES_MAX, 64)
    assert read(reader, header[:-1]) == []
    with pytest.raises(FrameError, match=f"{length} bytes is over the limit of {PACKET_BYTES_MAX}"):
        read(reader, header[-1:])


def test_a_length_at_the_limit_is_waited_for() -> None:
    reader = FrameReader(PACKET_BYTES_MAX, 64)
    assert read(reader, PACKET_BYTES_MAX.to_bytes(4, "little") + bytes(4)) == []
    assert len(reader.space()) == PACKET_BYTES_MAX


def test_a_limit_that_changes_counts_from_the_next_frame_on() -> None:
    """A peer that has greeted may say more, in the same read."""
    reader = FrameReader(5, 64)
    found = []
    for body in arriving(reader, sealed(b"hello") + sealed(b"a longer one")):
        found.append(bytes(body))
        reader.allow(100, 32)
    assert found == [b"hello", b"a longer one"]
    assert len(reader.space()) == 32


def test_the_buffer_grows_once_a_read_has_filled_it_and_shrinks_after_a_frame_that_needed_more() -> None:
    reader = FrameReader(1000, 32, 128)
    assert read(reader, sealed(b"small")) == [b"small"]
    assert len(reader.space()) == 32
    assert read(reader, sealed(bytes(50))) == [bytes(50)]
    assert len(reader.space()) == 128
    assert read(reader, sealed(bytes(500))) == [bytes(500)]
    assert len(reader.space()) == 500 + HEADER_BYTES, "the next one may be as long"
    assert read(reader, sealed(b"small")) == [b"small"]
    assert len(reader.space()) == 128


@given(
    st.lists(st.binary(min_size=1, max_size=9), max_size=3),
    st.integers(0, 7),
    st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=9),
    USUAL,
)
def test_a_broken_stream_stays_broken(before: list[bytes], bit: int, after: list[bytes], usual: int) -> None:
    """And gives out what came before the break, unharmed."""
    bad = bytearray(sealed(b"body"))
    bad[HEADER_BYTES] ^= 1 << bit
    reader = FrameReader(20, usual)
    broken = "the frame's checksum does not match its body"
    assert outcome(reader, b"".join(map(sealed, before)) + bytes(bad) + sealed(b"next")) == (before, broken)
    for piece in after:
        assert outcome(reader, piece) == ([], broken)


def test_an_empty_frame_is_refused_so_that_zeros_are_no_frames() -> None:
    with pytest.raises(FrameError, match="empty"):
        read(FrameReader(20, 64), bytes(HEADER_BYTES))
    with pytest.raises(FrameError, match="empty"):
        opened(bytes(HEADER_BYTES))
    with pytest.raises(LimitError, match="BODY_BYTES_MIN"):
        sealed(b"")
    with pytest.raises(LimitError, match="BODY_BYTES_MIN"):
        frame_start(b"", b"")


def test_what_is_wrong_with_a_frame_is_the_peers_fault_where_a_peer_sent_it() -> None:
    assert issubclass(FrameError, RemoteProtocolError)


# --- content that is all there ---


@given(BODIES, st.binary(max_size=7), st.integers(0, 30))
def test_frames_in_a_buffer_are_read_to_the_last_whole_one(bodies: list[bytes], rest: bytes, start: int) -> None:
    stream = b"".join(map(sealed, bodies))
    frames = Frames(bytes(start) + stream + rest, start)
    assert [bytes(body) for body in frames.cut()] == bodies
    assert frames.start == start + len(stream)


def test_a_body_is_a_view_of_the_buffer_and_no_copy() -> None:
    content = bytearray(sealed(b"body"))
    (body,) = Frames(content).cut()
    content[HEADER_BYTES] = ord("B")
    assert bytes(body) == b"Body"


@given(st.binary(min_size=1, max_size=20), st.integers(0, 40))
def test_a_frame_is_found_wherever_it_begins(body: bytes, before: int) -> None:
    content = b"\xff" * before + sealed(body)
    assert find_frame(content, 0) == before
    assert find_frame(content[:-1], 0) is None
    assert find_frame(content, before + 1) is None
    assert find_frame(bytes(before), 0) is None


@given(st.binary(min_size=1, max_size=20), st.integers(0, 8 * HEADER_BYTES), st.binary(max_size=3))
def test_a_datagram_is_judged_like_a_stream_that_ends_with_it(body: bytes, bit: int, more: bytes) -> None:
    frame = bytearray(sealed(body) + more)
    if bit < 8 * HEADER_BYTES:
        frame[bit >> 3] ^= 1 << (bit & 7)
    frames, expected = Frames(frame, longest=PACKET_BYTES_MAX), None
    try:
        first = next(frames.cut(), None)
        if first is not None and frames.start == len(frame):
            expected = bytes(first)
        assert opened(bytes(frame)) == expected
    except FrameError:
        assert expected is None


@pytest.mark.parametrize("size", range(HEADER_BYTES))
def test_a_datagram_shorter_than_a_header_is_refused(size: int) -> None:
    with pytest.raises(FrameError, match=f"at least {HEADER_BYTES} bytes, not {size}"):
        opened(bytes(size))


def test_a_datagram_over_the_limit_is_refused_by_its_announced_length() -> None:
    with pytest.raises(FrameError, match="over the limit"):
        opened(sealed(bytes(PACKET_BYTES_MAX + 1)))


@given(st.binary(max_size=9), st.binary(max_size=9), st.binary(max_size=9))
def test_a_frame_written_in_pieces_is_that_of_the_whole(first: bytes, rest: bytes, last: bytes) -> None:
    if whole := first + rest + last:
        assert frame_start(first, rest, last) + rest + last == sealed(whole)
