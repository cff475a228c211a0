"""Where an incoming packet goes: to the member of its group, to the presence exchange, or to the node itself.

Law: a packet is accepted only in its sender's own name; in a closed group only from those that the table of rights
admits; and bundles that a peer relays and that cannot be their publisher's are left out (net/provenance.py).
"""

import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial

from whence.core.links.addresses import Addresses
from whence.core.links.detector import Ping, Pong
from whence.core.links.presence import Place, Presence
from whence.core.links.reached import Reached
from whence.core.ready import Item
from whence.errors import RemoteProtocolError
from whence.net.addresses import AddressExchange
from whence.net.driver import Driver
from whence.net.heartbeat import Heartbeat
from whence.net.link import Link
from whence.net.outboxes import NODE, Outboxes
from whence.net.peers import PeerTable
from whence.net.permits import Permits
from whence.net.presence import PresenceExchange
from whence.net.provenance import HEARSAY, without_contradicted
from whence.net.requests import Requests
from whence.types import Process
from whence.wire.items import Packet

log = logging.getLogger("whence.net")


class PacketRouter:
    """Hands every packet to its destination."""

    def __init__(
        self,
        drivers: Mapping[str, Driver],
        peers: PeerTable,
        outboxes: Outboxes,
        addresses: AddressExchange,
        heartbeat: Heartbeat,
        presence: PresenceExchange,
        permits: Permits,
        counts: "Counter[str]",
    ) -> None:
        self._drivers, self._peers, self._outboxes = drivers, peers, outboxes
        self._addresses, self._heartbeat, self._presence = addresses, heartbeat, presence
        self._permits, self._counts = permits, counts
        self._requests = Requests(counts)

    def route(self, link: Link, packet: Packet, size: int) -> None:
        """Take a packet from a connection. Raises RemoteProtocolError for one in another's name."""
        peer = link.peer
        assert peer is not None
        if (
            packet.pid != peer.pid or packet.incarnation < peer.incarnation
        ):  # a group opened again has a later incarnation of its own
            self._counts["forged_sender"] += 1
            raise RemoteProtocolError(f"{peer.pid} sent a packet in the name of {packet.pid}")
        if packet.group == NODE:
            for item in packet.items:
                self._between_nodes(peer.pid, item)
        else:
            self.to_group(
                packet,
                peer if packet.incarnation == peer.incarnation else Process(packet.pid, packet.incarnation),
                size,
                link,
            )

    def to_group(self, packet: Packet, sender: Process, size: int, link: Link | None = None) -> None:
        """Hand a packet to its group's member; `link`: the connection that it came on, if it came on one."""
        group, item = packet.group, packet.items[0]
        driver = self._drivers.get(group)
        if driver is None:
            self._counts["no_such_group"] += 1
        elif group in self._permits.closed and not self._permits.admits(packet):
            self._refuse(driver, packet)
        elif isinstance(item, Reached):
            if packet.to_incarnation == driver.context.me.incarnation:
                driver.reached(packet.pid, item.last, item.waited_us / 1e6, item.left_out)
        elif isinstance(item, Presence):
            if item.place == Place.GONE:
                self._requests.withdraw(group, packet.pid)
            self._presence.hear(driver, sender, item)
        elif item.needs_its_sender and link is not None and len(packet.items) == 1:
            hand_in = partial(self._asked, group, packet, sender, size)
            self._requests.take(group, packet.pid, link, hand_in)
        elif _is_hearsay(packet):
            self._hearsay(driver, packet, sender, size)
        else:
            driver.packet(packet, sender, size)

    def _asked(self, group: str, packet: Packet, sender: Process, size: int) -> None:
        """Hand in a request of somebody who is still there, if the group still is."""
        if (driver := self._drivers.get(group)) is not None:
            driver.packet(packet, sender, size)

    def _refuse(self, driver: Driver, packet: Packet) -> None:
        if not driver.counts["reject:not_permitted"]:
            log.warning(
                "%s sent what it has no right to in group %r; it is dropped (told once)",
                self._peers.called(packet.pid), packet.group,
            )  # fmt: skip
        driver.ports.count("reject", "not_permitted", packet.pid)

    def _hearsay(self, driver: Driver, packet: Packet, sender: Process, size: int) -> None:
        """Hand on a packet with bundles of other processes, without those that cannot be theirs."""
        group = driver.group
        genuine, refused = without_contradicted(
            packet, driver.context.me, driver.flow.published_events, lambda pid: self._peers.member(group, pid)
        )
        for _ in range(refused):
            driver.ports.count("reject", "contradicted", packet.pid)
        if genuine is not None:
            driver.packet(genuine, sender, size)

    def _between_nodes(self, pid: int, item: Item) -> None:
        """Take an item that belongs to no group. Raises RemoteProtocolError for one that is out of place."""
        if isinstance(item, Ping):
            self._outboxes.send(NODE, [pid], Pong(item.sent))
        elif isinstance(item, Pong):
            peer = self._peers.by_pid.get(pid)
            if peer is not None and self._heartbeat.answered(peer, item.sent):
                self._presence.changed()
        elif isinstance(item, Addresses):
            self._addresses.heard(pid, item)
        else:
            self._counts["out_of_place"] += 1
            raise RemoteProtocolError(f"a {type(item).__name__} is out of place between nodes")


def _is_hearsay(packet: Packet) -> bool:
    """Tell whether a packet carries bundles of other processes than its sender: most do not, and need no further
    check."""
    sender = packet.pid
    for item in packet.items:
        if isinstance(item, HEARSAY):
            for bundle in item.bundles:
                if bundle.pid != sender:
                    return True
    return False
