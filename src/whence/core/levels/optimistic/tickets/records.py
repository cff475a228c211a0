"""The nouns of tickets: who a coordinator is, and what its witnesses keep of it.

A coordinator is a *ticket epoch*, (ticket, epoch), never a process; the same process may come back with another one.
Its *record* is what its witnesses keep of it: who its witnesses are, and down to which ticket it coordinates. The
successor of ticket i is i - 1: a coordinator with ticket i and successor j coordinates i, i - 1, …, j + 1; alone, all
of them.
Source: docs/papers/optimistic.md 4.2; traps B6, B12, F31.
"""

from collections.abc import Iterable
from struct import Struct as Layout
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta, Struct, structs

from whence.limits import EPOCH_MAX
from whence.types import Process

TICKETS_MAX = 4096
"""Tickets of a cluster: entries of its vector clock."""

VERSION_MAX = 2**31 - 1
K_MAX = 4
"""More than four failures within one repair are not planned for: nine witnesses."""

WITNESSES_MAX = 2 * K_MAX + 1
LAST = Layout("<HQ")
"""A ticket and its last event known."""
LASTS_MAX = 256
"""Tickets whose last event a record names. Full: those of the oldest epochs are left out."""

Ticket: TypeAlias = Annotated[int, Meta(ge=0, le=TICKETS_MAX - 1)]
Epoch: TypeAlias = Annotated[int, Meta(ge=0, le=EPOCH_MAX)]
Version: TypeAlias = Annotated[int, Meta(ge=0, le=VERSION_MAX)]
Processes: TypeAlias = tuple[Process, ...]


class TicketEpoch(NamedTuple):
    """One ownership of one ticket: a coordinator's whole identity."""

    ticket: int
    epoch: int


class Pointer(NamedTuple):
    """A coordinator as another one knows it, and whom to ask about it."""

    ticket_epoch: TicketEpoch
    owner: Process
    version: int
    witnesses: Processes


class Record(Struct, frozen=True):
    """What a coordinator registered with its witnesses; of two, the higher version is the later."""

    ticket_epoch: TicketEpoch
    owner: Process
    generation: int
    version: int
    top: int
    """The largest epoch it has seen: epochs of a ticket only grow, because who takes over reads this."""
    witnesses: Processes
    """Installed: a majority of them renews its lease."""
    proposed: Processes
    """The next witnesses, until a majority of both agreed; empty if there is no such change."""
    succ: Pointer
    beyond: Pointer | None = None
    """The successor's successor, for as long as the successor may never have registered anything itself."""
    last: bytes = b""
    """(ticket, entry) end to end: the last event known of tickets it coordinates that have been used."""

    def pointer(self) -> Pointer:
        """Return this coordinator as others name it."""
        return Pointer(self.ticket_epoch, self.owner, self.version, self.witnesses)

    def alone(self) -> bool:
        """Tell whether it is its own successor."""
        return self.succ.ticket_epoch == self.ticket_epoch

    def next(self, **changes: object) -> "Record":
        """Return the next version with these changes."""
        return structs.replace(self, version=self.version + 1, **changes)

    def last_of(self, ticket: int) -> int:
        """Return the last event known of a ticket, or 0."""
        return next((entry for known, entry in LAST.iter_unpack(self.last) if known == ticket), 0)


def covered(own: int, succ: int, tickets: int) -> list[int]:
    """Return the tickets that the owner of one coordinates: down to the one above its successor's, its own first."""
    count = (own - succ) % tickets or tickets
    return [(own - at) % tickets for at in range(count)]


def majority(witnesses: Processes) -> int:
    """Return how many of them must agree; of none, none."""
    return len(witnesses) // 2 + 1 if witnesses else 0


def blocking(witnesses: Processes) -> int:
    """Return how many of them must refuse so that no majority is left."""
    return len(witnesses) - majority(witnesses) + 1


def merged_last(*lists: bytes) -> bytes:
    """Return the highest entry of every ticket in several lists; of more than LASTS_MAX, those of the latest epochs."""
    best: dict[int, int] = {}
    for entries in lists:
        for ticket, entry in LAST.iter_unpack(entries):
            best[ticket] = max(entry, best.get(ticket, 0))
    chosen = sorted(best.items(), key=lambda known: (-known[1], known[0]))[:LASTS_MAX]
    return b"".join([LAST.pack(ticket, entry) for ticket, entry in chosen])


def last_with(known: bytes, ticket: int, entry: int) -> bytes:
    """Return a list of last events that also knows this one."""
    return merged_last(known, LAST.pack(ticket, entry)) if entry else known


def last_among(known: bytes, tickets: Iterable[int]) -> bytes:
    """Return only the last events of these tickets."""
    wanted = dict.fromkeys(tickets)
    return b"".join([LAST.pack(ticket, entry) for ticket, entry in LAST.iter_unpack(known) if ticket in wanted])
