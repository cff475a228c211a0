"""The event loop of the simulated world: one heap, ordered by (time, sequence), and nothing else decides the order.

The sequence makes the order total, so that two things that happen at one instant always happen in the order in which
they were planned.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any

Action = Callable[[Any], None]


class Loop:
    """Simulated time, in nanoseconds, and the actions planned for it."""

    __slots__ = ("_planned", "_sequence", "now")

    def __init__(self) -> None:
        self.now = 0
        self._sequence = 0
        self._planned: list[tuple[int, int, Action, Any]] = []

    def at(self, time: int, action: Action, subject: Any = None) -> None:
        """Plan `action(subject)` for a time that is not past."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._planned, (time, sequence, action, subject))

    def run(self, until: int) -> None:
        """Do everything planned up to and including `until`, then set the time to it."""
        planned = self._planned
        with _no_collection_pauses():
            while planned:
                entry = heappop(planned)
                now, _, action, subject = entry
                if now > until:
                    heappush(planned, entry)
                    break
                self.now = now
                action(subject)
        self.now = until

    @property
    def steps(self) -> int:
        """Return the number of actions that have run."""
        return self._sequence - len(self._planned)


@contextmanager
def _no_collection_pauses() -> Iterator[None]:
    """Switch the cycle collector off: it would scan every process again and again, and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
