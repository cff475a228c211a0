"""What a driver is given: which member to run, where deliveries go, what its node does for it, what is on disk."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from whence.core.level import Recipe
from whence.core.ready import Delivery, Gap, Item, Late, Mark
from whence.errors import WhenceError
from whence.net.commit import Commit
from whence.store.steps import Steps
from whence.types import Bundle, Process


class Sink(Protocol):
    """Where deliveries go."""

    on_reached: Callable[[Bundle], None]
    """Called when the last event of a bundle is handed out, where nobody counts what is taken."""
    on_handed: Callable[[Bundle, int, Mark | None, int, bytes | None], None] | None
    """Called before events are handed out: their bundle, how long it was held, its mark, where they begin, payloads."""
    on_taken: Callable[[int], None] | None
    """Called when the application has taken so many more events, in the order they were handed out."""
    on_step: Callable[[Bundle, int, Mark | None, int, bytes | None], None] | None
    """Called instead of both where one event is taken and the next of its bundle is handed out."""
    on_dropped: Callable[[Bundle], None]
    """Called when a bundle is left out because the application is too slow."""
    manual: bool
    """The application says itself what it has taken."""
    is_over: Callable[[], bool]
    """Tells whether what is taken cannot be counted any more: a later life hands it out."""

    def take(self, step: Delivery, position: int, have: int = 0, again: int = 0) -> None:
        """Take a delivered bundle. The application has its first `have` events from an earlier life, and may have been
        handed the next `again`; the first that it has not has this position."""

    def skip(self, gap: Gap) -> None:
        """Take word of events that will never come."""

    def late(self, late: Late) -> None:
        """Take a bundle that came after its place."""

    def reset(self, reason: str) -> None:
        """Take word that the member's state was repaired, or that it went on without what it missed."""

    def end(self, error: WhenceError | None) -> None:
        """Learn that nothing more comes, and why."""


class NodeServices(NamedTuple):
    """What a driver may ask of its node."""

    send: Callable[[str, Sequence[int], Item, int], int]
    """Queue an item of a group for some peers, or for one life of theirs; return its size on the wire."""
    member_changed: Callable[[str], None]
    """Learn that the member of a group joined or left."""
    check_act: Callable[[str, str], None]
    """Raise UsageError if this process may not do that in a group."""
    members: Callable[[str], list[int]]
    """Return the members of a group known now, this process among them, and the founders of a fixed one."""


class GroupContext(NamedTuple):
    """What a process is in a group, and how it runs it: fixed while the group is open."""

    group: str
    level: str
    recipe: Recipe
    settings: Any
    me: Process
    dice: Callable[[], float]
    is_first_life: bool = False
    """No life of this process came before, as far as its data directory knows."""
    lives: tuple[int, ...] = ()
    """Incarnations of earlier lives that its data directory knows."""

    def others_max(self) -> int | None:
        """Return how many other members a member can know at most; None where the level has no such bound."""
        views = getattr(self.settings, "views", None)
        return None if views is None or views.view == "full" else int(views.view_size)

    def reaches_view_only(self) -> bool:
        """Tell whether who is not in a member's view gets nothing that it publishes until somebody is asked for it."""
        return getattr(getattr(self.settings, "direct", None), "spread", None) == "direct"


class GroupStorage(NamedTuple):
    """What one group keeps on disk."""

    commit: Commit
    steps: Steps
