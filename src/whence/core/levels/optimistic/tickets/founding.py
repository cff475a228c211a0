"""Founding a cluster, and founding it anew when every coordinator is lost: the proposer of Paxos.

Promises: of all who try, at most one founder per generation holds the tickets, and no generation begins before all
coordinators of the one before are closed and their leases have drained.
Assumes: a majority of the seeds answers in the end.
The sentence that decides: a founder is accepted by a majority of seeds, each of which promised to take no lower ballot
and told it whom it had accepted; and it has closed all of those.
Source: docs/papers/optimistic.md 4.9; traps F20 to F22, F34.
"""

from collections.abc import Callable
from enum import Enum

from whence.core.levels.optimistic.tickets.acceptor import Ballot
from whence.core.levels.optimistic.tickets.items import (
    AckExclude,
    AckFence,
    Fresh,
    GenerationRead,
    GenerationValue,
    Genesis,
    GenesisAnswer,
    NotCoordinator,
    Stale,
)
from whence.core.levels.optimistic.tickets.record_bytes import pack, unpack
from whence.core.levels.optimistic.tickets.records import Pointer, Processes, Record, TicketEpoch
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.walk import Stage, Walk
from whence.core.ready import RandomSource
from whence.types import Instant, Process

WALK_ROUNDS = 20
"""Ticket rounds after which a walk that does not end is given up and begun elsewhere."""


class Phase(Enum):
    """How far an attempt to found has come."""

    READING = "reading"
    WALKING = "walking"
    PROPOSING = "proposing"
    FOUNDED = "founded"
    FAILED = "failed"
    CORE_ALIVE = "core alive"
    LEARNED = "learned"


TRANSITIONS: dict[Phase, tuple[Phase, ...]] = {
    Phase.READING: (Phase.WALKING, Phase.PROPOSING, Phase.FAILED, Phase.LEARNED),
    Phase.WALKING: (Phase.PROPOSING, Phase.FAILED, Phase.CORE_ALIVE),
    Phase.PROPOSING: (Phase.FOUNDED, Phase.FAILED),
    Phase.FOUNDED: (),
    Phase.FAILED: (),
    Phase.CORE_ALIVE: (),
    Phase.LEARNED: (),
}
"""From each phase, those that may follow. CORE_ALIVE: a coordinator lives after all. LEARNED: a seed only wanted to
know what was accepted."""


class FoundingAttempt:
    """One attempt to found, or to learn as a seed what the others accepted."""

    walk_type: type[Walk] = Walk

    def __init__(
        self,
        me: Process,
        number: int,
        settings: TicketSettings,
        choose: Callable[[], Processes],
        rng: RandomSource,
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
        """The coordinator that answered although all were taken for lost."""
        self.generation = 0
        self.genesis = b""
        self.floor = floor
        """No epoch above it was given before this attempt began, as far as we and those who answered know."""
        self._me = me
        self._settings = settings
        self._choose = choose
        self._rng = rng
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
            self.met = sender if walk.stage is Stage.ALIVE else None
        elif isinstance(item, NotCoordinator):
            walk.on_not_coordinator(sender, item, turn.now, turn.post)
        else:
            walk.on_ack_fence(sender, item, turn.now, turn.post)
        self._follow_walk(turn)

    def on_fresh(self, sender: Process, item: Fresh, turn: Turn) -> None:
        """Let the walk hear that a coordinator renewed its lease lately."""
        if self.walk is not None:
            self.walk.on_fresh(sender, item)
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
        """Return how many seeds must promise: a majority; to learn, as many others as meet every majority with us."""
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
        start = starts[int(self._rng() * len(starts))]
        self._step(Phase.WALKING)
        turn.note("total_loss_walk", *start.ticket_epoch)
        self._give_up_at = turn.now + WALK_ROUNDS * self._settings.ticket_round_ns
        self._start = start
        self.walk = self.walk_type(self._settings, None, start.pointer(), start.succ, self._dead)
        self.walk.ask(turn.now, turn.post)

    def _follow_walk(self, turn: Turn) -> None:
        walk = self.walk
        if walk is None or self.phase is not Phase.WALKING:
            return
        if walk.stage is Stage.ALIVE:
            self._step(Phase.CORE_ALIVE)
        elif walk.stage is Stage.STUCK:
            self._step(Phase.FAILED)
        elif walk.stage is Stage.DONE:
            self._propose(walk.top, walk.last, turn)

    def _propose(self, top: int, last: bytes, turn: Turn) -> None:
        tickets, epoch = self._settings.tickets, self._first_epoch(top)
        ticket_epoch = TicketEpoch(int(self._rng() * tickets), epoch)
        witnesses = self._choose()
        own = Pointer(ticket_epoch, self._me, 0, witnesses)
        self.record = Record(
            ticket_epoch=ticket_epoch, owner=self._me, generation=self.generation + 1, version=0, top=epoch,
            witnesses=witnesses, proposed=(), succ=own, last=last,
        )  # fmt: skip
        self._step(Phase.PROPOSING)
        self._give_up_at = turn.now + 6 * self._settings.answer_ns
        self._ask_all(turn)

    def _first_epoch(self, top: int) -> int:
        """Return an epoch above all that may have been given, whether or not those who were closed told of them."""
        return max(top, self.floor) + 1

    def _step(self, to: Phase) -> None:
        assert to in TRANSITIONS[self.phase], (self.phase, to)
        self.phase = to
