"""The names of this process: as a node, and in each group that it was ever in.

Law: a process that opens a group again is another process there, because what the first one promised and how far it had
counted are forgotten. No name is used twice; with a data directory, not in any incarnation.
"""

from whence.net.clock import incarnation_now
from whence.store.directory import DataDirectory
from whence.types import Process


class Incarnations:
    """The names of one process."""

    def __init__(self, pid: int, data: DataDirectory | None) -> None:
        """Begin an incarnation. Raises StorageError."""
        self._data = data
        self.me = Process(pid, self._next(pid))
        """The name of the node."""
        self.by_group: dict[str, Process] = {}
        """The name of the process in each group; the last one where it has left."""

    def begin(self, group: str) -> Process:
        """Return the name of the process in a group that it opens: first the node's, then a later incarnation."""
        before = self.by_group.get(group)
        incarnation = self.me.incarnation if before is None else max(before.incarnation + 1, self._next(self.me.pid))
        self.by_group[group] = Process(self.me.pid, incarnation)
        return self.by_group[group]

    def is_first(self, group: str) -> bool:
        """Tell whether this process was never in a group before: only its data directory knows."""
        return self._data is not None and self._data.is_new and self.by_group[group] == self.me

    def known(self) -> tuple[int, ...]:
        """Return the incarnations that the data directory knows, this one included."""
        return tuple(self._data.incarnations) if self._data is not None else ()

    def _next(self, pid: int) -> int:
        """Return an incarnation that this process never had before. Raises StorageError."""
        by_time = incarnation_now(pid)
        return by_time if self._data is None else self._data.begin_incarnation(by_time)
