"""Applications that lag: a member whose application has not taken, for long, what the application here took.

Law: a member lags behind this one while something is missing there that the application here took `lag_max_ns` ago and
that is for that member too. So nobody lags because nothing is handed out anywhere, and one whose own application is
stuck finds nobody late. The time is counted in looks, not read from a clock: a process that stood still has looked only
once meanwhile. A newcomer finds nobody late before it is live. Members that are silent or not opened yet do not count:
they are a matter of `remove_after_ns` and of `join_timeout_ns`.
"""

from whence.core.ready import NEVER
from whence.core.views.links import Links
from whence.core.views.peers import Peer
from whence.core.views.settings import ViewSettings
from whence.core.views.view import MemberId
from whence.types import Instant

LOOKS = 8
"""In this many looks `lag_max_ns` passes. More: a member is removed closer to its time, for more looks."""


class Behind:
    """What the application here had taken at some look, and how many looks another one has lacked some of it."""

    __slots__ = ("looks", "taken")

    def __init__(self, taken: dict[MemberId, int]) -> None:
        self.taken = taken
        self.looks = 0


class Lags:
    """How long the applications of the other members have lagged behind the one here."""

    def __init__(self, links: Links, settings: ViewSettings) -> None:
        self.state, self.links = links.state, links
        self._pace = max(1, settings.lag_max_ns // LOOKS)
        self._behind: dict[MemberId, Behind] = {}
        self.next_at: Instant = 0 if settings.lag_max_ns else NEVER
        """When to look again; never, where any lag is allowed."""

    def look(self, now: Instant) -> None:
        """Look how far every application is."""
        self.next_at = now + self._pace
        self.state.count_taken()
        former, self._behind = self._behind if self.state.live else {}, {}
        for pid, peer in self.links.peers.items():
            behind = former.get(peer.member)
            counts = pid not in self.links.suspects.now and self.links.is_live(peer)
            if behind is None or not counts or self._has(peer, behind.taken):
                behind = Behind(self._taken_for(peer))
            else:
                behind.looks += 1
            self._behind[peer.member] = behind

    @property
    def late(self) -> dict[int, None]:
        """Return the members whose applications lag for too long."""
        return {
            pid: None
            for pid, peer in self.links.peers.items()
            if (behind := self._behind.get(peer.member)) is not None and behind.looks >= LOOKS
        }

    def _taken_for(self, peer: Peer) -> dict[MemberId, int]:
        """Return how much was taken here of what is for another member and may be missing there."""
        taken: dict[MemberId, int] = {}
        for member in self.state.latest.members:
            stream = self.state.streams.get(member)
            message = stream.retained.get(stream.taken) if stream is not None else None
            if stream is not None and message is not None and message.epoch >= peer.member.joined:
                taken[member] = stream.taken
        return taken

    def _has(self, peer: Peer, taken: dict[MemberId, int]) -> bool:
        """Tell whether a member's application has taken that much of everybody who is still a member."""
        members = self.state.latest.members
        return all(peer.taken[place] >= taken.get(member, 0) for place, member in enumerate(members))
