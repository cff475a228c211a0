"""A publisher's congestion window: how many bytes may be in transit to the mergers, and when to retransmit.

Law: what takes δ to arrive is late, so queues on the way must stay much shorter than that, however slow machines are
and however many publish. Nobody sees the queues; everybody sees how long an acknowledgement took.
The sentence that decides: an acknowledgement that took longer than a quarter of δ shrinks the window by a quarter; one
that took less than an eighth, while half of the window was used, lets it grow by a quarter. Once per round trip: what
was sent before a change says nothing about it.
While acknowledgements are slow, retransmissions wait longer too: more copies would only lengthen the queues.
Source: docs/papers/merge.md: merge 11.
"""

from whence.types import Instant

WINDOW_BYTES, WINDOW_BYTES_MIN, WINDOW_BYTES_MAX = 1 << 19, 1 << 16, 4 << 20
"""At the start, at least, at most. At the minimum, one bundle may still follow another, so that the window can grow."""

SLOW_PART, FAST_PART = 4, 8
"""Parts of δ: an acknowledgement is slow if it took longer than the first, fast if less than the second."""


class PublishWindow:
    """The window of one publisher. Whatever its state, acknowledgements bring it back to what fits."""

    __slots__ = ("_changed_at", "_delta_ns", "_usual_ns", "bytes_max")

    def __init__(self, delta_ns: int) -> None:
        self.bytes_max = WINDOW_BYTES
        self._delta_ns = delta_ns
        self._usual_ns = 0
        self._changed_at = 0

    def acknowledged(self, sent_at: Instant, now: Instant, used: int) -> None:
        """Learn that something sent at `sent_at` has arrived everywhere; `used` bytes were in transit until now."""
        took = max(0, now - sent_at)
        self._usual_ns += (min(took, self._delta_ns) - self._usual_ns) >> 3
        if self._changed_at > now:
            self._changed_at = now  # the wall clock was set back
        if sent_at < self._changed_at:
            return
        if took > self._delta_ns // SLOW_PART:
            self.bytes_max = max(WINDOW_BYTES_MIN, self.bytes_max * 3 // 4)
            self._changed_at = now
        elif took < self._delta_ns // FAST_PART and 2 * used > self.bytes_max:
            self.bytes_max = min(WINDOW_BYTES_MAX, self.bytes_max * 5 // 4)
            self._changed_at = now

    def resend_ns(self, least_ns: int) -> int:
        """Return how long to wait for an acknowledgement: twice the usual time, while a copy still arrives within δ."""
        return max(least_ns, min(2 * self._usual_ns, 2 * self._delta_ns // 3))
