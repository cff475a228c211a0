"""A witness: remembers coordinators' records, lends them leases, and never breaks a fence.

Promises: once it fenced (ticket, epoch), it renews no epoch up to that one again; an answer to a fence shows the latest
record it ever acknowledged. It never refuses to fence. Its later incarnations keep these promises, if they have its
journal: every fence and every record that was not known before is written down before it is acknowledged.
Assumes: a restarted process without the journal is another witness.
The sentence that decides: a lease is renewed if its epoch is above the ticket's fence.
Source: docs/papers/optimistic.md 4.2, 4.4, 4.7, X6; traps F14, F15, F34. Costs one look-up per renewal, and a write per
change of a record.
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
from whence.core.levels.optimistic.tickets.memory import Memory, Remembered
from whence.core.levels.optimistic.tickets.record_bytes import unpack
from whence.core.levels.optimistic.tickets.records import Record, TicketEpoch
from whence.core.ready import Gauge, Item
from whence.types import Instant

RECORDS_PER_TICKET_MAX = 12
"""Records of one ticket's epochs stored side by side. Full: the lowest epoch is dropped if it is old, else none is
taken in and the renewal stays unanswered."""

RETAINED_EPOCHS = 3
"""Epochs of a ticket that are stored whatever their age."""


class RegisteredRecord(Struct):
    """A record, when it was last renewed, and when its epoch was first registered here."""

    record: bytes
    version: int
    seen: Instant
    since: Instant
    unsure: bool = False
    """An earlier incarnation knew when it was renewed, and `seen` is when this one began."""


class Witness:
    """What one process remembers of other coordinators."""

    def __init__(self, tickets: int, lease_ns: int, keep_ns: int, memory: Memory) -> None:
        self._tickets = tickets
        """Tickets whose coordinators it may be asked about: there may have been more in an earlier generation."""
        self._lease_ns = lease_ns
        self._keep_ns = keep_ns
        self._fences: dict[int, int] = {}
        """Ticket to the highest dead epoch. Never dropped: one number per ticket."""
        self._records: dict[int, dict[int, RegisteredRecord]] = {}
        self._memory = memory

    def restore(self, remembered: Remembered, now: Instant) -> None:
        """Take up what earlier incarnations promised."""
        self._fences.update(remembered.fences)
        for (ticket, epoch), record in remembered.records.items():
            stored = RegisteredRecord(record, unpack(record).version, now, now, unsure=True)
            self._records.setdefault(ticket, {})[epoch] = stored
        self._tickets = max([self._tickets, *[ticket + 1 for ticket in (*self._fences, *self._records)]])

    def remembered(self) -> Remembered:
        """Return what later incarnations must know."""
        records = {
            (ticket, epoch): stored.record for ticket, all_ in self._records.items() for epoch, stored in all_.items()
        }
        return Remembered(self._fences, records)

    def renew(self, item: Renew, now: Instant) -> Item | None:
        """Lend another lease, unless the epoch is fenced, or counts on longer leases than are lent here."""
        if self.fenced(TicketEpoch(item.ticket, item.epoch)):
            return Fenced(item.ticket, item.epoch, self._memory.since)
        if item.lease_ns > self._lease_ns:
            return None
        epochs = self._records.setdefault(item.ticket, {})
        stored = epochs.get(item.epoch)
        if stored is None:
            if not self._room(item.ticket, epochs, now):
                return None
            stored = epochs[item.epoch] = RegisteredRecord(b"", item.version, now, now)
        if item.version >= stored.version and item.record != stored.record:
            stored.record, stored.version = item.record, item.version
            self._memory.keep_record(item.record)
        stored.seen, stored.unsure = now, False
        return Alive(item.ticket, item.epoch, item.version, item.sent_at, self._memory.since)

    def fence(self, item: RequestFence, now: Instant) -> AckFence:
        """Never renew this epoch nor an earlier one again; tell what is known of it, and how long its leases last."""
        if not self.fenced(TicketEpoch(item.ticket, item.epoch)):
            self._fences[item.ticket] = item.epoch
            self._tickets = max(self._tickets, item.ticket + 1)
            self._memory.keep_fence(item.ticket, item.epoch)
        stored = self._records.get(item.ticket, {}).get(item.epoch)
        record = b"" if stored is None else stored.record
        return AckFence(item.ticket, item.epoch, record, self._memory.since, self._memory.wait_ns(now))

    def probe(self, item: Probe, now: Instant) -> Fresh | Stale | None:
        """Tell whether the epoch renewed its lease within one lease, and is not fenced; if not, what is known of it.

        Its record shows by whom this witness was replaced, if it was. If only an earlier incarnation knew whether it
        renewed a moment ago, nothing is said until it has not for one lease.
        """
        stored = self._records.get(item.ticket, {}).get(item.epoch)
        if stored is None:
            return Stale(item.ticket, item.epoch, b"", self._memory.since)
        if now - stored.seen > self._lease_ns or self.fenced(TicketEpoch(item.ticket, item.epoch)):
            return Stale(item.ticket, item.epoch, stored.record, self._memory.since)
        if stored.unsure:
            return None
        return Fresh(item.ticket, item.epoch, self._memory.since)

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

    def top(self) -> int:
        """Return the highest epoch of which it knows."""
        return max([0, *self._fences.values(), *[unpack(stored.record).top for stored in self._all()]])

    def gauges(self) -> list[Gauge]:
        """Return how much is remembered."""
        records = sum(map(len, self._records.values()))
        return [
            Gauge("witness_fences", len(self._fences), self._tickets),
            Gauge("witness_records", records, self._tickets * RECORDS_PER_TICKET_MAX),
        ]

    def _all(self) -> list[RegisteredRecord]:
        return [stored for epochs in self._records.values() for stored in epochs.values()]

    def _room(self, ticket: int, epochs: dict[int, RegisteredRecord], now: Instant) -> bool:
        """Drop the lowest epochs that nobody can ask for any more: higher ones have been registered for long."""
        for epoch in sorted(epochs)[: -RETAINED_EPOCHS + 1]:
            higher = [stored.since for other, stored in epochs.items() if other > epoch]
            if higher and now - min(higher) > self._keep_ns and now - epochs[epoch].seen > self._keep_ns:
                del epochs[epoch]
                self._memory.drop_record(ticket, epoch)
        return len(epochs) < RECORDS_PER_TICKET_MAX
