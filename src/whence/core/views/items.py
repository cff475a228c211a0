"""The items that members of a living group exchange.

An epoch, or the number of the instance that decides the next view, names a view; inside it a peer is one member. So no
item need say which incarnation of a peer it means. Numbers per member are in the order of that view.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta, field

from whence import limits
from whence.core.ready import BundleItem, Item
from whence.core.views.view import MARKS_MAX, Ballot, Clock, Epoch, MarkAt, Number, View
from whence.types import Bundle, Incarnation, PeerId

Place: TypeAlias = Annotated[int, Meta(ge=0, le=limits.CLOCK_NODES_MAX - 1)]
Numbers: TypeAlias = Annotated[list[Number], Meta(max_length=limits.CLOCK_NODES_MAX)]
Pids: TypeAlias = Annotated[list[PeerId], Meta(max_length=limits.CLOCK_NODES_MAX)]
Marks: TypeAlias = Annotated[list[MarkAt], Meta(max_length=MARKS_MAX)]


class ViewMessage(BundleItem, frozen=True, tag=90):
    """A message as its publisher sent it, even if another member passes it on.

    In `past`, the publisher's own entry is the number of messages it had published before.
    """

    origin: Place
    epoch: Epoch
    past: Numbers
    clock: Clock
    wants_majority: bool
    taken: Numbers
    """How far the publisher's application was, if the epoch is the latest it knows; else empty."""
    bundle: Bundle

    def is_valid(self) -> bool:
        """Tell whether the places agree and the bundle is valid."""
        return self.origin < len(self.past) and len(self.taken) in (0, len(self.past)) and self.bundle.is_valid()

    @property
    def number(self) -> int:
        """Return its number among the messages of its publisher."""
        return self.past[self.origin] + 1


class ViewMark(Item, frozen=True, tag=91):
    """A message without events: its publisher has entered the epoch, and its mark before was of `prev`."""

    origin: Place
    epoch: Epoch
    past: Numbers
    clock: Clock
    prev: Epoch

    def is_valid(self) -> bool:
        """Tell whether the places agree."""
        return self.origin < len(self.past) and self.prev <= self.epoch

    @property
    def number(self) -> int:
        """Return its number among the messages of its publisher."""
        return self.past[self.origin] + 1

    def at(self) -> MarkAt:
        """Return where it is."""
        return MarkAt(self.prev, self.epoch, self.number, self.clock)


Message: TypeAlias = ViewMessage | ViewMark


class ViewAck(Item, frozen=True, tag=92):
    """How far a member is: with the views, and with the messages of each member of the latest view it knows."""

    entered: Epoch
    adopted: Epoch
    got: Numbers
    taken: Numbers
    stored: Numbers
    """What counts for `majority`: got where nothing is retained across crashes, else what is in the journal."""
    promise: Clock = 0
    """All messages of the sender after those in got have a later clock."""
    removed: Annotated[list[tuple[PeerId, Epoch, Number]], Meta(max_length=limits.CLOCK_NODES_MAX)] = field(
        default_factory=list
    )
    """The same for messages of removed members that are not finished here: peer, epoch it was added in, taken."""
    asks: bool = False
    """The sender waits for an answer of the same kind."""

    def is_valid(self) -> bool:
        """Tell whether the places agree."""
        return len(self.got) == len(self.taken) == len(self.stored)


class Fetch(Item, frozen=True, tag=93):
    """Send me the messages of a member above `above` and up to `upto`, whoever has them."""

    pid: PeerId
    joined: Epoch
    above: Number
    upto: Number


class JoinRequest(Item, frozen=True, tag=94):
    """Add the process that sends this to the group. `at` is the epoch from the last hint; 0: none."""

    needs_its_sender: ClassVar[bool] = True
    at: Epoch
    replace: bool = False
    """It replaces the member that has its number, even if that one is not known to be gone."""


class Hint(Item, frozen=True, tag=95):
    """Ask again, quoting this epoch: a request that quotes no current epoch may be an old copy. Or, to one that does:
    nobody can be added now."""

    epoch: Epoch
    missing: Pids = field(default_factory=list)
    """Voters that do not answer, and without whom those that do are no quorum."""
    away: Pids = field(default_factory=list)
    """Members that do not answer: a newcomer is opened only when all have, and is not added before."""


class Wish(Item, frozen=True, tag=96):
    """What a member that does not lead asks of the one that does: changes to the view of an epoch."""

    epoch: Epoch
    condemned: Pids
    leavers: Pids
    joins: Annotated[list[tuple[PeerId, Incarnation]], Meta(max_length=limits.CLOCK_NODES_MAX)]
    frozen: Pids
    lets_go: bool = False
    """Nobody pursues the change for which members reported: a view without changes would let them go on."""


class Prepare(Item, frozen=True, tag=97):
    """Promise not to vote for attempts below this ballot: Paxos, first phase."""

    instance: Epoch
    ballot: Ballot


class Promise(Item, frozen=True, tag=98):
    """The promise, with the attempt last voted for."""

    instance: Epoch
    ballot: Ballot
    accepted: Ballot
    value: View | None

    def is_valid(self) -> bool:
        """Tell whether the view is valid, if there is one."""
        return self.value is None or self.value.is_valid()


class Freeze(Item, frozen=True, tag=99):
    """Take no more messages of those that are to be removed, and report."""

    instance: Epoch
    ballot: Ballot
    remove: Pids


class Report(Item, frozen=True, tag=100):
    """How far a member is with every stream, in the order of the view, and what it can supply."""

    instance: Epoch
    ballot: Ballot
    got: Numbers
    acted_on: Numbers
    """What it may have acted on, in any incarnation: more than it got, where its application had taken a part."""
    clocks: Annotated[list[Clock], Meta(max_length=limits.CLOCK_NODES_MAX)]
    held_from: Numbers
    """It has every message from here up to what it got; one more than that if none."""
    marks: Annotated[list[Marks], Meta(max_length=limits.CLOCK_NODES_MAX)]
    frozen: Pids
    closed: Annotated[int, Meta(ge=-1, le=2**62)]
    """Whatever is unstable here is also for members added up to this epoch; -1: not opened."""
    opened: bool
    bases: Numbers
    """Where it begins each stream; 0: not known."""

    def is_valid(self) -> bool:
        """Tell whether the places agree."""
        size = len(self.got)
        return all(len(each) == size for each in (self.acted_on, self.clocks, self.held_from, self.marks, self.bases))


class Target(Item, frozen=True, tag=101):
    """Get every stream up to these numbers."""

    instance: Epoch
    ballot: Ballot
    numbers: Numbers


class Flushed(Item, frozen=True, tag=102):
    """The targets of this ballot are reached."""

    instance: Epoch
    ballot: Ballot


class Accept(Item, frozen=True, tag=103):
    """Vote for this view: Paxos, second phase."""

    instance: Epoch
    ballot: Ballot
    value: View

    def is_valid(self) -> bool:
        """Tell whether the view is valid."""
        return self.value.is_valid()


class Accepted(Item, frozen=True, tag=104):
    """The vote."""

    instance: Epoch
    ballot: Ballot


class Nak(Item, frozen=True, tag=105):
    """A higher ballot was seen."""

    instance: Epoch
    ballot: Ballot


class Decree(Item, frozen=True, tag=106):
    """This view is decided."""

    view: View
    after_gap: bool = False
    """The views before it are forgotten: whoever it removes does not learn how far its messages counted."""

    def is_valid(self) -> bool:
        """Tell whether the view is valid."""
        return self.view.is_valid()


class Knows(Item, frozen=True, tag=107):
    """The sender knows the view of this epoch: it need not be told again."""

    epoch: Epoch


class Beat(Item, frozen=True, tag=108):
    """A promise that no message of the sender's own carries: its messages after this number have a later clock.

    It is small and costs little to take, because in a strict group every member may owe one for every message.
    """

    epoch: Epoch
    number: Number
    clock: Clock


class Taken(Item, frozen=True, tag=109):
    """The answer to a Fetch of what is retained no longer: the asker itself acknowledged that its application had taken
    the messages of a member up to this number."""

    pid: PeerId
    joined: Epoch
    number: Number


_OF_A_CHANGE = (Prepare, Promise, Freeze, Report, Target, Flushed, Accept, Accepted, Nak)

EPOCH_IN: dict[Any, Callable[[Any], int]] = {
    **dict.fromkeys((Beat, ViewMessage, ViewMark, Hint, Wish, Knows), attrgetter("epoch")),
    **dict.fromkeys(_OF_A_CHANGE, attrgetter("instance")),
    ViewAck: attrgetter("adopted"),
    **dict.fromkeys((Fetch, Taken), attrgetter("joined")),
    Decree: attrgetter("view.epoch"),
}
"""Where the epoch is in the items that belong to one group: a JoinRequest may go to any."""
