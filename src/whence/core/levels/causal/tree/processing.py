"""What becomes of a message at a node: its first processing, its duplicates, and their effects.

Laws: a transition is in the journal before anything that it allows is sent, delivered or acknowledged (E13). A first
copy is one transition: merge its dependencies, forward it, deliver it if this node is a member. A duplicate adds
vectors and nothing else (E7). Only members of the group deliver (E23).
Costs per first copy: one journal record, one copy per active target, one planned acknowledgement.
Source: LoCaMu, sections 4.1, 4.3, 4.4 and 4.8.
"""

from whence.core.levels.causal.tree import journal
from whence.core.levels.causal.tree.coding import HeaderCoding
from whence.core.levels.causal.tree.fence import Fence
from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.id_patterns import Vectors
from whence.core.levels.causal.tree.inbox import Waiting
from whence.core.levels.causal.tree.items import Named
from whence.core.levels.causal.tree.journal import IdResolved, IdsAdded, MessageProcessed, RecordsForgotten
from whence.core.levels.causal.tree.outbox import Outbox
from whence.core.levels.causal.tree.state import NOBODY, Record, State
from whence.core.ready import Delivery, Ready, Returned
from whence.types import Bundle, Instant

FORGOTTEN_TOGETHER = 16
"""Forgotten records that go into one journal record. A process that crashes before that forgets them again."""


class Processing:
    """Carries out the transitions of one node, and writes them to its journal."""

    def __init__(self, state: State, coding: HeaderCoding, outbox: Outbox, fence: Fence, *, remembers: bool) -> None:
        """`remembers`: a later incarnation will read the journal."""
        self.state = state
        self.coding = coding
        self.outbox = outbox
        self.fence = fence
        self._acks = outbox.acks
        self._place = state.place
        self._remembers = remembers

    def publish(self, bundle: Bundle, group: int, now: Instant, ready: Ready) -> None:
        """Process a message of this node's own."""
        record = self.state.admit(bundle, group, NOBODY, 0, self.state.patterns.none, (), {})
        self.persist(MessageProcessed(bundle, group, NOBODY, 0, b"", (), {}, {}), ready)
        self._finish(record, NOBODY, 0, now, ready)

    def first(self, waiting: Waiting, now: Instant, ready: Ready) -> None:
        """Process the first copy of a message: one transition, then its effects."""
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
            self.coding.merged(header, record)
        elif not header.cut:
            record.raw = {last: header}
        self.persist(MessageProcessed(bundle, header.group, last, h, pattern.packed, numbers, extra, grown), ready)
        if self.fence.on:
            self.fence.processed(header.ids, extra)
            self.fence.learn_from(last, header.deps)
        self._finish(record, last, now - waiting.since, now, ready)
        if extra:
            self._acks.owe(record.forwarders(), now)
        else:
            self._acks.owe_all(record.route.owed, now)

    def duplicate(self, record: Record, header: Header, now: Instant, ready: Ready) -> None:
        """Add the vectors of another copy of a known message, and nothing else."""
        vectors = header.ids | header.extra if header.extra else header.ids
        if header.whole and not header.cut:
            record.raw = {header.last: header} | (record.raw or {})
        self._add_ids(record, vectors, now, ready)

    def _add_ids(self, record: Record, vectors: Vectors, now: Instant, ready: Ready) -> bool:
        if self.fence.on:
            self.fence.processed(vectors, {})
        fresh = self.state.add_ids(record, vectors)
        if fresh:
            self.persist(IdsAdded(*record.uid, {source: vectors[source] for source in fresh}), ready)
            self.outbox.reconsider(record, now, ready)
            self._acks.owe(record.forwarders(), now)
            if self.state.is_collectable(record):
                self.outbox.forget(record)
        return bool(fresh)

    def resolve(self, named: Named, now: Instant, ready: Ready) -> bool:
        """Take the number of a message that a third node named; return whether it is new. With the other numbers it is
        a vector, as a duplicate brings one, and is passed on: those further on may ask for the same message."""
        record, source = self.state.records.get((named.pid, named.incarnation, named.first)), named.source
        if record is None or source not in self.outbox.peers:
            return False
        if named.numbers.get(self.state.me) == named.number:
            return self._add_ids(record, {source: named.numbers}, now, ready)
        if self.state.has(source, named.number):
            return False
        self.state.resolve(record, source, named.number)
        self.persist(IdResolved(*record.uid, source, named.number), ready)
        return True

    def _finish(self, record: Record, last: int, hold_ns: int, now: Instant, ready: Ready) -> None:
        self.deliver(record, last, hold_ns, ready)
        if record.targets:
            self.outbox.forward(record, now, ready)
        if not record.left and self.state.is_collectable(record):
            self.state.forget(record)  # replaying the journal forgets it too

    def deliver(self, record: Record, last: int, hold_ns: int, ready: Ready) -> None:
        """Hand a message to the application. core/offsets.py knows what it has from an earlier incarnation."""
        if last == NOBODY and ready.published is None:  # read from the journal
            ready.deliver.append(Returned(record.bundle, record.group))
        if record.route.delivers:
            ready.deliver.append(Delivery(record.bundle, hold_ns))

    def persist(self, entry: journal.Entry, ready: Ready) -> None:
        """Write a transition to the journal, and with it the records that were forgotten, if they are many."""
        outbox = self.outbox
        if len(outbox.forgotten) >= FORGOTTEN_TOGETHER:
            if self._remembers:
                ready.persist.append(journal.encode(RecordsForgotten(outbox.forgotten)))
            outbox.forgotten = []
        if self._remembers:
            ready.persist.append(journal.encode(entry))
