"""The failure detector: it suspects a peer that has been silent for longer than its answers ever took.

Promises (◇P in practice): a process that stopped is suspected for good after some time; one that runs is trusted
again as soon as it is heard, and each wrong suspicion widens its margin, so that wrong suspicions cease once delays
are bounded. The margin outlives the connection that a suspicion closes: a peer that comes back in the same incarnation
was wrongly suspected. One in a later incarnation was not, and gets a detector of its own.
Assumes: a heartbeat is sent to every watched peer each `heartbeat_ns`, and answered.
The sentence that decides: suspect a peer that was silent for a heartbeat, the usual round trip, four times its usual
deviation, and the margin.
Source: Jacobson's estimator (mean and deviation of round trips); Chandra and Toueg for the widening margin.
Costs: two small items per peer and heartbeat.
"""

from typing import Annotated

from msgspec import Meta, Struct

from whence.core.ready import Item
from whence.core.settings import check_types
from whence.errors import SettingError
from whence.types import Instant

NANOSECONDS_MAX = 2**63 - 1


class Ping(Item, frozen=True, tag=113):
    """Are you there? `sent` is my clock."""

    sent: Annotated[int, Meta(ge=0, le=NANOSECONDS_MAX)]


class Pong(Item, frozen=True, tag=114):
    """I am; `sent` is what you wrote."""

    sent: Annotated[int, Meta(ge=0, le=NANOSECONDS_MAX)]


class DetectorSettings(Struct, frozen=True, kw_only=True):
    """How quickly silence becomes suspicion. Quicker finds dead peers sooner, and wrongly suspects slow ones more
    often."""

    heartbeat_ns: int = 500_000_000
    """Between two pings to one peer."""
    margin_ns: int = 1_000_000_000
    """Extra time beyond what the round trips explain, at first."""
    margin_ns_max: int = 30_000_000_000
    """Each wrong suspicion doubles the margin up to this."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("heartbeat_ns", "margin_ns", "margin_ns_max"):
            if getattr(self, name) < 1_000_000:
                raise SettingError(f"{name} must be at least 1000000 (a millisecond), not {getattr(self, name)}")


class Detector:
    """Watches one peer while there is a connection to it."""

    __slots__ = ("_settings", "deviation_ns", "heard_at", "margin_ns", "rtt_ns", "suspected")

    def __init__(self, settings: DetectorSettings) -> None:
        self._settings = settings
        self.heard_at: Instant = 0
        self.rtt_ns: int | None = None
        """The usual round trip, if any was measured."""
        self.deviation_ns = 0
        self.margin_ns = settings.margin_ns
        self.suspected = False
        """The peer has been silent for too long."""

    def lost(self) -> None:
        """Expect nothing until the peer is back. If it is suspected, or ever was wrongly, keep its measured round
        trips."""
        if not self.suspected and self.margin_ns <= self._settings.margin_ns:
            self.rtt_ns, self.deviation_ns = None, 0

    def heard(self, now: Instant) -> None:
        """Record a sign of life of the peer."""
        self.heard_at = now
        if self.suspected:
            self.suspected = False
            self.margin_ns = min(2 * self.margin_ns, self._settings.margin_ns_max)

    def answered(self, sent: Instant, now: Instant) -> None:
        """Record how long a round trip took."""
        rtt_ns = now - sent
        if not 0 <= rtt_ns <= self._settings.margin_ns_max:
            return
        self.heard(now)
        if self.rtt_ns is None:
            self.rtt_ns, self.deviation_ns = rtt_ns, rtt_ns // 2
            return
        self.deviation_ns += (abs(rtt_ns - self.rtt_ns) - self.deviation_ns) // 4
        self.rtt_ns += (rtt_ns - self.rtt_ns) // 8

    def patience_ns(self) -> int:
        """Return how long the peer may be silent."""
        return self._settings.heartbeat_ns + (self.rtt_ns or 0) + 4 * self.deviation_ns + self.margin_ns

    def suspects(self, now: Instant) -> bool:
        """Tell whether the peer has just fallen silent for too long; each silence is reported once."""
        if self.suspected or now - self.heard_at <= self.patience_ns():
            return False
        self.suspected = True
        return True
