"""CBCAST on a tree: a vector clock per group, and what changed in any of them on every message.

Promises: causal order across groups, without crashes or loss.
The sentence that decides: a message of p to g is delivered when it is p's next in g, all others' entries for g are
reached, and so are all entries of the other groups this member is in.
Costs per copy: 4 bytes for each group that differs from the last message on the link, and 8 for each entry. This grows
with the number of publishers.
Source: Birman, Schiper, Stephenson 1991, as in LoCaMu section 11.2; bytes as in 7.1.
"""

from whence.core.levels.causal.tree.headers import NODES
from whence.core.levels.causal.tree.id_patterns import Vectors
from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.levels.causal.tree.pairs import NODE_BITS, NODE_MASK, PairNumbers, pair
from whence.core.levels.causal.tree.place import Place
from whence.core.varint import Reader
from whence.types import Bundle
from whence_lab.reference.thesis import put_rows
from whence_lab.rivals.cost import RivalCost

CELLS_MAX = 1 << 17
"""Entries of one stamp."""


class Stamp:
    """All vector clocks a publisher knew, and which entry is the message's own."""

    __slots__ = ("clocks", "group", "publisher")

    def __init__(self, group: int, publisher: int, clocks: PairNumbers) -> None:
        self.group = group
        self.publisher = publisher
        self.clocks = clocks
        """By pair of group and publisher."""


class Cbcast:
    """Vector clocks of one member."""

    def __init__(self, place: Place) -> None:
        self.cost = RivalCost()
        self._me = place.me
        self._overlay = place.overlay
        self._clocks: PairNumbers = {}
        self._sent: dict[int, PairNumbers] = {}
        self._came: dict[int, PairNumbers] = {}
        self._held: list[tuple[Stamp, Bundle]] = []

    def stamp(self, group: int, bundle: Bundle) -> Stamp:
        """Count a new message and return its stamp; it comes after all that is known."""
        key = pair(group, self._me)
        self._clocks[key] = self._clocks.get(key, 0) + 1
        return Stamp(group, self._me, self._clocks.copy())

    def encode(self, peer: int, stamp: Stamp) -> bytes:
        """Write what differs from the last message on the link."""
        last = self._sent.get(peer, {})
        rows: Vectors = {}
        for key, value in stamp.clocks.items():
            if last.get(key, 0) != value:
                rows.setdefault(key >> NODE_BITS, {})[key & NODE_MASK] = value
        for key in last:
            if key not in stamp.clocks:
                rows.setdefault(key >> NODE_BITS, {})[key & NODE_MASK] = 0
        self._sent[peer] = stamp.clocks
        into = bytearray(stamp.publisher.to_bytes(2, "little") + stamp.group.to_bytes(2, "little"))
        self.cost.count(put_rows(into, rows), len(into))
        return bytes(into)

    def decode(self, peer: int, reader: Reader) -> Stamp:
        """Read a stamp on top of the last one of the link. Raises ValueError."""
        publisher, group = (int.from_bytes(reader.bytes(2), "little") for _ in range(2))
        sizes = [reader.below(NODES) for _ in range(reader.below(GROUPS_MAX))]
        clocks = dict(self._came.get(peer, {}))
        for size in sizes:
            row = int.from_bytes(reader.bytes(4), "little")
            for _ in range(size):
                key = pair(row, int.from_bytes(reader.bytes(4), "little"))
                value = int.from_bytes(reader.bytes(4), "little")
                if value:
                    clocks[key] = value
                else:
                    clocks.pop(key, None)
        if len(clocks) > CELLS_MAX:
            raise ValueError(f"a stamp has more than {CELLS_MAX} entries")
        self._came[peer] = clocks
        return Stamp(group, publisher, clocks)

    def admit(self, group: int, stamp: Stamp, bundle: Bundle, *, member: bool) -> list[tuple[int, Bundle]]:
        """Hold back a message until it may be delivered; return all that may be delivered now."""
        if member:
            self._held.append((stamp, bundle))
        delivered: list[tuple[int, Bundle]] = []
        progress = True
        while progress:
            progress = False
            for held in list(self._held):
                if self._is_next(held[0]):
                    self._held.remove(held)
                    self._merge(held[0].clocks)
                    delivered.append((held[0].group, held[1]))
                    progress = True
        return delivered

    def waiting(self) -> int:
        """Return the number of messages held back."""
        return len(self._held)

    def entries(self) -> tuple[int, int]:
        """Return the entries of all its clocks, and those that it keeps for links, of both directions."""
        links = [*self._sent.values(), *self._came.values()]
        return len(self._clocks), sum(map(len, links))

    def _is_next(self, stamp: Stamp) -> bool:
        clocks, own = self._clocks, pair(stamp.group, stamp.publisher)
        if stamp.clocks.get(own, 0) != clocks.get(own, 0) + 1:
            return False
        for key, value in stamp.clocks.items():
            if value > clocks.get(key, 0) and key != own and self._is_mine(key >> NODE_BITS):
                return False
        return True

    def _is_mine(self, group: int) -> bool:
        return group < self._overlay.group_count and self._me in self._overlay.table(group).is_member

    def _merge(self, clocks: PairNumbers) -> None:
        for key, value in clocks.items():
            if value > self._clocks.get(key, 0):
                self._clocks[key] = value
