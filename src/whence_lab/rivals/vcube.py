"""VCube-PS: causal order per topic, on a hypercube that makes a tree of subscribers for every message.

Promises: causal order within each topic, and what one publisher publishes to it in order; nothing between topics. No
crashes and no loss. Links may be slow and reorder.
The sentence that decides: a message is delivered when the messages that its causal barrier names have been delivered.
The cluster s of node i has the 2^(s-1) nodes whose number differs from i's in bit s-1 as the highest. A publisher sends
to the first subscriber of each of its clusters; a node that was reached in cluster s of its sender does the same in its
own clusters below s. A node acknowledges when all it sent to have; a publisher sends its next message then.
Costs: one copy and one acknowledgement per subscriber; per copy the barrier, a name per direct predecessor.
Everybody knows all subscriptions; here they are the overlay's groups and do not change.
Source: de Araujo et al. 2019, as in the thesis, 2.3.4.
"""

from collections import deque
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from whence.core.levels.causal.tree.headers import NODES
from whence.core.levels.causal.tree.id_patterns import NOBODY
from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.levels.causal.tree.place import Place
from whence.core.ready import BundleItem, Delivery, Gauge, Item, Note, Ready, Send
from whence.core.varint import Reader, packed
from whence.errors import LimitError
from whence.limits import SEQ_MAX, Limits
from whence.types import Bundle, Instant, PeerId, Process, Seq
from whence_lab.rivals.member import RivalBase

QUEUE_MAX = 4096
"""Messages of a publisher that wait for the one in transit. Full: publishing is refused."""

HELD_MAX = 1 << 16
BARRIER_BYTES_MAX = 1 << 16
DIMENSIONS_MAX = 16

Name = tuple[int, int]
"""A message: the place of its publisher, and its first event."""


class CubeCopy(BundleItem, frozen=True, tag=201):
    """A message on its way through cluster `dimension` of its sender, with its causal barrier."""

    group: Annotated[int, Meta(ge=0, le=GROUPS_MAX - 1)]
    dimension: Annotated[int, Meta(ge=1, le=DIMENSIONS_MAX)]
    barrier: Annotated[bytes, Meta(max_length=BARRIER_BYTES_MAX)]
    bundle: Bundle


class CubeAck(Item, frozen=True, tag=202):
    """The message that begins with this event has arrived here and at all that got it from here."""

    pid: PeerId
    first: Seq


class Waiting(Struct):
    """A message that was passed on: whom it came from, and who has not acknowledged it."""

    parent: int
    awaited: dict[int, None]


class VCube(RivalBase):
    """One node of the hypercube; it may publish to topics that it has not subscribed to."""

    def __init__(self, me: Process, place: Place, limits: Limits) -> None:
        super().__init__(me, place, limits)
        self._barriers: dict[int, dict[Name, None]] = {}
        """By topic, the messages that the next one directly follows."""
        self._delivered: dict[tuple[int, int], int] = {}
        """By topic and publisher, the last message delivered here."""
        self._queue: deque[tuple[int, bytes, Bundle]] = deque()
        self._waiting: dict[Name, Waiting] = {}
        self._held: list[tuple[int, list[Name], Bundle]] = []
        self._first: dict[tuple[int, int], int] = {}

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a topic; they are sent when those before have arrived. Raises as RivalBase."""
        if len(self._queue) >= QUEUE_MAX:
            raise LimitError("messages that wait for the one under way", QUEUE_MAX, QUEUE_MAX + 1)
        bundle, ready = self._bundled(group, payloads)
        name = (self._place.me, bundle.first)
        follows = self._barriers.get(group, {})
        barrier = packed([number for each in follows for number in each])
        self._barriers[group] = {name: None}
        if self._is_member(group):
            self._delivered[group, self._place.me] = bundle.first
            ready.deliver.append(Delivery(bundle))
        self._queue.append((group, barrier, bundle))
        if len(self._queue) == 1:
            self._send_next(ready)
        return bundle, self._place.addressed(ready)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take a copy or an acknowledgement."""
        ready, peer = Ready(), self._place.overlay.place_of.get(sender.pid, NOBODY)
        if self._up and peer != NOBODY and isinstance(item, CubeAck):
            self._acknowledged(peer, item, ready)
        elif self._up and peer != NOBODY and isinstance(item, CubeCopy):
            self._arrived(peer, item, ready)
        else:
            ready.notes.append(Note("drop", "stranger", peer=sender.pid))
        return self._place.addressed(ready)

    def gauges(self) -> list[Gauge]:
        """Return what waits to be sent, to be acknowledged and to be delivered."""
        return [
            Gauge("queued_messages", len(self._queue), QUEUE_MAX, must_drain=True),
            Gauge("passing_messages", len(self._waiting), QUEUE_MAX * NODES, must_drain=True),
            Gauge("held_messages", len(self._held), HELD_MAX, must_drain=True),
        ]

    # --- the hypercube ---

    def _send_next(self, ready: Ready) -> None:
        while self._queue:
            group, barrier, bundle = self._queue[0]
            top = max(1, (self._place.overlay.size - 1).bit_length())
            if self._spread(CubeCopy(group, top, barrier, bundle), top, NOBODY, ready):
                return
            self._queue.popleft()

    def _spread(self, copy: CubeCopy, below: int, parent: int, ready: Ready) -> bool:
        """Send a message to the first subscriber of clusters 1 to `below`; return whether there is any."""
        awaited: dict[int, None] = {}
        for dimension in range(1, below + 1):
            target = self._first_in(copy.group, dimension)
            if target != NOBODY:
                awaited[target] = None
                self.cost.count(len(copy.barrier), len(copy.barrier))
                ready.send.append(Send((target,), CubeCopy(copy.group, dimension, copy.barrier, copy.bundle)))
        if awaited:
            self._waiting[self._name(copy.bundle)] = Waiting(parent, awaited)
        return bool(awaited)

    def _first_in(self, group: int, dimension: int) -> int:
        """Return the first subscriber in one of this node's clusters, or NOBODY."""
        found = self._first.get((group, dimension))
        if found is None:
            members = self._place.overlay.table(group).is_member
            found = next((node for node in cluster(self._place.me, dimension) if node in members), NOBODY)
            self._first[group, dimension] = found
        return found

    def _name(self, bundle: Bundle) -> Name:
        return self._place.overlay.place_of[bundle.pid], bundle.first

    def _acknowledged(self, peer: int, ack: CubeAck, ready: Ready) -> None:
        name = (self._place.overlay.place_of.get(ack.pid, NOBODY), ack.first)
        waiting = self._waiting.get(name)
        if waiting is None or peer not in waiting.awaited:
            return
        del waiting.awaited[peer]
        if waiting.awaited:
            return
        del self._waiting[name]
        if waiting.parent != NOBODY:
            ready.send.append(Send((waiting.parent,), ack))
        elif self._queue:
            self._queue.popleft()
            self._send_next(ready)

    # --- the order ---

    def _arrived(self, peer: int, copy: CubeCopy, ready: Ready) -> None:
        barrier, bundle = self._barrier_of(copy), copy.bundle
        if barrier is None or bundle.pid not in self._place.overlay.place_of or len(self._held) >= HELD_MAX:
            ready.notes.append(Note("reject", "no_barrier", bundle, peer))
            return
        if not self._spread(copy, copy.dimension - 1, peer, ready):
            ready.send.append(Send((peer,), CubeAck(bundle.pid, bundle.first)))
        self._held.append((copy.group, barrier, bundle))
        progress = True
        while progress:
            progress = False
            for held in list(self._held):
                if self._falls(held):
                    self._held.remove(held)
                    self._deliver(held, ready)
                    progress = True

    def _falls(self, held: tuple[int, list[Name], Bundle]) -> bool:
        group, barrier, _ = held
        return all(self._delivered.get((group, publisher), 0) >= first for publisher, first in barrier)

    def _deliver(self, held: tuple[int, list[Name], Bundle], ready: Ready) -> None:
        group, barrier, bundle = held
        name = self._name(bundle)
        self._delivered[group, name[0]] = name[1]
        mine = self._barriers.setdefault(group, {})
        for each in barrier:
            mine.pop(each, None)
        mine[name] = None
        ready.deliver.append(Delivery(bundle))

    def _barrier_of(self, copy: CubeCopy) -> list[Name] | None:
        """Read a causal barrier; None if it is none, or the topic is not one of this node."""
        if copy.group >= self._place.overlay.group_count or not self._is_member(copy.group):
            return None
        reader, names = Reader(copy.barrier), []
        try:
            while reader.more():
                names.append((reader.below(NODES), reader.below(SEQ_MAX + 1)))
        except ValueError:
            return None
        return names


def cluster(node: int, dimension: int) -> list[int]:
    """Return the nodes of a cluster of a node, in the order in which VCube looks for the first of them."""
    first = node ^ 1 << dimension - 1
    found = [first]
    for below in range(1, dimension):
        found += cluster(first, below)
    return found
