"""Causal Barriers on a tree: a message names its direct predecessors, for each of its destinations.

Promises: causal order across groups, without crashes or loss.
The sentence that decides: a message is delivered when all that it names for this member has been delivered here.
What is collected: an entry (l, x) for destination k is dropped once Delivered[l, k] >= x is known, whoever told it. A
message of i shows what i has delivered: all that its barrier names, for whichever destination, has been delivered to i
as far as it was sent to i, because i delivered something that follows it.
Costs per copy: 8 bytes per destination, and 8 per destination and direct predecessor not known to be delivered there.
Source: Prakash, Raynal, Singhal 1997, as in the thesis (2.4.2) and LoCaMu section 11.2; bytes as in 7.1.
"""

from functools import lru_cache
from typing import TypeAlias

from whence.core.levels.causal.tree.headers import NODES, NUMBER_END
from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.levels.causal.tree.place import Place
from whence.core.varint import Reader, packed
from whence.types import Bundle
from whence_lab.rivals.cost import RivalCost

Barrier: TypeAlias = dict[tuple[int, int], int]
"""Per message (publisher, number), the destinations that must have delivered it, one bit each. A barrier has
an entry for every such bit, but few of these entries differ in more than their destinations."""

ENTRY_BYTES = 8

STAMPS_MAX = 4096
"""Decoded stamps that are cached: all hops carry the same stamp, so all members of a simulation decode it once."""


class Stamp:
    """A message's name, its group and its barrier. Never changes."""

    __slots__ = ("barrier", "entries", "group", "number", "publisher", "written")

    def __init__(self, group: int, publisher: int, number: int, barrier: Barrier) -> None:
        self.group = group
        self.publisher = publisher
        self.number = number
        self.barrier = barrier
        self.entries = sum(map(int.bit_count, barrier.values()))
        self.written = b""
        """The stamp as it is sent, once it was encoded."""


class Barriers:
    """Direct dependencies of one member."""

    def __init__(self, place: Place) -> None:
        self.cost = RivalCost()
        self._me = place.me
        self._overlay = place.overlay
        self._sent = 0
        self._barrier: Barrier = {}
        self._delivered = DeliveredMatrix()
        self._held: list[tuple[Stamp, Bundle]] = []

    def stamp(self, group: int, bundle: Bundle) -> Stamp:
        """Return the stamp of a new message; from now on it stands for all that it follows at its destinations."""
        self._sent += 1
        stamp = Stamp(group, self._me, self._sent, self._barrier.copy())
        dests = self._overlay.table(group).mask
        others = dests & ~(1 << self._me)
        self._barrier = {name: rest for name, mask in self._barrier.items() if (rest := mask & ~others)}
        if others:
            self._barrier[stamp.publisher, stamp.number] = others
        if dests != others:
            self._delivered.learn(self._me, {self._me: self._sent})
        return stamp

    def encode(self, peer: int, stamp: Stamp) -> bytes:
        """Write the whole stamp; all hops carry the same."""
        table = self._overlay.table(stamp.group)
        if not stamp.written:
            size = self._overlay.size // 8 + 1
            header = packed([stamp.group, stamp.publisher, stamp.number, size, len(stamp.barrier)])
            names = [packed(name) + mask.to_bytes(size, "little") for name, mask in stamp.barrier.items()]
            stamp.written = header + b"".join(names)
        self.cost.count(ENTRY_BYTES * (len(table.members) + stamp.entries), len(stamp.written))
        return stamp.written

    def decode(self, peer: int, reader: Reader) -> Stamp:
        """Read a stamp. Raises ValueError."""
        stamp = _read(reader.rest())
        if stamp.group >= self._overlay.group_count or any(
            mask >> self._overlay.size for mask in stamp.barrier.values()
        ):
            raise ValueError("no such group, or no such destination")
        return stamp

    def admit(self, group: int, stamp: Stamp, bundle: Bundle, *, member: bool) -> list[tuple[int, Bundle]]:
        """Hold back a message until its barrier is met; return all that may be delivered now."""
        if member:
            self._held.append((stamp, bundle))
        delivered: list[tuple[int, Bundle]] = []
        progress = True
        while progress:
            progress = False
            for held in list(self._held):
                if self._falls(held[0].barrier):
                    self._held.remove(held)
                    self._take(held[0])
                    delivered.append((held[0].group, held[1]))
                    progress = True
        return delivered

    def waiting(self) -> int:
        """Return the number of messages held back."""
        return len(self._held)

    def entries(self) -> tuple[int, int]:
        """Return the entries of its barrier and of its Delivered matrix."""
        return sum(map(int.bit_count, self._barrier.values())), self._delivered.entries()

    def _falls(self, barrier: Barrier) -> bool:
        me, delivered = self._me, self._delivered
        return all(
            delivered.has(publisher, number, me) for (publisher, number), mask in barrier.items() if mask >> me & 1
        )

    def _take(self, stamp: Stamp) -> None:
        """Deliver a message. What it names for other members is now followed here too.

        At its own destinations, the message itself stands for what it names.
        """
        shown = self._shown_by(stamp)
        self._delivered.learn(stamp.publisher, shown)
        self._delivered.learn(self._me, {stamp.publisher: stamp.number})
        dests, mine = self._overlay.table(stamp.group).mask, self._barrier
        myself = 1 << self._me
        for name, mask in stamp.barrier.items():
            added = mask & ~dests & ~myself
            if added:
                added &= ~self._delivered.reached_by(*name)
            left = mine.get(name, 0) & ~(mask & dests) | added
            if left:
                mine[name] = left
            else:
                mine.pop(name, None)
        others = dests & ~myself & ~self._delivered.reached_by(stamp.publisher, stamp.number)
        if others:
            name = (stamp.publisher, stamp.number)
            mine[name] = mine.get(name, 0) | others
        self._collect(stamp.publisher, shown)

    def _shown_by(self, stamp: Stamp) -> dict[int, int]:
        """Return what a message shows that its publisher has delivered: the highest number of each publisher."""
        shown = {stamp.publisher: stamp.number}
        for publisher, number in stamp.barrier:
            if number > shown.get(publisher, 0):
                shown[publisher] = number
        return shown

    def _collect(self, by: int, shown: dict[int, int]) -> None:
        """Drop what is named for a destination that is now known to have delivered it."""
        mine, bit = self._barrier, 1 << by
        for name, mask in list(mine.items()):
            if mask & bit and shown.get(name[0], 0) >= name[1]:
                if mask == bit:
                    del mine[name]
                else:
                    mine[name] = mask ^ bit


class DeliveredMatrix:
    """Which messages are known to have been delivered where: Delivered[l, k] for publisher l and process k.

    Stored by publisher and number, with a bit for each process that has delivered up to there and not known further:
    rows of a matrix of N x N are mostly the same.
    """

    __slots__ = ("_reached",)

    def __init__(self) -> None:
        self._reached: dict[int, dict[int, int]] = {}

    def learn(self, process: int, numbers: dict[int, int]) -> None:
        """Record that a process has delivered each publisher's messages up to a number."""
        bit = 1 << process
        for publisher, number in numbers.items():
            row = self._reached.setdefault(publisher, {})
            known, mask = next(((each, mask) for each, mask in row.items() if mask & bit), (0, 0))
            if known >= number:
                continue
            if mask == bit:
                del row[known]
            elif mask:
                row[known] = mask ^ bit
            row[number] = row.get(number, 0) | bit

    def entries(self) -> int:
        """Return how many entries of the matrix are not zero."""
        return sum(mask.bit_count() for row in self._reached.values() for mask in row.values())

    def has(self, publisher: int, number: int, process: int) -> bool:
        """Tell whether a process is known to have delivered a publisher's messages up to a number."""
        return bool(self.reached_by(publisher, number) >> process & 1)

    def reached_by(self, publisher: int, number: int) -> int:
        """Return the processes that are known to have delivered a publisher's messages up to a number, a bit each."""
        found = 0
        for known, mask in self._reached.get(publisher, {}).items():
            if known >= number:
                found |= mask
        return found


@lru_cache(STAMPS_MAX)
def _read(data: bytes) -> Stamp:
    """Read a stamp. Raises ValueError."""
    reader = Reader(data)
    group, publisher, number = reader.below(GROUPS_MAX), reader.below(NODES), reader.below(NUMBER_END)
    size = reader.below(NODES // 8 + 2)
    barrier: Barrier = {}
    for _ in range(reader.below(len(data))):
        name = (reader.below(NODES), reader.below(NUMBER_END))
        barrier[name] = int.from_bytes(reader.bytes(size), "little")
    reader.end()
    return Stamp(group, publisher, number, barrier)
