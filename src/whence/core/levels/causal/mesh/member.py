"""A member of a direct group: reliable causal multicast where everybody is in reach of everybody.

Promises: as the localized overlay does (tree/member.py): causal order within the group and towards no
other, every message once at every member, through any crashes, losses and false suspicions; publish is durable when it
returns; a member that was down gets everything it missed, in order. One hop, and nobody waits for another to pass on.
Assumes: few members, all of which can connect to each other; stable storage; for progress, all up in the end.
The sentence that decides: a message is processed when everything that its publisher had processed was processed here.
Costs per message: a number for every member; one copy to each of them, encoded once.
Source: the safe neighbourhood of LoCaMu taken as large as the group; what its members know of each other's numbers is
then one vector clock (Birman, Schiper, Stephenson: Lightweight causal and atomic group multicast).
"""

from collections.abc import Sequence

from msgspec import Struct

from whence.core.levels.causal.group_started import GroupStarted, founders_in, group_started
from whence.core.levels.causal.items import Ask, Back, Lookup, Probe
from whence.core.levels.causal.mesh import journal
from whence.core.levels.causal.mesh.items import Has, Told
from whence.core.levels.causal.mesh.journal import Published, Settled, Taken
from whence.core.levels.causal.mesh.outbox import AGAIN_MAX, NEVER, Outbox
from whence.core.levels.causal.mesh.state import SPARE_MESSAGES, State
from whence.core.levels.causal.settings import Settings
from whence.core.member import OverlayStatus
from whence.core.ready import Delivery, Gauge, Item, Note, Ready, Returned, Send
from whence.core.stale_journal import OWN_LOST
from whence.errors import LimitError, NotMemberError, UsageError
from whence.types import Bundle, Instant, Process, packed

SETTLED_TOGETHER = 16
"""Own messages that everybody has, which are written down at once. A life that ends before learns of them again."""


class Waiting(Struct, eq=False, gc=False):
    """A message that came before something it follows."""

    told: Told
    since: Instant


class MeshMember:
    """One node of a direct group."""

    def __init__(self, me: Process, settings: Settings, state: State, outbox: Outbox) -> None:
        self.me = me
        self.state = state
        self.outbox = outbox
        self._peers = outbox.peers
        self._suspects = outbox.suspects
        self._settings = settings.mesh
        self._limits = settings.limits
        self._spread = settings.layout
        self._nodes = len(state.delivered)
        self.founders: list[Process] = []
        """The processes that began the group, as far as this one knows them."""
        self.held: dict[int, dict[int, Waiting]] = {}
        """By publisher's place and number."""
        self._held_count = 0
        self._ask_at: Instant = NEVER
        self._up = False
        self._published = 0
        """Events of this life."""
        self._settled_written = 0
        self._taken_written = list(state.taken)
        self._told = 0
        """Publications that the application was told of in earlier lives."""

    def overlay_status(self) -> OverlayStatus:
        """Return the other members, and those that are suspected."""
        return OverlayStatus(list(self._peers), list(self.outbox.active), list(self._suspects.now))

    # --- lives ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start for the first time, and write down with whom."""
        ready = Ready(notes=[Note("join")])
        self._up = True
        self.founders = sorted([self.me, *peers])
        if self.state.remembers:
            self._persist(self._begun(), ready)
        return ready

    def _begun(self) -> GroupStarted:
        return group_started(self.state.processes, self.founders, self._spread)

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Refuse: the members are fixed. Raises NotMemberError."""
        raise NotMemberError("the members of this group are fixed; nobody can join it")

    def leave(self, now: Instant) -> Ready:
        """Refuse: the members are fixed. Raises NotMemberError."""
        raise NotMemberError("the members of this group are fixed; nobody can leave it")

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Take up an earlier life: play its transitions again, tell the application what it has not heard, say so.

        What it had not taken is fetched again. Own messages need not wait for that: it published them without.
        Raises StorageError if it was a member of another group of processes.
        """
        ready, state = Ready(notes=[Note("join")]), self.state
        entries = [journal.decode(record) for record in records]
        told = founders_in(entries, state.processes, self._spread)
        self.founders = told if entries else self.founders
        if not entries:
            self._persist(self._begun(), ready)  # it crashed before it had begun
        for entry in entries:
            state.replay(entry)
        self._up = True
        if state.remembers:
            ready.deliver += [Returned(told.bundle) for number, told in state.kept.items() if number > self._told]
            ready.deliver += [Delivery(bundle) for bundle in state.resume()]
            self.outbox.watch(now)
        for peer in self._peers.values():
            peer.acked = state.settled
        self.outbox.settle()
        for node in self._peers:
            self.outbox.restart(node, now, ready)
        ready.send.append(Send(tuple(self._peers), Back(1)))
        return self._wake(ready)

    def resume(self, taken: Sequence[int], told: int, begun: Sequence[int] = ()) -> None:
        """Learn, before an earlier life is taken up, what the application has: messages of each node, word of so many
        publications, and how many messages of each node counting one of which it has a part."""
        self._told = told
        self.state.took(taken)
        self.state.begun = list(begun)

    def place_of(self, process: int) -> int:
        """Return the place of a process among the members: its messages are counted there."""
        return self.state.place_of[process]

    @property
    def taken(self) -> list[int]:
        """Return how many messages of each node the application has taken; others are told when it is time."""
        return self.state.taken

    def settled(self) -> int | None:
        """Return the last event of this life that every other member's application has taken."""
        return self._last_event(min([peer.acked for peer in self.outbox.peers.values()], default=self.state.published))

    def missing(self, last: int) -> tuple[int, ...]:
        """Return the other members whose applications are not known to have taken the events up to this one."""
        peers = self.outbox.peers.items()
        return tuple(node for node, peer in peers if self._last_event(peer.acked) < last)

    def _last_event(self, number: int) -> int:
        """Return the last event of this life in the own messages up to a number."""
        told = self.state.kept.get(number)
        bundle = told.bundle if told is not None else self.state.settled_last
        return bundle.last if bundle is not None and bundle.incarnation == self.me.incarnation else 0

    def unanswered(self) -> tuple[int, ...]:
        """Return who has not said in this life how much it has of what was published here."""
        return tuple(node for node, peer in self._peers.items() if not peer.answered)

    def checkpoint(self) -> list[bytes]:
        """Return records that come to the same as all persisted so far; the driver may put them in their place."""
        return [journal.encode(entry) for entry in (self._begun(), *self.state.entries())]

    def checkpoint_bytes(self) -> int:
        """Return how many bytes such records have at least, without writing them."""
        return self.state.retained_bytes

    # --- inputs ---

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events as one bundle; it is published when the Ready has persisted.

        Raises NotMemberError before the start, LimitError over a limit.
        """
        if not self._up:
            raise NotMemberError("only a member may publish, and this one has not started")
        bundle, count = packed(self.me, self._published + 1, payloads), len(payloads)
        self._check_limits(count, len(bundle.body))
        self._published += count
        ready, state = Ready(published=Returned(bundle), deliver=[Delivery(bundle)]), self.state
        told = state.publish(bundle)
        if state.remembers:
            self._taken_written = told.taken
            self._persist(Published(told.past, told.taken, bundle), ready)
            self.outbox.watch(now)
        self.outbox.send(told, state.published, now, ready)
        return bundle, self._wake(ready)

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish to the one group there is. Raises as publish, and UsageError for another."""
        if group:
            raise UsageError(f"a direct group is one group, number 0, not {group}")
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
        if isinstance(item, Told):
            self._receive_message(node, item, now, ready)
        else:
            self._receive_word(sender, item, now, ready)
        return self._wake(ready)

    def _receive_word(self, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        node, me = sender.pid, self.state.me
        match item:
            case Has(taken, delivered) if len(taken) == len(delivered) == self._nodes:
                self._peers[node].answered = True  # what comes with a message may have been said long ago
                self._acknowledged(sender, taken[me], delivered[me], now, ready)
            case Probe():
                self._look(ready)
                ready.send.append(Send((node,), self.outbox.has()))
            case Back():
                self.outbox.back(node, now, ready)
                self._look(ready)
                ready.send.append(Send((node,), self.outbox.has()))
            case Ask(above, upto):
                self._answer(node, me, above, upto, ready)
            case Lookup(source, above, upto) if source < self._nodes:
                self._answer(node, source, above, upto, ready)
            case _:
                ready.notes.append(Note("drop", "other_level", peer=node))

    def _acknowledged(self, sender: Process, taken: int, came: int, now: Instant, ready: Ready) -> None:
        """Learn how many own messages an application has, and how many came to one life of its process."""
        node, incarnation = sender
        if max(taken, came) > self.state.published:
            ready.notes.append(Note("reject", OWN_LOST, peer=node))
        else:
            self.outbox.acknowledged(node, taken, self.outbox.came_to(node, incarnation, came), now, ready)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Suspect a node that did not take what it was sent."""
        ready = Ready()
        if self._up and peer in self._peers:
            self.outbox.lost(peer, ready)
        return self._wake(ready)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """suspect, trust: err about a node, or stop. Raises UsageError."""
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
        """Do what time asks for."""
        ready = Ready()
        if self._up:
            if now >= self.outbox.has_at:
                self.outbox.tell(now, ready, news=self._look(ready))
            if now >= self.outbox.wake_at:
                self.outbox.tick(now, ready)
            if now >= self._ask_at:
                self._ask(now, ready)
        return self._wake(ready)

    def view(self) -> tuple[int, ...] | None:
        """Return None: the driver knows the members."""
        return None

    def gauges(self) -> list[Gauge]:
        """Return how much is kept for others and held; all but what is spare must go in the end."""
        state, settings = self.state, self._settings
        return [
            Gauge("records", len(state.kept), settings.records_max // 4 + SETTLED_TOGETHER, must_drain=True),
            Gauge("retained_bytes", state.retained_bytes, settings.retained_bytes_max + (1 << 20), must_drain=True),
            Gauge("held_copies", self._held_count, settings.held_copies_max, must_drain=True),
            Gauge("spare", state.spare_count, SPARE_MESSAGES),
        ]

    # --- messages ---

    def _receive_message(self, sender: int, told: Told, now: Instant, ready: Ready) -> None:
        past, bundle, state = told.past, told.bundle, self.state
        me, delivered = state.me, state.delivered
        peer = self._peers.get(bundle.pid)
        if peer is None or len(past) != self._nodes or past[me] > state.published:
            mine = peer is not None and len(past) == self._nodes
            ready.notes.append(Note("reject", OWN_LOST if mine else "not_for_me", bundle, sender))
            return
        if past[me] > peer.acked and sender == bundle.pid:
            taken = (told.taken or past)[me]  # what it follows may have come to an earlier life of it alone
            self._acknowledged(bundle.process, taken, taken, now, ready)
        publisher = peer.place
        number = past[publisher] + 1
        if number <= delivered[publisher]:
            ready.notes.append(Note("drop", "duplicate", bundle, sender))
            self.outbox.owe(now)
        elif state.is_ready(told):
            self._process(told, publisher, number, 0, now, ready)
            if self._held_count:
                self._release(now, ready)
        else:
            self._hold(told, publisher, number, sender, now, ready)

    def _process(self, told: Told, publisher: int, number: int, hold_ns: int, now: Instant, ready: Ready) -> None:
        """Hand a message of another to the application."""
        if self._held_count:
            self._let_go(publisher, number)  # held, or another copy of it
        self.state.delivered[publisher] = number
        self.state.remember(told)
        ready.deliver.append(Delivery(told.bundle, hold_ns))
        self.outbox.handed(now)

    def _hold(self, told: Told, publisher: int, number: int, sender: int, now: Instant, ready: Ready) -> None:
        if number in self.held.get(publisher, {}):
            return
        if self._held_count >= self._settings.held_copies_max:
            ready.notes.append(Note("drop", "held_full", told.bundle, sender))
            return
        self.held.setdefault(publisher, {})[number] = Waiting(told, now)
        self._held_count += 1
        self._ask_at = min(self._ask_at, now + self._settings.ask_ns)

    def _release(self, now: Instant, ready: Ready) -> None:
        """Process what was held, as far as it goes: of each publisher, only its next message can be ready."""
        delivered, progress = self.state.delivered, True
        while progress:
            progress = False
            for publisher in list(self.held):
                held = self.held[publisher]
                while (waiting := held.get(delivered[publisher] + 1)) and self.state.is_ready(waiting.told):
                    self._process(waiting.told, publisher, delivered[publisher] + 1, now - waiting.since, now, ready)
                    progress = True

    def _let_go(self, publisher: int, number: int) -> None:
        held = self.held.get(publisher, {})
        if held.pop(number, None) is not None:
            self._held_count -= 1
            if not held:
                del self.held[publisher]

    def _ask(self, now: Instant, ready: Ready) -> None:
        """Ask publishers for what held messages wait for, and everybody else where a publisher seems to be down."""
        self._ask_at = NEVER
        wanted: dict[int, int] = {}
        for publisher in self.held:
            waiting = self._first_held(publisher)
            if now - waiting.since >= self._settings.ask_ns:
                for place, number in self.state.missing(waiting.told):
                    wanted[place] = max(wanted.get(place, 0), number)
        for place, number in wanted.items():
            above, node = self.state.delivered[place], self.state.processes[place]
            ready.send.append(Send((node,), Ask(above, number)))
            if node in self._suspects.now:
                others = tuple(other for other in self.outbox.active if other != node)
                ready.send.append(Send(others, Lookup(place, above, number)))
        if self.held:
            self._ask_at = now + self._settings.ask_ns

    def _first_held(self, publisher: int) -> Waiting:
        held = self.held[publisher]
        return held[min(held)]

    def _answer(self, node: int, publisher: int, above: int, upto: int, ready: Ready) -> None:
        """Send what a node asked for, as far as it is here."""
        found = self.state.recall(publisher, above, min(upto, above + AGAIN_MAX))
        ready.send += [Send((node,), told) for told in found]

    # --- small things ---

    def _look(self, ready: Ready) -> bool:
        """Look what the application has taken, and write it down before anybody is told; return whether it is news."""
        taken, before = self.state.taken, self._taken_written.copy()
        if not self.state.remembers:
            return True
        if taken == before:
            return False
        self._taken_written = taken.copy()
        self._persist(Taken(self._taken_written), ready)
        self.outbox.settle()
        before[self.state.me] = taken[self.state.me]  # what is its own is no news to others
        return taken != before

    def _persist(self, entry: journal.Entry, ready: Ready) -> None:
        """Write a transition down, and with it what had time."""
        if self.state.settled >= self._settled_written + SETTLED_TOGETHER:
            self._settled_written = self.state.settled
            ready.persist.append(journal.encode(Settled(self._settled_written)))
        ready.persist.append(journal.encode(entry))

    def _check_limits(self, count: int, size: int) -> None:
        settings, state = self._settings, self.state
        self._limits.check(count, size, self._published)
        if len(state.kept) >= settings.records_max // 4:
            raise LimitError("records_max // 4", settings.records_max // 4, len(state.kept) + 1, transient=True)
        if state.retained_bytes + size > settings.retained_bytes_max // 4:
            raise LimitError(
                "retained_bytes_max // 4", settings.retained_bytes_max // 4, state.retained_bytes + size, transient=True
            )

    def _wake(self, ready: Ready) -> Ready:
        soonest = self.outbox.wake_at
        if self._ask_at < soonest:
            soonest = self._ask_at
        if soonest < NEVER:
            ready.wake_at = soonest
        return ready
