"""What an application hears of the members of a living group: views, and that it is no longer in any.

Members see a view at different places among their deliveries, and deliver messages of the view before after it. What is
the same for all is the set of messages, and at level `total` their sequence.
"""

from msgspec import Struct

from whence.core.ready import Note
from whence.errors import RemovedError
from whence.types import EventId

ENTERED = "entered"
"""The reason of notes about a view that was entered."""

LEFT, UNKNOWN = "left", "removed_unknown"
"""Reasons of notes that a member is out: it left by itself, or nobody remembers how far its messages count."""


class View(Struct, frozen=True):
    """The group has these members from here on, as far as this one is concerned."""

    epoch: int
    members: tuple[int, ...]
    added: tuple[int, ...]
    """Members that were not in the view before; at first, all."""
    removed: tuple[int, ...]
    """Former members: they left or were removed. A process that was replaced under its number is in neither list."""


class Removed(Struct, frozen=True):
    """The others removed this member; nothing comes after it."""

    epoch: int
    """The view that is without it."""
    cut: EventId | None
    """The last of its own events that took effect; later ones never will. None: none did."""


def removal(note: Note) -> RemovedError | None:
    """Return the error that a member's note about its end stands for; None if it left by itself, or at levels without
    views."""
    if note.reason is None or note.reason == LEFT or note.epoch is None:
        return None
    return RemovedError(note.epoch, note.event, is_known=note.reason != UNKNOWN)
