"""Timers and bounds of a living group. Each says what it trades."""

from typing import Literal

from msgspec import Struct

from whence.core.settings import seconds
from whence.errors import SettingError

MS = 1_000_000

LIVE_VIEWS = {"retry_ns": 1000 * MS, "suspect_ns": 3000 * MS}
"""For connections, which lose nothing while they last and have a failure detector of their own: repeating is rare."""

REMOVE_AFTER_NS = 10_000 * MS
"""How long a live group waits for a silent member that cannot come back as the same one. Shorter: a pause removes
members that live. Longer: publishers whose windows are full wait for the dead, and must not give up before it is
removed."""


AS_THE_GROUP = -1
"""As `remove_after_ns`: nothing was said. A newcomer does what the group does; one that begins it removes the silent
after REMOVE_AFTER_NS if it has no journal, and never if it has one."""


class ViewSettings(Struct, frozen=True, kw_only=True):
    """How members of a living group repeat, suspect, retain and change the view."""

    journal: bool = True
    """Whether members remember across crashes. Without: a peer that comes again is another member."""
    keep: Literal["own", "all"] = "own"
    """What a member with a journal stores of others. own: what a change or a majority needs; what only crashed members
    had cannot be supplied then, and is refused or reported. all: every message, before it counts as received."""
    majority: bool = False
    """Whether every publication asks the voters to store it."""
    ack_ns: int = 40 * MS
    """Acknowledgements wait this long for others. Longer: fewer packets, and messages are retained longer."""
    retry_ns: int = 150 * MS
    """What is not acknowledged is repeated after this, then after twice the time, and so on."""
    retry_ns_max: int = 1600 * MS
    """Where doubling ends."""
    ask_ns: int = 60 * MS
    """When a message was held back this long, its member asks for what it waits for."""
    suspect_ns: int = 400 * MS
    """A member that owes an answer for this long is suspected."""
    remove_after_ns: int = 0
    """A member that is suspected for this long is removed. 0: never by itself. Members share it."""
    lag_max_ns: int = 0
    """A member whose application has not taken, for this long, what another one took is removed. 0: never; then
    records_max is all that bounds how far the others get without it."""
    join_timeout_ns: int = 10_000 * MS
    """A newcomer that did not mark within this time is removed again."""
    attempt_ns: int = 300 * MS
    """An attempt at a change that does not move for this long is begun anew, with a higher ballot."""
    window: int = 256
    """Own messages under way to one member, beyond what its application has taken."""
    records_max: int = 8192
    """Own messages that some application may lack, this one's too. At a quarter of it, publishing is refused until one
    is stable."""
    retained_bytes_max: int = 64 << 20
    """The same in bytes of payload."""
    held_max: int = 4096
    """Messages that came too early. Full: the newest is dropped; it comes again."""

    def __post_init__(self) -> None:
        for name in ("ack_ns", "retry_ns", "retry_ns_max", "ask_ns", "suspect_ns", "attempt_ns", "window", "held_max"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("records_max", "retained_bytes_max"):
            if getattr(self, name) < 4:
                raise SettingError(f"{name} must be at least 4, not {getattr(self, name)}")
        for name, least in (("lag_max_ns", 0), ("remove_after_ns", AS_THE_GROUP)):
            if getattr(self, name) < least:
                raise SettingError(f"{name} must be at least 0, not {getattr(self, name)}")


def shared_by_members(settings: ViewSettings) -> dict[str, object]:
    """Return what the members of a living group must agree on, as far as something was said: who is removed when, and
    what those with journals store of others."""
    shared: dict[str, object] = {"lag_max_s": seconds(settings.lag_max_ns)}
    if settings.remove_after_ns != AS_THE_GROUP:
        shared["remove_after_s"] = seconds(settings.remove_after_ns)
    return shared | ({"keep": settings.keep} if settings.journal else {})
