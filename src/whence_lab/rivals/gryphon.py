"""Gryphon: each publisher's stream reaches all subscribers in order and once, whatever brokers on the way fail.

Promises: FIFO per publisher, once, without a gap, to every subscriber that stays up; no order between publishers.
Survives loss, reordering, duplicates, and crashes of brokers as long as one of every cell is up.
The sentence that decides: a subend delivers tick t of a stream when it knows of every tick up to t whether it is data
or silence, and has delivered the data before it.
A pubend gives its messages consecutive ticks. The *knowledge* of them flows down the tree of cells, to one broker of
each; where nobody below wants a message, silence stands for it. *Curiosity* flows up: a gap is asked for, and answered
by the first broker that knows, at last by the pubend. Acknowledgements are gathered on the way up; a broker forgets
what all below have. Silent pubends say how far they are, until everything is acknowledged.
*Virtual time*: a subscription has a version, and a message names the versions that its pubend knew. A broker that knows
fewer passes the message on unfiltered; a subend begins with the first message that names its version.
Costs: one copy per subscriber, acknowledgements gathered over a while; per copy a tick, and a version per subscription
that changed since the start. Brokers know every subscription and every stream.
Every process is a broker, a pubend and a subend. What a pubend has published is in its memory; the authors log it.
Source: Bhola et al. 2002 and Zhao, Sturman, Bhola 2004, as in the thesis, 2.3.2.
"""

from collections.abc import Iterable, Iterator, Sequence

from whence.core.levels.causal.tree.headers import NODES
from whence.core.levels.causal.tree.id_patterns import NOBODY
from whence.core.levels.causal.tree.place import Place
from whence.core.ready import NEVER, Delivery, Gauge, Item, Note, Ready, Send
from whence.errors import UsageError
from whence.types import Bundle, Instant, Process
from whence_lab.rivals.gryphon_cells import Cells
from whence_lab.rivals.gryphon_items import (
    GRYPHON_ITEMS,
    GryphonAck,
    GryphonData,
    GryphonExpect,
    GryphonNack,
    GryphonSilence,
    GryphonTable,
)
from whence_lab.rivals.gryphon_stream import KEPT_MAX, Knowledge, StreamName
from whence_lab.rivals.member import RivalBase
from whence_lab.rivals.settings import Settings

__all__ = ("GRYPHON_ITEMS", "Gryphon")

INCARNATION_VERSIONS = 1 << 16
"""Versions of subscriptions in one incarnation."""

TELL_NS = 500_000_000
"""The time between two exchanges of subscriptions, where some have changed."""

PROBE_NS = 500_000_000
"""The time between two probes of a broker that is passed over because it was not reached."""

STREAMS_MAX = 4 * NODES


class Gryphon(RivalBase):
    """One process: a broker, with a pubend and a subend."""

    def __init__(self, me: Process, place: Place, settings: Settings) -> None:
        super().__init__(me, place, settings.limits)
        self._settings = settings.gryphon
        self._cells = Cells(place.me, place.overlay, self._settings.siblings)
        self._streams: dict[StreamName, Knowledge] = {}
        self._since = dict.fromkeys(self._cells.topics(place.me), 0)
        """By topic of this subend, the version with which it subscribed."""
        self._suspected: dict[int, Instant] = {}
        self._ack_at: Instant = NEVER
        self._tell_at: Instant = NEVER
        self._due_at: Instant = NEVER
        """The earliest time at which something is due for a stream, the acknowledgements apart."""
        self._wake_at: Instant = NEVER

    # --- inputs ---

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Start again, with a subscription of a later version."""
        ready = super().found([], now)
        self._subscribe(self._cells.topics(self._place.me), ready, now)
        return self._finish(ready, now)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Subscribe to a topic, or end the subscription (`subscribe`, `unsubscribe`). Raises UsageError."""
        if name not in ("subscribe", "unsubscribe") or not 0 <= argument < self._place.overlay.group_count:
            raise UsageError(f"members of this level know no act {name!r} about {argument}")
        topics = self._cells.topics(self._place.me)
        ready = Ready()
        self._subscribe(topics | {argument} if name == "subscribe" else topics - {argument}, ready, now)
        return self._finish(ready, now)

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a topic. Raises as RivalBase."""
        bundle, ready = self._bundled(group, payloads)
        stream = self._stream((self._place.me, self.me.incarnation))
        stream.expect_at = min(stream.expect_at, now + self._settings.expect_ns)
        data = GryphonData(
            self._place.me, self.me.incarnation, stream.top + 1, 0, True, group, self._cells.versions(), bundle
        )
        stream.add(data)
        self._deliver(stream, ready)
        self._spread(stream, data, ready)
        self._plan(stream, now)
        return bundle, self._finish(ready, now)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take knowledge, curiosity or subscriptions."""
        ready, peer = Ready(), self._place.overlay.place_of.get(sender.pid, NOBODY)
        if not self._up or peer == NOBODY or not isinstance(item, GRYPHON_ITEMS):
            ready.notes.append(Note("drop", "stranger", peer=sender.pid))
            return ready
        self._suspected.pop(peer, None)
        if isinstance(item, GryphonTable):
            self._told(peer, item, ready, now)
            if item.asks:
                self._tell((peer,), ready, always=True)
            return self._finish(ready, now)
        assert isinstance(item, GryphonData | GryphonSilence | GryphonNack | GryphonAck | GryphonExpect)
        name = (item.pubend, item.incarnation)
        if item.pubend >= self._place.overlay.size or (name not in self._streams and len(self._streams) >= STREAMS_MAX):
            return ready
        stream = self._stream(name)
        match item:
            case GryphonData() if name[0] != self._place.me:
                self._learn(peer, stream, item, ready)
            case GryphonSilence(_, _, first, last, deep) if name[0] != self._place.me:
                stream.silence(range(first, min(last, first + KEPT_MAX) + 1), deep=deep)
                self._deliver(stream, ready)
            case GryphonExpect() if name[0] != self._place.me:
                self._expected(peer, stream, item, ready)
            case GryphonNack(_, _, first, last):
                self._answer(peer, stream, range(first, min(last, first + KEPT_MAX) + 1), ready, now)
            case GryphonAck(_, _, upto):
                side = self._side(peer)
                stream.acked[side] = max(stream.acked.get(side, 0), min(upto, stream.top))
        self._plan(stream, now)
        return self._finish(ready, now)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Pass over a broker for a while; its siblings stand in."""
        place = self._place.overlay.place_of.get(peer, NOBODY)
        if place != NOBODY:
            self._suspected[place] = now
        return self._finish(Ready(), now)

    def tick(self, now: Instant) -> Ready:
        """Ask for what is missing, acknowledge, and say how far this pubend is."""
        ready = Ready()
        self._wake_at = self._due_at = NEVER
        if not self._up:
            return ready
        acks = now >= self._ack_at
        self._ack_at = NEVER if acks else self._ack_at
        for name, stream in self._streams.items():
            self._settle(stream)
            if acks and stream.upstream != NOBODY and stream.final > stream.told:
                stream.told = stream.final
                ready.send.append(Send((stream.upstream,), GryphonAck(*name, stream.final)))
            if now >= stream.curious_at:
                stream.curious_at = NEVER
                self._ask(stream, stream.gaps(), ready)
            if now >= stream.expect_at:
                stream.expect_at = NEVER
                if stream.final < stream.top:
                    stream.expect_at = now + self._settings.expect_ns
                    self._expect(GryphonExpect(*name, stream.top, True), ready)
            self._plan(stream, now)
        if now >= self._tell_at:
            self._tell_at = now + TELL_NS
            self._tell((*self._cells.siblings, *self._neighbours()), ready)
        return self._finish(ready, now)

    def gauges(self) -> list[Gauge]:
        """Return the number of streams, and the most that is kept of one."""
        kept = max((len(stream.data) for stream in self._streams.values()), default=0)
        return [Gauge("streams", len(self._streams), STREAMS_MAX), Gauge("kept_messages", kept, KEPT_MAX)]

    # --- knowledge ---

    def _stream(self, name: StreamName) -> Knowledge:
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Knowledge(name)
            if self._cells.version(self._place.me) and name[0] != self._place.me:
                found.horizon = None
        return found

    def _learn(self, peer: int, stream: Knowledge, data: GryphonData, ready: Ready) -> None:
        """Take knowledge from upstream; what is for all below goes on."""
        stream.upstream = peer
        stream.silence(range(max(1, data.tick - data.silent), data.tick), deep=data.deep)
        stream.add(data)
        if stream.horizon is None and dict(data.versions).get(self._place.me, 0) >= self._cells.version(self._place.me):
            stream.horizon = data.tick - 1
        self._deliver(stream, ready)
        if data.deep and data.tick not in stream.spread:
            self._spread(stream, data, ready)

    def _deliver(self, stream: Knowledge, ready: Ready) -> None:
        """Deliver what follows without a gap, as far as this subend subscribes to it."""
        for data in stream.in_order():
            since = self._since.get(data.group)
            if since is not None and dict(data.versions).get(self._place.me, 0) >= since:
                ready.deliver.append(Delivery(data.bundle))

    def _spread(self, stream: Knowledge, data: GryphonData, ready: Ready) -> None:
        """Send knowledge to all below that want it: to one broker of each further cell, and to the siblings."""
        stream.spread[data.tick] = None
        filters = self._cells.knows(data.versions)
        for target in self._below(data.pubend):
            if not filters or self._wants(target, data.group):
                ready.send.append(Send((target,), self._cut_for(stream, target, data)))

    def _cut_for(self, stream: Knowledge, target: int, data: GryphonData) -> GryphonData:
        """Return knowledge for one broker, with the silence that precedes it there."""
        first = data.tick
        while first > 1 and self._is_silent(stream, target, first - 1) and data.tick - first < KEPT_MAX:
            first -= 1
        return GryphonData(
            data.pubend, data.incarnation, data.tick, data.tick - first, self._is_deep(target), data.group,
            data.versions, data.bundle,
        )  # fmt: skip

    def _is_silent(self, stream: Knowledge, target: int, tick: int) -> bool:
        """Tell whether a tick is known to be silence for a broker below."""
        data = stream.data.get(tick)
        if data is not None:
            return self._cells.knows(data.versions) and not self._wants(target, data.group)
        return tick in stream.silent

    # --- curiosity ---

    def _ask(self, stream: Knowledge, gaps: Iterable[tuple[int, int]], ready: Ready) -> None:
        if stream.upstream != NOBODY:
            for first, last in gaps:
                ready.send.append(Send((stream.upstream,), GryphonNack(*stream.name, first, last)))

    def _answer(self, peer: int, stream: Knowledge, ticks: range, ready: Ready, now: Instant) -> None:
        """Tell a broker below what is at some ticks; ask upstream for what is not known here either."""
        unknown: list[int] = []
        for tick in ticks:
            data = stream.data.get(tick)
            if data is not None and not self._is_silent(stream, peer, tick):
                ready.send.append(Send((peer,), self._cut_for(stream, peer, data)))
            elif data is not None or tick in stream.silent:
                ready.send.append(Send((peer,), GryphonSilence(*stream.name, tick, tick, self._is_deep(peer))))
            elif now - stream.asked.get(tick, -NEVER) >= self._settings.curiosity_ns:
                stream.asked[tick] = now
                unknown.append(tick)
        self._ask(stream, [(tick, tick) for tick in unknown], ready)

    def _expected(self, peer: int, stream: Knowledge, item: GryphonExpect, ready: Ready) -> None:
        stream.upstream = peer
        stream.top = max(stream.top, item.upto)
        stream.told = min(stream.told, stream.final - 1)  # the acknowledgement may have been lost
        if item.deep:
            self._expect(item, ready)

    def _expect(self, item: GryphonExpect, ready: Ready) -> None:
        for target in self._below(item.pubend):
            deep = self._is_deep(target)
            ready.send.append(Send((target,), GryphonExpect(item.pubend, item.incarnation, item.upto, deep)))

    def _settle(self, stream: Knowledge) -> None:
        """Find out how far everybody below is, and forget what is older."""
        upto = stream.top if stream.horizon is None else stream.horizon
        if stream.spread:
            for target in self._below(stream.name[0]):
                if target not in self._suspected or self._is_deep(target):
                    upto = min(upto, self._acked_by(stream, target))
        stream.forget(upto)

    def _acked_by(self, stream: Knowledge, target: int) -> int:
        upto = stream.acked.get(self._side(target), 0)
        while upto < stream.top and self._is_silent(stream, target, upto + 1):
            upto += 1
        return upto

    # --- cells ---

    def _below(self, pubend: int) -> Iterator[int]:
        """Yield whom a pubend's stream goes to from here: siblings, and a broker of each cell further from it."""
        cells = self._cells
        upstream = cells.side_of(pubend)
        yield from (each for each in cells.siblings if each != pubend)
        for cell in cells.neighbours:
            if cell != upstream or upstream == cells.cell:
                brokers = cells.brokers(cell)
                start = pubend % len(brokers)
                ordered = [*brokers[start:], *brokers[:start]]
                yield next((each for each in ordered if each not in self._suspected), ordered[0])

    def _side(self, peer: int) -> int:
        """Return what an acknowledgement of a broker counts for: itself, if it is a sibling, or all beyond its cell."""
        return -1 - peer if self._cells.cell_of(peer) == self._cells.cell else self._cells.side_of(peer)

    def _is_deep(self, target: int) -> bool:
        return self._cells.cell_of(target) != self._cells.cell

    def _wants(self, target: int, group: int) -> bool:
        if self._is_deep(target):
            return self._cells.wants(self._cells.side_of(target), group)
        return group in self._cells.topics(target)

    # --- subscriptions ---

    def _subscribe(self, topics: Iterable[int], ready: Ready, now: Instant) -> None:
        """Change this subend's subscription, and tell the neighbours."""
        me = self._place.me
        version = max(self._cells.version(me), (self.me.incarnation - 1) * INCARNATION_VERSIONS) + 1
        wanted = frozenset(topics)
        is_restarted = not self._cells.version(me) and self.me.incarnation > 1
        self._since = {group: version if is_restarted else self._since.get(group, version) for group in sorted(wanted)}
        self._cells.subscribe(me, version, wanted)
        self._tell_at = now + TELL_NS
        self._tell((*self._cells.siblings, *self._neighbours()), ready)

    def _neighbours(self) -> Iterator[int]:
        for cell in self._cells.neighbours:
            yield from self._cells.brokers(cell)

    def _told(self, peer: int, table: GryphonTable, ready: Ready, now: Instant) -> None:
        """Take subscriptions; news goes on, and who knows less is told."""
        size = self._place.overlay.size
        rows = [row for row in table.rows if row[0] < size]
        news = [self._cells.subscribe(*row) for row in rows if row[0] != self._place.me]
        if any(news):
            self._tell([each for each in (*self._cells.siblings, *self._neighbours()) if each != peer], ready)
        known = {place: version for place, version, _ in rows}
        if any(known.get(place, 0) < version for place, version in self._cells.versions()):
            self._tell((peer,), ready)
        if rows and self._tell_at == NEVER:
            self._tell_at = now + TELL_NS

    def _tell(self, targets: Iterable[int], ready: Ready, *, always: bool = False, asks: bool = False) -> None:
        rows = tuple(
            (place, version, tuple(sorted(self._cells.topics(place)))) for place, version in self._cells.versions()
        )
        to = tuple(targets)
        if (rows or always) and to:
            ready.send.append(Send(to, GryphonTable(asks, rows)))

    # --- timers ---

    def _plan(self, stream: Knowledge, now: Instant) -> None:
        """Plan what a stream needs next."""
        if stream.curious_at == NEVER and stream.has_gap():
            stream.curious_at = now + self._settings.curiosity_ns
        if self._ack_at == NEVER and (stream.horizon or 0) > stream.told:
            self._ack_at = now + self._settings.ack_ns
        self._due_at = min(self._due_at, stream.curious_at, stream.expect_at)

    def _finish(self, ready: Ready, now: Instant) -> Ready:
        """Plan the next tick, probe whom it passes over, and address the Ready."""
        for place, since in self._suspected.items():
            if now - since >= PROBE_NS:
                self._suspected[place] = now
                self._tell((place,), ready, always=True, asks=True)
        due = min(self._due_at, self._tell_at, self._ack_at, *(at + PROBE_NS for at in self._suspected.values()))
        if due < self._wake_at:
            self._wake_at = ready.wake_at = due
        return self._place.addressed(ready)
