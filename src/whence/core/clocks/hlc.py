"""Hybrid logical clocks: the stamp is one number, l in its high bits and the counter k in its low ones.

Promises: an event's stamp is larger than the stamp of everything that happened before it, whatever clocks do. l is the
largest clock value known, r + c of the paper's stamps, exactly; k counts the chain of events with the same l.
The sentence that decides: one more than the largest stamp known, or the clock with counter 0 if that is larger.
Bounds, checked before an event is created (`wait`): l ≤ rt + ε − 1 and k < K·n·ε. Others refuse what is beyond.
Costs: an addition and a comparison per stamp, 6 bytes on the wire and up to 3 for the counter.
Source: docs/papers/merge.md: merge 4; hybrid logical clocks (2014).
"""

from collections.abc import Sequence

from whence.core.clocks.stamp import COUNTER_MAX, REST_BITS, TICKS_MAX, GuardResult, Timing
from whence.errors import LimitError

_L_BYTES = 6
_K_BYTES_MAX = 3


class Hlc:
    """The production stamp."""

    __slots__ = ("_counter_end", "_last", "_lead_max", "_origin", "_stall_max")

    def __init__(self, timing: Timing) -> None:
        self._lead_max = timing.lead_max
        self._stall_max = timing.stall_max
        self._origin = timing.origin << REST_BITS
        self._counter_end = min(COUNTER_MAX + 1, timing.chain_max * timing.epsilon)
        self._last = 0

    @property
    def last(self) -> int:
        """Return the stamp of the last event, or the largest that was observed since."""
        return self._last

    def start(self, rt: int) -> None:
        """Begin an incarnation, with one event."""
        self._last = rt << REST_BITS

    def wait(self, rt: int) -> int:
        """Return the number of ticks that must pass before an event may be created; 0: it may be created now."""
        last = self._last
        if last < rt << REST_BITS:
            return 0
        physical = last >> REST_BITS
        if (last & COUNTER_MAX) + 1 >= self._counter_end:
            return physical + 1 - rt
        return max(0, physical - rt - self._lead_max)

    def local(self, rt: int) -> int:
        """Create an event; return its stamp."""
        stamp = self._last + 1
        physical = rt << REST_BITS
        if stamp < physical:
            stamp = physical
        self._last = stamp
        return stamp

    def receive(self, rt: int, stamps: Sequence[int]) -> int:
        """Create the event that consumes these messages; return its stamp."""
        self._last = max(self._last, *stamps)
        return self.local(rt)

    def observe(self, rt: int, stamp: int) -> None:
        """Make every later event come after a stamp."""
        if stamp > self._last:
            self._last = stamp

    def guard(self, rt: int) -> GuardResult:
        """Stall while l is ahead of its bound; reset if it is absurd. A k over its bound is absurd too."""
        ahead = (self._last >> REST_BITS) - rt - self._lead_max
        if ahead <= 0 and self._last & COUNTER_MAX < self._counter_end:
            return GuardResult.LEGAL
        if 0 < ahead <= self._stall_max:
            return GuardResult.STALLED
        self.start(rt)
        return GuardResult.RESET

    def wrong(self, stamp: int, rt: int) -> str | None:
        """Return why a stamp is refused: it is ahead of every clock, or no chain can reach its counter. Else None."""
        if stamp >> REST_BITS > rt + self._lead_max:
            return "future"
        return "counter" if stamp & COUNTER_MAX >= self._counter_end else None

    def physical(self, stamp: int) -> int:
        """Return l."""
        return stamp >> REST_BITS

    def published(self, stamp: int) -> int:
        """Return l, the latest that the publisher's clock can have shown: the stamp says no more."""
        return stamp >> REST_BITS

    def chain(self, stamp: int) -> int:
        """Return k."""
        return stamp & COUNTER_MAX

    def ahead(self, rt: int) -> int:
        """Return l − rt."""
        return (self._last >> REST_BITS) - rt

    def packed(self, stamp: int) -> tuple[int, int]:
        """Return k_hi and k_mid; the stamp already is k_hi. Raises LimitError beyond the years that the key covers."""
        k_hi = stamp - self._origin
        if not 0 <= k_hi >> REST_BITS <= TICKS_MAX:
            raise LimitError("ticks since the origin of the merge key", TICKS_MAX, k_hi >> REST_BITS)
        return k_hi, 0

    def write(self, stamp: int) -> bytes:
        """Return l in 6 bytes, then k in as few as it takes: none for 0."""
        counter = stamp & COUNTER_MAX
        physical = (stamp >> REST_BITS).to_bytes(_L_BYTES, "big")
        return physical + counter.to_bytes((counter.bit_length() + 7) >> 3, "big") if counter else physical

    def read(self, data: bytes, rt: int) -> int:
        """Return the stamp in these bytes. Raises ValueError if they are not a stamp."""
        counter = data[_L_BYTES:]
        if len(data) < _L_BYTES or len(counter) > _K_BYTES_MAX or (counter and not counter[0]):
            raise ValueError(f"no stamp has these {len(data)} bytes")
        k = int.from_bytes(counter, "big")
        if k > COUNTER_MAX:
            raise ValueError(f"no stamp counts to {k}")
        return int.from_bytes(data[:_L_BYTES], "big") << REST_BITS | k

    def snapshot(self) -> bytes:
        """Return the last stamp."""
        return self.write(self._last)

    def restore(self, state: bytes, rt: int) -> GuardResult:
        """Resume from the last stamp of an earlier incarnation. Raises ValueError if it is not a stamp."""
        self._last = self.read(state, rt)
        return self.guard(rt)
