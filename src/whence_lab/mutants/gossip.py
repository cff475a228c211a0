"""Bugs in PrCast: it stops too early, never stops, or prefers the wrong bundles."""

from collections.abc import Callable

from whence.core.dissemination.direct import DirectSpread, SenderHistory
from whence.core.dissemination.gossip import Carried, PrCast, name_of
from whence.core.levels.gossip.level import GossipLevel
from whence.core.ready import Ready
from whence.types import Bundle


class InfectsAndDies(PrCast):
    """Passes a bundle on in one round only."""

    def _age(self) -> None:
        self._carried.clear()


class NeverAges(PrCast):
    """Passes a bundle on for ever."""

    def _age(self) -> None:
        pass


class SendsOldestFirst(PrCast):
    """Fills a message with what most members know already."""

    def _youngest(self) -> list[Carried]:
        oldest_first = sorted(self._carried.values(), key=lambda carried: -carried.age)
        return oldest_first[: self._settings.gossip_bundles]


class DropsTheYoungest(PrCast):
    """Makes room by dropping what few members know."""

    def _carry(self, bundle: Bundle, age: int, ready: Ready) -> None:
        super()._carry(bundle, age, ready)
        key = name_of(bundle)
        if len(self._carried) == self._settings.buffer_bundles and key in self._carried:
            del self._carried[key]


class CarriesWithoutBound(PrCast):
    """Never drops a bundle before its time."""

    def _trim(self, ready: Ready) -> None:
        pass


class PassesOnOnlyItsOwn(PrCast):
    """Leaves the spreading of a bundle to its publisher."""

    def _carry(self, bundle: Bundle, age: int, ready: Ready) -> None:
        super()._carry(bundle, age, ready)
        if age:
            self._carried.pop(name_of(bundle), None)


class NeverMends(DirectSpread):
    """Trusts links: never requests what one of them lost."""

    def _is_stuck(self, history: SenderHistory, missing: int) -> bool:
        return False


def _plant(kind: type[PrCast]) -> Callable[[GossipLevel], GossipLevel]:
    return lambda parts: parts._replace(spread=kind)


def _never_mends(parts: GossipLevel) -> GossipLevel:
    return parts._replace(direct=NeverMends)


BUGS = (
    ("infects_and_dies", "agreement", "passes a bundle on in one round only", _plant(InfectsAndDies)),
    ("never_ages", "bounds", "passes a bundle on for ever", _plant(NeverAges)),
    ("sends_oldest_first", "agreement", "prefers what most members know already", _plant(SendsOldestFirst)),
    ("drops_the_youngest", "agreement", "makes room by dropping what few members know", _plant(DropsTheYoungest)),
    ("carries_without_bound", "bounds", "never drops a bundle before its time", _plant(CarriesWithoutBound)),
    ("passes_on_only_its_own", "agreement", "leaves the spreading to the publisher", _plant(PassesOnOnlyItsOwn)),
    ("never_mends", "agreement", "spreads directly, and asks for nothing that a link lost", _never_mends),
)
