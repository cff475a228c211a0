"""Bugs in two-layer delivery, each one a trap of Algorithm 5 (tickets_twolayer section 8; the trap is named)."""

from collections.abc import Callable

from whence.core.clocks.cct import Stamp, number_of
from whence.core.levels.optimistic.delivery import Held, Optimistic
from whence.core.levels.optimistic.level import ClusterParts
from whence.core.levels.optimistic.recovery import Library
from whence.core.levels.optimistic.tickets.records import Claim
from whence.core.ready import Delivery, Gap, Mark, Ready
from whence.types import Bundle, Instant, Span


class TimersNeverEnd(Optimistic):
    """Delivers when a timer fires, whatever became of the bundle meanwhile."""

    def tick(self, now: Instant, ready: Ready) -> None:
        while self._to_ask and self._to_ask[0][0] <= now:
            _, _, held = self._to_ask.popleft()
            self._deliver(held.bundle, held.stamp, now - held.since, ready)

    def wake_at(self) -> Instant | None:
        return self._to_ask[0][0] if self._to_ask else None


class DeliversTheObsolete(Optimistic):
    """Reads "not delivered or obsolete" the other way round: delivers what came too late."""

    def _take_in(self, bundle: Bundle, ready: Ready) -> Stamp | None:
        stamp = self._read(bundle)
        fresh = (stamp.ticket, stamp.entry) not in self._library._kept
        taken = super()._take_in(bundle, ready)
        if taken is None and fresh:
            ready.deliver.append(Delivery(bundle, 0, Mark(ticket=stamp.ticket, epoch=stamp.epoch)))
        return taken


class LastOneAgain(Optimistic):
    """Takes the event delivered last for one still to come."""

    def _obsolete(self, stamp: Stamp) -> bool:
        return stamp.entry < self.clock[stamp.ticket]

    def _deliverable(self, stamp: Stamp) -> bool:
        return stamp.entry == self.clock[stamp.ticket] or super()._deliverable(stamp)


class OwnEventsWait(Optimistic):
    """Does not deliver its own events when it creates them."""

    def _deliver(self, bundle: Bundle, stamp: Stamp, hold_ns: int, ready: Ready) -> None:
        super()._deliver(bundle, stamp, hold_ns, ready)
        if bundle.process == self._me:
            ready.deliver.pop()


class AdvancesOnlyOne(Optimistic):
    """Moves its clock only at the publisher's ticket."""

    def _deliver(self, bundle: Bundle, stamp: Stamp, hold_ns: int, ready: Ready) -> None:
        clock = list(self.clock)
        super()._deliver(bundle, stamp, hold_ns, ready)
        clock[stamp.ticket] = stamp.entry
        self.clock[:] = clock


class NumbersContinue(Optimistic):
    """Goes on where it believes the ticket's last owner stopped, without an epoch of its own."""

    def begin_epoch(self, claim: Claim, base: int) -> None:
        super().begin_epoch(Claim(claim.ticket, 1), 0)


class LeavesThePast(Optimistic):
    """Does not ask for what the ticket's former owner published last."""

    def seek(self, claim: Claim, base: int, now: Instant, ready: Ready) -> None:
        pass


class IgnoresEpochs(Optimistic):
    """Compares numbers only, so that an old owner's events may follow a new one's."""

    def _obsolete(self, stamp: Stamp) -> bool:
        return number_of(stamp.entry) <= number_of(self.clock[stamp.ticket])

    def _deliverable(self, stamp: Stamp) -> bool:
        return number_of(self.clock[stamp.ticket]) == number_of(stamp.before)


class NeverSkips(Optimistic):
    """Waits for ever for what was lost."""

    def _force(self, target: Held, now: Instant, ready: Ready) -> None:
        pass

    def _overfull(self) -> bool:
        return False


class SkipsTheHeld(Optimistic):
    """Delivers a bundle whose time is over before those held that it comes after, and these afterwards."""

    def _in_order(self, held: list[Held]) -> list[Held]:
        return list(reversed(super()._in_order(held)))

    def _obsolete(self, stamp: Stamp) -> bool:
        return (stamp.ticket, stamp.entry) not in self._held and super()._obsolete(stamp)

    def _force(self, target: Held, now: Instant, ready: Ready) -> None:
        vector = target.stamp.vector
        before = [held for held in self._held.values() if held.stamp.entry <= vector[held.stamp.ticket]]
        for held in self._in_order(before):
            self._release((held.stamp.ticket, held.stamp.entry))
            self._deliver(held.bundle, held.stamp, 0, ready)


class HoldsEverything(Optimistic):
    """Holds as much as comes."""

    def _overfull(self) -> bool:
        return False


class KeepsEverything(Library):
    """Never drops a bundle."""

    def keep(self, ticket: int, before: int, entry: int, bundle: Bundle) -> None:
        self._kept[ticket, entry] = (before, bundle)


class LibraryWithoutBound(Optimistic):
    """Keeps every bundle for others, for ever."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._library = KeepsEverything(self._library.size, self._library.bytes_max)


class TellsTooMuch(Optimistic):
    """Reports an event as skipped and delivers it all the same."""

    def _skip(self, stamp: Stamp, ready: Ready) -> None:
        super()._skip(stamp, ready)
        self._name_held(stamp, ready)

    def _name_held(self, stamp: Stamp, ready: Ready) -> None:
        source = self._sources.get(stamp.ticket, {}).get(stamp.epoch)
        if source is not None and number_of(stamp.before) and self._held:
            last = number_of(stamp.entry) + source.shift
            ready.deliver.append(Gap((Span(*source.process, last, last),)))


def _order(kind: type[Optimistic]) -> Callable[[ClusterParts], ClusterParts]:
    return lambda recipe: recipe._replace(order=kind)


_ORDER: tuple[tuple[str, str, str, type[Optimistic]], ...] = (
    ("timers_never_end", "no_duplicates", "C5: timers are never called off", TimersNeverEnd),
    ("delivers_the_obsolete", "optimistic_causal", "C4: delivers what came too late", DeliversTheObsolete),
    ("last_one_again", "no_duplicates", "C1: takes the last event delivered for a new one", LastOneAgain),
    ("own_events_wait", "agreement", "C3: does not deliver its own events", OwnEventsWait),
    ("advances_only_one", "optimistic_causal", "C2: moves its clock at the publisher's ticket only", AdvancesOnlyOne),
    ("numbers_continue", "ticket_exclusivity", "C11: a new owner goes on with the old one's numbers", NumbersContinue),
    ("leaves_the_past", "agreement", "X4: a new owner skips its predecessor's last events", LeavesThePast),
    ("ignores_epochs", "agreement", "C14: compares numbers without epochs", IgnoresEpochs),
    ("never_skips", "bounds", "C13: waits for ever for what was lost", NeverSkips),
    ("skips_the_held", "optimistic_causal", "C6: delivers what it forces in no causal order", SkipsTheHeld),
    ("holds_everything", "bounds", "C13: holds as much as comes", HoldsEverything),
    ("library_without_bound", "bounds", "C8: keeps every bundle for ever", LibraryWithoutBound),
    ("tells_too_much", "optimistic_causal", "C12: reports as skipped what it delivers", TellsTooMuch),
)

BUGS = tuple((name, law, bug, _order(kind), ("optimistic",)) for name, law, bug, kind in _ORDER)
