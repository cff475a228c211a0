"""The overlay of `causal` and its rivals: a fixed tree, the extended graph around it, and the groups on it.

Promises: everything here follows from the tree, the groups and f, and never changes. A new topology is a new Overlay
with a higher epoch. A node needs only what lies within 2f+1 hops of it.
The base graph is a tree. The extended graph links nodes up to f+1 hops apart: a node's `reach`. The safe neighbourhood
of a node, `near`, is the ball of 2f+1 hops around it. A group's routing table is one bit per directed edge: does a
member of the group lie beyond it?
Nodes are places 0, 1, … of the tree. The list of processes says which process is at each place, so that any process
numbers make a tree without holes. Only `processes`, `place_of` and `members_of` use process numbers.
Costs: built once per epoch and shared by all members of a simulation; the rest is computed on first use.
Source: LoCaMu, section 1.
"""

from collections.abc import Iterable, Sequence

from whence.core.levels.causal.tree.pairs import pair

GROUPS_MAX = 1 << 16
"""Groups of one overlay; every copy carries its group's number."""


class Overlay:
    """One epoch of the topology."""

    def __init__(
        self,
        parents: Sequence[int],
        groups: Sequence[Iterable[int]] | None,
        f: int,
        epoch: int = 1,
        radius: int | None = None,
        processes: Sequence[int] = (),
    ) -> None:
        """Take the parent of every node, -1 for node 0, and the members of every group (None: subtrees).

        `processes` are the processes at nodes 0, 1, …; if it is empty, a process has the number of its node.
        """
        self.f = f
        self.epoch = epoch
        self.size = len(parents)
        self.processes: Sequence[int] = tuple(processes) or range(self.size)
        """By place."""
        self.place_of = {process: place for place, process in enumerate(self.processes)}
        self.renumbered = bool(processes) and self.processes != tuple(range(self.size))
        """Whether the number of some process differs from its place."""
        self.range = f + 1
        self.radius = 2 * f + 1 if radius is None else radius
        self._parents = tuple(parents)
        self._children: list[list[int]] = [[] for _ in parents]
        self._depth = [0] * len(parents)
        for node in range(1, len(parents)):
            self._children[parents[node]].append(node)
            self._depth[node] = self._depth[parents[node]] + 1
        inner = [node for node in range(self.size) if self._children[node]]
        self._roots = inner if groups is None else None
        """The nodes whose subtrees are the groups, where they are."""
        self._groups = None if groups is None else [tuple(sorted({*members})) for members in groups]
        self.group_count = len(inner) if self._groups is None else len(self._groups)
        self._tables: dict[int, RoutingTable] = {}
        self._near: dict[int, dict[int, int]] = {}
        self._pairs: dict[int, frozenset[int]] = {}
        self._listed: dict[int, tuple[int, ...]] = {}

    # --- the tree ---

    def neighbours(self, node: int) -> list[int]:
        """Return the nodes one hop away, in order."""
        parent = self._parents[node]
        return self._children[node] if parent < 0 else [parent, *self._children[node]]

    def path(self, source: int, target: int) -> list[int]:
        """Return the nodes from source to target, both included."""
        up, down = [source], [target]
        depth, parents = self._depth, self._parents
        while up[-1] != down[-1]:
            if depth[up[-1]] >= depth[down[-1]]:
                up.append(parents[up[-1]])
            else:
                down.append(parents[down[-1]])
        return up + down[-2::-1]

    def distance(self, source: int, target: int) -> int:
        """Return the number of hops between two nodes."""
        hops = 0
        depth, parents = self._depth, self._parents
        while source != target:
            if depth[source] < depth[target]:
                source, target = target, source
            source = parents[source]
            hops += 1
        return hops

    def near(self, node: int) -> dict[int, int]:
        """Return the safe neighbourhood: every node within 2f+1 hops, with its distance, nearest first."""
        found = self._near.get(node)
        if found is None:
            found = self._near[node] = self._ball(node, self.radius)
        return found

    def pairs(self, node: int) -> frozenset[int]:
        """Return the ordered pairs of nodes in the safe neighbourhood that are linked in the extended graph."""
        found = self._pairs.get(node)
        if found is None:
            near, reach = self.near(node), self.range
            found = self._pairs[node] = frozenset(
                pair(source, target)
                for source in near
                for target, hops in self._ball(source, reach).items()
                if hops and target in near
            )
        return found

    def listed_pairs(self, node: int) -> tuple[int, ...]:
        """Return the same pairs in an order that all nodes share: predicted headers write a position in it."""
        found = self._listed.get(node)
        if found is None:
            found = self._listed[node] = tuple(sorted(self.pairs(node)))
        return found

    def _ball(self, center: int, radius: int) -> dict[int, int]:
        found = {center: 0}
        edge = [center]
        for hops in range(1, radius + 1):
            edge = sorted(other for node in edge for other in self.neighbours(node) if other not in found)
            found.update(dict.fromkeys(edge, hops))
        return found

    # --- groups ---

    def members_of(self, group: int) -> tuple[int, ...]:
        """Return the processes that are members of a group."""
        return tuple(self.processes[place] for place in self.table(group).members)

    def table(self, group: int) -> "RoutingTable":
        """Return a group's members and routing table."""
        found = self._tables.get(group)
        if found is None:
            members = self._subtree(group) if self._groups is None else self._groups[group]
            found = self._tables[group] = RoutingTable(members, self._parents)
        return found

    def _subtree(self, group: int) -> tuple[int, ...]:
        assert self._roots is not None
        members = [self._roots[group]]
        for node in members:
            members += self._children[node]
        return tuple(members)

    def needs(self, group: int, source: int, target: int) -> bool:
        """Tell whether a member of the group lies beyond the edge from source to its neighbour target."""
        table = self.table(group)
        below = table.below
        if self._parents[target] == source:
            return target in below
        return below.get(source, 0) < len(table.members)


class RoutingTable:
    """One group: its members, and for each node the number of members at or below it, if there are any."""

    __slots__ = ("_mask", "below", "is_member", "members")

    def __init__(self, members: tuple[int, ...], parents: tuple[int, ...]) -> None:
        self.members = tuple(sorted(members))
        self.is_member = frozenset(members)
        self._mask = 0
        self.below: dict[int, int] = {}
        below = self.below
        for member in members:
            node = member
            while node >= 0:
                below[node] = below.get(node, 0) + 1
                node = parents[node]

    @property
    def mask(self) -> int:
        """Return the members as one bit each."""
        if not self._mask:
            bits = bytearray((self.members[-1] >> 3) + 1)
            for member in self.members:
                bits[member >> 3] |= 1 << (member & 7)
            self._mask = int.from_bytes(bits, "little")
        return self._mask
