"""What others say in a view that this member has not heard of yet: it waits for the decree.

Members enter a view one after another, and the first of them go on at once. Their messages overtake the decree, which
comes from the leader. Law: what is put aside here was not received, as if it were still on its way, so losing it is
safe. But whoever drops it must ask for it again, and lets everything wait that follows it.
"""

from collections import deque
from typing import TypeAlias

from whence.core.ready import Item
from whence.core.views.items import EPOCH_IN, Beat, ViewAck, ViewMark, ViewMessage
from whence.types import Process

WAIT = (ViewMessage, ViewMark, ViewAck, Beat)
"""What is said within a view. All else is about views, and is of use at once or not at all."""

_LATEST = (ViewAck, Beat)
"""What says how far its sender is: the latest says all."""

Said: TypeAlias = tuple[Process, Item]


class Early:
    """Items that came before the decree of their view: messages, the oldest first, and the latest acknowledgement and
    beat of each sender. Full of messages: the oldest are dropped, since a newcomer gets also what is for an earlier
    process of its name. Full of others: a further sender is not listened to."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._messages: deque[Said] = deque(maxlen=most)
        self._latest: dict[tuple[Process, type[Item]], Said] = {}

    def __len__(self) -> int:
        return len(self._messages) + len(self._latest)

    def put(self, sender: Process, item: Item) -> None:
        """Put an item aside."""
        if not isinstance(item, _LATEST):
            self._messages.append((sender, item))
        elif len(self._latest) < self._most or (sender, type(item)) in self._latest:
            self._latest[sender, type(item)] = (sender, item)

    def upto(self, epoch: int) -> list[Said]:
        """Take out what was said up to a view: messages in the order in which they came, then how far others are."""
        ripe = [said for said in (*self._messages, *self._latest.values()) if _epoch(said) <= epoch]
        later = [said for said in self._messages if _epoch(said) > epoch]
        self._messages.clear()
        self._messages.extend(later)
        self._latest = {key: said for key, said in self._latest.items() if _epoch(said) > epoch}
        return ripe

    def clear(self) -> None:
        """Forget everything."""
        self._messages.clear()
        self._latest.clear()


def _epoch(said: Said) -> int:
    item = said[1]
    return EPOCH_IN[type(item)](item)
