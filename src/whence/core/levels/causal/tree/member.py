"""A member of level `causal` on a tree: reliable causal multicast to many groups, with metadata of bounded size.

Promises: causal order across all groups of this tree (two live groups are two trees, and strangers); every message
exactly once at every member of its group, through crashes, losses and false suspicions; a message is durable when
publish returns; a member that was down gets everything it missed, in order.
Assumes: stable storage. For progress, at most f of any 2f+1 nodes on a path are down at a time, and all are up in the
end. Order rests neither on that bound nor on the failure detector.
The sentence that decides: a copy is processed when everything that its dependencies number for this node was processed
here, except its own numbers.
Costs per message and hop: numbers for the targets within f+1 hops, dependencies on pairs within 2f+1 hops. Predicted
coding sends only what the other end cannot predict.
Source: V. Santos, Localized Reliable Causal Multicast, as corrected in docs/papers/locamu.md; LoCaMu, section 4.
"""

from collections.abc import Sequence

from whence.core.levels.causal.settings import Settings
from whence.core.levels.causal.tree import journal, lookups
from whence.core.levels.causal.tree.checkpoint import entries_of
from whence.core.levels.causal.tree.coding import Cost
from whence.core.levels.causal.tree.group_started import GroupStarted, founders_in, group_started
from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.inbox import Inbox
from whence.core.levels.causal.tree.items import (
    Ack,
    Ask,
    Back,
    Copy,
    FenceAsk,
    FenceTell,
    Lookup,
    Lost,
    Named,
    Probe,
    Trail,
)
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.processing import Processing
from whence.core.levels.causal.tree.replay import replay
from whence.core.levels.causal.tree.state import NOBODY
from whence.core.member import OverlayStatus
from whence.core.membership.suspects import Suspects
from whence.core.ready import NEVER, Gauge, Item, Note, Ready, Returned, Send
from whence.errors import NotMemberError, UsageError
from whence.types import Bundle, Instant, Process, packed


class TreeMember:
    """One node of the tree; serves all its groups."""

    def __init__(self, me: Process, settings: Settings, processing: Processing, inbox: Inbox) -> None:
        self.me = me
        self.processing = processing
        self.state = processing.state
        self.coding = processing.coding
        self.outbox = processing.outbox
        self.fence = processing.fence
        self.inbox = inbox
        self.founders: list[Process] = []
        """The processes that started the group, as far as this one knows them."""
        self._settings = settings.tree
        self._limits = settings.limits
        self._layout = settings.layout
        self._place: Place = self.state.place
        self._overlay = self._place.overlay
        self._renumbered = self._overlay.renumbered
        self._suspects: Suspects = self.outbox.suspects
        self._up = False
        self._published = 0

    @property
    def cost(self) -> Cost:
        """The bytes that headers took on the wire."""
        return self.coding.cost

    def overlay_status(self) -> OverlayStatus:
        """Return the neighbours on the tree, the processes at active links, and those that are suspected."""
        places = self._overlay.neighbours(self._place.me), self.outbox.active, self._suspects.now
        return OverlayStatus(*[[self._overlay.processes[place] for place in some] for some in places])

    # --- start, restart, checkpoint ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start for the first time, and write down with whom."""
        ready = Ready(notes=[Note("join")])
        self._up = True
        self.founders = sorted([self.me, *peers])
        self.processing.persist(self._started(), ready)
        return ready

    def _started(self) -> GroupStarted:
        return group_started(self._overlay.processes, self.founders, self._layout)

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Refuse: the tree is fixed. Raises NotMemberError."""
        raise NotMemberError("the tree of this overlay is fixed; nobody can join it")

    def leave(self, now: Instant) -> Ready:
        """Refuse: the tree is fixed. Raises NotMemberError."""
        raise NotMemberError("the tree of this overlay is fixed; nobody can leave it")

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Restart: replay the journal, deliver its messages again, and ask the others for what this node lacks.

        Raises StorageError if the journal is that of another group of processes.
        """
        ready = Ready(notes=[Note("join")])
        founders = founders_in(records, self._overlay.processes, self._layout)
        entries = [journal.decode(record) for record in records]
        if entries:
            self.founders = founders
        else:
            self.processing.persist(self._started(), ready)  # it crashed before that was written
        for entry in entries:
            replay(entry, self.processing, ready)
        self._up = True
        for target in self.state.own:
            self.outbox.restart(target, now, ready)
        if self._settings.retain:
            self.outbox.acks.expect_floors(now)
        ready.send.append(Send(self._place.reach, Back(self._overlay.epoch)))
        return self._wake(ready)

    def unanswered(self) -> tuple[int, ...]:
        """Return the processes in reach that have not acknowledged anything since this one started."""
        peers = self.outbox.peers.items()
        return tuple(self._overlay.processes[place] for place, peer in peers if not peer.answered)

    def checkpoint(self) -> list[bytes]:
        """Return records that restore the present state; the driver may replace the journal by them."""
        entries = entries_of(self.state, self.fence.remembered())
        return [journal.encode(entry) for entry in (self._started(), *entries)]

    def checkpoint_bytes(self) -> int:
        """Return the least size of these records, without writing them."""
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
        if not 0 <= group < self._overlay.group_count:
            raise UsageError(f"groups are numbered 0 to {self._overlay.group_count - 1}, not {group}")
        size, state = sum(map(len, payloads)), self.state
        self._limits.check(len(payloads), size, self._published)
        self._settings.check_room(len(state.records), state.retained_bytes + size)
        bundle = packed(self.me, self._published + 1, payloads)
        self._published += bundle.count
        ready = Ready(published=Returned(bundle, group))
        self.processing.publish(bundle, group, now, ready)
        return bundle, self._wake(ready)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item from a peer."""
        ready = Ready()
        pid, incarnation = sender
        outbox = self.outbox
        peer = self._overlay.place_of.get(pid, NOBODY)
        known = outbox.peers.get(peer)
        if known is None or not self._up:
            ready.notes.append(Note("drop", "stranger", peer=pid))
            return ready
        known.heard_at = now
        if incarnation > known.incarnation or self._suspects.now:
            outbox.heard(peer, incarnation, now, ready)
        if isinstance(item, Copy):
            header = self._header(peer, incarnation, item.header, ready)
            if header is not None:
                self.inbox.take(peer, header, item.bundle, now, ready)
        elif isinstance(item, Ack):
            outbox.acknowledged(peer, item, now, ready)
        elif isinstance(item, Trail):
            header = self._header(peer, incarnation, item.header, ready)
            if header is not None:
                self.inbox.take_trail(peer, header, (item.pid, item.incarnation, item.first), now, ready)
        else:
            self._receive_question(peer, item, now, ready)
        return self._wake(ready)

    def _header(self, peer: int, incarnation: int, data: bytes, ready: Ready) -> Header | None:
        try:
            header = self.coding.read(peer, incarnation, data)
        except ValueError:
            ready.notes.append(Note("reject", "no_header", peer=peer))
            return None
        if header is None:
            ready.send.append(Send((peer,), Lost(self.coding.session_in(data))))
            ready.notes.append(Note("drop", "lost_session", peer=peer))
        return header

    def _receive_question(self, peer: int, item: Item, now: Instant, ready: Ready) -> None:
        """Take an item that is neither a copy nor an acknowledgement."""
        match item:
            case Probe():
                ready.send.append(Send((peer,), self.outbox.acks.ack_of(peer)))
            case Ask():
                self.outbox.answer(peer, item, ready)
            case Back():
                self.outbox.restart(peer, now, ready)
                ready.send.append(Send((peer,), self.outbox.acks.ack_of(peer)))
            case Lookup():
                found = lookups.answers(peer, item, self.state, self.coding)
                ready.send += [Send((peer,), answer) for answer in found]
            case Named():
                if self.processing.resolve(item, now, ready):
                    self.inbox.pump(now, ready)
            case FenceAsk():
                self.fence.answer(peer, item, ready)
            case FenceTell():
                self.fence.confirm(peer, item, self.inbox.held.values())
                self.inbox.pump(now, ready)
            case Lost():
                self.coding.lost(peer, item.session)
            case _:
                ready.notes.append(Note("drop", "other_level", peer=peer))

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Suspect a peer that refused what it was sent."""
        ready = Ready()
        place = self._overlay.place_of.get(peer, NOBODY)
        if self._up and place in self.outbox.peers:
            self.outbox.lost(place, now, ready)
        return self._wake(ready)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Make the failure detector err about a peer (suspect), or stop that (trust). Raises UsageError."""
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
        """Do what is due."""
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
        """Return how much is kept for others, held and out of order. All but the past must drain in the end."""
        state, settings = self.state, self._settings
        numbers = settings.records_max * len(self._place.reach)
        return [
            Gauge("records", len(state.records), settings.records_max + 1, must_drain=True),
            Gauge("retained_bytes", state.retained_bytes, settings.retained_bytes_max + (1 << 20), must_drain=True),
            Gauge("held_copies", len(self.inbox.held), settings.held_copies_max, must_drain=True),
            Gauge("numbers_not_done", sum(map(len, state.own.values())), numbers, must_drain=True),
            Gauge("numbers_open", sum(map(len, state.open.values())), numbers, must_drain=True),
            Gauge("numbers_ahead", sum(map(len, state.ahead.values())), numbers, must_drain=True),
            Gauge("past", len(state.past), len(self._place.pairs)),
        ]

    def _wake(self, ready: Ready) -> Ready:
        soonest, inbox_at = self.outbox.wake_at, self.inbox.wake_at
        if inbox_at < soonest:
            soonest = inbox_at
        if soonest < NEVER:
            ready.wake_at = soonest
        return self._place.addressed(ready) if self._renumbered else ready
