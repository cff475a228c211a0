"""How large headers and memory get: the worst cases that the thesis plots (section 5.6), and the largest seen in runs.

The thesis states a value of each formula, not the formulas. LoCaMu's 540 bytes follow from the ball of f+1 hops
(LoCaMu section 11.4): a number for each pair of its other nodes, 4 bytes each, and an entry of 8 bytes for each of
them in the vectors of 2f+1 forwarders.
"""

from itertools import count

from msgspec import Struct

from whence.core.levels.causal.tree.member import TreeMember
from whence.sim.scenario import MS
from whence_lab.experiments.tree_load import Load, World
from whence_lab.reference.thesis import ThesisCoding
from whence_lab.rivals.barriers import Barriers
from whence_lab.rivals.cbcast import Cbcast
from whence_lab.rivals.member import RivalMember

NUMBER_BYTES, ENTRY_BYTES = 4, 8
MESSAGE_EVERY_NS = 50_000
"""At this pace some hundred messages are under way at a time."""
SETTLE_NS = 200 * MS
AMPLE_BPS = 10**15
"""Bandwidth that is no limit."""


class Sizes(Struct, frozen=True):
    """Bytes of the largest header, uncompressed, and of what the fullest node keeps to order messages."""

    header: float
    memory: float
    """0 for our own headers, where it is not counted."""


# --- worst cases ---


def ball(degree: int, radius: int) -> int:
    """Return the nodes within so many hops of a node in a tree of this degree, that node included."""
    return 1 + sum(degree * int((degree - 1) ** hops) for hops in range(radius))


def locamu_worst(degree: int, f: int) -> Sizes:
    """Return LoCaMu's worst case; it keeps its past, what it received, and what each link of it carried last."""
    others = ball(degree, f + 1) - 1
    header = NUMBER_BYTES * others**2 + ENTRY_BYTES * (2 * f + 1) * others
    return Sizes(header, NUMBER_BYTES * ball(degree, 2 * f + 1) ** 2 * (2 + 2 * others))


def cbcast_worst(members: int, degree: int) -> Sizes:
    """Return CBCAST's: an entry for each member of each group; kept once, and for both directions of each link."""
    return Sizes(NUMBER_BYTES * members, NUMBER_BYTES * members * (1 + 2 * degree))


def barriers_worst(nodes: int) -> Sizes:
    """Return that of Causal Barriers: for each destination a message of each node; and it keeps a matrix."""
    return Sizes(ENTRY_BYTES * nodes**2, (ENTRY_BYTES + NUMBER_BYTES) * nodes**2)


# --- runs ---


class Talk(Struct, frozen=True, kw_only=True):
    """A run in which many speak: with `each` every node publishes to each of its groups, else one node of each."""

    scheme: str
    nodes: int
    groups: int
    degree: int = 3
    f: int = 1
    each: bool = True
    every_ns: int = MESSAGE_EVERY_NS
    """The time between two publications of the whole tree."""

    def run(self, seed: int) -> Sizes:
        """Publish all messages in an order that is drawn, let them arrive, and look at every node."""
        load = Load(
            scheme=self.scheme, nodes=self.nodes, degree=self.degree, f=self.f, groups=f"zipf:{self.groups}",
            bandwidth_bps=AMPLE_BPS,
        )  # fmt: skip
        world = World(load, seed)
        draw = world.streams.of("talk")
        tables = [world.overlay.table(group) for group in range(world.overlay.group_count)]
        said = [
            (node, group)
            for group, table in enumerate(tables)
            for node in (table.members if self.each else [draw.choice(table.members)])
        ]
        draw.shuffle(said)
        for at, (node, group) in zip(count(0, self.every_ns), said, strict=False):
            world.loop.at(at, world.nodes[node].publish, group)
        world.loop.run(len(said) * self.every_ns + SETTLE_NS)
        kept = [sizes_of(node.member, node.meter.most) for node in world.nodes]
        return Sizes(max(sizes.header for sizes in kept), max(sizes.memory for sizes in kept))


def sizes_of(member: object, sent_most: int) -> Sizes:
    """Return the largest header of a member, as it would be without compression, and what it keeps.

    Past and clocks only grow, so the last header is the largest; Causal Barriers compress nothing, so it was sent. Of
    our own headers it is the largest that was sent, compressed as they are: no other exists.
    """
    if isinstance(member, TreeMember) and isinstance(member.coding, ThesisCoding):
        past = NUMBER_BYTES * len(member.state.past)
        return Sizes(past + member.coding.ids_most, past + NUMBER_BYTES * member.coding.numbers_kept())
    if isinstance(member, TreeMember):
        return Sizes(sent_most, 0.0)
    if isinstance(member, RivalMember) and isinstance(member.order, Cbcast):
        clocks, links = member.order.entries()
        return Sizes(NUMBER_BYTES * clocks, NUMBER_BYTES * (clocks + links))
    if isinstance(member, RivalMember) and isinstance(member.order, Barriers):
        barrier, matrix = member.order.entries()
        return Sizes(sent_most, ENTRY_BYTES * barrier + NUMBER_BYTES * matrix)
    raise TypeError(f"the sizes of {type(member).__name__} are not counted")
