"""What an order remembers of each process that published: bounded in peers and in incarnations of one peer."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from whence.limits import Limits
from whence.types import Process

State = TypeVar("State")


class Senders(Generic[State]):
    """Progress per process. The oldest incarnations of a peer are closed for good, so that their late bundles are not
    delivered twice."""

    __slots__ = ("_fresh", "_incarnations", "_limits", "states")

    def __init__(self, limits: Limits, fresh: Callable[[], State]) -> None:
        self._limits = limits
        self._fresh = fresh
        self._incarnations: dict[int, dict[int, None]] = {}
        self.states: dict[tuple[int, int], State] = {}
        """What is remembered of each process, by pid and incarnation."""

    def refuses(self, pid: int, incarnation: int) -> str | None:
        """Return why a new process cannot be remembered, or None if it can."""
        incarnations = self._incarnations.get(pid)
        if incarnations is None:
            return "senders_max" if len(self._incarnations) >= self._limits.senders_max else None
        if len(incarnations) >= self._limits.incarnations_per_sender_max and incarnation < min(incarnations):
            return "closed_life"
        return None

    def crowded_out(self, pid: int) -> Process | None:
        """Return the incarnation of the peer that must be closed before another can be opened; None if none must."""
        incarnations = self._incarnations.get(pid, {})
        return (
            Process(pid, min(incarnations)) if len(incarnations) >= self._limits.incarnations_per_sender_max else None
        )

    def open(self, pid: int, incarnation: int) -> State:
        """Begin to remember a process that is not refused; return its state."""
        self._incarnations.setdefault(pid, {})[incarnation] = None
        return self.states.setdefault((pid, incarnation), self._fresh())

    def close(self, process: Process) -> None:
        """Forget the oldest incarnation of a peer to open a newer one: then it and all earlier ones are refused for
        good."""
        del self._incarnations[process.pid][process.incarnation], self.states[process]

    def __iter__(self) -> Iterator[tuple[Process, State]]:
        for pid, incarnations in self._incarnations.items():
            for incarnation in incarnations:
                yield Process(pid, incarnation), self.states[pid, incarnation]

    def __len__(self) -> int:
        return len(self._incarnations)
