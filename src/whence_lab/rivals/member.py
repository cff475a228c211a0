"""Members of a rival on a tree: a message crosses every edge that leads to a member of its group, once.

Promises: every member gets every message, in the order of each link.
Assumes: no crashes and no loss. Links may be slow and reorder, as in the rivals' papers; a copy that overtook another
waits for its turn.
Costs: one copy per edge of the route; what the order adds to it is counted by the rivals' own formulas.
Source: LoCaMu section 11.2, baselines as implemented.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Protocol

from msgspec import Meta

from whence.core.levels.causal.tree.id_patterns import NOBODY
from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.levels.causal.tree.place import Place
from whence.core.ready import BundleItem, Delivery, Gauge, Item, Note, Ready, Returned, Send
from whence.core.varint import Reader
from whence.errors import NotMemberError, UsageError
from whence.limits import Limits
from whence.types import Bundle, Instant, Process, packed
from whence_lab.rivals.cost import RivalCost

HEADER_BYTES_MAX = 1 << 20
"""Causal Barriers list every destination, and for each what it must have delivered."""

TURN_END = 1 << 40

WAITING_MAX = 1 << 16


class TreeCopy(BundleItem, frozen=True, tag=81):
    """A message on one edge of its route; `turn` is its place on the link."""

    group: Annotated[int, Meta(ge=0, le=GROUPS_MAX - 1)]
    turn: Annotated[int, Meta(ge=0, le=TURN_END - 1)]
    header: Annotated[bytes, Meta(max_length=HEADER_BYTES_MAX)]
    bundle: Bundle


class RivalOrder(Protocol):
    """A rival's order: what it writes on a message, and when a message may be delivered."""

    cost: RivalCost

    def stamp(self, group: int, bundle: Bundle) -> Any:
        """Return what a message published now comes after."""

    def encode(self, peer: int, stamp: Any) -> bytes:
        """Write a stamp for a link, and count its bytes."""

    def decode(self, peer: int, reader: Reader) -> Any:
        """Read a stamp from a link. Raises ValueError."""

    def admit(self, group: int, stamp: Any, bundle: Bundle, *, member: bool) -> list[tuple[int, Bundle]]:
        """Take a message; return the groups and bundles that may now be delivered here, in order."""

    def waiting(self) -> int:
        """Return the number of messages held back."""


class RivalBase:
    """What members of all rivals share: the places and groups of an overlay, numbers of own events, and refusals."""

    def __init__(self, me: Process, place: Place, limits: Limits) -> None:
        self.me = me
        self.cost = RivalCost()
        """What stamps took on the wire, where a paper has a formula for it."""
        self._place = place
        self._limits = limits
        self._up = False
        self._published = 0

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start."""
        self._up = True
        return Ready(notes=[Note("join")])

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Refuse: the tree is fixed. Raises NotMemberError."""
        raise NotMemberError("the tree of this overlay is fixed; nobody can join it")

    def leave(self, now: Instant) -> Ready:
        """Refuse: the tree is fixed. Raises NotMemberError."""
        raise NotMemberError("the tree of this overlay is fixed; nobody can leave it")

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Restore nothing: the rivals have no memory across crashes."""
        return Ready()

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish to group 0. Raises as publish_to."""
        return self.publish_to(0, payloads, now)

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a group as one bundle. Raises NotMemberError, UsageError or LimitError."""
        raise NotImplementedError

    def _bundled(self, group: int, payloads: Sequence[bytes]) -> tuple[Bundle, Ready]:
        """Return a new bundle, and a Ready that says so. Raises NotMemberError, UsageError or LimitError."""
        if not self._up:
            raise NotMemberError("only a member may publish, and this one has not started")
        if not 0 <= group < self._place.overlay.group_count:
            raise UsageError(f"groups are numbered 0 to {self._place.overlay.group_count - 1}, not {group}")
        self._limits.check(len(payloads), sum(map(len, payloads)), self._published)
        bundle = packed(self.me, self._published + 1, payloads)
        self._published += bundle.count
        return bundle, Ready(published=Returned(bundle, group))

    def _is_member(self, group: int) -> bool:
        return self._place.me in self._place.overlay.table(group).is_member

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take a peer's item."""
        raise NotImplementedError

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Do nothing: links are reliable, by assumption."""
        return Ready()

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Refuse. Raises UsageError."""
        raise UsageError(f"members of this level know no act {name!r}")

    def tick(self, now: Instant) -> Ready:
        """Do nothing: nothing is ever due."""
        return Ready()

    def view(self) -> tuple[int, ...] | None:
        """Return None: the driver knows the tree."""
        return None

    def gauges(self) -> list[Gauge]:
        """Return nothing."""
        return []


class RivalMember(RivalBase):
    """One node of a tree that forwards, and delivers in a rival's order."""

    def __init__(self, me: Process, place: Place, order: RivalOrder, limits: Limits) -> None:
        super().__init__(me, place, limits)
        self.order = order
        self.cost = order.cost
        self._turns: dict[int, int] = {}
        self._expected: dict[int, int] = {}
        self._early: dict[tuple[int, int], TreeCopy] = {}

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a group as one bundle. Raises NotMemberError, UsageError or LimitError."""
        bundle, ready = self._bundled(group, payloads)
        stamp = self.order.stamp(group, bundle)
        if self._is_member(group):
            ready.deliver.append(Delivery(bundle))
        self._forward(group, stamp, bundle, self._place.me, ready)
        return bundle, self._place.addressed(ready)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take a copy in its turn."""
        ready, overlay = Ready(), self._place.overlay
        peer = overlay.place_of.get(sender.pid, NOBODY)
        if not self._up or not isinstance(item, TreeCopy) or peer not in overlay.neighbours(self._place.me):
            ready.notes.append(Note("drop", "stranger", peer=sender.pid))
            return ready
        expected = self._expected.get(peer, 0)
        if item.turn < expected or item.group >= self._place.overlay.group_count or len(self._early) >= WAITING_MAX:
            ready.notes.append(Note("drop", "duplicate", item.bundle, sender.pid))
            return ready
        self._early[peer, item.turn] = item
        while (copy := self._early.pop((peer, expected), None)) is not None:
            expected = self._expected[peer] = expected + 1
            self._take(peer, copy, ready)
        return self._place.addressed(ready)

    def _take(self, peer: int, copy: TreeCopy, ready: Ready) -> None:
        try:
            reader = Reader(copy.header)
            stamp = self.order.decode(peer, reader)
            reader.end()
        except ValueError:
            ready.notes.append(Note("reject", "no_header", copy.bundle, peer))
            return
        self._forward(copy.group, stamp, copy.bundle, peer, ready)
        for _, bundle in self.order.admit(copy.group, stamp, copy.bundle, member=self._is_member(copy.group)):
            ready.deliver.append(Delivery(bundle))

    def _forward(self, group: int, stamp: Any, bundle: Bundle, upstream: int, ready: Ready) -> None:
        overlay, me = self._place.overlay, self._place.me
        for peer in overlay.neighbours(me):
            if peer != upstream and overlay.needs(group, me, peer):
                turn = self._turns.get(peer, 0)
                self._turns[peer] = turn + 1
                copy = TreeCopy(group, turn, self.order.encode(peer, stamp), bundle)
                ready.send.append(Send((peer,), copy))

    def gauges(self) -> list[Gauge]:
        """Return what waits for its turn on a link, and what waits for what it follows."""
        return [
            Gauge("early_copies", len(self._early), WAITING_MAX, must_drain=True),
            Gauge("held_messages", self.order.waiting(), WAITING_MAX, must_drain=True),
        ]
