"""What a member still owes others: copies to targets, acknowledgements to forwarders; and when it repeats them.

Laws: only active links get copies nobody asked for. A newly active link gets everything that is not done, in the order
of its numbers. What is sent tells of the forwarding, never of today. Nothing is given up until its target is done.
Source: LoCaMu sections 4.4, 4.5, 4.7.
"""

from collections.abc import Iterable

from whence.core.levels.causal.group_started import OWN_LOST
from whence.core.levels.causal.items import Ask, Probe
from whence.core.levels.causal.tree.headers import NODES, NUMBER_END
from whence.core.levels.causal.tree.items import LIST_BYTES_MAX, Ack, Copy, Trail
from whence.core.levels.causal.tree.links import Links
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import ALL, Record, State, Uid
from whence.core.membership.suspects import Suspects
from whence.core.ready import Item, Note, Ready, Send
from whence.core.varint import Reader, put
from whence.types import Instant

AGAIN_MAX = 16
"""Copies repeated at a time."""

ACKS_PER_WINDOW = 4
"""Acknowledgements go out at the latest when so many parts of a window have been processed."""

NEVER = 1 << 62


class Peer:
    """How things stand with one node in reach."""

    __slots__ = ("answered", "backlog", "backoff", "boot", "floor_told", "heard_at", "retry_at", "sent", "since", "top")

    def __init__(self, retry_ns: int) -> None:
        self.answered = False
        """It said in this life of ours what it has."""
        self.boot = 0
        self.heard_at: Instant = -NEVER
        self.since: Instant = 0
        """When it began to owe an answer."""
        self.retry_at: Instant = NEVER
        self.backoff = retry_ns
        self.sent = 0
        """The highest number that was sent since the link became active."""
        self.top = 0
        """The highest number that was ever sent."""
        self.backlog = False
        """There is more to send than the window lets through."""
        self.floor_told = 0
        """Up to which number it was told that all have this member's messages."""


class Outbox:
    """Copies, acknowledgements and their repetition."""

    def __init__(self, state: State, links: Links, settings: TreeSettings, suspects: Suspects) -> None:
        self.state = state
        self.links = links
        self.suspects = suspects
        self.settings = settings
        self.place: Place = state.place
        self.peers = {node: Peer(settings.retry_ns) for node in self.place.reach}
        self.active: dict[int, None] = dict.fromkeys(self.place.active({}))
        self.forgotten: list[Uid] = []
        """That they are need not be durable by itself: it is written with others that must, many at a time."""
        self.wake_at: Instant = NEVER
        """Not later than the next thing to do."""
        self._owed: dict[int, None] = {}
        self._unacknowledged = 0
        """Messages processed since the last acknowledgements went out."""
        self._acknowledge_at = max(1, settings.window // ACKS_PER_WINDOW)
        self._ack_at: Instant = NEVER
        self._floor_at: Instant = NEVER
        """When to ask for floors that should have come."""

    # --- copies ---

    def forward(self, record: Record, now: Instant, ready: Ready) -> None:
        """Send a message just processed to its active targets; see that the others are asked about it."""
        active, peers, state, window, first = (
            self.active,
            self.peers,
            self.state,
            self.settings.window,
            self.links.first,
        )
        own, suspected = state.own, self.suspects.now
        for target, number in zip(record.targets, record.mine):  # noqa: B905 - hot, and one length by construction
            peer = peers[target]
            if peer.retry_at == NEVER:
                self._await_answer(peer, now)
                if target in suspected:
                    ready.send.append(Send((target,), Probe(number)))
            if target not in active or peer.backlog:
                continue
            if len(own[target]) > window:
                peer.backlog = True
                continue
            peer.sent = peer.top = number
            if state.index is None or self.may_send(record, target):
                ready.send.append(Send((target,), Copy(first(record, target), record.bundle)))

    def may_send(self, record: Record, target: int) -> bool:
        """Tell whether a copy may go to a target that lacks it: always, where messages have names of their own."""
        state = self.state
        return state.index is None or state.is_safe(record.names, record.h, state.me, target)

    def transmit(self, record: Record, target: int, ready: Ready) -> None:
        """Send a copy again, without payload to a target that has it."""
        if record.have.get(target):
            item: Item = Trail(self.links.again(record, target), *record.uid)
        elif self.may_send(record, target):
            item = Copy(self.links.again(record, target), record.bundle)
        else:
            return
        ready.send.append(Send((target,), item))

    def reconsider(self, record: Record, now: Instant, ready: Ready) -> None:
        """Tell the active targets the names that a duplicate brought; they may have been done before."""
        for target in record.left:
            if self.peers[target].retry_at == NEVER:
                self._await_answer(self.peers[target], now)
            if target in self.active:
                self.transmit(record, target, ready)

    def _push(self, target: int, ready: Ready) -> None:
        """Send what waits for a target, as far as the window goes."""
        peer, own = self.peers[target], self.state.own[target]
        peer.backlog = False
        for room, (number, record) in enumerate(own.items()):
            if room >= self.settings.window:
                peer.backlog = True
                return
            if number > peer.top:
                peer.sent = peer.top = number
                if self.may_send(record, target):
                    ready.send.append(Send((target,), Copy(self.links.first(record, target), record.bundle)))
            elif number > peer.sent:
                peer.sent = number
                self.transmit(record, target, ready)

    def answer(self, target: int, ask: Ask, ready: Ready) -> None:
        """Send what a target asked for, whether its link is active or not."""
        own = self.state.own[target]
        upto = min(ask.upto, ask.above + AGAIN_MAX)
        for number in range(ask.above + 1, upto + 1):
            if number in own:
                self.transmit(own[number], target, ready)

    # --- acknowledgements received ---

    def acknowledged(self, target: int, ack: Ack, now: Instant, ready: Ready) -> None:
        """Take a target's word for what it has."""
        self.peers[target].answered = True
        if ack.upto > self.state.numbered(target):
            ready.notes.append(Note("reject", OWN_LOST, peer=target))
            return
        if ack.floor:
            for record in self.state.take_floor(target, ack.floor):
                self.forget(record)
        own = self.state.own[target]
        if not own:
            return
        done, spare = self.state.acknowledge(target, ack.upto)
        for record in spare:
            self.forget(record)
        progress = done > 0
        if ack.rest:
            progress |= self._acknowledged_singly(target, ack.rest, ready)
        peer = self.peers[target]
        if not own:
            peer.retry_at, peer.backoff = NEVER, self.settings.retry_ns
        elif progress:
            peer.backoff = self.settings.retry_ns
            peer.since = now
            self._retry_in(peer, now)
        if peer.backlog and target in self.active:
            self._push(target, ready)
        if self.settings.retain and progress:
            self._plan_acknowledgements(now)

    def _acknowledged_singly(self, target: int, rest: bytes, ready: Ready) -> bool:
        reader, state, progress = Reader(rest), self.state, False
        try:
            while reader.more():
                number = reader.below(NUMBER_END)
                count = reader.below(NODES)
                have = frozenset([reader.below(NODES) for _ in range(min(count, LIST_BYTES_MAX))]) if count else ALL
                record = state.own[target].get(number)
                if record is None:
                    continue
                if state.learn(record, target, have):
                    self.forget(record)
                if target not in record.left:
                    progress = True
                elif target in self.active:
                    self.transmit(record, target, ready)
        except ValueError:
            pass  # what was read before the nonsense was said by the peer all the same
        return progress

    def forget(self, record: Record) -> None:
        """Drop a record that is needed no more."""
        self.state.forget(record)
        self.forgotten.append(record.uid)

    # --- acknowledgements owed ---

    def owe(self, forwarders: Iterable[int], now: Instant) -> None:
        """Plan to tell forwarders what is durable here, those of them that are in reach."""
        self.owe_all({forwarder: None for forwarder in forwarders if forwarder in self.peers}, now)

    def owe_all(self, forwarders: dict[int, None], now: Instant) -> None:
        """Plan to tell forwarders in reach what is durable here."""
        owed = self._owed
        owed.update(forwarders)
        self._unacknowledged += 1
        if owed and (self._ack_at == NEVER or self.settings.retain):
            self._plan_acknowledgements(now)
        if self._unacknowledged == self._acknowledge_at:
            self._ack_at = self.wake_at = now  # a forwarder that waits for room must not wait for company too

    def _plan_acknowledgements(self, now: Instant) -> None:
        if self._ack_at == NEVER:
            self._ack_at = now + self.settings.ack_ns
            self.wake_at = min(self.wake_at, self._ack_at)
        if self.settings.retain:
            self.expect_floors(now)

    def expect_floors(self, now: Instant) -> None:
        """See that forwarders are asked for their word in the end, if it was lost."""
        if self._floor_at == NEVER:
            self._floor_at = now + self.settings.retry_ns_max
            self.wake_at = min(self.wake_at, self._floor_at)

    def ack_of(self, source: int) -> Ack:
        """Say what is durable here of a source's messages, and how far one's own to it are."""
        floor = self.state.reached_floors()[source] if self.settings.retain else 0
        return self._ack(source, floor)

    def _ack(self, source: int, floor: int) -> Ack:
        state = self.state
        reached = upto = state.reached(source)
        opened = state.open.get(source, {})
        if not opened and source not in state.ahead:
            return Ack(upto, b"", floor)
        if opened:
            upto = min(upto, min(opened) - 1)
        rest = bytearray()
        for number in sorted({*range(upto + 1, reached + 1), *opened, *state.ahead.get(source, ())}):
            if len(rest) > LIST_BYTES_MAX // 2:
                break
            put(rest, number)
            names = list(opened[number].names) if number in opened else []
            put(rest, len(names))
            for name in names:
                put(rest, name)
        return Ack(upto, bytes(rest), floor)

    # --- peers come and go ---

    def heard(self, peer: int, boot: int, now: Instant, ready: Ready) -> None:
        """Take a sign of life: of a new one, or of a peer that may be suspected."""
        known = self.peers[peer]
        if boot > known.boot:
            if known.boot:
                self.links.reset(peer)
                known.sent, known.backlog = 0, True
            known.boot = boot
        if self.suspects.heard(peer):
            self.refresh(now, ready)

    def lost(self, peer: int, now: Instant, ready: Ready) -> None:
        """Suspect a peer that did not take what it was sent, and ask it at once: its answer ends the suspicion."""
        if self.suspects.suspect(peer):
            ready.send.append(Send((peer,), Probe(0)))
            self.refresh(now, ready)

    def refresh(self, now: Instant, ready: Ready) -> None:
        """Choose the active links anew; those that were not active get all that is not done."""
        before, self.active = self.active, dict.fromkeys(self.place.active(self.suspects.now))
        for target in self.active:
            if target not in before:
                self.restart(target, now, ready)

    def restart(self, target: int, now: Instant, ready: Ready) -> None:
        """Send a target everything that is not done, from the beginning."""
        peer = self.peers[target]
        peer.sent, peer.backoff = 0, self.settings.retry_ns
        peer.since = now
        if self.state.own[target]:
            self._retry_in(peer, now)
            if target in self.active:
                self._push(target, ready)

    def _await_answer(self, peer: Peer, now: Instant) -> None:
        peer.since = now
        self._retry_in(peer, now)

    def _retry_in(self, peer: Peer, now: Instant) -> None:
        peer.retry_at = now + peer.backoff
        self.wake_at = min(self.wake_at, peer.retry_at)

    # --- time ---

    def tick(self, now: Instant, ready: Ready) -> None:
        """Acknowledge, repeat, ask after those that are not active, suspect those that do not answer."""
        if now >= self._ack_at:
            self._ack_at = NEVER
            self._unacknowledged = 0
            owed, self._owed = self._owed, {}
            self._acknowledge(owed, ready)
        if now >= self._floor_at:
            self._floor_at = NEVER
            if self.state.records:
                self.expect_floors(now)
                ready.send += [Send((source,), Probe(0)) for source in self.state.awaited()]
        fell = False
        for target, peer in self.peers.items():
            if now < peer.retry_at:
                continue
            if not self.state.own[target]:
                peer.retry_at = NEVER
                continue
            peer.backoff = min(2 * peer.backoff, self.settings.retry_ns_max)
            self._retry_in(peer, now)
            self.repeat(target, ready)
            if now - max(peer.heard_at, peer.since) >= self.settings.suspect_ns:
                fell |= self.suspects.suspect(target)
        if fell:
            self.refresh(now, ready)
        self.wake_at = min([self._ack_at, self._floor_at, *[peer.retry_at for peer in self.peers.values()]])

    def _acknowledge(self, owed: dict[int, None], ready: Ready) -> None:
        """Send acknowledgements to whom they are owed, and to whom one's own messages have come further."""
        if not self.settings.retain:
            ready.send += [Send((source,), self._ack(source, 0)) for source in owed]
            return
        for source, floor in self.state.reached_floors().items():
            peer = self.peers[source]
            if source in owed or floor > peer.floor_told:
                peer.floor_told = floor
                ready.send.append(Send((source,), self._ack(source, floor)))

    def repeat(self, target: int, ready: Ready) -> None:
        """Send again what is not done at an active target; ask one that is not active what it has."""
        own = self.state.own[target]
        if target in self.active:
            for record in list(own.values())[:AGAIN_MAX]:
                self.transmit(record, target, ready)
        else:
            ready.send.append(Send((target,), Probe(next(iter(own)))))
