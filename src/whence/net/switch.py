"""All connections of a node: listens, calls, greets, routes packets by group, and notices who is gone.

Promises: at most one connection to each peer is written to; every queue has a bound and a named action at it; a peer
that breaks the rules loses its connection and nothing else happens. What is sent may be lost, never changed; of a
connection that stays up nothing is lost or reordered.
"""

import asyncio
import contextlib
import logging
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from secrets import token_bytes

from whence.core.dissemination.gossip import Gossip
from whence.core.flow import LIGHT_BYTES
from whence.core.links.addresses import Address, Addresses, Book, asking
from whence.core.links.detector import Detector, Ping, Pong
from whence.core.links.greeting import INSTANCE_BYTES_MAX, NONCE_BYTES, Greeting, Why
from whence.core.ready import Item
from whence.errors import JoinError, NameTakenError, RemoteProtocolError, UsageError, printable
from whence.net import tls
from whence.net.addressing import Addressing
from whence.net.calls import OwnAddressError
from whence.net.clock import steady_ns
from whence.net.door import Door
from whence.net.host import Host
from whence.net.link import Link
from whence.net.names import Names
from whence.net.peer import Peer
from whence.net.settings import NetSettings
from whence.net.udp import DATAGRAM_BYTES_MAX, Datagrams
from whence.types import ANY_BOOT, Process
from whence.wire.codec import Frame, encode_parts
from whence.wire.items import Packet

log = logging.getLogger("whence.net")

LOOK_S = 0.001
"""Outboxes are looked at so often, however many publishers ask."""

SHUN_S = 60.0
"""A peer that took nothing until it was cut is not waited for again within this time: it would stop publishers each
time it connects. It gets what it takes, up to its outbox, and the credit of the groups waits for it once it does."""

RELIEF_S = 0.01

_REFUSALS = {
    Why.TAKEN: "name_taken", Why.CALL_AGAIN: "name_asked", Why.SUPERSEDED: "older_life", Why.REUSED: "name_taken",
}  # fmt: skip
"""What each refusal of a name is counted as."""

REMIND_BEATS = 4
"""Every so many heartbeats some peer is told addresses that it may have missed."""

NODE = ""
"""The group of packets that belong to none: what nodes say to each other."""


class Switch:
    """The connections of one process."""

    def __init__(self, me: Process, host: Host, settings: NetSettings, safety: tls.Safety | None) -> None:
        self.me = me
        self.settings = settings
        self.peers: dict[int, Peer] = {}
        self.detector = Detector(settings.detector)
        self.counts: Counter[str] = Counter()
        self.endpoint = ("", 0)
        self._addressing = Addressing(me, lambda to, item: self.send(NODE, to, item), self._connected)
        self._host = host
        self._safety = safety
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._door: Door | None = None
        self._datagrams: Datagrams | None = None
        self._links: dict[Link, asyncio.TimerHandle | None] = {}
        self._dirty: list[Peer] = []
        self._flush_planned = False
        """What is dirty will be written out soon."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._relief: asyncio.Future[None] | None = None
        self.most_waiting, self._most_until = 0, 0.0
        """Bytes that waited for the slowest connected peer, and until when that is not looked at again."""
        self.unlooked_bytes, self.high_bytes = 0, settings.outbox_high_bytes
        """Bytes since the outboxes were looked at, and how many may wait for a peer before publishers wait."""
        self._beat: asyncio.TimerHandle | None = None
        self._beats, self._beat_due = 0, 0.0
        self._own_nonces: dict[bytes, None] = {}
        """What this process said on connections that lead back to itself."""
        self._reading = True
        self._closed = False
        self._names = Names()
        self._instance = token_bytes(INSTANCE_BYTES_MAX)
        self.on_flush: Callable[[], None] = _nothing
        """Called before anything is written: what an observer must have on paper first."""

    @property
    def book(self) -> Book:
        """Return where peers are called."""
        return self._addressing.book

    # --- coming up and going down ---

    async def start(self, host: str, port: int, advertise: tuple[str, int] | None = None) -> None:
        """Listen, and begin to watch; others are told to call `advertise`, where that is another address.

        Raises JoinError where the address cannot be had, UsageError for UDP with TLS.
        """
        context = self._safety.server if self._safety is not None else None
        if context is not None and self.settings.udp:
            raise UsageError("datagrams are not encrypted: turn off udp, or do without certificates")
        try:
            bound = await self._listen(host, port, context)
        except OSError as error:
            raise JoinError(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
        if self.settings.udp:
            _, self._datagrams = await self._loop.create_datagram_endpoint(
                lambda: Datagrams(self._datagram, self._count), local_addr=(host, bound[1])
            )
        self.endpoint = advertise or (host if host not in ("0.0.0.0", "::", "") else "", bound[1])
        if self.endpoint[0]:
            self._addressing.listen(*self.endpoint)
        self._heartbeat()

    async def _listen(self, host: str, port: int, context: ssl.SSLContext | None) -> tuple[str, int]:
        def link() -> Link:
            return self._link(None, dialed=False)

        if context is not None:
            deadline_s = self.settings.greeting_ns / 1e9
            self._door = Door(context, deadline_s, link, self._too_many_strangers, self.counts)
            return await self._door.open(host, port)
        self._server = await self._loop.create_server(link, host, port, backlog=256)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Send what waits, then close every connection."""
        self._closed = True
        if self._beat is not None:
            self._beat.cancel()
        if self._server is not None:
            self._server.close()
        if self._door is not None:
            self._door.close()
        if self._datagrams is not None:
            self._datagrams.close()
        for task in list(self._tasks):
            task.cancel()
        self.flush()
        for link in list(self._links):
            link.close("closed by us", gently=True)
        for _ in range(100):
            if not self._links and not self._tasks:
                break
            await asyncio.sleep(0.01)
        for link in list(self._links):
            link.close("closed by us")
        await asyncio.sleep(0)

    def _too_many_strangers(self) -> bool:
        """Tell whether no more may come that have not greeted; count it."""
        strangers = sum(1 for link, timer in self._links.items() if timer is not None and not link.dialed)
        strangers += self._door.handshakes if self._door is not None else 0
        is_full = strangers >= self.settings.strangers_max
        self.counts["strangers_refused"] += is_full
        return is_full

    def _link(self, expected: int | None, *, dialed: bool) -> Link:
        nonce = token_bytes(NONCE_BYTES)
        greeting = Greeting(self.me, self.settings.cluster, nonce, expected, *self.endpoint, self._instance)
        return Link(self, greeting, dialed=dialed)

    # --- sending ---

    def send(
        self, group: str, to: Iterable[int], item: Item, boot: int = ANY_BOOT, sender: Process | None = None
    ) -> int:
        """Queue an item for some peers; return its size on the wire. `sender`: a later life, of one group only."""
        frame = encode_parts(group, sender or self.me, item, boot)
        size = sum(map(len, frame))
        light = self._datagrams is not None and isinstance(item, Gossip) and size < DATAGRAM_BYTES_MAX
        for pid in to:
            if light and self._send_light(pid, frame):
                continue
            peer = self.peers.get(pid)
            if peer is None:
                if pid == self.me.pid:
                    continue
                peer = self.peers[pid] = Peer(pid, self.settings)
            if not peer.post(group, frame, size):
                self.counts["outbox_overflow"] += 1
                self._cut_off(peer, "outbox_bytes_max")
            elif peer.link is None:
                self._call(peer)
            elif not peer.dirty:
                peer.dirty = True
                self._dirty.append(peer)
                if not self._flush_planned:
                    self._flush_planned = True
                    self._loop.call_soon(self.flush)
        return size

    def _send_light(self, pid: int, frame: Frame) -> bool:
        """Send a frame as a datagram to a peer that is connected; return False if it is not."""
        peer, address = self.peers.get(pid), self.book.find(pid)
        transport = peer.link.transport if peer is not None and peer.link is not None else None
        if transport is None or address is None or self._datagrams is None:
            return False
        self._datagrams.send(frame, transport.get_extra_info("peername")[0], address.port)  # a name would not do
        self.counts["datagrams_sent"] += 1
        return True

    def _datagram(self, host: str, packet: Packet, size: int) -> None:
        """Take a datagram of a connected process, from that process's own host."""
        peer = self.peers.get(packet.pid)
        link = peer.link if peer is not None else None
        known = link is not None and link.peer is not None and link.peer.boot <= packet.boot and bool(packet.group)
        if not known or link is None or link.transport is None or link.transport.get_extra_info("peername")[0] != host:
            self.counts["datagram_refused"] += 1
        else:
            link.fresh = True
            self.counts["datagrams_taken"] += 1
            self._host.packet(packet, Process(packet.pid, packet.boot), size)

    def _count(self, what: str) -> None:
        self.counts[what] += 1

    def at_once(self, work: Callable[[], None]) -> None:
        """Do something, and write out what it sends when it is done, not at the end of the turn."""
        self._flush_planned = True
        try:
            work()
        finally:
            self.flush()

    def flush(self) -> None:
        """Write out what this turn of the loop has queued."""
        self._flush_planned = False
        self._most_until = 0.0
        self.on_flush()
        dirty, self._dirty = self._dirty, []
        for peer in dirty:
            self.unlooked_bytes += peer.bytes
            peer.flush()
        if self._relief is not None and not self.congested():
            self._relieve()

    def congested(self) -> bool:
        """Tell whether publishers should wait: some connected peer is behind."""
        return self.waiting_bytes() > self.high_bytes

    def waiting_bytes(self) -> int:
        """Return how many bytes wait for the slowest connected peer that was not cut for being stuck a while ago."""
        if not self.most_waiting and self.unlooked_bytes <= LIGHT_BYTES:
            return 0
        now = self._loop.time()
        if now >= self._most_until:
            self._most_until, self.unlooked_bytes = now + LOOK_S, 0
            self.most_waiting = max([
                peer.waiting_bytes() for peer in self.peers.values()
                if peer.link is not None and peer.shunned_until <= now
            ], default=0)  # fmt: skip
        return self.most_waiting

    def waiting_by_peer(self) -> dict[int, int]:
        """Return how many bytes wait for each connected peer."""
        return {peer.pid: peer.waiting_bytes() for peer in self.peers.values() if peer.link is not None}

    async def relief(self) -> None:
        """Wait until a peer has caught up or was cut, or for a moment."""
        if self._relief is None or self._relief.done():
            self._relief = self._loop.create_future()
        with contextlib.suppress(TimeoutError):  # a transport that never was full does not say that it is empty
            await asyncio.wait_for(asyncio.shield(self._relief), RELIEF_S)

    def _relieve(self) -> None:
        if self._relief is not None and not self._relief.done():
            self._relief.set_result(None)

    def pause_reading(self, *, pause: bool) -> None:
        """Stop or go on taking bytes from all peers: their outboxes fill instead of our memory."""
        self._reading = not pause
        for link in self._links:
            _set_reading(link, self._reading)

    # --- calling ---

    def _call(self, peer: Peer) -> None:
        """Call a peer that something waits for, unless that is under way or must wait."""
        if peer.calling or self._closed:
            return
        peer.calling = True
        self._spawn(self._call_peer(peer))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a bug in a call: %s", error, exc_info=error)

    async def _call_peer(self, peer: Peer) -> None:
        settings = self.settings
        try:
            pause = peer.retry_at - self._loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            address = self.book.find(peer.pid)
            if address is None:
                address = await self._ask_around(peer.pid)
            if peer.link is None:
                await self._dial(address, peer.pid)
        except (OSError, JoinError) as error:
            peer.failures += 1
            self.counts["call_failed"] += 1
            wait_ns = min(settings.retry_ns * 2 ** min(peer.failures - 1, 20), settings.retry_ns_max)
            peer.retry_at = self._loop.time() + wait_ns / 1e9
            log.debug("call to %s failed: %s", peer.pid, error)
            self._host.peer_down(peer.pid, peer.drop())
        finally:
            peer.calling = False

    async def _ask_around(self, pid: int) -> Address:
        """Ask every connected peer where another lives, and wait a little."""
        self.counts["asked_around"] += 1
        self.send(NODE, [peer.pid for peer in self.peers.values() if peer.link is not None], asking([pid]))
        for _ in range(10):
            await asyncio.sleep(0.05)
            address = self.book.find(pid)
            if address is not None:
                return address
        raise JoinError(f"nobody knows where {pid} lives")

    async def call(self, host: str, port: int) -> Process:
        """Call whoever listens at an address; return who answered. Raises JoinError."""
        link = await self._dial(Address(0, 0, host, port), None)
        assert link.peer is not None
        return link.peer

    async def _dial(self, address: Address, expected: int | None) -> Link:
        """Connect and greet. Raises JoinError."""
        context = self._safety.client if self._safety is not None else None
        up: asyncio.Future[None] = self._loop.create_future()
        link = self._link(expected, dialed=True)
        link.on_lost = lambda: None if up.done() else up.set_exception(JoinError(self._refused(link)))
        link.on_up = lambda: None if up.done() else up.set_result(None)
        deadline_s = self.settings.call_ns / 1e9
        where = f"{address.host}:{address.port}"
        try:
            async with asyncio.timeout(deadline_s):
                await self._loop.create_connection(
                    lambda: link, address.host, address.port, ssl=context,
                    server_hostname="whence" if context is not None else None,
                    ssl_handshake_timeout=deadline_s if context is not None else None,
                )  # fmt: skip
                await up
        except (OSError, TimeoutError, JoinError, ssl.SSLError, UnicodeError) as error:
            link.close("the call failed")
            self._check_name(link)
            if link.greeting.is_own or self._own_nonces.pop(link.greeting.nonce, 0) is None:
                raise OwnAddressError(f"{where} is this process itself") from None
            reason = printable(str(error)) or f"no answer in {deadline_s:g} s"
            raise JoinError(f"{where} cannot be reached: {reason}") from error
        finally:
            up.cancel()  # nobody waits for it any more, and the connection may be lost later
        return link

    def _check_name(self, link: Link) -> None:
        """Look whether a call failed because of this process's own name. Raises NameTakenError."""
        refusal = link.greeting.refusal
        if refusal is None or not refusal.is_final:
            return
        if refusal.why == Why.SUPERSEDED and any(peer.link is not None for peer in self.peers.values()):
            log.error("%s; other peers go on with this one", link.reason)
            return
        self._host.name_refused(link.reason)
        raise NameTakenError(link.reason)

    def _refused(self, link: Link) -> str:
        if link.greeting.refusal is not None:
            return link.reason
        doubts = self._safety.doubts(self.me.pid) if self._safety is not None else ""
        why = f"; as seen from here, {doubts}" if doubts else "; its log may say more"
        return f"it does not greet ({link.reason}{why})"

    # --- what links tell ---

    def link_made(self, link: Link) -> bool:
        """Give a new connection its deadline; refuse it where there are too many."""
        if self._closed or len(self._links) >= self.settings.links_max:
            return False
        if not link.dialed and self._door is None and self._too_many_strangers():
            return False
        deadline_s = self.settings.greeting_ns / 1e9
        self._links[link] = self._loop.call_later(deadline_s, link.close, "no greeting in time")
        return True

    def link_named(self, link: Link) -> None:
        """Hold the peer's name against its certificate, its later lives and others of that name.

        Raises RemoteProtocolError.
        """
        process = link.greeting.peer
        assert process is not None
        assert link.transport is not None
        if self._safety is not None:
            self._safety.check(link.transport, process.pid)
        told, now = link.greeting.told, steady_ns()
        assert told is not None
        retort = link.greeting.retort = self._names.refusal(process, told.instance, now)
        if retort is not None:
            self.counts[_REFUSALS[Why(retort.why)]] += 1
            if retort.why == Why.CALL_AGAIN:
                self.send(NODE, [process.pid], Ping(now))
            raise RemoteProtocolError(retort.sentence(process, self.me))

    def link_up(self, link: Link) -> None:
        """Make a connection the one to its peer, or keep it as a spare. Raises RemoteProtocolError."""
        process = link.greeting.peer
        assert process is not None
        assert link.transport is not None
        timer = self._links[link]
        if timer is not None:
            timer.cancel()
        self._links[link] = None
        _set_reading(link, self._reading)
        peer = self.peers.setdefault(process.pid, Peer(process.pid, self.settings))
        old = peer.link
        if old is not None and old.peer is not None and old.transport is not None:
            spare = link if old.peer == process and not self._prefers(link) else old
            self._loop.call_later(self.settings.linger_ns / 1e9, self._retire, spare)
            if spare is link:
                link.is_up()
                return
        self._attach(peer, link, process)
        link.is_up()

    def _retire(self, link: Link) -> None:
        if all(peer.link is not link for peer in self.peers.values()):
            link.close("a spare", gently=True)

    def _prefers(self, link: Link) -> bool:
        """Tell whether both ends would keep this one of two: that of the lower pid's call."""
        assert link.peer is not None
        caller = self.me.pid if link.dialed else link.peer.pid
        return caller == min(self.me.pid, link.peer.pid)

    def _attach(self, peer: Peer, link: Link, process: Process) -> None:
        peer.link, peer.failures, peer.retry_at, peer.stalled_since, peer.echoed_ns = link, 0, 0.0, None, 0
        self.detector.watch(peer.pid, steady_ns(), process.boot)
        told = link.greeting.told
        assert told is not None
        self._names.connected(process, told.instance)
        assert link.transport is not None
        host = told.host or link.transport.get_extra_info("peername")[0]
        self._addressing.met(Address(*process, host, told.port))
        self._host.peer_up(process)
        self.ask([peer.pid])
        peer.flush()

    def is_connected(self, pid: int) -> bool:
        """Tell whether a peer is connected now."""
        peer = self.peers.get(pid)
        return peer is not None and peer.link is not None

    def has_peers(self) -> bool:
        """Tell whether anybody is connected now."""
        return bool(self._connected())

    def _connected(self) -> list[int]:
        return [peer.pid for peer in self.peers.values() if peer.link is not None]

    def ask(self, pids: Iterable[int]) -> None:
        """Ask peers for an answer now: it tells that they have read what was sent to them before."""
        self.send(NODE, pids, Ping(steady_ns()))

    def link_packet(self, link: Link, packet: Packet, size: int) -> None:
        """Route a packet. Raises RemoteProtocolError for one in another's name."""
        peer = link.peer
        assert peer is not None
        if packet.pid != peer.pid or packet.boot < peer.boot:  # a group opened again is a later life of its own
            self.counts["forged_sender"] += 1
            raise RemoteProtocolError(f"{peer.pid} sent a packet in the name of {packet.pid}")
        if packet.group == NODE:
            for item in packet.items:
                self._node_item(peer, item)
        else:
            self._host.packet(packet, peer if packet.boot == peer.boot else Process(packet.pid, packet.boot), size)

    def _node_item(self, peer: Process, item: Item) -> None:
        if isinstance(item, Ping):
            self.send(NODE, [peer.pid], Pong(item.sent))
        elif isinstance(item, Pong):
            now, known = steady_ns(), self.peers.get(peer.pid)
            self.detector.answered(peer.pid, item.sent, now)
            self._names.answered(peer.pid, item.sent, now)
            if known is not None and known.echoed_ns < item.sent <= now:
                known.echoed_ns = item.sent
                self._host.peer_answered()
        elif isinstance(item, Addresses):
            self._addressing.heard(peer.pid, item)
        else:
            self.counts["out_of_place"] += 1
            raise RemoteProtocolError(f"a {type(item).__name__} is out of place between nodes")

    def link_resumed(self, link: Link) -> None:
        """Write what waited for the transport."""
        peer = self.peers.get(link.peer.pid) if link.peer is not None else None
        self._most_until = 0.0
        if peer is not None and peer.link is link:
            peer.stalled_since = None
            peer.flush()
            if not self.congested():
                self._relieve()

    def link_lost(self, link: Link, reason: str) -> None:
        """Forget a connection; call again if something waits."""
        timer = self._links.pop(link, None)
        if timer is not None:
            timer.cancel()
        peer = self.peers.get(link.peer.pid) if link.peer is not None else None
        if link.greeting.is_own and link.greeting.told is not None and not link.dialed:
            self._own_nonces[link.greeting.told.nonce] = None
        if link.peer is None:
            self.counts["strangers_lost"] += 1
            log.info("a connection ended before it was up: %s", reason)
        if peer is None or peer.link is not link:
            return
        log.info("lost the connection to %s: %s", peer.pid, reason)
        self.counts["links_lost"] += 1
        peer.link = None
        self._most_until = 0.0
        self.detector.forget(peer.pid)
        self._names.lost(peer.pid, steady_ns())
        self._relieve()
        if not self._closed:
            self._host.peer_down(peer.pid, None)
            if peer.frames:
                self._call(peer)

    def _cut_off(self, peer: Peer, reason: str) -> None:
        """Close a connection whose peer does not keep up, and drop what waits for it."""
        peer.drop()
        if peer.link is not None:
            peer.link.close(reason)

    # --- who is alive ---

    def _heartbeat(self) -> None:
        """Ping everybody, suspect the silent, cut the stalled."""
        now, beat_s = steady_ns(), self.settings.detector.heartbeat_ns / 1e9
        late = self._beats > 0 and self._loop.time() - self._beat_due > beat_s
        """Nothing was read for so long that the silence may be ours."""
        self._beats, self._beat_due = self._beats + 1, self._loop.time() + beat_s
        self._beat = self._loop.call_later(beat_s, self._heartbeat)
        connected = [peer for peer in self.peers.values() if peer.link is not None]
        for peer in connected:
            assert peer.link is not None
            if peer.link.fresh or late or not self._reading:
                peer.link.fresh = False
                self.detector.heard(peer.pid, now)
            self._judge_stall(peer)
        for pid in self.detector.suspects(now):
            self.counts["suspected"] += 1
            log.info("%s has not been heard for too long", pid)
            self._cut_off(self.peers[pid], "suspected")
        self.send(NODE, self._connected(), Ping(now))
        if self._beats % REMIND_BEATS == 0:
            self._addressing.remind()
        self._host.heartbeat()

    def _judge_stall(self, peer: Peer) -> None:
        assert peer.link is not None
        if not peer.link.paused:
            peer.stalled_since = None
        elif peer.stalled_since is None:
            peer.stalled_since = self._loop.time()
        elif self._loop.time() - peer.stalled_since > self.settings.stall_ns / 1e9:
            self.counts["stalled"] += 1
            peer.shunned_until = self._loop.time() + SHUN_S
            self._cut_off(peer, "stall_ns")


def _set_reading(link: Link, reading: bool) -> None:
    if link.transport is None or link.transport.is_closing():
        return
    if reading and not link.transport.is_reading():
        link.transport.resume_reading()
    elif not reading and link.transport.is_reading():
        link.transport.pause_reading()


def _nothing() -> None:
    """Do nothing."""
