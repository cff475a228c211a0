"""The nouns of tickets, and their bytes.

A coordinator is a *claim*: (ticket, epoch), never a process; the same process may come back with another claim. Its
*record* is what its witnesses keep of it: who may see it die, and whom it coordinates up to. The successor of ticket i
is i - 1: a coordinator with ticket i and successor j coordinates i, i - 1, …, j + 1; alone, all of them.
Source: tickets_twolayer 4.2; traps B6, B12, F31.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct as Layout
from struct import error as TooShort
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta, Struct, structs

from whence.types import Process

TICKETS_MAX = 4096
"""Tickets of a cluster: entries of its vector clock."""

EPOCH_MAX = 2**31 - 1
VERSION_MAX = 2**31 - 1
K_MAX = 4
"""More than four failures within one repair are not planned for: nine witnesses."""

WITNESSES_MAX = 2 * K_MAX + 1
PROCESS = Layout("<HI")
"""pid, boot."""
_CLAIM = Layout("<HI")
_LAST = Layout("<HQ")
_POINTER = Layout("<HIHIIB")
_HEAD = Layout("<HIHIIIIBB")
_FLAG = Layout("<B")
LASTS_MAX = 256
"""Tickets whose last event a record names. Full: those of the oldest epochs are left out."""

RECORD_BYTES_MAX = _HEAD.size + 2 * (_POINTER.size + 1) + 4 * PROCESS.size * WITNESSES_MAX + 2 + LASTS_MAX * _LAST.size

Ticket: TypeAlias = Annotated[int, Meta(ge=0, le=TICKETS_MAX - 1)]
Epoch: TypeAlias = Annotated[int, Meta(ge=0, le=EPOCH_MAX)]
Version: TypeAlias = Annotated[int, Meta(ge=0, le=VERSION_MAX)]
RecordBytes: TypeAlias = Annotated[bytes, Meta(max_length=RECORD_BYTES_MAX)]
ProcessBytes: TypeAlias = Annotated[bytes, Meta(max_length=PROCESS.size * WITNESSES_MAX)]
Processes: TypeAlias = tuple[Process, ...]


class Claim(NamedTuple):
    """One ownership of one ticket: a coordinator's whole identity."""

    ticket: int
    epoch: int


class Pointer(NamedTuple):
    """A coordinator as another one knows it, and whom to ask about it."""

    claim: Claim
    owner: Process
    version: int
    witnesses: Processes


class Record(Struct, frozen=True):
    """What a coordinator registered with its witnesses; of two, the higher version is the later."""

    claim: Claim
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
        return Pointer(self.claim, self.owner, self.version, self.witnesses)

    def alone(self) -> bool:
        """Tell whether it is its own successor."""
        return self.succ.claim == self.claim

    def next(self, **changes: object) -> "Record":
        """Return the next version with these changes."""
        return structs.replace(self, version=self.version + 1, **changes)

    def last_of(self, ticket: int) -> int:
        """Return the last event known of a ticket, or 0."""
        return next((entry for known, entry in _LAST.iter_unpack(self.last) if known == ticket), 0)


def covered(own: int, succ: int, tickets: int) -> list[int]:
    """Return the tickets that the owner of one coordinates: down to the one above its successor's, its own first."""
    count = (own - succ) % tickets or tickets
    return [(own - at) % tickets for at in range(count)]


def majority(witnesses: Processes) -> int:
    """Return how many of them must agree; of none, none."""
    return len(witnesses) // 2 + 1 if witnesses else 0


def blocking(witnesses: Processes) -> int:
    """Return how many of them must refuse, so that no majority is left."""
    return len(witnesses) - majority(witnesses) + 1


def merged_last(*lists: bytes) -> bytes:
    """Return the highest entry of every ticket in several lists; of more than LASTS_MAX, those of the latest epochs."""
    best: dict[int, int] = {}
    for entries in lists:
        for ticket, entry in _LAST.iter_unpack(entries):
            best[ticket] = max(entry, best.get(ticket, 0))
    chosen = sorted(best.items(), key=lambda known: (-known[1], known[0]))[:LASTS_MAX]
    return b"".join([_LAST.pack(ticket, entry) for ticket, entry in chosen])


def last_with(known: bytes, ticket: int, entry: int) -> bytes:
    """Return a list of last events that also knows this one."""
    return merged_last(known, _LAST.pack(ticket, entry)) if entry else known


def last_among(known: bytes, tickets: Iterable[int]) -> bytes:
    """Return only the last events of these tickets."""
    kept = dict.fromkeys(tickets)
    return b"".join([_LAST.pack(ticket, entry) for ticket, entry in _LAST.iter_unpack(known) if ticket in kept])


# --- bytes ---


def pack_processes(processes: Iterable[Process]) -> bytes:
    """Return processes end to end."""
    return b"".join([PROCESS.pack(*process) for process in processes])


def unpack_processes(data: bytes) -> Processes:
    """Return the processes in the bytes. Raises ValueError if they are not whole."""
    if len(data) % PROCESS.size:
        raise ValueError(f"processes take {PROCESS.size} bytes each, and there are {len(data)}")
    return tuple([Process(pid, boot) for pid, boot in PROCESS.iter_unpack(data)])


def _pack_pointer(pointer: Pointer) -> bytes:
    claim, owner = pointer.claim, pointer.owner
    head = _POINTER.pack(*claim, *owner, pointer.version, len(pointer.witnesses))
    return head + pack_processes(pointer.witnesses)


@lru_cache(maxsize=2048)
def pack(record: Record) -> bytes:
    """Return the bytes of a record."""
    installed, proposed = record.witnesses, record.proposed
    numbers = (record.generation, record.version, record.top, len(installed), len(proposed))
    parts = (
        _HEAD.pack(*record.claim, *record.owner, *numbers),
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
        ticket, epoch, pid, boot, version, count = self.take(_POINTER)
        return Pointer(Claim(ticket, epoch), Process(pid, boot), version, self.processes(count))


@lru_cache(maxsize=2048)
def unpack(data: bytes) -> Record:
    """Return the record in the bytes. Raises ValueError if there is none."""
    if not readable(data):
        raise ValueError("these bytes are no record")
    reader = _Reader(data)
    ticket, epoch, pid, boot, generation, version, top, installed, proposed = reader.take(_HEAD)
    witnesses, planned = reader.processes(installed), reader.processes(proposed)
    succ = reader.pointer()
    beyond = reader.pointer() if reader.take(_FLAG)[0] else None
    owner = Process(pid, boot)
    claim = Claim(ticket, epoch)
    return Record(
        claim, owner, generation, version, top, witnesses, planned, succ, beyond, data[reader.at :]
    )  # fmt: skip


def readable(data: bytes) -> bool:
    """Tell whether the bytes are a record of numbers that members write; makes nothing larger than they are."""
    try:
        ticket, epoch, _, boot, generation, version, top, installed, proposed = _HEAD.unpack_from(data)
    except TooShort:
        return False
    if max(epoch, boot, generation, version, top) >> 31 or ticket >= TICKETS_MAX:
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
    if len(last) % _LAST.size or len(last) > LASTS_MAX * _LAST.size:
        return False
    return all(number < TICKETS_MAX and not entry >> 63 for number, entry in _LAST.iter_unpack(last))


def _past_pointer(data: bytes, at: int) -> int | None:
    """Return where a pointer that begins here ends, or None if there is none."""
    try:
        ticket, epoch, _, boot, version, count = _POINTER.unpack_from(data, at)
    except TooShort:
        return None
    if ticket >= TICKETS_MAX or max(epoch, boot, version) >> 31 or count > WITNESSES_MAX:
        return None
    start = at + _POINTER.size
    end = start + PROCESS.size * count
    return end if are_processes(data[start:end], count) else None


def are_processes(data: bytes, count: int | None = None) -> bool:
    """Tell whether these are whole processes, so many if told: no boot has more than 31 bits."""
    size = PROCESS.size
    whole = len(data) == size * count if count is not None else len(data) % size == 0
    return whole and data[5::size].isascii()
