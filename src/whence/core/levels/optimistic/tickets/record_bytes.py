"""The bytes of records and of processes, as they travel and as seeds write them down.

`readable` judges bytes before anything is made of them, and makes nothing larger than they are.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct as Layout
from struct import error as TooShort
from typing import Annotated, TypeAlias

from msgspec import Meta

from whence.core.levels.optimistic.tickets.records import (
    LAST,
    LASTS_MAX,
    TICKETS_MAX,
    WITNESSES_MAX,
    Pointer,
    Processes,
    Record,
    TicketEpoch,
)
from whence.types import Process

PROCESS = Layout("<HI")
"""pid, incarnation."""
_POINTER = Layout("<HIHIIB")
_HEAD = Layout("<HIHIIIIBB")
_FLAG = Layout("<B")

RECORD_BYTES_MAX = _HEAD.size + 2 * (_POINTER.size + 1) + 4 * PROCESS.size * WITNESSES_MAX + 2 + LASTS_MAX * LAST.size

RecordBytes: TypeAlias = Annotated[bytes, Meta(max_length=RECORD_BYTES_MAX)]
ProcessBytes: TypeAlias = Annotated[bytes, Meta(max_length=PROCESS.size * WITNESSES_MAX)]


def pack_processes(processes: Iterable[Process]) -> bytes:
    """Return processes end to end."""
    return b"".join([PROCESS.pack(*process) for process in processes])


def unpack_processes(data: bytes) -> Processes:
    """Return the processes in the bytes. Raises ValueError if they are not whole."""
    if len(data) % PROCESS.size:
        raise ValueError(f"processes take {PROCESS.size} bytes each, and there are {len(data)}")
    return tuple([Process(pid, incarnation) for pid, incarnation in PROCESS.iter_unpack(data)])


def _pack_pointer(pointer: Pointer) -> bytes:
    ticket_epoch, owner = pointer.ticket_epoch, pointer.owner
    head = _POINTER.pack(*ticket_epoch, *owner, pointer.version, len(pointer.witnesses))
    return head + pack_processes(pointer.witnesses)


@lru_cache(maxsize=2048)
def pack(record: Record) -> bytes:
    """Return the bytes of a record."""
    installed, proposed = record.witnesses, record.proposed
    numbers = (record.generation, record.version, record.top, len(installed), len(proposed))
    parts = (
        _HEAD.pack(*record.ticket_epoch, *record.owner, *numbers),
        pack_processes(installed),
        pack_processes(proposed),
        _pack_pointer(record.succ),
        b"\x00" if record.beyond is None else b"\x01" + _pack_pointer(record.beyond),
        record.last,
    )
    return b"".join(parts)


class _Reader:
    """Reads a record's bytes from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, layout: Layout) -> tuple[int, ...]:
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def processes(self, count: int) -> Processes:
        start, self.at = self.at, self.at + PROCESS.size * count
        return unpack_processes(self.data[start : self.at])

    def pointer(self) -> Pointer:
        ticket, epoch, pid, incarnation, version, count = self.take(_POINTER)
        return Pointer(TicketEpoch(ticket, epoch), Process(pid, incarnation), version, self.processes(count))


@lru_cache(maxsize=2048)
def unpack(data: bytes) -> Record:
    """Return the record in the bytes. Raises ValueError if there is none."""
    if not readable(data):
        raise ValueError("these bytes are no record")
    reader = _Reader(data)
    ticket, epoch, pid, incarnation, generation, version, top, installed, proposed = reader.take(_HEAD)
    witnesses, planned = reader.processes(installed), reader.processes(proposed)
    succ = reader.pointer()
    beyond = reader.pointer() if reader.take(_FLAG)[0] else None
    owner = Process(pid, incarnation)
    ticket_epoch = TicketEpoch(ticket, epoch)
    return Record(
        ticket_epoch, owner, generation, version, top, witnesses, planned, succ, beyond, data[reader.at :]
    )  # fmt: skip


def readable(data: bytes) -> bool:
    """Tell whether the bytes are a record of numbers that members write; makes nothing larger than they are."""
    try:
        ticket, epoch, _, incarnation, generation, version, top, installed, proposed = _HEAD.unpack_from(data)
    except TooShort:
        return False
    if max(epoch, incarnation, generation, version, top) >> 31 or ticket >= TICKETS_MAX:
        return False
    if max(installed, proposed) > WITNESSES_MAX:
        return False
    at = _HEAD.size
    end = at + PROCESS.size * (installed + proposed)
    if not are_processes(data[at:end], installed + proposed):
        return False
    after = _past_pointer(data, end)
    if after is None or after >= len(data) or data[after] > 1:
        return False
    if data[after]:
        beyond = _past_pointer(data, after + 1)
        if beyond is None:
            return False
        after = beyond - 1
    last = data[after + 1 :]
    if len(last) % LAST.size or len(last) > LASTS_MAX * LAST.size:
        return False
    return all(number < TICKETS_MAX and not entry >> 63 for number, entry in LAST.iter_unpack(last))


def _past_pointer(data: bytes, at: int) -> int | None:
    """Return where a pointer that begins here ends, or None if there is none."""
    try:
        ticket, epoch, _, incarnation, version, count = _POINTER.unpack_from(data, at)
    except TooShort:
        return None
    if ticket >= TICKETS_MAX or max(epoch, incarnation, version) >> 31 or count > WITNESSES_MAX:
        return None
    start = at + _POINTER.size
    end = start + PROCESS.size * count
    return end if are_processes(data[start:end], count) else None


def are_processes(data: bytes, count: int | None = None) -> bool:
    """Tell whether these are whole processes, `count` of them if given: no incarnation has more than 31 bits."""
    size = PROCESS.size
    whole = len(data) == size * count if count is not None else len(data) % size == 0
    return whole and data[5::size].isascii()
