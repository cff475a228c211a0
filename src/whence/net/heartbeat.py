"""Failure detection: every connected peer is pinged now and then; one that is silent for too long or takes nothing is
cut off.

Law: a peer's silence counts only while this node has listened: a beat that comes late, or while nothing is read, counts
as if every peer had answered.
"""

import asyncio
import logging
from collections import Counter

from whence.core.links.detector import Ping
from whence.net import names
from whence.net.addresses import AddressExchange
from whence.net.clock import steady_ns
from whence.net.outboxes import NODE, Outboxes
from whence.net.peers import Peer, PeerTable
from whence.net.presence import PresenceExchange
from whence.net.settings import NetSettings
from whence.types import Instant

log = logging.getLogger("whence.net")

SHUN_S = 60.0
"""A peer that took nothing until it was cut is not waited for again within this time: it would stop publishers each
time it connects. It is sent what it takes, up to its outbox, and the credit of the groups waits for it once it takes
something."""

REMIND_BEATS = 4
"""Every REMIND_BEATS heartbeats a peer is sent addresses that it may have missed."""


class Heartbeat:
    """Pings all connected peers, and judges their silence."""

    def __init__(
        self,
        peers: PeerTable,
        outboxes: Outboxes,
        addresses: AddressExchange,
        presence: PresenceExchange,
        settings: NetSettings,
        counts: "Counter[str]",
    ) -> None:
        self.is_reading = True
        """This node reads from its peers at present."""
        self._peers, self._outboxes, self._addresses, self._presence = peers, outboxes, addresses, presence
        self._settings, self._counts = settings, counts
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._beats, self._due = 0, 0.0

    def start(self) -> None:
        """Ping every peer now, and from then on."""
        self._beat()

    def stop(self) -> None:
        """Stop pinging."""
        if self._timer is not None:
            self._timer.cancel()

    def answered(self, peer: Peer, asked: Instant) -> bool:
        """Take an answer to the ping sent at a given time; return whether it says anything new about its connection."""
        now = steady_ns()
        if peer.link is not None:
            peer.detector.answered(asked, now)
        names.answered(peer, asked, now)
        if not peer.echoed_ns < asked <= now:
            return False
        peer.echoed_ns = asked
        return True

    def _beat(self) -> None:
        """Ping every peer, suspect the silent, cut off the stalled."""
        now, beat_s = steady_ns(), self._settings.heartbeat_ns / 1e9
        late = self._beats > 0 and self._loop.time() - self._due > beat_s
        """This beat is so late that the silence may be this node's own."""
        self._beats, self._due = self._beats + 1, self._loop.time() + beat_s
        self._timer = self._loop.call_later(beat_s, self._beat)
        for peer in self._peers.connected():
            assert peer.link is not None
            if peer.link.fresh or late or not self.is_reading:
                peer.link.fresh = False
                peer.detector.heard(now)
            self._judge_stall(peer)
            if peer.detector.suspects(now):
                self._counts["suspected"] += 1
                log.info("%s has not been heard for too long", self._peers.called(peer.pid))
                peer.cut_off("it was silent for too long")
        self._outboxes.send(NODE, self._peers.connected_pids(), Ping(now))
        if self._beats % REMIND_BEATS == 0:
            self._addresses.remind()
        self._presence.heartbeat()

    def _judge_stall(self, peer: Peer) -> None:
        assert peer.link is not None
        if not peer.link.paused:
            peer.stalled_since = None
        elif peer.stalled_since is None:
            peer.stalled_since = self._loop.time()
        elif self._loop.time() - peer.stalled_since > self._settings.stall_ns / 1e9:
            self._counts["stalled"] += 1
            peer.shunned_until = self._loop.time() + SHUN_S
            peer.cut_off(
                f"it took nothing for {self._settings.stall_ns / 1e9:g} s while bytes waited for it (stall_ns)"
            )
