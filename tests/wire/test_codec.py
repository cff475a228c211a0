"""Items become bytes and come back the same; other bytes raise RemoteProtocolError."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.wire import strategies as wire
from whence import limits
from whence.core.dissemination.gossip import Gossip
from whence.core.levels.causal.tree.items import Copy
from whence.core.membership.items import NEWS, Subscribe, Welcome
from whence.core.ready import Item
from whence.core.views.items import ViewMessage
from whence.errors import LimitError, RemoteProtocolError
from whence.types import Bundle, Process, packed
from whence.wire.codec import APART_BYTES, BUNDLE_BYTES_MIN, SHORT_BYTES, decode, decode_body, encode, encode_parts
from whence.wire.frame import opened, sealed
from whence.wire.items import NUMBERS, Packet

ME = Process(3, 1)
EMPTY = Gossip(b"", [], b"", b"")


def body_of(*fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


def gossip_of(*bundles: Bundle) -> Gossip:
    return Gossip(bytes(len(bundles)), list(bundles), b"", b"")


@pytest.mark.parametrize("kind", NUMBERS.values())
@given(data=st.data())
def test_every_item_comes_back_as_it_was_sent(kind: type[Item], data: st.DataObject) -> None:
    item = data.draw(wire.items_of(kind))
    assert decode(encode("demo", ME, [item])).items == [item]


@given(
    wire.groups(),
    wire.processes(),
    st.lists(wire.items(), min_size=1, max_size=4),
    st.integers(0, limits.INCARNATION_MAX),
)
def test_a_packet_comes_back_with_all_it_says_of_itself(
    group: str, sender: Process, items: list[Item], to_incarnation: int
) -> None:
    packet = decode(encode(group, sender, items, to_incarnation))
    assert packet == Packet(group, sender.pid, sender.incarnation, to_incarnation, items)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", NUMBERS.values())
@given(data=st.data(), large=st.sampled_from([0, APART_BYTES - 1, APART_BYTES, APART_BYTES + 7]))
def test_a_frame_in_pieces_is_the_frame(kind: type[Item], data: st.DataObject, large: int) -> None:
    item = data.draw(wire.items_of(kind))
    if large and "bundle" in kind.__struct_fields__:
        bundle: Bundle = item.bundle  # type: ignore[attr-defined]
        item = replace(item, bundle=replace(bundle, sizes=large.to_bytes(4, "little"), body=b"\xc4" * large))
    pieces = encode_parts("demo", ME, item, 7)
    assert b"".join(pieces) == encode("demo", ME, [item], 7)


def test_large_payloads_go_out_as_they_are() -> None:
    """Passing a bundle on to a neighbour costs its header, not another copy of its events."""
    bundle = packed(ME, 1, [bytes(APART_BYTES)])
    assert any(piece is bundle.body for piece in encode_parts("demo", ME, Copy(b"header", bundle)))


@given(wire.items())
def test_the_payload_bytes_of_an_item_are_part_of_its_size(item: Item) -> None:
    assert 0 <= item.payload_bytes() <= len(encode("", ME, [item]))


@given(st.binary(max_size=200))
def test_bytes_become_a_packet_or_raise_the_remote_protocol_error(data: bytes) -> None:
    """The law of the wire, here on plain noise; tests/fuzz does it on mutated packets."""
    for read in (decode, decode_body):
        with contextlib.suppress(RemoteProtocolError):
            assert isinstance(read(data), Packet)


def refused(body: bytes) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_body(body)
    return str(caught.value)


def test_a_group_name_that_is_no_text_is_the_peers_fault() -> None:
    assert "no packet" in refused(b"\x95\xa2\xff\xff\x01\x01\x00\x91\x91\x02")


@pytest.mark.parametrize(
    "fields",
    [
        ("x" * (limits.GROUP_NAME_CHARS_MAX + 1), 1, 1, 0, [Subscribe(joining=True)]),
        ("g", limits.PEER_ID_MAX + 1, 1, 0, [Subscribe(joining=True)]),
        ("g", -1, 1, 0, [Subscribe(joining=True)]),
        ("g", 1, limits.INCARNATION_MAX + 1, 0, [Subscribe(joining=True)]),
        ("g", 1, 1, limits.INCARNATION_MAX + 1, [Subscribe(joining=True)]),
        ("g", 1, 1, 0, []),
        ("g", 1, 1, 0, [Subscribe(joining=True)] * (limits.PACKET_ITEMS_MAX + 1)),
        ("g", 1, 1, 0, [Subscribe(joining=True)], "more"),
        ("g", 1, 1, 0),
        ("g", 1, 1, 0, [[99]]),
        ("g", 1, 1, 0, [[2, "more"]]),
        ("g", 1, 1, 0, [7]),
        ("g", 1.5, 1, 0, [Subscribe(joining=True)]),
        {"group": "g"},
    ],
    ids=repr,
)
def test_a_packet_outside_its_types_is_refused(fields: object) -> None:
    assert "no packet" in refused(msgspec.msgpack.encode(fields))


def test_the_fullest_packet_is_read_and_one_bundle_more_is_refused() -> None:
    bundle = packed(ME, 1, [b"x"])
    half = gossip_of(*[bundle] * (limits.PACKET_BUNDLES_MAX // 2))
    assert len(decode_body(body_of("g", 1, 1, 0, [half, half])).items) == 2
    assert "bundles" in refused(body_of("g", 1, 1, 0, [half, half, gossip_of(bundle)]))


def test_a_packet_that_is_read_at_once_is_too_short_for_more_bundles_than_it_may_have() -> None:
    smallest = packed(Process(0, 0), 1, [b""])
    encoded = [
        msgspec.msgpack.encode((smallest.pid, smallest.incarnation, smallest.first, smallest.sizes, smallest.body))
    ]
    assert len(encoded[0]) == BUNDLE_BYTES_MIN, "the stamp, if it is empty, may be left out"
    assert msgspec.msgpack.decode(encoded[0], type=Bundle) == smallest
    assert SHORT_BYTES < BUNDLE_BYTES_MIN * (limits.PACKET_BUNDLES_MAX + 1)


@given(st.integers(0, 2 * SHORT_BYTES), st.booleans())
def test_short_and_long_packets_are_read_alike(size: int, is_valid: bool) -> None:
    bundle = replace(packed(ME, 1, [bytes(size)]), sizes=(size + 1 - is_valid).to_bytes(4, "little"))
    body = body_of("g", 3, 1, 0, [ViewMessage(0, 0, [0] * 4, 0, False, [], bundle)])
    if is_valid:
        assert decode_body(body).items == [ViewMessage(0, 0, [0] * 4, 0, False, [], bundle)]
    else:
        assert "contradict" in refused(body)


@pytest.mark.parametrize(
    "item",
    [
        Gossip(b"\x01", [], b"", b""),
        Gossip(b"", [packed(ME, 1, [b"x"])], b"", b""),
        Gossip(b"", [], b"\x00" * (NEWS.size - 1), b""),
        Gossip(b"", [], b"", b"\x00" * (NEWS.size + 1)),
        Gossip(b"", [], NEWS.pack(1, 1, 1) + NEWS.pack(1, limits.INCARNATION_MAX + 1, 1), b""),
        Welcome(b"x", b""),
        Welcome(NEWS.pack(2**16 - 1, 2**32 - 1, 255), b""),
        gossip_of(Bundle(1, 1, 1, b"\x02\x00\x00\x00", b"x")),
        gossip_of(Bundle(1, 1, 1, b"\x01\x00\x00\x00\x01\x00\x00", b"xy")),
        gossip_of(Bundle(1, 1, 1, b"\x01\x00\x00\x00" * 2, b"xyz")),
        gossip_of(Bundle(1, 1, limits.SEQ_MAX, b"\x01\x00\x00\x00" * 2, b"xy")),
    ],
    ids=repr,
)
def test_an_item_whose_fields_contradict_each_other_is_refused(item: Item) -> None:
    assert type(item).__name__ in refused(body_of("g", 1, 1, 0, [item]))


@pytest.mark.parametrize(
    "item",
    [
        gossip_of(Bundle(1, 1, 0, b"\x00" * 4, b"")),
        gossip_of(Bundle(1, 1, limits.SEQ_MAX + 1, b"\x00" * 4, b"")),
        gossip_of(Bundle(1, 1, 1, b"", b"")),
        gossip_of(Bundle(1, 1, 1, b"\x00" * 4 * (limits.BUNDLE_EVENTS_MAX + 1), b"")),
        gossip_of(packed(ME, 1, [b"x" * (limits.BUNDLE_BYTES_MAX + 1)])),
        gossip_of(packed(ME, 1, [b""], b"x" * (limits.STAMP_BYTES_MAX + 1))),
        gossip_of(*[packed(ME, 1, [b""])] * (limits.GOSSIP_BUNDLES_MAX + 1)),
        Gossip(b"", [], bytes(NEWS.size * (limits.VIEW_MAX + 2)), b""),
        Welcome(b"", bytes(limits.SNAPSHOT_BYTES_MAX + 1)),
    ],
    ids=lambda item: repr(item)[:60],
)
def test_an_item_over_a_limit_is_refused_by_its_type(item: Item) -> None:
    assert "no packet" in refused(body_of("g", 1, 1, 0, [item]))


def test_the_largest_items_fit_a_packet() -> None:
    bundle = packed(ME, 1, [b"x" * limits.BUNDLE_BYTES_MAX], b"y" * limits.STAMP_BYTES_MAX)
    news = bytes(NEWS.size * limits.VIEW_MAX)
    for item in (Gossip(b"\x01", [bundle], news, news), Welcome(news, bytes(limits.SNAPSHOT_BYTES_MAX))):
        assert decode(encode("x" * limits.GROUP_NAME_CHARS_MAX, ME, [item])).items == [item]


def test_what_no_reader_would_take_is_not_sent() -> None:
    bundle = packed(ME, 1, [b"x" * limits.BUNDLE_BYTES_MAX])
    with pytest.raises(LimitError, match="PACKET_BYTES_MAX"):
        encode("g", ME, [gossip_of(bundle, bundle, bundle, bundle)])
    with pytest.raises(LimitError, match="PACKET_BYTES_MAX"):
        encode_parts("g", ME, gossip_of(bundle, bundle, bundle, bundle))
    with pytest.raises(LimitError, match="PACKET_BYTES_MAX"):
        encode_parts("g", ME, Copy(b"head", packed(ME, 1, [b"x" * limits.PACKET_BYTES_MAX])))


def test_a_whole_frame_gives_its_body_and_any_other_is_refused() -> None:
    body = body_of("g", 1, 1, 0, [EMPTY])
    frame = sealed(body)
    assert opened(frame) == body
    wrong = [
        frame[:7],
        frame[:-1],
        frame + b"x",
        frame[:4] + bytes(4) + body,
        b"\xff" * 8,
        b"\x01\x00\x40\x00" + bytes(4),
    ]
    for data in wrong:
        with pytest.raises(RemoteProtocolError):
            decode(data)
