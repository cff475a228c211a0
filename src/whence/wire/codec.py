"""Bytes from a peer either become a packet of items or raise RemoteProtocolError; never anything else.

Limits are part of the items' types, so the decoder refuses an announced length before it reads what follows.
"""

import msgspec

from whence.core.ready import Item
from whence.errors import RemoteProtocolError
from whence.types import ANY_BOOT, Process
from whence.wire.frame import opened, sealed
from whence.wire.items import Packet

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Packet).decode


def encode(group: str, sender: Process, items: list[Item], to_boot: int = ANY_BOOT) -> bytes:
    """Return the frame that carries items from a process to members of its group."""
    return sealed(_encode((group, sender.pid, sender.boot, to_boot, items)))


def decode(frame: bytes) -> Packet:
    """Return the packet in a frame that came whole. Raises RemoteProtocolError."""
    return decode_body(opened(frame))


def decode_body(body: bytes) -> Packet:
    """Return the packet in a frame's body. Raises RemoteProtocolError."""
    try:
        packet = _decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"these bytes are no packet: {error}") from None
    for item in packet.items:
        if not item.sound():
            raise RemoteProtocolError(f"the fields of a {type(item).__name__} contradict each other")
    return packet
