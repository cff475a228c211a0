"""The coordinators this process has heard of: whom to ask for a ticket, and for a ticket's events.

Hearsay: nothing that matters for safety reads it. Source: docs/papers/optimistic.md 5 (Cview).
"""

from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.types import Process

OWNERS_MAX = 256
"""Tickets whose owner was heard of. Full: the one heard of first is forgotten."""

HINTS_MAX = 32
"""Coordinators named by others. Full: the one named first is forgotten."""


class KnownCoordinators:
    """Every ticket's latest owner by hearsay, and coordinators whose ticket is not known."""

    def __init__(self, me: Process) -> None:
        self._me = me
        self._owners: dict[int, tuple[int, Process]] = {}
        """Ticket to its latest epoch and owner."""
        self._hints: dict[Process, None] = {}
        """Coordinators named by those who could not help."""

    def hear_owner(self, ticket_epoch: TicketEpoch, owner: Process) -> None:
        """Learn who owns a ticket; the highest epoch counts."""
        known = self._owners.pop(ticket_epoch.ticket, None)
        if known is None or known[0] < ticket_epoch.epoch:
            known = (ticket_epoch.epoch, owner)
        self._owners[ticket_epoch.ticket] = known
        if len(self._owners) > OWNERS_MAX:
            del self._owners[next(iter(self._owners))]

    def hear_hint(self, owner: Process) -> None:
        """Learn of a coordinator whose ticket is not known."""
        self._hints[owner] = None
        if len(self._hints) > HINTS_MAX:
            del self._hints[next(iter(self._hints))]

    def forget(self, owner: Process) -> None:
        """Take a process for no coordinator any more."""
        self._owners = {ticket: known for ticket, known in self._owners.items() if known[1] != owner}
        self._hints.pop(owner, None)

    def has_owners(self) -> bool:
        """Tell whether the owner of any ticket was heard of."""
        return bool(self._owners)

    def owner_of(self, ticket_epoch: TicketEpoch) -> Process | None:
        """Return who is said to own a ticket under exactly this epoch."""
        known = self._owners.get(ticket_epoch.ticket)
        return known[1] if known is not None and known[0] == ticket_epoch.epoch else None

    def owners(self) -> list[tuple[TicketEpoch, Process]]:
        """Return every ticket epoch heard of and its owner, by ticket."""
        return [(TicketEpoch(ticket, epoch), owner) for ticket, (epoch, owner) in sorted(self._owners.items())]

    def others(self) -> list[Process]:
        """Return the coordinators heard of, this process left out, each once."""
        known = (*(owner for _, owner in self._owners.values()), *self._hints)
        return list(dict.fromkeys(owner for owner in known if owner.pid != self._me.pid))
