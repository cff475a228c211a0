"""How much a publisher may have on its way to the mergers, and how long it waits before it sends something again.

The law: what takes δ to arrive is late, so queues on the way must stay much shorter than that, however slow machines
are and however many publish. Nobody sees the queues; everybody sees how long an acknowledgement took.
The sentence that decides: longer than a quarter of δ, and the window shrinks by a quarter; shorter than an eighth while
half of it was used, and it grows by as much. Once per round trip: what was sent before a change tells nothing of it.
While acknowledgements are slow, copies wait for longer too: more of them would only lengthen the queues.
"""

from whence.types import Instant

WINDOW_BYTES, WINDOW_BYTES_MIN, WINDOW_BYTES_MAX = 1 << 19, 1 << 16, 4 << 20
"""At the start, at least, at most. The least lets one bundle go after another, so that a window can grow again."""

SLOW_PART, FAST_PART = 4, 8
"""Of δ: an acknowledgement that took longer than one such part is slow, one that took less than the other is fast."""


class Pace:
    """The window of one publisher. Whatever its state, acknowledgements bring it back to what fits."""

    __slots__ = ("_changed_at", "_delta_ns", "_usual_ns", "window")

    def __init__(self, delta_ns: int) -> None:
        self.window = WINDOW_BYTES
        self._delta_ns = delta_ns
        self._usual_ns = 0
        self._changed_at = 0

    def acknowledged(self, sent_at: Instant, now: Instant, used: int) -> None:
        """Learn that something sent then has arrived everywhere now; so many bytes were on their way until now."""
        took = max(0, now - sent_at)
        self._usual_ns += (min(took, self._delta_ns) - self._usual_ns) >> 3
        if self._changed_at > now:
            self._changed_at = now  # the wall clock was set back
        if sent_at < self._changed_at:
            return
        if took > self._delta_ns // SLOW_PART:
            self.window = max(WINDOW_BYTES_MIN, self.window * 3 // 4)
            self._changed_at = now
        elif took < self._delta_ns // FAST_PART and 2 * used > self.window:
            self.window = min(WINDOW_BYTES_MAX, self.window * 5 // 4)
            self._changed_at = now

    def resend_ns(self, least_ns: int) -> int:
        """Return how long to wait for an acknowledgement: twice the usual time, while a copy still comes within δ."""
        return max(least_ns, min(2 * self._usual_ns, 2 * self._delta_ns // 3))
