"""Planted bugs of level `causal` on a tree: the thesis taken literally, rules of its review left out, late disks.

Each breaks one rule of the level's own code; the trap that names the rule is in brackets.
"""

from collections.abc import Callable, Sequence
from typing import Any

from whence.core.levels.causal.level import CausalLevel
from whence.core.levels.causal.tree import journal
from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.id_patterns import IdPattern, Numbers, Vectors
from whence.core.levels.causal.tree.inbox import Inbox, Waiting
from whence.core.levels.causal.tree.items import Ack
from whence.core.levels.causal.tree.journal import IdsAdded, MessageProcessed, RecordSnapshot
from whence.core.levels.causal.tree.member import TreeMember
from whence.core.levels.causal.tree.number_index import NumberIndex
from whence.core.levels.causal.tree.outbox import Outbox
from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.pairs import PairNumbers, pair
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.predicted import PredictedCoding
from whence.core.levels.causal.tree.processing import Processing
from whence.core.levels.causal.tree.sessions import FORM_BITS
from whence.core.levels.causal.tree.state import ALL, Record, State
from whence.core.levels.causal.tree.topology import OverlaySettings, overlay_of
from whence.core.ready import Delivery, Ready, Returned, Send
from whence.core.varint import Reader
from whence.types import Bundle, Instant

# --- numbers and the past ---


class NumbersAnew(State):
    """Gives every message the number 1 (E1)."""

    def admit(
        self, bundle: Bundle, group: int, last: int, h: int, pattern: IdPattern, numbers: Numbers, extra: Vectors
    ) -> Record:
        for target in self.place.reach:
            self.past[pair(self.me, target)] = 0
        return super().admit(bundle, group, last, h, pattern, numbers, extra)


class FollowsItself(State):
    """Puts a message's own numbers among its dependencies, and lets it wait for them (E3)."""

    def admit(
        self, bundle: Bundle, group: int, last: int, h: int, pattern: IdPattern, numbers: Numbers, extra: Vectors
    ) -> Record:
        record = super().admit(bundle, group, last, h, pattern, numbers, extra)
        record.deps = self.past.copy()
        record.changes = record.changes_after
        return record

    def exempt(self, header: Header, source: int) -> int:
        return 0


class ChecksTheWrongColumn(State):
    """Compares the forwarder's column instead of its own (E4)."""

    def missing(self, header: Header, deps: PairNumbers) -> list[tuple[int, int]]:
        lacking = super().missing(header, deps)
        for node in self.place.reach:
            for source in self.place.reach:
                key = pair(source, node)
                if deps.get(key, 0) > self.past.get(key, 0) and key in self.place.pairs:
                    lacking.append((source, deps[key]))
        return lacking


class ColumnIsAMaximum(State):
    """Assumes that it has seen all numbers up to the highest one (E6)."""

    def mark(self, source: int, number: int) -> None:
        key = pair(source, self.me)
        if number > self.past.get(key, 0) and key in self.place.pairs:
            self.past[key] = number
            self.changed.append(key)


class BelievesOthersOfItself(Inbox):
    """Raises its own column to what others say about it (E10)."""

    def take(self, sender: int, header: Header, bundle: Bundle, now: Instant, ready: Ready) -> None:
        past, me = self.state.past, self.state.me
        for source in self.state.place.reach:
            key = pair(source, me)
            past[key] = max(past.get(key, 0), header.deps.get(key, 0))
        super().take(sender, header, bundle, now, ready)


class WaitsForNothing(State):
    """Processes what comes."""

    def missing(self, header: Header, deps: PairNumbers) -> list[tuple[int, int]]:
        return []


class WaitsForForwarderOnly(State):
    """Keeps the order of each forwarder, and no other."""

    def missing(self, header: Header, deps: PairNumbers) -> list[tuple[int, int]]:
        return [(source, number) for source, number in super().missing(header, deps) if source == header.last]


class ForgetsWhoseTurnItWas(State):
    """Does not merge the dependencies of a message into the past, only its numbers."""

    def merge(self, deps: PairNumbers) -> PairNumbers:
        return {}


class DuplicatesNameNothing(State):
    """Drops duplicates, vectors included."""

    def add_ids(self, record: Record, vectors: Vectors) -> list[int]:
        return []


class MergesDuplicates(Processing):
    """Merges the numbers and dependencies of a duplicate into its own past (E7); asks nobody."""

    def duplicate(self, record: Record, header: Header, now: Instant, ready: Ready) -> None:
        super().duplicate(record, header, now, ready)
        self.state.merge(header.deps)
        for source, numbers in header.ids.items():
            self.state.merge({pair(source, target): number for target, number in numbers.items()})


class NumbersOnlyTheActive(Outbox):
    """Gives numbers only to those it sends to at once."""

    def forward(self, record: Record, now: Instant, ready: Ready) -> None:
        state, given = self.state, dict(zip(record.targets, record.mine, strict=True))
        for target, number in list(given.items()):
            if target not in self.active:
                del given[target], record.left[target], state.own[target][number]
                state.past[pair(self.place.me, target)] -= 1
        if len(given) < len(record.targets):
            ids = {source: numbers for source, numbers in record.ids.items() if source != self.place.me}
            record.targets, record.mine = tuple(given), tuple(given.values())
            record.pattern, record.numbers = state.patterns.flat(ids | {self.place.me: given})
            record._ids = None
        super().forward(record, now, ready)


# --- retaining and forgetting ---


class ForgetsIncomplete(State):
    """Forgets a message when all have it, though copies on other paths may still come (E11)."""

    def is_complete(self, record: Record) -> bool:
        return True


class ForgetsAtTheFirstAnswer(State):
    """Forgets a message when one target has it."""

    def is_collectable(self, record: Record) -> bool:
        return (len(record.left) < len(record.targets) and self.is_complete(record)) or super().is_collectable(record)


class NeverForgets(State):
    """Keeps every record."""

    def is_collectable(self, record: Record) -> bool:
        return False


class SentIsDone(Outbox):
    """Treats a copy that was sent as one that arrived."""

    def forward(self, record: Record, now: Instant, ready: Ready) -> None:
        super().forward(record, now, ready)
        for target in list(record.left):
            self.state.learn(record, target, ALL)


class AcknowledgesWhatItHolds(Inbox):
    """Acknowledges a copy when it comes, not when it is processed (E13)."""

    def take(self, sender: int, header: Header, bundle: Bundle, now: Instant, ready: Ready) -> None:
        super().take(sender, header, bundle, now, ready)
        numbers = header.ids.get(header.last, {})
        if self.state.me in numbers and (header.last, numbers[self.state.me]) in self.held:
            ready.send.append(Send((header.last,), Ack(numbers[self.state.me])))


# --- repeating and asking ---


class SendsOnce(Outbox):
    """Sends only when it processes a message (E9)."""

    def repeat(self, target: int, ready: Ready) -> None:
        pass

    def restart(self, target: int, now: Instant, ready: Ready) -> None:
        pass


class NeverProbes(Outbox):
    """Never asks those it does not send to what they have."""

    def repeat(self, target: int, ready: Ready) -> None:
        if target in self.active:
            super().repeat(target, ready)


class KeepsNewsToItself(Outbox):
    """Does not pass on the vectors that duplicates bring (E8)."""

    def reconsider(self, record: Record, now: Instant, ready: Ready) -> None:
        pass

    def transmit(self, record: Record, target: int, ready: Ready) -> None:
        if not record.have.get(target):
            super().transmit(record, target, ready)


class AsksNobody(Inbox):
    """Waits for what is missing without asking."""

    def ask(self, wanted: dict[int, int], now: Instant, ready: Ready) -> None:
        pass


class TellsTheNewestPast(Outbox):
    """Sends its current past instead of the past at the time of forwarding."""

    def transmit(self, record: Record, target: int, ready: Ready) -> None:
        record.deps = self.state.past.copy()
        super().transmit(record, target, ready)


class WaivesTheSuspected(Inbox):
    """Does not wait for what a suspected node has numbered."""

    def is_ready(self, waiting: Waiting, now: Instant, ready: Ready) -> bool:
        missing = self.state.missing(waiting.header, waiting.deps)
        return all(source in self.outbox.suspects.now for source, _ in missing)


class NoFence(Inbox):
    """Lets copies jump over nodes that still lack something (f >= 2, E18)."""

    def is_ready(self, waiting: Waiting, now: Instant, ready: Ready) -> bool:
        return not self.state.missing(waiting.header, waiting.deps)


class AnyPathIsSafe(State):
    """With messages known by numbers alone, takes copies that name too few forwarders (E15)."""

    def __init__(self, place: Place, *, paper: bool = False, retain: bool = False) -> None:
        super().__init__(place, paper=paper, retain=retain)
        self.index = EveryPathIsSafe(place) if paper else None


class EveryPathIsSafe(NumberIndex):
    """Treats every path as safe."""

    def is_safe(self, names: Vectors, h: int, last: int, target: int) -> bool:
        return True


class HoldsWithoutBound(Inbox):
    """Holds back as many copies as come."""

    def take(self, sender: int, header: Header, bundle: Bundle, now: Instant, ready: Ready) -> None:
        most = self.settings.held_copies_max
        before = dict(self.held)
        if len(before) >= most:
            self.held.clear()
            super().take(sender, header, bundle, now, ready)
            self.held = before | self.held
        else:
            super().take(sender, header, bundle, now, ready)


class ReadsOutOfTurn(PredictedCoding):
    """Reads a header relative to what the link carried last, though copies before it were lost (E22)."""

    def read(self, peer: int, incarnation: int, data: bytes) -> Header | None:
        link = self._incoming.get(peer)
        if (
            link is not None
            and link.incarnation == incarnation
            and data[0] & (1 << FORM_BITS) - 1 == self.form
            and not self._ordered
        ):
            reader = Reader(data, 1)
            if reader.take() == link.session:
                link.turn = reader.take()
        return super().read(peer, incarnation, data)


# --- durability and the application ---


class SendsBeforeItWrites(TreeMember):
    """Acts on a transition at once, and persists it with the next input (E13)."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._late: list[bytes] = []

    def _wake(self, ready: Ready) -> Ready:
        ready.persist, self._late = self._late, ready.persist
        return super()._wake(ready)


class RemembersOnlyItsOwn(TreeMember):
    """Replays after a crash what it published, and nothing it forwarded."""

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        return super().restore([record for record in records if not self._is_forwarded(journal.decode(record))], now)

    def _is_forwarded(self, entry: journal.Entry) -> bool:
        return isinstance(entry, MessageProcessed | RecordSnapshot) and entry.last >= 0


class ForgetsNamesInACrash(Processing):
    """Does not persist the vectors that duplicates bring."""

    def persist(self, entry: journal.Entry, ready: Ready) -> None:
        if not isinstance(entry, IdsAdded):
            super().persist(entry, ready)


class DeliversNothingTwice(TreeMember):
    """Hands over nothing from before a crash, whether the application had it or not."""

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        ready = super().restore(records, now)
        ready.deliver = [step for step in ready.deliver if isinstance(step, Returned)]
        return ready


class NotForItself(Processing):
    """A publisher does not deliver its own messages (E14)."""

    def deliver(self, record: Record, last: int, hold_ns: int, ready: Ready) -> None:
        super().deliver(record, last, hold_ns, ready)
        if last < 0:
            ready.deliver = [step for step in ready.deliver if not isinstance(step, Delivery)]


class ForwardersDeliver(Processing):
    """Delivers what it only forwards (E23)."""

    def deliver(self, record: Record, last: int, hold_ns: int, ready: Ready) -> None:
        before = len(ready.deliver)
        super().deliver(record, last, hold_ns, ready)
        if len(ready.deliver) == before:
            ready.deliver.append(Delivery(record.bundle, hold_ns))


class MarksBeforeItTests(Inbox):
    """Marks a copy's numbers before it checks whether the message is known (E2)."""

    def settle(self, waiting: Waiting, now: Instant, ready: Ready) -> bool:
        self.state.mark_all(waiting.header.ids)
        return super().settle(waiting, now, ready)


# --- the neighbourhood ---


def _shortsighted(settings: OverlaySettings) -> Overlay:
    """Build an overlay whose members know a neighbourhood that is one hop too small."""
    return overlay_of(settings, radius=2 * settings.f)


def _member(kind: type[TreeMember]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(member=kind)


def _processing(kind: type[Processing]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(processing=kind)


def _state(kind: type[State]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(state=kind)


def _outbox(kind: type[Outbox]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(outbox=kind)


def _inbox(kind: type[Inbox]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(inbox=kind)


_BUGS: tuple[tuple[str, str, str, Callable[[CausalLevel], CausalLevel]], ...] = (
    ("numbers_anew", "agreement", "gives every message the number 1", _state(NumbersAnew)),
    ("marks_before_it_tests", "agreement", "marks a copy before it is tested", _inbox(MarksBeforeItTests)),
    ("follows_itself", "agreement", "lets a message wait for its own numbers", _state(FollowsItself)),
    ("checks_the_wrong_column", "liveness", "compares others' columns", _state(ChecksTheWrongColumn)),
    ("column_is_a_maximum", "causal", "takes the highest number for all numbers", _state(ColumnIsAMaximum)),
    ("believes_others_of_itself", "agreement", "raises its column to what others say", _inbox(BelievesOthersOfItself)),
    ("waits_for_nothing", "causal", "processes what comes", _state(WaitsForNothing)),
    ("waits_for_forwarder_only", "causal", "keeps each forwarder's order only", _state(WaitsForForwarderOnly)),
    ("ignores_dependencies", "causal", "does not merge what a message follows", _state(ForgetsWhoseTurnItWas)),
    ("duplicates_name_nothing", "bounds", "drops a duplicate's vectors", _state(DuplicatesNameNothing)),
    ("numbers_only_the_active", "causal", "numbers only those it sends to", _outbox(NumbersOnlyTheActive)),
    ("forgets_incomplete", "no_duplicates", "forgets before all forwarders named it", _state(ForgetsIncomplete)),
    ("forgets_at_the_first_answer", "agreement", "forgets when one target has it", _state(ForgetsAtTheFirstAnswer)),
    ("never_forgets", "bounds", "keeps every record", _state(NeverForgets)),
    ("sent_is_done", "agreement", "takes sent for arrived", _outbox(SentIsDone)),
    ("acknowledges_what_it_holds", "agreement", "acknowledges what it only holds", _inbox(AcknowledgesWhatItHolds)),
    ("sends_once", "agreement", "never sends again", _outbox(SendsOnce)),
    ("never_probes", "bounds", "never asks after a lost acknowledgement", _outbox(NeverProbes)),
    (
        "keeps_news_to_itself", "agreement", "neither passes vectors on nor asks for what is missing",
        lambda spec: spec._replace(outbox=KeepsNewsToItself, inbox=AsksNobody),
    ),
    (
        "merges_duplicates", "agreement", "takes a duplicate's past for its own, and asks nobody",
        lambda spec: spec._replace(processing=MergesDuplicates, inbox=AsksNobody),
    ),
    ("tells_the_newest_past", "liveness", "sends the present past with old messages", _outbox(TellsTheNewestPast)),
    ("waives_the_suspected", "causal", "does not wait for those it suspects", _inbox(WaivesTheSuspected)),
    ("no_fence", "causal", "jumps over nodes that still lack something (f >= 2)", _inbox(NoFence)),
    (
        "sees_one_hop_too_little", "causal", "knows only 2f hops around it",
        lambda spec: spec._replace(overlay=_shortsighted),
    ),
    (
        "reads_out_of_turn", "causal", "reads headers by the wrong link state",
        lambda spec: spec._replace(coding=ReadsOutOfTurn),
    ),
    ("any_path_is_safe", "no_duplicates", "takes copies that cannot be recognised", _state(AnyPathIsSafe)),
    ("holds_copies_without_bound", "bounds", "holds as many copies as come", _inbox(HoldsWithoutBound)),
    ("sends_before_it_writes", "agreement", "acts before the journal is durable", _member(SendsBeforeItWrites)),
    ("remembers_only_its_own", "agreement", "loses what it forwarded in a crash", _member(RemembersOnlyItsOwn)),
    ("forgets_names_in_a_crash", "bounds", "does not write vectors to the journal", _processing(ForgetsNamesInACrash)),
    ("delivers_nothing_twice", "agreement", "hands over nothing from before a crash", _member(DeliversNothingTwice)),
    ("not_for_itself", "agreement", "does not deliver its own messages", _processing(NotForItself)),
    ("forwarders_deliver", "integrity", "delivers what it only forwards", _processing(ForwardersDeliver)),
)  # fmt: skip

BUGS = tuple((*bug, ("causal",)) for bug in _BUGS)
