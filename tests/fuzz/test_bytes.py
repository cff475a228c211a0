"""Whatever bytes come from a peer, in whatever pieces: packets, or one error, never a crash, never unbounded memory.

The parser is the one that runs: `FrameReader` and `decode_body`, as a connection has them. Every input is measured: the
peak of all allocations while it is read, whether it is taken or refused. A packet costs at most twice its size, a
stream its usual buffer and twice what its frame announces, which is bounded.
"""

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest

from tests.fuzz import mutate
from tests.wire.streams import arriving
from whence import limits
from whence.errors import RemoteProtocolError
from whence.net.link import GREETING_BUFFER_BYTES, GREETING_BYTES_MAX
from whence.wire.codec import decode, decode_body
from whence.wire.frame import HEADER_BYTES, FrameReader, announced, sealed
from whence.wire.items import NUMBERS

SHARDS = 4
INPUTS_NORMAL = 200_000
INPUTS_LONG = 2_000_000

ALLOWANCE_BYTES = 28 * 1024
"""What reading may take beyond twice the input's size: the small objects of the fullest packet, 26.7 KiB measured.

PACKET_BUNDLES_MAX bundles, each a struct, three numbers and three byte strings of some 35 bytes: 200 beyond twice their
size, 13 KiB. PACKET_ITEMS_MAX items, each unread and read, with a few short fields: 140 each, 9 KiB. The body that is
cut out of a datagram: 4 KiB for such a packet. The rest is the group's name, or the error with its frames.
`test_the_allowance_is_what_the_fullest_packets_need` keeps the constant from growing fat.
"""

USUAL_BYTES = (16, 256, 4096)
"""Sizes of buffers: no frame fits; a few do; most do."""

READER_BYTES = 4096
"""A stream's reader, its generators and its views."""

Read = Callable[[bytes], object]


def peak_bytes(read: Read, data: bytes) -> tuple[str, int]:
    """Read the data; return how that ended and the most memory that was in use meanwhile. Needs tracemalloc."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        read(data)
        ending = "taken"
    except RemoteProtocolError:
        ending = "refused"
    return ending, tracemalloc.get_traced_memory()[1] - before


@pytest.fixture
def traced() -> Iterator[None]:
    """Measure memory, after one reading of everything: what the interpreter keeps from the first is no input's cost."""
    tracemalloc.start()
    for body in mutate.heavy_bodies():
        peak_bytes(decode, sealed(body))
    yield
    tracemalloc.stop()


def inputs(long_mode: bool) -> int:
    return (INPUTS_LONG if long_mode else INPUTS_NORMAL) // SHARDS


def test_the_corpus_has_every_item_there_is() -> None:
    assert set(mutate.MAKERS) == set(NUMBERS.values())


def test_the_corpus_is_valid_before_it_is_spoiled() -> None:
    corpus = mutate.corpus_of(Random(1))
    for body in corpus.light:
        decode_body(body)
    refused = sum(peak_bytes(decode_body, body)[0] == "refused" for body in corpus.heavy)
    assert refused == 1, "only the packet that is full of full items is over a limit"


@pytest.mark.no_cover
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_mutated_body_becomes_a_packet_or_is_refused_in_little_memory(
    shard: int, long_mode: bool, traced: None
) -> None:
    random = Random(f"bodies {shard}")
    corpus = mutate.corpus_of(random)
    endings: Counter[str] = Counter()
    for number in range(inputs(long_mode) // 2):
        body = mutate.spoiled(random, corpus)
        ending, peak = peak_bytes(decode_body, body)
        endings[ending] += 1
        assert peak <= 2 * len(body) + ALLOWANCE_BYTES, f"input {number} of shard {shard}, {len(body)} bytes"
    assert min(endings["taken"], endings["refused"]) > inputs(long_mode) // 40, endings


@pytest.mark.no_cover
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_mutated_stream_gives_packets_or_breaks_in_little_memory(shard: int, long_mode: bool, traced: None) -> None:
    """Frames whose checksum was mended after the mutation, or whose header lies, in a stream that is cut anywhere."""
    random = Random(f"streams {shard}")
    corpus = mutate.corpus_of(random)
    endings: Counter[str] = Counter()
    for number in range(inputs(long_mode) // 2):
        body = mutate.spoiled(random, corpus)
        frame = sealed(body) if body else bytes(HEADER_BYTES)
        if random.random() < 0.25:
            frame = mutate.lied_header(random, frame)
        pieces, usual = list(mutate.cuts(random, frame)), random.choice(USUAL_BYTES)

        def read(_: bytes, pieces: list[bytes] = pieces, usual: int = usual) -> None:
            reader = FrameReader(limits.PACKET_BYTES_MAX, usual)
            for piece in pieces:
                for body in arriving(reader, piece):
                    decode_body(body)

        ending, peak = peak_bytes(read, frame)
        endings[ending] += 1
        needed = max(len(frame), HEADER_BYTES + announced(frame) if len(frame) >= HEADER_BYTES else 0)
        bound = 2 * min(needed, HEADER_BYTES + limits.PACKET_BYTES_MAX) + usual + READER_BYTES + ALLOWANCE_BYTES
        assert peak <= bound, f"input {number} of shard {shard}, {len(frame)} bytes"
        if ending == "refused" and len(frame) < 4096:
            assert peak_bytes(decode, frame)[0] == "refused", "a datagram is judged like a stream"
    assert min(endings["taken"], endings["refused"]) > inputs(long_mode) // 40, endings


@pytest.mark.no_cover  # what measuring lines allocates would count
def test_the_allowance_is_what_the_fullest_packets_need(traced: None) -> None:
    """The constant is honest if some packet needs most of it and none needs more."""
    most = 0
    for body in mutate.heavy_bodies():
        frame = sealed(body)
        for _, peak in (peak_bytes(decode_body, body), peak_bytes(decode, frame)):
            assert peak <= 2 * len(body) + ALLOWANCE_BYTES
            most = max(most, peak - 2 * len(body))
    assert most > ALLOWANCE_BYTES * 3 // 4


@pytest.mark.no_cover  # what measuring lines allocates would count
@pytest.mark.parametrize("body", [b"", b"\xc3", b"\x00", b"\x91" * 100_000, b"\x81" * 100_000, b"\x95" * 100_000])
def test_noise_and_deep_nesting_are_refused_at_once(body: bytes, traced: None) -> None:
    ending, peak = peak_bytes(decode_body, body)
    assert ending == "refused"
    assert peak < 4096


@pytest.mark.no_cover  # what measuring lines allocates would count
def test_an_announced_length_is_refused_before_anything_is_kept_for_it(traced: None) -> None:
    for lie in mutate.LIES:
        for before in (b"", b"\x95", b"\x95\xa0\x01\x01\x00", b"\x95\xa0\x01\x01\x00\x91\x95\x01\xc4\x00"):
            ending, peak = peak_bytes(decode_body, before + lie)
            assert ending == "refused"
            assert peak < 4096


@pytest.mark.no_cover  # what measuring lines allocates would count
def test_a_stream_of_tiny_frames_costs_its_buffer_however_long_it_is(traced: None) -> None:
    stream = sealed(b"ab") * 50_000

    def read(data: bytes) -> None:
        assert sum(1 for _ in arriving(FrameReader(limits.PACKET_BYTES_MAX, 4096), data)) == 50_000

    _, peak = peak_bytes(read, stream)
    assert peak <= 4096 + READER_BYTES


@pytest.mark.no_cover  # what measuring lines allocates would count
def test_a_frame_that_comes_in_crumbs_costs_its_size_and_the_buffer_it_outgrew(traced: None) -> None:
    frame = sealed(bytes(limits.PACKET_BYTES_MAX))

    def read(data: bytes) -> None:
        reader = FrameReader(limits.PACKET_BYTES_MAX, 4096)
        bodies = [body for at in range(0, len(data), 1024) for body in arriving(reader, data[at : at + 1024])]
        assert len(bodies) == 1

    _, peak = peak_bytes(read, frame)
    assert peak <= len(frame) + 4096 + 2 * READER_BYTES  # and the crumb itself


@pytest.mark.no_cover  # what measuring lines allocates would count
def test_a_stranger_costs_one_small_buffer_whatever_it_announces(traced: None) -> None:
    def read(data: bytes) -> None:
        for _ in arriving(FrameReader(GREETING_BYTES_MAX, GREETING_BUFFER_BYTES), data):
            pass

    for length in (0, 1, GREETING_BYTES_MAX, GREETING_BYTES_MAX + 1, limits.PACKET_BYTES_MAX, 2**32 - 1):
        ending, peak = peak_bytes(read, length.to_bytes(4, "little") + bytes(4) + b"x" * 100_000)
        assert ending == "refused"
        assert peak <= GREETING_BUFFER_BYTES + READER_BYTES
