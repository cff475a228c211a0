"""Bugs in the rivals: what each of them must do to keep what it promises, left out.

CBCAST and Causal Barriers have none: on a tree with ordered links, messages come in causal order whatever they do.
"""

from collections.abc import Callable
from typing import Any

from whence.core.ready import Ready
from whence.types import Bundle, Instant
from whence_lab.rivals.gossip_trees import Missing, Name
from whence_lab.rivals.gryphon import Gryphon
from whence_lab.rivals.gryphon_items import GryphonData
from whence_lab.rivals.gryphon_stream import Knowledge
from whence_lab.rivals.level import RivalLevel
from whence_lab.rivals.neighbourhood import Entry, Neighbourhood
from whence_lab.rivals.plumtree import Plumtree
from whence_lab.rivals.scribe import Scribe
from whence_lab.rivals.thicket import Thicket
from whence_lab.rivals.vcube import VCube


class ForgetsForwarders(Neighbourhood):
    """Does not remember the numbers of forwarders."""

    def _learn(self, path: list[Entry]) -> None:
        pass


class SendsWithoutWaiting(Neighbourhood):
    """Does not wait for acknowledgements: a message may overtake another of its publisher."""

    def _send_next(self, ready: Ready, now: Instant) -> None:
        while self._queue:
            group, bundle = self._queue.popleft()
            self._pass_on(group, bundle, [], -1, (), ready, now)


class IgnoresBarriers(VCube):
    """Delivers on arrival."""

    def _falls(self, held: tuple[int, list[tuple[int, int]], Bundle]) -> bool:
        return True


class StaysAnOrphan(Scribe):
    """Does not look for another parent when the parent is gone."""

    def _gone(self, peer: int, now: Instant, ready: Ready) -> None:
        parents = {group: topic.parent for group, topic in self._topics.items()}
        for topic in self._topics.values():
            topic.parent = None if topic.parent == peer else topic.parent
        super()._gone(peer, now, ready)
        for group, parent in parents.items():
            self._topics[group].parent = parent


class NeverCurious(Gryphon):
    """Asks for nothing that it misses."""

    def _ask(self, stream: Knowledge, gaps: Any, ready: Ready) -> None:
        pass


class TakesGapsForSilence(Gryphon):
    """Believes that nothing was at ticks of which it heard nothing."""

    def _learn(self, peer: int, stream: Knowledge, data: GryphonData, ready: Ready) -> None:
        stream.silence(range(max(1, data.tick - 8), data.tick), deep=False)
        super()._learn(peer, stream, data, ready)


class NeverGrafts(Plumtree):
    """Does not ask for messages that it knows only by name."""

    def _due(self, now: Instant, ready: Ready) -> None:
        self._missing.clear()


class AsksNobody(Thicket):
    """Does not graft: who is left out of a tree stays out."""

    def _ask(self, name: Name, missing: Missing, peer: int, ready: Ready) -> None:
        pass


def _limited(member: Callable[..., Any]) -> Callable[[RivalLevel], RivalLevel]:
    return lambda spec: spec._replace(make=lambda me, place, it, _: member(me, place, it.limits))


def _set(member: Callable[..., Any]) -> Callable[[RivalLevel], RivalLevel]:
    return lambda spec: spec._replace(make=lambda me, place, it, _: member(me, place, it))


def _drawn(member: Callable[..., Any]) -> Callable[[RivalLevel], RivalLevel]:
    return lambda spec: spec._replace(make=member)


BUGS = (
    ("forgets_forwarders", "no_duplicates", ForgetsForwarders.__doc__, _limited(ForgetsForwarders), ("neighbourhood",)),
    ("sends_without_waiting", "fifo", SendsWithoutWaiting.__doc__, _limited(SendsWithoutWaiting), ("neighbourhood",)),
    ("ignores_barriers", "causal", IgnoresBarriers.__doc__, _limited(IgnoresBarriers), ("vcube",)),
    ("stays_an_orphan", "agreement", StaysAnOrphan.__doc__, _set(StaysAnOrphan), ("scribe",)),
    ("never_curious", "agreement", NeverCurious.__doc__, _set(NeverCurious), ("gryphon",)),
    ("takes_gaps_for_silence", "fifo", TakesGapsForSilence.__doc__, _set(TakesGapsForSilence), ("gryphon",)),
    ("never_grafts", "agreement", NeverGrafts.__doc__, _drawn(NeverGrafts), ("plumtree",)),
    ("asks_nobody", "agreement", AsksNobody.__doc__, _drawn(AsksNobody), ("thicket",)),
)
"""Name, promise, what is wrong, how to plant it, and the levels that can have it."""
