"""The overlay that settings describe: a tree by name or by its parents, the groups on it, and f.

Law: equal settings give the same overlay everywhere. Overlays are kept and shared by all members of a simulation.
Source: LoCaMu, section 1.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import gcd

from msgspec import Struct

from whence.core.levels.causal.tree.overlay import GROUPS_MAX, Overlay
from whence.errors import SettingError
from whence.limits import PEER_ID_MAX

ZIPF = "zipf:"
ZIPF_POWER = -1.25
GROUPS_ARE = "all, subtrees, zipf:K, or the processes of each group, as 0 1 2;2 3"
GOLDEN = 0.618
"""Steps of this part of a circle come back to no place soon."""

F_MAX = 3
"""The most failures per path of 2f+1 nodes that are supported: the pairs a member knows grow exponentially with f."""


class OverlaySettings(Struct, frozen=True, kw_only=True):
    """The tree, the groups on it and the number of failures per path that it survives."""

    tree: str = "binary"
    """binary, line, star, caterpillar, degree:K, or the parents of nodes 1, 2, … as 0,0,1,…; each before its child."""

    tree_nodes: int = 0
    """Nodes of a tree given by name. 0: one per process, or one per parent listed, plus the root."""

    processes: str = ""
    """The processes at nodes 0, 1, …, as 10 20 30, in the same order at every member. Empty: a process has the number
    of its node."""

    groups: str = "all"
    """all, subtrees (one group per inner node, of all below it), zipf:K (at most K groups whose sizes fall as in Zipf's
    law, spread over the tree), or the processes that are members: 0 1 2;2 3."""

    f: int = 1
    """Failures survived on every path of 2f+1 nodes. The header grows with the number of nodes within f+1 hops.
    Above 1, a jump over several nodes may have to wait for them (experimental)."""

    def __post_init__(self) -> None:
        if not 1 <= self.f <= F_MAX:
            raise SettingError(f"f must be from 1 to {F_MAX}, not {self.f}")


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
    elif groups.startswith(ZIPF):
        members = _zipf_members(len(parents), _numbers([groups.removeprefix(ZIPF)], "groups")[0])
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
    try:
        listed = [[int(member) for member in members.split()] for members in groups.split(";")]
    except ValueError:
        raise SettingError(f"groups: {GROUPS_ARE}; not {groups!r}") from None
    for members in listed:
        if not members or not all(member in place_of for member in members):
            known = f"numbered 0 to {len(processes) - 1}" if isinstance(processes, range) else f"of {processes}"
            raise SettingError(f"groups: members are {known}, as 0 1 2;2 3; not {groups!r}")
    if len(listed) > GROUPS_MAX:
        raise SettingError(f"groups: at most {GROUPS_MAX}, not {len(listed)}")
    return [[place_of[member] for member in members] for members in listed]


def zipf_sizes(nodes: int, groups: int) -> list[int]:
    """Return the sizes of groups as the thesis has them (section 5.6): group g has N·g^-1.25 members, rounded. Groups
    without members are left out."""
    sizes = [int(nodes * group**ZIPF_POWER + 0.5) for group in range(1, groups + 1)]
    return [size for size in sizes if size]


def _zipf_members(nodes: int, groups: int) -> list[list[int]]:
    """Return members for such groups: nodes in steps that lead through the whole tree, from another one for each."""
    if not 1 <= groups <= GROUPS_MAX:
        raise SettingError(f"groups: zipf:K has from 1 to {GROUPS_MAX} groups, not {groups}")
    step = next(step for step in range(int(nodes * GOLDEN) or 1, 2 * nodes) if gcd(step, nodes) == 1)
    return [[(group + step * at) % nodes for at in range(size)] for group, size in enumerate(zipf_sizes(nodes, groups))]


def _numbers(words: list[str], setting: str) -> list[int]:
    try:
        return [int(word) for word in words]
    except ValueError:
        raise SettingError(f"{setting}: numbers are expected, not {' '.join(words)!r}") from None
