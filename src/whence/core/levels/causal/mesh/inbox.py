"""Messages of others: duplicates, those that can be delivered, and those held back until what they follow has come.

The sentence that decides: a message is delivered when everything that had been delivered to its publisher was delivered
here.
Law: a message that is held back is not acknowledged, so dropping one is safe. It comes again.
"""

from msgspec import Struct

from whence.core.levels.causal.items import Ask, Lookup
from whence.core.levels.causal.mesh.items import CausalMessage
from whence.core.levels.causal.mesh.outbox import Outbox
from whence.core.levels.causal.reliability import ReliabilitySettings
from whence.core.ready import NEVER, Delivery, Note, Ready, Send
from whence.core.stale_journal import OWN_LOST
from whence.types import Instant


class Waiting(Struct, eq=False, gc=False):
    """A message that came before something it follows."""

    message: CausalMessage
    since: Instant


class Inbox:
    """Messages that arrive, in the order in which they may be delivered."""

    def __init__(self, outbox: Outbox, settings: ReliabilitySettings) -> None:
        self.state = outbox.state
        self.outbox = outbox
        self._peers = outbox.peers
        self._settings = settings
        self._nodes = len(outbox.state.delivered)
        self.held: dict[int, dict[int, Waiting]] = {}
        """Messages held back, by their publisher's place and their number."""
        self.held_count = 0
        self.ask_at: Instant = NEVER
        """When to ask publishers for what pending messages wait for."""

    def receive(self, sender: int, message: CausalMessage, now: Instant, ready: Ready) -> None:
        """Take a message from its publisher or from a member that passes it on."""
        past, bundle, state = message.past, message.bundle, self.state
        me, delivered = state.me, state.delivered
        peer = self._peers.get(bundle.pid)
        if peer is None or len(past) != self._nodes or past[me] > state.published:
            mine = peer is not None and len(past) == self._nodes
            ready.notes.append(Note("reject", OWN_LOST if mine else "not_for_me", bundle, sender))
            return
        if past[me] > peer.acked and sender == bundle.pid:
            taken = (message.taken or past)[me]  # what it follows may have reached only an earlier incarnation
            self.outbox.take_acknowledgement(bundle.process, taken, taken, now, ready)
        publisher = peer.place
        number = past[publisher] + 1
        if number <= delivered[publisher]:
            ready.notes.append(Note("drop", "duplicate", bundle, sender))
            self.outbox.owe(now)
        elif state.is_ready(message):
            if self.held_count:
                self._let_go(publisher, number)  # another copy of it was held back
            state.deliver(message, publisher, number)
            ready.deliver.append(Delivery(bundle))
            self.outbox.handed(now)
            if self.held_count:
                self._release(now, ready)
        else:
            self._hold(message, publisher, number, sender, now, ready)

    # --- messages that wait ---

    def _hold(
        self, message: CausalMessage, publisher: int, number: int, sender: int, now: Instant, ready: Ready
    ) -> None:
        if number in self.held.get(publisher, {}):
            return
        if self.held_count >= self._settings.held_copies_max:
            ready.notes.append(Note("drop", "held_full", message.bundle, sender))
            return
        self.held.setdefault(publisher, {})[number] = Waiting(message, now)
        self.held_count += 1
        self.ask_at = min(self.ask_at, now + self._settings.ask_ns)

    def _release(self, now: Instant, ready: Ready) -> None:
        """Deliver every pending message that is ready: of each publisher, only its next message can be."""
        delivered, progress = self.state.delivered, True
        while progress:
            progress = False
            for publisher in list(self.held):
                held = self.held[publisher]
                while (waiting := held.get(delivered[publisher] + 1)) and self.state.is_ready(waiting.message):
                    self._let_go(publisher, delivered[publisher] + 1)
                    self.state.deliver(waiting.message, publisher, delivered[publisher] + 1)
                    ready.deliver.append(Delivery(waiting.message.bundle, now - waiting.since))
                    self.outbox.handed(now)
                    progress = True

    def _let_go(self, publisher: int, number: int) -> None:
        held = self.held.get(publisher, {})
        if held.pop(number, None) is not None:
            self.held_count -= 1
            if not held:
                del self.held[publisher]

    def ask(self, now: Instant, ready: Ready) -> None:
        """Ask publishers for what pending messages wait for; if a publisher seems to be down, ask all others too."""
        self.ask_at = NEVER
        wanted: dict[int, int] = {}
        for held in self.held.values():
            first = held[min(held)]
            if now - first.since >= self._settings.ask_ns:
                for place, number in self.state.missing(first.message):
                    wanted[place] = max(wanted.get(place, 0), number)
        for place, number in wanted.items():
            above, node = self.state.delivered[place], self.state.processes[place]
            ready.send.append(Send((node,), Ask(above, number)))
            if node in self.outbox.suspects.now:
                others = tuple(other for other in self.outbox.active if other != node)
                ready.send.append(Send(others, Lookup(place, above, number)))
        if self.held:
            self.ask_at = now + self._settings.ask_ns
