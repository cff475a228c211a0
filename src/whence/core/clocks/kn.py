"""The paper's stamps ⟨r, c, kn⟩ (merge 2), with the corrections that make its theorems true.

r is the clock at the event, r + c the largest clock value its process knows of, and kn[t] the longest chain of events
it knows of that happened when a clock showed r + t, for −ε ≤ t < ε. The order compares r + c first, then
kn[c], kn[c−1], …, kn[c−ε+1]: position i of two such sequences is about the same tick, so it is a plain sort key.

Assumes strict clocks (they differ by less than ε) and at most K events per process and tick. Then 0 ≤ c < ε,
kn[c] ≥ 1, kn[t] = 0 beyond c and kn[t] ≤ K·n; the guard runs on every tick and resets a state that breaks this, or
one from the future (r > rt, which the paper forgets: an idle process would never notice).

With `bounded`, clocks are sent and stored modulo B. A state that is idle longer than 2ε is emptied (ageing): otherwise
a process that idles for B ticks mistakes its old state for a new one.
With `delay_min`, δmin ticks less are needed on either side of the array.
Costs: 2ε numbers per stamp; see `hlc` for the one to use.
"""

from collections.abc import Sequence
from typing import NamedTuple

from whence.core.clocks.stamp import MID_BITS, REST_BITS, TICKS_MAX, GuardResult, Timing
from whence.errors import LimitError, SettingError

_R_BYTES = 6
_VALUE_BYTES = 3


class KnStamp(NamedTuple):
    """⟨r, c, kn⟩; kn from t = −depth to depth − 1."""

    r: int
    c: int
    kn: tuple[int, ...]


def depth_of(timing: Timing) -> int:
    """Return the number of ticks that kn reaches either way: ε − δmin, but at least 1 if a process can have two events
    in a tick."""
    return max(timing.epsilon - timing.delay_min, 0 if timing.events_per_tick_max == 1 else 1)


def less(one: KnStamp, other: KnStamp, depth: int) -> bool:
    """Tell whether one comes before the other: the paper's relation, literally."""
    if one.r + one.c != other.r + other.c:
        return one.r + one.c < other.r + other.c
    for back in range(depth):
        mine, yours = at(one.kn, one.c - back), at(other.kn, other.c - back)
        if mine != yours:
            return mine < yours
    return False


def at(kn: Sequence[int], t: int) -> int:
    """Return kn[t]; 0 outside the array."""
    place = t + (len(kn) >> 1)
    return kn[place] if 0 <= place < len(kn) else 0


def shifted(kn: Sequence[int], by: int) -> list[int]:
    """Return a new array, relative to a clock `by` ticks later: negative for a message from a faster clock."""
    size = len(kn)
    if by >= size or by <= -size:
        return [0] * size
    return [*kn[by:], *[0] * by] if by >= 0 else [*[0] * -by, *kn[:by]]


class Packing:
    """The number of entries of kn that go into each number of the packed key."""

    def __init__(self, timing: Timing, depth: int) -> None:
        self.bits = timing.chain_max.bit_length()
        self.depth = depth
        self.in_high = min(depth, REST_BITS // self.bits)
        self.in_mid = depth - self.in_high
        if self.in_mid * self.bits > MID_BITS:
            raise SettingError(
                f"stamp 'kn' with epsilon {timing.epsilon} and {self.bits} bits per entry does not fit the merge key; "
                f"choose a longer tick and a smaller epsilon, smaller events_per_tick_max, or stamp 'hlc'"
            )

    def pack(self, stamp: KnStamp, origin: int) -> tuple[int, int]:
        """Return k_hi and k_mid. Raises LimitError if the stamp does not fit."""
        ticks = stamp.r + stamp.c - origin
        if not 0 <= ticks <= TICKS_MAX:
            raise LimitError("ticks since the origin of the merge key", TICKS_MAX, ticks)
        top = (1 << self.bits) - 1
        entries = [min(at(stamp.kn, stamp.c - back), top) for back in range(self.depth)]
        high = self._joined(entries[: self.in_high])
        spare = REST_BITS - self.in_high * self.bits
        return ticks << REST_BITS | high << spare, self._joined(entries[self.in_high :])

    def _joined(self, entries: Sequence[int]) -> int:
        number = 0
        for entry in entries:
            number = number << self.bits | entry
        return number


class Kn:
    """The paper's stamp, for fidelity and comparison."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._depth = depth_of(timing)
        self._packing = Packing(timing, self._depth)
        self._rests_at = 0
        """r, or r modulo B where clocks are bounded."""
        self._c = 0
        self._kn = [0] * (2 * self._depth)

    @property
    def state(self) -> tuple[int, int, tuple[int, ...]]:
        """Return r (modulo B where bounded), c and kn."""
        return self._rests_at, self._c, tuple(self._kn)

    def start(self, rt: int) -> None:
        """Begin an incarnation, with one event."""
        self._set(rt, 0, [0] * (2 * self._depth))
        self._count(rt)

    def wait(self, rt: int) -> int:
        """Return the number of ticks that must pass before an event may be created: until the first whose chain is not
        full."""
        ticks = 0
        while at(self._kn, rt + ticks - self._r(rt)) >= self._timing.chain_max:
            ticks += 1
        return ticks

    def local(self, rt: int) -> KnStamp:
        """Create an event; return its stamp."""
        return self.receive(rt, ())

    def receive(self, rt: int, stamps: Sequence[KnStamp]) -> KnStamp:
        """Create the event that consumes these messages; return its stamp."""
        self._merge(rt, stamps)
        return self._count(rt)

    def observe(self, rt: int, stamp: KnStamp) -> None:
        """Make every later event come after a stamp. This counts as an event; otherwise kn[c] would be 0 in between."""
        self.receive(rt, (stamp,))

    def guard(self, rt: int) -> GuardResult:
        """Reset a state that is impossible; age one that is idle, if clocks are bounded."""
        r = self._r(rt)
        if self._ages() and rt - r >= 2 * self._timing.epsilon:
            self._set(rt, 0, [0] * (2 * self._depth))
            return GuardResult.LEGAL
        if self._is_legal(r, rt):
            return GuardResult.LEGAL
        self.start(rt)
        return GuardResult.RESET

    def wrong(self, stamp: KnStamp, rt: int) -> str | None:
        """Return why a stamp is refused: it is ahead of every clock, or no computation leaves its array. Else None."""
        lead = rt + self._timing.lead_max
        if stamp.r > lead or stamp.r + stamp.c > lead:
            return "future"
        return None if self._makes_sense(stamp.c, stamp.kn, fresh=False) else "array"

    def physical(self, stamp: KnStamp) -> int:
        """Return l = r + c."""
        return stamp.r + stamp.c

    def published(self, stamp: KnStamp) -> int:
        """Return r."""
        return stamp.r

    def chain(self, stamp: KnStamp) -> int:
        """Return the largest entry of kn."""
        return max(stamp.kn, default=0)

    def ahead(self, rt: int) -> int:
        """Return r + c − rt."""
        return self._r(rt) + self._c - rt

    def packed(self, stamp: KnStamp) -> tuple[int, int]:
        """Return k_hi and k_mid. Raises LimitError if the stamp does not fit."""
        return self._packing.pack(stamp, self._timing.origin)

    def write(self, stamp: KnStamp) -> bytes:
        """Return r (modulo B where bounded), c, and the entries that are not 0 with their places."""
        modulus = self._timing.bounded
        r = stamp.r % modulus if modulus else stamp.r
        entries = [
            bytes([place]) + value.to_bytes(_VALUE_BYTES, "big") for place, value in enumerate(stamp.kn) if value
        ]
        return r.to_bytes(_R_BYTES, "big") + bytes([stamp.c]) + b"".join(entries)

    def read(self, data: bytes, rt: int) -> KnStamp:
        """Return the stamp in these bytes. Raises ValueError if they are not a stamp."""
        head, size = _R_BYTES + 1, 1 + _VALUE_BYTES
        if len(data) < head or (len(data) - head) % size:
            raise ValueError(f"no stamp has these {len(data)} bytes")
        kn = [0] * (2 * self._depth)
        for start in range(head, len(data), size):
            place = data[start]
            if place >= len(kn):
                raise ValueError(f"kn has no place {place}")
            kn[place] = int.from_bytes(data[start + 1 : start + size], "big")
        r = int.from_bytes(data[:_R_BYTES], "big")
        return KnStamp(self._decoded(r, rt) if self._timing.bounded else r, data[_R_BYTES], tuple(kn))

    def snapshot(self) -> bytes:
        """Return the state as a stamp."""
        return self.write(KnStamp(self._rests_at, self._c, tuple(self._kn)))

    def restore(self, state: bytes, rt: int) -> GuardResult:
        """Resume from the state of an earlier incarnation. Raises ValueError if it is not a state."""
        stamp = self.read(state, rt)
        self._set(stamp.r, stamp.c, list(stamp.kn))
        return self.guard(rt)

    def _merge(self, rt: int, stamps: Sequence[KnStamp]) -> None:
        r, kn = self._r(rt), shifted(self._kn, rt - self._r(rt))
        c = max(0, r + self._c - rt)
        for stamp in stamps:
            c = max(c, stamp.r + stamp.c - rt)
            kn = list(map(max, kn, shifted(stamp.kn, rt - stamp.r)))
        self._set(rt, c, kn)

    def _count(self, rt: int) -> KnStamp:
        if self._depth:  # observing alone must not push a state over its bound
            self._kn[self._depth] = min(self._kn[self._depth] + 1, self._timing.chain_max)
        return KnStamp(rt, self._c, tuple(self._kn))

    def _set(self, r: int, c: int, kn: list[int]) -> None:
        self._rests_at = r % self._timing.bounded if self._timing.bounded else r
        self._c, self._kn = c, kn

    def _r(self, rt: int) -> int:
        """Return r; if clocks are bounded, the latest value it can have: a process is never ahead of its own clock."""
        modulus = self._timing.bounded
        return rt - (rt - self._rests_at) % modulus if modulus else self._rests_at

    def _decoded(self, rests_at: int, rt: int) -> int:
        """Return the clock value that has this remainder modulo B: the latest one that is not ahead of every clock."""
        modulus = self._timing.bounded
        age = (rt - rests_at) % modulus
        return rt - (age - modulus if age > modulus - 1 - self._timing.epsilon else age)

    def _ages(self) -> bool:
        return bool(self._timing.bounded)

    def _is_legal(self, r: int, rt: int) -> bool:
        return r <= rt and self._makes_sense(self._c, self._kn, fresh=True)

    def _makes_sense(self, c: int, kn: Sequence[int], *, fresh: bool) -> bool:
        """Tell whether a computation can leave this; an aged or fresh process may know of no event at all."""
        if not 0 <= c < self._timing.epsilon or any(not 0 <= value <= self._timing.chain_max for value in kn):
            return False
        if not self._depth or (fresh and c == 0 and not any(kn)):
            return True
        return at(kn, c) >= 1 and not any(kn[self._depth + c + 1 :])
