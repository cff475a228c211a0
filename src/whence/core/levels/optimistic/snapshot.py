"""A member's clock for a newcomer, so that it does not take the whole past for missing.

Source: docs/papers/optimistic.md 6.6; trap C12.
"""

from struct import Struct as Layout

from whence.core.clocks.cct import ENTRY_MAX, epoch_of
from whence.core.levels.optimistic.missing import BaseOf

_ENTRY = Layout("<HQQ")
"""A ticket: its number, its entry, the base of its epoch."""


def pack_snapshot(clock: list[int], base_of: BaseOf) -> bytes:
    """Return the entries of a clock that are not zero."""
    return b"".join(
        [_ENTRY.pack(ticket, entry, base_of(ticket, epoch_of(entry))) for ticket, entry in enumerate(clock) if entry]
    )


def read_snapshot(snapshot: bytes, tickets: int) -> list[tuple[int, int]]:
    """Return tickets and their entries. Raises ValueError for what is no snapshot of a clock of this many tickets."""
    if len(snapshot) % _ENTRY.size:
        raise ValueError(f"a snapshot is a multiple of {_ENTRY.size} bytes, not {len(snapshot)}")
    entries = list(_ENTRY.iter_unpack(snapshot))
    for ticket, entry, base in entries:
        if ticket >= tickets or max(entry, base) > ENTRY_MAX:
            raise ValueError(f"no cluster of {tickets} tickets is at entry {entry} of ticket {ticket}")
    return [(ticket, entry) for ticket, entry, _ in entries]
