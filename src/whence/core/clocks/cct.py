"""CCT clocks: a vector with one entry per ticket, so that its size follows the coordinators and not the members.

An entry is (epoch, number) in one integer, epoch first: the events of one ticket are totally ordered across all its
owners, and no two of them can have the same name, because no epoch has two owners. Source:
docs/papers/optimistic.md 6.1, 6.3; traps B12, C1, C2, C10, C11.

A stamp names the publisher's ticket, the entry just before the bundle, the entry at which its epoch began (`base`) and
all entries that are not zero. Costs 6 bytes, one bit per ticket, and per ticket ever used 2 to 8 bytes, mostly 2 to 3.
"""

from functools import lru_cache
from operator import gt, le
from struct import Struct as Layout
from struct import error as TooShort
from struct import pack, unpack_from

from msgspec import Struct

NUMBER_BITS = 32
NUMBER_MAX = (1 << NUMBER_BITS) - 1
ENTRY_MAX = (1 << 63) - 1

_HEAD = Layout("<HHBB")
"""The number of tickets, the own ticket, the widths of epochs and of numbers (codes), whether a base follows."""
_BASE = Layout("<Q")
_WIDTHS = ("B", "H", "I")
_CEILINGS = (0xFF, 0xFFFF, 0xFFFFFFFF)
_SIZES = (1, 2, 4)


def entry_of(epoch: int, number: int) -> int:
    """Return the entry for an event's number in an epoch."""
    return epoch << NUMBER_BITS | number


def epoch_of(entry: int) -> int:
    """Return an entry's epoch."""
    return entry >> NUMBER_BITS


def number_of(entry: int) -> int:
    """Return an entry's number in its epoch."""
    return entry & NUMBER_MAX


class Stamp(Struct, frozen=True, gc=False):
    """When a bundle was published, as the clock counts."""

    ticket: int
    before: int
    """Its publisher's entry just before it: (epoch, number of the event before its first)."""
    base: int
    """The last entry of earlier epochs that its publisher knew of when its epoch began."""
    vector: tuple[int, ...]
    """Everything it comes after; at its own ticket, itself."""

    @property
    def entry(self) -> int:
        """Return the entry of the bundle's last event: its name."""
        return self.vector[self.ticket]

    @property
    def epoch(self) -> int:
        """Return its publisher's epoch."""
        return self.before >> NUMBER_BITS


def precedes(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Tell whether one vector is before another: nowhere above it, and somewhere below."""
    return one != other and all(map(le, one, other))


def entries_above(vector: tuple[int, ...], clock: list[int]) -> int:
    """Return the number of entries of a vector that are above those of a clock."""
    return sum(map(gt, vector, clock))


def packed(ticket: int, before: int, base: int, clock: list[int]) -> bytes:
    """Return a stamp's bytes: the clock with its own ticket's entry as given."""
    entries = list(clock)
    entries[ticket] = before
    used = [at for at, entry in enumerate(entries) if entry]
    epochs = [entries[at] >> NUMBER_BITS for at in used]
    numbers = [entries[at] & NUMBER_MAX for at in used]
    wide, long = _width(max(epochs)), _width(max(numbers))
    bitmap = sum([1 << at for at in used])
    count = len(used)
    return b"".join(
        (
            _HEAD.pack(len(entries), ticket, wide << 4 | long, bool(base)),
            _BASE.pack(base) if base else b"",
            bitmap.to_bytes((len(entries) + 7) // 8, "little"),
            pack(f"<{count}{_WIDTHS[wide]}", *epochs),
            pack(f"<{count}{_WIDTHS[long]}", *numbers),
        )
    )


def read(data: bytes, tickets: int, events: int) -> Stamp:
    """Return the stamp of a bundle of `events` events in a cluster of `tickets` tickets. Raises ValueError."""
    try:
        size, ticket, widths, has_base = _HEAD.unpack_from(data)
        at = _HEAD.size
        if size != tickets or ticket >= tickets or has_base > 1:
            raise ValueError(f"this stamp is none of {tickets} tickets")
        wide, long = widths >> 4, widths & 15
        if wide > 2 or long > 2:
            raise ValueError(f"no stamp has widths {widths}")
        base = _BASE.unpack_from(data, at)[0] if has_base else 0
        at += _BASE.size * has_base
        end = at + (tickets + 7) // 8
        bitmap = int.from_bytes(data[at:end], "little")
        count = bitmap.bit_count()
        if len(data) != end + count * (_SIZES[wide] + _SIZES[long]) or bitmap >> tickets:
            raise ValueError("the stamp's length is not that of its entries")
        epochs = unpack_from(f"<{count}{_WIDTHS[wide]}", data, end)
        numbers = unpack_from(f"<{count}{_WIDTHS[long]}", data, end + count * _SIZES[wide])
    except TooShort:
        raise ValueError("the stamp is cut off") from None
    return _checked(ticket, base, bitmap, epochs, numbers, tickets, events)


def _checked(
    ticket: int,
    base: int,
    bitmap: int,
    epochs: tuple[int, ...],
    numbers: tuple[int, ...],
    tickets: int,
    events: int,
) -> Stamp:
    entries = [0] * tickets
    for at, epoch, number in zip(_places(bitmap), epochs, numbers, strict=True):
        entries[at] = epoch << NUMBER_BITS | number
    before = entries[ticket]
    if not before >> NUMBER_BITS or (before & NUMBER_MAX) + events > NUMBER_MAX or max(entries) > ENTRY_MAX:
        raise ValueError("the publisher's entry has no epoch, or its numbers have run out")
    if base > ENTRY_MAX or base >> NUMBER_BITS >= before >> NUMBER_BITS:
        raise ValueError("an epoch begins after an earlier one")
    entries[ticket] = before + events
    return Stamp(ticket, before, base, tuple(entries))


@lru_cache(256)
def _places(bitmap: int) -> tuple[int, ...]:
    """Return the positions of the bits that are set; they change only when a ticket is used for the first time."""
    return tuple([at for at in range(bitmap.bit_length()) if bitmap >> at & 1])


def _width(value: int) -> int:
    return next(at for at, ceiling in enumerate(_CEILINGS) if value <= ceiling)
