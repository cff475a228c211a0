"""A witness: remembers coordinators' records, lends them leases, and never breaks a fence.

Promises: once it fenced (ticket, epoch), it renews no epoch up to that one again, for as long as the process lives; an
answer to a fence shows the latest record it ever acknowledged. It never refuses to fence.
Assumes: a restarted process is another process, because fences live in memory.
The sentence that decides: a lease is renewed if its epoch is above the ticket's fence.
Source: docs/papers/optimistic.md 4.2, 4.4, 4.7; traps F14, F15, F34. Costs one look-up per renewal.
"""

from msgspec import Struct

from whence.core.levels.optimistic.tickets.items import (
    AckFence,
    Alive,
    Fenced,
    Fresh,
    Probe,
    Renew,
    RequestFence,
    Stale,
)
from whence.core.levels.optimistic.tickets.record_bytes import unpack
from whence.core.levels.optimistic.tickets.records import Record, TicketEpoch
from whence.core.ready import Gauge, Item
from whence.types import Instant

RECORDS_PER_TICKET_MAX = 12
"""Records of one ticket's epochs kept side by side. Full: the lowest epoch is dropped if it is old, else none is
taken in and the renewal stays unanswered."""

RETAINED_EPOCHS = 3
"""Epochs of a ticket that are kept whatever their age."""


class RegisteredRecord(Struct):
    """A record, when it was last renewed, and when its epoch was first registered here."""

    record: bytes
    version: int
    seen: Instant
    since: Instant


class Witness:
    """What one process remembers of other coordinators."""

    def __init__(self, tickets: int, lease_ns: int, keep_ns: int) -> None:
        self._tickets = tickets
        self._lease_ns = lease_ns
        self._keep_ns = keep_ns
        self._fences: dict[int, int] = {}
        """Ticket to the highest dead epoch. Never dropped: one number per ticket."""
        self._records: dict[int, dict[int, RegisteredRecord]] = {}

    def renew(self, item: Renew, now: Instant) -> Item | None:
        """Lend another lease, unless the epoch is fenced."""
        if self.fenced(TicketEpoch(item.ticket, item.epoch)):
            return Fenced(item.ticket, item.epoch)
        epochs = self._records.setdefault(item.ticket, {})
        stored = epochs.get(item.epoch)
        if stored is None:
            if not self._room(epochs, now):
                return None
            stored = epochs[item.epoch] = RegisteredRecord(item.record, item.version, now, now)
        if item.version >= stored.version:
            stored.record, stored.version = item.record, item.version
        stored.seen = now
        return Alive(item.ticket, item.epoch, item.version, item.sent_at)

    def fence(self, item: RequestFence) -> AckFence:
        """Never renew this epoch nor an earlier one again; tell what is known of it."""
        self._fences[item.ticket] = max(item.epoch, self._fences.get(item.ticket, 0))
        stored = self._records.get(item.ticket, {}).get(item.epoch)
        return AckFence(item.ticket, item.epoch, b"" if stored is None else stored.record)

    def probe(self, item: Probe, now: Instant) -> Fresh | Stale:
        """Tell whether the epoch renewed its lease within one lease, and is not fenced; if not, what is known of it.

        Its record shows by whom this witness was replaced, if it was.
        """
        stored = self._records.get(item.ticket, {}).get(item.epoch)
        if stored is None:
            return Stale(item.ticket, item.epoch, b"")
        if now - stored.seen > self._lease_ns or self.fenced(TicketEpoch(item.ticket, item.epoch)):
            return Stale(item.ticket, item.epoch, stored.record)
        return Fresh(item.ticket, item.epoch)

    def lease_left_ns(self, ticket_epoch: TicketEpoch, now: Instant) -> int | None:
        """Return how much is left of the lease lent to a ticket epoch; None if none was lent here."""
        stored = self._records.get(ticket_epoch.ticket, {}).get(ticket_epoch.epoch)
        if stored is None or self.fenced(ticket_epoch):
            return None
        return max(0, self._lease_ns - (now - stored.seen))

    def fenced(self, ticket_epoch: TicketEpoch) -> bool:
        """Tell whether a ticket epoch is fenced here."""
        return ticket_epoch.epoch <= self._fences.get(ticket_epoch.ticket, 0)

    def recent(self) -> list[Record]:
        """Return the latest record of every ticket, the one renewed last first."""
        latest = [max(epochs.items())[1] for epochs in self._records.values() if epochs]
        return [unpack(stored.record) for stored in sorted(latest, key=lambda stored: -stored.seen)]

    def gauges(self) -> list[Gauge]:
        """Return how much is remembered."""
        records = sum(map(len, self._records.values()))
        return [
            Gauge("witness_fences", len(self._fences), self._tickets),
            Gauge("witness_records", records, self._tickets * RECORDS_PER_TICKET_MAX),
        ]

    def _room(self, epochs: dict[int, RegisteredRecord], now: Instant) -> bool:
        """Drop the lowest epochs that nobody can ask for any more: higher ones have been registered for long."""
        for epoch in sorted(epochs)[: -RETAINED_EPOCHS + 1]:
            higher = [stored.since for other, stored in epochs.items() if other > epoch]
            if higher and now - min(higher) > self._keep_ns and now - epochs[epoch].seen > self._keep_ns:
                del epochs[epoch]
        return len(epochs) < RECORDS_PER_TICKET_MAX
