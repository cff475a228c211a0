"""The interface of every level's members, and the capabilities that a member may declare beyond it.

A driver asks for a capability by its type. Each one says what the driver does for a member that lacks it.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from whence.core.ready import Gauge, Item, Metric, Note, Ready
from whence.core.ticket_status import TicketStatus
from whence.errors import Refusal, RemovedError
from whence.types import Bundle, Instant, Process


class Member(Protocol):
    """What a driver calls: one input, one Ready. StagedMember is the usual one; a level may bring its own."""

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start as one of the first members."""

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Ask to be let in."""

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Resume from what an earlier incarnation persisted."""

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events as one bundle."""

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take a peer's item."""

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Learn that something sent to a peer did not arrive."""

    def leave(self, now: Instant) -> Ready:
        """Begin to leave."""

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Do something specific to this level, such as asking for a ticket. Raises UsageError for an unknown name."""

    def tick(self, now: Instant) -> Ready:
        """Do what is due."""

    def view(self) -> tuple[int, ...] | None:
        """Return the peers known now, in order; None if the driver knows better."""

    def gauges(self) -> list[Gauge]:
        """Return how full the buffers are."""


# --- capabilities of members ---


@runtime_checkable
class Checkpointed(Protocol):
    """Can replace everything it ever persisted with a few records. Else its journal is never rewritten."""

    def checkpoint(self) -> list[bytes]:
        """Return the records."""


@runtime_checkable
class Sized(Protocol):
    """Knows the least size of its checkpoint without making it. Else that counts as 0."""

    def checkpoint_bytes(self) -> int:
        """Return that size in bytes."""


@runtime_checkable
class Settled(Protocol):
    """Knows by itself which member has which of its events. Else members report to each other how far their
    applications are."""

    def settled(self) -> int | None:
        """Return the last own event that every other member has; None: the driver must find that out elsewhere."""

    def missing(self, last: int) -> tuple[int, ...] | None:
        """Return the members that may not have the own events up to `last`; None: as above."""


@runtime_checkable
class Refusing(Protocol):
    """May refuse to publish for reasons that pass: a ticket, a lease, a clock. Else it never does."""

    def refusal(self, now: Instant) -> Refusal | None:
        """Return the error that publishing now would raise, if it would."""


@runtime_checkable
class FlowControlled(Protocol):
    """Publishing more can make something arrive too late. Else only what others have taken holds publishers back."""

    def held_back(self) -> bool:
        """Tell whether publishers should wait."""

    def full_window(self) -> tuple[str, int, int] | None:
        """Return the limit that is reached, its value and what was asked for; None if no limit is."""


@runtime_checkable
class Dynamic(Protocol):
    """Learns from connected peers that they are members, or no longer are. Else it need not know."""

    def meet(self, peer: Process, now: Instant) -> Ready:
        """Record that a peer is a member."""

    def parted(self, peer: Process, now: Instant) -> Ready:
        """Record that a peer is no longer a member."""


@runtime_checkable
class Leased(Protocol):
    """Acts under a ticket with a lease. Else it has no ticket to report."""

    def status(self, now: Instant) -> TicketStatus:
        """Return its status in its cluster."""


class OverlayStatus(Struct, frozen=True):
    """The peers that a member reaches directly."""

    neighbours: list[int]
    active: list[int]
    """The peers it sends to at present: the neighbours, if none is suspected."""
    suspected: list[int]


@runtime_checkable
class OnOverlay(Protocol):
    """Has a place among fixed peers. Else it has no neighbours to report."""

    def overlay_status(self) -> OverlayStatus:
        """Return its neighbours, the peers it sends to at present, and the peers it suspects."""


class MemberStatus(Struct, frozen=True):
    """One member of a view, as another one sees it."""

    pid: int
    joined: int
    """The epoch of the view that added it."""
    voter: bool
    live: bool
    """It takes part: it has shown so, which a newcomer does not at first, and is not suspected."""
    suspected: bool
    """It owes an answer for too long, or its connection is gone."""
    lag: int
    """Messages that were received here and that its application is not known to have taken."""
    name: str = ""
    address: str = ""
    """Its name and where it is reached; empty where the node does not know them."""


class ViewStatus(Struct, frozen=True):
    """A view, and how far its change is."""

    epoch: int
    """The number of the view in which this member publishes."""
    adopted: int
    """The number of the latest view that it knows."""
    members: tuple[MemberStatus, ...]
    frozen: tuple[int, ...]
    """Members whose messages are not taken until a change is decided."""
    leader: int
    """Who leads changes at present."""
    waits_for: tuple[int, ...]
    """Whom a change waits for."""
    generation: int = 0
    """How often an operator forced the group."""
    change: str = ""
    """The change that is under way or wanted, as far as this member knows, and how far it is; empty: none."""
    leaving: bool = False
    """This member has asked to leave."""
    has_quorum: bool = True
    """Whether those that answer, and are not to be removed, contain a quorum of the voters: then members can be
    removed, and nothing need be forced."""
    survivors: tuple[int, ...] = ()
    """Whom an operator lets the group go on with, while that is under way here."""
    will_vote: bool = False
    """This member came later and does not vote yet; it will, once all applications have taken what was published before
    it came. Until then the group can do without fewer of the others."""


@runtime_checkable
class Living(Protocol):
    """Belongs to a group whose members change by views. Else they are those that announced themselves, and the
    founders."""

    birth: int
    """What tells a group that it begins from others of its name; the same at all founders."""

    @property
    def is_member(self) -> bool:
        """Tell whether it is, or was, a member."""

    @property
    def line(self) -> int:
        """Return which group of its name it is in, and which generation of it; 0 outside any."""

    def call_by(self, named: Callable[[int], object]) -> None:
        """Let its sentences call processes so: it knows their numbers only."""

    def force(self, survivors: Sequence[int], now: Instant) -> Ready:
        """Begin to replace its view by one of these members, without a vote."""

    @property
    def has_published(self) -> bool:
        """Tell whether it published events as the member that it is, or last was, in any incarnation of it."""

    @property
    def is_replaced(self) -> bool:
        """Tell whether the view without it has another process of its number as a member."""

    def verdict(self) -> Note | None:
        """Return the note with which it will be out, if it knows of a view without it. It goes on telling others until
        enough of them know, which its application need not wait for."""

    @property
    def former(self) -> RemovedError | None:
        """Return the verdict on the member that this process was before, if it was removed and no application can have
        been told since."""

    @property
    def lost(self) -> list[Bundle]:
        """Return what this process published and a view without it leaves out, as far as the application was not told;
        with a journal, also of the members that it was before."""

    def lost_told(self, now: Instant) -> Ready:
        """Note that the application was told of it."""

    def view_status(self) -> ViewStatus | None:
        """Return its view; None outside any."""

    def opening_waits_for(self) -> str:
        """Say what it waits for before it is live; empty if it is."""

    def was_member(self, pid: int) -> bool:
        """Tell whether a process was a member in a view that this one remembers, and is none in its latest."""

    def removal_lacks(self, gone: Sequence[int]) -> tuple[int, ...]:
        """Return the voters without whom the others may not remove these members; empty if they may."""

    def removes(self, pid: int) -> bool:
        """Tell whether an operator removes a member here, and that is neither done nor impossible by now."""

    @property
    def silence_ns_max(self) -> int:
        """Return how long a member may be silent before the others have removed it, as a rule; 0: they never do."""

    @property
    def remove_after_ns(self) -> int:
        """Return how long another member may be suspected before this one has it removed; 0: it never does."""

    def agree(self, remove_after_ns: int) -> None:
        """Do as the group does about silent members, if nothing else was said here."""

    def majority(self) -> int | None:
        """Return the last event of this incarnation that a quorum of the voters has stored; None where publications do
        not ask for it."""

    def majority_lacks(self, last: int) -> tuple[int, ...]:
        """Return the voters that are not known to have stored the events of this incarnation up to `last`."""


@runtime_checkable
class Measured(Protocol):
    """Counts more than its gauges show."""

    def metrics(self) -> list[Metric]:
        """Return what it counts and measures."""


@runtime_checkable
class Founded(Protocol):
    """Belongs to a group whose members are fixed when it begins."""

    founders: list[Process]


@runtime_checkable
class Begun(Protocol):
    """Knows from its journal that its group began before, though none of its members may be up: it begins the group
    again, and processes without a journal join. Else whoever is there begins it as if for the first time."""

    def has_begun(self) -> bool:
        """Tell whether an earlier incarnation of this process was a member."""


@runtime_checkable
class Grouped(Protocol):
    """A member that serves several groups of one overlay."""

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a group as one bundle."""


@runtime_checkable
class Resuming(Protocol):
    """A member that stores no payloads of others on disk: what the application has not taken is fetched again."""

    def resume(self, taken: Sequence[int], reported: int, taken_in_part: Sequence[int] = ()) -> None:
        """Set, before an earlier incarnation is resumed, what the application has: the number of messages of each node,
        the number of publications reported to it, and the messages of each node counting one that it has in part."""

    @property
    def taken(self) -> list[int]:
        """Return the number of messages of each node that the application has taken, by place. It is the same list for
        the whole incarnation, counted in core/offsets.py; a member only raises it, from its journal, while it is
        restored."""

    def place_of(self, pid: int, incarnation: int) -> int:
        """Return the place of a process among the nodes: its messages are counted there."""


@runtime_checkable
class Counting(Resuming, Protocol):
    """May have to know what its application has taken although no later incarnation resumes: others wait for it."""

    @property
    def counts_taken(self) -> bool:
        """Tell whether it must."""


@runtime_checkable
class Joining(Protocol):
    """May have nothing to resume although its level remembers: then it must join."""

    @property
    def is_member(self) -> bool:
        """Tell whether it is, or was, a member."""


@runtime_checkable
class Returning(Protocol):
    """A member whose later incarnations continue its numbers: others know whether its journal is the newest."""

    def unanswered(self) -> tuple[int, ...]:
        """Return the processes that can report how much they have of what was published here, and have not yet done so
        to this incarnation."""
