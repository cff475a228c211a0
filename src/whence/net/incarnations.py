"""What this process is called: as a node, and in each group that it was ever in.

Law: who opens a group again is another process there, because what the first one promised and how far it had counted
are forgotten. No name is used twice; with a data directory, in no life.
"""

from whence.net.clock import incarnation_now
from whence.store.directory import DataDirectory
from whence.types import Process


class Incarnations:
    """The names of one process."""

    def __init__(self, pid: int, data: DataDirectory | None) -> None:
        """Begin a life. Raises StorageError."""
        self._data = data
        self.me = Process(pid, self._next(pid))
        """What the node is called."""
        self.by_group: dict[str, Process] = {}
        """What the process is called in each group; the last name where it has left."""

    def begin(self, group: str) -> Process:
        """Return what the process is called in a group that it opens: as the node the first time, then a later life."""
        before = self.by_group.get(group)
        incarnation = self.me.incarnation if before is None else max(before.incarnation + 1, self._next(self.me.pid))
        self.by_group[group] = Process(self.me.pid, incarnation)
        return self.by_group[group]

    def is_first(self, group: str) -> bool:
        """Tell whether this process never was in a group before: only its data directory knows."""
        return self._data is not None and self._data.is_new and self.by_group[group] == self.me

    def known(self) -> tuple[int, ...]:
        """Return the incarnations that the data directory knows, this one included."""
        return tuple(self._data.lives) if self._data is not None else ()

    def _next(self, pid: int) -> int:
        """Return an incarnation that no life of this process had before. Raises StorageError."""
        by_time = incarnation_now(pid)
        return by_time if self._data is None else self._data.begin_life(by_time)
