"""The failure detector: who has not answered for longer than it ever took.

Promises (◇P in practice): a process that stopped is suspected for good after some time; one that runs is trusted
again as soon as it is heard, and each wrong suspicion widens its margin, so that wrong suspicions cease once delays
are bounded. The margin outlives the connection that a suspicion cuts: a peer that comes back in the same life was
wronged. One in a later life was not, and begins anew.
Assumes: a heartbeat is sent to every watched peer each `heartbeat_ns`, and answered.
The sentence that decides: suspect whoever was silent for a heartbeat, the usual round trip, four times its usual
deviation, and the margin.
Source: Jacobson's estimator (mean and deviation of round trips); Chandra and Toueg for the widening margin.
Costs: two small items per peer and heartbeat.
"""

from typing import Annotated

from msgspec import Meta, Struct

from whence.core.ready import Item
from whence.errors import SettingError
from whence.types import Instant

NANOSECONDS_MAX = 2**63 - 1

GONE_MAX = 4096
"""Peers without a connection whose margins are remembered. Full: the one that went first begins anew."""


class Ping(Item, frozen=True, tag=113):
    """Are you there? `sent` is my clock."""

    sent: Annotated[int, Meta(ge=0, le=NANOSECONDS_MAX)]


class Pong(Item, frozen=True, tag=114):
    """I am; `sent` is what you wrote."""

    sent: Annotated[int, Meta(ge=0, le=NANOSECONDS_MAX)]


class DetectorSettings(Struct, frozen=True, kw_only=True):
    """How quickly silence becomes suspicion. Quicker finds the dead sooner and wrongs the slow more often."""

    heartbeat_ns: int = 500_000_000
    """Between two pings to one peer."""
    margin_ns: int = 1_000_000_000
    """Patience beyond what the round trips explain, at first."""
    margin_ns_max: int = 30_000_000_000
    """Each wrong suspicion doubles the margin up to this."""

    def __post_init__(self) -> None:
        for name in ("heartbeat_ns", "margin_ns", "margin_ns_max"):
            if getattr(self, name) < 1_000_000:
                raise SettingError(f"{name} must be at least 1000000 (a millisecond), not {getattr(self, name)}")


class Watched:
    """What is known of one peer's answers."""

    __slots__ = ("boot", "deviation_ns", "heard_at", "margin_ns", "rtt_ns", "suspected")

    def __init__(self, now: Instant, margin_ns: int, boot: int) -> None:
        self.boot = boot
        self.heard_at = now
        self.rtt_ns: int | None = None
        self.deviation_ns = 0
        self.margin_ns = margin_ns
        self.suspected = False


class Detector:
    """Watches every peer there is a connection to."""

    def __init__(self, settings: DetectorSettings) -> None:
        self._settings = settings
        self._watched: dict[int, Watched] = {}
        self._gone: dict[int, Watched] = {}
        """Peers without a connection that have a wider margin than others, the latest last."""

    def watch(self, peer: int, now: Instant, boot: int) -> None:
        """Begin to expect answers of a peer in one of its lives, or trust it anew."""
        watched = self._watched.get(peer) or self._gone.pop(peer, None)
        if watched is None or boot > watched.boot:
            watched = Watched(now, self._settings.margin_ns, boot)
        self._watched[peer] = watched
        self.heard(peer, now)

    def forget(self, peer: int) -> None:
        """Expect nothing more of a peer until it is back; how wide its margin is stays known."""
        watched = self._watched.pop(peer, None)
        if watched is not None and (watched.suspected or watched.margin_ns > self._settings.margin_ns):
            self._gone[peer] = watched
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]

    def heard(self, peer: int, now: Instant) -> None:
        """Learn that a peer is there."""
        watched = self._watched.get(peer)
        if watched is None:
            return
        watched.heard_at = now
        if watched.suspected:
            watched.suspected = False
            watched.margin_ns = min(2 * watched.margin_ns, self._settings.margin_ns_max)

    def answered(self, peer: int, sent: Instant, now: Instant) -> None:
        """Learn how long a round trip took."""
        watched = self._watched.get(peer)
        rtt_ns = now - sent
        if watched is None or not 0 <= rtt_ns <= self._settings.margin_ns_max:
            return
        self.heard(peer, now)
        if watched.rtt_ns is None:
            watched.rtt_ns, watched.deviation_ns = rtt_ns, rtt_ns // 2
            return
        watched.deviation_ns += (abs(rtt_ns - watched.rtt_ns) - watched.deviation_ns) // 4
        watched.rtt_ns += (rtt_ns - watched.rtt_ns) // 8

    def rtt_ns(self, peer: int) -> int | None:
        """Return the usual round trip to a peer, if any was measured."""
        watched = self._watched.get(peer)
        return None if watched is None else watched.rtt_ns

    def patience_ns(self, peer: int) -> int:
        """Return how long a peer may be silent."""
        watched = self._watched[peer]
        return self._settings.heartbeat_ns + (watched.rtt_ns or 0) + 4 * watched.deviation_ns + watched.margin_ns

    def suspects(self, now: Instant) -> list[int]:
        """Return the peers that have just fallen silent for too long; each silence is reported once."""
        fallen = []
        for peer, watched in self._watched.items():
            if not watched.suspected and now - watched.heard_at > self.patience_ns(peer):
                watched.suspected = True
                fallen.append(peer)
        return fallen

    def suspected(self, peer: int) -> bool:
        """Tell whether a peer is silent."""
        watched = self._watched.get(peer)
        return watched is not None and watched.suspected
