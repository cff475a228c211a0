"""What Plumtree and Thicket share: HyParView below, the messages seen lately, and when to wake."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.levels.causal.tree.place import Place
from whence.core.ready import NEVER, Delivery, Gauge, Item, RandomSource, Ready
from whence.types import Bundle, Incarnation, Instant, PeerId, Process, Seq
from whence_lab.rivals.hyparview import HYPARVIEW_ITEMS, HyParView
from whence_lab.rivals.member import RivalBase
from whence_lab.rivals.settings import Settings

SEEN_MAX = 1 << 14
"""Names of messages that are remembered, oldest forgotten first. A copy that comes later counts as new."""

KEPT_MAX = 1 << 11
"""Messages that are kept for peers that ask, oldest forgotten first."""

MISSING_MAX = 1 << 12
"""Messages that were announced and have not come."""

Group = Annotated[int, Meta(ge=0, le=GROUPS_MAX - 1)]


class Name(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A message: its publisher, the publisher's incarnation, its first event."""

    pid: PeerId
    incarnation: Incarnation
    first: Seq


class Message(Struct, frozen=True, gc=False):
    """A message that is kept: its group, its tree where there are several, and its bundle."""

    group: int
    tree: int
    bundle: Bundle


class Missing(Struct):
    """A message that was announced and has not come: who has it, and when it is asked for."""

    tree: int
    sources: dict[int, None]
    due: Instant
    asked: int | None = None
    """Who was asked for it last."""


class GossipTreeMember(RivalBase):
    """A member on HyParView's links. Everybody forwards everything; members of a message's group deliver it."""

    def __init__(self, me: Process, place: Place, settings: Settings, rng: RandomSource) -> None:
        super().__init__(me, place, settings.limits)
        self._settings = settings.gossip_trees
        self._shuffle_ns = settings.hyparview.shuffle_ns
        self._rng = rng
        self._overlay = HyParView(me.pid, settings.hyparview, rng, self._up_with, self._lost)
        self._seen: dict[Name, None] = {}
        self._kept: dict[Name, Message] = {}
        self._missing: dict[Name, Missing] = {}
        self._shuffle_at: Instant = NEVER
        self._wake_at: Instant = NEVER

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start with some peers known."""
        ready = super().found(peers, now)
        self._shuffle_at = now + int(self._shuffle_ns * (1 + self._rng()))
        self._overlay.found([peer.pid for peer in peers], ready)
        return self._planned(ready)

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Ask a contact."""
        ready = super().found([], now)
        self._shuffle_at = now + int(self._shuffle_ns * (1 + self._rng()))
        self._overlay.join(contacts, ready)
        return self._planned(ready)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Replace a peer that is gone."""
        ready = Ready()
        self._overlay.unreachable(peer, ready)
        return self._planned(ready)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item of the overlay or of the trees."""
        ready = Ready()
        if self._up:
            if isinstance(item, HYPARVIEW_ITEMS):
                self._overlay.receive(sender.pid, item, ready)
            elif sender.pid in self._place.overlay.place_of:
                self._take(sender.pid, item, now, ready)
        return self._planned(ready)

    def tick(self, now: Instant) -> Ready:
        """Shuffle, and ask for what is missing."""
        ready = Ready()
        self._wake_at = NEVER
        if not self._up:
            return ready
        if now >= self._shuffle_at:
            self._shuffle_at = now + self._shuffle_ns
            self._overlay.shuffle(ready)
        self._due(now, ready)
        return self._planned(ready)

    def gauges(self) -> list[Gauge]:
        """Return the sizes of what is remembered."""
        return [
            Gauge("seen_names", len(self._seen), SEEN_MAX),
            Gauge("kept_messages", len(self._kept), KEPT_MAX),
            Gauge("missing_messages", len(self._missing), MISSING_MAX),
        ]

    # --- what a kind of tree does ---

    def _up_with(self, peer: int) -> None:
        """Learn of a new link."""
        raise NotImplementedError

    def _lost(self, peer: int) -> None:
        """Learn that a link is gone."""
        raise NotImplementedError

    def _take(self, peer: int, item: Item, now: Instant, ready: Ready) -> None:
        """Take an item of the trees."""
        raise NotImplementedError

    def _ask(self, name: Name, missing: Missing, peer: int, ready: Ready) -> None:
        """Ask a peer for a message that is missing."""
        raise NotImplementedError

    def _source(self, missing: Missing) -> int:
        """Choose whom to ask: the first that announced the message."""
        return next(iter(missing.sources))

    # --- what they share ---

    def _is_new(self, name: Name, message: Message, ready: Ready) -> bool:
        """Remember a message and deliver it, unless it was here before."""
        if name in self._seen:
            return False
        self._seen[name] = None
        if len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        self._kept[name] = message
        if len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._missing.pop(name, None)
        if message.group < self._place.overlay.group_count and self._is_member(message.group):
            ready.deliver.append(Delivery(message.bundle))
        return True

    def _announced(self, peer: int, name: Name, tree: int, now: Instant) -> None:
        if name in self._seen:
            return
        missing = self._missing.get(name)
        if missing is None:
            if len(self._missing) >= MISSING_MAX:
                del self._missing[next(iter(self._missing))]
            wait_ns = int(self._settings.graft_ns * (1 + self._rng() / 2))
            missing = self._missing[name] = Missing(tree, {}, now + wait_ns)
        missing.sources[peer] = None

    def _due(self, now: Instant, ready: Ready) -> None:
        """Ask for messages that stayed out too long, one source after another."""
        for name, missing in list(self._missing.items()):
            if missing.due > now:
                continue
            missing.sources = {peer: None for peer in missing.sources if peer in self._overlay.active}
            if not missing.sources:
                del self._missing[name]
                continue
            peer = self._source(missing)
            del missing.sources[peer]
            missing.asked = peer
            missing.due = now + self._settings.graft_ns // 2
            self._ask(name, missing, peer, ready)

    def _next_due(self) -> Instant:
        return min((missing.due for missing in self._missing.values()), default=NEVER)

    def _planned(self, ready: Ready) -> Ready:
        """Plan the next tick, if it is earlier than the one that is planned."""
        wake_at = min(self._shuffle_at, self._next_due())
        if wake_at < self._wake_at:
            self._wake_at = ready.wake_at = wake_at
        return ready


def name_of(bundle: Bundle) -> Name:
    """Return the name of a message."""
    return Name(bundle.pid, bundle.incarnation, bundle.first)
