"""Delta-Neighbourhood: each publisher's messages in order, one in transit at a time, around neighbours that are down.

Promises: FIFO per publisher, once; no order between publishers. Goes on while at most f nodes of every path of 2f+1 are
down; what a neighbour missed while it could not be reached is sent to it when it is back.
The sentence that decides: a copy is a duplicate if of any forwarder that it names a number as high is known already. No
node counts per publisher: it knows the numbers of the forwarders within 2f+1 hops, and nothing else.
A forwarder numbers every new message that it passes on, and sends it again with the same number. A publisher sends its
next message when the last is acknowledged; a node acknowledges when all beyond it have, those it suspects apart. A
suspected neighbour is jumped over, which leaves a jump in the list of forwarders; a message that would have more than f
jumps in its list waits for the neighbour, and others behind it.
Assumes: links are connections, which break but do not reorder (streams.py). Numbers of a later incarnation are above
all of the earlier ones. Costs per copy: 8 bytes for each of the last 2f+1 forwarders; throughput of one message per
round trip to the farthest member.
Source: Kazemzadeh and Jacobsen 2009, as in the thesis (2.3.3, 4.3.2) and LoCaMu section 11.2.
"""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from whence.core.levels.causal.tree.headers import NODES, NUMBER_END
from whence.core.levels.causal.tree.id_patterns import NOBODY
from whence.core.levels.causal.tree.place import Place
from whence.core.membership.suspects import Suspects
from whence.core.ready import NEVER, Delivery, Gauge, Item, Note, Ready, Send
from whence.core.varint import Reader, packed
from whence.errors import LimitError, UsageError
from whence.limits import Limits
from whence.types import Bundle, Incarnation, Instant, PeerId, Process, Seq
from whence_lab.rivals.member import RivalBase
from whence_lab.rivals.streams import EARLY_MAX, UNACKED_MAX, Name, NearCopy, Stream, Turn, name_of

ENTRY_BYTES = 8
QUEUE_MAX = 4096
"""Messages of a publisher that wait for the one in transit. Full: publishing is refused."""

PROBE_NS = 250_000_000
"""The time between two probes of a neighbour that is suspected, or owes an acknowledgement for as long."""

INCARNATION_NUMBERS = 1 << 24
"""Numbers that a forwarder has for one incarnation."""

JUMP = (NODES - 1, 0)
"""The entry of a forwarder that was jumped over."""

Entry = tuple[int, int]


class NearAck(Item, frozen=True, tag=83):
    """The message that begins with this event has arrived here and everywhere beyond."""

    pid: PeerId
    incarnation: Incarnation
    first: Seq
    taken: Turn
    """The receiver's copies that were taken in their turn."""


class NearPing(Item, frozen=True, tag=200):
    """A sign of life, which may ask for one."""

    asks: bool


class Passing(Struct):
    """A message in transit through this node: who must acknowledge it, and who then gets an acknowledgement."""

    group: int
    bundle: Bundle
    path: list[Entry]
    came_from: int
    """The neighbour that it came through; -1 at its publisher."""
    upstream: tuple[int, ...]
    sent: dict[int, None]
    awaited: dict[int, None]
    barred: dict[int, None]
    """Suspected neighbours that it must wait for, because it has jumped too often."""


class Neighbourhood(RivalBase):
    """One node of the tree."""

    def __init__(self, me: Process, place: Place, limits: Limits) -> None:
        super().__init__(me, place, limits)
        self._suspects = Suspects()
        self._number = (me.incarnation - 1) * INCARNATION_NUMBERS
        self._known: dict[int, int] = {}
        """Per forwarder within 2f+1 hops, the highest number seen."""
        self._queue: deque[tuple[int, Bundle]] = deque()
        self._passing: dict[Name, Passing] = {}
        self._streams: dict[int, Stream] = {}
        self._has_begun = False
        """It delivers messages. After a crash, that is once all neighbours that are up know of the new incarnation."""
        self._wake_at = NEVER

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start with all others."""
        self._streams = {peer: Stream(1) for peer in self._place.reach}
        self._has_begun = True
        return super().found(peers, now)

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Take the same place again, with nothing in memory. Raises NotMemberError if it never was up before."""
        if self.me.incarnation == 1:
            return super().join(contacts, now)
        self._streams = {peer: Stream(0) for peer in self._place.reach}
        ready = super().found([], now)
        ready.send.append(Send(self._place.reach, NearPing(True)))
        return self._finish(ready, now)

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a group; they are sent when those before have arrived. Raises as RivalBase."""
        if len(self._queue) >= QUEUE_MAX:
            raise LimitError("messages that wait for the one under way", QUEUE_MAX, QUEUE_MAX + 1)
        bundle, ready = self._bundled(group, payloads)
        if self._is_member(group):
            ready.deliver.append(Delivery(bundle))
        self._queue.append((group, bundle))
        if len(self._queue) == 1:
            self._send_next(ready, now)
        return bundle, self._finish(ready, now)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take a copy, an acknowledgement or a sign of life."""
        ready, peer = Ready(), self._place.overlay.place_of.get(sender.pid, NOBODY)
        stream = self._streams.get(peer)
        if not self._up or stream is None or sender.incarnation < stream.incarnation:
            ready.notes.append(Note("drop", "stranger", peer=sender.pid))
            return ready
        back = self._suspects.heard(peer)
        if sender.incarnation > stream.incarnation:
            stream.renew(sender.incarnation)
            back = True
        if isinstance(item, NearPing):
            back = back or not item.asks
            if item.asks:
                ready.send.append(Send((peer,), NearPing(False), stream.incarnation))
        if back:
            self._send_again(peer, ready, now)
        if isinstance(item, NearAck):
            stream.sent_at = now
            self._acknowledged(peer, item, ready, now)
        elif isinstance(item, NearCopy) and item.group < self._place.overlay.group_count:
            self._arrived(peer, item, ready, now)
        return self._finish(ready, now)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Suspect a peer; messages go around it from now on, those in transit too."""
        ready = Ready()
        self._suspect(self._place.overlay.place_of.get(peer, NOBODY), ready, now)
        return self._finish(ready, now)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Suspect a peer wrongly (`suspect`), or stop (`trust`). Raises UsageError."""
        place = self._place.overlay.place_of.get(argument, NOBODY)
        if name not in ("suspect", "trust") or place not in self._place.reach:
            raise UsageError(f"members of this level know no act {name!r} about {argument}")
        ready = Ready()
        if name == "suspect":
            self._suspect(place, ready, now, forced=True)
        elif self._suspects.release(place):
            self._send_again(place, ready, now)
        return self._finish(ready, now)

    def tick(self, now: Instant) -> Ready:
        """Probe the neighbours that are suspected, unknown, or owe an acknowledgement for too long."""
        ready = Ready()
        if now < self._wake_at:
            return ready
        self._wake_at = NEVER
        for peer, stream in self._streams.items():
            overdue = bool(stream.unacked) and now - stream.sent_at >= PROBE_NS
            if peer in self._suspects.now or not stream.incarnation or overdue:
                ready.send.append(Send((peer,), NearPing(True)))
        return self._finish(ready, now)

    def gauges(self) -> list[Gauge]:
        """Return what waits to be sent, what is in transit, and what is kept for neighbours."""
        streams = self._streams.values()
        return [
            Gauge("queued_messages", len(self._queue), QUEUE_MAX, must_drain=True),
            Gauge("passing_messages", len(self._passing), QUEUE_MAX * NODES, must_drain=True),
            Gauge("unacked_copies", max((len(each.unacked) for each in streams), default=0), UNACKED_MAX,
                  must_drain=True),
            Gauge("early_copies", max((len(each.early) for each in streams), default=0), EARLY_MAX),
            Gauge("known_forwarders", len(self._known), len(self._place.near)),
        ]  # fmt: skip

    # --- neighbours ---

    def _suspect(self, peer: int, ready: Ready, now: Instant, *, forced: bool = False) -> None:
        """Go around a peer from now on, with all that it has not acknowledged."""
        if peer not in self._streams:
            return
        if not (self._suspects.force if forced else self._suspects.suspect)(peer):
            return
        for name, passing in list(self._passing.items()):
            if peer in passing.awaited:
                del passing.awaited[peer]
                self._spread(passing, ready, now)
                self._settle(name, passing, ready, now)

    def _send_again(self, peer: int, ready: Ready, now: Instant) -> None:
        """Send everything again that a peer has not acknowledged, in its order."""
        stream = self._streams[peer]
        stream.sent_at = now
        for copy in stream.unacked.values():
            ready.send.append(Send((peer,), copy, stream.incarnation))

    def _finish(self, ready: Ready, now: Instant) -> Ready:
        """Plan a probe if one may be needed, and address the Ready."""
        if not self._has_begun:
            self._has_begun = self._up and all(
                stream.incarnation or peer in self._suspects.now for peer, stream in self._streams.items()
            )
        if self._wake_at == NEVER and (
            self._suspects.now or any(each.unacked or not each.incarnation for each in self._streams.values())
        ):
            self._wake_at = ready.wake_at = now + PROBE_NS
        return self._place.addressed(ready)

    # --- messages ---

    def _send_next(self, ready: Ready, now: Instant) -> None:
        while self._queue:
            group, bundle = self._queue[0]
            if self._pass_on(group, bundle, [], -1, (), ready, now):
                return
            self._queue.popleft()

    def _arrived(self, peer: int, copy: NearCopy, ready: Ready, now: Instant) -> None:
        """Take copies in their turn; acknowledge again what was acknowledged before."""
        stream = self._streams[peer]
        if copy.turn < stream.expected:
            name = name_of(copy.bundle)
            ready.notes.append(Note("drop", "duplicate", copy.bundle, peer))
            if name not in self._passing:
                self._acknowledge(peer, name, ready)
            return
        for each in stream.arrived(copy):
            self._take(peer, each, ready, now)

    def _take(self, peer: int, copy: NearCopy, ready: Ready, now: Instant) -> None:
        path, bundle = self._path_of(copy), copy.bundle
        if path is None:
            ready.notes.append(Note("reject", "no_path", bundle, peer))
            return
        name = name_of(bundle)
        if self._is_known(path):
            ready.notes.append(Note("drop", "duplicate", bundle, peer))
            passing = self._passing.get(name)
            if passing is None:
                self._acknowledge(peer, name, ready)
            elif peer not in passing.upstream:
                passing.upstream += (peer,)
            return
        self._learn(path)
        if self._is_member(copy.group) and self._has_begun and not copy.only_pass:
            ready.deliver.append(Delivery(bundle))
        if not self._pass_on(copy.group, bundle, path, self._place.upstream(peer), (peer,), ready, now):
            self._acknowledge(peer, name, ready)

    def _is_known(self, path: list[Entry]) -> bool:
        """Tell whether a message with this path was here before."""
        return any(entry != JUMP and self._known.get(entry[0], 0) >= entry[1] for entry in path)

    def _learn(self, path: list[Entry]) -> None:
        for node, number in path:
            if (node, number) != JUMP:
                self._known[node] = number

    def _pass_on(
        self, group: int, bundle: Bundle, path: list[Entry], came_from: int, upstream: tuple[int, ...], ready: Ready,
        now: Instant,
    ) -> bool:  # fmt: skip
        """Send a message on; return whether anybody must acknowledge it."""
        self._number += 1
        path = [*path, (self._place.me, self._number)][-self._place.overlay.radius :]
        passing = Passing(group, bundle, path, came_from, upstream, {}, {}, {})
        self._spread(passing, ready, now)
        if passing.awaited:
            self._passing[name_of(bundle)] = passing
        return bool(passing.awaited)

    def _spread(self, passing: Passing, ready: Ready, now: Instant) -> None:
        """Send a message to the next nodes of its route, and beyond those that are suspected."""
        place, suspected = self._place, self._suspects.now
        for target in place.targets(passing.group, passing.came_from):
            way = place.paths[target]
            if target in passing.sent or any(node not in suspected for node in way[:-1]):
                continue
            path = [*passing.path, *[JUMP] * (len(way) - 1)][-place.overlay.radius :]
            if len(way) > 1 and (path.count(JUMP) > place.f or self._is_barred(way[0])):
                passing.barred[way[0]] = passing.awaited[way[0]] = None
                continue
            passing.sent[target] = None
            self._send(target, passing, path, ready, now)
            if target not in suspected:
                passing.awaited[target] = None

    def _is_barred(self, peer: int) -> bool:
        """Tell whether a message waits for a suspected neighbour: then later ones must not overtake it."""
        return any(peer in passing.barred for passing in self._passing.values())

    def _send(self, target: int, passing: Passing, path: list[Entry], ready: Ready, now: Instant) -> None:
        written = packed([number for entry in path for number in entry])
        self.cost.count(ENTRY_BYTES * len(path), len(written))
        stream = self._streams[target]
        if not stream.unacked:
            stream.sent_at = now
        copy = stream.add(NearCopy(passing.group, 0, False, written, passing.bundle))
        if target not in self._suspects.now and stream.incarnation:
            ready.send.append(Send((target,), copy, stream.incarnation))

    def _acknowledge(self, peer: int, name: Name, ready: Ready) -> None:
        stream = self._streams[peer]
        ready.send.append(Send((peer,), NearAck(*name, stream.expected), stream.incarnation))

    def _acknowledged(self, peer: int, ack: NearAck, ready: Ready, now: Instant) -> None:
        name = (ack.pid, ack.incarnation, ack.first)
        self._streams[peer].acknowledged(name, ack.taken)
        passing = self._passing.get(name)
        if passing is not None:
            passing.awaited.pop(peer, None)
            self._settle(name, passing, ready, now)

    def _settle(self, name: Name, passing: Passing, ready: Ready, now: Instant) -> None:
        """Acknowledge a message once all beyond have; a publisher sends its next one."""
        if passing.awaited or self._passing.pop(name, None) is None:
            return
        for peer in passing.upstream:
            self._acknowledge(peer, name, ready)
        if not passing.upstream and self._queue:
            self._queue.popleft()
            self._send_next(ready, now)

    def _path_of(self, copy: NearCopy) -> list[Entry] | None:
        """Read the forwarders that a copy names; None if there are too many jumps, or strangers among them."""
        reader, path = Reader(copy.path), []
        try:
            while reader.more():
                path.append((reader.below(NODES), reader.below(NUMBER_END)))
        except ValueError:
            return None
        near = self._place.near
        jumps = path.count(JUMP)
        if jumps > self._place.f or not all(entry == JUMP or entry[0] in near for entry in path):
            return None
        return path if len(path) > jumps else None
