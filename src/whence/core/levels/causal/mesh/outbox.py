"""What a member still owes others: its own messages, acknowledgements of theirs, and when it repeats them.

Laws: each node gets this one's messages in their order, as far as its window goes. What is not acknowledged is sent
again. A suspected node is only asked what it has, until it is heard: at once when it is suspected because its
connection broke, and when there is something new for it. A message says what its publisher has, so it acknowledges too:
an acknowledgement of its own is sent only if nothing was published for a while.
"""

from whence.core.levels.causal.items import Probe
from whence.core.levels.causal.mesh.items import CausalMessage, Has
from whence.core.levels.causal.mesh.state import State
from whence.core.levels.causal.reliability import ReliabilitySettings
from whence.core.membership.suspects import Suspects
from whence.core.ready import NEVER, Note, Ready, Send
from whence.core.stale_journal import OWN_LOST
from whence.types import Instant, Process

AGAIN_MAX = 16
"""Messages repeated at a time."""

ACKS_PER_WINDOW = 4
"""Acknowledgements per window of processed messages, at least."""


class Peer:
    """The state of the exchange with one other node."""

    __slots__ = (
        "acked",
        "answered",
        "backoff",
        "came",
        "heard_at",
        "incarnation",
        "place",
        "restarted_for",
        "retry_at",
        "sent",
        "since",
    )  # fmt: skip

    def __init__(self, retry_ns: int, place: int) -> None:
        self.place = place
        """Its place among the members."""
        self.answered = False
        """It has reported to our present incarnation how much it has."""
        self.acked = 0
        """The number of this node's messages that its application has."""
        self.came = 0
        """The number of them that reached its present incarnation."""
        self.sent = 0
        """The number of them that it was sent since sending was last restarted."""
        self.incarnation = 0
        """Its latest known incarnation."""
        self.restarted_for = 0
        """The incarnation that was sent everything from the beginning because it follows another."""
        self.heard_at: Instant = -NEVER
        self.since: Instant = 0
        """When it began to owe an answer."""
        self.retry_at: Instant = NEVER
        self.backoff = retry_ns


class Outbox:
    """Messages, acknowledgements and their repetition."""

    def __init__(self, state: State, settings: ReliabilitySettings, suspects: Suspects) -> None:
        self.state = state
        self.settings = settings
        self.suspects = suspects
        self.peers = {
            process: Peer(settings.retry_ns, place)
            for place, process in enumerate(state.processes)
            if place != state.me
        }
        """By the number of their process."""
        self.wake_at: Instant = NEVER
        """Not later than the next thing to do."""
        self._all = tuple(self.peers)
        self.has_at: Instant = NEVER
        """When the next acknowledgement to all members is due."""
        self._handed = 0
        """Messages handed to the application since the last acknowledgement."""
        self._owes = False
        """Some member waits for an acknowledgement, even without news."""
        self._window = max(1, min(settings.window, settings.held_copies_max // max(1, len(self.peers))))
        """Messages under way to one node: it can hold back what all others may send it at once."""
        self._has_after = max(1, self._window // ACKS_PER_WINDOW)
        self._lowest = 0
        self._slowest = len(self.peers)
        """The least that any peer's application has, and the number of peers whose applications have no more."""

    @property
    def active(self) -> tuple[int, ...]:
        """Return the nodes that messages are sent to at present."""
        return tuple(node for node in self.peers if node not in self.suspects.now)

    # --- messages ---

    def send(self, message: CausalMessage, number: int, now: Instant, ready: Ready) -> None:
        """Send a new message to all nodes that were sent everything before it; the others get it in its turn."""
        suspected, lowest = self.suspects.now, number - self._window
        to = []
        for node, peer in self.peers.items():
            if peer.retry_at == NEVER:
                self._await_answer(peer, now)
                if node in suspected:
                    self.ask(node, ready)
            if peer.sent == number - 1 and peer.acked >= lowest and node not in suspected:
                peer.sent = number
                to.append(node)
        if not self._all:
            self.settle()
        elif len(to) == len(self._all):
            self._handed, self._owes = 0, False  # the message says what is here, and all get it
            if not self.state.remembers:
                self.has_at = NEVER
            ready.send.append(Send(self._all, message))
        elif to:
            ready.send.append(Send(tuple(to), message))

    def push(self, node: int, ready: Ready) -> None:
        """Send what waits for a node, as far as its window goes."""
        peer, state = self.peers[node], self.state
        upto = min(state.published, peer.acked + self._window)
        for number in range(peer.sent + 1, upto + 1):
            ready.send.append(Send((node,), state.retained[number]))
            peer.sent = number

    def restart(self, node: int, now: Instant, ready: Ready) -> None:
        """Send a node everything it is not known to have, from the beginning."""
        peer = self.peers[node]
        peer.sent, peer.backoff = peer.acked, self.settings.retry_ns
        if peer.acked < self.state.published:
            self._await_answer(peer, now)
            if node not in self.suspects.now:
                self.push(node, ready)

    def acknowledged(self, node: int, taken: int, came: int, now: Instant, ready: Ready) -> None:
        """Record how many own messages reached the present incarnation of a node, and how many its application has."""
        peer, state = self.peers[node], self.state
        published = state.published
        if peer.came < came <= published:
            peer.came = came
            peer.backoff = self.settings.retry_ns
        if not peer.acked < taken <= published:
            return  # old news, or nonsense
        was_slowest = peer.acked == self._lowest
        peer.acked = taken
        if peer.sent < taken:
            peer.sent = taken
        peer.backoff = self.settings.retry_ns
        if taken == published:
            peer.retry_at = NEVER
        else:
            peer.since, peer.retry_at = now, now + peer.backoff  # later than before: `wake_at` need not change
            if peer.sent < published and node not in self.suspects.now:
                self.push(node, ready)
        if was_slowest:
            self._slowest -= 1
            if not self._slowest:
                self.settle()

    def take_acknowledgement(self, sender: Process, taken: int, came: int, now: Instant, ready: Ready) -> None:
        """Learn from a process how many own messages its application has, and how many reached that incarnation.

        What an earlier incarnation said does not hold for the present one, which lost what its application had not
        taken.
        """
        node, incarnation = sender
        if max(taken, came) > self.state.published:
            ready.notes.append(Note("reject", OWN_LOST, peer=node))
        else:
            came_now = came if incarnation == self.peers[node].incarnation else 0
            self.acknowledged(node, taken, came_now, now, ready)

    def settle(self) -> None:
        """Drop what every application has, including the one here."""
        state = self.state
        mine = state.taken[state.me]
        acked = [peer.acked for peer in self.peers.values()]
        self._lowest = min(acked, default=mine)
        self._slowest = acked.count(self._lowest)
        state.settle(min(mine, self._lowest))

    def answer(self, node: int, publisher: int, above: int, upto: int, ready: Ready) -> None:
        """Send those of a publisher's messages that a node asked for, as far as they are here."""
        found = self.state.recall(publisher, above, min(upto, above + AGAIN_MAX))
        ready.send += [Send((node,), message) for message in found]

    # --- acknowledgements ---

    def handed(self, now: Instant) -> None:
        """Plan to acknowledge a message that was handed to the application."""
        self.watch(now)
        self._handed += 1
        if self._handed == self._has_after:
            self._tell_by(now)  # a publisher that waits for room must not also wait for ack_ns

    def owe(self, now: Instant) -> None:
        """Plan to acknowledge to all what is here, even if it is no news: some member did not receive it."""
        self._owes = True
        self.watch(now)

    def watch(self, now: Instant) -> None:
        """Plan to check what the application has taken."""
        if self.has_at == NEVER:
            self._tell_by(now + self.settings.ack_ns)

    def _tell_by(self, at: Instant) -> None:
        self.has_at = at
        self.wake_at = min(self.wake_at, at)

    def has(self) -> Has:
        """Return the acknowledgement of what is here."""
        return Has(self.state.taken.copy(), self.state.delivered.copy())

    def tell(self, now: Instant, ready: Ready, *, news: bool) -> None:
        """Acknowledge to all what is here, if it is news or some member waits for it; plan the next acknowledgement
        while something is not taken."""
        self.has_at = NEVER
        if news or self._owes:
            self._handed, self._owes = 0, False
            ready.send.append(Send(self._all, self.has()))
        if not self.state.all_taken:
            self._tell_by(now + self.settings.ack_ns)

    # --- peers come and go ---

    def lost(self, node: int, ready: Ready) -> None:
        """Suspect a node that did not receive what it was sent, and ask it at once what it has: its answer ends the
        suspicion, and then what it lacks is sent without waiting for the next retry."""
        if self.suspects.suspect(node):
            self.ask(node, ready)

    def ask(self, node: int, ready: Ready) -> None:
        """Ask a node what it has."""
        ready.send.append(Send((node,), Probe(self.peers[node].acked + 1)))

    def heard(self, node: int, incarnation: int, now: Instant, ready: Ready) -> None:
        """Record a sign of life: of a new incarnation, or of a node that may be suspected.

        An incarnation that follows a known one gets everything from the beginning: what its application had not taken
        may be lost. The first known incarnation was sent everything there is; if it follows another, it says that it is
        back.
        """
        peer = self.peers[node]
        follows = 0 < peer.incarnation < incarnation
        peer.incarnation = max(peer.incarnation, incarnation)
        if follows:
            peer.came, peer.restarted_for = peer.acked, incarnation
        if self.suspects.heard(node) or follows:
            self.restart(node, now, ready)

    def back(self, node: int, now: Instant, ready: Ready) -> None:
        """Learn that a node is up again: send it what it lacks, unless that was done before."""
        peer = self.peers[node]
        if peer.restarted_for < peer.incarnation:
            peer.came, peer.restarted_for = peer.acked, peer.incarnation
            self.restart(node, now, ready)

    def _await_answer(self, peer: Peer, now: Instant) -> None:
        peer.since, peer.retry_at = now, now + peer.backoff
        if peer.retry_at < self.wake_at:
            self.wake_at = peer.retry_at

    # --- time ---

    def tick(self, now: Instant, ready: Ready) -> None:
        """Repeat what is due, ask suspected nodes what they have, and suspect nodes that do not answer."""
        for node, peer in self.peers.items():
            if now < peer.retry_at:
                continue
            if peer.acked == self.state.published:
                peer.retry_at = NEVER
                continue
            peer.backoff = min(2 * peer.backoff, self.settings.retry_ns_max)
            peer.retry_at = now + peer.backoff
            self._repeat(node, peer, ready)
            if now - max(peer.heard_at, peer.since) >= self.settings.suspect_ns:
                self.suspects.suspect(node)
        self.wake_at = min([self.has_at, *[peer.retry_at for peer in self.peers.values()]])

    def _repeat(self, node: int, peer: Peer, ready: Ready) -> None:
        """Send again what has not reached a node. If it is suspected, or everything reached it, ask it what it has."""
        came = max(peer.came, peer.acked)
        if node in self.suspects.now or came == self.state.published:
            self.ask(node, ready)
            return
        for number in range(came + 1, min(peer.sent, came + AGAIN_MAX) + 1):
            ready.send.append(Send((node,), self.state.retained[number]))
        self.push(node, ready)
