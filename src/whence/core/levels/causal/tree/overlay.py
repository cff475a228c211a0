"""The overlay of `causal` and its rivals: a fixed tree, the shortcuts around failed members, and who needs what.

Promises: everything here is a function of the tree, the groups and f, and never changes; a new topology is a new
Overlay with a higher epoch. A member asks only for what lies within 2f+1 hops of it.
The base graph is a tree. Its extended graph links members up to f+1 hops apart (`reach`); the safe neighbourhood of a
member (`near`) is the ball of 2f+1 hops around it. A group's routing table is one bit per directed edge: some member
of the group lies beyond it.
Nodes are places 0, 1, … of the tree; which process stands at each comes from the list of processes, never from their
numbers, so that any processes make a tree without holes. Everything but `processes` and `place_of` speaks of places.
Costs: built once per epoch and shared by all members of a simulation; what is asked for is computed on first use.
Source: LoCaMu, section 1.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct, structs

from whence.core.ready import Note, Ready, Send
from whence.errors import SettingError
from whence.limits import PEER_ID_MAX

F_MAX = 3
"""The most faults per path of 2f+1 that are supported; the pairs a member knows of grow with the power of f."""

GROUPS_MAX = 1 << 16
"""Groups of one overlay; their number travels with every copy."""

NODE_BITS = 16
NODE_MASK = (1 << NODE_BITS) - 1

PairNumbers: TypeAlias = dict[int, int]
"""Values by ordered pair of nodes, see `pair`. What is not there is 0."""


def pair(source: int, target: int) -> int:
    """Return the key of an ordered pair of nodes."""
    return source << NODE_BITS | target


class OverlaySettings(Struct, frozen=True, kw_only=True):
    """The tree, the groups on it and how many failures per path are survived."""

    tree: str = "binary"
    """binary, line, star, caterpillar, degree:K, or the parents of nodes 1, 2, … as 0,0,1,…; each before its child."""

    tree_nodes: int = 0
    """Nodes of a tree given by name; 0: as many as there are processes, or as the parents name, plus the root."""

    processes: str = ""
    """The processes at nodes 0, 1, …, as 10 20 30, in the same order everywhere. Empty: their numbers are those of the
    nodes."""

    groups: str = "all"
    """all, subtrees (one group per inner node, of all below it), or the processes that are members: 0 1 2;2 3."""

    f: int = 1
    """Failures survived on every path of 2f+1 nodes. The header grows with the number of nodes in f+1 hops.
    Above 1 a jump over several nodes may have to wait for them (experimental)."""

    def __post_init__(self) -> None:
        if not 1 <= self.f <= F_MAX:
            raise SettingError(f"f must be from 1 to {F_MAX}, not {self.f}")


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

        `processes` are those at the nodes, in order; without, they are numbered as the nodes are.
        """
        self.f = f
        self.epoch = epoch
        self.size = len(parents)
        self.processes: Sequence[int] = tuple(processes) or range(self.size)
        """By place."""
        self.place_of = {process: place for place, process in enumerate(self.processes)}
        self.renumbered = bool(processes) and self.processes != tuple(range(self.size))
        """Whether any process has another number than its place."""
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
        self._tables: dict[int, Table] = {}
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
        """Return the same pairs in an order that everybody agrees on."""
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

    def table(self, group: int) -> "Table":
        """Return a group's members and routing table."""
        found = self._tables.get(group)
        if found is None:
            members = self._subtree(group) if self._groups is None else self._groups[group]
            found = self._tables[group] = Table(members, self._parents)
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


class Table:
    """One group: its members, and for every node how many of them are at or below it; nodes with none are left out."""

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


class Place:
    """What one node knows of the overlay."""

    def __init__(self, overlay: Overlay, me: int) -> None:
        """Stand at a place of the tree; see Overlay.place_of."""
        self.overlay = overlay
        self.me = me
        self.f = overlay.f
        self.near = overlay.near(me)
        self.reach = tuple(node for node, hops in self.near.items() if 0 < hops <= overlay.range)
        self.ways = {node: tuple(overlay.path(me, node)[1:]) for node in self.near if node != me}
        """From here to every near node: the nodes on the way, the node itself last."""
        self.pairs = overlay.pairs(me)
        self.place_of = {key: place for place, key in enumerate(overlay.listed_pairs(me))}
        """Where each pair stands in the list that everybody agrees on."""
        self._targets: dict[tuple[int, int], tuple[int, ...]] = {}

    def upstream(self, forwarder: int) -> int:
        """Return the neighbour on the way to a forwarder."""
        return self.ways[forwarder][0]

    def targets(self, group: int, upstream: int) -> tuple[int, ...]:
        """Return whom a message of a group goes to from here; it came through `upstream`, -1 where it began."""
        found = self._targets.get((group, upstream))
        if found is None:
            overlay, me = self.overlay, self.me
            found = self._targets[group, upstream] = tuple(
                node
                for node in self.reach
                if (way := self.ways[node])[0] != upstream
                and overlay.needs(group, way[-2] if len(way) > 1 else me, node)
            )
        return found

    def active(self, suspected: dict[int, None]) -> tuple[int, ...]:
        """Return the connections to use: on the way to each node in reach, the first that is not suspected."""
        chosen: dict[int, None] = {}
        for node in self.reach:
            for step in self.ways[node]:
                if step not in suspected:
                    chosen[step] = None
                    break
        return tuple(chosen)

    def addressed(self, ready: Ready) -> Ready:
        """Name processes where a member named places: whom it sends to, and whom its notes are about."""
        if self.overlay.renumbered:
            names = self.overlay.processes
            ready.send = [Send(tuple([names[to] for to in send.to]), send.item, send.boot) for send in ready.send]
            ready.notes = [_about(note, names) for note in ready.notes]
        return ready

    def hops(self, source: int, target: int) -> int:
        """Return the distance between any two nodes."""
        if target == self.me:
            source, target = target, source
        if source == self.me and target in self.near:
            return self.near[target]
        return self.overlay.distance(source, target)


def _about(note: Note, names: Sequence[int]) -> Note:
    return note if note.peer is None else structs.replace(note, peer=names[note.peer])


# --- overlays by name ---


def overlay_of(settings: OverlaySettings, radius: int | None = None) -> Overlay:
    """Build the overlay that settings describe, or return it if it was built before. Raises SettingError."""
    return _overlay(settings.tree, settings.tree_nodes, settings.processes, settings.groups, settings.f, radius)


@lru_cache(maxsize=8)
def _overlay(tree: str, nodes: int, listed: str, groups: str, f: int, radius: int | None) -> Overlay:
    processes = _processes(listed)
    parents = parents_of(tree, nodes or len(processes))
    if processes and len(processes) != len(parents):
        raise SettingError(f"processes: the tree has {len(parents)} nodes, and {len(processes)} processes are listed")
    members: Sequence[Iterable[int]] | None = [range(len(parents))]
    if groups == "subtrees":
        members = None
    elif groups != "all":
        members = _members(groups, processes or range(len(parents)))
    return Overlay(parents, members, f, radius=radius, processes=processes)


def parents_of(tree: str, nodes: int) -> list[int]:
    """Return the parent of every node of a tree by name or by parents. Raises SettingError."""
    if tree and (tree[0].isdigit() or tree[0] == "-"):
        parents = [-1, *_numbers(tree.split(","), "tree")]
        if nodes and nodes != len(parents):
            raise SettingError(f"tree names the parents of {len(parents)} nodes, and tree_nodes is {nodes}")
    else:
        name, _, degree = tree.partition(":")
        if name not in TREES or (name == "degree") != bool(degree):
            raise SettingError(f"tree must be {', '.join(TREES)} (as degree:3), or parents as 0,0,1; not {tree!r}")
        size = max(nodes, 1)
        parents = [TREES[name](node, _numbers([degree or "3"], "tree")[0]) for node in range(size)]
    for node, parent in enumerate(parents):
        if node and not 0 <= parent < node:
            raise SettingError(f"tree: the parent of node {node} must be from 0 to {node - 1}, not {parent}")
    if len(parents) > PEER_ID_MAX + 1:
        raise SettingError(f"a tree has at most {PEER_ID_MAX + 1} nodes, not {len(parents)}")
    return parents


def _regular(node: int, degree: int) -> int:
    """Return the parent in the tree whose inner nodes all have `degree` neighbours, the root one less."""
    return (node - 1) // max(1, degree - 1) if node else -1


TREES: dict[str, Callable[[int, int], int]] = {
    "binary": lambda node, _: _regular(node, 3),
    "degree": _regular,
    "line": lambda node, _: node - 1,
    "star": lambda node, _: 0 if node else -1,
    "caterpillar": lambda node, _: node - 1 if node % 2 else node - 2 if node else -1,
}
"""Trees by name: node and degree to parent."""


def _processes(listed: str) -> list[int]:
    processes = _numbers(listed.split(), "processes")
    if len({*processes}) < len(processes) or not all(0 <= process <= PEER_ID_MAX for process in processes):
        raise SettingError(f"processes are different numbers from 0 to {PEER_ID_MAX}, as 10 20 30; not {listed!r}")
    return processes


def _members(groups: str, processes: Sequence[int]) -> list[list[int]]:
    """Return the places of the members of each group."""
    place_of = {process: place for place, process in enumerate(processes)}
    listed = [_numbers(members.split(), "groups") for members in groups.split(";")]
    for members in listed:
        if not members or not all(member in place_of for member in members):
            known = f"numbered 0 to {len(processes) - 1}" if isinstance(processes, range) else f"of {processes}"
            raise SettingError(f"groups: members are {known}, as 0 1 2;2 3; not {groups!r}")
    if len(listed) > GROUPS_MAX:
        raise SettingError(f"groups: at most {GROUPS_MAX}, not {len(listed)}")
    return [[place_of[member] for member in members] for members in listed]


def _numbers(words: list[str], setting: str) -> list[int]:
    try:
        return [int(word) for word in words]
    except ValueError:
        raise SettingError(f"{setting}: numbers are expected, not {' '.join(words)!r}") from None
