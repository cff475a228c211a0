"""A member of a localized overlay: reliable causal multicast to many groups on one tree, with bounded metadata.

Promises: causal order across all groups of this tree (nothing is known of other trees: two live groups are two), every
message once at every member of its group, through any crashes, losses and false suspicions; publish is durable when it
returns; a member that was down gets everything it missed, in order.
Assumes: stable storage; for progress, at most f of any 2f+1 nodes on a path down at a time, and all up in the end.
Order never rests on that bound, nor on who is suspected.
Costs per message and hop: numbers for the targets within f+1 hops, dependencies on pairs within 2f+1 hops; predicted
coding sends only what the other end cannot foresee.
Source: V. Santos, Localized Reliable Causal Multicast (LoCaMu), with the corrections of its review: numbers are a
gapless prefix, duplicates only name, records are kept until complete, f >= 2 needs a fence.
"""

from collections.abc import Sequence

from whence.core.levels.causal.group_started import GroupStarted, founders_in, group_started
from whence.core.levels.causal.items import Ask, Back, Lookup, Probe
from whence.core.levels.causal.settings import Settings
from whence.core.levels.causal.tree import journal
from whence.core.levels.causal.tree.checkpoint import entries_of, take_up
from whence.core.levels.causal.tree.fence import Fence
from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.inbox import Inbox, Waiting
from whence.core.levels.causal.tree.items import Ack, Copy, FenceAnswer, FenceAsk, Lost, Named, Trail
from whence.core.levels.causal.tree.journal import (
    Checkpoint,
    IdResolved,
    IdsAdded,
    MessageProcessed,
    RecordsForgotten,
    RecordSnapshot,
)
from whence.core.levels.causal.tree.links import Cost, Links
from whence.core.levels.causal.tree.outbox import AGAIN_MAX, NEVER, Outbox
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.state import NOBODY, Record, State
from whence.core.membership.suspects import Suspects
from whence.core.ready import Delivery, Gauge, Item, Note, Ready, Returned, Send
from whence.errors import LimitError, NotMemberError, UsageError
from whence.types import Bundle, Instant, Process, packed

FORGOTTEN_TOGETHER = 16
"""Records dropped that are written down at once. A life that ends before drops them again."""


class TreeMember:
    """One node of the overlay; serves all its groups."""

    def __init__(
        self, me: Process, settings: Settings, state: State, links: Links, outbox: Outbox, inbox: type[Inbox]
    ) -> None:
        self.me = me
        self.state = state
        self.links = links
        self.outbox = outbox
        self._settings = settings.tree
        self._limits = settings.limits
        self._spread = settings.layout
        self._place: Place = state.place
        self._overlay = state.place.overlay
        self._renumbered = state.place.overlay.renumbered
        self._suspects: Suspects = outbox.suspects
        self.inbox = inbox(state, outbox, settings.tree, self.first, self.duplicate)
        self.fence = Fence(state, self.inbox, settings.tree)
        self.remembers = True
        """Whether a later life will read what is persisted."""
        self.founders: list[Process] = []
        """The processes that began the group, as far as this one knows them."""
        self._up = False
        self._published = 0

    @property
    def cost(self) -> Cost:
        """What headers took on the wire."""
        return self.links.cost

    # --- lives ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start for the first time, and write down with whom."""
        ready = Ready(notes=[Note("join")])
        self._up = True
        self.founders = sorted([self.me, *peers])
        self._persist(self._begun(), ready)
        return ready

    def _begun(self) -> GroupStarted:
        return group_started(self._place.overlay.processes, self.founders, self._spread)

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Refuse: the tree is fixed. Raises NotMemberError."""
        raise NotMemberError("the tree of this overlay is fixed; nobody can join it")

    def leave(self, now: Instant) -> Ready:
        """Refuse: the tree is fixed. Raises NotMemberError."""
        raise NotMemberError("the tree of this overlay is fixed; nobody can leave it")

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Take up an earlier life: play its transitions again, tell the application of each, and say to the others that
        it is back. Which of these steps the application has is counted in core/offsets.py.

        Raises StorageError if it was a member of another group of processes.
        """
        ready = Ready(notes=[Note("join")])
        entries = [journal.decode(record) for record in records]
        told = founders_in(entries, self._place.overlay.processes, self._spread)
        self.founders = told if entries else self.founders
        if not entries:
            self._persist(self._begun(), ready)  # it crashed before it had begun
        for entry in entries:
            self._replay(entry, ready)
        self._up = True
        for target in self.state.own:
            self.outbox.restart(target, now, ready)
        if self._settings.retain:
            self.outbox.expect_floors(now)
        ready.send.append(Send(self._place.reach, Back(self._place.overlay.epoch)))
        return self._wake(ready)

    def _replay(self, entry: journal.Entry, ready: Ready) -> None:
        state = self.state
        if isinstance(entry, GroupStarted):
            return
        if isinstance(entry, Checkpoint):
            state.begin_from(entry.past, {source: dict.fromkeys(ahead) for source, ahead in entry.ahead.items()})
            self.fence.begin_from(entry.seen)
            return
        if isinstance(entry, RecordSnapshot):
            take_up(state, entry)
            return
        if isinstance(entry, MessageProcessed):
            state.grow(entry.grown)
            pattern = state.patterns.unpacked(entry.keys)
            record = state.admit(
                entry.bundle, entry.group, entry.last, entry.h, pattern, entry.numbers, entry.extra
            )  # fmt: skip
            self._tell_application(record, entry.last, 0, ready)
            if self.fence.on:
                self.fence.processed(pattern.vectors(entry.numbers), entry.extra)
            if state.is_collectable(record):
                state.forget(record)
            return
        if isinstance(entry, RecordsForgotten):
            for uid in entry.uids:
                if uid in state.records:
                    state.forget(state.records[uid])
            return
        known = state.records.get((entry.pid, entry.boot, entry.first))
        if known is None:
            return
        if isinstance(entry, IdsAdded):
            state.rename(known, entry.vectors)
            self.fence.processed(entry.vectors, {})
            if state.is_collectable(known):
                state.forget(known)
        else:
            state.mark_named(known, entry.source, entry.number)

    def unanswered(self) -> tuple[int, ...]:
        """Return who in reach has not said in this life how much it has of what was sent to it."""
        peers = self.outbox.peers.items()
        return tuple(self._overlay.processes[place] for place, peer in peers if not peer.answered)

    def checkpoint(self) -> list[bytes]:
        """Return records that come to the same as all persisted so far; the driver may put them in their place."""
        entries = entries_of(self.state, self.fence.remembered())
        return [journal.encode(entry) for entry in (self._begun(), *entries)]

    def checkpoint_bytes(self) -> int:
        """Return how many bytes such records have at least, without writing them."""
        return self.state.retained_bytes

    # --- inputs ---

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish to group 0. Raises as publish_to."""
        return self.publish_to(0, payloads, now)

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events to a group as one bundle; it is published when the Ready has persisted.

        Raises NotMemberError before the start, UsageError for an unknown group, LimitError over a limit.
        """
        if not self._up:
            raise NotMemberError("only a member may publish, and this one has not started")
        if not 0 <= group < self._place.overlay.group_count:
            raise UsageError(f"groups are numbered 0 to {self._place.overlay.group_count - 1}, not {group}")
        self._check_limits(payloads)
        bundle = packed(self.me, self._published + 1, payloads)
        self._published += bundle.count
        ready = Ready(published=Returned(bundle, group))
        record = self.state.admit(bundle, group, NOBODY, 0, self.state.patterns.none, (), {})
        self._persist(MessageProcessed(bundle, group, NOBODY, 0, b"", (), {}, {}), ready)
        self._processed(record, NOBODY, 0, now, ready)
        return bundle, self._wake(ready)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item from a peer."""
        ready = Ready()
        pid, boot = sender
        outbox = self.outbox
        peer = self._overlay.place_of.get(pid, NOBODY)
        known = outbox.peers.get(peer)
        if known is None or not self._up:
            ready.notes.append(Note("drop", "stranger", peer=pid))
            return ready
        known.heard_at = now
        if boot > known.boot or self._suspects.now:
            outbox.heard(peer, boot, now, ready)
        if isinstance(item, Copy):
            header = self._header(peer, boot, item.header, ready)
            if header is not None:
                self.inbox.take(peer, header, item.bundle, now, ready)
        elif isinstance(item, Ack):
            outbox.acknowledged(peer, item, now, ready)
        elif isinstance(item, Trail):
            self._receive_trail(peer, boot, item, now, ready)
        else:
            self._receive_question(peer, item, now, ready)
        return self._wake(ready)

    def _receive_question(self, peer: int, item: Item, now: Instant, ready: Ready) -> None:
        match item:
            case Probe():
                ready.send.append(Send((peer,), self.outbox.ack_of(peer)))
            case Ask():
                self.outbox.answer(peer, item, ready)
            case Back():
                self.outbox.restart(peer, now, ready)
                ready.send.append(Send((peer,), self.outbox.ack_of(peer)))
            case Lookup():
                self.look_up(peer, item, ready)
            case Named():
                self._receive_name(item, now, ready)
            case FenceAsk():
                self.fence.asked(peer, item, ready)
            case FenceAnswer():
                self.fence.told(peer, item)
                self.inbox.pump(now, ready)
            case Lost():
                self.links.lost(peer, item.session)
            case _:
                ready.notes.append(Note("drop", "other_level", peer=peer))

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Suspect a peer that did not take what it was sent."""
        ready = Ready()
        place = self._overlay.place_of.get(peer, NOBODY)
        if self._up and place in self.outbox.peers:
            self.outbox.lost(place, now, ready)
        return self._wake(ready)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """suspect, trust: err about a peer, or stop. Raises UsageError."""
        ready = Ready()
        if name in ("suspect", "trust"):
            place = self._overlay.place_of.get(argument, NOBODY)
            if place not in self.outbox.peers:
                raise UsageError(f"{name}: process {argument} is not in reach")
            if self._suspects.force(place) if name == "suspect" else self._suspects.release(place):
                self.outbox.refresh(now, ready)
        else:
            raise UsageError(f"members of this level know no act {name!r}; there are suspect and trust")
        return self._wake(ready)

    def tick(self, now: Instant) -> Ready:
        """Do what time asks for."""
        ready = Ready()
        if self._up:
            if now >= self.outbox.wake_at:
                self.outbox.tick(now, ready)
            self.inbox.tick(now, ready)
        return self._wake(ready)

    def view(self) -> tuple[int, ...] | None:
        """Return None: the driver knows the tree."""
        return None

    def gauges(self) -> list[Gauge]:
        """Return how much is kept for others, held, and out of order; all of it must go in the end."""
        state, settings = self.state, self._settings
        numbers = settings.records_max * len(self._place.reach)
        return [
            Gauge("records", len(state.records), settings.records_max + 1, rests=True),
            Gauge("retained_bytes", state.retained_bytes, settings.retained_bytes_max + (1 << 20), rests=True),
            Gauge("held_copies", len(self.inbox.held), settings.held_copies_max, rests=True),
            Gauge("numbers_not_done", sum(map(len, state.own.values())), numbers, rests=True),
            Gauge("numbers_open", sum(map(len, state.open.values())), numbers, rests=True),
            Gauge("numbers_ahead", sum(map(len, state.ahead.values())), numbers, rests=True),
            Gauge("past", len(state.past), len(self._place.pairs)),
        ]

    # --- copies ---

    def _receive_trail(self, peer: int, boot: int, trail: Trail, now: Instant, ready: Ready) -> None:
        header = self._header(peer, boot, trail.header, ready)
        if header is None:
            return
        if self.state.index is None:
            record = self.state.records.get((trail.pid, trail.boot, trail.first))
        else:
            record = self.state.by_numbers(header.ids, header.extra)
        if record is not None:
            self.duplicate(record, header, now, ready)
        self.outbox.owe([peer], now)
        if record is not None and self.inbox.held:
            self.inbox.pump(now, ready)

    def _header(self, peer: int, boot: int, data: bytes, ready: Ready) -> Header | None:
        try:
            header = self.links.read(peer, boot, data)
        except ValueError:
            ready.notes.append(Note("reject", "no_head", peer=peer))
            return None
        if header is None:
            ready.send.append(Send((peer,), Lost(self.links.session_in(data))))
            ready.notes.append(Note("drop", "lost_session", peer=peer))
        return header

    def first(self, waiting: Waiting, now: Instant, ready: Ready) -> None:
        """Process a message for the first time: one transaction, then its effects."""
        header, state, place, bundle = waiting.header, self.state, self._place, waiting.bundle
        last, extra = header.last, header.extra
        h = header.h + place.near[last]
        if h > place.overlay.radius:
            h = place.overlay.radius
        pattern, numbers = header.pattern, header.numbers
        if pattern is None:
            pattern, numbers = state.patterns.flat(header.ids)
        grown = state.merge(waiting.deps) if waiting.deps else {}
        record = state.admit(bundle, header.group, last, h, pattern, numbers, extra)
        if not header.whole:
            self.links.merged(header, record)
        elif not header.cut:
            record.raw = {last: header}
        self._persist(MessageProcessed(bundle, header.group, last, h, pattern.packed, numbers, extra, grown), ready)
        if self.fence.on:
            self.fence.processed(header.ids, extra)
            self.fence.learn_from(last, header.deps)
        self._processed(record, last, now - waiting.since, now, ready)
        if extra:
            self.outbox.owe(record.forwarders(), now)
        else:
            self.outbox.owe_all(record.route.owed, now)

    def duplicate(self, record: Record, header: Header, now: Instant, ready: Ready) -> None:
        """Take the names of another copy of a message that is known, and nothing else."""
        vectors = header.ids | header.extra if header.extra else header.ids
        if header.whole and not header.cut:
            record.raw = {header.last: header} | (record.raw or {})
        if self.fence.on:
            self.fence.processed(vectors, {})
        fresh = self.state.rename(record, vectors)
        if fresh:
            self._persist(IdsAdded(*record.uid, {source: vectors[source] for source in fresh}), ready)
            self.outbox.reconsider(record, now, ready)
            self.outbox.owe(record.forwarders(), now)
            if self.state.is_collectable(record):
                self.outbox.forget(record)

    def _processed(self, record: Record, last: int, hold_ns: int, now: Instant, ready: Ready) -> None:
        self._tell_application(record, last, hold_ns, ready)
        if record.targets:
            self.outbox.forward(record, now, ready)
        if not record.left and self.state.is_collectable(record):
            self.state.forget(record)  # playing the journal again forgets it too

    def _tell_application(self, record: Record, last: int, hold_ns: int, ready: Ready) -> None:
        """Tell the application of a message: what it has from an earlier life, core/offsets.py knows."""
        if last == NOBODY and ready.published is None:  # found in the journal
            ready.deliver.append(Returned(record.bundle, record.group))
        if record.route.delivers:
            ready.deliver.append(Delivery(record.bundle, hold_ns))

    # --- names ---

    def look_up(self, peer: int, lookup: Lookup, ready: Ready) -> None:
        """Tell which messages a source's numbers stand for; replay them where the source's own copy is here, whole."""
        found = 0
        for record in self.state.records.values():
            number = record.names.get(lookup.source, {}).get(peer, 0)
            if not lookup.above < number <= lookup.upto:
                continue
            ready.send.append(Send((peer,), self.told_of(record, lookup.source, number)))
            found += 1
            if found == AGAIN_MAX:
                return

    def told_of(self, record: Record, source: int, number: int) -> Item:
        """Return a source's own copy of a message as it came, or the message's name."""
        raw = record.raw.get(source) if record.raw else None
        if raw is not None:
            return Copy(self.links.as_it_came(raw), record.bundle)
        return Named(source, number, *record.uid)

    def _receive_name(self, named: Named, now: Instant, ready: Ready) -> None:
        record = self.state.records.get((named.pid, named.boot, named.first))
        if record is None or self.state.has(named.source, named.number) or named.source not in self.outbox.peers:
            return
        self.state.mark_named(record, named.source, named.number)
        self._persist(IdResolved(*record.uid, named.source, named.number), ready)
        self.inbox.pump(now, ready)

    # --- small things ---

    def _persist(self, entry: journal.Entry, ready: Ready) -> None:
        """Write a transition down, and with it what had time."""
        outbox = self.outbox
        if len(outbox.forgotten) >= FORGOTTEN_TOGETHER:
            if self.remembers:
                ready.persist.append(journal.encode(RecordsForgotten(outbox.forgotten)))
            outbox.forgotten = []
        if self.remembers:
            ready.persist.append(journal.encode(entry))

    def _check_limits(self, payloads: Sequence[bytes]) -> None:
        size, settings, state = sum(map(len, payloads)), self._settings, self.state
        self._limits.check(len(payloads), size, self._published)
        if len(state.records) >= settings.records_max // 4:
            raise LimitError("records_max // 4", settings.records_max // 4, len(state.records) + 1, transient=True)
        if state.retained_bytes + size > settings.retained_bytes_max // 4:
            raise LimitError(
                "retained_bytes_max // 4", settings.retained_bytes_max // 4, state.retained_bytes + size, transient=True
            )

    def _wake(self, ready: Ready) -> Ready:
        soonest, inbox_at = self.outbox.wake_at, self.inbox.wake_at
        if inbox_at < soonest:
            soonest = inbox_at
        if soonest < NEVER:
            ready.wake_at = soonest
        return self._place.addressed(ready) if self._renumbered else ready
