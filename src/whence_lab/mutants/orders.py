"""Bugs in the orders: duplicates, inversions, silent gaps, endless waits, unbounded memory."""

from collections.abc import Callable

from whence.core.dissemination.seen import Seen
from whence.core.levels.gossip.arrival import Arrival
from whence.core.levels.gossip.fifo import Fifo
from whence.core.levels.gossip.level import GossipLevel, Settings
from whence.core.ready import Delivery, Gap, Ready
from whence.core.stages import Order
from whence.limits import Limits
from whence.sim.canary import DeliversOnArrival
from whence.types import Bundle, Instant, Process


class ForgetsWhatItSaw(Arrival):
    """Trusts the spread to bring every bundle once."""

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        ready.deliver.append(Delivery(bundle))


class EveryHole(Seen):
    """Never closes a hole."""

    def add(self, first: int, last: int, runs_max: int) -> bool:
        return super().add(first, last, 1 << 30)


class KeepsEveryHole(Arrival):
    """Remembers every hole in what it saw, for ever."""

    def __init__(self, me: Process, limits: Limits) -> None:
        super().__init__(me, limits)
        self._senders._fresh = EveryHole


class SkipsSilently(Fifo):
    """Does not report what it skips."""

    def tick(self, now: Instant, ready: Ready) -> None:
        super().tick(now, ready)
        ready.deliver = [step for step in ready.deliver if not isinstance(step, Gap)]


class NeverGivesUp(Fifo):
    """Waits for ever for what was lost."""

    def tick(self, now: Instant, ready: Ready) -> None:
        while self._waiting and self._waiting[0][0] <= now:
            self._waiting.popleft()


class DeliversWhatItSkipped(Fifo):
    """Hands over an event that arrives after it was given up."""

    def __init__(self, me: Process, limits: Limits, hold_ns: int) -> None:
        super().__init__(me, limits, hold_ns)
        self._skipped: dict[tuple[int, int, int], None] = {}

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        if (bundle.pid, bundle.incarnation, bundle.first) in self._skipped:
            ready.deliver.append(Delivery(bundle))
        else:
            super().admit(bundle, now, ready)

    def tick(self, now: Instant, ready: Ready) -> None:
        super().tick(now, ready)
        for step in ready.deliver:
            if isinstance(step, Gap):
                for span in step.spans:
                    for seq in range(span.first, span.last + 1):
                        self._skipped[span.pid, span.incarnation, seq] = None


class MixesLives(Fifo):
    """Treats a restarted sender as its earlier incarnation."""

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        earlier = [self._senders.states.get((bundle.pid, incarnation)) for incarnation in range(1, bundle.incarnation)]
        if all(progress is None or bundle.last >= progress.expected for progress in earlier):
            super().admit(bundle, now, ready)


class CountsBundles(Fifo):
    """Expects the number after a bundle's first event instead of after its last."""

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        super().admit(bundle, now, ready)
        progress = self._senders.states.get((bundle.pid, bundle.incarnation))
        if progress is not None and progress.expected == bundle.last + 1:
            progress.expected = bundle.first + 1


class ForgetsItsOwn(Fifo):
    """Does not remember what it published itself."""

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        ready.deliver.append(Delivery(bundle))


class HoldsWithoutBound(Fifo):
    """Holds back as much as comes."""

    def _overfull(self) -> bool:
        return False


class FailsAtAHole(Fifo):
    """Looks for what should have come before, where there may be nothing."""

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        super().admit(bundle, now, ready)
        if self._waiting:
            raise KeyError((bundle.pid, bundle.incarnation, bundle.first - 1))


def _arrival(kind: type[Arrival]) -> Callable[[GossipLevel], GossipLevel]:
    return lambda parts: parts._replace(order=lambda me, settings: kind(me, settings.limits))


def _fifo(kind: type[Fifo]) -> Callable[[GossipLevel], GossipLevel]:
    def order(me: Process, settings: Settings) -> Order:
        return kind(me, settings.limits, settings.fifo.hold_rounds * settings.gossip.round_ns)

    return lambda parts: parts._replace(order=order)


_EVENTUAL, _FIFO = ("eventual",), ("fifo",)

BUGS = (
    ("forgets_what_it_saw", "no_duplicates", "delivers whatever comes", _arrival(ForgetsWhatItSaw), _EVENTUAL),
    ("keeps_every_hole", "bounds", "remembers every hole in what it saw", _arrival(KeepsEveryHole), _EVENTUAL),
    ("delivers_on_arrival", "fifo", "delivers what comes first", _fifo(DeliversOnArrival), _FIFO),
    ("skips_silently", "fifo", "does not report what it skips", _fifo(SkipsSilently), _FIFO),
    ("never_gives_up", "agreement", "waits for ever for what was lost", _fifo(NeverGivesUp), _FIFO),
    ("delivers_what_it_skipped", "fifo", "delivers what it gave up", _fifo(DeliversWhatItSkipped), _FIFO),
    ("mixes_lives", "agreement", "takes a restarted sender for the one it was", _fifo(MixesLives), _FIFO),
    ("counts_bundles", "liveness", "expects one event per bundle", _fifo(CountsBundles), _FIFO),
    ("forgets_its_own", "no_duplicates", "does not remember what it published", _fifo(ForgetsItsOwn), _FIFO),
    ("fails_at_a_hole", "crash", "fails where an event is missing", _fifo(FailsAtAHole), _FIFO),
    ("holds_without_bound", "bounds", "holds as much as comes", _fifo(HoldsWithoutBound), _FIFO),
)
