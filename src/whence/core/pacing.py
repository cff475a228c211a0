"""When a publisher's bundles go out: the longer delivery takes, the fewer and larger they are.

Every member pays for every bundle, so where members are short of time, fewer bundles arrive sooner. Delivery time is
measured from when a bundle went out to the report that an application has taken it, less the time that this report was
delayed to be sent with others.

Law: a bundle is held back only if another went out less than a gap ago and nobody waits for it. The gap is as long as
delivery takes anyway, at most GAP_S_MAX, and there is none while delivery is quick. Events published together go out at
once, but not twice within ALONE_S.

Pure: times are passed in, in seconds.
"""

from collections import OrderedDict

QUICK_S = 0.005
"""Fewer bundles do not speed up delivery that takes no longer than this."""

GAP_S_MAX = 0.01

WEIGHT = 1 / 8
"""Of the newest measurement, in the moving average."""

REMEMBERED_MAX = 1024
"""Bundles whose times are retained. More: the oldest is not measured."""

ALONE_S = 0.001
"""The shortest time between two bundles that go out before their turn of the loop ends. What follows sooner is gathered
like single events: fewer, larger bundles cost every member less."""


class BundlePacer:
    """The pace of one publisher in one group."""

    def __init__(self, *, measures: bool = True) -> None:
        """`measures`: False where members hold events back on purpose; delivery time has no meaning there."""
        self.delivery_s = 0.0
        """How long delivery takes, including the way back of the report."""
        self.alone_at = 0.0
        """When something last went out before its turn of the loop ended, by the clock of the loop."""
        self._measures = measures
        self._sent: OrderedDict[int, float] = OrderedDict()
        """When each of the latest bundles went out, by its last event."""
        self._latest = 0.0

    def published(self, last: int, now: float) -> None:
        """Record a bundle that goes out."""
        if self._measures:
            self._sent[last] = self._latest = now
            if len(self._sent) > REMEMBERED_MAX:
                self._sent.popitem(last=False)

    def taken(self, last: int, waited_s: float, now: float) -> None:
        """Record that an application took a bundle, `waited_s` ago."""
        sent = self._sent.get(last)
        if sent is not None:
            self.delivery_s += WEIGHT * (max(0.0, now - waited_s - sent) - self.delivery_s)

    def gap_s(self, now: float) -> float:
        """Return how long the next bundle should be held back; 0 or less if it should not be."""
        if self.delivery_s <= QUICK_S:
            return 0.0
        return self._latest + min(GAP_S_MAX, self.delivery_s) - now

    def may_go_alone(self, turn_at: float) -> bool:
        """Tell whether something may go out before this turn of the loop ends; if so, record that it does."""
        if turn_at - self.alone_at < ALONE_S:
            return False
        self.alone_at = turn_at
        return True
