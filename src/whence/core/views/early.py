"""What others say in a view that this member has not heard of yet: it waits for the decree.

Members enter a view one after another, and the first of them go on at once. Their messages overtake the decree, which
comes from the leader. Law: what is put aside here was not received, as if it were still on its way, so losing it is
safe. But whoever drops it must ask for it again, and lets everything wait that follows it.
"""

from collections import deque

from whence.core.ready import Item
from whence.core.views.items import EPOCH_IN, Beat, ViewAck, ViewMark, ViewMessage
from whence.types import Process

WAIT = (ViewMessage, ViewMark, ViewAck, Beat)
"""What is said within a view. All else is about views, and is of use at once or not at all."""


class Early:
    """Items that came before the decree of their view, the oldest first. Full: the oldest are dropped, since a newcomer
    gets also what is for an earlier process of its name."""

    def __init__(self, most: int) -> None:
        self._items: deque[tuple[Process, Item]] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._items)

    def put(self, sender: Process, item: Item) -> None:
        """Put an item aside."""
        self._items.append((sender, item))

    def upto(self, epoch: int) -> list[tuple[Process, Item]]:
        """Take out what was said up to a view, in the order in which it came."""
        ripe: list[tuple[Process, Item]] = []
        rest: list[tuple[Process, Item]] = []
        for waiting in self._items:
            item = waiting[1]
            (ripe if EPOCH_IN[type(item)](item) <= epoch else rest).append(waiting)
        self._items.clear()
        self._items.extend(rest)
        return ripe

    def clear(self) -> None:
        """Forget everything."""
        self._items.clear()
