"""The epoch a coordinator publishes under, and the stamp of its next bundle.

The sentence that decides: a new owner's first event has number 1 of a new epoch and names as its base the last entry of
earlier epochs that it knew of, so receivers can tell what comes before it.
Source: docs/papers/optimistic.md 6.1, 6.2, 6.7; traps C10, C11.
"""

from whence.core.clocks import cct
from whence.core.clocks.cct import entry_of, epoch_of
from whence.core.levels.optimistic.tickets.records import TicketEpoch


class PublishingEpoch:
    """The ticket and epoch of the next bundle published here, and where that epoch begins."""

    def __init__(self, clock: list[int]) -> None:
        self.ticket_epoch: TicketEpoch | None = None
        self.base = 0
        """The last entry of earlier epochs of the ticket that was known when this epoch began."""
        self._clock = clock

    def begin(self, ticket_epoch: TicketEpoch, base: int) -> None:
        """Publish under this ticket and epoch from now on; its first event follows everything up to `base`."""
        if ticket_epoch != self.ticket_epoch:
            self.ticket_epoch = ticket_epoch
            self.base = max(base, self._clock[ticket_epoch.ticket])
            if epoch_of(self.base) >= ticket_epoch.epoch:
                self.base = 0

    def stamp(self) -> bytes:
        """Return the stamp of a bundle published now: it follows all that was delivered here."""
        assert self.ticket_epoch is not None
        ticket, epoch = self.ticket_epoch
        entry = self._clock[ticket]
        before = entry if epoch_of(entry) == epoch else entry_of(epoch, 0)
        return cct.packed(ticket, before, self.base, self._clock)
