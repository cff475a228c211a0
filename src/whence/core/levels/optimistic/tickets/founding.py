"""Founding a cluster, and founding it anew when every coordinator is lost.

Promises: of all who try, at most one founder per generation holds the tickets, and no generation begins before all
coordinators of the one before are closed and their leases have drained.
Assumes: a majority of the seeds answers in the end; a seed that lost its journal asks the others before it judges.
The sentence that decides: a founder is accepted by a majority of seeds, each of which promised to take no lower ballot
and told it whom it had accepted; and it has closed all of those.
Source: tickets_twolayer 4.9; traps F20 to F22, F34. Ballots are (number, process number), as in Paxos: reading without
a promise would let a slow founder gather its majority after a fast one had looked.
"""

from collections.abc import Callable
from enum import Enum
from struct import Struct as Layout
from typing import NamedTuple

from whence.core.levels.optimistic.tickets.epochs import block_end
from whence.core.levels.optimistic.tickets.items import (
    AckExclude,
    AckFence,
    GenerationRead,
    GenerationValue,
    Genesis,
    GenesisAnswer,
    NotCoordinator,
    Reserve,
    Reserved,
    Stale,
)
from whence.core.levels.optimistic.tickets.records import Claim, Pointer, Processes, Record, pack, readable, unpack
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.walk import Stage, Walk
from whence.core.ready import Dice
from whence.types import Instant, Process

_JOURNAL = Layout("<IIHIIHIII")
"""NEWER, promised ballot, accepted ballot, generation, floor of epochs; then the founder's record."""

_JOURNAL_BEFORE = Layout("<IHIIHII")
"""The same without a floor, as it was written before epochs were reserved."""

NEWER = 2**32 - 1
"""No ballot has this number: what begins with it is in the present form."""

UNWRITTEN_MAX = 1 << 20
"""Epochs that may have been given since a founder whose journal names no floor."""

WALK_ROUNDS = 20
"""Ticket rounds after which a walk that does not end is given up and begun elsewhere."""


class Ballot(NamedTuple):
    """An attempt to found: higher ones win. A restarted process is another one, and its attempts are others."""

    number: int
    pid: int
    boot: int


class Arbiter:
    """A seed's word on who founded the cluster. What it says it has written down before."""

    def __init__(self) -> None:
        self.knows = False
        """False after a restart without a journal, until the others have told."""
        self.promised = Ballot(0, 0, 0)
        self.accepted = Ballot(0, 0, 0)
        self.generation = 0
        self.genesis = b""
        self.floor = 0
        """The end of the highest block of epochs that may have been given."""
        self._heard_at: Instant | None = None
        """When the attempt that holds our promise was last heard of."""

    def begin(self) -> None:
        """Start with the group itself, when nobody can have founded anything."""
        self.knows = True

    def restore(self, journal: bytes) -> bool:
        """Take up what an earlier life wrote down; return False if it is not readable."""
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
        """Promise a ballot that is higher than all before, and tell what was accepted.

        An attempt that was heard of lately is not disturbed: founders who overtake each other for ever found nothing.
        """
        if not self.knows:
            return
        ballot = Ballot(item.ballot, *sender)
        busy = self._heard_at is not None and turn.now - self._heard_at < hold_ns and sender.pid != self.promised.pid
        if ballot > self.promised and not busy:
            self.promised = ballot
            turn.ready.persist.append(self.journal())
        kept = ballot == self.promised
        if kept:
            self._heard_at = turn.now
        value = GenerationValue(
            item.ballot, kept, self.promised.number, self.generation, self.genesis, start or self.genesis, self.floor
        )
        turn.post(sender, value)

    def accept(self, sender: Process, item: Genesis, turn: Turn) -> None:
        """Accept a founder, unless a higher ballot was promised, or its generation or its epoch may not be new."""
        if not self.knows:
            return
        ballot = Ballot(item.ballot, *sender)
        again = ballot == self.accepted and item.generation == self.generation and item.record == self.genesis
        epoch = unpack(item.record).claim.epoch
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
        """Judge again after the others promised our ballot and told what they had accepted."""
        self.promised = self.accepted = ballot
        self.generation, self.genesis, self.floor, self.knows = generation, genesis, max(floor, self.floor), True
        turn.ready.persist.append(self.journal())

    def journal(self) -> bytes:
        """Return what a new life must know: what was promised and accepted last, and which epochs may be given."""
        return _JOURNAL.pack(NEWER, *self.promised, *self.accepted, self.generation, self.floor) + self.genesis


def _floor_before(genesis: bytes) -> int:
    """Return an epoch above all that can have been given since a founder, where nobody wrote them down."""
    return block_end(unpack(genesis).top + UNWRITTEN_MAX) if genesis else 0


class Phase(Enum):
    """How far an attempt to found has come."""

    READING = "reading"
    WALKING = "walking"
    PROPOSING = "proposing"
    FOUNDED = "founded"
    FAILED = "failed"
    MET = "met"
    LEARNED = "learned"


STEPS: dict[Phase, tuple[Phase, ...]] = {
    Phase.READING: (Phase.WALKING, Phase.PROPOSING, Phase.FAILED, Phase.LEARNED),
    Phase.WALKING: (Phase.PROPOSING, Phase.FAILED, Phase.MET),
    Phase.PROPOSING: (Phase.FOUNDED, Phase.FAILED),
    Phase.FOUNDED: (),
    Phase.FAILED: (),
    Phase.MET: (),
    Phase.LEARNED: (),
}
"""From each phase, those that may follow. MET: a coordinator lives after all. LEARNED: a seed only wanted to know."""


class Founding:
    """One attempt."""

    walk_type: type[Walk] = Walk

    def __init__(
        self,
        me: Process,
        number: int,
        settings: TicketSettings,
        choose: Callable[[], Processes],
        dice: Dice,
        dead: dict[Process, Instant],
        floor: int,
        *,
        learning: bool = False,
    ) -> None:
        self.phase = Phase.READING
        self.ballot = Ballot(number, *me)
        self.highest = number
        self.walk: Walk | None = None
        self.record: Record | None = None
        self.met: Process | None = None
        self.generation = 0
        self.genesis = b""
        self.floor = floor
        """No epoch above it was given before this attempt began, as far as we and those who answered know."""
        self._me = me
        self._settings = settings
        self._choose = choose
        self._dice = dice
        self._dead = dead
        self._learning = learning
        self._seeds = settings.seed_pids()
        self._values: dict[int, GenerationValue] = {}
        self._votes: dict[int, None] = {}
        self._start: Record | None = None
        self._retry_at: Instant = 0
        self._give_up_at: Instant = 0

    def begin(self, turn: Turn) -> None:
        """Ask every seed for its promise."""
        self._give_up_at = turn.now + 6 * self._settings.answer_ns
        self._ask_all(turn)

    def on_value(self, sender: Process, item: GenerationValue, turn: Turn) -> None:
        """Count a promise; with enough of them, go on."""
        self.highest = max(self.highest, item.highest)
        if self.phase is not Phase.READING or item.ballot != self.ballot.number or sender.pid not in self._seeds:
            return
        if not item.promised:
            self._step(Phase.FAILED)
            return
        self._values[sender.pid] = item
        if len(self._values) < self._needed():
            return
        latest = max(self._values.values(), key=lambda value: value.generation)
        self.generation, self.genesis = latest.generation, latest.genesis
        self.floor = max(self.floor, *[value.floor for value in self._values.values()])
        if self._learning:
            self._step(Phase.LEARNED)
        elif not self.generation:
            self._propose(top=0, last=b"", turn=turn)
        else:
            self._begin_walk(turn)

    def on_answer(self, sender: Process, item: GenesisAnswer, turn: Turn) -> None:
        """Count a vote."""
        self.highest = max(self.highest, item.highest)
        if self.phase is not Phase.PROPOSING or item.ballot != self.ballot.number or sender.pid not in self._seeds:
            return
        if not item.accepted:
            self._step(Phase.FAILED)
            return
        self._votes[sender.pid] = None
        if len(self._votes) > len(self._seeds) // 2:
            self._step(Phase.FOUNDED)

    def on_walk_answer(self, sender: Process, item: AckExclude | NotCoordinator | AckFence, turn: Turn) -> None:
        """Let the walk hear an answer."""
        walk = self.walk
        if walk is None:
            return
        if isinstance(item, AckExclude):
            walk.on_ack_exclude(sender, item, turn.now, turn.post)
            self.met = sender if walk.stage is Stage.MET else None
        elif isinstance(item, NotCoordinator):
            walk.on_not_coordinator(sender, item, turn.now, turn.post)
        else:
            walk.on_ack_fence(sender, item, turn.now, turn.post)
        self._follow_walk(turn)

    def on_fresh(self, sender: Process, claim: Claim, turn: Turn) -> None:
        """Let the walk hear that a coordinator renewed its lease lately."""
        if self.walk is not None:
            self.walk.on_fresh(sender, claim)
            self._follow_walk(turn)

    def on_stale(self, sender: Process, item: Stale, turn: Turn) -> None:
        """Let the walk hear of a coordinator's later witnesses."""
        if self.walk is not None:
            self.walk.on_stale(sender, item, turn.post)

    def tick(self, turn: Turn) -> None:
        """Ask again, or give up."""
        if self.phase in (Phase.READING, Phase.PROPOSING, Phase.WALKING) and turn.now >= self._give_up_at:
            self._step(Phase.FAILED)
        elif self.phase is Phase.WALKING and self.walk is not None:
            if turn.now >= self._retry_at:
                self._retry_at = turn.now + self._settings.ticket_round_ns
                self._read_again(turn)
            self.walk.tick(turn.now, turn.post)
            self._follow_walk(turn)
        elif self.phase in (Phase.READING, Phase.PROPOSING) and turn.now >= self._retry_at:
            self._ask_all(turn)

    def wake_at(self) -> Instant:
        """Return when tick has something to do."""
        if self.phase is Phase.WALKING and self.walk is not None and (at := self.walk.wake_at()) is not None:
            return min(at, self._give_up_at, self._retry_at)
        return min(self._retry_at, self._give_up_at)

    def _needed(self) -> int:
        """Return how many seeds must promise: a majority; of the others, so many that every majority with us is met."""
        most = len(self._seeds) // 2 + 1
        return len(self._seeds) - most + 1 if self._learning else most

    def _ask_all(self, turn: Turn) -> None:
        self._retry_at = turn.now + 2 * self._settings.answer_ns
        for seed in self._seeds:
            if (
                self.phase is Phase.READING
                and seed not in self._values
                and not (self._learning and seed == self._me.pid)
            ):
                turn.post_pid(seed, GenerationRead(self.ballot.number))
            elif self.phase is Phase.PROPOSING and seed not in self._votes and self.record is not None:
                turn.post_pid(seed, Genesis(self.ballot.number, self.generation + 1, pack(self.record)))

    def _read_again(self, turn: Turn) -> None:
        """Remind the seeds of our attempt while the walk goes on."""
        for seed in self._seeds:
            turn.post_pid(seed, GenerationRead(self.ballot.number))

    def _begin_walk(self, turn: Turn) -> None:
        """Close everybody of the last generation, beginning at any record of it."""
        records = [unpack(value.start) for value in self._values.values() if value.start]
        starts = [record for record in records if record.generation == self.generation] or [unpack(self.genesis)]
        start = starts[int(self._dice() * len(starts))]
        self._step(Phase.WALKING)
        turn.note("total_loss_walk", *start.claim)
        self._give_up_at = turn.now + WALK_ROUNDS * self._settings.ticket_round_ns
        self._start = start
        self.walk = self.walk_type(self._settings, None, start.pointer(), start.succ, self._dead)
        self.walk.ask(turn.now, turn.post)

    def _follow_walk(self, turn: Turn) -> None:
        walk = self.walk
        if walk is None or self.phase is not Phase.WALKING:
            return
        if walk.stage is Stage.MET:
            self._step(Phase.MET)
        elif walk.stage is Stage.STUCK:
            self._step(Phase.FAILED)
        elif walk.stage is Stage.DONE:
            self._propose(walk.top, walk.last, turn)

    def _propose(self, top: int, last: bytes, turn: Turn) -> None:
        tickets, epoch = self._settings.tickets, self._first_epoch(top)
        claim = Claim(int(self._dice() * tickets), epoch)
        witnesses = self._choose()
        own = Pointer(claim, self._me, 0, witnesses)
        self.record = Record(
            claim=claim, owner=self._me, generation=self.generation + 1, version=0, top=epoch,
            witnesses=witnesses, proposed=(), succ=own, last=last,
        )  # fmt: skip
        self._step(Phase.PROPOSING)
        self._give_up_at = turn.now + 6 * self._settings.answer_ns
        self._ask_all(turn)

    def _first_epoch(self, top: int) -> int:
        """Return an epoch above all that may have been given, whether or not those who were closed told of them."""
        return max(top, self.floor) + 1

    def _step(self, to: Phase) -> None:
        assert to in STEPS[self.phase], (self.phase, to)
        self.phase = to
