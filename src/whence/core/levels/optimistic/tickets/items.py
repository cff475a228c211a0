"""What members send each other about tickets. Items about a coordinator name its ticket epoch; others ignore them.

Source: docs/papers/optimistic.md 4.3, with the paper's names where the role is the same. All handlers are idempotent.
"""

from typing import Annotated, ClassVar

from msgspec import Meta

from whence.core.levels.optimistic.tickets.record_bytes import (
    PROCESS,
    ProcessBytes,
    RecordBytes,
    are_processes,
    readable,
)
from whence.core.levels.optimistic.tickets.records import Epoch, Ticket, Version
from whence.core.ready import Item
from whence.types import Incarnation

Nonce = Annotated[int, Meta(ge=0, le=2**31 - 1)]
StoryStep = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A time on the sender's own clock; only the sender reads it."""

Entry = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Wait = Annotated[int, Meta(ge=0, le=2**62)]
HINTS_MAX = 16


def _readable_or_none(data: bytes) -> bool:
    return not data or readable(data)


class Renew(Item, frozen=True, tag=40):
    """Let me act for another lease: here is my record. `sent_at` comes back with the answer."""

    ticket: Ticket
    epoch: Epoch
    version: Version
    sent_at: StoryStep
    record: RecordBytes
    lease_ns: Wait
    """How long I count on your answer. Whoever closes me waits as long as you say, so you lend no longer lease than
    yours."""

    def is_valid(self) -> bool:
        """Tell whether the record can be read."""
        return readable(self.record)


class Alive(Item, frozen=True, tag=41):
    """You may, counted from when you asked; I keep this version of your record.

    `since`, here and in a witness's other answers: I remember everything since this incarnation, so I am the witness
    that each incarnation from then on was.
    """

    ticket: Ticket
    epoch: Epoch
    version: Version
    sent_at: StoryStep
    since: Incarnation


class Fenced(Item, frozen=True, tag=42):
    """That epoch is dead here, for good."""

    ticket: Ticket
    epoch: Epoch
    since: Incarnation


class Update(Item, frozen=True, tag=43):
    """To the successor (ticket, epoch): I precede you; these are the coordinators before you, nearest first."""

    ticket: Ticket
    epoch: Epoch
    pred_ticket: Ticket
    pred_epoch: Epoch
    stamp: Epoch
    ring: ProcessBytes

    def is_valid(self) -> bool:
        """Tell whether the ring is whole."""
        return are_processes(self.ring)


class AckUpdate(Item, frozen=True, tag=44):
    """I am (ticket, epoch), with these witnesses; `active` once I have held a lease."""

    ticket: Ticket
    epoch: Epoch
    version: Version
    witnesses: ProcessBytes
    active: bool

    def is_valid(self) -> bool:
        """Tell whether the witnesses are whole."""
        return are_processes(self.witnesses)


class NotCoordinator(Item, frozen=True, tag=45):
    """I will never act as (ticket, epoch). With my final record; without one if I never registered any."""

    ticket: Ticket
    epoch: Epoch
    forgot: bool
    """There was a record, and I no longer have it: ask its witnesses."""
    record: RecordBytes

    def is_valid(self) -> bool:
        """Tell whether the record can be read, if there is one."""
        return _readable_or_none(self.record)


class Probe(Item, frozen=True, tag=46):
    """Has (ticket, epoch) renewed its lease with you lately?"""

    ticket: Ticket
    epoch: Epoch


class Fresh(Item, frozen=True, tag=47):
    """It has."""

    ticket: Ticket
    epoch: Epoch
    since: Incarnation


class Stale(Item, frozen=True, tag=63):
    """It has not; this is the last record I have of it, if I have one."""

    ticket: Ticket
    epoch: Epoch
    record: RecordBytes
    since: Incarnation

    def is_valid(self) -> bool:
        """Tell whether the record can be read, if there is one."""
        return _readable_or_none(self.record)


class Exclude(Item, frozen=True, tag=48):
    """Those between us are gone: are you (ticket, epoch), and do you live?"""

    ticket: Ticket
    epoch: Epoch


class AckExclude(Item, frozen=True, tag=49):
    """I am, and I do: here is my record."""

    ticket: Ticket
    epoch: Epoch
    leaving: bool
    record: RecordBytes

    def is_valid(self) -> bool:
        """Tell whether the record can be read."""
        return readable(self.record)


class RequestFence(Item, frozen=True, tag=50):
    """Never renew (ticket, epoch) again, nor any earlier epoch (the paper's REQCOORD)."""

    ticket: Ticket
    epoch: Epoch


class AckFence(Item, frozen=True, tag=51):
    """I never will; this is the last record I have of it, if any (the paper's ACKCOORD)."""

    ticket: Ticket
    epoch: Epoch
    record: RecordBytes
    since: Incarnation
    wait_ns: Wait
    """How long from now it may still count on a lease of mine."""

    def is_valid(self) -> bool:
        """Tell whether the record can be read, if there is one."""
        return _readable_or_none(self.record)


class AcquireTicket(Item, frozen=True, tag=52):
    """Give me a ticket (CJOIN)."""

    asks_to_write: ClassVar[bool] = True
    nonce: Nonce


class AckAcquireTicket(Item, frozen=True, tag=53):
    """It is yours once you hold leases (ACKCJOIN): your first record, and the last event of the owner before you."""

    nonce: Nonce
    record: RecordBytes
    base: Entry

    def is_valid(self) -> bool:
        """Tell whether the record can be read."""
        return readable(self.record)


class RejectAcquireTicket(Item, frozen=True, tag=54):
    """I cannot give you one now. `active` tells that I am a coordinator; the hints name some others."""

    nonce: Nonce
    active: bool
    full: bool
    hints: Annotated[bytes, Meta(max_length=PROCESS.size * HINTS_MAX)]

    def is_valid(self) -> bool:
        """Tell whether the hints are whole."""
        return are_processes(self.hints)


class ReleaseTicket(Item, frozen=True, tag=55):
    """I have stopped acting as (ticket, epoch): take what I coordinated (CLEAVE)."""

    ticket: Ticket
    epoch: Epoch
    record: RecordBytes

    def is_valid(self) -> bool:
        """Tell whether the record can be read."""
        return readable(self.record)


class AckReleaseTicket(Item, frozen=True, tag=56):
    """I have it (ACKCLEAVE)."""

    ticket: Ticket
    epoch: Epoch


class GenerationRead(Item, frozen=True, tag=57):
    """To a seed: promise to accept no founder with a lower ballot, and tell what you accepted (GREAD)."""

    ballot: Nonce


class GenerationValue(Item, frozen=True, tag=58):
    """A seed's answer (GVAL): whether it promised, what it promised, the generation and founder it accepted."""

    ballot: Nonce
    promised: bool
    highest: Nonce
    generation: Epoch
    genesis: RecordBytes
    start: RecordBytes
    """A recent record of that generation, to begin a walk at."""
    floor: Epoch
    """No epoch above it has been given, as far as this seed knows."""

    def is_valid(self) -> bool:
        """Tell whether the records can be read, if there are any."""
        return _readable_or_none(self.genesis) and _readable_or_none(self.start)


class Genesis(Item, frozen=True, tag=59):
    """To a seed: accept me as the founder of this generation (GENESIS)."""

    ballot: Nonce
    generation: Epoch
    record: RecordBytes

    def is_valid(self) -> bool:
        """Tell whether the record can be read."""
        return readable(self.record)


class GenesisAnswer(Item, frozen=True, tag=60):
    """A seed's answer: accepted (GENOK), or refused for a higher ballot."""

    ballot: Nonce
    accepted: bool
    highest: Nonce


class Reserve(Item, frozen=True, tag=64):
    """To a seed: write down that epochs up to this one may be given."""

    epoch: Epoch


class Reserved(Item, frozen=True, tag=65):
    """A seed's answer: it is written down; before, no epoch above `floor` was."""

    epoch: Epoch
    floor: Epoch


ITEMS: tuple[type[Item], ...] = (
    Renew, Alive, Fenced, Update, AckUpdate, NotCoordinator, Probe, Fresh, Exclude, AckExclude, RequestFence, AckFence,
    AcquireTicket, AckAcquireTicket, RejectAcquireTicket, ReleaseTicket, AckReleaseTicket,
    GenerationRead, GenerationValue, Genesis, GenesisAnswer, Stale, Reserve, Reserved,
)  # fmt: skip
"""Every item of this protocol."""

TO_WITNESSES = (Renew, Probe, RequestFence)
"""Items that any incarnation of a process may take: its answer says for which of them it speaks."""
