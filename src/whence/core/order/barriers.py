"""Causal Barriers on a tree: a message names its direct predecessors, for each of its destinations.

Promises: causal order across groups, without crashes or loss.
The sentence that decides: a message is delivered when all that it names for this member has been delivered here.
Costs per copy: 8 bytes per destination, and 8 per destination and direct predecessor not known to be delivered there.
Source: Prakash, Raynal, Singhal 1997, as in LoCaMu section 11.2; bytes as in 7.1.
"""

from typing import TypeAlias

from whence.core.members.overlay import GROUPS_MAX, Place
from whence.core.order.localized.heads import NODES, NUMBER_END
from whence.core.order.localized.links import Cost
from whence.core.varint import Reader, packed
from whence.types import Bundle

Barrier: TypeAlias = dict[int, dict[tuple[int, int], None]]
"""Per destination, the messages (publisher, number) it must have delivered."""

ENTRY_BYTES = 8


class Stamp:
    """A message's name, its group and its barrier."""

    __slots__ = ("barrier", "group", "number", "publisher")

    def __init__(self, group: int, publisher: int, number: int, barrier: Barrier) -> None:
        self.group = group
        self.publisher = publisher
        self.number = number
        self.barrier = barrier


class Barriers:
    """Direct dependencies of one member."""

    def __init__(self, place: Place) -> None:
        self.cost = Cost()
        self._me = place.me
        self._overlay = place.overlay
        self._sent = 0
        self._barrier: Barrier = {}
        self._delivered: dict[tuple[int, int], int] = {}
        """(publisher, destination): the highest number known to be delivered there."""
        self._held: list[tuple[Stamp, Bundle]] = []

    def stamp(self, group: int, bundle: Bundle) -> Stamp:
        """Name a message of one's own; from now on it stands for all it follows at its destinations."""
        self._sent += 1
        stamp = Stamp(group, self._me, self._sent, {node: dict(names) for node, names in self._barrier.items()})
        self._note_sent(stamp)
        return stamp

    def _note_sent(self, stamp: Stamp) -> None:
        name = (stamp.publisher, stamp.number)
        for node in self._overlay.table(stamp.group).members:
            if node != stamp.publisher:
                self._barrier[node] = {name: None}
        if self._me in self._overlay.table(stamp.group).is_member:
            self._note_delivered(stamp)

    def encode(self, peer: int, stamp: Stamp) -> bytes:
        """Write the whole stamp; all hops carry the same."""
        numbers = [stamp.group, stamp.publisher, stamp.number, len(stamp.barrier)]
        for node, names in stamp.barrier.items():
            numbers += [node, len(names)]
            for publisher, number in names:
                numbers += [publisher, number]
        targets = len(self._overlay.table(stamp.group).members)
        self.cost.add(ENTRY_BYTES * (targets + sum(map(len, stamp.barrier.values()))))
        return packed(numbers)

    def decode(self, peer: int, reader: Reader) -> Stamp:
        """Read a stamp. Raises ValueError."""
        group, publisher, number = reader.below(GROUPS_MAX), reader.below(NODES), reader.below(NUMBER_END)
        barrier: Barrier = {}
        for _ in range(reader.below(NODES)):
            node, size = reader.below(NODES), reader.below(NODES)
            barrier[node] = {(reader.below(NODES), reader.below(NUMBER_END)): None for _ in range(size)}
        if group >= self._overlay.group_count:
            raise ValueError("no such group")
        return Stamp(group, publisher, number, barrier)

    def admit(self, group: int, stamp: Stamp, bundle: Bundle, *, member: bool) -> list[tuple[int, Bundle]]:
        """Hold a message until its barrier falls; return all that may be delivered now."""
        if member:
            self._held.append((stamp, bundle))
        delivered: list[tuple[int, Bundle]] = []
        progress = True
        while progress:
            progress = False
            for held in list(self._held):
                if all(self._has(*name) for name in held[0].barrier.get(self._me, ())):
                    self._held.remove(held)
                    self._take(held[0])
                    delivered.append((held[0].group, held[1]))
                    progress = True
        return delivered

    def waiting(self) -> int:
        """Return how many messages are held."""
        return len(self._held)

    def _has(self, publisher: int, number: int) -> bool:
        return self._delivered.get((publisher, self._me), 0) >= number

    def _note_delivered(self, stamp: Stamp) -> None:
        self._delivered[stamp.publisher, self._me] = stamp.number

    def _take(self, stamp: Stamp) -> None:
        """Deliver: what the message names for others is now followed here too; itself stands for it at its own."""
        self._note_delivered(stamp)
        dests, name = self._overlay.table(stamp.group).is_member, (stamp.publisher, stamp.number)
        for node, names in stamp.barrier.items():
            if node == self._me:
                for publisher, number in names:
                    known = self._delivered.get((publisher, node), 0)
                    self._delivered[publisher, node] = max(known, number)
            else:
                mine = self._barrier.setdefault(node, {})
                for each in names:
                    if node in dests:
                        mine.pop(each, None)
                    elif self._delivered.get((each[0], node), 0) < each[1]:
                        mine[each] = None
        for node in self._overlay.table(stamp.group).members:
            if node not in (self._me, stamp.publisher):
                self._barrier.setdefault(node, {})[name] = None
        for node in [node for node, names in self._barrier.items() if not names]:
            del self._barrier[node]
