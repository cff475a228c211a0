"""Handover of a ticket: its new owner recovers the last events of the owner before it.

Other members ask for these events once they hold the new owner's first event, which follows them. The new owner
delivers that event at creation and would never ask; so it asks as soon as it has the ticket.
The sentence that decides: what the ticket's base names and the clock has not reached is asked for at once, and given up
after both waits. Source: docs/papers/optimistic.md 6.7; trap X4.
"""

from msgspec import Struct

from whence.core.clocks.cct import Stamp, entry_of, epoch_of
from whence.core.levels.optimistic.missing import Id
from whence.core.levels.optimistic.recovery import RecoveryRequests
from whence.core.levels.optimistic.settings import DeliverySettings
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.ready import Note, Ready
from whence.types import Instant


class _Request(Struct, gc=False):
    """What earlier owners of a ticket published and has not come: up to which entry, and asked for until when."""

    ticket: int
    base: int
    asked: list[Id]
    again_at: Instant | None
    until: Instant


class Handover:
    """What earlier owners of this process's ticket published last, until it has come or is given up."""

    def __init__(self, clock: list[int], settings: DeliverySettings, round_ns: int, requests: RecoveryRequests) -> None:
        self.open: _Request | None = None
        self._clock = clock
        self._settings = settings
        self._recover_ns = settings.recover_rounds * round_ns
        self._wait_ns = settings.hold_rounds * round_ns + self._recover_ns
        self._requests = requests

    def begin(self, ticket_epoch: TicketEpoch, base: int, now: Instant, ready: Ready) -> None:
        """Ask for what earlier owners of a ticket published up to `base` and has not come."""
        if self.open is not None:
            self._give_up()
        ids_max, clock = self._settings.recovery_ids, self._clock[ticket_epoch.ticket]
        if base <= clock:
            return
        first = clock if epoch_of(clock) == epoch_of(base) else entry_of(epoch_of(base), 0)
        missing = range(max(first, base - ids_max) + 1, base + 1)
        asked = self._requests.ask([(ticket_epoch.ticket, entry) for entry in missing], now, ready)
        if asked:
            ready.notes.append(Note("note", "predecessor_asked"))
            again = now + self._recover_ns // 2 if self._settings.recovery == "R1+Rk" else None
            self.open = _Request(ticket_epoch.ticket, base, asked, again, now + self._wait_ns)

    def tick(self, now: Instant, ready: Ready) -> None:
        """Ask others where the publisher did not answer; give up when the time is over."""
        request = self.open
        if request is None:
            return
        if self._clock[request.ticket] >= request.base or now >= request.until:
            self._give_up()
        elif request.again_at is not None and now >= request.again_at:
            request.again_at = None
            self._requests.ask_more(request.asked, ready)

    def awaits(self, stamp: Stamp) -> bool:
        """Tell whether a bundle is among what was asked for here."""
        request = self.open
        return request is not None and stamp.ticket == request.ticket and stamp.entry <= request.base

    def wake_at(self) -> Instant | None:
        """Return when tick has something to do."""
        request = self.open
        if request is None or self._clock[request.ticket] >= request.base:
            return None
        return request.until if request.again_at is None else request.again_at

    def _give_up(self) -> None:
        """Ask no more for what did not come; others may still."""
        request, self.open = self.open, None
        if request is not None:
            self._requests.drop(request.asked)
