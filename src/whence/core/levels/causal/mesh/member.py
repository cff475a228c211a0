"""A member of a mesh: reliable causal multicast in a group where every member can reach every other.

Promises: the same as the localized overlay (tree/member.py): causal order within the group and not across groups, every
message once at every member, through any crashes, losses and false suspicions; publish is durable when it returns; a
member that was down gets everything it missed, in order. One hop, and no member waits for another to pass a message on.
Assumes: few members, all of which can connect to each other; stable storage; for progress, all up in the end.
The sentence that decides: a message is processed when everything that its publisher had processed was processed here.
Costs per message: a number for every member; one copy to each of them, encoded once.
Source: the safe neighbourhood of LoCaMu, made as large as the group; what its members know of each other's numbers is
then one vector clock (Birman, Schiper, Stephenson: Lightweight causal and atomic group multicast).
"""

from collections.abc import Sequence

from whence.core.levels.causal.items import Ask, Back, Lookup, Probe
from whence.core.levels.causal.mesh.inbox import Inbox
from whence.core.levels.causal.mesh.items import CausalMessage, Has
from whence.core.levels.causal.mesh.journal import Published
from whence.core.levels.causal.mesh.outbox import Outbox
from whence.core.levels.causal.mesh.recovery import SETTLED_TOGETHER, Recovery
from whence.core.levels.causal.mesh.state import SPARE_MESSAGES
from whence.core.levels.causal.settings import Settings
from whence.core.member import OverlayStatus
from whence.core.ready import Delivery, Gauge, Item, Note, Ready, Returned, Send
from whence.errors import NotMemberError, UsageError
from whence.types import Bundle, Instant, Process, packed


class MeshMember:
    """One member of a mesh: what it receives goes to its inbox, what it owes others to its outbox."""

    def __init__(self, me: Process, settings: Settings, outbox: Outbox, inbox: Inbox, recovery: Recovery) -> None:
        self.me = me
        self.state = outbox.state
        self.outbox = outbox
        self.inbox = inbox
        self.recovery = recovery
        self._peers = outbox.peers
        self._suspects = outbox.suspects
        self._settings = settings.mesh
        self._limits = settings.limits
        self._nodes = len(outbox.state.delivered)
        self.founders: list[Process] = []
        """The processes that founded the group, as far as this one knows them."""
        self._up = False
        self._published = 0
        """Events published in this incarnation."""

    def overlay_status(self) -> OverlayStatus:
        """Return the other members, and those that are suspected."""
        return OverlayStatus(list(self._peers), list(self.outbox.active), list(self._suspects.now))

    # --- incarnations ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start for the first time, and record the founders."""
        ready = Ready(notes=[Note("join")])
        self._up = True
        self.founders = sorted([self.me, *peers])
        if self.state.remembers:
            self.recovery.begin(self.founders, ready)
        return ready

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Refuse: the members are fixed. Raises NotMemberError."""
        raise NotMemberError("the members of this group are fixed; nobody can join it")

    def leave(self, now: Instant) -> Ready:
        """Refuse: the members are fixed. Raises NotMemberError."""
        raise NotMemberError("the members of this group are fixed; nobody can leave it")

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Resume an earlier incarnation: replay it, report to the application what was not reported yet, and announce
        the return to the other members.

        What the application had not taken is fetched again. Own messages need not wait for that: the application
        published them without having taken it.
        Raises StorageError if the journal belongs to another group of processes.
        """
        ready = Ready(notes=[Note("join")])
        self.founders = self.recovery.restore(records, self.founders, now, ready)
        self._up = True
        return self._wake(ready)

    def resume(self, taken: Sequence[int], reported: int, taken_in_part: Sequence[int] = ()) -> None:
        """Set, before an earlier incarnation is resumed, what the application has: the number of messages of each node,
        the number of publications reported to it, and the messages of each node counting one that it has in part."""
        self.recovery.resume(taken, reported, taken_in_part)

    def place_of(self, pid: int, incarnation: int) -> int:
        """Return the place of a process among the members: its messages are counted there."""
        return self.state.place_of[pid]

    @property
    def taken(self) -> list[int]:
        """Return the number of messages of each node that the application has taken; they are acknowledged when due."""
        return self.state.taken

    def settled(self) -> int | None:
        """Return the last event of this incarnation that every other member's application has taken."""
        acked = min([peer.acked for peer in self._peers.values()], default=self.state.published)
        return self.state.last_event(acked, self.me.incarnation)

    def missing(self, last: int) -> tuple[int, ...]:
        """Return the other members whose applications are not known to have taken the events up to `last`."""
        last_event, incarnation = self.state.last_event, self.me.incarnation
        return tuple(node for node, peer in self._peers.items() if last_event(peer.acked, incarnation) < last)

    def unanswered(self) -> tuple[int, ...]:
        """Return the members that have not reported, in this incarnation, how much they have of what was published
        here."""
        return tuple(node for node, peer in self._peers.items() if not peer.answered)

    def checkpoint(self) -> list[bytes]:
        """Return records that are equivalent to all persisted so far; the driver may replace those with them."""
        return self.recovery.checkpoint(self.founders)

    def checkpoint_bytes(self) -> int:
        """Return the least size of such records in bytes, without making them."""
        return self.state.retained_bytes

    # --- inputs ---

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events as one bundle; it is published once the Ready is durable.

        Raises NotMemberError before the start, LimitError over a limit.
        """
        if not self._up:
            raise NotMemberError("only a member may publish, and this one has not started")
        bundle, count = packed(self.me, self._published + 1, payloads), len(payloads)
        self._limits.check(count, len(bundle.body), self._published)
        state = self.state
        state.check_room(len(bundle.body), self._settings)
        self._published += count
        ready = Ready(published=Returned(bundle), deliver=[Delivery(bundle)])
        message = state.publish(bundle)
        if state.remembers:
            self.recovery.taken_written = message.taken
            self.recovery.persist(Published(message.past, message.taken, bundle), ready)
            self.outbox.watch(now)
        self.outbox.send(message, state.published, now, ready)
        ready.wake_at = min(self.outbox.wake_at, self.inbox.ask_at)
        return bundle, ready

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish to the only group, number 0. Raises as publish, and UsageError for another number."""
        if group:
            raise UsageError(f"a mesh has one group, number 0, not {group}")
        return self.publish(payloads, now)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item from another node."""
        ready = Ready()
        node, incarnation = sender
        peer = self._peers.get(node)
        if peer is None or not self._up:
            ready.notes.append(Note("drop", "stranger", peer=node))
            return ready
        peer.heard_at = now
        if incarnation > peer.incarnation or self._suspects.now:
            self.outbox.heard(node, incarnation, now, ready)
        if isinstance(item, CausalMessage):
            self.inbox.receive(node, item, now, ready)
        else:
            self._receive_word(sender, item, now, ready)
        ready.wake_at = min(self.outbox.wake_at, self.inbox.ask_at)
        return ready

    def _receive_word(self, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        node, me = sender.pid, self.state.me
        match item:
            case Has(taken, delivered) if len(taken) == len(delivered) == self._nodes:
                self._peers[node].answered = True  # what comes with a message may be long out of date
                self.outbox.take_acknowledgement(sender, taken[me], delivered[me], now, ready)
            case Probe():
                self.recovery.record_taken(ready)
                ready.send.append(Send((node,), self.outbox.has()))
            case Back():
                self.outbox.back(node, now, ready)
                self.recovery.record_taken(ready)
                ready.send.append(Send((node,), self.outbox.has()))
            case Ask(above, upto):
                self.outbox.answer(node, me, above, upto, ready)
            case Lookup(source, above, upto) if source < self._nodes:
                self.outbox.answer(node, source, above, upto, ready)
            case _:
                ready.notes.append(Note("drop", "other_level", peer=node))

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Suspect a node that did not take what it was sent."""
        ready = Ready()
        if self._up and peer in self._peers:
            self.outbox.lost(peer, ready)
        return self._wake(ready)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Suspect a node by mistake (`suspect`), or end the mistake (`trust`). Raises UsageError."""
        ready = Ready()
        if name in ("suspect", "trust"):
            if argument not in self._peers:
                raise UsageError(f"{name}: process {argument} is not in reach")
            if name == "suspect":
                self._suspects.force(argument)
            elif self._suspects.release(argument):
                self.outbox.restart(argument, now, ready)
        else:
            raise UsageError(f"members of this level know no act {name!r}; there are suspect and trust")
        return self._wake(ready)

    def tick(self, now: Instant) -> Ready:
        """Do what is due."""
        ready = Ready()
        if self._up:
            if now >= self.outbox.has_at:
                self.outbox.tell(now, ready, news=self.recovery.record_taken(ready))
            if now >= self.outbox.wake_at:
                self.outbox.tick(now, ready)
            if now >= self.inbox.ask_at:
                self.inbox.ask(now, ready)
        return self._wake(ready)

    def view(self) -> tuple[int, ...] | None:
        """Return None: the driver knows the members."""
        return None

    def gauges(self) -> list[Gauge]:
        """Return how much is retained for others and held back; all but the spare messages must drain in the end."""
        state, settings = self.state, self._settings
        return [
            Gauge("records", len(state.retained), settings.records_max // 4 + SETTLED_TOGETHER, must_drain=True),
            Gauge("retained_bytes", state.retained_bytes, settings.retained_bytes_max + (1 << 20), must_drain=True),
            Gauge("held_copies", self.inbox.held_count, settings.held_copies_max, must_drain=True),
            Gauge("spare", state.spare_count, SPARE_MESSAGES),
        ]

    def _wake(self, ready: Ready) -> Ready:
        ready.wake_at = min(self.outbox.wake_at, self.inbox.ask_at)
        return ready
