"""What a driver is given: which member to run, where deliveries go, what its node does for it, what is on disk."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from whence.core.level import LevelSpec
from whence.core.offsets import Offsets
from whence.core.ready import Delivery, Gap, Item, Late
from whence.errors import WhenceError
from whence.net.commit import Commit
from whence.net.membership import View
from whence.net.recorder import TraceRecorder
from whence.store.consumer_offsets import ConsumerOffsets
from whence.types import Process


class Sink(Protocol):
    """Where deliveries go."""

    events: int
    """Events that no reader has begun to take."""
    events_max: int
    manual: bool
    """The application itself acknowledges what it has taken."""
    offsets: Offsets
    """Counts what is handed out and taken."""
    recorder: TraceRecorder | None
    """Records what is handed out; None: nothing is recorded, or no longer."""

    def deliver(self, step: Delivery) -> None:
        """Take a bundle that the member delivers."""

    def skip(self, gap: Gap) -> None:
        """Take a gap: events that will never come."""

    def late(self, late: Late) -> None:
        """Take a bundle that came after its place in the order had passed."""

    def reset(self, reason: str) -> None:
        """Take a reset: the member's state was repaired, or it went on without what it missed."""

    def entered(self, view: View) -> None:
        """Take a view that the member entered."""

    def full(self) -> bool:
        """Tell whether publishers should wait for the application."""

    def end(self, error: WhenceError | None) -> None:
        """Note that nothing more will come, and why."""


class NodeServices(NamedTuple):
    """What a driver may ask of its node."""

    send: Callable[[str, Sequence[int], Item, int], int]
    """Queue an item of a group for some peers, or for one incarnation of theirs; return its size on the wire."""
    member_changed: Callable[[str], None]
    """Called when the member of a group joined or left."""
    check_act: Callable[[str, str], None]
    """Raise UsageError if this process may not perform an act in a group."""
    members: Callable[[str], list[int]]
    """Return the known members of a group, including this process, and the founders of a fixed group."""
    named: Callable[[int], int] = int
    """Return a pid that messages show with its name, where it has one."""


class GroupContext(NamedTuple):
    """What a process is in a group, and how it runs it: fixed while the group is open."""

    group: str
    level: str
    spec: LevelSpec
    settings: Any
    me: Process
    rng: Callable[[], float]
    is_first_incarnation: bool = False
    """This process has no earlier incarnation, as far as its data directory knows."""
    incarnations: tuple[int, ...] = ()
    """The earlier incarnations that its data directory knows."""

    def others_max(self) -> int | None:
        """Return the most other members that a member can know; None where the level has no such bound."""
        views = getattr(self.settings, "views", None)
        size: int | None = getattr(views, "view_size", None)
        return None if getattr(views, "view", "full") == "full" else size

    def reaches_view_only(self) -> bool:
        """Tell whether a process outside a member's view gets its events only by asking another process for them."""
        return getattr(getattr(self.settings, "direct", None), "spread", None) == "direct"


class GroupStorage(NamedTuple):
    """What one group stores on disk."""

    commit: Commit
    offsets: ConsumerOffsets
