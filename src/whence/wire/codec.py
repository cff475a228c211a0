"""Bytes from a peer either become a packet of items or raise RemoteProtocolError; never anything else.

Limits are part of the items' types, so the decoder refuses an announced length before it reads what follows. Items are
decoded one after another, so that a packet of many full ones is refused at the first item over its bound; a short
packet, which cannot be over it, is decoded at once. Decoding allocates at most the packet's size again, plus a constant
(tests/fuzz measures it: 28 KiB).
"""

from collections.abc import Callable
from struct import Struct as Layout
from typing import Annotated, Any, TypeAlias, Union

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from whence.core.ready import Item
from whence.errors import LimitError, RemoteProtocolError
from whence.limits import PACKET_BUNDLES_MAX, PACKET_BYTES_MAX, PACKET_ITEMS_MAX
from whence.types import ANY_INCARNATION, GroupId, Incarnation, PeerId, Process
from whence.wire.frame import frame_start, opened, sealed
from whence.wire.items import AnyItem, Packet


class _Closed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A packet whose items have not been decoded yet; the fields of Packet."""

    group: GroupId
    pid: PeerId
    incarnation: Incarnation
    to_incarnation: Incarnation
    items: Annotated[list[Raw], Meta(min_length=1, max_length=PACKET_ITEMS_MAX)]


APART_BYTES = 1 << 16
"""Bodies from this size on are sent as a piece of their own, not copied. Shorter ones are copied, and so must be all
bodies whose length MessagePack counts in fewer than 32 bits."""

_BIN32 = Layout(">BI")
_NO_BYTES = b"\xc4\x00"
"""How MessagePack announces a byte string: a large one and an empty one."""

BUNDLE_BYTES_MIN = 12
"""The size of the shortest bundle: a length, three numbers, one size of four bytes, no payload, each announced."""

SHORT_BYTES = PACKET_BUNDLES_MAX * BUNDLE_BYTES_MIN
"""A body up to this size has no more bundles than a packet may carry."""

_encode = msgspec.msgpack.Encoder().encode
_decode_short = msgspec.msgpack.Decoder(Packet).decode
_decode_closed = msgspec.msgpack.Decoder(_Closed).decode
_decode_item = msgspec.msgpack.Decoder[AnyItem](AnyItem).decode


def encode(group: str, sender: Process, items: list[Item], to_incarnation: int = ANY_INCARNATION) -> bytes:
    """Return the frame that carries items from a process to members of its group. Raises LimitError."""
    body = _encode((group, sender.pid, sender.incarnation, to_incarnation, items))
    if len(body) > PACKET_BYTES_MAX:
        raise _too_long(len(body))
    return sealed(body)


Frame: TypeAlias = tuple[bytes, ...]
"""A frame in pieces that go out one after another: a large body is not copied into one buffer."""


def encode_parts(group: str, sender: Process, item: Item, to_incarnation: int = ANY_INCARNATION) -> Frame:
    """Return the frame of one item. The payloads of an item that ends with a bundle are a piece of their own.

    Raises LimitError.
    """
    bundle = getattr(item, "bundle", None)
    if bundle is None or len(bundle.body) < APART_BYTES or item.__struct_fields__[-1] != "bundle":
        body = _encode((group, sender.pid, sender.incarnation, to_incarnation, (item,)))
        if len(body) > PACKET_BYTES_MAX:
            raise _too_long(len(body))
        return (sealed(body),)
    hollow = replace(item, bundle=replace(bundle, body=b""))
    around = _encode((group, sender.pid, sender.incarnation, to_incarnation, (hollow,)))
    cut = len(around) - len(_encode(bundle.stamp))
    before, after = around[: cut - len(_NO_BYTES)] + _BIN32.pack(0xC6, len(bundle.body)), around[cut:]
    if (size := len(before) + len(bundle.body) + len(after)) > PACKET_BYTES_MAX:
        raise _too_long(size)
    return frame_start(before, bundle.body, after), bundle.body, after


def _too_long(size: int) -> LimitError:
    return LimitError("PACKET_BYTES_MAX", PACKET_BYTES_MAX, size)


def decode(frame: bytes) -> Packet:
    """Return the packet in a whole frame. Raises RemoteProtocolError."""
    return decode_body(opened(frame))


def decoder_with(items: tuple[type[Item], ...]) -> Callable[[bytes], Packet]:
    """Return a decoder that also reads these items: those of levels that are simulated and never live."""
    if not items:
        return decode
    decode_item = msgspec.msgpack.Decoder[Any](Union[(AnyItem, *items)]).decode
    return lambda frame: _decode_long(opened(frame), decode_item)


def decode_body(body: bytes | memoryview) -> Packet:
    """Return the packet in a frame's body; nothing of it refers to the body. Raises RemoteProtocolError."""
    if len(body) > SHORT_BYTES:
        return _decode_long(body, _decode_item)
    try:
        packet = _decode_short(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _no_packet(error) from None
    for item in packet.items:
        if not item.is_valid():
            raise _contradicts(item)
    return packet


def _decode_long(body: bytes | memoryview, decode_item: Callable[[Raw], AnyItem]) -> Packet:
    items: list[AnyItem] = []
    bundles = 0
    try:
        closed = _decode_closed(body)
        for raw in closed.items:
            item = decode_item(raw)
            if not item.is_valid():
                raise _contradicts(item)
            bundles += item.bundle_count()
            if bundles > PACKET_BUNDLES_MAX:
                raise RemoteProtocolError(f"a packet carries at most {PACKET_BUNDLES_MAX} bundles")
            items.append(item)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _no_packet(error) from None
    return Packet(closed.group, closed.pid, closed.incarnation, closed.to_incarnation, items)


def _no_packet(error: Exception) -> RemoteProtocolError:
    return RemoteProtocolError(f"these bytes are no packet: {error}")


def _contradicts(item: Item) -> RemoteProtocolError:
    return RemoteProtocolError(f"the fields of a {type(item).__name__} contradict each other")
