"""What a process remembers of itself as a witness, and writes down for its later incarnations.

Promises: whatever a witness said, that it keeps a record or that it fenced an epoch, each of its later incarnations
knows, until one of them finds no journal. So a restarted witness is the same witness: it says since which incarnation
it remembers everything, and speaks for each of them. Only one that lost its journal is another one.
Assumes: what is written goes to the disk before anything that follows from it is sent (core/ready.py).
The sentence that decides: a process speaks for a witness if it is a later or the same incarnation, and remembers
everything since that one or an earlier one.
Source: docs/papers/optimistic.md 4.9, X6; trap F34.
"""

from collections.abc import Sequence
from struct import Struct as Layout

import msgspec
from msgspec import Struct

from whence.core.levels.optimistic.tickets.lease import NEVER
from whence.core.levels.optimistic.tickets.record_bytes import readable
from whence.errors import StorageError
from whence.types import Instant, Process

MARK = (2**32 - 2).to_bytes(4, "little")
"""The first bytes of these records in the journal. A seed's own records begin otherwise (acceptor)."""

_BEGINNING, _FENCE, _RECORD, _DROPPED = b"B", b"F", b"R", b"D"
_TICKET_EPOCH = Layout("<HI")


class Beginning(Struct, frozen=True, array_like=True):
    """Since when a process remembers, and what its leases were like."""

    since: int
    """The first incarnation of which it remembers everything."""
    wait_ns: int
    """How long a lease it lent may be counted on, on any clock within the bound."""
    seeds: tuple[int, ...]


class Remembered(Struct, frozen=True):
    """What earlier incarnations wrote down as witnesses."""

    fences: dict[int, int]
    """Ticket to the highest dead epoch."""
    records: dict[tuple[int, int], bytes]
    """Ticket and epoch to the last record that was acknowledged."""


def speaks_for(sender: Process, since: int, witness: Process) -> bool:
    """Tell whether a process that remembers everything since an incarnation is this witness."""
    return sender.pid == witness.pid and since <= witness.incarnation <= sender.incarnation


class Answers:
    """Which witnesses answered something, whatever incarnation of them did."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}
        """Process and since when it remembers, to the latest incarnation that answered."""

    def add(self, sender: Process, since: int) -> None:
        """Note an answer."""
        key = sender.pid, since
        self._last[key] = max(sender.incarnation, self._last.get(key, 0))

    def discard(self, sender: Process, since: int) -> None:
        """Forget an answer."""
        self._last.pop((sender.pid, since), None)

    def __contains__(self, witness: Process) -> bool:
        return any(
            pid == witness.pid and since <= witness.incarnation <= last for (pid, since), last in self._last.items()
        )

    def __len__(self) -> int:
        return len({pid for pid, _ in self._last})


class Memory:
    """Since when this process remembers, and what is still to be written down."""

    def __init__(self, me: Process, wait_ns: int, seeds: tuple[int, ...]) -> None:
        self.since = me.incarnation
        self.restored = False
        """An earlier incarnation of this process was in the group, and left its journal."""
        self._own_wait_ns = wait_ns
        self._seeds = seeds
        self._written = Beginning(0, 0, ())
        self._drained_at: Instant = NEVER
        """When no lease counts any more that an earlier incarnation lent."""
        self._unwritten: list[bytes] = []

    def begin(self) -> None:
        """Remember from now on, unless an earlier incarnation did."""
        if not self._written.since:
            self._begin_with(self._own_wait_ns)

    def take(self) -> list[bytes]:
        """Return what must be written down before anything that follows from it is sent."""
        unwritten, self._unwritten = self._unwritten, []
        return unwritten

    # --- what a witness promises ---

    def wait_ns(self, now: Instant) -> int:
        """Return how long from now a lease may be counted on that this or an earlier incarnation lent."""
        return max(self._own_wait_ns, self._drained_at - now)

    def let_drain(self, now: Instant) -> None:
        """Write down, once the leases of earlier incarnations have ended, that they need not be waited for again."""
        if self._written.wait_ns > self._own_wait_ns and now >= self._drained_at:
            self._begin_with(self._own_wait_ns)

    def keep_fence(self, ticket: int, epoch: int) -> None:
        """Write down that an epoch is dead."""
        self._unwritten.append(MARK + _FENCE + _TICKET_EPOCH.pack(ticket, epoch))

    def keep_record(self, record: bytes) -> None:
        """Write down a coordinator's record."""
        self._unwritten.append(MARK + _RECORD + record)

    def drop_record(self, ticket: int, epoch: int) -> None:
        """Write down that a record is no longer needed."""
        self._unwritten.append(MARK + _DROPPED + _TICKET_EPOCH.pack(ticket, epoch))

    # --- what lasts ---

    def restore(self, journal: Sequence[bytes], now: Instant) -> Remembered:
        """Take up what earlier incarnations wrote down. Raises StorageError if the seeds were others."""
        remembered = Remembered({}, {})
        for written in journal:
            if written[:4] == MARK:
                self._take_up(written[4:5], written[5:], remembered)
        before = self._written
        if not before.since:
            return Remembered({}, {})
        if set(before.seeds) != set(self._seeds):
            was, now_is = (", ".join(map(str, sorted(seeds))) for seeds in (before.seeds, self._seeds))
            raise StorageError(
                f"the seeds of this group were {was} when it was last open here, and now are {now_is}: a majority of "
                "the new ones need not know what the old ones decided; name the same, or open another group"
            )
        self.since, self.restored = before.since, True
        self._drained_at = now + before.wait_ns
        if self._own_wait_ns > before.wait_ns:
            self._begin_with(self._own_wait_ns)
        return remembered

    def checkpoint(self, remembered: Remembered) -> list[bytes]:
        """Return records that stand for all that was written down."""
        if not self._written.since:
            return []
        fences = [MARK + _FENCE + _TICKET_EPOCH.pack(*fence) for fence in sorted(remembered.fences.items())]
        records = [MARK + _RECORD + record for _, record in sorted(remembered.records.items())]
        return [_packed(self._written), *fences, *records]

    def _begin_with(self, wait_ns: int) -> None:
        self._written = Beginning(self.since, wait_ns, self._seeds)
        self._unwritten.append(_packed(self._written))

    def _take_up(self, kind: bytes, data: bytes, remembered: Remembered) -> None:
        if kind == _BEGINNING:
            self._written = msgspec.msgpack.decode(data, type=Beginning)
        elif kind == _RECORD and readable(data):
            ticket, epoch = _TICKET_EPOCH.unpack_from(data)
            remembered.records[ticket, epoch] = data
        elif kind in (_FENCE, _DROPPED):
            ticket, epoch = _TICKET_EPOCH.unpack(data)
            if kind == _FENCE:
                remembered.fences[ticket] = max(epoch, remembered.fences.get(ticket, 0))
            else:
                remembered.records.pop((ticket, epoch), None)


def _packed(beginning: Beginning) -> bytes:
    return MARK + _BEGINNING + msgspec.msgpack.encode(beginning)
