"""Pastry's prefix routing: from any node to the one whose id is nearest to a key, in a logarithmic number of hops.

Promises: as long as no half of a leaf set fails at once, a key is routed to the live node with the nearest id.
The sentence that decides: a key among the ids of the leaf set goes to the nearest of them; any other goes to a node
that shares a longer prefix with it, or, if none is known, to one that shares as long a prefix and is nearer.
Ids are 64 bits of a digest, in digits of 4 bits. Tables are those of an overlay that has settled; a node that is gone
is passed over, and the leaf set is filled again from that of another leaf.
Source: Rowstron and Druschel 2001, as in the thesis, 2.3.1.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

from whence.types import Instant

ID_BITS, DIGIT_BITS = 64, 4
ID_END = 1 << ID_BITS
DIGITS = ID_BITS // DIGIT_BITS
CELL_MAX = 2
"""Nodes known per prefix and digit; the second stands in when the first is gone."""


def id_of(name: str) -> int:
    """Return the id of a node or a topic."""
    return int.from_bytes(blake2b(name.encode(), digest_size=ID_BITS // 8).digest(), "big")


def distance(one: int, other: int) -> int:
    """Return how far two ids are apart on the ring."""
    apart = abs(one - other)
    return min(apart, ID_END - apart)


def shared_digits(one: int, other: int) -> int:
    """Return the length of the longest common prefix, in digits."""
    return DIGITS - -(-(one ^ other).bit_length() // DIGIT_BITS)


def digit(number: int, place: int) -> int:
    """Return a digit, counted from the highest."""
    return number >> (DIGITS - 1 - place) * DIGIT_BITS & (1 << DIGIT_BITS) - 1


@lru_cache(4)
def ring(processes: tuple[int, ...]) -> tuple[list[int], dict[int, int]]:
    """Return the ids of all nodes in order, and the process of each."""
    named = {id_of(f"node {process}"): process for process in processes}
    return sorted(named), named


class Pastry:
    """One node's leaf set and routing table."""

    def __init__(self, me: int, processes: Sequence[int], leaf_set: int, forgive_ns: int) -> None:
        ids, named = ring(tuple(processes))
        self.me = me
        self.id = id_of(f"node {me}")
        self._half = leaf_set // 2
        self._forgive_ns = forgive_ns
        """How long a node is believed to be gone before it is tried again."""
        self._gone: dict[int, Instant] = {}
        self._ids: dict[int, int] = {me: self.id}
        at = bisect_left(ids, self.id)
        near = [ids[(at + step) % len(ids)] for step in range(-self._half, self._half + 1)]
        self._leaves: dict[int, None] = {}
        self.learn(named[each] for each in near)
        self._table: dict[tuple[int, int], list[int]] = {}
        self._fill_table(ids, named)

    def _fill_table(self, ids: list[int], named: dict[int, int]) -> None:
        """Choose up to CELL_MAX nodes per cell: those that a mix of both ids puts first, which stands for nearness."""
        cells: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for other in ids:
            if other != self.id:
                row = shared_digits(self.id, other)
                cells.setdefault((row, digit(other, row)), []).append(((self.id ^ other) * 2654435761 % ID_END, other))
        for cell, choice in cells.items():
            self._table[cell] = [named[other] for _, other in sorted(choice)[:CELL_MAX]]
            self._ids.update((named[other], other) for _, other in sorted(choice)[:CELL_MAX])

    def next_hop(self, key: int, now: Instant) -> int | None:
        """Return the process to which a key goes from here; None: this node is the nearest that is up."""
        leaves = [peer for peer in self._leaves if not self.is_gone(peer, now)]
        if self._is_among(key, leaves):
            nearest = min((self.me, *leaves), key=lambda peer: (distance(self._ids[peer], key), peer))
            return None if nearest == self.me else nearest
        row = shared_digits(self.id, key)
        for peer in self._table.get((row, digit(key, row)), ()):
            if not self.is_gone(peer, now):
                return peer
        mine = distance(self.id, key)
        nearer = [
            peer
            for peer, other in self._ids.items()
            if peer != self.me
            and not self.is_gone(peer, now)
            and shared_digits(other, key) >= row
            and distance(other, key) < mine
        ]
        return min(nearer, key=lambda peer: (distance(self._ids[peer], key), peer), default=None)

    def _is_among(self, key: int, leaves: list[int]) -> bool:
        """Tell whether a key lies between the farthest leaves of both sides."""
        after = [(self._ids[peer] - self.id) % ID_END for peer in leaves]
        right = max((each for each in after if each < ID_END // 2), default=0)
        left = max((ID_END - each for each in after if each >= ID_END // 2), default=0)
        ahead = (key - self.id) % ID_END
        return len(leaves) < 2 * self._half or ahead <= right or ID_END - ahead <= left

    def is_gone(self, peer: int, now: Instant) -> bool:
        """Tell whether a node is believed to be gone."""
        since = self._gone.get(peer)
        return since is not None and now - since < self._forgive_ns

    def gone(self, peer: int, now: Instant) -> list[int]:
        """Believe that a node is gone; return the leaves to ask for others if it was one."""
        self._gone[peer] = now
        if peer not in self._leaves:
            return []
        left = [other for other in self._leaves if not self.is_gone(other, now)]
        left.sort(key=lambda other: distance(self._ids[other], self.id))
        return left[-2:]

    def heard(self, peer: int) -> None:
        """Learn that a node is up."""
        self._gone.pop(peer, None)

    def learn(self, peers: Iterable[int]) -> None:
        """Take nodes into the leaf set, as far as they are near enough."""
        for peer in peers:
            if peer != self.me:
                self._ids[peer] = id_of(f"node {peer}")
                self._leaves[peer] = None
        by_side = sorted(self._leaves, key=lambda peer: (self._ids[peer] - self.id) % ID_END)
        kept = dict.fromkeys((*by_side[: self._half], *by_side[-self._half :]))
        if not self._gone:
            self._leaves = kept

    def leaves(self) -> tuple[int, ...]:
        """Return the leaf set, nearest first."""
        return tuple(sorted(self._leaves, key=lambda peer: distance(self._ids[peer], self.id)))

    def known(self) -> tuple[int, ...]:
        """Return all nodes of the leaf set and the table."""
        return tuple(peer for peer in self._ids if peer != self.me)
