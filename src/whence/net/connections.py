"""The connections of a node: which exist, which one is used to write to each peer, and how they come and go.

Promises: at most one connection to each peer is written to; a peer that breaks the rules loses its connection and
nothing else happens. What is sent may be lost, never changed; while a connection stays up, it loses and reorders
nothing.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from secrets import token_bytes

from whence.core.links.addresses import Address
from whence.core.links.greeting import INSTANCE_BYTES_MAX, NONCE_BYTES, Greeting, Hello, Refused, Why
from whence.core.links.process_names import called
from whence.errors import JoinError, RemoteProtocolError, UsageError
from whence.net import names, tls
from whence.net.addresses import AddressExchange
from whence.net.clock import steady_ns
from whence.net.dialer import Dialer
from whence.net.driver import Driver
from whence.net.heartbeat import Heartbeat
from whence.net.link import Link
from whence.net.listener import Listener, TlsListener
from whence.net.outboxes import Outboxes
from whence.net.peers import PeerTable
from whence.net.permits import Permits
from whence.net.presence import PresenceExchange
from whence.net.router import PacketRouter
from whence.net.settings import NetSettings
from whence.net.udp import Datagrams
from whence.types import Process

log = logging.getLogger("whence.net")

_REFUSALS = {
    Why.TAKEN: "name_taken", Why.CALL_AGAIN: "name_asked", Why.SUPERSEDED: "older_life", Why.REUSED: "name_taken",
    Why.NUMBER_USED: "number_used",
}  # fmt: skip
"""The counter for each refusal of a name."""


class ConnectionManager:
    """The connections of one process."""

    def __init__(
        self,
        me: Process,
        drivers: Mapping[str, Driver],
        peers: PeerTable,
        outboxes: Outboxes,
        presence: PresenceExchange,
        permits: Permits,
        settings: NetSettings,
        safety: tls.Safety | None,
        counts: "Counter[str]",
        on_name_refused: Callable[[str, int], None],
        name: str = "",
        is_fixed: Callable[[], bool] = lambda: True,
    ) -> None:
        """`drivers`: the members of the open groups; `on_name_refused` is called with the reason why this process
        cannot use its name or pid. `is_fixed` tells whether it cannot take another pid."""
        self._name, self._is_fixed, self._on_name_refused = name, is_fixed, on_name_refused
        self.endpoint = ("", 0)
        """The address that others should call."""
        self.port = 0
        """Where this node listens."""
        self._me, self._peers, self._outboxes, self._presence = me, peers, outboxes, presence
        self._settings, self._safety, self._counts = settings, safety, counts
        self._addresses = AddressExchange(peers, outboxes)
        self._heartbeat = Heartbeat(peers, outboxes, self._addresses, presence, settings, counts)
        self._router = PacketRouter(
            drivers, peers, outboxes, self._addresses, self._heartbeat, presence, permits, counts
        )  # fmt: skip
        self.link_packet = self._router.route
        self._dialer = Dialer(
            me, peers, outboxes, presence, settings, safety, counts, self._new_link, on_name_refused, name
        )  # fmt: skip
        self.call = self._dialer.call_address
        outboxes.on_unconnected = self._dialer.call
        self._loop = asyncio.get_running_loop()
        self._listener: Listener | TlsListener | None = None
        self._datagrams: Datagrams | None = None
        self._links: dict[Link, asyncio.TimerHandle | None] = {}
        """Every connection, with its deadline until its peer has greeted."""
        self._closed = False
        self._instance = token_bytes(INSTANCE_BYTES_MAX)

    # --- coming up and going down ---

    async def start(self, host: str, port: int, advertise: tuple[str, int] | None = None) -> None:
        """Listen, and start the heartbeat; others are asked to call `advertise` where that is another address.

        Raises JoinError where the address is not available, UsageError for UDP with TLS, and for a certificate that no
        peer would accept.
        """
        if self._safety is not None and self._settings.udp:
            raise UsageError("datagrams are not encrypted: turn off udp, or do without certificates")
        if self._safety is not None and (doubts := self._safety.doubts(self._me.pid, self._name)):
            raise UsageError(
                f"no peer would accept this process: {doubts}. Give it another certificate; whence certs member "
                f"{self._name or self._me.pid} makes one"
            )
        self._listener = self._new_listener()
        try:
            bound = await self._listener.open(host, port)
        except OSError as error:
            raise JoinError(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
        self.port = bound[1]
        if self._settings.udp:
            _, self._datagrams = await self._loop.create_datagram_endpoint(
                lambda: Datagrams(self._peers, self._counts, self._router.to_group), local_addr=(host, bound[1])
            )
            self._outboxes.datagrams = self._datagrams
        self.endpoint = advertise or (host if host not in ("0.0.0.0", "::", "") else "", bound[1])
        if self.endpoint[0]:
            self._peers.listen(*self.endpoint)
        self._heartbeat.start()

    def _new_listener(self) -> Listener | TlsListener:
        def link() -> Link:
            return self._new_link(None, dialed=False)

        if self._safety is None:
            return Listener(link)
        deadline_s = self._settings.greeting_ns / 1e9
        return TlsListener(self._safety, deadline_s, link, self._too_many_strangers, self._counts)

    async def close(self) -> None:
        """Send what is pending, then close every connection."""
        self._closed = True
        self._heartbeat.stop()
        if self._listener is not None:
            self._listener.close()
        if self._datagrams is not None:
            self._datagrams.close()
        self._dialer.close()
        self._outboxes.flush()
        for link in list(self._links):
            link.close("closed by us", gently=True)
        for _ in range(100):
            if not self._links and self._dialer.is_idle:
                break
            await asyncio.sleep(0.01)
        for link in list(self._links):
            link.close("closed by us")
        await asyncio.sleep(0)

    def pause_reading(self, *, pause: bool) -> None:
        """Stop or resume reading from all peers: their outboxes fill instead of our memory."""
        self._heartbeat.is_reading = not pause
        for link in self._links:
            _set_reading(link, not pause)

    def _too_many_strangers(self) -> bool:
        """Tell whether the limit of connections without a greeting is reached; count it if so."""
        strangers = sum(1 for link, timer in self._links.items() if timer is not None and not link.dialed)
        strangers += self._listener.handshakes if self._listener is not None else 0
        is_full = strangers >= self._settings.strangers_max
        self._counts["strangers_refused"] += is_full
        return is_full

    def _new_link(self, expected: int | None, *, dialed: bool = True) -> Link:
        nonce = token_bytes(NONCE_BYTES)
        greeting = Greeting(
            self._me, self._settings.cluster, nonce, expected, *self.endpoint, self._instance, self._name,
            fixed=self._is_fixed(),
        )  # fmt: skip
        return Link(self, greeting, dialed=dialed)

    # --- what links tell ---

    def link_made(self, link: Link) -> bool:
        """Give a new connection its deadline; refuse it where there are too many."""
        if self._closed or len(self._links) >= self._settings.links_max:
            return False
        if not link.dialed and isinstance(self._listener, Listener) and self._too_many_strangers():
            return False
        deadline_s = self._settings.greeting_ns / 1e9
        self._links[link] = self._loop.call_later(deadline_s, link.close, "no greeting in time")
        return True

    def link_hello(self, link: Link, sender: Process, hello: Hello) -> None:
        """Check the peer's name and pid against its certificate. Raises RemoteProtocolError."""
        assert link.transport is not None
        if self._safety is not None:
            self._safety.check(link.transport, sender.pid, hello.name)

    def link_named(self, link: Link) -> None:
        """Check the peer's name against its later incarnations and other processes of that name or number.

        Raises RemoteProtocolError.
        """
        process, hello = link.greeting.peer, link.greeting.peer_hello
        assert process is not None
        assert hello is not None
        found = names.check_claim(self._peers, process, hello, steady_ns())
        if found is not None:
            retort, holder = found
            self._counts[_REFUSALS[Why(retort.why)]] += 1
            if retort.why == Why.CALL_AGAIN:
                self._outboxes.ask([holder])
            link.greeting.retort = retort = self._located(retort, holder)
            raise RemoteProtocolError(retort.sentence(process, hello.name, called(self._me.pid, self._name)))

    def _located(self, retort: Refused, pid: int) -> Refused:
        """Return a refusal with the name and the address of the process that has the name or number."""
        address, peer = self._peers.book.find(pid), self._peers.by_pid.get(pid)
        where = (address.host, address.port) if address is not None else ("", 0)
        if peer is not None and peer.link is not None and (hello := peer.link.greeting.peer_hello) is not None:
            where = (hello.host or peer.link.greeting.seen_host, hello.port)  # the book may know its namesake
        return Refused(retort.why, retort.incarnation, self._peers.names.name(pid), *where)

    def link_up(self, link: Link) -> None:
        """Make this the connection to its peer, or retain it as a spare. Raises RemoteProtocolError."""
        process = link.greeting.peer
        assert process is not None
        timer = self._links[link]
        if timer is not None:
            timer.cancel()
        self._links[link] = None
        _set_reading(link, self._heartbeat.is_reading)
        old = self._peers.add(process.pid).link
        if old is not None and old.peer is not None and old.transport is not None:
            spare = link if old.peer == process and not self._prefers(link) else old
            self._loop.call_later(self._settings.linger_ns / 1e9, self._retire, spare)
            if spare is link:
                link.is_up()
                return
        self._attach(link, process)
        link.is_up()

    def _retire(self, link: Link) -> None:
        if all(peer.link is not link for peer in self._peers.connected()):
            link.close("a spare", gently=True)

    def _prefers(self, link: Link) -> bool:
        """Tell whether both ends would retain this one of two connections: the one that the lower pid dialed."""
        assert link.peer is not None
        caller = self._me.pid if link.dialed else link.peer.pid
        return caller == min(self._me.pid, link.peer.pid)

    def _attach(self, link: Link, process: Process) -> None:
        hello = link.greeting.peer_hello
        assert hello is not None
        assert link.transport is not None
        peer = self._peers.add(process.pid)
        peer.attach(link, process, hello.instance, steady_ns(), hello.name)
        self._peers.met(process, hello.name)
        host = hello.host or link.transport.get_extra_info("peername")[0]
        self._addresses.met(Address(*process, host, hello.port, hello.name))
        self._presence.peer_up(process)
        self._outboxes.ask([peer.pid])
        peer.outbox.flush(link)

    def link_resumed(self, link: Link) -> None:
        """Write what was waiting for the transport."""
        peer = self._peers.by_pid.get(link.peer.pid) if link.peer is not None else None
        if peer is not None and peer.link is link:
            peer.stalled_since = None
            self._outboxes.resumed(peer)

    def link_lost(self, link: Link, reason: str) -> None:
        """Forget a connection; call the peer again if something is pending."""
        timer = self._links.pop(link, None)
        if timer is not None:
            timer.cancel()
        if link.greeting.is_own and link.greeting.peer_hello is not None and not link.dialed:
            self._dialer.note_own(link.greeting.peer_hello.nonce)
        self._yield_number(link)
        if link.peer is None:
            self._counts["strangers_lost"] += 1
            which = f"{'to' if link.dialed else 'from'} {link.where}"
            speaks_plainly = link.dialed and self._safety is None and link.greeting.peer_hello is None
            hint = "; if it asks for TLS, give certificate, key and authority" if speaks_plainly else ""
            log.info("a connection %s ended before it was up: %s%s", which, reason, hint)
            return
        peer = self._peers.by_pid.get(link.peer.pid)
        if peer is None or peer.link is not link:
            return
        log.info("lost the connection to %s: %s", self._peers.called(peer.pid), reason)
        self._counts["links_lost"] += 1
        peer.detach(steady_ns())
        self._outboxes.lost()
        if not self._closed:
            self._presence.peer_down(peer.pid)
            if peer.outbox.frames:
                self._dialer.call(peer)

    def _yield_number(self, link: Link) -> None:
        """Take another number if a process that called this one has a better right to it, and no group is open here."""
        refusal = link.greeting.refusal
        if refusal is not None and refusal.why == Why.NUMBER_USED and not link.dialed and not self._is_fixed():
            self._on_name_refused(link.reason, Why.NUMBER_USED)


def _set_reading(link: Link, reading: bool) -> None:
    if link.transport is None or link.transport.is_closing():
        return
    if reading and not link.transport.is_reading():
        link.transport.resume_reading()
    elif not reading and link.transport.is_reading():
        link.transport.pause_reading()
