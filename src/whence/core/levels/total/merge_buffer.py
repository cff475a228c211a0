"""The buffer of a merger: it puts everything that arrives into the one order of its keys, and releases it when safe.

Law: keys are released in increasing order, each once, and none at or below the last one. So any two mergers release
what both have in the same order, and with `hlc` stamps never an effect before its cause, whatever clocks and delays do.
What arrives after its place has passed is late: it is delivered beside the stream, never in it.
Assumed, for nothing to be late: clocks within ε−1 ticks of each other, arrival within δ ticks.
The sentence that decides: a bundle is released once the clock has reached l + δ + ε. Not only exactly then: a clock
that jumps would strand it. Nothing waits longer than δ + 2ε − 1 ticks.
Two faster rules give the same order. `tight` releases once the clock is past l + δ, and needs arrival within δ of the
receiver's own clock. `frontier` also releases what every live publisher has passed (frontier.py).
Cost per bundle: a push and a pop of a heap, a lookup among the keys seen, and an entry that says when to forget it.
Source: docs/papers/merge.md: merge 5 and merge 6; K section 4.
"""

from collections import deque
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Final, Literal, TypeAlias

from whence.core.clocks.stamp import FIRST_KEY, REST_BITS, MergeKey, Timing, key_below, last_key_of, low_key, tick_of
from whence.core.levels.total.frontier import Frontier
from whence.core.ready import Gauge
from whence.limits import MergeLimits
from whence.types import Bundle, Instant

ReleaseRule: TypeAlias = Literal["paper", "tight", "frontier"]

MEMORY_FACTOR = 2
"""Released bundles are remembered for this many times δ + ε; an older copy is dropped as stale."""

Entry: TypeAlias = tuple[int, int, int, Instant, int, int, Bundle]
"""A bundle in its place: k_hi, k_mid, k_lo, when it arrived, its topic, its payload bytes, the bundle.

A plain tuple with the key first, so that entries compare by key at the lowest cost; keys are unique.
"""

ARRIVED: Final = 3
TOPIC: Final = 4
SIZE: Final = 5
BUNDLE: Final = 6
"""Indexes of what comes after the key in an entry."""


def entry_of(key: MergeKey, arrived: Instant, topic: int, bundle: Bundle) -> Entry:
    """Return the entry of a bundle."""
    return (*key, arrived, topic, len(bundle.body), bundle)


def key_of(entry: Entry) -> MergeKey:
    """Return an entry's place in the order."""
    return entry[:3]


class Fate(Enum):
    """What becomes of a bundle that arrives."""

    BUFFERED = "buffered"
    DUPLICATE = "duplicate"
    LATE = "late"
    """Its place has passed."""
    STALE = "stale"
    """Too old to tell whether it is late or was already released."""


class MergeBuffer:
    """Holds bundles by key and releases them in order. `rt` is the clock in ticks and never decreases."""

    def __init__(self, timing: Timing, limits: MergeLimits, rule: ReleaseRule = "paper") -> None:
        self.last: MergeKey = FIRST_KEY
        """The last key released."""
        self.position = 0
        """The number of bundles released: a place in this merger's stream, not comparable with another's."""
        self.early = 0
        """Bundles released before their time, because the buffer was full."""
        self.purged = 0
        """Entries removed because they were corrupt."""
        self._timing = timing
        self._limits = limits
        self._rule = rule
        self._origin = timing.origin
        self._wait_ticks = self._wait()
        self._scan_ticks = timing.delta + 2 * timing.epsilon
        self._repair_over = timing.lead_max + timing.stall_max
        self._heap: list[Entry] = []
        self._bytes = 0
        self._memory_ticks = MEMORY_FACTOR * (timing.delta + timing.epsilon)
        self._seen: set[int] = set()
        """k_lo of every bundle that is pending, was released or was late."""
        self._fading: deque[tuple[int, int, list[int]]] = deque()
        """What left the heap, by the tick at which it is forgotten: (tick, the last k_hi, every k_lo)."""
        self._remembered = 0
        self._stale_up_to = -1
        """Nothing with an l up to here is accepted: copies of it may have been released and forgotten."""
        self.frontier = Frontier(self._wait_ticks) if rule == "frontier" else None
        """The progress of every publisher, where the rule needs it."""
        self._stale_at = self._due_at = -1
        """The ticks of the two bounds below: they change once a tick, and every input needs them."""
        self._stale_below = 0
        """Nothing with a k_hi below this is accepted."""
        self._due_below = 0
        """Everything with a k_hi below this is due."""
        self._scan_at = self._tidy_at = 0

    def __len__(self) -> int:
        return len(self._heap)

    def has(self, bundle: Bundle) -> bool:
        """Tell whether a bundle is pending here, or was released or late not long ago."""
        return low_key(bundle.pid, bundle.incarnation, bundle.first) in self._seen

    # --- arrival ---

    def arrive(self, rt: int, entry: Entry) -> Fate:
        """Take a bundle with a valid stamp; return what becomes of it."""
        k_hi, k_lo, seen = entry[0], entry[2], self._seen
        if k_lo in seen:
            return Fate.DUPLICATE
        if rt != self._stale_at:
            self._stale_at = rt
            self._stale_below = key_below(max(rt - self._memory_ticks, self._stale_up_to + 1), self._origin)
        if k_hi <= self.last[0] or k_hi < self._stale_below:
            if k_hi < self._stale_below:
                return Fate.STALE
            if entry[:3] <= self.last:
                seen.add(k_lo)
                self._fade(rt, k_hi, [k_lo])
                return Fate.LATE
        seen.add(k_lo)
        heappush(self._heap, entry)
        self._bytes += entry[SIZE]
        return Fate.BUFFERED

    # --- release ---

    def release(self, rt: int) -> list[Entry]:
        """Return everything whose time has come, in order."""
        heap = self._heap
        out: list[Entry] = []
        if heap:
            if rt != self._due_at:
                self._due_at = rt
                self._due_below = key_below(rt - self._wait_ticks + 1, self._origin)
            below = self._due_below
            while heap and heap[0][0] < below:
                out.append(heappop(heap))
            if self.frontier is not None and heap:
                reached = self.frontier.reached(rt)
                while heap and heap[0][:3] <= reached:
                    out.append(heappop(heap))
        if self._bytes > self._limits.buffer_bytes_max or len(heap) > self._limits.buffer_bundles_max:
            self._make_room(out)
        if out:
            out = self._leave(rt, out)
        fading = self._fading
        if fading and (fading[0][0] <= rt or self._remembered > self._limits.remembered_max):
            self._forget(rt)
        return out

    def is_due(self, rt: int, key: MergeKey) -> bool:
        """Tell whether everything up to a key has been released, because its time has come."""
        return key[0] < key_below(rt - self._wait_ticks + 1, self._origin)

    def discard_through(self, key: MergeKey) -> None:
        """Forget what is pending up to a key: it was delivered in another merger's stream."""
        heap, limits = self._heap, self._limits
        while heap and heap[0][:3] <= key:
            self._bytes -= heappop(heap)[SIZE]
        if self._bytes > limits.buffer_bytes_max or len(heap) > limits.buffer_bundles_max:
            self._make_room([])
            self._bytes = sum(entry[SIZE] for entry in heap)

    def flush(self, rt: int) -> list[Entry]:
        """Return everything that is pending, in order, before its time."""
        out = sorted(self._heap)
        self._heap.clear()
        return self._leave(rt, out) if out else out

    def next_tick(self) -> int | None:
        """Return the tick at which something becomes due."""
        return self.due_tick(self._heap[0][:3]) if self._heap else None

    def due_tick(self, key: MergeKey) -> int:
        """Return the tick at which what has a key is released."""
        return (key[0] >> REST_BITS) + self._origin + self._wait_ticks

    def lag_of(self, rt: int, entry: Entry) -> int:
        """Return the number of ticks since a bundle became due."""
        return rt - (entry[0] >> REST_BITS) - self._origin - self._wait_ticks

    # --- guards ---

    def guard(self, rt: int) -> str | None:
        """Repair corrupt state; return what was corrupt, in one word.

        A last key from the future would make everything late; a pending bundle from the future would stay for good; a
        heap out of order would release out of order. Valid entries leave within δ + 2ε ticks, so one scan of the heap
        in that time looks at each bundle twice.
        """
        found = None
        if (self.last[0] >> REST_BITS) + self._origin > rt + self._repair_over:
            self.last = last_key_of(rt + self._timing.lead_max, self._origin)
            found = "last_key"
        if rt >= self._scan_at or self._scan_at > rt + self._scan_ticks:
            found = self._scan(rt) or found
        return found

    def _scan(self, rt: int) -> str | None:
        self._scan_at = rt + self._scan_ticks
        latest = key_below(rt + self._timing.epsilon, self._origin)
        remaining = [entry for entry in self._heap if entry[0] < latest]
        purged = len(self._heap) - len(remaining)
        self._heap = remaining
        heapify(remaining)
        self._bytes = sum(entry[SIZE] for entry in remaining)
        self.purged += purged
        if rt >= self._tidy_at or self._tidy_at > rt + self._memory_ticks:
            self._tidy(rt)
        return "buffer" if purged else None

    def _tidy(self, rt: int) -> None:
        """Rebuild the memory of keys from what it derives from, once in the time that keys are remembered."""
        self._tidy_at = rt + self._memory_ticks
        self._fading = deque(batch for batch in self._fading if batch[0] <= rt + self._memory_ticks)
        self._remembered = sum(len(batch) for _, _, batch in self._fading)
        self._seen = {k_lo for _, _, batch in self._fading for k_lo in batch}
        self._seen.update([entry[2] for entry in self._heap])
        self._stale_at = -1
        if self._stale_up_to > rt + self._timing.lead_max:
            self._stale_up_to = rt - self._memory_ticks
        if self.frontier is not None:
            self.frontier.forget_silent(rt - self._memory_ticks, rt)

    def gauges(self) -> list[Gauge]:
        """Return how much is pending and remembered."""
        limits = self._limits
        return [
            Gauge("buffer_bundles", len(self._heap), limits.buffer_bundles_max, must_drain=True),
            Gauge("buffer_bytes", self._bytes, limits.buffer_bytes_max, must_drain=True),
            Gauge("remembered", self._remembered, limits.remembered_max),
        ]

    # --- parts ---

    def _wait(self) -> int:
        """Return the number of ticks after l at which a bundle is released."""
        timing = self._timing
        return timing.delta + 1 if self._rule == "tight" else timing.delta + timing.epsilon

    def _make_room(self, out: list[Entry]) -> None:
        """Release the first entries before their time, until the rest fits."""
        heap, limits = self._heap, self._limits
        held = self._bytes - sum(entry[SIZE] for entry in out)
        while heap and (len(heap) > limits.buffer_bundles_max or held > limits.buffer_bytes_max):
            out.append(heappop(heap))
            held -= out[-1][SIZE]
            self.early += 1

    def _leave(self, rt: int, out: list[Entry]) -> list[Entry]:
        """Return the entries above the last key, and remember them for a while."""
        if out[0][:3] <= self.last:  # happens only with a corrupt heap
            self._bytes -= sum(entry[SIZE] for entry in out if entry[:3] <= self.last)
            out = [entry for entry in out if entry[:3] > self.last]
            if not out:
                return out
        self._bytes -= sum([entry[SIZE] for entry in out])
        self._fade(rt, out[-1][0], [entry[2] for entry in out])
        self.last = out[-1][:3]
        self.position += len(out)
        return out

    def _fade(self, rt: int, last: int, gone: list[int]) -> None:
        self._fading.append((rt + self._memory_ticks, last, gone))
        self._remembered += len(gone)

    def _forget(self, rt: int) -> None:
        """Forget what is too old to be accepted again; if memory is full, sooner, and accept no more of that age."""
        fading, seen = self._fading, self._seen
        while fading and fading[0][0] <= rt:
            _, _, batch = fading.popleft()
            self._remembered -= len(batch)
            seen.difference_update(batch)
        while self._remembered > self._limits.remembered_max:
            _, last, batch = fading.popleft()
            self._remembered -= len(batch)
            seen.difference_update(batch)
            self._stale_up_to = max(self._stale_up_to, tick_of((last, 0, 0), self._origin))
            self._stale_at = -1
