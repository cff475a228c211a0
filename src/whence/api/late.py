"""The side output of a group: events that came after their place in the order had passed."""

from collections import deque

from whence.api.delivery import LateEvent
from whence.api.signal import Signal
from whence.core.ready import Late
from whence.types import EventId

LATE_MAX = 4096
"""Late events waiting for their reader. Full: the oldest are dropped and counted."""


class LateEvents:
    """An iterator over the events of a group that came too late for their place; all its readers share one sequence."""

    def __init__(self) -> None:
        self.dropped = 0
        self._events: deque[LateEvent] = deque()
        self._arrived = Signal()
        self._ended = False

    def add(self, late: Late) -> None:
        """Queue a late bundle's events."""
        bundle = late.bundle
        for seq, payload in enumerate(bundle.payloads(), bundle.first):
            self._events.append(
                LateEvent(payload, bundle.pid, EventId(bundle.pid, bundle.incarnation, seq), late.late_ns)
            )
        while len(self._events) > LATE_MAX:
            self._events.popleft()
            self.dropped += 1
        self._arrived.wake()

    def end(self) -> None:
        """End the iterator once what is here was handed out."""
        self._ended = True
        self._arrived.wake()

    def __aiter__(self) -> "LateEvents":
        return self

    async def __anext__(self) -> LateEvent:
        """Return the next late event; end when nothing more will come."""
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            await self._arrived.wait()
        return self._events.popleft()
