"""One node's view of the overlay: its neighbourhood, the paths from it, and the targets of a message.

Costs: the neighbourhood is computed once per node. Targets are computed once per group and incoming edge.
Source: LoCaMu, section 1.
"""

from collections.abc import Sequence

from msgspec import structs

from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.ready import Note, Ready, Send


class Place:
    """One node's view of the overlay."""

    def __init__(self, overlay: Overlay, me: int) -> None:
        """Take the node's place in the tree; see Overlay.place_of."""
        self.overlay = overlay
        self.me = me
        self.f = overlay.f
        self.near = overlay.near(me)
        self.reach = tuple(node for node, hops in self.near.items() if 0 < hops <= overlay.range)
        self.paths = {node: tuple(overlay.path(me, node)[1:]) for node in self.near if node != me}
        """To every near node: the nodes after this one, the near node itself last."""
        self.pairs = overlay.pairs(me)
        self.position_of = {key: position for position, key in enumerate(overlay.listed_pairs(me))}
        """The position of each pair in Overlay.listed_pairs."""
        self._targets: dict[tuple[int, int], tuple[int, ...]] = {}

    def upstream(self, forwarder: int) -> int:
        """Return the neighbour on the path to a forwarder."""
        return self.paths[forwarder][0]

    def targets(self, group: int, upstream: int) -> tuple[int, ...]:
        """Return the targets of a group's message that came through the neighbour `upstream`, -1 at its publisher."""
        found = self._targets.get((group, upstream))
        if found is None:
            overlay, me = self.overlay, self.me
            found = self._targets[group, upstream] = tuple(
                node
                for node in self.reach
                if (path := self.paths[node])[0] != upstream
                and overlay.needs(group, path[-2] if len(path) > 1 else me, node)
            )
        return found

    def active(self, suspected: dict[int, None]) -> tuple[int, ...]:
        """Return the active links: on the path to each node in reach, the first node that is not suspected."""
        chosen: dict[int, None] = {}
        for node in self.reach:
            for step in self.paths[node]:
                if step not in suspected:
                    chosen[step] = None
                    break
        return tuple(chosen)

    def addressed(self, ready: Ready) -> Ready:
        """Replace places by process numbers, in the destinations of sends and in notes."""
        if self.overlay.renumbered:
            names = self.overlay.processes
            ready.send = [
                Send(tuple([names[to] for to in send.to]), send.item, send.incarnation) for send in ready.send
            ]
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
