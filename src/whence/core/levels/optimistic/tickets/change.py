"""Registered changes: a coordinator acts on a change of its record only after a majority of its witnesses keeps it.

Otherwise whoever fences it would not find its successor, or the witnesses it counts on (Lemmas A and C). At most one
change is under way at a time. Source: tickets_twolayer 4.5; traps B9, F13, F18.
"""

from enum import Enum

from msgspec import Struct, field

from whence.core.levels.optimistic.tickets.records import Record, majority
from whence.types import Instant, Process


class Kind(Enum):
    """What is changed."""

    GRANT = "grant"
    ABSORB = "absorb"
    TAKEOVER = "takeover"
    WITNESSES = "witnesses"


class Change(Struct):
    """A change under way: the record as it will be, and who keeps it already."""

    kind: Kind
    record: Record
    since: Instant
    acks: dict[Process, None] = field(default_factory=dict)
    joiner: Process | None = None
    nonce: int = 0
    base: int = 0
    leaver: Process | None = None

    def registered(self) -> bool:
        """Tell whether a majority of the installed witnesses, and of the proposed ones, keeps it."""
        record = self.record
        return self._kept_by(record.witnesses) and (not record.proposed or self._kept_by(record.proposed))

    def _kept_by(self, witnesses: tuple[Process, ...]) -> bool:
        return sum(witness in self.acks for witness in witnesses) >= majority(witnesses)
