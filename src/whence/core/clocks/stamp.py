"""Stamps that order what happened, built on clocks that are only nearly the same.

The law: every process's clock is within ε−1 ticks of every other (strictly less than ε; the papers' "at most ε" lets a
message arrive before its stamp can be told apart). A message is received within δ ticks of its stamp, or is lost. Then
each kind of stamp below extends happened-before, and its order is a plain sort key.

`hlc` (the default) needs no bound at all for that: ε and δ decide only how long a merger waits. `kn` is the paper's
⟨r, c, kn⟩ and correct only while clocks keep ε. `rc` is the paper's ⟨r, c⟩, for experiments: it has no sort order.

Source: merge 1 to 4; K, Stabilizing Causal Deterministic Merge, sections 2 and 3; hybrid logical clocks,
Kulkarni, Demirbas, Madappa, Avva, Leone 2014.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct

from whence.errors import LimitError, SettingError
from whence.limits import MERGED_PEER_ID_MAX, SEQ_MAX

TICK_BITS = 43
"""Bits of the packed key for l: 278 years of milliseconds."""

REST_BITS = 20
"""Bits of the packed key's first number for what comes after l: the counter of hlc, the first entries of kn."""

MID_BITS = 63
TICKS_MAX = (1 << TICK_BITS) - 1
COUNTER_MAX = (1 << REST_BITS) - 1

INCARNATION_BITS = 8
"""Bits of the packed key for a publisher's incarnation: those with equal stamps are never 256 incarnations apart."""

_PID_SHIFT, _INCARNATION_SHIFT = 48, 40
_INCARNATION_MASK = (1 << INCARNATION_BITS) - 1

MergeKey: TypeAlias = tuple[int, int, int]
"""k_hi, k_mid, k_lo: three non-negative 63-bit numbers whose order is the merge order."""

FIRST_KEY: MergeKey = (0, 0, 0)
"""Less than every key: k_lo of an event is at least 1, because its number is."""

_LAST = (1 << 63) - 1


class Timing(Struct, frozen=True, kw_only=True):
    """What all members of a deployment must agree on. In ticks, unless the name says otherwise."""

    epsilon: int = 5
    """ε: clocks differ by less than this."""
    delta: int = 100
    """δ: a message is received within this or is lost."""
    publishers_max: int = 64
    """n: processes that create events."""
    events_per_tick_max: int = 500
    """K: events of one process in one tick. A larger count is corrupt. Full, with K·n·ε: publishers wait a tick."""
    stall_max: int = 60_000
    """A stamp or clock ahead of its bound by more than this is corrupt and repaired; by less, the process waits for it.

    0 repairs at once, which recovers fastest. A large value keeps order with the wildest clocks, at the price of
    silence until they have caught up."""
    delay_min: int = 0
    """δmin: every receiver's clock advances by at least this between send and receipt. Shortens kn."""
    bounded: int = 0
    """B: kn transmits its clock modulo this; 0 transmits it whole."""
    origin: int = 0
    """L0: the tick from which the packed key counts."""

    def __post_init__(self) -> None:
        least = {"epsilon": 1, "publishers_max": 1, "events_per_tick_max": 1}
        for name in self.__struct_fields__:
            if getattr(self, name) < least.get(name, 0):
                raise SettingError(f"{name} must be at least {least.get(name, 0)}, not {getattr(self, name)}")
        smallest = 2 * self.epsilon + self.delta + 1
        if 0 < self.bounded < smallest:
            raise SettingError(f"bounded must be 0 or at least 2ε+δ+1 = {smallest}, not {self.bounded}")

    @property
    def lead_max(self) -> int:
        """Return how far a stamp may be ahead of the reader's clock: ε−1."""
        return self.epsilon - 1

    @property
    def chain_max(self) -> int:
        """Return K·n, the longest chain of events in one tick."""
        return self.events_per_tick_max * self.publishers_max


class GuardResult(Enum):
    """What a guard finds."""

    LEGAL = "legal"
    STALLED = "stalled"
    """Ahead of the clock, but not so far that waiting is pointless: create no event until the clock has caught up."""
    RESET = "reset"
    """Impossible; was replaced by the state of a fresh process."""


Kind = TypeVar("Kind")


class StampClock(Protocol[Kind]):
    """One process's stamps. `rt` is its clock in ticks and never decreases."""

    def start(self, rt: int) -> None:
        """Begin an incarnation, with one event."""

    def wait(self, rt: int) -> int:
        """Return the number of ticks that must pass before an event may be created; 0: its stamp is within all bounds
        now."""

    def local(self, rt: int) -> Kind:
        """Create an event, such as a publication; return its stamp. Ask `wait` first, or others may refuse it."""

    def receive(self, rt: int, stamps: Sequence[Kind]) -> Kind:
        """Create the event that consumes messages with these stamps; return its stamp."""

    def observe(self, rt: int, stamp: Kind) -> None:
        """Make every later event of this process come after a stamp."""

    def guard(self, rt: int) -> GuardResult:
        """Check whether the state is possible; repair it if it is not."""

    def wrong(self, stamp: Kind, rt: int) -> str | None:
        """Return in one word why a message with this stamp is impossible; None if it is possible."""

    def physical(self, stamp: Kind) -> int:
        """Return l, the largest clock value the stamp knows of."""

    def published(self, stamp: Kind) -> int:
        """Return what the publisher's clock showed when the message was made, or the latest it can have shown."""

    def chain(self, stamp: Kind) -> int:
        """Return the length of the longest chain of events in one tick that the stamp counts."""

    def ahead(self, rt: int) -> int:
        """Return how far l of this process is ahead of its clock; negative if it has been idle for long."""

    def packed(self, stamp: Kind) -> tuple[int, int]:
        """Return k_hi and k_mid. Raises LimitError if the stamp does not fit."""

    def write(self, stamp: Kind) -> bytes:
        """Return the stamp as it is sent."""

    def read(self, data: bytes, rt: int) -> Kind:
        """Return the stamp that arrived. Raises ValueError if the bytes are not a stamp."""

    def snapshot(self) -> bytes:
        """Return the state."""

    def restore(self, state: bytes, rt: int) -> GuardResult:
        """Resume from a state and guard it. Raises ValueError if the bytes are not a state."""


def low_key(pid: int, incarnation: int, seq: int) -> int:
    """Return k_lo, which distinguishes events with equal stamps. Raises LimitError if a part does not fit its bits."""
    if pid > MERGED_PEER_ID_MAX:
        raise LimitError("peer ids in the merge key", MERGED_PEER_ID_MAX, pid)
    return pid << _PID_SHIFT | (incarnation & _INCARNATION_MASK) << _INCARNATION_SHIFT | seq


assert MERGED_PEER_ID_MAX < 1 << 15
assert SEQ_MAX < 1 << _INCARNATION_SHIFT


def tick_of(key: MergeKey, origin: int = 0) -> int:
    """Return l of a key."""
    return (key[0] >> REST_BITS) + origin


def key_below(tick: int, origin: int = 0) -> int:
    """Return the least k_hi of this tick; every key of an earlier tick is smaller."""
    return max(0, tick - origin) << REST_BITS


def last_key_of(tick: int, origin: int = 0) -> MergeKey:
    """Return a key not less than any key of this tick or of an earlier one."""
    return (max(0, tick + 1 - origin) << REST_BITS) - 1 if tick >= origin else 0, _LAST, _LAST
