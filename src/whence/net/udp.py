"""Gossip as datagrams: small messages that may be lost anyway need no stream. An option, for loopback or trusted nets.

Law: a datagram is taken only from a process that is connected by TCP in the same life, and only from that connection's
host; whatever else comes is counted and dropped. Datagrams are not encrypted, so TLS and UDP exclude each other.
A frame that does not fit DATAGRAM_BYTES_MAX goes over the stream.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from whence.errors import RemoteProtocolError
from whence.wire.codec import Frame, decode
from whence.wire.items import Packet

DATAGRAM_BYTES_MAX = 1400
"""What passes an Ethernet without being cut: a datagram in pieces is lost with any of them."""


class Datagrams(asyncio.DatagramProtocol):
    """The UDP port of a node: the same number as its TCP port."""

    def __init__(self, take: Callable[[str, Packet, int], None], refuse: Callable[[str], None]) -> None:
        self._take = take
        self._refuse = refuse
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, address: tuple[str | Any, int]) -> None:
        """Take a datagram that is a packet."""
        try:
            packet = decode(data)
        except RemoteProtocolError:
            self._refuse("datagram_refused")
            return
        self._take(address[0], packet, len(data))

    def error_received(self, error: Exception) -> None:
        """Count what the network refused; the peer's level does not rely on any one datagram."""
        self._refuse("datagram_error")

    def send(self, frame: Frame, host: str, port: int) -> None:
        """Send one frame."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(b"".join(frame), (host, port))

    def close(self) -> None:
        """Close the port."""
        if self._transport is not None:
            self._transport.close()
