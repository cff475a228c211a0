"""A seed judges who founds the cluster and which epochs may be given: the acceptor of Paxos.

Promises: it accepts no founder below a ballot it promised, none of a generation it knows already, and none within a
block of epochs it wrote down. What it says it has written down before.
Assumes: a seed that lost its journal asks the others before it judges.
Source: docs/papers/optimistic.md 4.9, X3; traps F21, F22, F34. Ballots are (number, process), as in Paxos: reading
without a promise would let a slow founder gather its majority after a fast one had looked.
"""

from struct import Struct as Layout
from typing import NamedTuple

from whence.core.levels.optimistic.tickets.epochs import block_end
from whence.core.levels.optimistic.tickets.items import (
    GenerationRead,
    GenerationValue,
    Genesis,
    GenesisAnswer,
    Reserve,
    Reserved,
)
from whence.core.levels.optimistic.tickets.record_bytes import readable, unpack
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.types import Instant, Process

_JOURNAL = Layout("<IIHIIHIII")
"""NEWER, promised ballot, accepted ballot, generation, floor of epochs; then the founder's record."""

_JOURNAL_BEFORE = Layout("<IHIIHII")
"""The same without a floor, as it was written before epochs were reserved."""

NEWER = 2**32 - 1
"""No ballot has this number: what begins with it is in the present form."""

UNWRITTEN_MAX = 1 << 20
"""Epochs that may have been given since a founder whose journal names no floor."""


class Ballot(NamedTuple):
    """An attempt to found: higher ones win. A restarted process is another one, and its attempts are others."""

    number: int
    pid: int
    incarnation: int


class FounderAcceptor:
    """What one seed promised and accepted."""

    def __init__(self) -> None:
        self.knows = False
        """False after a restart without a journal, until the other seeds have answered."""
        self.promised = Ballot(0, 0, 0)
        self.accepted = Ballot(0, 0, 0)
        self.generation = 0
        self.genesis = b""
        self.floor = 0
        """The end of the highest block of epochs that may have been given."""
        self._heard_at: Instant | None = None
        """When the attempt that holds our promise was last heard of."""

    def begin(self) -> None:
        """Start with the group itself, when nobody can have founded anything; or, with a journal, when all return."""
        self.knows = True

    def restore(self, journal: bytes) -> bool:
        """Take up what an earlier incarnation wrote down; return False if it is not readable."""
        newer = journal[:4] == NEWER.to_bytes(4, "little")
        layout = _JOURNAL if newer else _JOURNAL_BEFORE
        if len(journal) < layout.size:
            return False
        numbers, genesis = layout.unpack_from(journal), journal[layout.size :]
        if genesis and not readable(genesis):
            return False
        *ballots, generation, floor = numbers[1:] if newer else (*numbers, _floor_before(genesis))
        self.promised, self.accepted = Ballot(*ballots[:3]), Ballot(*ballots[3:])
        self.generation, self.genesis, self.floor, self.knows = generation, genesis, floor, True
        return True

    def read(self, sender: Process, item: GenerationRead, start: bytes, hold_ns: int, turn: Turn) -> None:
        """Promise a ballot that is higher than all before, and answer with what was accepted.

        An attempt that was heard of lately is not disturbed: founders who overtake each other for ever found nothing.
        """
        if not self.knows:
            return
        ballot = Ballot(item.ballot, *sender)
        busy = self._heard_at is not None and turn.now - self._heard_at < hold_ns and sender.pid != self.promised.pid
        if ballot > self.promised and not busy:
            self.promised = ballot
            turn.ready.persist.append(self.journal())
        accepts = ballot == self.promised
        if accepts:
            self._heard_at = turn.now
        value = GenerationValue(
            item.ballot, accepts, self.promised.number, self.generation, self.genesis, start or self.genesis, self.floor
        )
        turn.post(sender, value)

    def accept(self, sender: Process, item: Genesis, turn: Turn) -> None:
        """Accept a founder, unless a higher ballot was promised, or its generation or its epoch may not be new."""
        if not self.knows:
            return
        ballot = Ballot(item.ballot, *sender)
        again = ballot == self.accepted and item.generation == self.generation and item.record == self.genesis
        epoch = unpack(item.record).ticket_epoch.epoch
        fine = again or (ballot >= self.promised and item.generation > self.generation and epoch > self.floor)
        if fine:
            self._heard_at = None
        if fine and not again:
            self.promised = self.accepted = ballot
            self.generation, self.genesis, self.floor = item.generation, item.record, block_end(epoch)
            turn.ready.persist.append(self.journal())
        turn.post(sender, GenesisAnswer(item.ballot, fine, self.promised.number))

    def reserve(self, sender: Process, item: Reserve, turn: Turn) -> None:
        """Write down that epochs up to the end of a block may be given from now on."""
        if not self.knows:
            return
        before = self.floor
        if item.epoch > before:
            self.floor = block_end(item.epoch)
            turn.ready.persist.append(self.journal())
        turn.post(sender, Reserved(item.epoch, before))

    def see(self, epoch: int) -> None:
        """Know of an epoch that was given, whether or not it was ever reserved here."""
        if epoch > self.floor:
            self.floor = block_end(epoch)

    def learn(self, ballot: Ballot, generation: int, genesis: bytes, floor: int, turn: Turn) -> None:
        """Judge again: the other seeds promised our ballot and answered with what they had accepted."""
        self.promised = self.accepted = ballot
        self.generation, self.genesis, self.floor, self.knows = generation, genesis, max(floor, self.floor), True
        turn.ready.persist.append(self.journal())

    def journal(self) -> bytes:
        """Return what a new incarnation must know: the last promise and acceptance, and which epochs may be given."""
        return _JOURNAL.pack(NEWER, *self.promised, *self.accepted, self.generation, self.floor) + self.genesis


def _floor_before(genesis: bytes) -> int:
    """Return an epoch above all that can have been given since a founder, where nobody wrote them down."""
    return block_end(unpack(genesis).top + UNWRITTEN_MAX) if genesis else 0
