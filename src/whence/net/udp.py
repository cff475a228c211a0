"""Gossip as datagrams: small messages that may be lost anyway need no stream. An option, for loopback or trusted nets.

Law: a datagram is accepted only from a process that is connected by TCP in the same incarnation, and only from that
connection's host; any other is counted and dropped. Datagrams are not encrypted, so TLS and UDP exclude each other.
A frame that does not fit DATAGRAM_BYTES_MAX goes over the stream.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from whence.errors import RemoteProtocolError
from whence.net.link import Link
from whence.net.peers import PeerTable
from whence.types import Process
from whence.wire.codec import Frame, decode
from whence.wire.items import Packet

DATAGRAM_BYTES_MAX = 1400
"""What passes an Ethernet without fragmentation: a fragmented datagram is lost with any of its pieces."""


class Datagrams(asyncio.DatagramProtocol):
    """The UDP port of a node: the same number as its TCP port."""

    def __init__(self, peers: PeerTable, counts: "Counter[str]", take: Callable[[Packet, Process, int], None]) -> None:
        self._peers = peers
        self._counts = counts
        self._take = take
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, address: tuple[str | Any, int]) -> None:
        """Take a datagram that is a packet of a connected process, from that process's own host."""
        try:
            packet = decode(data)
        except RemoteProtocolError:
            self._counts["datagram_refused"] += 1
            return
        peer = self._peers.by_pid.get(packet.pid)
        link = peer.link if peer is not None else None
        known = (
            link is not None
            and link.peer is not None
            and link.peer.incarnation <= packet.incarnation
            and bool(packet.group)
        )
        if not known or link is None or _host_of(link) != address[0]:
            self._counts["datagram_refused"] += 1
        else:
            link.fresh = True
            self._counts["datagrams_taken"] += 1
            self._take(packet, Process(packet.pid, packet.incarnation), len(data))

    def error_received(self, error: Exception) -> None:
        """Count what the network refused; the peer's level does not rely on any one datagram."""
        self._counts["datagram_error"] += 1

    def send(self, pid: int, frame: Frame, size: int) -> bool:
        """Send a frame to a peer that is connected; return False if it is not, or the frame too large."""
        peer, address = self._peers.by_pid.get(pid), self._peers.book.find(pid)
        host = _host_of(peer.link) if peer is not None and peer.link is not None else None
        if size >= DATAGRAM_BYTES_MAX or host is None or address is None:
            return False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(b"".join(frame), (host, address.port))
        self._counts["datagrams_sent"] += 1
        return True

    def close(self) -> None:
        """Close the port."""
        if self._transport is not None:
            self._transport.close()


def _host_of(link: Link) -> str | None:
    """Return the IP address at the other end of a connection; a host name would not match."""
    return link.transport.get_extra_info("peername")[0] if link.transport is not None else None
