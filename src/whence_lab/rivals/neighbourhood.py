"""Delta-Neighbourhood: each publisher's messages in order, one in transit at a time, with detours around suspects.

Promises: FIFO per publisher, once; no order between publishers.
The sentence that decides: a copy is new unless one of the forwarders it names is known with that number or a higher.
A publisher sends its next message when the last is acknowledged; a node acknowledges when all beyond it have. A
suspected neighbour is jumped over, which leaves a jump in the list of forwarders, and also gets its own copy. Copies
with more than f jumps are dropped.
Assumes: no crashes and no loss. Costs per copy: 8 bytes for each of the last 2f+1 forwarders; throughput of one message
per round trip to the farthest member.
Source: LoCaMu section 11.2.
"""

from collections import deque
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from whence.core.levels.causal.tree.coding import Cost
from whence.core.levels.causal.tree.headers import NODES, NUMBER_END
from whence.core.levels.causal.tree.id_patterns import NOBODY
from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.levels.causal.tree.place import Place
from whence.core.membership.suspects import Suspects
from whence.core.ready import BundleItem, Delivery, Gauge, Item, Note, Ready, Returned, Send
from whence.core.varint import Reader, packed
from whence.errors import LimitError, NotMemberError, UsageError
from whence.limits import Limits
from whence.types import Bundle, Instant, PeerId, Process, Seq
from whence.types import packed as bundled
from whence_lab.rivals.member import RivalMember

ENTRY_BYTES = 8
QUEUE_MAX = 4096
"""Messages of a publisher that wait for the one in transit. Full: publishing is refused."""

JUMP = (NODES - 1, 0)
"""The entry of a forwarder that was jumped over."""


class NearCopy(BundleItem, frozen=True, tag=82):
    """A message and its last forwarders, with their numbers."""

    group: Annotated[int, Meta(ge=0, le=GROUPS_MAX - 1)]
    path: Annotated[bytes, Meta(max_length=256)]
    bundle: Bundle


class NearAck(Item, frozen=True, tag=83):
    """The message that begins with this event has arrived here and everywhere beyond."""

    pid: PeerId
    first: Seq


class Passing:
    """A message in transit through this node: who must acknowledge it, and who then gets an acknowledgement."""

    __slots__ = ("awaited", "upstream")

    def __init__(self, upstream: tuple[int, ...], awaited: dict[int, None]) -> None:
        self.upstream = upstream
        self.awaited = awaited


class Neighbourhood(RivalMember):
    """One node; it inherits from RivalMember what concerns the fixed tree."""

    def __init__(self, me: Process, place: Place, limits: Limits) -> None:
        self.me = me
        self._place = place
        self._limits = limits
        self._up = False
        self._published = 0
        self._cost = Cost()
        self._suspects = Suspects()
        self._number = 0
        self._known: dict[int, int] = {}
        """Per forwarder, the highest number seen of it, for each publisher's own copy of the count."""
        self._queue: deque[tuple[int, Bundle]] = deque()
        self._passing: dict[tuple[int, int], Passing] = {}
        self._last: dict[int, int] = {}

    @property
    def cost(self) -> Cost:
        """Return what lists of forwarders took on the wire."""
        return self._cost

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a group; they are sent when those before have arrived. Raises as RivalMember."""
        if not self._up:
            raise NotMemberError("only a member may publish, and this one has not started")
        if not 0 <= group < self._place.overlay.group_count:
            raise UsageError(f"groups are numbered 0 to {self._place.overlay.group_count - 1}, not {group}")
        if len(self._queue) >= QUEUE_MAX:
            raise LimitError("messages that wait for the one under way", QUEUE_MAX, QUEUE_MAX + 1)
        self._limits.check(len(payloads), sum(map(len, payloads)), self._published)
        bundle = bundled(self.me, self._published + 1, payloads)
        self._published += bundle.count
        ready = Ready(published=Returned(bundle, group))
        if self._place.me in self._place.overlay.table(group).is_member:
            ready.deliver.append(Delivery(bundle))
        self._queue.append((group, bundle))
        if len(self._queue) == 1:
            self._send_next(ready)
        return bundle, self._place.addressed(ready)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take a copy or an acknowledgement."""
        ready, peer = Ready(), self._place.overlay.place_of.get(sender.pid, NOBODY)
        self._suspects.heard(peer)
        if not self._up or peer not in self._place.paths:
            ready.notes.append(Note("drop", "stranger", peer=sender.pid))
            return ready
        if isinstance(item, NearAck):
            self._acknowledged(peer, item, ready)
        elif isinstance(item, NearCopy) and item.group < self._place.overlay.group_count:
            self._arrived(peer, item, ready)
        return self._place.addressed(ready)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Suspect a peer; later messages go around it as well."""
        self._suspects.suspect(self._place.overlay.place_of.get(peer, NOBODY))
        return Ready()

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Suspect a peer wrongly (`suspect`), or stop (`trust`). Raises UsageError."""
        place = self._place.overlay.place_of.get(argument, NOBODY)
        if name not in ("suspect", "trust") or place not in self._place.reach:
            raise UsageError(f"members of this level know no act {name!r} about {argument}")
        (self._suspects.force if name == "suspect" else self._suspects.release)(place)
        return Ready()

    def gauges(self) -> list[Gauge]:
        """Return what waits to be sent, and what is in transit."""
        return [
            Gauge("queued_messages", len(self._queue), QUEUE_MAX, must_drain=True),
            Gauge("passing_messages", len(self._passing), QUEUE_MAX * NODES, must_drain=True),
        ]

    def _send_next(self, ready: Ready) -> None:
        while self._queue:
            group, bundle = self._queue[0]
            if self._pass_on(group, bundle, [], (), ready):
                return
            self._queue.popleft()

    def _arrived(self, peer: int, copy: NearCopy, ready: Ready) -> None:
        path = _read_path(copy.path)
        bundle = copy.bundle
        name = (bundle.pid, bundle.first)
        if path is None or sum(entry == JUMP for entry in path) > self._place.f:
            ready.notes.append(Note("reject", "no_path", bundle, peer))
            return
        passing = self._passing.get(name)
        if bundle.first <= self._last.get(bundle.pid, 0):
            ready.notes.append(Note("drop", "duplicate", bundle, peer))
            if passing is None:
                ready.send.append(Send((peer,), NearAck(*name)))
            elif peer not in passing.upstream:
                passing.upstream += (peer,)
            return
        self._last[bundle.pid] = bundle.first
        if self._place.me in self._place.overlay.table(copy.group).is_member:
            ready.deliver.append(Delivery(bundle))
        if not self._pass_on(copy.group, bundle, path, (peer,), ready):
            ready.send.append(Send((peer,), NearAck(*name)))

    def _pass_on(
        self, group: int, bundle: Bundle, path: list[tuple[int, int]], upstream: tuple[int, ...], ready: Ready
    ) -> bool:
        """Send a message on; return whether anybody must acknowledge it."""
        place, me = self._place, self._place.me
        came_from = place.upstream(upstream[0]) if upstream else -1
        self._number += 1
        path = [*path, (me, self._number)][-place.overlay.radius :]
        awaited: dict[int, None] = {}
        for target in place.targets(group, came_from):
            way = place.paths[target]
            if any(node not in self._suspects.now for node in way[:-1]):
                continue
            if len(way) == 1:
                awaited[target] = None  # it answers for all beyond it, targets of jumps included
            jumped = [*path, *[JUMP] * (len(way) - 1)][-place.overlay.radius :]
            self._cost.add(ENTRY_BYTES * len(jumped))
            numbers = [number for entry in jumped for number in entry]
            ready.send.append(Send((target,), NearCopy(group, packed(numbers), bundle)))
        if awaited:
            self._passing[bundle.pid, bundle.first] = Passing(upstream, awaited)
        return bool(awaited)

    def _acknowledged(self, peer: int, ack: NearAck, ready: Ready) -> None:
        name = (ack.pid, ack.first)
        passing = self._passing.get(name)
        if passing is None:
            return
        passing.awaited.pop(peer, None)
        if passing.awaited:
            return
        del self._passing[name]
        if passing.upstream:
            ready.send.append(Send(passing.upstream, NearAck(*name)))
        elif self._queue:
            self._queue.popleft()
            self._send_next(ready)


def _read_path(data: bytes) -> list[tuple[int, int]] | None:
    reader, path = Reader(data), []
    try:
        while reader.more():
            path.append((reader.below(NODES), reader.below(NUMBER_END)))
    except ValueError:
        return None
    return path
