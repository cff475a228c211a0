"""Planted bugs of level `causal` in a mesh: clocks, acknowledgements or the journal, each wrong in one way."""

from collections.abc import Callable, Sequence
from operator import gt

from whence.core.levels.causal.level import CausalLevel
from whence.core.levels.causal.mesh import journal
from whence.core.levels.causal.mesh.inbox import Inbox
from whence.core.levels.causal.mesh.items import CausalMessage, Has
from whence.core.levels.causal.mesh.journal import Published
from whence.core.levels.causal.mesh.member import MeshMember
from whence.core.levels.causal.mesh.outbox import Outbox, Peer
from whence.core.levels.causal.mesh.recovery import Recovery
from whence.core.levels.causal.mesh.state import State
from whence.core.ready import Delivery, Ready, Returned
from whence.types import Bundle, Instant

# --- clocks ---


class KeepsOnlyPublishersOrder(State):
    """Keeps the order of each publisher, and no other."""

    def is_ready(self, message: CausalMessage) -> bool:
        publisher = self.place_of[message.bundle.pid]
        return message.past[publisher] <= self.delivered[publisher]


class ComparesOneTooFew(State):
    """Does not compare the last entry of the clock."""

    def is_ready(self, message: CausalMessage) -> bool:
        publisher = self.place_of[message.bundle.pid]
        own = message.past[publisher] <= self.delivered[publisher]
        return own and not any(map(gt, message.past[:-1], self.delivered))


class TellsAnOldPast(State):
    """Sends the past that it had when it last published."""

    _told: list[int] | None = None

    def publish(self, bundle: Bundle) -> CausalMessage:
        message = super().publish(bundle)
        before, self._told = self._told, list(message.past)
        if before is None:
            return message
        before[self.me] = message.past[self.me]
        old = self.retained[before[self.me] + 1] = CausalMessage(before, message.taken, bundle)
        return old


class SkipsWhatIsMissing(State):
    """Treats any message that comes from a publisher as its next one."""

    def is_ready(self, message: CausalMessage) -> bool:
        past = message.past.copy()
        past[self.place_of[message.bundle.pid]] = 0
        return not any(map(gt, past, self.delivered))


class PassesOnWithoutThePast(State):
    """Passes on another publisher's message with its number alone."""

    def recall(self, publisher: int, above: int, upto: int) -> list[CausalMessage]:
        found = super().recall(publisher, above, upto)
        return found if publisher == self.me else [self._stripped(message, publisher) for message in found]

    def _stripped(self, message: CausalMessage, publisher: int) -> CausalMessage:
        return CausalMessage(
            [past if node == publisher else 0 for node, past in enumerate(message.past)], [], message.bundle
        )


class ForgetsWhatWasBegun(State):
    """Publishes after a crash as if nothing had been taken of a message that must come again."""

    def _past(self) -> list[int]:
        return self.delivered.copy()


# --- acknowledgements ---


class TakesItsClockForTaken(State):
    """Resends messages of an earlier incarnation as if everything they follow had been taken there."""

    def resume(self) -> list[Bundle]:
        self.retained = {
            number: CausalMessage(message.past, [], message.bundle) for number, message in self.retained.items()
        }
        return super().resume()


class SettlesWithoutTheSilent(Outbox):
    """Forgets a message once every member that it does not suspect has it."""

    def acknowledged(self, node: int, has: int, came: int, now: Instant, ready: Ready) -> None:
        super().acknowledged(node, has, came, now, ready)
        heard = [peer.acked for other, peer in self.peers.items() if other not in self.suspects.now]
        self.state.settle(min(heard, default=0))

    def push(self, node: int, ready: Ready) -> None:
        peer = self.peers[node]
        peer.sent = max(peer.sent, self.state.settled)
        super().push(node, ready)

    def _repeat(self, node: int, peer: Peer, ready: Ready) -> None:
        peer.acked = max(peer.acked, self.state.settled)
        super()._repeat(node, peer, ready)


class SendsOnce(Outbox):
    """Never sends again, even to a peer that comes back."""

    def restart(self, node: int, now: Instant, ready: Ready) -> None:
        pass

    def heard(self, node: int, incarnation: int, now: Instant, ready: Ready) -> None:
        self.peers[node].incarnation = incarnation
        self.suspects.heard(node)

    def _repeat(self, node: int, peer: Peer, ready: Ready) -> None:
        pass


class NeverSaysWhatItHas(Outbox):
    """Acknowledges only by what it publishes."""

    def tell(self, now: Instant, ready: Ready, *, news: bool) -> None:
        super().tell(now, Ready(), news=news)


class AcknowledgesWhatItHolds(Inbox):
    """Counts what it holds back as taken."""

    def _hold(
        self, message: CausalMessage, publisher: int, number: int, sender: int, now: Instant, ready: Ready
    ) -> None:
        super()._hold(message, publisher, number, sender, now, ready)
        self.state.taken[publisher] = max(self.state.taken[publisher], number)


class AcknowledgesWhatIsHandedOut(Outbox):
    """Acknowledges what was handed out as taken, and learns otherwise after a crash."""

    def has(self) -> Has:
        return Has(self.state.delivered.copy(), self.state.delivered.copy())


class BelievesEarlierLives(Inbox):
    """Assumes that a publisher has what its message follows, even if a later incarnation resends the message."""

    def receive(self, sender: int, message: CausalMessage, now: Instant, ready: Ready) -> None:
        if sender == message.bundle.pid:
            self.outbox.acknowledged(sender, 0, message.past[self.state.me], now, ready)
        super().receive(sender, message, now, ready)


# --- messages ---


class TakesDuplicates(Inbox):
    """Processes a message as often as it comes."""

    def receive(self, sender: int, message: CausalMessage, now: Instant, ready: Ready) -> None:
        publisher = self.state.place_of[message.bundle.pid]
        again = message.past[publisher] < self.state.delivered[publisher] and publisher != self.state.me
        super().receive(sender, message, now, ready)
        if again:
            ready.deliver.append(Delivery(message.bundle))


class HoldsWithoutBound(Inbox):
    """Holds back as many messages as come."""

    def _hold(
        self, message: CausalMessage, publisher: int, number: int, sender: int, now: Instant, ready: Ready
    ) -> None:
        counted, self.held_count = self.held_count, 0
        super()._hold(message, publisher, number, sender, now, ready)
        self.held_count += counted


# --- what is persisted ---


class ForgetsItsOwnInACrash(Recovery):
    """Does not persist what it publishes, and reuses its numbers after a crash."""

    def persist(self, entry: journal.Entry, ready: Ready) -> None:
        if not isinstance(entry, Published):
            super().persist(entry, ready)


class SendsBeforeItWrites(Recovery):
    """Acts on a transition, and persists it with the next one."""

    _late: tuple[bytes, ...] = ()

    def persist(self, entry: journal.Entry, ready: Ready) -> None:
        before, now = len(ready.persist), ready.persist
        super().persist(entry, ready)
        fresh = tuple(now[before:])
        del now[before:]
        now.extend(self._late)
        self._late = fresh


class ResumesWhereItWas(State):
    """Begins a later incarnation as if the application had taken all it was handed when it last published."""

    def resume(self) -> list[Bundle]:
        own = super().resume()
        for message in self.retained.values():
            self.delivered[:] = map(max, self.delivered, message.past)
        return own


class DeliversAgain(MeshMember):
    """Hands over everything it has again after a crash."""

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        ready = super().restore(records, now)
        ready.deliver += [Delivery(message.bundle) for message in self.state.retained.values()]
        return ready


class DeliversNothingTwice(MeshMember):
    """Hands over nothing of its own from before a crash, whether the application had it or not."""

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        ready = super().restore(records, now)
        ready.deliver = [step for step in ready.deliver if isinstance(step, Returned)]
        return ready


class NotForItself(MeshMember):
    """A publisher does not deliver its own messages."""

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        bundle, ready = super().publish(payloads, now)
        ready.deliver = [step for step in ready.deliver if isinstance(step, Returned)]
        return bundle, ready


def _member(kind: type[MeshMember]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(mesh=kind)


def _state(kind: type[State]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(mesh_state=kind)


def _inbox(kind: type[Inbox]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(mesh_inbox=kind)


def _recovery(kind: type[Recovery]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(mesh_recovery=kind)


def _outbox(kind: type[Outbox]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(mesh_outbox=kind)


_BUGS: tuple[tuple[str, str, str, Callable[[CausalLevel], CausalLevel]], ...] = (
    ("publishers_order_only", "causal", "keeps each publisher's order only", _state(KeepsOnlyPublishersOrder)),
    ("compares_one_too_few", "causal", "does not look at the last node of a clock", _state(ComparesOneTooFew)),
    ("tells_an_old_past", "causal", "tells the clock of its last message", _state(TellsAnOldPast)),
    ("forgets_what_was_begun", "causal", "does not follow what it took in part", _state(ForgetsWhatWasBegun)),
    ("skips_what_is_missing", "causal", "takes any message of a publisher for its next", _state(SkipsWhatIsMissing)),
    ("settles_without_the_silent", "agreement", "does not keep for the suspected", _outbox(SettlesWithoutTheSilent)),
    ("direct_sends_once", "agreement", "never sends again", _outbox(SendsOnce)),
    ("believes_earlier_lives", "agreement", "takes old words for new", _inbox(BelievesEarlierLives)),
    ("never_says_what_it_has", "bounds", "acknowledges only by publishing", _outbox(NeverSaysWhatItHas)),
    ("direct_acknowledges_the_held", "agreement", "counts what it holds", _inbox(AcknowledgesWhatItHolds)),
    ("acknowledges_the_untaken", "agreement", "takes handed out for taken", _outbox(AcknowledgesWhatIsHandedOut)),
    ("takes_its_clock_for_taken", "agreement", "acknowledges what it follows", _state(TakesItsClockForTaken)),
    ("takes_duplicates", "no_duplicates", "processes what comes again", _inbox(TakesDuplicates)),
    ("passes_on_without_the_past", "causal", "passes on the bare message", _state(PassesOnWithoutThePast)),
    ("direct_holds_without_bound", "bounds", "holds as many messages as come", _inbox(HoldsWithoutBound)),
    ("forgets_its_own_in_a_crash", "agreement", "does not write down its own", _recovery(ForgetsItsOwnInACrash)),
    ("direct_sends_before_it_writes", "agreement", "acts before it is durable", _recovery(SendsBeforeItWrites)),
    ("resumes_where_it_was", "agreement", "does not fetch again what was not taken", _state(ResumesWhereItWas)),
    ("direct_delivers_again", "no_duplicates", "hands all over again after a crash", _member(DeliversAgain)),
    ("direct_delivers_nothing_twice", "agreement", "hands over nothing after a crash", _member(DeliversNothingTwice)),
    ("direct_not_for_itself", "agreement", "does not deliver its own messages", _member(NotForItself)),
)  # fmt: skip

BUGS = tuple((*bug, ("causal",)) for bug in _BUGS)
