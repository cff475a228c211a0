"""How much a member knows of the others, and for how long."""

from msgspec import Struct

from whence import limits
from whence.errors import SettingError


class ViewSettings(Struct, frozen=True, kw_only=True):
    """How much a member knows of the others, and when it drops one. Rounds are gossip rounds."""

    view: str = "partial"
    """`partial` (each member knows some others) or `full` (the driver gives every member all others)."""
    view_size: int = 20
    """Peers known. Must exceed the fan-out; more makes splits rarer and messages longer."""
    subs_max: int = 20
    """News of arrivals passed on. Full: a random one is dropped."""
    unsubs_max: int = 20
    """Farewells passed on. Full: a random one is dropped; a leaver waits a round instead."""
    announce_rounds: int = 6
    """Rounds between two announcements that a member makes of itself. Fewer cost bytes and churn, more leave a newcomer
    unknown for longer. Must be below `sub_rounds`, or news of running members dies out."""
    sub_rounds: int = 12
    """Rounds for which news of a peer is passed on after its last announcement: at least twice the rounds an event is
    passed on."""
    farewell_rounds: int = 12
    """Rounds for which a farewell is passed on: at least twice the rounds an event is passed on, or a leaver is
    remembered as present."""
    failures_max: int = 3
    """Failures in a row after which a peer leaves the view."""
    isolation_rounds: int = 10
    """Rounds without any message after which a member asks to be let in again."""
    reach_rounds: int = 15
    """Rounds after which one lost peer or contact is asked, again and again: heals a group that a partition split."""
    join_retry_rounds: int = 3
    """Rounds to wait for a Welcome before asking the next contact."""
    join_tries_max: int = 10
    """Contacts asked without an answer after which the group is taken for lost and founded anew; it merges with any
    other part of it that is found later."""

    def __post_init__(self) -> None:
        if self.view not in ("partial", "full"):
            raise SettingError(f"view must be partial or full, not {self.view!r}")
        for name in ("view_size", "subs_max", "unsubs_max"):
            if not 1 <= getattr(self, name) <= limits.VIEW_MAX:
                raise SettingError(f"{name} must be from 1 to {limits.VIEW_MAX}, not {getattr(self, name)}")
        for name in (
            "announce_rounds",
            "sub_rounds",
            "farewell_rounds",
            "isolation_rounds",
            "reach_rounds",
            "join_retry_rounds",
            "join_tries_max",
        ):
            if not 1 <= getattr(self, name) <= limits.ROUNDS_MAX:
                raise SettingError(f"{name} must be from 1 to {limits.ROUNDS_MAX}, not {getattr(self, name)}")
        if self.announce_rounds >= self.sub_rounds:
            raise SettingError(f"announce_rounds ({self.announce_rounds}) must be below sub_rounds ({self.sub_rounds})")
        if self.failures_max < 1:
            raise SettingError(f"failures_max must be at least 1, not {self.failures_max}")
