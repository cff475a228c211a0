"""Bugs in two-layer delivery, each one a trap of Algorithm 5 (docs/papers/optimistic.md 8; the trap is named)."""

from collections.abc import Callable

from whence.core.clocks import cct
from whence.core.clocks.cct import Stamp, number_of
from whence.core.levels.optimistic.delivery import TwoLayerDelivery, in_causal_order
from whence.core.levels.optimistic.epoch import PublishingEpoch
from whence.core.levels.optimistic.handover import Handover
from whence.core.levels.optimistic.held import HeldBundle, HeldBundles
from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.levels.optimistic.publishers import Publishers
from whence.core.levels.optimistic.recovery import RecoveryBuffer
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.ready import Delivery, Gap, Mark, Ready
from whence.types import Bundle, Instant, Span


class TimersNeverEnd(TwoLayerDelivery):
    """Delivers when a timer fires, whatever became of the bundle meanwhile."""

    def tick(self, now: Instant, ready: Ready) -> None:
        timers = self._held.to_ask
        while timers and timers[0][0] <= now:
            _, _, held = timers.popleft()
            self._deliver(held.bundle, held.stamp, now - held.since, ready)

    def wake_at(self) -> Instant | None:
        timers = self._held.to_ask
        return timers[0][0] if timers else None


class DeliversTheObsolete(TwoLayerDelivery):
    """Reads "not delivered or obsolete" the other way round: delivers what came too late."""

    def _take_in(self, bundle: Bundle, ready: Ready) -> Stamp | None:
        stamp = cct.read(bundle.stamp, self._tickets, bundle.count)
        fresh = (stamp.ticket, stamp.entry) not in self._buffer._bundles
        taken = super()._take_in(bundle, ready)
        if taken is None and fresh:
            ready.deliver.append(Delivery(bundle, 0, Mark(ticket=stamp.ticket, epoch=stamp.epoch)))
        return taken


class LastOneAgain(TwoLayerDelivery):
    """Treats the event delivered last as still to come."""

    def _is_obsolete(self, stamp: Stamp) -> bool:
        return stamp.entry < self.clock[stamp.ticket]

    def _is_deliverable(self, stamp: Stamp) -> bool:
        return stamp.entry == self.clock[stamp.ticket] or super()._is_deliverable(stamp)


class OwnEventsWait(TwoLayerDelivery):
    """Does not deliver its own events when it creates them."""

    def _deliver(self, bundle: Bundle, stamp: Stamp, hold_ns: int, ready: Ready) -> None:
        super()._deliver(bundle, stamp, hold_ns, ready)
        if bundle.process == self._me:
            ready.deliver.pop()


class AdvancesOnlyOne(TwoLayerDelivery):
    """Moves its clock only at the publisher's ticket."""

    def _deliver(self, bundle: Bundle, stamp: Stamp, hold_ns: int, ready: Ready) -> None:
        clock = list(self.clock)
        super()._deliver(bundle, stamp, hold_ns, ready)
        clock[stamp.ticket] = stamp.entry
        self.clock[:] = clock


class OneEpochForAll(PublishingEpoch):
    """Publishes under epoch 1, whatever the ticket's epoch is."""

    def begin(self, ticket_epoch: TicketEpoch, base: int) -> None:
        super().begin(TicketEpoch(ticket_epoch.ticket, 1), 0)


class NumbersContinue(TwoLayerDelivery):
    """Continues where it believes the ticket's last owner stopped, without an epoch of its own."""

    epoch_type = OneEpochForAll


class NoHandover(Handover):
    """Requests nothing."""

    def begin(self, ticket_epoch: TicketEpoch, base: int, now: Instant, ready: Ready) -> None:
        pass


class LeavesThePast(TwoLayerDelivery):
    """Does not request what the ticket's former owner published last."""

    handover_type = NoHandover


class IgnoresEpochs(TwoLayerDelivery):
    """Compares numbers only, so that an old owner's events may follow a new one's."""

    def _is_obsolete(self, stamp: Stamp) -> bool:
        return number_of(stamp.entry) <= number_of(self.clock[stamp.ticket])

    def _is_deliverable(self, stamp: Stamp) -> bool:
        return number_of(self.clock[stamp.ticket]) == number_of(stamp.before)


class NeverSkips(TwoLayerDelivery):
    """Waits for ever for what was lost."""

    def _force(self, target: HeldBundle, now: Instant, ready: Ready) -> None:
        pass

    def _make_room(self, now: Instant, ready: Ready) -> None:
        pass


class SkipsTheHeld(TwoLayerDelivery):
    """Delivers a bundle whose time is over before the pending ones that it follows, and delivers these afterwards."""

    def _is_obsolete(self, stamp: Stamp) -> bool:
        return (stamp.ticket, stamp.entry) not in self._held.waiting and super()._is_obsolete(stamp)

    def _force(self, target: HeldBundle, now: Instant, ready: Ready) -> None:
        vector = target.stamp.vector
        before = [held for held in self._held.waiting.values() if held.stamp.entry <= vector[held.stamp.ticket]]
        for held in reversed(in_causal_order(before)):
            self._held.release((held.stamp.ticket, held.stamp.entry))
            self._deliver(held.bundle, held.stamp, 0, ready)


class HoldsEverything(TwoLayerDelivery):
    """Holds back as much as comes."""

    def _make_room(self, now: Instant, ready: Ready) -> None:
        pass


class KeepsEverything(RecoveryBuffer):
    """Never drops a bundle."""

    def keep(self, ticket: int, before: int, entry: int, bundle: Bundle) -> None:
        self._bundles[ticket, entry] = (before, bundle)


class BufferWithoutBound(TwoLayerDelivery):
    """Retains every bundle for others, for ever."""

    buffer_type = KeepsEverything


class ReportsTheDelivered(Publishers):
    """Reports a bundle as skipped that is being delivered."""

    held: HeldBundles

    def report_skipped(self, stamp: Stamp, clock: list[int], ready: Ready) -> None:
        super().report_skipped(stamp, clock, ready)
        known = self.of(stamp.ticket, stamp.epoch)
        if known is not None and number_of(stamp.before) and self.held.waiting:
            last = number_of(stamp.entry) + known.shift
            ready.deliver.append(Gap((Span(*known.process, last, last),)))


class TellsTooMuch(TwoLayerDelivery):
    """Reports an event as skipped and delivers it all the same."""

    publishers_type = ReportsTheDelivered

    def __init__(self, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self.publishers.held = self._held  # type: ignore[attr-defined]


def _order(kind: type[TwoLayerDelivery]) -> Callable[[OptimisticLevel], OptimisticLevel]:
    return lambda spec: spec._replace(delivery=kind)


_ORDER: tuple[tuple[str, str, str, type[TwoLayerDelivery]], ...] = (
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
    ("library_without_bound", "bounds", "C8: keeps every bundle for ever", BufferWithoutBound),
    ("tells_too_much", "optimistic_causal", "C12: reports as skipped what it delivers", TellsTooMuch),
)

BUGS = tuple((name, law, bug, _order(kind), ("optimistic",)) for name, law, bug, kind in _ORDER)
