"""Scribe: a tree per topic, rooted at the node whose Pastry id is nearest to the topic's.

Promises: best effort. While nobody is down, every subscriber gets every event; after crashes, once the tree is
repaired. Events may be lost, delivered twice or in another order meanwhile.
The sentence that decides: a node takes events of a topic from its parent in the topic's tree and from nobody else.
A subscription is routed towards the topic's id; every node on its way is a forwarder, and the way ends at the first
that is one already. A publisher sends to the root, which it learns with its first event. A parent that sent neither an
event nor a heartbeat for three heartbeats is believed to be gone: the child subscribes again by another way. The root's
children are known to the nodes next to it, one of which is the next root and adopts them.
Costs per event: one copy from the publisher to the root, and one per edge of the tree; heartbeats where it is quiet.
Source: Castro, Druschel, Kermarrec, Rowstron 2002, as in the thesis, 2.3.1.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from whence.core.levels.causal.tree.headers import NODES
from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.levels.causal.tree.place import Place
from whence.core.ready import NEVER, BundleItem, Delivery, Gauge, Item, Note, Ready, Send
from whence.types import Bundle, Instant, PeerId, Process
from whence_lab.rivals.member import RivalBase
from whence_lab.rivals.pastry import Pastry, id_of
from whence_lab.rivals.settings import Settings

SILENT_HEARTBEATS = 3
FORGIVEN_HEARTBEATS = 20
"""How many heartbeats a node is avoided after it was found to be gone."""

HOPS_MAX = 64
PEERS_MAX = 256

Group = Annotated[int, Meta(ge=0, le=GROUPS_MAX - 1)]
Peers = Annotated[tuple[PeerId, ...], Meta(max_length=PEERS_MAX)]


class ScribeSubscribe(Item, frozen=True, tag=230):
    """The sender wants to be a child in this topic's tree."""

    group: Group


class ScribeUnsubscribe(Item, frozen=True, tag=231):
    """The sender no longer is a child in this topic's tree."""

    group: Group


class ScribePublish(BundleItem, frozen=True, tag=232):
    """An event on its way to the root."""

    group: Group
    hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)]
    bundle: Bundle


class ScribeCopy(BundleItem, frozen=True, tag=233):
    """An event on its way down the tree."""

    group: Group
    bundle: Bundle


class ScribeRoot(Item, frozen=True, tag=234):
    """The sender is the root of this topic."""

    group: Group


class ScribeHeartbeat(Item, frozen=True, tag=235):
    """The sender is the receiver's parent in these topics."""

    groups: Annotated[tuple[Group, ...], Meta(max_length=GROUPS_MAX)]


class ScribeReplica(Item, frozen=True, tag=236):
    """The children of this topic's root."""

    group: Group
    children: Peers


class ScribeAdopt(Item, frozen=True, tag=246):
    """The sender is the root in the place of another one, and the parent of its children."""

    group: Group
    former: PeerId


class PastryHello(Item, frozen=True, tag=237):
    """The sender is up, again."""


class PastryLeafAsk(Item, frozen=True, tag=238):
    """Asks for a leaf set."""


class PastryLeafTell(Item, frozen=True, tag=239):
    """A leaf set."""

    peers: Peers


SCRIBE_ITEMS: tuple[type[Item], ...] = (
    ScribeSubscribe, ScribeUnsubscribe, ScribePublish, ScribeCopy, ScribeRoot, ScribeHeartbeat, ScribeReplica,
    ScribeAdopt, PastryHello, PastryLeafAsk, PastryLeafTell,
)  # fmt: skip


class Topic(Struct):
    """What a node knows of a topic's tree."""

    key: int
    parent: int | None = None
    is_root: bool = False
    children: dict[int, None] = {}
    heard_at: Instant = 0
    """When the parent was last heard of."""
    sent_at: Instant = -(1 << 62)
    """When the children last got something."""
    replica: tuple[int, ...] = ()
    """The children of the root, if this node is next to it."""
    former: int | None = None
    """That root."""
    replicated: tuple[int, ...] = ()
    """Those that the nodes next to this root know of."""

    @property
    def is_in_tree(self) -> bool:
        """Tell whether the node has a place in the tree."""
        return self.is_root or self.parent is not None


class Scribe(RivalBase):
    """One node: subscriber, forwarder, root and publisher."""

    def __init__(self, me: Process, place: Place, settings: Settings) -> None:
        super().__init__(me, place, settings.limits)
        self._settings = settings.scribe
        self._pastry = Pastry(
            me.pid, place.overlay.processes, self._settings.leaf_set, FORGIVEN_HEARTBEATS * self._settings.heartbeat_ns
        )
        self._topics: dict[int, Topic] = {}
        self._roots: dict[int, int] = {}
        """The root of a topic, where it is known."""
        self._beat_at: Instant = NEVER

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start, and subscribe to the topics of this node."""
        ready = super().found(peers, now)
        for group in range(self._place.overlay.group_count):
            if self._is_member(group):
                self._attach(group, now, ready)
        self._beat_at = ready.wake_at = now + self._settings.heartbeat_ns
        return ready

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Start again, and tell the nodes of the own tables."""
        ready = self.found([], now)
        ready.send.insert(0, Send(self._pastry.known(), PastryHello()))
        return ready

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a topic; the publisher gets them as any subscriber does. Raises as RivalBase."""
        bundle, ready = self._bundled(group, payloads)
        root = self._roots.get(group)
        if root is not None and not self._pastry.is_gone(root, now):
            ready.send.append(Send((root,), ScribePublish(group, 0, bundle)))
        else:
            self._route(ScribePublish(group, 0, bundle), now, ready)
        return bundle, ready

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item of Scribe or Pastry."""
        ready, peer = Ready(), sender.pid
        if not self._up or peer not in self._place.overlay.place_of or not isinstance(item, SCRIBE_ITEMS):
            ready.notes.append(Note("drop", "stranger", peer=peer))
            return ready
        self._pastry.heard(peer)
        if getattr(item, "group", 0) >= self._place.overlay.group_count:
            return ready
        match item:
            case ScribeSubscribe(group):
                self._topic(group).children[peer] = None
                if not self._topic(group).is_in_tree:
                    self._attach(group, now, ready)
            case ScribeUnsubscribe(group):
                self._topic(group).children.pop(peer, None)
            case ScribePublish():
                self._route(item, now, ready)
            case ScribeCopy(group, bundle):
                self._copied(peer, group, bundle, now, ready)
            case ScribeRoot(group):
                self._roots[group] = peer
            case ScribeHeartbeat(groups):
                self._beaten(peer, groups, now, ready)
            case ScribeReplica(group, children):
                self._topic(group).replica, self._topic(group).former = children, peer
            case ScribeAdopt(group, former):
                topic = self._topic(group)
                if topic.parent == former:
                    topic.parent, topic.heard_at = peer, now
            case PastryHello():
                self._pastry.learn((peer,))
            case PastryLeafAsk():
                ready.send.append(Send((peer,), PastryLeafTell(self._pastry.leaves())))
            case PastryLeafTell(peers):
                self._pastry.learn(other for other in peers if other in self._place.overlay.place_of)
        return ready

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Go around a node that is gone."""
        ready = Ready()
        self._gone(peer, now, ready)
        return ready

    def tick(self, now: Instant) -> Ready:
        """Send heartbeats, miss those of parents, and copy what a root knows to the nodes next to it."""
        ready = Ready()
        if not self._up or now < self._beat_at:
            return ready
        self._beat_at = ready.wake_at = now + self._settings.heartbeat_ns
        beats: dict[int, list[int]] = {}
        for group, topic in self._topics.items():
            self._check(group, topic, now, ready)
            if now - topic.sent_at >= self._settings.heartbeat_ns:
                for child in topic.children:
                    beats.setdefault(child, []).append(group)
            if topic.is_root and tuple(topic.children) != topic.replicated:
                topic.replicated = tuple(topic.children)[:PEERS_MAX]
                near = self._pastry.leaves()[: self._settings.root_replicas]
                if near:
                    ready.send.append(Send(near, ScribeReplica(group, topic.replicated)))
        for child, groups in beats.items():
            ready.send.append(Send((child,), ScribeHeartbeat(tuple(groups))))
        return ready

    def gauges(self) -> list[Gauge]:
        """Return the most children that this node has in one tree."""
        most = max((len(topic.children) for topic in self._topics.values()), default=0)
        return [Gauge("children", most, NODES)]

    # --- the tree ---

    def _topic(self, group: int) -> Topic:
        found = self._topics.get(group)
        if found is None:
            found = self._topics[group] = Topic(id_of(f"topic {group}"))
        return found

    def _attach(self, group: int, now: Instant, ready: Ready) -> None:
        """Find a parent on the way to the topic's id; without one, this node is the root."""
        topic = self._topic(group)
        topic.parent = self._pastry.next_hop(topic.key, now)
        topic.is_root = topic.parent is None
        topic.heard_at = now
        if topic.parent is not None:
            topic.children.pop(topic.parent, None)
            ready.send.append(Send((topic.parent,), ScribeSubscribe(group)))
        elif topic.former is not None and self._pastry.is_gone(topic.former, now):
            adopted = tuple(child for child in topic.replica if child != self.me.pid)
            topic.children.update(dict.fromkeys(adopted))
            if adopted:
                ready.send.append(Send(adopted, ScribeAdopt(group, topic.former)))
            topic.replica, topic.former = (), None

    def _check(self, group: int, topic: Topic, now: Instant, ready: Ready) -> None:
        """Miss a parent that is silent, hand a tree over to a nearer root, and leave a tree that leads to nobody."""
        if topic.parent is not None and not topic.children and not self._is_member(group):
            ready.send.append(Send((topic.parent,), ScribeUnsubscribe(group)))
            topic.parent = None
        elif topic.parent is not None and now - topic.heard_at > SILENT_HEARTBEATS * self._settings.heartbeat_ns:
            self._gone(topic.parent, now, ready)
        elif topic.is_root and self._pastry.next_hop(topic.key, now) is not None:
            self._attach(group, now, ready)

    def _gone(self, peer: int, now: Instant, ready: Ready) -> None:
        for leaf in self._pastry.gone(peer, now):
            ready.send.append(Send((leaf,), PastryLeafAsk()))
        for group, topic in self._topics.items():
            topic.children.pop(peer, None)
            if self._roots.get(group) == peer:
                del self._roots[group]
            if topic.parent == peer:
                self._attach(group, now, ready)

    def _beaten(self, peer: int, groups: tuple[int, ...], now: Instant, ready: Ready) -> None:
        for group in groups:
            if group >= self._place.overlay.group_count:
                continue
            topic = self._topic(group)
            if topic.parent == peer:
                topic.heard_at = now
            else:
                ready.send.append(Send((peer,), ScribeUnsubscribe(group)))

    # --- events ---

    def _route(self, event: ScribePublish, now: Instant, ready: Ready) -> None:
        """Send an event towards the root; at the root, down the tree."""
        topic = self._topic(event.group)
        hop = self._pastry.next_hop(topic.key, now)
        if hop is not None:
            if event.hops < HOPS_MAX:
                ready.send.append(Send((hop,), ScribePublish(event.group, event.hops + 1, event.bundle)))
            return
        if not topic.is_root:
            self._attach(event.group, now, ready)
        if event.hops and event.bundle.pid != self.me.pid:
            ready.send.append(Send((event.bundle.pid,), ScribeRoot(event.group)))
        self._spread(event.group, event.bundle, now, ready)

    def _copied(self, peer: int, group: int, bundle: Bundle, now: Instant, ready: Ready) -> None:
        topic = self._topic(group)
        if topic.parent != peer:
            ready.notes.append(Note("drop", "no_parent", bundle, peer))
            ready.send.append(Send((peer,), ScribeUnsubscribe(group)))
            return
        topic.heard_at = now
        self._spread(group, bundle, now, ready)

    def _spread(self, group: int, bundle: Bundle, now: Instant, ready: Ready) -> None:
        topic = self._topic(group)
        if self._is_member(group):
            ready.deliver.append(Delivery(bundle))
        if topic.children:
            topic.sent_at = now
            ready.send.append(Send(tuple(topic.children), ScribeCopy(group, bundle)))
