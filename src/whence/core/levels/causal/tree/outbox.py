"""The copies that a node owes its targets: first copies, and their repetition until a target is done.

Laws: only active links get copies that nobody asked for. A link that becomes active gets everything that is not done,
in the order of its numbers (E17). A copy carries the past of its forwarding, never a later one. Nothing is given up
until its target is done (E9).
Costs: one header per copy; a window bounds the copies under way to a target.
Source: LoCaMu, sections 4.4, 4.5 and 4.7.
"""

from whence.core.levels.causal.tree.acknowledgements import Acknowledgements, acknowledged_singly
from whence.core.levels.causal.tree.coding import HeaderCoding
from whence.core.levels.causal.tree.items import Ack, Ask, Copy, Probe, Trail
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import Record, State, Uid
from whence.core.membership.suspects import Suspects
from whence.core.ready import NEVER, Item, Note, Ready, Send
from whence.core.stale_journal import OWN_LOST
from whence.types import Instant

AGAIN_MAX = 16
"""Copies repeated at a time."""


class Peer:
    """What is known of one node in reach."""

    __slots__ = ("answered", "backlog", "backoff", "heard_at", "incarnation", "retry_at", "sent", "since", "top")

    def __init__(self, retry_ns: int) -> None:
        self.answered = False
        """Whether it acknowledged anything since this process started."""
        self.incarnation = 0
        self.heard_at: Instant = -NEVER
        self.since: Instant = 0
        """Since when it owes an answer."""
        self.retry_at: Instant = NEVER
        self.backoff = retry_ns
        self.sent = 0
        """The highest number that was sent since the link became active."""
        self.top = 0
        """The highest number that was ever sent."""
        self.backlog = False
        """Whether more is to be sent than the window allows."""


class Outbox:
    """Copies to targets, and their repetition."""

    def __init__(self, state: State, coding: HeaderCoding, settings: TreeSettings, suspects: Suspects) -> None:
        self.state = state
        self.coding = coding
        self.suspects = suspects
        self.settings = settings
        self.place: Place = state.place
        self.acks = Acknowledgements(state, settings, self.wake_by)
        self.peers = {node: Peer(settings.retry_ns) for node in self.place.reach}
        self.active: dict[int, None] = dict.fromkeys(self.place.active({}))
        self.forgotten: list[Uid] = []
        """Records that were forgotten and are not in the journal as such. That can wait: they are written many at a
        time, with what cannot."""
        self.wake_at: Instant = NEVER
        """Not later than the next thing to do, acknowledgements included."""

    # --- copies ---

    def forward(self, record: Record, now: Instant, ready: Ready) -> None:
        """Send a message just processed to its active targets; the others will be asked whether they have it."""
        active, peers, state, window, first = (
            self.active,
            self.peers,
            self.state,
            self.settings.window,
            self.coding.first,
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
        """Tell whether a copy may be a target's first: always, unless messages are known by numbers alone."""
        state = self.state
        return state.index is None or state.index.is_safe(record.names, record.h, state.me, target)

    def transmit(self, record: Record, target: int, ready: Ready) -> None:
        """Send a copy again, without payload if the target has the message."""
        if record.have.get(target):
            item: Item = Trail(self.coding.again(record, target), *record.uid)
        elif self.may_send(record, target):
            item = Copy(self.coding.again(record, target), record.bundle)
        else:
            return
        ready.send.append(Send((target,), item))

    def reconsider(self, record: Record, now: Instant, ready: Ready) -> None:
        """Send the vectors that a duplicate brought to the active targets, even to those that were done (E8)."""
        for target in record.left:
            if self.peers[target].retry_at == NEVER:
                self._await_answer(self.peers[target], now)
            if target in self.active:
                self.transmit(record, target, ready)

    def _push(self, target: int, ready: Ready) -> None:
        """Send what waits for a target, as far as the window allows."""
        peer, own = self.peers[target], self.state.own[target]
        peer.backlog = False
        for room, (number, record) in enumerate(own.items()):
            if room >= self.settings.window:
                peer.backlog = True
                return
            if number > peer.top:
                peer.sent = peer.top = number
                if self.may_send(record, target):
                    ready.send.append(Send((target,), Copy(self.coding.first(record, target), record.bundle)))
            elif number > peer.sent:
                peer.sent = number
                self.transmit(record, target, ready)

    def answer(self, target: int, ask: Ask, ready: Ready) -> None:
        """Send what a target asked for, even if its link is not active."""
        own = self.state.own[target]
        upto = min(ask.upto, ask.above + AGAIN_MAX)
        for number in range(ask.above + 1, upto + 1):
            if number in own:
                self.transmit(own[number], target, ready)

    # --- acknowledgements received ---

    def acknowledged(self, target: int, ack: Ack, now: Instant, ready: Ready) -> None:
        """Take a target's acknowledgement."""
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
            self.acks.plan(now)

    def _acknowledged_singly(self, target: int, rest: bytes, ready: Ready) -> bool:
        """Take the later numbers that an acknowledgement lists; return whether one of them is done now."""
        state, progress = self.state, False
        for number, have in acknowledged_singly(rest):
            record = state.own[target].get(number)
            if record is None:
                continue
            if state.learn(record, target, have):
                self.forget(record)
            if target not in record.left:
                progress = True
            elif target in self.active:
                self.transmit(record, target, ready)
        return progress

    def forget(self, record: Record) -> None:
        """Forget a record."""
        self.state.forget(record)
        self.forgotten.append(record.uid)

    # --- peers come and go ---

    def heard(self, peer: int, incarnation: int, now: Instant, ready: Ready) -> None:
        """Note that a peer was heard from: it may be a new incarnation, or be suspected."""
        known = self.peers[peer]
        if incarnation > known.incarnation:
            if known.incarnation:
                self.coding.reset(peer)
                known.sent, known.backlog = 0, bool(self.state.own[peer])
            known.incarnation = incarnation
        if self.suspects.heard(peer):
            self.refresh(now, ready)

    def lost(self, peer: int, now: Instant, ready: Ready) -> None:
        """Suspect a peer that refused a copy, and probe it at once: its answer ends the suspicion."""
        if self.suspects.suspect(peer):
            ready.send.append(Send((peer,), Probe(0)))
            self.refresh(now, ready)

    def refresh(self, now: Instant, ready: Ready) -> None:
        """Choose the active links again. A link that was not active gets everything that is not done."""
        before, self.active = self.active, dict.fromkeys(self.place.active(self.suspects.now))
        for target in self.active:
            if target not in before:
                self.restart(target, now, ready)

    def restart(self, target: int, now: Instant, ready: Ready) -> None:
        """Send a target everything that is not done there, from the lowest number on."""
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

    def wake_by(self, at: Instant) -> None:
        """Ask for a tick not later than a time."""
        self.wake_at = min(self.wake_at, at)

    def tick(self, now: Instant, ready: Ready) -> None:
        """Send due acknowledgements, repeat copies, and suspect peers that owe an answer for too long."""
        self.acks.tick(now, ready)
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
        self.wake_at = min([self.acks.due_at, *[peer.retry_at for peer in self.peers.values()]])

    def repeat(self, target: int, ready: Ready) -> None:
        """Send again what is not done at a target, or probe it if its link is not active."""
        own = self.state.own[target]
        if target in self.active:
            for record in list(own.values())[:AGAIN_MAX]:
                self.transmit(record, target, ready)
        else:
            ready.send.append(Send((target,), Probe(next(iter(own)))))
