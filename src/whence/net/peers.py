"""The table of peers: one record for each, and the one place that says who is connected, and whose a number is.

Law: a record outlives connections, because a peer's last name and how often it was wrongly suspected count when it
comes back. What it says about groups counts while it is connected, and is forgotten with its connection; only groups
that are open here are remembered, so what a peer can make a node remember is bounded by what the node itself has open.

Which peers a member of a group considers members is decided separately, by its level's protocol (core/membership).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from whence.core.links.addresses import Address, Book
from whence.core.links.detector import Detector
from whence.core.links.presence import Place, Presence
from whence.core.links.process_names import NameBook, called
from whence.net.link import Link
from whence.net.outboxes import Outbox
from whence.net.settings import NetSettings
from whence.types import Instant, Process


class PeerPresence(NamedTuple):
    """A peer's relation to a group, as it last announced it."""

    presence: Presence
    process: Process
    """The peer's name in this group."""


class Peer:
    """One peer, connected or not."""

    __slots__ = (
        "_settings", "answered_at", "asked_at", "calling", "detector", "echoed_ns", "failures", "instance", "link",
        "lost_at", "name", "outbox", "pid", "presence", "process", "retry_at", "shunned_until", "stalled_since",
    )  # fmt: skip

    def __init__(self, pid: int, settings: NetSettings) -> None:
        self.pid = pid
        self._settings = settings
        self.link: Link | None = None
        """The connection that is written to; None while there is none."""
        self.outbox = Outbox(settings)
        self.detector = Detector(settings)
        self.presence: dict[str, PeerPresence] = {}
        """Its last announcement about each group that is open here."""
        # who it is
        self.process: Process | None = None
        """The process that uses this pid: the one that is connected, or was last."""
        self.name = ""
        """The name that this process gave; empty where it has none."""
        self.instance = b""
        self.lost_at: Instant | None = None
        """When it was lost; None while it is connected."""
        self.asked_at: Instant | None = None
        """When it was first asked, since its last answer, whether it still runs, because another came in its name."""
        self.answered_at: Instant | None = None
        """When it answered that."""
        # calls
        self.calling = False
        self.failures = 0
        self.retry_at = 0.0
        # how well it keeps up
        self.echoed_ns = 0
        """When the last ping it has answered on this connection was sent: it has read everything before that."""
        self.stalled_since: float | None = None
        self.shunned_until = 0.0
        """It was cut off for taking nothing; until then no publisher waits for it."""

    def attach(self, link: Link, process: Process, instance: bytes, now: Instant, name: str = "") -> None:
        """Make this the connection to this peer; the process uses its pid from now on."""
        before = self.process
        if (before, self.instance) != (process, instance):
            self.asked_at = self.answered_at = None
        if before is not None and self.name and name != self.name:
            before = None  # another process, which took over the number
        self.process, self.instance, self.lost_at, self.name = process, instance, None, name
        self.link, self.failures, self.retry_at, self.stalled_since, self.echoed_ns = link, 0, 0.0, None, 0
        if before is None or process.incarnation > before.incarnation:
            self.detector = Detector(self._settings)
        self.detector.heard(now)

    def detach(self, now: Instant) -> None:
        """Note that the connection to this peer is gone."""
        self.link = None
        self.lost_at, self.asked_at, self.answered_at = now, None, None
        self.presence.clear()
        self.detector.lost()

    def waiting_bytes(self) -> int:
        """Return the bytes that have not gone out yet, here and in the transport."""
        return self.outbox.bytes + (self.link.waiting_bytes() if self.link is not None else 0)

    def cut_off(self, reason: str) -> None:
        """Close the connection of a peer that does not keep up, and drop its pending frames."""
        self.outbox.drop()
        if self.link is not None:
            self.link.close(reason)


class PeerTable:
    """All peers that this node was ever connected to or sent anything to, and the addresses of all known processes."""

    def __init__(
        self,
        me: Process,
        settings: NetSettings,
        name: str = "",
        known: dict[str, int] | None = None,
        on_name: Callable[[dict[str, int]], None] = lambda names: None,
    ) -> None:
        """`known`: names that were met before, with their numbers; `on_name` is called when another is met."""
        self.by_pid: dict[int, Peer] = {}
        self.names = NameBook(known)
        """Whose each number is, as the processes themselves say, or others say of them."""
        self.names.learn(name, me.pid)
        self.book = Book(Address(*me, "", 0))
        """The addresses of peers, including those this node never connected to."""
        self._me, self._name = me, name
        self._on_name = on_name
        self._settings = settings

    def listen(self, host: str, port: int) -> None:
        """Begin the address book with this node's own address."""
        self.book = Book(Address(*self._me, host, port, self._name))

    def add(self, pid: int) -> Peer:
        """Return the record of a peer; create it if there is none."""
        peer = self.by_pid.get(pid)
        if peer is None:
            peer = self.by_pid[pid] = Peer(pid, self._settings)
        return peer

    # --- names ---

    def met(self, process: Process, name: str) -> None:
        """Note what a connected peer calls itself: the number is that name's from now on."""
        self._rename(name, process.pid)

    def rumoured(self, address: Address) -> None:
        """Note what others call a process: that counts while neither its name nor its number is known otherwise."""
        met = self.by_pid.get(address.pid)
        if met is not None and met.process is not None:
            return
        if address.name and not self.names.name(address.pid) and self.names.number(address.name) is None:
            self._rename(address.name, address.pid)

    def _rename(self, name: str, pid: int) -> None:
        former = self.names.number(name) if name else None
        if name and self.names.learn(name, pid):
            if former is not None:
                self.book.forget(former)
            self._on_name(self.names.all())

    def by_name(self, name: str) -> Peer | None:
        """Return the record of the process with a name; None if it is not known, or is this process."""
        number = self.names.number(name) if name else None
        return self.by_pid.get(number) if number is not None else None

    def called(self, pid: int) -> str:
        """Return how messages call a process: by its name and number, or by its number alone."""
        return called(pid, self.names.name(pid))

    # --- who is connected ---

    def connected(self) -> list[Peer]:
        """Return the peers that are connected now."""
        return [peer for peer in self.by_pid.values() if peer.link is not None]

    def connected_pids(self) -> list[int]:
        """Return the pids of the connected peers."""
        return [peer.pid for peer in self.by_pid.values() if peer.link is not None]

    def is_connected(self, pid: int) -> bool:
        """Tell whether a peer is connected now."""
        peer = self.by_pid.get(pid)
        return peer is not None and peer.link is not None

    def rtt_ns(self, pid: int) -> int | None:
        """Return the usual round trip to a connected peer, None if none was measured."""
        peer = self.by_pid.get(pid)
        return peer.detector.rtt_ns if peer is not None and peer.link is not None else None

    # --- who is in which group ---

    def hear(self, group: str, process: Process, presence: Presence) -> bool:
        """Remember a peer's announcement about an open group; return whether it is the first since it connected."""
        said = self.add(process.pid).presence
        first = group not in said
        said[group] = PeerPresence(presence, process)
        return first

    def forget(self, group: str, pids: Iterable[int] | None = None) -> None:
        """Forget what some peers, or all, have announced about a group."""
        for pid in self.by_pid if pids is None else pids:
            if pid in self.by_pid:
                self.by_pid[pid].presence.pop(group, None)

    def presence(self, group: str, pid: int) -> PeerPresence | None:
        """Return a peer's last announcement about a group."""
        peer = self.by_pid.get(pid)
        return peer.presence.get(group) if peer is not None else None

    def members(self, group: str) -> list[PeerPresence]:
        """Return the announcements of a group's members."""
        return self._at(group, Place.MEMBER)

    def wanting(self, group: str) -> list[int]:
        """Return the pids of peers that want to be members."""
        return [said.process.pid for said in self._at(group, Place.WANTS)]

    def returning(self, group: str) -> list[int]:
        """Return the pids of peers that want to be members again, and have the journals of when they were."""
        return [said.process.pid for said in self._at(group, Place.WANTS) if said.presence.founders]

    def member(self, group: str, pid: int) -> Process | None:
        """Return a peer's name in a group, None if it is not a member."""
        said = self.presence(group, pid)
        return said.process if said is not None and said.presence.place == Place.MEMBER else None

    def _at(self, group: str, place: Place) -> list[PeerPresence]:
        found = [peer.presence.get(group) for peer in self.by_pid.values()]
        return [said for said in found if said is not None and said.presence.place == place]
