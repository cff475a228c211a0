"""What a merger released, retained for followers that join or fall behind.

Law: nothing above the log's floor that this merger released is missing from it, and its keys never decrease. A bundle
without events says that its publisher paused there; it is released in no other sense. A position
numbers what this incarnation of this merger released and means nothing at another merger. A key means the same
everywhere.
Bounded by bundles, bytes and time; what is cut off raises the floor.
Source: docs/papers/merge.md: merge 5.
"""

from bisect import bisect_right

from whence.core.clocks.stamp import FIRST_KEY, MergeKey
from whence.core.levels.total.items import STREAM_BUNDLES_MAX, STREAM_BYTES_MAX, Closed
from whence.core.levels.total.merge_buffer import BUNDLE, SIZE, TOPIC, Entry, key_of
from whence.core.ready import Gauge
from whence.types import Bundle


class ReleaseLog:
    """What was released, by position and by key."""

    def __init__(self, bundles_max: int, bytes_max: int, start: int) -> None:
        self.floor: MergeKey = FIRST_KEY
        """Nothing above this key that this merger took is missing."""
        self.start = start
        """The position of the first entry."""
        self._bundles_max = bundles_max
        self._bytes_max = bytes_max
        self._entries: list[Entry] = []
        self._ticks: list[int] = []
        self._bytes = 0

    @property
    def end(self) -> int:
        """Return the position after the last entry."""
        return self.start + len(self._entries)

    def append(self, released: list[Entry], rt: int) -> None:
        """Append what was just released."""
        self._entries += released
        self._ticks += [rt] * len(released)
        self._bytes += sum([entry[SIZE] for entry in released])
        over = len(self._entries) - self._bundles_max
        if over > 0 or self._bytes > self._bytes_max:
            self._cut(self._surplus(max(over, 0)))

    def _surplus(self, over: int) -> int:
        held = self._bytes - sum([entry[SIZE] for entry in self._entries[:over]])
        while held > self._bytes_max:
            held -= self._entries[over][SIZE]
            over += 1
        return over

    def trim(self, before: int) -> None:
        """Drop what was released before a tick."""
        gone = bisect_right(self._ticks, before - 1)
        if gone:
            self._cut(gone)

    def _cut(self, count: int) -> None:
        gone = self._entries[:count]
        self.floor = max(self.floor, key_of(gone[-1]))
        self._bytes -= sum([entry[SIZE] for entry in gone])
        del self._entries[:count], self._ticks[:count]
        self.start += count

    def after(self, key: MergeKey) -> int:
        """Return the position of the first entry with a larger key."""
        return self.start + bisect_right(self._entries, key, key=key_of)

    def piece(self, position: int, end: int, topics: int) -> tuple[int, list[Bundle], tuple[Closed, ...]]:
        """Return the next bundles of these topics between two positions, and the position after them; and where
        publishers paused meanwhile."""
        bundles: list[Bundle] = []
        closed: list[Closed] = []
        size = 0
        at = position - self.start
        for entry in self._entries[at : end - self.start]:
            if topics >> entry[TOPIC] & 1:
                bundle = entry[BUNDLE]
                if not bundle.sizes:
                    if len(closed) == STREAM_BUNDLES_MAX:
                        break
                    closed.append(Closed(bundle.pid, bundle.incarnation, bundle.first, bundle.stamp))
                    at += 1
                    continue
                size += len(bundle.body) + len(bundle.sizes) + len(bundle.stamp)
                if bundles and (len(bundles) == STREAM_BUNDLES_MAX or size > STREAM_BYTES_MAX):
                    break
                bundles.append(bundle)
            at += 1
        return self.start + at, bundles, tuple(closed)

    def gauges(self) -> list[Gauge]:
        """Return how much is retained."""
        return [
            Gauge("log_bundles", len(self._entries), self._bundles_max),
            Gauge("log_bytes", self._bytes, self._bytes_max),
        ]
