"""Bugs in what is counted as taken, where a later incarnation continues from there."""

from collections.abc import Callable

from msgspec.structs import replace

from whence.core.levels.causal.level import CausalLevel
from whence.core.offsets import Delivered, Offsets
from whence.types import Bundle


class CountsBundles(Offsets):
    """Counts a bundle as taken when its first event is handed out."""

    def hand(self, bundle: Bundle, events: int) -> None:
        first = self._entries[0] if self._entries else None
        if first is not None and (first.bundle.process, first.bundle.last) == (bundle.process, bundle.last):
            super().take(first.bundle.count - first.taken)

    def take(self, events: int) -> None:
        pass

    def step(self) -> None:
        pass


class SkipsBegunBundles(Offsets):
    """Leaves out the rest of a bundle if an earlier incarnation had taken some of it."""

    def deliver(self, bundle: Bundle) -> Delivered:
        delivered = super().deliver(bundle)
        if 0 < delivered.have < bundle.count:
            self.take(bundle.count - delivered.have)
            return replace(delivered, have=bundle.count, again=0, left=0)
        return delivered


class BeginsBundlesAgain(Offsets):
    """Hands out a bundle from its first event on, whatever an earlier incarnation had taken of it."""

    def deliver(self, bundle: Bundle) -> Delivered:
        delivered = super().deliver(bundle)
        if 0 < delivered.have < bundle.count:
            self._entries[-1].taken = 0
            return replace(delivered, have=0, left=bundle.count)
        return delivered


class ForgetsWhatWasTaken(Offsets):
    """Hands out again everything that a member delivers again after a crash (E14)."""

    def resume(self, taken: int = 0, reported: int = 0) -> None:
        super().resume(taken, reported)
        self._skip = 0


def _offsets(kind: type[Offsets]) -> Callable[[CausalLevel], CausalLevel]:
    return lambda spec: spec._replace(offsets=kind)


_BUGS: tuple[tuple[str, str, str, Callable[[CausalLevel], CausalLevel]], ...] = (
    ("counts_bundles", "agreement", "counts a bundle as taken when its first event is", _offsets(CountsBundles)),
    ("skips_begun_bundles", "agreement", "leaves out the rest of a bundle after a crash", _offsets(SkipsBegunBundles)),
    ("begins_bundles_again", "no_duplicates", "begins a bundle again after a crash", _offsets(BeginsBundlesAgain)),
    ("delivers_again", "no_duplicates", "hands over everything again after a crash", _offsets(ForgetsWhatWasTaken)),
)  # fmt: skip

BUGS = tuple((*bug, ("causal",)) for bug in _BUGS)
