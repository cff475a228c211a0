"""Gryphon's overlay: cells of brokers that stand in for each other, in a tree; and who subscribes to what beyond each.

Nodes 0, 1, … of the rival's overlay are dealt to cells in order, `siblings` to each; the cells form a binary tree.
Subscriptions have versions, the virtual time: a broker that knows all versions that a message names may filter it by
what it knows; one that does not must pass it on to everybody.
"""

from collections.abc import Iterable
from functools import lru_cache

from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.topology import parents_of


@lru_cache(4)
def cell_tree(cells: int) -> Overlay:
    """Return the tree of logical nodes."""
    return Overlay(parents_of("binary", cells), [range(cells)], 1)


@lru_cache(1 << 12)
def beyond(cells: int, cell: int, other: int) -> tuple[int, ...]:
    """Return the cells on the far side of the edge to a neighbouring cell."""
    tree, found, edge = cell_tree(cells), [other], [(other, cell)]
    for node, came_from in edge:
        following = [(near, node) for near in tree.neighbours(node) if near != came_from]
        edge += following
        found += [near for near, _ in following]
    return tuple(found)


class Cells:
    """The cells as one broker sees them, and the subscriptions that it knows."""

    def __init__(self, me: int, overlay: Overlay, siblings: int) -> None:
        self._count = -(-overlay.size // siblings)
        self._per_cell = siblings
        self._size = overlay.size
        self.me = me
        self.cell = me // siblings
        self.siblings = tuple(each for each in self.brokers(self.cell) if each != me)
        self.neighbours = tuple(cell_tree(self._count).neighbours(self.cell))
        self._versions: dict[int, int] = {}
        self._topics = [
            frozenset(group for group in range(overlay.group_count) if place in overlay.table(group).is_member)
            for place in range(overlay.size)
        ]
        self._wanted: dict[tuple[int, int], int] = {}
        """How many subends beyond a neighbouring cell subscribe to a topic."""
        for place in range(overlay.size):
            self._count_topics(place, 1)

    def brokers(self, cell: int) -> range:
        """Return the brokers of a cell."""
        return range(cell * self._per_cell, min((cell + 1) * self._per_cell, self._size))

    def cell_of(self, place: int) -> int:
        """Return the cell of a broker."""
        return place // self._per_cell

    def side_of(self, place: int) -> int:
        """Return the neighbouring cell that leads to a broker; the own cell for its siblings."""
        cell = self.cell_of(place)
        if cell == self.cell:
            return cell
        return cell_tree(self._count).path(self.cell, cell)[1]

    # --- subscriptions ---

    def topics(self, place: int) -> frozenset[int]:
        """Return what a subend subscribes to."""
        return self._topics[place]

    def version(self, place: int) -> int:
        """Return the version of a subend's subscription."""
        return self._versions.get(place, 0)

    def subscribe(self, place: int, version: int, topics: Iterable[int]) -> bool:
        """Take a subscription; return whether it is news."""
        if version <= self.version(place):
            return False
        self._count_topics(place, -1)
        self._versions[place] = version
        self._topics[place] = frozenset(topics)
        self._count_topics(place, 1)
        return True

    def versions(self) -> tuple[tuple[int, int], ...]:
        """Return all versions that are not those from the start."""
        return tuple(self._versions.items())

    def knows(self, versions: Iterable[tuple[int, int]]) -> bool:
        """Tell whether this broker knows all these subscriptions."""
        return all(self.version(place) >= version for place, version in versions)

    def wants(self, side: int, group: int) -> bool:
        """Tell whether anybody beyond a neighbouring cell subscribes to a topic."""
        return self._wanted.get((side, group), 0) > 0

    def _count_topics(self, place: int, step: int) -> None:
        side = self.side_of(place)
        if side != self.cell:
            for group in self._topics[place]:
                self._wanted[side, group] = self._wanted.get((side, group), 0) + step
