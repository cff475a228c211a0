"""The merger: everything that arrives, put into the one order of its keys, and released once it is safe to.

Promises: keys are released in increasing order, each once, and none at or below the last one; so any two mergers
release what both have in the same order, and with `hlc` stamps never an effect before its cause, whatever clocks and
delays do. What comes after its place has passed is late: it is handed out beside the stream, never in it.
Assumes, for nothing to be late: clocks within ε−1 ticks of each other, arrival within δ ticks.
The sentence that decides: a bundle is released when the clock has reached l + δ + ε (and later: never only exactly
then, or a clock that jumps would strand it). Nothing waits longer than δ + 2ε − 1 ticks.
Two faster rules give the same order: `tight` releases when the clock is past l + δ, and needs arrival within δ of the
receiver's own clock. `frontier` also releases what is not above the last key of every publisher that is alive; it
needs publishers that say now and then how far they are, and no clocks.
Costs per bundle: a push and a pop of a heap, a look at what was seen, an entry to forget it again.
Source: Stabilizing Causal Deterministic Merge, section 4; merge specification 5 and 6.
"""

from collections import deque
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Final, Literal, TypeAlias

import msgspec

from whence.core.clocks.stamp import FIRST_KEY, MergeKey, Timing, key_below, last_key_of, tick_of
from whence.core.ready import Gauge
from whence.limits import MergeLimits
from whence.types import Bundle, Instant, Process, packed

ReleaseRule: TypeAlias = Literal["paper", "tight", "frontier"]

MEMORY_FACTOR = 2
"""What was released is remembered for so many times δ + ε; a copy older than that is dropped as stale."""


Entry: TypeAlias = tuple[int, int, int, Instant, int, int, Bundle]
"""A bundle in its place: k_hi, k_mid, k_lo, when it arrived, its topic, its payload bytes, the bundle.

A plain tuple, and the key first, so that entries compare by it at the least cost; keys are unique.
"""

SIZE: Final = 5
BUNDLE: Final = 6
"""Where an entry holds its payload bytes and its bundle."""


def entry_of(key: MergeKey, since: Instant, topic: int, bundle: Bundle) -> Entry:
    """Return a bundle in its place."""
    return (*key, since, topic, len(bundle.body), bundle)


def key_of(entry: Entry) -> MergeKey:
    """Return an entry's place in the order."""
    return entry[:3]


class Fate(Enum):
    """What becomes of a bundle that arrives."""

    KEPT = "kept"
    DUPLICATE = "duplicate"
    LATE = "late"
    """Its place has passed."""
    STALE = "stale"
    """So old that nobody can tell whether it is late or was released already."""


class _Heard:
    """How far a publisher says it is."""

    __slots__ = ("at", "doubted_until", "expected", "reached", "told")

    def __init__(self) -> None:
        self.expected = 1
        """The number it goes on with."""
        self.told = self.reached = FIRST_KEY
        """The last key it told, and the last that surely nothing on the way is below."""
        self.doubted_until = 0
        """Something before what it told is missing: until here it may still come."""
        self.at = 0

    def key_at(self, rt: int) -> MergeKey:
        """Return the key that nothing of it will stay at or below any more."""
        return self.told if rt >= self.doubted_until else self.reached


class _Saved(msgspec.Struct, array_like=True):
    """A merger's memory on disk."""

    last: MergeKey
    position: int
    entries: list[Entry]
    seen: list[tuple[int, int, list[int]]]


class Merger:
    """Hold by key, release in order. `rt` is the clock in ticks and never decreases."""

    def __init__(self, timing: Timing, limits: MergeLimits, rule: ReleaseRule = "paper") -> None:
        self.last: MergeKey = FIRST_KEY
        """The last key released."""
        self.position = 0
        """How many were released: a place in this merger's stream, not comparable with another's."""
        self.early = 0
        """Released before their time, because the buffer was full."""
        self.purged = 0
        """Entries thrown out because they could not be."""
        self._timing = timing
        self._limits = limits
        self._rule = rule
        self._origin = timing.origin
        self._heap: list[Entry] = []
        self._bytes = 0
        self._memory_ticks = MEMORY_FACTOR * (timing.delta + timing.epsilon)
        self._seen: set[int] = set()
        """k_lo of what is held, was released or was late."""
        self._fading: deque[tuple[int, int, list[int]]] = deque()
        """What left the heap, by the tick at which it is forgotten: (tick, the last k_hi, every k_lo)."""
        self._remembered = 0
        self._stale_up_to = -1
        """No l at or below this is taken: copies of it may have been released and forgotten."""
        self._heard: dict[Process, _Heard] = {}
        self._frontier_from: int | None = None
        """Publishers that are there have been heard by then."""
        self._read_at = -1
        self._stale_below = 0
        """The k_hi below which nothing is taken at the tick last read."""
        self._scan_at = self._tidy_at = 0

    # --- arriving ---

    def arrive(self, rt: int, entry: Entry) -> Fate:
        """Take a bundle whose stamp is known to make sense."""
        k_hi, k_lo, seen = entry[0], entry[2], self._seen
        if k_lo in seen:
            return Fate.DUPLICATE
        if rt != self._read_at:
            self._read_at = rt
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
        self._bytes += entry[5]
        return Fate.KEPT

    def heard(self, rt: int, publisher: Process, key: MergeKey, first: int, following: int) -> None:
        """Learn that everything a publisher will send from number `following` on has a larger key.

        `first` is the number of the first event the key speaks of: it counts only if nothing before it is missing.
        """
        known = self._heard.get(publisher)
        if known is None:
            known = self._heard[publisher] = _Heard()
            if self._frontier_from is None:
                self._frontier_from = rt + self._wait()
        if first > known.expected:
            known.reached = known.key_at(rt)
            known.doubted_until = rt + self._wait()
        known.expected = max(known.expected, following)
        known.told = max(known.told, key)
        known.at = rt

    # --- releasing ---

    def release(self, rt: int) -> list[Entry]:
        """Return everything whose time has come, in order."""
        heap, out = self._heap, []
        if heap:
            below = self._due_below(rt)
            while heap and heap[0][0] < below:
                out.append(heappop(heap))
        if self._rule == "frontier" and heap:
            reached = self._reached(rt)
            while heap and heap[0][:3] <= reached:
                out.append(heappop(heap))
        if self._overfull():
            self._make_room(out)
        if out:
            out = self._leave(rt, out)
        if self._fading:
            self._forget(rt)
        return out

    def discard_through(self, key: MergeKey) -> None:
        """Forget what is held up to a key: it was delivered in another merger's stream."""
        heap = self._heap
        while heap and heap[0][:3] <= key:
            self._bytes -= heappop(heap)[SIZE]
        if self._overfull():
            self._make_room([])
            self._bytes = sum(entry[SIZE] for entry in heap)

    def flush(self, rt: int) -> list[Entry]:
        """Return everything that is held, in order, before its time."""
        out = sorted(self._heap)
        self._heap.clear()
        return self._leave(rt, out) if out else out

    def next_tick(self) -> int | None:
        """Return the tick at which something becomes due."""
        return None if not self._heap else self.due_tick(self._heap[0])

    def due_tick(self, entry: Entry) -> int:
        """Return the tick at which a bundle becomes due."""
        return tick_of(key_of(entry), self._origin) + self._wait()

    def held(self) -> int:
        """Return how many bundles wait for their time."""
        return len(self._heap)

    # --- guarding ---

    def guard(self, rt: int) -> str | None:
        """Repair what cannot be; say in one word what it was.

        A last key from the future would make everything late; a held bundle from the future would stay for good; a
        heap out of order would release out of order. Whoever is legal leaves within δ + 2ε ticks, so looking through
        the heap once in that time costs each bundle two looks.
        """
        found = None
        if tick_of(self.last, self._origin) > rt + self._timing.lead_max + self._timing.stall_max:
            self.last = last_key_of(rt + self._timing.lead_max, self._origin)
            found = "last_key"
        if rt >= self._scan_at or self._scan_at > rt + self._scan_ticks():
            found = self._scan(rt) or found
        return found

    def _scan(self, rt: int) -> str | None:
        self._scan_at = rt + self._scan_ticks()
        latest = key_below(rt + self._timing.epsilon, self._origin)
        kept = [entry for entry in self._heap if entry[0] < latest]
        purged = len(self._heap) - len(kept)
        self._heap = kept
        heapify(kept)
        self._bytes = sum(entry[SIZE] for entry in kept)
        self.purged += purged
        if rt >= self._tidy_at or self._tidy_at > rt + self._memory_ticks:
            self._tidy(rt)
        return "buffer" if purged else None

    def _tidy(self, rt: int) -> None:
        """Rebuild what is remembered from what it follows from, once in the time it is remembered for."""
        self._tidy_at = rt + self._memory_ticks
        self._fading = deque(batch for batch in self._fading if batch[0] <= rt + self._memory_ticks)
        self._remembered = sum(len(batch) for _, _, batch in self._fading)
        self._seen = {k_lo for _, _, batch in self._fading for k_lo in batch}
        self._seen.update([entry[2] for entry in self._heap])
        self._read_at = -1
        if self._stale_up_to > rt + self._timing.lead_max:
            self._stale_up_to = rt - self._memory_ticks
        silent = rt - self._memory_ticks
        self._heard = {who: known for who, known in self._heard.items() if silent <= known.at <= rt}

    def _scan_ticks(self) -> int:
        return self._timing.delta + 2 * self._timing.epsilon

    def spoil(self, rt: int, far: int, kind: int) -> None:
        """Forget the truth: what a fault may do. A last key, a held bundle or what was seen from the future, a mess."""
        if kind == 0:
            self.last = last_key_of(far, self._origin)
        elif kind == 1:
            key = key_below(far, self._origin)
            garbage = packed(Process(0, 1), 1, [b"garbage"])
            self._heap += [(key, 0, len(self._heap) + at, rt, 0, 7, garbage) for at in range(3)]
        elif kind == 2:
            self._stale_up_to = far
            self._fading.appendleft((far, 1, [1]))
        else:
            self._heap.reverse()
            self._bytes += 1 << 20
            self._scan_at = self._tidy_at = far

    # --- keeping ---

    def snapshot(self) -> bytes:
        """Return everything a new life needs to go on without gap or repeat."""
        saved = _Saved(self.last, self.position, sorted(self._heap), list(self._fading))
        return msgspec.msgpack.encode(saved)

    def restore(self, state: bytes, rt: int) -> str | None:
        """Go on from a snapshot, and guard it. Raises ValueError if it is none."""
        try:
            saved = msgspec.msgpack.decode(state, type=_Saved)
        except msgspec.DecodeError as error:
            raise ValueError(f"this is no snapshot of a merger: {error}") from None
        self.last, self.position = saved.last, saved.position
        self._heap = list(saved.entries)
        self._fading = deque(saved.seen)
        self._scan_at = self._tidy_at = rt
        return self.guard(rt)

    def gauges(self) -> list[Gauge]:
        """Return how much is held and remembered."""
        limits = self._limits
        return [
            Gauge("buffer_bundles", len(self._heap), limits.buffer_bundles_max, rests=True),
            Gauge("buffer_bytes", self._bytes, limits.buffer_bytes_max, rests=True),
            Gauge("remembered", self._remembered, limits.remembered_max),
        ]

    # --- parts ---

    def _wait(self) -> int:
        """Return how many ticks after l a bundle is released."""
        timing = self._timing
        return timing.delta + 1 if self._rule == "tight" else timing.delta + timing.epsilon

    def _due_below(self, rt: int) -> int:
        """Return the k_hi below which everything is due: l ≤ rt − wait."""
        return key_below(rt - self._wait() + 1, self._origin)

    def _reached(self, rt: int) -> MergeKey:
        """Return the key that no publisher alive will stay at or below any more."""
        if self._frontier_from is None or rt < self._frontier_from:
            return FIRST_KEY
        silent = rt - self._wait()
        return min((known.key_at(rt) for known in self._heard.values() if known.at >= silent), default=FIRST_KEY)

    def _overfull(self) -> bool:
        limits = self._limits
        return len(self._heap) > limits.buffer_bundles_max or self._bytes > limits.buffer_bytes_max

    def _make_room(self, out: list[Entry]) -> None:
        """Release the first in order before their time until what is held fits."""
        heap, limits = self._heap, self._limits
        held = self._bytes - sum(entry[SIZE] for entry in out)
        while heap and (len(heap) > limits.buffer_bundles_max or held > limits.buffer_bytes_max):
            out.append(heappop(heap))
            held -= out[-1][SIZE]
            self.early += 1

    def _leave(self, rt: int, out: list[Entry]) -> list[Entry]:
        """Let entries go: keep the last key, and remember them for a while. None at or below the last key goes."""
        if out[0][:3] <= self.last:  # only a heap that was corrupted has such
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
        """Forget what is too old to be taken again; where memory is full, sooner, and take no more of that age."""
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
            self._read_at = -1
