"""Full views: everybody knows everybody, as the paper's own experiments allowed (J section 6; gossip 2.2).

The driver keeps one directory for all members that it hosts; joining still asks a contact for the snapshot.
"""

from collections.abc import Callable, Sequence

from whence.core.membership.partial_view import PartialView
from whence.core.membership.settings import ViewSettings
from whence.core.ready import Gauge, RandomSource, Ready
from whence.types import Instant, Process


class Directory:
    """Every member there is, shared by all that look into it."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self._present: dict[int, None] = {}

    def add(self, pid: int) -> None:
        """Enter a member; once is enough."""
        if pid not in self._present:
            self._present[pid] = None
            self.pids.append(pid)

    def remove(self, pid: int) -> None:
        """Strike a member that left."""
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
        """Enter oneself."""
        self._directory.add(self.me.pid)

    def settle(self) -> None:
        """Enter oneself once let in."""
        super().settle()
        self._directory.add(self.me.pid)

    def leave(self, now: Instant) -> None:
        """Strike oneself; what is still on its way gets some rounds to spread."""
        super().leave(now)
        self._directory.remove(self.me.pid)

    def news(self) -> tuple[bytes, bytes]:
        """Return nothing: everybody looks into the directory."""
        self.changed = False
        return b"", b""

    def hear(self, sender: Process, subs: bytes, unsubs: bytes) -> None:
        """Learn nothing: everybody looks into the directory."""

    def next_round(self, ready: Ready) -> None:
        """Count down a farewell."""
        if self._leaving_rounds is not None:
            self._leaving_rounds -= 1

    def unreachable(self, peer: int) -> None:
        """Keep the peer: the paper's experiments never forget a member."""

    def reaches(self, process: Process) -> bool:
        """Return False: the directory does not tell who answers."""
        return False

    def meet(self, peer: Process) -> None:
        """Enter a member that says itself that it is one."""
        self._directory.add(peer.pid)

    def parted(self, peer: Process) -> None:
        """Strike a member that says itself that it has left."""
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
        """Return nothing of its own: the directory is the driver's."""

    def gauges(self) -> list[Gauge]:
        """Return nothing: the directory is the driver's."""
        return []

    def _sample(self, count: int) -> bytes:
        return b""
