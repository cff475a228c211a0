"""What each change makes of a record: pure algebra of intervals, pointers and epochs.

A grant splits an interval, an absorption merges one that was given back, a takeover merges closed ones. Source:
docs/papers/optimistic.md 4.5, 4.7, 4.8, 4.10 (Theorem 4.2); traps B4, B6.
"""

from msgspec import structs

from whence.core.levels.optimistic.tickets.records import (
    Pointer,
    Processes,
    Record,
    TicketEpoch,
    covered,
    last_among,
    merged_last,
)
from whence.types import Process


def tickets_of(record: Record, tickets: int) -> list[int]:
    """Return what a record's owner coordinates, its own ticket first."""
    return covered(record.ticket_epoch.ticket, record.succ.ticket_epoch.ticket, tickets)


def grantable(record: Record, tickets: int) -> list[int]:
    """Return the tickets it may give away: all it coordinates but its own."""
    return tickets_of(record, tickets)[1:]


def granted(
    record: Record, ticket_epoch: TicketEpoch, joiner: Process, witnesses: Processes, tickets: int
) -> tuple[Record, Record]:
    """Return the record of the granter and the first one of the joiner, whose epoch nobody has had."""
    epoch = ticket_epoch.epoch
    own = record.pointer()
    theirs = Record(
        ticket_epoch=ticket_epoch, owner=joiner, generation=record.generation, version=0, top=epoch,
        witnesses=witnesses, proposed=(),
        succ=own if record.alone() else record.succ,
        beyond=None if record.alone() else record.beyond,
    )  # fmt: skip
    theirs = _with_last(theirs, record.last, tickets)
    mine = record.next(succ=theirs.pointer(), beyond=theirs.succ, top=epoch)
    return _with_last(mine, record.last, tickets), theirs


def absorbed(record: Record, leaver: Record, tickets: int) -> Record:
    """Return the record once the successor's interval has come back with its final record."""
    top = max(record.top, leaver.top, leaver.ticket_epoch.epoch) + 1
    return _onward(record, leaver.succ, leaver.beyond, top, leaver.last, tickets)


def taken_over(
    record: Record, succ: Pointer | None, beyond: Pointer | None, top: int, last: bytes, tickets: int
) -> Record:
    """Return the record once everybody up to a new successor is closed; None: everybody."""
    return _onward(record, succ or record.pointer(), beyond, max(record.top, top) + 1, last, tickets)


def _onward(record: Record, succ: Pointer, beyond: Pointer | None, top: int, last: bytes, tickets: int) -> Record:
    if succ.ticket_epoch == record.ticket_epoch:
        succ, beyond = record.pointer(), None
    return _with_last(record.next(succ=succ, beyond=beyond, top=top), merged_last(record.last, last), tickets)


def _with_last(record: Record, last: bytes, tickets: int) -> Record:
    """Return the record with the last events of the tickets it coordinates."""
    return structs.replace(record, last=last_among(last, tickets_of(record, tickets)))
