"""Who lives above the connections of a node, as the connections see it."""

from collections.abc import Iterable
from typing import Protocol

from whence.types import Process
from whence.wire.items import Packet


class Host(Protocol):
    """Who lives above the connections."""

    def peer_up(self, peer: Process) -> None:
        """Learn that a peer is connected."""

    def peer_down(self, peer: int, groups: Iterable[str] | None) -> None:
        """Learn that what was sent to a peer did not arrive: of these groups, or of all."""

    def heartbeat(self) -> None:
        """Do what is done now and then."""

    def peer_answered(self) -> None:
        """Learn that some peer has answered what it was asked."""

    def packet(self, packet: Packet, sender: Process, size: int) -> None:
        """Take a packet of a group."""

    def name_refused(self, why: str) -> None:
        """Learn that this process cannot go by its pid."""
