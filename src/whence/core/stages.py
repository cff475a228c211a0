"""The three stages of a staged member. A gossip level is a choice of one part for each.

Membership knows whom to talk to, spreading gets bundles to them, ordering decides when a bundle may be delivered.
Each stage writes what it causes into the Ready it is given.
"""

from collections.abc import Sequence
from typing import Protocol

from whence.core.ready import Gauge, Item, Ready
from whence.types import Bundle, Instant, Process


class Order(Protocol):
    """Decide when a bundle may be delivered."""

    def stamp(self, now: Instant) -> bytes:
        """Return what a bundle published now comes after."""

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Take the member's own bundle: its publisher delivers it at creation."""

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver a bundle now or hold it back; deliver what waited for it."""

    def tick(self, now: Instant, ready: Ready) -> None:
        """Give up the waits that have lasted long enough."""

    def wake_at(self) -> Instant | None:
        """Return when tick has something to do."""

    def snapshot(self) -> bytes:
        """Return what a newcomer must know in order not to wait for past events."""

    def adopt(self, snapshot: bytes) -> None:
        """Start from a member's snapshot. Raises ValueError if it is not one."""

    def gauges(self) -> list[Gauge]:
        """Return how full the buffers are."""


class Spread(Protocol):
    """Get bundles to every member."""

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Start spreading the member's own bundle."""

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> list[Bundle]:
        """Take a peer's item; return the bundles seen for the first time. Without any, wake_at stays as it was."""

    def tick(self, now: Instant, ready: Ready) -> None:
        """Do a round's work if one is due."""

    def wake_at(self) -> Instant | None:
        """Return when tick has something to do."""

    def gauges(self) -> list[Gauge]:
        """Return how full the buffers are."""

    def settled(self) -> int | None:
        """Return the last of the member's own events that every peer it knows has; None if that is never known."""

    def missing(self, last: int) -> tuple[int, ...] | None:
        """Return the peers not known to have the member's own events up to `last`; None if that is never known."""


class Members(Protocol):
    """Know whom to talk to."""

    items: tuple[type[Item], ...]
    """The items that membership alone reads."""

    def found(self, peers: Sequence[Process], now: Instant) -> None:
        """Start as one of the first members."""

    def join(self, contacts: Sequence[int], now: Instant, ready: Ready) -> None:
        """Ask to be let in by any of these peers."""

    def leave(self, now: Instant) -> None:
        """Begin to announce that this member leaves."""

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> bytes | None:
        """Take a peer's item; return the snapshot to start from if it lets this process in."""

    def alone(self) -> bool:
        """Tell whether there seems to be no member that could let this process in."""

    def settle(self) -> None:
        """Stop asking: this process is a member now."""

    def unreachable(self, peer: int) -> None:
        """Learn that something sent to a peer did not arrive."""

    def meet(self, peer: Process) -> None:
        """Learn from a peer itself that it is a member."""

    def parted(self, peer: Process) -> None:
        """Learn from a peer itself that it is no longer a member."""

    def view(self) -> tuple[int, ...] | None:
        """Return the peers known now, in order; None if the driver knows better."""

    def gone(self) -> bool:
        """Tell whether the farewell has spread and the member may stop."""

    def tick(self, now: Instant, ready: Ready) -> None:
        """Ask again if an answer is overdue."""

    def wake_at(self) -> Instant | None:
        """Return when tick has something to do."""

    def gauges(self) -> list[Gauge]:
        """Return how full the buffers are."""
