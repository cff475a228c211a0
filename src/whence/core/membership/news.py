"""Arrivals and farewells that a member passes on (lpbcast's subscriptions and unsubscriptions).

Law: news ages by rounds and is dropped when it is too old to pass on. An arrival is passed on once, a farewell in every
round until it is dropped. A farewell outweighs every arrival of the same incarnation and of earlier ones.
"""

from msgspec import Struct

from whence.core.membership.items import NEWS
from whence.core.membership.settings import ViewSettings
from whence.core.ready import RandomSource
from whence.types import Process


class Known(Struct, gc=False):
    """The latest known incarnation of a peer, and the round from which that news is too old to pass on."""

    incarnation: int
    until: int


class MembershipNews:
    """The arrivals and farewells that are still to be passed on."""

    __slots__ = ("_announce_at", "_me", "_rng", "_settings", "arrivals", "farewells", "round")

    def __init__(self, me: Process, settings: ViewSettings, rng: RandomSource) -> None:
        self._me = me
        self._settings = settings
        self._rng = rng
        self._announce_at = 0
        self.round = 0
        self.arrivals: dict[int, Known] = {}
        self.farewells: dict[int, Known] = {}

    def next_round(self) -> None:
        """Let news age by a round."""
        self.round += 1
        for known in (self.arrivals, self.farewells):
            for pid in [pid for pid, entry in known.items() if entry.until <= self.round]:
                del known[pid]

    def take(self, *, announces: bool) -> tuple[bytes, bytes]:
        """Return the arrivals to pass on, each once, and the farewells. With `announces`, one's own arrival is among
        them every `announce_rounds` rounds."""
        arrivals = self._packed(self.arrivals)
        self.arrivals.clear()
        if announces and self.round >= self._announce_at:
            self._announce_at = self.round + self._settings.announce_rounds
            arrivals += self.arrival_of(self._me)
        return arrivals, self._packed(self.farewells)

    def arrival_of(self, process: Process) -> bytes:
        """Return the news that a process is here now."""
        return NEWS.pack(*process, self._settings.sub_rounds)

    def has_left(self, pid: int, incarnation: int) -> bool:
        """Tell whether a farewell outweighs an arrival; forget it if the arrival is newer."""
        farewell = self.farewells.get(pid)
        if farewell is None:
            return False
        if farewell.incarnation >= incarnation:
            return True
        del self.farewells[pid]
        return False

    def drop_arrival(self, pid: int, incarnation: int) -> None:
        """Pass on no arrival of a peer up to an incarnation."""
        arrival = self.arrivals.get(pid)
        if arrival is not None and arrival.incarnation <= incarnation:
            del self.arrivals[pid]

    def add_farewell(self, pid: int, incarnation: int, rounds: int) -> bool:
        """Add a farewell to pass on; return False if it is old."""
        farewell = self.farewells.get(pid)
        if farewell is not None and farewell.incarnation >= incarnation:
            return False
        self.farewells[pid] = Known(incarnation, self.round + min(rounds, self._settings.farewell_rounds))
        return True

    def shorten(self) -> None:
        """Keep both lists within their bounds, dropping at random; one's own farewell stays, beyond the bound."""
        settings, me = self._settings, self._me.pid
        while len(self.arrivals) > settings.subs_max:
            drop_random(self.arrivals, me, self._rng)
        while len(self.farewells) > settings.unsubs_max + (me in self.farewells):
            drop_random(self.farewells, me, self._rng)

    def _packed(self, known: dict[int, Known]) -> bytes:
        pack, now = NEWS.pack, self.round
        return b"".join([pack(pid, entry.incarnation, entry.until - now) for pid, entry in known.items()])


def drop_random(known: dict[int, Known] | dict[int, int], me: int, rng: RandomSource) -> None:
    """Forget one of some processes, any but oneself."""
    others = [pid for pid in known if pid != me]
    del known[others[int(rng() * len(others))]]
