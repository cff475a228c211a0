"""Wrong array engines: each breaks one law of PrCast or of its views. Comparing it with the event loop must show it."""

from collections.abc import Callable

import numpy as np

from whence.core.levels.gossip.level import Settings
from whence_lab.arrays.calendar import Ints, Shorts
from whence_lab.arrays.prcast import Broadcast, Engine
from whence_lab.arrays.views import FullViews, PartialViews


class PassesOnOnce(Engine):
    """Passes the bundle on in one round only."""

    def _grow_older(self, pids: Ints) -> None:
        self._age[pids] = self._gossip.rounds
        self._carrying -= pids.size


class KeepsStep(Engine):
    """All members have their rounds at the same time."""

    def _first_rounds(self) -> Ints:
        return np.full(self._total, self._gossip.round_ns // 2)

    def _lengths(self, count: int) -> Ints:
        return np.full(count, self._gossip.round_ns)


class HasFastLinks(Engine):
    """Every link takes the least that a link can take."""

    def _latencies(self, count: int) -> Ints:
        return np.full(count, self._broadcast.latency.low_ns)


class TakesTheGreatestAge(Engine):
    """A bundle that comes again with a greater age is as old as that."""

    def _take_bundle(self, times: Ints, targets: Ints, ages: Shorts, places: Ints, having: Ints) -> None:
        super()._take_bundle(times, targets, ages, places, having)
        pids, last = targets[having], self._gossip.rounds
        before = np.unique(pids[self._age[pids] < last]).size
        np.maximum.at(self._age, pids, ages[having])
        self._carrying -= before - np.unique(pids[self._age[pids] < last]).size


class EndsARoundEarly(Engine):
    """Passes the bundle on in one round less."""

    def _take_bundle(self, times: Ints, targets: Ints, ages: Shorts, places: Ints, having: Ints) -> None:
        older = np.where(ages == 0, 0, ages + 1).astype(np.int16)
        super()._take_bundle(times, targets, older, places, having)


class WritesTwice(Engine):
    """Draws its targets one by one, whoever was drawn before, itself too."""

    def __init__(self, broadcast: Broadcast, seed: int) -> None:
        super().__init__(broadcast, seed)
        self._views = _Careless(broadcast.nodes, self._rng)


class _Careless(FullViews):
    def targets(self, pids: Ints, fanout: int) -> Ints:
        drawn = self._rng.integers(0, self._nodes, (pids.size, fanout))
        return drawn + (pids - pids % self._nodes)[:, None]


class KnowsEverybody(Engine):
    """Keeps partial views fresh, and writes to anybody."""

    def __init__(self, broadcast: Broadcast, seed: int) -> None:
        super().__init__(broadcast, seed)
        self._views = FullViews(broadcast.nodes, self._rng)


class _WithViews(Engine):
    views: type[PartialViews]

    def _partial_views(self, settings: Settings) -> PartialViews:
        broadcast = self._broadcast
        return self.views(broadcast.nodes, broadcast.groups, settings.gossip, settings.views, self._rng)


class _Frozen(PartialViews):
    def meet(self, pids: Ints, senders: Ints) -> None:
        pass

    def learn(self, pids: Ints, told: Ints) -> None:
        pass


class NeverLearns(_WithViews):
    """Its views stay as they were founded."""

    views = _Frozen


class _Welcoming(PartialViews):
    def _places(self, count: int) -> Ints:
        return self._rng.integers(0, self._settings.view_size, count)


class WelcomesEveryNewcomer(_WithViews):
    """A newcomer always finds a place in a full view."""

    views = _Welcoming


class _Forgetful(PartialViews):
    def founding_news(self, senders: Ints) -> Ints:
        return super().founding_news(senders)[:, self._settings.view_size // 2 :]


class TellsHalf(_WithViews):
    """Passes on only half of its founding peers."""

    views = _Forgetful


class _Talkative(PartialViews):
    def meet(self, pids: Ints, senders: Ints) -> None:
        super().meet(pids, senders)
        self._changed[pids] = True


class AlwaysHasNews(_WithViews):
    """Takes an announcement that it knows for news, and speaks in its next round."""

    views = _Talkative


WRONG_WITH_FULL_VIEWS: tuple[Callable[[Broadcast, int], Engine], ...] = (
    PassesOnOnce, KeepsStep, HasFastLinks, TakesTheGreatestAge, EndsARoundEarly, WritesTwice,
)  # fmt: skip
WRONG_WITH_PARTIAL_VIEWS: tuple[Callable[[Broadcast, int], Engine], ...] = (
    PassesOnOnce, EndsARoundEarly, KnowsEverybody, NeverLearns, WelcomesEveryNewcomer, TellsHalf, AlwaysHasNews,
)  # fmt: skip
