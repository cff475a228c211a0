"""Bugs in merging: the paper's rules where they are wrong, and slips of mergers, relays, publishers, followers."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from whence.core.clocks.stamp import FIRST_KEY, StampClock, Standing
from whence.core.levels.total.following import Following, Stage
from whence.core.levels.total.holes import Holes
from whence.core.levels.total.items import Opened, Stream
from whence.core.levels.total.level import Merging
from whence.core.levels.total.member import MergeMember
from whence.core.levels.total.merged import Entry, Fate, Merger
from whence.core.levels.total.roster import Roster
from whence.core.levels.total.settings import TotalSettings
from whence.core.ready import Delivery, Late, Ready
from whence.types import Bundle, Instant, Process, Span

# --- the merger ---


class ReleasesOnTheTick(Merger):
    """Releases at l + δ + ε exactly, as the paper has it, and not after."""

    _rt = 0

    def release(self, rt: int) -> list[Entry]:
        self._rt = rt
        due = [entry for entry in self._heap if self._due(entry) == rt]
        self._heap = [entry for entry in self._heap if self._due(entry) != rt]
        return self._leave(rt, sorted(due)) if due else []

    def next_tick(self) -> int | None:
        return min((due for due in map(self._due, self._heap) if due > self._rt), default=None)

    def _due(self, entry: Entry) -> int:
        return (entry[0] >> 20) + self._wait()


class ReleasesOnArrival(Merger):
    """Does not wait."""

    def _wait(self) -> int:
        return 0


class ForgetsTheLastKey(Merger):
    """Releases whatever is due, also below what it released before."""

    def arrive(self, rt: int, entry: Entry) -> Fate:
        self.last = FIRST_KEY
        return super().arrive(rt, entry)


class ReleasesByArrival(Merger):
    """Sorts by the time of arrival."""

    def arrive(self, rt: int, entry: Entry) -> Fate:
        return super().arrive(rt, (rt << 20, 0, *entry[2:]))


class NeverPurges(Merger):
    """Trusts its own memory."""

    def guard(self, rt: int) -> str | None:
        return None


class HoldsWithoutBound(Merger):
    """Holds as much as comes."""

    def _overfull(self) -> bool:
        return False


class TakesCopiesTwice(Merger):
    """Does not look whether it has seen a bundle."""

    def arrive(self, rt: int, entry: Entry) -> Fate:
        self._seen.discard(entry[2])
        self.last = FIRST_KEY
        return super().arrive(rt, (*entry[:3], entry[3] + len(self._heap), *entry[4:]))


# --- followers ---


class ResumesFromNow(Following):
    """Asks a new merger for what comes from now on."""

    def _ask(self, now: Instant, ready: Ready) -> None:
        last, self.last = self.last, None if self.switches else self.last
        super()._ask(now, ready)
        self.last = last


class ResumesByPosition(Following):
    """Takes positions of one merger for those of another."""

    def opened(self, sender: Process, item: Opened, now: Instant, ready: Ready) -> bool:
        before = self._position
        opened = super().opened(sender, item, now, ready)
        if opened and self.switches:
            self._position = max(before, item.position)
        return opened


class ResumesFromTheBeginning(Following):
    """Asks a new merger for everything, and hands it on again."""

    def _ask(self, now: Instant, ready: Ready) -> None:
        self.last = FIRST_KEY
        super()._ask(now, ready)


class NeverSwitches(Following):
    """Stays with a merger that is gone."""

    def switch(self, now: Instant, ready: Ready, to: int | None = None) -> None:
        self.begin(now, ready)


class OverlooksWhatIsMissing(Following):
    """Takes pieces of the stream as they come."""

    def take(self, sender: Process, item: Stream, now: Instant, ready: Ready) -> list[Bundle]:
        if sender.pid != self.merger or self.stage is not Stage.FOLLOWING:
            return []
        self._heard_at = now
        self._position = max(self._position, item.end)
        return item.bundles


# --- publishers, relays, members ---


class Trusting:
    """A stamp clock that finds everything in order."""

    def __init__(self, clock: StampClock[object]) -> None:
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def guard(self, rt: int) -> Standing:
        """Look at nothing."""
        return Standing.LEGAL

    def wait(self, rt: int) -> int:
        """Wait for nothing."""
        return 0


class NeverGuards(MergeMember):
    """Does not notice that its stamp is from the future: the guard that the paper forgets."""

    def __init__(self, me: Process, settings: TotalSettings, now: Instant) -> None:
        super().__init__(me, settings, now)
        self._clock = Trusting(self._clock)


class MergesByNumber(MergeMember):
    """Takes the processes 0, 1, … for the mergers, whoever is there."""

    def _keep(self, roster: Roster, now: Instant, ready: Ready) -> None:
        super()._keep(roster._replace(mergers=tuple(range(len(roster.mergers))), relays=()), now, ready)


class OverlooksHoles(Holes):
    """Does not look whether numbers are missing."""

    def before(self, bundle: Bundle) -> Span | None:
        return None


class CreatesBeyondItsBound(MergeMember):
    """Creates events past what a tick may have, which mergers refuse: accepted, and delivered nowhere."""

    def _full_tick(self) -> None:
        return None


class Restamps(MergeMember):
    """Stamps what it passes on anew, as the paper's hierarchy does."""

    def _passed_on(self, bundle: Bundle) -> Bundle:
        stamp = self._clock.write(self._clock.local(self._rt))
        return Bundle(bundle.pid, bundle.boot, bundle.first, bundle.sizes, bundle.body, stamp)


class OneMergerIsEnough(MergeMember):
    """Sends publications to the first merger only."""

    def _targets_now(self) -> tuple[int, ...]:
        return super()._targets_now()[:1]


class DeliversLateInTheStream(MergeMember):
    """Hands late events out as if they were on time."""

    def _end(self, now: Instant, ready: Ready) -> Ready:
        ready = super()._end(now, ready)
        ready.deliver = [Delivery(step.bundle) if isinstance(step, Late) else step for step in ready.deliver]
        return ready


class TellsKeysOfItsOwn(MergeMember):
    """Counts what it hands out instead of telling the key it has: every sequence is right, and no reader can sort."""

    _told = 0

    def _end(self, now: Instant, ready: Ready) -> Ready:
        ready = super()._end(now, ready)
        for at, step in enumerate(ready.deliver):
            if isinstance(step, Delivery) and step.mark is not None and step.mark.key is not None:
                self._told += 1
                mark = structs.replace(step.mark, key=(*step.mark.key[:3], self._told))
                ready.deliver[at] = structs.replace(step, mark=mark)
        return ready


class NeverGivesUpSending(MergeMember):
    """Sends again for ever what nobody acknowledges."""

    def tick(self, now: Instant) -> Ready:
        for parcel in self._outbox._parcels.values():
            parcel.last_tick = self._rt + self._timing.delta
        return super().tick(now)


class StampsByItsClockAlone(MergeMember):
    """Stamps with the clock on the wall: neither what it published before nor what it delivered counts."""

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        self._ticks.rt = max(0, now // self._settings.merge.tick_ns)
        self._clock.start(self._ticks.rt - 1 if self._ticks.rt else 0)
        return super().publish(payloads, now)


def _member(kind: type[MergeMember]) -> Callable[[Merging], Merging]:
    return lambda recipe: recipe._replace(member=kind)


def _merger(kind: type[Merger]) -> Callable[[Merging], Merging]:
    return _member(type(kind.__name__, (MergeMember,), {"merger_kind": kind}))


def _following(kind: type[Following]) -> Callable[[Merging], Merging]:
    return _member(type(kind.__name__, (MergeMember,), {"following_kind": kind}))


_TOTAL = ("total",)

BUGS = (
    ("releases_on_the_tick", "bounds", "releases at l+δ+ε and not after", _merger(ReleasesOnTheTick), _TOTAL),
    ("releases_on_arrival", "agreement", "does not wait for what comes before", _merger(ReleasesOnArrival), _TOTAL),
    ("forgets_the_last_key", "total_order", "releases below what it released", _merger(ForgetsTheLastKey), _TOTAL),
    ("releases_by_arrival", "total_order", "sorts by the time of arrival", _merger(ReleasesByArrival), _TOTAL),
    ("never_purges", "agreement", "keeps a state from the future", _merger(NeverPurges), _TOTAL),
    ("merges_without_bound", "bounds", "holds as much as comes", _merger(HoldsWithoutBound), _TOTAL),
    ("takes_copies_twice", "no_duplicates", "does not look for what it has seen", _merger(TakesCopiesTwice), _TOTAL),
    ("resumes_from_now", "agreement", "asks a new merger from now on", _following(ResumesFromNow), _TOTAL),
    ("resumes_by_position", "agreement", "takes positions for keys", _following(ResumesByPosition), _TOTAL),
    ("resumes_from_the_beginning", "no_duplicates", "asks for all again", _following(ResumesFromTheBeginning), _TOTAL),
    ("never_switches", "agreement", "stays with a merger that is gone", _following(NeverSwitches), _TOTAL),
    ("overlooks_what_is_missing", "agreement", "takes pieces as they come", _following(OverlooksWhatIsMissing), _TOTAL),
    ("never_guards", "agreement", "does not notice a stamp from the future", _member(NeverGuards), _TOTAL),
    ("creates_beyond_its_bound", "agreement", "creates events that all mergers refuse", _member(CreatesBeyondItsBound),
     _TOTAL),
    ("merges_by_number", "crash", "sends to processes that are not there", _member(MergesByNumber), _TOTAL),
    ("overlooks_holes", "fifo", "does not say what its stream left out",
     _member(type("OverlooksHoles", (MergeMember,), {"holes_kind": OverlooksHoles})), _TOTAL),
    ("restamps", "total_order", "gives what it relays a stamp of its own", _member(Restamps), _TOTAL),
    ("one_merger_is_enough", "agreement", "publishes to one merger", _member(OneMergerIsEnough), _TOTAL),
    ("delivers_late_in_the_stream", "total_order", "hands out late events as if on time",
     _member(DeliversLateInTheStream), _TOTAL),
    ("tells_keys_of_its_own", "keys", "hands out other keys than those published", _member(TellsKeysOfItsOwn), _TOTAL),
    ("never_gives_up_sending", "bounds", "sends again for ever", _member(NeverGivesUpSending), _TOTAL),
    ("stamps_by_its_clock_alone", "optimistic_causal", "stamps with the clock on the wall",
     _member(StampsByItsClockAlone), _TOTAL),
)  # fmt: skip
