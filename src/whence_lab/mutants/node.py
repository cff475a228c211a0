"""Bugs in the member itself: identities that repeat."""

from collections.abc import Callable, Sequence

from whence.core.levels.gossip.level import GossipLevel
from whence.core.ready import Ready
from whence.core.staged import StagedMember
from whence.types import Bundle, Instant, Process


class NumbersBundles(StagedMember):
    """Counts a bundle as one event, so that its later events share their numbers with the next bundle."""

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        before = self._published
        bundle, ready = super().publish(payloads, now)
        self._published = before + 1
        return bundle, ready


class SameLifeAgain(StagedMember):
    """Publishes under its first incarnation after a restart."""

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        me, self.me = self.me, Process(self.me.pid, 1)
        try:
            return super().publish(payloads, now)
        finally:
            self.me = me


def _plant(kind: type[StagedMember]) -> Callable[[GossipLevel], GossipLevel]:
    return lambda parts: parts._replace(member=kind)


BUGS = (
    ("numbers_bundles", "integrity", "counts a bundle as one event", _plant(NumbersBundles)),
    ("same_life_again", "integrity", "publishes under its first life's name after a restart", _plant(SameLifeAgain)),
)
