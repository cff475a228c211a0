"""The thesis's bandwidth experiments: trees of members whose wires fill, and what is then delivered.

Members and runner are those of every simulation; only the ports are of this module, because the thesis counts bytes of
its own: a copy occupies its sender's wire for payload and ordering metadata, by the formula of its paper, and nothing
else costs bandwidth (LoCaMu section 11.1). So the same wire carries protocols whose formulas differ from what is
written here. A wire carries one copy after another, for all links of its node; then a link takes its time. Without
faults.

Publishers with a rate keep to it, whatever the wires carry: what these cannot carry waits before them. Without a rate a
publisher publishes when its wire is free, and only so much is under way at a time as fills the wires; more would only
wait, and starve members behind the fullest wire. Who must wait for that takes turns. Counted is what members deliver of
others, once wires and links are warm.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from whence.core.level import BuildContext
from whence.core.levels.causal.tree.items import Trail
from whence.core.levels.causal.tree.member import TreeMember
from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.topology import overlay_of
from whence.core.membership.full_view import Directory
from whence.core.ready import BundleItem, Delivery, Gap, Item, Late, Mark, Note, Returned, Unheard
from whence.core.runner import Ports, Runner
from whence.errors import LimitError, WhenceError
from whence.sim.lab import spec_of
from whence.sim.loop import Loop
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, SECOND_NS
from whence.types import Bundle, Process
from whence_lab.experiments.headers import SCHEMES
from whence_lab.rivals.cost import RivalCost
from whence_lab.rivals.member import RivalMember

PATIENT = 600 * SECOND_NS
"""Nothing is lost, so nothing is sent twice or asked for, however long wires are."""
UNBOUNDED = 1 << 30
WINDOW_LEAST = 256
BITS_PER_WINDOW = 50_000
"""A window is large enough for the wire to be the limit: some milliseconds of copies, acknowledged or not."""
ACROSS = 4
"""Times of crossing the tree for which publishers keep the wires full."""
SLICE_NS = 5 * MS
NEIGHBOURHOOD = "neighbourhood"


class Load(Struct, frozen=True, kw_only=True):
    """What is published, by whom, on which tree."""

    scheme: str
    """One of `headers.SCHEMES`."""
    nodes: int = 511
    degree: int = 3
    """Neighbours of an inner node; 3: a binary tree."""
    f: int = 1
    groups: str = "all"
    publishers: int = 1
    """One is the root; several are drawn. Each chooses among the groups that it is in."""
    rate: float = 0.0
    """Messages a second of each publisher; 0: as many as the wires carry."""
    bandwidth_bps: int = 100_000_000
    """Bits a second that a node can send."""
    payload: int = 32
    link_ns: int = MS
    """What a copy takes on a link, after it has left its sender's wire."""

    def settings(self) -> dict[str, Any]:
        """Return the settings of the members."""
        level, given = SCHEMES[self.scheme]
        tree = {
            "tree": f"degree:{self.degree}", "tree_nodes": self.nodes, "groups": self.groups, "f": self.f, **given,
        }  # fmt: skip
        if level != "causal":
            return tree
        return tree | {
            "window": max(WINDOW_LEAST, self.bandwidth_bps // BITS_PER_WINDOW), "retry_ns": PATIENT,
            "retry_ns_max": PATIENT, "suspect_ns": PATIENT, "ask_ns": PATIENT, "held_copies_max": UNBOUNDED,
            "records_max": UNBOUNDED, "retained_bytes_max": UNBOUNDED,
        }  # fmt: skip


class Phase(Struct, frozen=True):
    """How long something lasts: until all of these are reached, in simulated time."""

    least_ns: int
    each: int = 0
    """Deliveries per node, on average."""
    rounds: int = 0
    """Messages per publisher, on average."""


class Patience(Struct, frozen=True):
    """How long a run is watched."""

    warm: Phase
    """Before anything counts: links are begun, wires fill, and publishers hear of each other."""
    counted: Phase
    longest_ns: int = 600 * SECOND_NS
    """Where either ends at the latest."""


class Carried(Struct, frozen=True):
    """What a run carried while it was counted."""

    everywhere: float
    """Messages a second that even the member with the fewest deliveries delivers. With one publisher: its
    throughput."""
    aggregated: float
    """Deliveries a second, of all members together; what a publisher hands to itself is none."""
    metadata_bytes: float
    """Ordering metadata of a copy, by the formula of its paper."""
    written_bytes: float
    """The same as it is written here."""
    published: float
    """Messages a second, of all publishers together."""
    root_busy: float
    """The part of the time in which the root's wire carried something."""
    busiest: float
    """The same of the wire that was idle least."""
    counted_ms: float


class Meter(RivalCost):
    """A member's count of bytes, that also tells its wire the size of each header in turn."""

    __slots__ = ("sizes",)

    def __init__(self) -> None:
        super().__init__()
        self.sizes: deque[int] = deque()

    def add(self, size: int) -> None:
        """Count a copy."""
        super().add(size)
        self.sizes.append(size)


Name = tuple[int, int]
"""A message: its publisher and its number."""


class UnderWay:
    """The messages that some member has not delivered yet, and the publishers that wait until they are fewer."""

    def __init__(self, load: Load, overlay: Overlay) -> None:
        self._overlay = overlay
        across = 2 * max(overlay.distance(0, node) for node in (0, load.nodes - 1))
        self._bytes_max = ACROSS * across * load.link_ns * load.bandwidth_bps // (8 * (load.degree - 1) * SECOND_NS)
        """What the wires carry in some times of crossing the tree: an inner node sends every message to all neighbours
        but one."""
        self._messages_least = ACROSS * across
        """Large messages take long on every wire: there must be one for each of them."""
        self._copies = self._bytes = 0
        """All that were sent so far: the mean is the size of a message."""
        self._left: dict[Name, int] = {}
        """By message: how many members have not delivered it."""
        self._turns: deque[Callable[[object], None]] = deque()
        self._limited = load.scheme != NEIGHBOURHOOD
        """Delta-Neighbourhood has a limit of its own: one of each publisher."""

    def is_full(self) -> bool:
        """Tell whether publishers must wait."""
        count = len(self._left)
        return self._limited and count >= self._messages_least and count * self._bytes >= self._bytes_max * self._copies

    def wait(self, attempt: Callable[[object], None]) -> None:
        """Call a publisher again in its turn."""
        self._turns.append(attempt)

    def begin(self, name: Name, group: int) -> None:
        """Count a new message."""
        others = len(self._overlay.table(group).members) - 1
        if others:
            self._left[name] = others

    def sent(self, size: int) -> None:
        """Count a copy."""
        self._copies += 1
        self._bytes += size

    def delivered(self, name: Name) -> None:
        """Count a delivery."""
        left = self._left[name]
        if left > 1:
            self._left[name] = left - 1
            return
        del self._left[name]
        while self._turns and not self.is_full():
            self._turns.popleft()(None)


class CountingApplication:
    """An application that counts what it is handed of others. No figure may rest on a run that drops something."""

    def __init__(self, me: Process, under_way: UnderWay) -> None:
        self.me = me
        self.delivered = 0
        self._under_way = under_way

    def deliver(self, step: Delivery) -> None:
        """Count what comes from others."""
        bundle = step.bundle
        if bundle.pid != self.me.pid:
            self.delivered += 1
            self._under_way.delivered((bundle.pid, bundle.first))

    def noted(self, note: Note) -> None:
        """Raise RuntimeError where something is dropped."""
        if note.kind in ("drop", "reject"):
            raise RuntimeError(f"process {self.me.pid}: {note.kind}, {note.reason}")

    def refused(self, refusal: WhenceError) -> None:
        """Raise it."""
        raise refusal

    def accepted(self, bundle: Bundle, count: int, /) -> None:
        """Do nothing."""

    def retained(self, bundle: Bundle, /) -> None:
        """Do nothing."""

    def published(self, step: Returned, mark: Mark | None) -> None:
        """Do nothing."""

    def skip(self, step: Gap) -> None:
        """Do nothing."""

    def late(self, step: Late) -> None:
        """Do nothing."""

    def unheard(self, step: Unheard) -> None:
        """Do nothing."""


class Node:
    """A member with its wire and its clock: transport and timer of one runner."""

    def __init__(self, world: "World", me: Process, member: Any) -> None:
        self.member = member
        self.meter = _metered(member)
        self.application = CountingApplication(me, world.under_way)
        self.messages = 0
        """That it has published."""
        self._me, self._loop, self._nodes = me, world.loop, world.nodes
        self._load, self._under_way = world.load, world.under_way
        self._interval = int(SECOND_NS / world.load.rate) if world.load.rate else 0
        self._groups: list[int] = []
        self._draw = world.streams.of("groups", me.pid)
        self._free_at = 0
        self._wire_ns = 0
        """What all copies that it has put on its wire take there."""
        self._plans = 0
        self.runner = Runner(member, Ports(self, self.application, self))

    # --- publishing ---

    def publish_from(self, start: int, groups: list[int]) -> None:
        """Publish from a time on, each message to one of these groups."""
        self._groups = groups
        self._loop.at(start, self._publish_in_time if self._interval else self._publish_if_free)

    def _publish_in_time(self, _: object) -> None:
        """Publish, and plan the next message. Raises LimitError: then its rate is not kept."""
        self._loop.at(self._loop.now + self._interval, self._publish_in_time)
        self._publish_to_any()

    def _publish_if_free(self, _: object) -> None:
        """Publish if the wires have room, and plan the next attempt."""
        now, at = self._loop.now, self._loop.at
        if self._free_at > now:
            at(self._free_at, self._publish_if_free)
            return
        if self._under_way.is_full():
            self._under_way.wait(self._publish_if_free)
            return
        try:
            self._publish_to_any()
        except LimitError:  # it waits for acknowledgements
            at(now + self._load.link_ns, self._publish_if_free)
            return
        at(self._free_at if self._free_at > now else now + self._load.link_ns, self._publish_if_free)

    def _publish_to_any(self) -> None:
        self.publish(self._groups[0] if len(self._groups) == 1 else self._draw.choice(self._groups))

    def publish(self, group: int) -> None:
        """Publish a message. Raises LimitError."""
        bundle = self.runner.publish([bytes(self._load.payload)], group=group)
        self._under_way.begin((bundle.pid, bundle.first), group)
        self.messages += 1

    # --- transport ---

    def send(self, to: tuple[int, ...], item: Item, incarnation: int, /) -> None:
        """Put copies on the wire. Acknowledgements cost nothing, as in the thesis."""
        now = departs = self._loop.now
        is_copy = isinstance(item, BundleItem | Trail)
        for target in to:
            if is_copy:
                size = self.meter.sizes.popleft() + item.payload_bytes()
                takes = size * 8 * SECOND_NS // self._load.bandwidth_bps
                departs = self._free_at = max(now, self._free_at) + takes
                self._wire_ns += takes
                self._under_way.sent(size)
            self._loop.at(departs + self._load.link_ns, self._nodes[target].arrive, (self._me, item))

    def busy_ns(self) -> int:
        """Return for how long its wire has carried something so far."""
        return self._wire_ns - max(0, self._free_at - self._loop.now)

    def arrive(self, sent: tuple[Process, Item]) -> None:
        """Take what a link brings."""
        self.runner.receive(sent[0], (sent[1],), self._loop.now)

    # --- time ---

    def now(self) -> int:
        """Return the time."""
        return self._loop.now

    def plan(self, wake_at: int) -> None:
        """Wake the member then, unless another time is planned meanwhile."""
        self._plans += 1
        self._loop.at(max(wake_at, self._loop.now), self._wake, self._plans)

    def _wake(self, plan: int) -> None:
        if plan == self._plans:
            self.runner.wake()


def _metered(member: Any) -> Meter:
    """Let a member count its headers on a meter."""
    meter = Meter()
    if isinstance(member, TreeMember):
        member.coding.cost = meter
    else:
        member.cost = meter
    if isinstance(member, RivalMember):
        member.order.cost = meter
    return meter


class World:
    """All nodes of a run."""

    def __init__(self, load: Load, seed: int) -> None:
        self.load = load
        self.loop = Loop()
        self.streams = RandomStreams(seed)
        self.nodes: list[Node] = []
        spec = spec_of(SCHEMES[load.scheme][0])
        settings = spec.settings_from(load.settings())
        self.overlay: Overlay = overlay_of(settings.overlay)
        self.under_way = UnderWay(load, self.overlay)
        for pid in range(load.nodes):
            me = Process(pid, 1)
            around = BuildContext(self.streams.of("member", pid).random, 0, Directory(), remembers=False)
            self.nodes.append(Node(self, me, spec.build(me, settings, around)))
        for node in self.nodes:
            node.runner.feed(node.member.found, [])

    def groups_by_member(self) -> dict[int, list[int]]:
        """Return the groups of every node that is in one."""
        found: dict[int, list[int]] = {}
        for group in range(self.overlay.group_count):
            for node in self.overlay.table(group).members:
                found.setdefault(node, []).append(group)
        return found

    def start_publishers(self) -> list[int]:
        """Start the publishers, each at a time of its own within its first interval; return who they are."""
        load, draw, groups = self.load, self.streams.of("publishers"), self.groups_by_member()
        chosen = [0] if load.publishers == 1 else sorted(draw.sample(sorted(groups), load.publishers))
        spread = SECOND_NS / load.rate if load.rate else load.link_ns
        for node in chosen:
            self.nodes[node].publish_from(int(draw.random() * spread), groups[node])
        return chosen

    def deliveries(self) -> list[int]:
        """Return what each node has delivered of others so far."""
        return [node.application.delivered for node in self.nodes]

    def headers(self) -> tuple[int, int, int]:
        """Return the copies so far, and their headers' bytes by formula and as written."""
        meters = [node.meter for node in self.nodes]
        counted = sum(meter.bytes for meter in meters)
        return sum(meter.copies for meter in meters), counted, sum(meter.written for meter in meters) or counted

    def messages(self) -> int:
        """Return what was published so far."""
        return sum(node.messages for node in self.nodes)

    def busy(self) -> list[int]:
        """Return for how long each wire has carried something so far, in nanoseconds."""
        return [node.busy_ns() for node in self.nodes]

    def watch(self, phase: Phase, longest_ns: int) -> None:
        """Run for one phase, but not for too long."""
        start = self.loop.now
        delivered = sum(self.deliveries()) + phase.each * len(self.nodes)
        published = self.messages() + phase.rounds * self.load.publishers
        while True:
            self.loop.run(self.loop.now + SLICE_NS)
            took = self.loop.now - start
            enough = sum(self.deliveries()) >= delivered and self.messages() >= published
            if took >= longest_ns or (took >= phase.least_ns and enough):
                return


def carried(load: Load, patience: Patience, seed: int) -> Carried:
    """Run a load until it is warm, and then count."""
    world = World(load, seed)
    publishers = world.start_publishers()
    world.watch(patience.warm, patience.longest_ns)
    began, before, headers = world.loop.now, world.deliveries(), world.headers()
    messages, busy = world.messages(), world.busy()
    world.watch(patience.counted, patience.longest_ns)
    seconds = (world.loop.now - began) / SECOND_NS
    shares = [(after - earlier) / (world.loop.now - began) for after, earlier in zip(world.busy(), busy, strict=True)]
    grown = [after - earlier for after, earlier in zip(world.deliveries(), before, strict=True)]
    copies, formula, written = (after - earlier for after, earlier in zip(world.headers(), headers, strict=True))
    others = [count for node, count in enumerate(grown) if [node] != publishers]
    return Carried(
        everywhere=min(others) / seconds, aggregated=sum(grown) / seconds, metadata_bytes=formula / max(1, copies),
        written_bytes=written / max(1, copies), counted_ms=seconds * 1e3,
        published=(world.messages() - messages) / seconds, root_busy=shares[0], busiest=max(shares),
    )  # fmt: skip
