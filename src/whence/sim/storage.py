"""A simulated disk behind a runner: one sync at a time. Each takes a while and covers what was written before it.

A paused process learns that a sync is done when it runs again; a crashed one never does.
"""

from collections import deque
from collections.abc import Callable, Sequence

from whence.core.runner import Done
from whence.sim.disk import Disk
from whence.sim.world import World


class SimStorage:
    """The journal of one process, through all its incarnations."""

    __slots__ = ("_committed", "_disk", "_incarnation", "_is_paused", "_pending", "_syncing", "_world")

    def __init__(self, world: World, disk: Disk, is_paused: Callable[[], bool]) -> None:
        self._world, self._disk, self._is_paused = world, disk, is_paused
        self._pending: deque[Done] = deque()
        """Callbacks of writes that are not durable yet."""
        self._syncing = False
        self._committed = 0
        """The number of them to call once the process runs again."""
        self._incarnation = 0

    def write(self, records: Sequence[bytes], done: Done, mark: bytes = b"") -> None:
        """Append records, each behind the mark; call `done` once they are durable, in the order of the writes."""
        marked = list(map(mark.__add__, records))
        if not self._world.sync_ns and not self._pending and not self._is_paused():
            self._disk.append(marked)
            done(None)
            return
        self._disk.write(marked)
        self._pending.append(done)
        if not self._syncing:
            self._sync()

    def hold(self, done: Done) -> None:
        """Call `done` when the process, which pauses now, runs again."""
        self._pending.append(done)
        self._committed = 1

    def go_ahead(self) -> None:
        """Call back for everything that became durable while the process was paused, or now."""
        count, self._committed = self._committed, 0
        if not count:
            return
        self._syncing, incarnation = False, self._incarnation
        for done in [self._pending.popleft() for _ in range(count)]:
            if self._incarnation == incarnation:
                done(None)
        if self._pending and not self._syncing and self._incarnation == incarnation:
            self._sync()

    def end_incarnation(self) -> None:
        """Drop all callbacks: the incarnation that waited for them has ended."""
        self._incarnation += 1
        self._pending.clear()
        self._syncing, self._committed = False, 0

    def _sync(self) -> None:
        """Start a sync; it commits everything written before it."""
        sync = (self._incarnation, len(self._pending), self._disk.unsynced())
        if not self._world.sync_ns:
            self._commit(sync)
            return
        self._syncing = True
        self._world.loop.at(self._world.loop.now + self._world.sync_ns, self._commit, sync)

    def _commit(self, sync: tuple[int, int, int]) -> None:
        """Finish a sync: what was written before it began is durable, and what waited for that goes ahead."""
        incarnation, count, size = sync
        if incarnation != self._incarnation:
            return
        self._disk.sync(size)
        self._committed = count
        if not self._is_paused():
            self.go_ahead()
