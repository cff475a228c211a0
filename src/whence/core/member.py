"""The interface of every level's members, and the capabilities that a member may declare beyond it.

A capability is asked for by its type; a driver that meets a member without it does what stands beside it here.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from whence.core.ready import Gauge, Item, Metric, Ready
from whence.core.ticket_status import TicketStatus
from whence.errors import Refusal
from whence.types import Bundle, Instant, Process


class Member(Protocol):
    """The door a driver knocks at: one input, one Ready. StagedMember is the usual one; a level may bring its own."""

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


# --- capabilities of members ---


@runtime_checkable
class Checkpointed(Protocol):
    """Knows records that stand for all it ever persisted. Else its journal is never rewritten."""

    def checkpoint(self) -> list[bytes]:
        """Return the records."""


@runtime_checkable
class Sized(Protocol):
    """Knows how large its checkpoint is at least, without making it. Else that counts as nothing."""

    def checkpoint_bytes(self) -> int:
        """Return so many bytes."""


@runtime_checkable
class Settled(Protocol):
    """Knows itself who has which of its events. Else members tell each other how far their applications are."""

    def settled(self) -> int | None:
        """Return the last own event that every other member has; None: who has what must be asked elsewhere."""

    def missing(self, last: int) -> tuple[int, ...] | None:
        """Return the members that may not have the own events up to this one; None: as above."""


@runtime_checkable
class Refusing(Protocol):
    """May refuse to publish for reasons that pass: a ticket, a lease, a clock. Else it always may."""

    def refusal(self, now: Instant) -> Refusal | None:
        """Return the error that publishing now would raise, if it would."""


@runtime_checkable
class FlowControlled(Protocol):
    """Publishing more can make something come too late. Else only what others have taken holds publishers back."""

    def held_back(self) -> bool:
        """Tell whether publishers should wait."""

    def full_window(self) -> tuple[str, int, int] | None:
        """Return the limit that is reached, its value and what was asked for; None if none is."""


@runtime_checkable
class Dynamic(Protocol):
    """Learns from connected peers that they are members, or no more. Else it need not know."""

    def meet(self, peer: Process, now: Instant) -> Ready:
        """Learn of a member."""

    def parted(self, peer: Process, now: Instant) -> Ready:
        """Learn that a peer is none any more."""


@runtime_checkable
class Leased(Protocol):
    """Acts under a ticket with a lease. Else it has no ticket to tell of."""

    def status(self, now: Instant) -> TicketStatus:
        """Return how it stands in its cluster."""


class OverlayStatus(Struct, frozen=True):
    """The peers that a member reaches without another between."""

    neighbours: list[int]
    active: list[int]
    """Those it sends to at present: as the neighbours, where nobody is suspected."""
    suspected: list[int]


@runtime_checkable
class OnOverlay(Protocol):
    """Has a place among fixed peers. Else it has no neighbours to tell of."""

    def overlay_status(self) -> OverlayStatus:
        """Return whom it has around it, and whom it sends to at present where some are suspected."""


@runtime_checkable
class Measured(Protocol):
    """Counts more than its gauges tell."""

    def metrics(self) -> list[Metric]:
        """Return what it counts and measures."""


@runtime_checkable
class Founded(Protocol):
    """Is of a group whose members are fixed when it begins."""

    founders: list[Process]


@runtime_checkable
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

    @property
    def taken(self) -> list[int]:
        """Return how many messages of each node the application has taken, by place. It is one list for life, counted
        in core/offsets.py; a member only ever raises it while it is restored, by what its journal knows."""

    def place_of(self, process: int) -> int:
        """Return the place of a process among the nodes: its messages are counted there."""


@runtime_checkable
class Returning(Protocol):
    """A member whose later lives go on with its numbers: others know whether its journal is the newest."""

    def unanswered(self) -> tuple[int, ...]:
        """Return the processes that can tell how much they have of what was published here, and have not, in this
        life."""
