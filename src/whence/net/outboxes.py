"""Frames that wait to be sent: one outbox for each peer, written out once per turn of the loop.

Promises: every outbox has a bound. A connected peer that is over it is cut off; for one that is not connected, the
oldest frames are dropped. While a connection stays up, it loses and reorders nothing.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from whence.core.dissemination.gossip import Gossip
from whence.core.flow import LIGHT_BYTES
from whence.core.links.detector import Ping
from whence.core.ready import Item
from whence.net.clock import steady_ns
from whence.net.link import WRITE_HIGH_BYTES, Link
from whence.net.settings import NetSettings
from whence.types import ANY_INCARNATION, Process
from whence.wire.codec import Frame, encode_parts

if TYPE_CHECKING:
    from whence.net.peers import Peer, PeerTable
    from whence.net.udp import Datagrams

NODE = ""
"""The group of packets that belong to no group: those between nodes."""

JOINED_BYTES = 16 << 10
"""Frames up to this size together are written as one piece: uvloop writes one piece at far less cost than several."""

LOOK_S = 0.001
"""Outboxes are examined at most this often, however many publishers ask."""

RECHECK_S = 0.01


class Outbox:
    """What waits to be sent to one peer."""

    __slots__ = ("_settings", "bytes", "dirty", "dropped", "frames", "groups")

    def __init__(self, settings: NetSettings) -> None:
        self._settings = settings
        self.frames: deque[Frame] = deque()
        self.bytes = 0
        self.groups: dict[str, None] = {}
        """Groups with something among the frames: those to notify when the frames are dropped."""
        self.dirty = False
        """A flush is planned."""
        self.dropped = 0

    def trim(self) -> None:
        """Drop the oldest frames for a peer that is not connected, until the rest is within the bound."""
        while self.bytes > self._settings.pending_bytes_max:
            self.bytes -= sum(map(len, self.frames.popleft()))
            self.dropped += 1

    def is_over(self, link: Link) -> bool:
        """Tell whether what waits for a connected peer, here and in the transport, is over the bound."""
        return self.bytes + link.waiting_bytes() > self._settings.outbox_bytes_max

    def flush(self, link: Link | None) -> None:
        """Hand everything to the transport, unless it asked to wait."""
        self.dirty = False
        frames = self.frames
        if link is None or link.paused or not frames:
            return
        if link.transport is not None:
            pieces = frames[0] if len(frames) == 1 else list(chain.from_iterable(frames))
            if len(pieces) == 1:
                link.transport.write(pieces[0])
            elif self.bytes <= JOINED_BYTES:
                link.transport.write(b"".join(pieces))
            else:
                link.transport.writelines(pieces)
        frames.clear()
        self.groups.clear()
        self.bytes = 0

    def drop(self) -> list[str]:
        """Drop all frames; return the groups they belonged to."""
        groups = list(self.groups)
        self.dropped += len(self.frames)
        self.frames.clear()
        self.groups.clear()
        self.bytes = 0
        return groups


class Outboxes:
    """The outboxes of all peers of a node."""

    def __init__(
        self,
        me: Process,
        peers: "PeerTable",
        settings: NetSettings,
        counts: "Counter[str]",
        names: Mapping[str, Process],
    ) -> None:
        """`names`: this process's current name in each of its groups."""
        self.settings = settings
        self.datagrams: Datagrams | None = None
        self.on_unconnected: Callable[[Peer], None] = _nothing_for
        """Called with a peer that has pending frames and is not connected."""
        self.on_flush: Callable[[], None] | None = None
        """Called before anything is written: an observer must have recorded it first."""
        self.most_waiting, self._most_until = 0, 0.0
        """Bytes that waited for the slowest connected peer, and the time until which this value is reused."""
        self.unlooked_bytes, self.high_bytes = 0, settings.outbox_high_bytes
        """Bytes queued since the outboxes were examined, and how many may wait for a peer before publishers wait."""
        self._surely_bytes = settings.outbox_bytes_max - WRITE_HIGH_BYTES
        """Up to this size no outbox is over its bound: a transport that has not asked to wait has less than the
        rest."""
        self._me = me
        self._peers = peers
        self._counts = counts
        self._names = names
        self._loop = asyncio.get_running_loop()
        self._dirty: list[Peer] = []
        self._flush_planned = False
        """The dirty outboxes will be written out soon."""
        self._caught_up: asyncio.Future[None] | None = None

    # --- sending ---

    def send(self, group: str, to: Iterable[int], item: Item, incarnation: int = ANY_INCARNATION) -> int:
        """Queue an item for some peers; return its size on the wire."""
        frame = encode_parts(group, self._names.get(group) or self._me, item, incarnation)
        size = sum(map(len, frame))
        peers = self._peers.by_pid
        datagrams = self.datagrams if isinstance(item, Gossip) else None
        for pid in to:
            if datagrams is not None and datagrams.send(pid, frame, size):
                continue
            peer = peers.get(pid)
            if peer is None:
                if pid == self._me.pid:
                    continue
                peer = self._peers.add(pid)
            outbox, link = peer.outbox, peer.link
            outbox.frames.append(frame)
            outbox.bytes += size
            outbox.groups[group] = None
            if link is None:
                outbox.trim()
                self.on_unconnected(peer)
            elif (link.paused or outbox.bytes > self._surely_bytes) and outbox.is_over(link):
                self._counts["outbox_overflow"] += 1
                peer.cut_off("more bytes waited for it than outbox_bytes_max")
            elif not outbox.dirty:
                outbox.dirty = True
                self._dirty.append(peer)
                if not self._flush_planned:
                    self._flush_planned = True
                    self._loop.call_soon(self.flush)
        return size

    def ask(self, pids: Iterable[int]) -> None:
        """Ping peers now: an answer shows that they have read what was sent to them before."""
        self.send(NODE, pids, Ping(steady_ns()))

    def at_once(self, work: Callable[[], None]) -> None:
        """Call `work`, and write out what it sends when it returns, not at the end of the turn."""
        self._flush_planned = True
        try:
            work()
        finally:
            self.flush()

    def flush(self) -> None:
        """Write out what this turn of the loop has queued."""
        self._flush_planned = False
        self._most_until = 0.0
        if self.on_flush is not None:
            self.on_flush()
        dirty, self._dirty = self._dirty, []
        for peer in dirty:
            self.unlooked_bytes += peer.outbox.bytes
            peer.outbox.flush(peer.link)
        if self._caught_up is not None and not self.congested():
            self._relieve()

    # --- who is behind ---

    def congested(self) -> bool:
        """Tell whether publishers should wait: some connected peer is behind."""
        return self.waiting_bytes() > self.high_bytes

    def waiting_bytes(self) -> int:
        """Return the bytes that wait for the slowest connected peer, except peers recently cut off for a stall."""
        if not self.most_waiting and self.unlooked_bytes <= LIGHT_BYTES:
            return 0
        now = self._loop.time()
        if now >= self._most_until:
            self._most_until, self.unlooked_bytes = now + LOOK_S, 0
            waiting = [peer.waiting_bytes() for peer in self._peers.connected() if peer.shunned_until <= now]
            self.most_waiting = max(waiting, default=0)
        return self.most_waiting

    def waiting_by_peer(self) -> dict[int, int]:
        """Return the bytes that wait for each connected peer."""
        return {peer.pid: peer.waiting_bytes() for peer in self._peers.connected()}

    async def caught_up(self) -> None:
        """Wait until a peer has caught up or was cut off, at most RECHECK_S."""
        if self._caught_up is None or self._caught_up.done():
            self._caught_up = self._loop.create_future()
        with contextlib.suppress(TimeoutError):  # a transport that was never full does not announce that it is empty
            await asyncio.wait_for(asyncio.shield(self._caught_up), RECHECK_S)

    def resumed(self, peer: "Peer") -> None:
        """Write what waited for a peer's transport, which accepts bytes again."""
        self._most_until = 0.0
        peer.outbox.flush(peer.link)
        if not self.congested():
            self._relieve()

    def lost(self) -> None:
        """Note that a connection is gone: no publisher waits for that peer any more."""
        self._most_until = 0.0
        self._relieve()

    def _relieve(self) -> None:
        if self._caught_up is not None and not self._caught_up.done():
            self._caught_up.set_result(None)


def _nothing_for(peer: "Peer") -> None:
    """Do nothing."""
