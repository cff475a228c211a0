"""Bugs in merging: the paper's rules where they are wrong, and slips of mergers, relays, publishers, followers."""

from collections.abc import Callable, Sequence

from msgspec import structs

from whence.core.clocks.hlc import Hlc
from whence.core.clocks.kn import Kn
from whence.core.clocks.stamp import FIRST_KEY, REST_BITS, GuardResult
from whence.core.levels.total.candidates import Candidate
from whence.core.levels.total.gaps import GapDetector
from whence.core.levels.total.items import Closed, Mergers, Opened, Stream
from whence.core.levels.total.level import TotalLevel
from whence.core.levels.total.member import TotalMember
from whence.core.levels.total.merge_buffer import Entry, Fate, MergeBuffer
from whence.core.levels.total.merger import Merger
from whence.core.levels.total.publisher import Publisher
from whence.core.levels.total.role_exchange import RoleExchange
from whence.core.levels.total.role_table import RoleTable
from whence.core.levels.total.roles import Roles
from whence.core.levels.total.settings import TotalSettings
from whence.core.levels.total.subscription import Stage, Subscription
from whence.core.ready import Delivery, Late, Ready
from whence.types import Bundle, Instant, Process, Span

# --- mergers ---


class ReleasesOnTheTick(MergeBuffer):
    """Releases at l + δ + ε exactly, as in the paper, and not after."""

    _rt = 0

    def release(self, rt: int) -> list[Entry]:
        self._rt = rt
        due = [entry for entry in self._heap if self._due(entry) == rt]
        self._heap = [entry for entry in self._heap if self._due(entry) != rt]
        return self._leave(rt, sorted(due)) if due else []

    def next_tick(self) -> int | None:
        return min((due for due in map(self._due, self._heap) if due > self._rt), default=None)

    def _due(self, entry: Entry) -> int:
        return (entry[0] >> REST_BITS) + self._wait()


class ReleasesOnArrival(MergeBuffer):
    """Does not wait."""

    def _wait(self) -> int:
        return 0


class ForgetsTheLastKey(MergeBuffer):
    """Releases whatever is due, even below what it released before."""

    def arrive(self, rt: int, entry: Entry) -> Fate:
        self.last = FIRST_KEY
        return super().arrive(rt, entry)


class ReleasesByArrival(MergeBuffer):
    """Sorts by the time of arrival."""

    def arrive(self, rt: int, entry: Entry) -> Fate:
        return super().arrive(rt, (rt << 20, 0, *entry[2:]))


class NeverPurges(MergeBuffer):
    """Trusts its own memory."""

    def guard(self, rt: int) -> str | None:
        return None


class HoldsWithoutBound(MergeBuffer):
    """Holds back as much as comes."""

    def _make_room(self, out: list[Entry]) -> None:
        pass


class TakesCopiesTwice(MergeBuffer):
    """Does not check whether it has seen a bundle."""

    def arrive(self, rt: int, entry: Entry) -> Fate:
        self._seen.discard(entry[2])
        self.last = FIRST_KEY
        return super().arrive(rt, (*entry[:3], entry[3] + len(self._heap), *entry[4:]))


# --- followers ---


class ResumesFromNow(Subscription):
    """Asks a new merger for what comes from now on."""

    def _ask(self, now: Instant, ready: Ready) -> None:
        last, self.last = self.last, None if self.switches else self.last
        super()._ask(now, ready)
        self.last = last


class ResumesByPosition(Subscription):
    """Uses a position of one merger at another."""

    def opened(self, sender: Process, item: Opened, now: Instant, ready: Ready) -> bool:
        before = self._position
        opened = super().opened(sender, item, now, ready)
        if opened and self.switches:
            self._position = max(before, item.position)
        return opened


class ResumesFromTheBeginning(Subscription):
    """Asks a new merger for everything, and hands it on again."""

    def _ask(self, now: Instant, ready: Ready) -> None:
        self.last = FIRST_KEY
        super()._ask(now, ready)


class NeverSwitches(Subscription):
    """Stays with a merger that is gone."""

    def switch(self, now: Instant, ready: Ready, to: int | None = None) -> None:
        self.begin(now, ready)


class OverlooksWhatIsMissing(Subscription):
    """Takes pieces of the stream as they come."""

    def take(self, sender: Process, item: Stream, now: Instant, ready: Ready) -> list[Bundle | Closed]:
        if sender.pid != self.merger or self.stage is not Stage.OPEN:
            return []
        self._heard_at = now
        self._position = max(self._position, item.end)
        return [*item.bundles, *item.closed]


# --- publishers, relays, members ---


class TrustingHlc(Hlc):
    """A stamp clock without any guard."""

    def guard(self, rt: int) -> GuardResult:
        """Check nothing."""
        return GuardResult.LEGAL

    def wait(self, rt: int) -> int:
        """Wait for nothing."""
        return 0


class TrustingKn(Kn):
    """The paper's stamps, without any guard."""

    def guard(self, rt: int) -> GuardResult:
        """Check nothing."""
        return GuardResult.LEGAL

    def wait(self, rt: int) -> int:
        """Wait for nothing."""
        return 0


class NeverGuards(TotalMember):
    """Does not notice that its stamp is from the future: the guard that the paper forgets."""

    def __init__(self, me: Process, settings: TotalSettings, now: Instant) -> None:
        super().__init__(me, settings, now)
        trusting = TrustingHlc if settings.merge.stamp == "hlc" else TrustingKn
        self.clock.stamps = trusting(settings.timing)  # type: ignore[assignment]
        self.clock.stamps.start(self.clock.rt)


class MergesByNumber(Roles):
    """Takes the processes 0, 1, … for the mergers, whether they exist or not."""

    def _keep(self, table: RoleTable, now: Instant, ready: Ready) -> None:
        super()._keep(table._replace(mergers=tuple(range(len(table.mergers))), relays=()), now, ready)


class OverlooksHoles(GapDetector):
    """Does not check whether numbers are missing."""

    def before(self, bundle: Bundle) -> Span | None:
        return None


class NeverReplaces(RoleExchange):
    """Leaves their places to mergers that are gone."""

    def _mended(self, now: Instant, candidates: Sequence[Candidate]) -> RoleTable | None:
        return None

    def _watch(self, now: Instant, answered_at: Instant | None, ready: Ready) -> RoleTable | None:
        return None


class KeepsItsPlace(RoleExchange):
    """Does not believe that it was replaced, and goes on merging what no publisher sends to it any more."""

    def hear(self, sender: Process, item: Mergers, now: Instant, ready: Ready) -> RoleTable | None:
        received = super().hear(sender, item, now, ready)
        replaced = received is not None and self.merges and self._me.pid not in received.mergers
        return None if replaced else received


class ServesCold(Roles):
    """Merges as soon as it is chosen, without what is in transit to the others."""

    @property
    def warm_ticks(self) -> int:
        return 0


class TakesOverFromTheBeginning(Roles):
    """Begins to merge without regard to what the stream that it followed has passed."""

    def warm_up(self, merger: Merger, ready: Ready) -> None:
        if self._clock.rt >= merger.warm_at:
            if self.follower is not None:
                self.follower.subscription.last = None
            super().warm_up(merger, ready)


class NeverChecksItsRole(Roles):
    """Believes what its memory says about roles."""

    def guard(self, now: Instant, ready: Ready, *, is_member: bool, thoroughly: bool = False) -> None:
        return None


class CreatesBeyondItsBound(Publisher):
    """Creates events past what a tick may have, which mergers refuse: accepted, and delivered nowhere."""

    def full_tick(self) -> None:
        return None


class Restamps(Publisher):
    """Puts a new stamp on what it passes on, as the paper's hierarchy does."""

    def relay(self, bundle: Bundle, stamp: object, topic: int, now: Instant, ready: Ready) -> None:
        stamps = self._clock.stamps
        anew = stamps.write(stamps.local(self._clock.rt))
        passed_on = Bundle(bundle.pid, bundle.incarnation, bundle.first, bundle.sizes, bundle.body, anew)
        super().relay(passed_on, stamp, topic, now, ready)


class OneMergerIsEnough(Roles):
    """Sends publications to the first merger only."""

    def _keep(self, table: RoleTable, now: Instant, ready: Ready) -> None:
        super()._keep(table, now, ready)
        self._publisher.targets = self._publisher.targets[:1]

    def take_part(self, now: Instant, ready: Ready) -> bool:
        joined = super().take_part(now, ready)
        self._publisher.targets = self._publisher.targets[:1]
        return joined


class DeliversLateInTheStream(TotalMember):
    """Hands late events out as if they were on time."""

    def _end(self, now: Instant, ready: Ready) -> Ready:
        ready = super()._end(now, ready)
        ready.deliver = [Delivery(step.bundle) if isinstance(step, Late) else step for step in ready.deliver]
        return ready


class TellsKeysOfItsOwn(TotalMember):
    """Numbers what it hands out instead of giving its key: every sequence is right, and no reader can sort."""

    _told = 0

    def _end(self, now: Instant, ready: Ready) -> Ready:
        ready = super()._end(now, ready)
        for at, step in enumerate(ready.deliver):
            if isinstance(step, Delivery) and step.mark is not None and step.mark.key is not None:
                self._told += 1
                mark = structs.replace(step.mark, key=(*step.mark.key[:3], self._told))
                ready.deliver[at] = structs.replace(step, mark=mark)
        return ready


class NeverGivesUpSending(TotalMember):
    """Keeps sending what nobody acknowledges, for ever."""

    def tick(self, now: Instant) -> Ready:
        for pending in self.outbox._pending.values():
            pending.last_tick = self.clock.rt + self._settings.timing.delta
        return super().tick(now)


class StampsByItsClockAlone(TotalMember):
    """Stamps with the wall clock alone, and ignores what it published before and what it delivered."""

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        ticks = self.clock.ticks
        ticks.rt = max(0, now // self._settings.merge.tick_ns)
        self.clock.stamps.start(ticks.rt - 1 if ticks.rt else 0)
        return super().publish(payloads, now)


def _member(kind: type[TotalMember]) -> Callable[[TotalLevel], TotalLevel]:
    return lambda level: level._replace(member=kind)


def _publisher(kind: type[Publisher]) -> Callable[[TotalLevel], TotalLevel]:
    return _member(type(kind.__name__, (TotalMember,), {"publisher_type": kind}))


def _roles(kind: type[Roles]) -> Callable[[TotalLevel], TotalLevel]:
    return _member(type(kind.__name__, (TotalMember,), {"roles_type": kind}))


def _buffer(kind: type[MergeBuffer]) -> Callable[[TotalLevel], TotalLevel]:
    return _roles(type(kind.__name__, (Roles,), {"buffer_type": kind}))


def _subscription(kind: type[Subscription]) -> Callable[[TotalLevel], TotalLevel]:
    return _roles(type(kind.__name__, (Roles,), {"subscription_type": kind}))


def _exchange(kind: type[RoleExchange]) -> Callable[[TotalLevel], TotalLevel]:
    return _roles(type(kind.__name__, (Roles,), {"exchange_type": kind}))


def _gaps(kind: type[GapDetector]) -> Callable[[TotalLevel], TotalLevel]:
    return _roles(type(kind.__name__, (Roles,), {"gaps_type": kind}))


_TOTAL = ("total",)

BUGS = (
    ("releases_on_the_tick", "bounds", "releases at l+δ+ε and not after", _buffer(ReleasesOnTheTick), _TOTAL),
    ("releases_on_arrival", "agreement", "does not wait for what comes before", _buffer(ReleasesOnArrival), _TOTAL),
    ("forgets_the_last_key", "total_order", "releases below what it released", _buffer(ForgetsTheLastKey), _TOTAL),
    ("releases_by_arrival", "total_order", "sorts by the time of arrival", _buffer(ReleasesByArrival), _TOTAL),
    ("never_purges", "agreement", "keeps a state from the future", _buffer(NeverPurges), _TOTAL),
    ("merges_without_bound", "bounds", "holds as much as comes", _buffer(HoldsWithoutBound), _TOTAL),
    ("takes_copies_twice", "no_duplicates", "does not look for what it has seen", _buffer(TakesCopiesTwice), _TOTAL),
    ("resumes_from_now", "agreement", "asks a new merger from now on", _subscription(ResumesFromNow), _TOTAL),
    ("resumes_by_position", "agreement", "takes positions for keys", _subscription(ResumesByPosition), _TOTAL),
    ("resumes_from_the_beginning", "no_duplicates", "asks for all again",
     _subscription(ResumesFromTheBeginning), _TOTAL),
    ("never_switches", "agreement", "stays with a merger that is gone", _subscription(NeverSwitches), _TOTAL),
    ("overlooks_what_is_missing", "agreement", "takes pieces as they come",
     _subscription(OverlooksWhatIsMissing), _TOTAL),
    ("never_guards", "agreement", "does not notice a stamp from the future", _member(NeverGuards), _TOTAL),
    ("creates_beyond_its_bound", "agreement", "creates events that all mergers refuse",
     _publisher(CreatesBeyondItsBound), _TOTAL),
    ("merges_by_number", "crash", "sends to processes that are not there", _roles(MergesByNumber), _TOTAL),
    ("never_replaces", "agreement", "leaves their places to mergers that are gone", _exchange(NeverReplaces), _TOTAL),
    ("keeps_its_place", "agreement", "merges on after it was replaced", _exchange(KeepsItsPlace), _TOTAL),
    ("serves_cold", "agreement", "merges without what is in transit to others", _roles(ServesCold), _TOTAL),
    ("takes_over_from_the_beginning", "no_duplicates", "merges what its stream has passed",
     _roles(TakesOverFromTheBeginning), _TOTAL),
    ("never_checks_its_role", "agreement", "believes its memory about roles", _roles(NeverChecksItsRole), _TOTAL),
    ("overlooks_holes", "fifo", "does not say what its stream left out",
     _gaps(OverlooksHoles), _TOTAL),
    ("restamps", "total_order", "gives what it relays a stamp of its own", _publisher(Restamps), _TOTAL),
    ("one_merger_is_enough", "agreement", "publishes to one merger", _roles(OneMergerIsEnough), _TOTAL),
    ("delivers_late_in_the_stream", "total_order", "hands out late events as if on time",
     _member(DeliversLateInTheStream), _TOTAL),
    ("tells_keys_of_its_own", "keys", "hands out other keys than those published", _member(TellsKeysOfItsOwn), _TOTAL),
    ("never_gives_up_sending", "bounds", "sends again for ever", _member(NeverGivesUpSending), _TOTAL),
    ("stamps_by_its_clock_alone", "optimistic_causal", "stamps with the clock on the wall",
     _member(StampsByItsClockAlone), _TOTAL),
)  # fmt: skip
