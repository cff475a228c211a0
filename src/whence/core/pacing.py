"""When a publisher's bundles go out: the longer delivery takes, the fewer and larger they are.

Every member pays for every bundle, so where members are short of time, fewer bundles arrive sooner. Delivery is
measured: from when a bundle went out to word that an application has taken it, less what that word waited for company.

Law: a bundle is held back only where another went out less than a gap ago and nobody waits for it; the gap is as long
as delivery takes anyway, at most GAP_S_MAX, and there is none while delivery is quick. What is published together goes
out at once, but not twice within ALONE_S.

Pure: times are handed in, in seconds.
"""

from collections import OrderedDict

QUICK_S = 0.005
"""Delivery that takes no longer is not made quicker by fewer bundles."""

GAP_S_MAX = 0.01

WEIGHT = 1 / 8
"""Of the newest measurement."""

REMEMBERED_MAX = 1024
"""Bundles whose times are kept. More: the oldest is not measured."""

ALONE_S = 0.001
"""So often something may go out before the turn of the loop ends. What follows sooner is gathered like single events:
fewer, larger bundles cost every member less."""


class BundlePacer:
    """The pace of one publisher in one group."""

    def __init__(self, *, measures: bool = True) -> None:
        """`measures`: not where members hold events on purpose; how long delivery takes says nothing there."""
        self.delivery_s = 0.0
        """How long delivery takes, the way back of its word included."""
        self.alone_at = 0.0
        """When something last went out before its turn ended, by the clock of the loop."""
        self._measures = measures
        self._sent: OrderedDict[int, float] = OrderedDict()
        """When each of the latest bundles went out, by its last event."""
        self._latest = 0.0

    def published(self, last: int, now: float) -> None:
        """Take note of a bundle that goes out."""
        if self._measures:
            self._sent[last] = self._latest = now
            if len(self._sent) > REMEMBERED_MAX:
                self._sent.popitem(last=False)

    def taken(self, last: int, waited_s: float, now: float) -> None:
        """Learn that an application took a bundle, some time ago."""
        sent = self._sent.get(last)
        if sent is not None:
            self.delivery_s += WEIGHT * (max(0.0, now - waited_s - sent) - self.delivery_s)

    def gap_s(self, now: float) -> float:
        """Return how long the next bundle should be held back; nothing, or less, if it should not be."""
        if self.delivery_s <= QUICK_S:
            return 0.0
        return self._latest + min(GAP_S_MAX, self.delivery_s) - now

    def may_go_alone(self, turn_at: float) -> bool:
        """Tell whether something may go out before this turn of the loop ends, and take note that it does."""
        if turn_at - self.alone_at < ALONE_S:
            return False
        self.alone_at = turn_at
        return True
