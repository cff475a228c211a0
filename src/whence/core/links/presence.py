"""Who is in which group: announced to every connected peer, so that a newcomer knows whom to ask and whether to found.

Promises: nothing that the levels do not promise themselves. It saves a newcomer from asking peers that are not in the
group, lets processes that start together found one group instead of one each, and lets members that meet know each
other.
The sentence that decides: a group with a member is joined; a group without one is founded by its named founders, or
by the lowest pid among those that want it, once every peer that may know a member has answered (net/opening.py).
Costs: one item per group and change of state, and one in answer to a peer's first item.
"""

from collections.abc import Iterable
from enum import StrEnum
from struct import Struct as Layout
from typing import Annotated

from msgspec import Meta

from whence import limits
from whence.core.ready import Item
from whence.types import Process

FOUNDER = Layout("<HI")

SETTINGS_BYTES_MAX = 1024


class Place(StrEnum):
    """The state of a process with respect to a group."""

    WANTS = "wants"
    ASKS = "asks"
    """Wants to be a member, and does not begin the group."""
    MEMBER = "member"
    GONE = "gone"


class Presence(Item, frozen=True, tag=115):
    """I am in this group, want to be, or left it; the packet names the group."""

    level: Annotated[str, Meta(max_length=32)]
    """The level's name and, at levels with settings that all members must share, a `#` and a mark of those settings."""
    place: Annotated[str, Meta(max_length=8)]
    founders: Annotated[bytes, Meta(max_length=FOUNDER.size * limits.VIEW_MAX)]
    """The processes that founded the group, if the sender is one of them; packed. From one that only wants the group:
    itself, if its journal says that it was a member before."""
    settings: Annotated[bytes, Meta(max_length=SETTINGS_BYTES_MAX)] = b""
    """The settings that all members must share, as JSON, so that an error can name those that differ. Empty: too long
    to send."""

    line: Annotated[int, Meta(ge=0, le=limits.SEQ_MAX)] = 0
    """A member of a living group: which group of this name it is in, and which generation of it. 0: not known."""

    def is_valid(self) -> bool:
        """Tell whether the place is known and the founders are whole."""
        size = FOUNDER.size
        whole = len(self.founders) % size == 0 and self.founders[5::size].isascii()
        return whole and self.place in Place.__members__.values()

    def founding(self) -> list[Process]:
        """Return the founders."""
        return [Process(pid, incarnation) for pid, incarnation in FOUNDER.iter_unpack(self.founders)]


def presence(
    level: str, place: Place, founders: Iterable[Process] = (), settings: bytes = b"", line: int = 0
) -> Presence:
    """Return the item to announce to the others."""
    shown = settings if len(settings) <= SETTINGS_BYTES_MAX else b""
    return Presence(level, place.value, b"".join([FOUNDER.pack(*founder) for founder in founders]), shown, line)
