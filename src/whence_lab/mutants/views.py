"""Bugs in the views: ghosts, strangers, oneself, too many, and a group that stays split."""

from collections.abc import Callable

from whence.core.levels.gossip.level import GossipLevel
from whence.core.membership.news import Known
from whence.core.membership.partial_view import PartialView
from whence.core.ready import Ready
from whence.types import Instant


class NeverForgetsTheDead(PartialView):
    """Keeps a peer in the view, whatever is reported about it."""

    def unreachable(self, peer: int) -> None:
        pass


class KnowsItself(PartialView):
    """Treats its own announcement as that of another peer."""

    def _learn(self, pid: int, incarnation: int, rounds: int) -> None:
        if pid == self.me.pid and pid not in self._view:
            self._peers.append(pid)
            self._view[pid] = Known(incarnation, self._news.round + rounds)
        super()._learn(pid, incarnation, rounds)


class ViewWithoutBound(PartialView):
    """Remembers everybody."""

    def _shorten(self) -> None:
        pass


class StaysSplit(PartialView):
    """Never looks for peers it lost."""

    def _ask(self, candidates: list[int], ready: Ready) -> None:
        pass


class AsksOnce(PartialView):
    """Asks one contact to be let in, and waits."""

    def tick(self, now: Instant, ready: Ready) -> None:
        self._search.retry_at = None


class AlwaysTheSameTargets(PartialView):
    """Draws the same peers in every round."""

    def targets(self, count: int) -> tuple[int, ...]:
        return tuple(sorted(self._peers)[:count])


def _plant(kind: type[PartialView]) -> Callable[[GossipLevel], GossipLevel]:
    return lambda parts: parts._replace(partial=kind)


BUGS = (
    ("never_forgets_the_dead", "views", "keeps dead peers in the view", _plant(NeverForgetsTheDead)),
    ("knows_itself", "views", "has itself in its view", _plant(KnowsItself)),
    ("view_without_bound", "bounds", "remembers everybody", _plant(ViewWithoutBound)),
    ("stays_split", "agreement", "never looks for peers it lost", _plant(StaysSplit)),
    ("asks_once", "views", "asks one contact to be let in, and waits for ever", _plant(AsksOnce)),
    ("always_the_same_targets", "agreement", "draws the same peers in every round", _plant(AlwaysTheSameTargets)),
)
