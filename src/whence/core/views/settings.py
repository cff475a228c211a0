"""Timers and bounds of a living group. Each says what it trades."""

from typing import Literal

from msgspec import Struct

from whence.errors import SettingError

MS = 1_000_000

LIVE_VIEWS = {"retry_ns": 1000 * MS, "suspect_ns": 3000 * MS}
"""For connections, which lose nothing while they last and have a failure detector of their own: repeating is rare."""

REMOVE_AFTER_NS = 10_000 * MS
"""How long a live group waits for a silent member that cannot come back as the same one. Shorter: a pause removes
members that live. Longer: publishers whose windows are full wait for the dead, and must not give up before it is
removed."""


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
    """A member that is suspected for this long is removed. 0: never by itself."""
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
        if self.lag_max_ns < 0:
            raise SettingError(f"lag_max_ns must be at least 0, not {self.lag_max_ns}")
