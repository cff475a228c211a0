"""One connection: frames in, frames out. Reads into one buffer, cuts many frames per read, writes many per flush.

Law: bytes that are no packet of ours end the connection, and nothing else. Until the peer has greeted, a frame may
have GREETING_BYTES_MAX bytes and must come by the deadline, so a stranger costs one small buffer for a short time.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from whence.core.links.greeting import Greeting, Hello, Stage, host_port
from whence.core.ready import Item
from whence.errors import RemoteProtocolError, printable
from whence.limits import PACKET_BYTES_MAX
from whence.types import Process
from whence.wire.codec import decode_body, encode
from whence.wire.frame import HEADER_BYTES, FrameReader
from whence.wire.items import Packet

GREETING_BYTES_MAX = 1024
"""The longest frame of a peer that has not greeted."""

GREETING_BUFFER_BYTES, FIRST_BUFFER_BYTES, BUFFER_BYTES = 4 << 10, 16 << 10, 512 << 10
"""The size of one read: before the peer has greeted, at first after that, and once a read has filled that: most links
of a large group stay idle. A frame that is larger gets a buffer of its own size."""

TLS_HANDSHAKE = b"\x16\x03"
"""What a handshake of TLS begins with: a record of this type, and the major version. No greeting does: such a frame
would be longer than any."""

SPEAKS_TLS = "the peer speaks TLS, and this process has no certificate: give it one, or start all processes without"

WRITE_HIGH_BYTES = 1 << 20
"""Bytes that the transport buffers before it asks to wait; the rest waits in the outbox, where it is counted."""


class Owner(Protocol):
    """The object notified of what happens on a connection."""

    def link_made(self, link: "Link") -> bool:
        """Take a new connection; return False to close it at once."""

    def link_hello(self, link: "Link", sender: Process, hello: Hello) -> None:
        """Check that the peer may call itself so, before anything it says counts. Raises RemoteProtocolError."""

    def link_named(self, link: "Link") -> None:
        """Check the name that the peer gives, before it is answered. Raises RemoteProtocolError to refuse it."""

    def link_up(self, link: "Link") -> None:
        """Note that the peer has greeted. Raises RemoteProtocolError to refuse it."""

    def link_packet(self, link: "Link", packet: Packet, size: int) -> None:
        """Take a packet. Raises RemoteProtocolError to end the connection."""

    def link_resumed(self, link: "Link") -> None:
        """Note that the transport takes bytes again."""

    def link_lost(self, link: "Link", reason: str) -> None:
        """Note that the connection is gone."""


class Link(asyncio.BufferedProtocol):
    """One TCP connection to one peer."""

    def __init__(self, owner: Owner, greeting: Greeting, *, dialed: bool) -> None:
        self.greeting = greeting
        self.dialed = dialed
        self.peer: Process | None = None
        """The process at the other end; None until it has greeted."""
        self.transport: asyncio.Transport | None = None
        self.where = "an unknown address"
        """The address of the other end."""
        self.paused = False
        self.fresh = True
        """Bytes have arrived since this was last set to False."""
        self.reads = 0
        self.closing = False
        """Whatever still arrives is no longer read."""
        self.reason = "closed by the peer"
        self.on_lost: Callable[[], None] | None = None
        self.on_up: Callable[[], None] | None = None
        self._owner = owner
        self._frames = FrameReader(GREETING_BYTES_MAX, GREETING_BUFFER_BYTES)

    # --- the transport's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, unless there are too many connections already."""
        self.transport = transport = cast(asyncio.Transport, transport)
        if not self._owner.link_made(self):
            self.close("there are links_max connections already")
            return
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        peername = transport.get_extra_info("peername")
        if isinstance(peername, tuple):
            self.greeting.seen_host, self.where = peername[0], host_port(*peername[:2])
        self._say(self.greeting.hello())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        frames = self._frames  # as `space`, without another call
        return frames.view[frames.end :] if frames.end else frames.view

    def buffer_updated(self, size: int) -> None:
        """Take the packets that have arrived in full."""
        self.fresh = True
        self.reads += 1
        try:
            for body in self._frames.cut(size):
                packet = decode_body(body)  # it does not refer to the body
                if self.peer is not None:
                    self._owner.link_packet(self, packet, HEADER_BYTES + len(body))
                else:
                    self._take_greeting(packet)
                if self.closing:
                    return
        except RemoteProtocolError as error:
            if self.greeting.retort is not None:
                self._say(self.greeting.retort)
            self.close(SPEAKS_TLS if self._hears_tls() else str(error), gently=self.greeting.retort is not None)

    def _hears_tls(self) -> bool:
        """Tell whether the peer's first bytes are a handshake of TLS."""
        return self.peer is None and bytes(self._frames.view[:2]) == TLS_HANDSHAKE

    def eof_received(self) -> bool:
        """Close: a peer that has stopped writing is gone."""
        return False

    def pause_writing(self) -> None:
        """Stop handing bytes to the transport."""
        self.paused = True

    def resume_writing(self) -> None:
        """Resume handing bytes to the transport."""
        self.paused = False
        self._owner.link_resumed(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Notify the owner."""
        if error is not None and self.reason == "closed by the peer":
            self.reason = _in_words(error)
        self.transport, self.closing = None, True
        self._owner.link_lost(self, self.reason)
        if self.on_lost is not None:
            self.on_lost()

    # --- our side ---

    def is_up(self) -> None:
        """Notify the caller that the greeting is done."""
        if self.on_up is not None:
            self.on_up()

    def waiting_bytes(self) -> int:
        """Return the number of bytes that the transport has not sent yet."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    @property
    def is_ending(self) -> bool:
        """Tell whether either end has closed the connection."""
        return self.closing or self.transport is None or self.transport.is_closing()

    def close(self, reason: str, *, gently: bool = False) -> None:
        """End the connection; `gently`: after everything written has gone out."""
        if self.transport is None:
            return
        self.reason, self.closing = printable(reason), True  # it may quote what the peer sent
        if gently:
            self.transport.close()
        else:
            self.transport.abort()

    def _say(self, item: Item) -> None:
        if self.transport is not None:
            self.transport.write(encode("", self.greeting.me, [item]))

    def _take_greeting(self, packet: Packet) -> None:
        sender = Process(packet.pid, packet.incarnation)
        if packet.group:
            raise RemoteProtocolError("a packet of a group came before the greeting")
        for item in packet.items:
            if isinstance(item, Hello):
                self._owner.link_hello(self, sender, item)
            answers = self.greeting.receive(sender, item)
            self._owner.link_named(self)
            for answer in answers:
                self._say(answer)
        if self.greeting.stage is Stage.UP:
            self.peer = self.greeting.peer
            self._frames.allow(PACKET_BYTES_MAX, FIRST_BUFFER_BYTES, BUFFER_BYTES)
            self._owner.link_up(self)


def _in_words(error: Exception) -> str:
    """Return why a connection ended, in words; an objection of the other end of TLS is in its alert."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or 'no reason given').lower().replace('_', ' ')}"
    return type(error).__name__
