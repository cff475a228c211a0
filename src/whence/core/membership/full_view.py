"""Full views: every member knows every other, as the paper's own experiments allowed (J section 6; gossip 2.2).

The driver keeps one directory for all members that it hosts; joining still asks a contact for the snapshot.
"""

from collections.abc import Callable, Sequence

from whence.core.membership.partial_view import PartialView
from whence.core.membership.settings import ViewSettings
from whence.core.ready import Gauge, RandomSource, Ready
from whence.types import Instant, Process


class Directory:
    """All members of the group, shared by every view that reads it."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self._present: dict[int, None] = {}

    def add(self, pid: int) -> None:
        """Add a member, unless it is there already."""
        if pid not in self._present:
            self._present[pid] = None
            self.pids.append(pid)

    def remove(self, pid: int) -> None:
        """Remove a member that left."""
        if self._present.pop(pid, 0) is None:
            self.pids.remove(pid)


class FullView(PartialView):
    """The directory as a view: nothing to spread, nothing to forget."""

    __slots__ = ("_directory",)

    def __init__(
        self,
        me: Process,
        settings: ViewSettings,
        round_ns: int,
        rng: RandomSource,
        snapshot: Callable[[], bytes],
        directory: Directory,
    ) -> None:
        super().__init__(me, settings, round_ns, rng, snapshot)
        self._directory = directory

    def found(self, peers: Sequence[Process], now: Instant) -> None:
        """Add oneself to the directory."""
        self._directory.add(self.me.pid)

    def settle(self) -> None:
        """Stop asking and add oneself to the directory."""
        super().settle()
        self._directory.add(self.me.pid)

    def leave(self, now: Instant) -> None:
        """Remove oneself from the directory; what is still under way gets some rounds to spread."""
        super().leave(now)
        self._directory.remove(self.me.pid)

    def news(self) -> tuple[bytes, bytes]:
        """Return nothing: every member reads the directory."""
        self.changed = False
        return b"", b""

    def hear(self, sender: Process, subs: bytes, unsubs: bytes) -> None:
        """Learn nothing: every member reads the directory."""

    def next_round(self, ready: Ready) -> None:
        """Count down a farewell."""
        if self._leaving_rounds is not None:
            self._leaving_rounds -= 1

    def unreachable(self, peer: int) -> None:
        """Keep the peer: the paper's experiments never forget a member."""

    def reaches(self, process: Process) -> bool:
        """Return False: the directory does not know who answers."""
        return False

    def meet(self, peer: Process) -> None:
        """Add a peer that itself says that it is a member."""
        self._directory.add(peer.pid)

    def parted(self, peer: Process) -> None:
        """Remove a peer that itself says that it has left."""
        self._directory.remove(peer.pid)

    def targets(self, count: int) -> tuple[int, ...]:
        """Draw distinct members other than oneself, uniformly."""
        pids, rng, me = self._directory.pids, self._rng, self.me.pid
        size = len(pids)
        if count >= size - 1:
            others = tuple(pid for pid in pids if pid != me)
            if len(others) <= count:
                return others
        drawn: list[int] = []
        while len(drawn) < count:
            pid = pids[int(rng() * size)]
            if pid != me and pid not in drawn:
                drawn.append(pid)
        return tuple(drawn)

    def view(self) -> None:
        """Return None: the directory is the driver's."""

    def gauges(self) -> list[Gauge]:
        """Return nothing: the directory is the driver's."""
        return []

    def _sample(self, count: int) -> bytes:
        return b""
