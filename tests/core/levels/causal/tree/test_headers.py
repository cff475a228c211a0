"""Codings of headers: each reads back what was written; and varints."""

from random import Random
from typing import Any

import pytest

from whence.core.levels.causal.tree import coding as coding_module
from whence.core.levels.causal.tree.coding import HeaderCoding
from whence.core.levels.causal.tree.headers import (
    NUMBER_END,
    PREDICTED,
    WHOLE,
    Header,
    decode_whole,
    encode_whole,
    largest,
)
from whence.core.levels.causal.tree.items import HEADER_BYTES_MAX, Copy
from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import NOBODY, Record, State
from whence.core.levels.causal.tree.topology import OverlaySettings, overlay_of
from whence.core.varint import Reader, packed
from whence.errors import SettingError
from whence.sim.lab import spec_of
from whence.types import Bundle, Process
from whence.types import packed as bundled
from whence.wire.codec import decode, encode
from whence_lab.catalogue import CAUSAL_CODINGS as CODINGS

PARENTS = [-1, 0, 0, 1, 1, 2, 2]


def a_message(random: Random, first: int) -> Bundle:
    return bundled(Process(random.randrange(7), 1), first, [b"x"])


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("coding", ["predicted", "thesis"])
@pytest.mark.parametrize("f", [1, 2])
def test_a_header_coded_on_what_the_link_carried_says_the_same_as_a_whole_one(
    coding: str, replay: bool, ordered: bool, f: int
) -> None:
    """Two neighbours talk both ways in random turns; every header is read as the whole one would be.

    A dependency may be missing, or be higher, only up to what the receiver sent itself.
    """
    random = Random(f"{coding} {replay} {ordered} {f}")
    overlay = Overlay(PARENTS, [range(7)], f)
    settings = TreeSettings(replay=replay, ordered_links=ordered)
    states = {node: State(Place(overlay, node)) for node in (0, 1)}
    codings = {node: CODINGS[coding](states[node], settings) for node in (0, 1)}
    plain = {node: HeaderCoding(states[node], settings) for node in (0, 1)}
    for turn in range(1, 200):
        sender, receiver = random.choice(((0, 1), (1, 0)))
        bundle = a_message(random, turn)
        for key in random.sample(sorted(states[sender].place.pairs), 2):
            if key & 0xFFFF != sender and key >> 16 != sender:
                states[sender].grow({key: states[sender].past.get(key, 0) + random.randint(1, 3)})
        record = states[sender].admit(bundle, 0, NOBODY, 0, states[sender].patterns.none, (), {})
        expected = plain[sender].header_of(record, receiver, cut=not replay)
        read = codings[receiver].read(sender, 1, codings[sender].first(record, receiver))
        assert read is not None
        assert (read.group, read.epoch, read.last, read.h, read.extra) == (0, 1, sender, 0, {})
        assert read.ids == expected.ids
        mine = states[receiver].past
        for key in expected.deps.keys() | read.deps.keys():
            exact, got = expected.deps.get(key, 0), read.deps.get(key, 0)
            assert got == exact or max(got, exact) <= mine.get(key, 0), (key, got, exact)
        states[receiver].merge(read.deps)
        states[receiver].admit(bundle, 0, sender, 1, *states[receiver].patterns.flat(read.ids), {})
    assert codings[0].cost.copies + codings[1].cost.copies == 199
    if coding == "predicted" and f == 1:
        assert codings[0].cost.bytes / codings[0].cost.copies < 20


def test_a_node_with_a_gap_below_its_numbers_sends_whole_headers() -> None:
    """What a peer sent is not sent back, so no header may imply more of its sender's column than was processed."""
    state = State(Place(Overlay(PARENTS, [range(7)], 1), 1))
    coding = CODINGS["predicted"](state, TreeSettings())

    def form_of_next(first: int) -> int:
        record = state.admit(bundled(Process(1, 1), first, [b"x"]), 0, NOBODY, 0, state.patterns.none, (), {})
        return coding.first(record, 0)[0] & 3

    assert form_of_next(1) == PREDICTED
    state.mark(0, 2)
    assert form_of_next(2) == WHOLE
    state.mark(0, 1)
    assert form_of_next(3) == PREDICTED


@pytest.mark.parametrize("coding", ["whole", "predicted"])
def test_a_whole_header_says_all_its_forwarder_knows_or_that_it_was_cut(
    coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what says everything may be passed on by others as it came (E12): node 5 is far from node 1."""
    overlay = Overlay([-1, 0, 1, 2, 3, 4], [range(6)], 1)
    forwarder, reader = State(Place(overlay, 3)), State(Place(overlay, 1))
    record = forwarder.admit(bundled(Process(3, 1), 1, [b"x"]), 0, NOBODY, 0, forwarder.patterns.none, (), {})

    def expected(*, replay: bool) -> Header:
        settings = TreeSettings(replay=replay)
        data = CODINGS[coding](forwarder, settings).again(record, 1)
        header = CODINGS[coding](reader, settings).read(3, 1, data)
        assert header is not None
        return header

    assert (set(expected(replay=True).ids[3]), expected(replay=True).cut) == ({1, 2, 4, 5}, False)
    assert (set(expected(replay=False).ids[3]), expected(replay=False).cut) == ({1, 2, 4}, True)
    monkeypatch.setattr(coding_module, "HEADER_BYTES_MAX", 12)  # too large to be said at once: cut, and says so
    assert (set(expected(replay=True).ids[3]), expected(replay=True).cut) == ({1, 2, 4}, True)


def test_a_whole_header_reads_back_as_it_was() -> None:
    header = Header(3, 1, 4, 2, {4: {5: 1, 6: 300}, 1: {}}, {2: {4: 7}}, {4 << 16 | 5: 9, 1 << 16 | 2: 70_000})
    back = decode_whole(encode_whole(header), lambda forwarder: 100)
    for name in ("group", "epoch", "last", "h", "ids", "extra", "deps"):
        assert getattr(back, name) == getattr(header, name)


def test_a_whole_header_with_more_numbers_than_there_can_be_is_refused() -> None:
    header = Header(0, 1, 0, 0, {0: dict.fromkeys(range(50), 1)}, {}, {})
    with pytest.raises(ValueError, match=r"below|more than"):
        decode_whole(encode_whole(header), lambda forwarder: 40)


def test_numbers_read_back_and_what_is_none_is_refused() -> None:
    numbers = [0, 1, 127, 128, 300, 2**40 - 1, 2**62]
    reader = Reader(packed(numbers))
    assert [reader.take() for _ in numbers] == numbers
    reader.end()
    for wrong in (b"", b"\x80", b"\xff" * 12):
        with pytest.raises(ValueError, match=r"number"):
            Reader(wrong).take()
    with pytest.raises(ValueError, match="below"):
        Reader(b"\x05").below(5)
    with pytest.raises(ValueError, match="too early"):
        Reader(b"\x05").bytes(2)
    with pytest.raises(ValueError, match="more than"):
        Reader(b"\x05").end()


def headers_of_a_star(nodes: int) -> tuple[HeaderCoding, Record]:
    """A hub that knows every pair, each with the largest number there is."""
    overlay = overlay_of(OverlaySettings(tree="star", tree_nodes=nodes))
    state = State(Place(overlay, 0))
    state.grow(dict.fromkeys(state.place.pairs, NUMBER_END - 1000))
    record = state.admit(bundled(Process(0, 1), 1, [b"x"]), 0, NOBODY, 0, state.patterns.none, (), {})
    return HeaderCoding(state, TreeSettings()), record


def test_a_header_of_a_star_of_a_hundred_can_be_read() -> None:
    coding, record = headers_of_a_star(100)
    item = Copy(coding.again(record, 7), record.bundle)
    assert len(item.header) > 1 << 14
    assert len(item.header) <= largest(coding._place) <= HEADER_BYTES_MAX
    sent = decode(encode("g", Process(0, 1), [item])).items[0]
    assert isinstance(sent, Copy)
    assert coding.read(0, 1, sent.header) is not None


def test_a_tree_whose_headers_nobody_could_read_is_refused_at_the_door() -> None:
    spec: Any = spec_of("causal")
    for tree, nodes, f, fits in (
        ("star", 100, 1, True), ("star", 200, 1, False), ("binary", 200, 3, True), ("star", 100, 2, True),
        ("star", 120, 2, False),
    ):  # fmt: skip
        settings = spec.settings_from({"tree": tree, "tree_nodes": nodes, "f": f})
        if fits:
            spec.check_place(1, settings)
        else:
            with pytest.raises(SettingError, match=r"tree: with .* bytes, and no other reads more than 131072: take"):
                spec.check_place(1, settings)
