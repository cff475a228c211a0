"""The three stages of a member, and the door a driver knocks at. A level is a choice of one part for each stage.

Membership knows whom to talk to, spreading gets bundles to them, ordering decides when a bundle may be delivered.
Each stage writes what it causes into the Ready it is given.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from whence.core.ready import Gauge, Item, Ready
from whence.types import Bundle, Instant, Process


class Order(Protocol):
    """Decide when a bundle may be delivered."""

    def stamp(self, now: Instant) -> bytes:
        """Return what a bundle published now comes after."""

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Take the member's own bundle: its publisher delivers it at creation."""

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver a bundle now or hold it, and release everything it was awaited for."""

    def tick(self, now: Instant, ready: Ready) -> None:
        """Give up waiting where the time for it has passed."""

    def wake_at(self) -> Instant | None:
        """Return when tick has something to do."""

    def snapshot(self) -> bytes:
        """Return what a newcomer must know so as not to wait for the past."""

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
        """Do a round's work where it is due."""

    def wake_at(self) -> Instant | None:
        """Return when tick has something to do."""

    def gauges(self) -> list[Gauge]:
        """Return how full the buffers are."""

    def settled(self) -> int | None:
        """Return the last of the member's own events that every peer it knows has; None if that is never known."""

    def missing(self, last: int) -> tuple[int, ...] | None:
        """Return the peers not known to have the member's own events up to this one; None if that is never known."""


class Members(Protocol):
    """Know whom to talk to."""

    items: tuple[type[Item], ...]
    """The items that membership alone reads."""

    def found(self, peers: Sequence[Process], now: Instant) -> None:
        """Start as one of the first members."""

    def join(self, contacts: Sequence[int], now: Instant, ready: Ready) -> None:
        """Ask to be let in by any of these peers."""

    def leave(self, now: Instant) -> None:
        """Begin to tell the others that this member goes."""

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> bytes | None:
        """Take a peer's item; return the snapshot to start from if it lets this process in."""

    def alone(self) -> bool:
        """Tell whether nobody seems to be there to let this process in."""

    def settle(self) -> None:
        """Stop asking: this process is a member now."""

    def unreachable(self, peer: int) -> None:
        """Learn that something sent to a peer did not arrive."""

    def meet(self, peer: Process) -> None:
        """Learn from a peer itself that it is a member."""

    def parted(self, peer: Process) -> None:
        """Learn from a peer itself that it is a member no more."""

    def view(self) -> tuple[int, ...] | None:
        """Return the peers known now, in order; None if the driver knows better."""

    def gone(self) -> bool:
        """Tell whether the farewell has spread and the member may stop."""

    def tick(self, now: Instant, ready: Ready) -> None:
        """Ask again where an answer is overdue."""

    def wake_at(self) -> Instant | None:
        """Return when tick has something to do."""

    def gauges(self) -> list[Gauge]:
        """Return how full the buffers are."""


class Grouped(Protocol):
    """A member that serves several groups of one overlay."""

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a group as one bundle."""


@runtime_checkable
class Resuming(Protocol):
    """A member that keeps no payloads of others on disk: what the application has not taken is fetched again."""

    def resume(self, taken: Sequence[int], told: int, begun: Sequence[int] = ()) -> None:
        """Learn, before an earlier life is taken up, what the application has: messages of each node, word of so many
        publications, and how many messages of each node counting one of which it has a part."""

    def take(self, process: int) -> None:
        """Learn that the application takes the next message of a process."""

    def taken(self) -> Sequence[int]:
        """Return how many messages the application has taken, by place."""

    def place_of(self, process: int) -> int:
        """Return the place of a process among the nodes: its messages are counted there."""


@runtime_checkable
class Returning(Protocol):
    """A member whose later lives go on with its numbers: others know whether its journal is the newest."""

    def unanswered(self) -> tuple[int, ...]:
        """Return the processes that can tell how much they have of what was published here, and have not, in this
        life."""


class Member(Protocol):
    """The door a driver knocks at: one input, one Ready. Node is the usual one; a level may bring its own."""

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start as one of the first members."""

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Ask to be let in."""

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Take up again what an earlier life persisted."""

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events as one bundle."""

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take a peer's item."""

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Learn that something sent to a peer did not arrive."""

    def leave(self, now: Instant) -> Ready:
        """Begin to leave."""

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Do what only this level knows, such as asking for a ticket. Raises UsageError for an unknown name."""

    def tick(self, now: Instant) -> Ready:
        """Do what time asks for."""

    def view(self) -> tuple[int, ...] | None:
        """Return the peers known now, in order; None if the driver knows better."""

    def gauges(self) -> list[Gauge]:
        """Return how full the buffers are."""
