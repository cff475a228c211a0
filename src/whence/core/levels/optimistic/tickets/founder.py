"""What one process does to found the cluster: attempts one after another, and as a seed learns what others accepted.

Promises: one attempt at a time, each under a higher ballot than any seen; a founder whose ticket epoch was denied to
anybody never takes it. A seed that lost its journal judges nothing until enough other seeds have told it what they
accepted. Source: docs/papers/optimistic.md 4.9, X2, X3; traps F21, F22, F34.
"""

from collections.abc import Callable

from whence.core.levels.optimistic.tickets.acceptor import FounderAcceptor
from whence.core.levels.optimistic.tickets.applicant import Applicant
from whence.core.levels.optimistic.tickets.founding import FoundingAttempt, Phase
from whence.core.levels.optimistic.tickets.items import (
    AckExclude,
    AckFence,
    Fresh,
    GenerationValue,
    GenesisAnswer,
    NotCoordinator,
    Stale,
)
from whence.core.levels.optimistic.tickets.known_coordinators import KnownCoordinators
from whence.core.levels.optimistic.tickets.known_peers import KnownPeers
from whence.core.levels.optimistic.tickets.records import Processes, Record, TicketEpoch
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.ready import RandomSource
from whence.types import Instant, Process


class Founder:
    """The attempt under way, if there is one, and what the last ones taught."""

    def __init__(
        self,
        attempt_type: type[FoundingAttempt],
        settings: TicketSettings,
        rng: RandomSource,
        peers: KnownPeers,
        dead: dict[Process, Instant],
        acceptor: FounderAcceptor,
        applicant: Applicant,
        coordinators: KnownCoordinators,
        epoch_seen: Callable[[], int],
    ) -> None:
        self.attempt: FoundingAttempt | None = None
        self.open_session: Callable[[Record, int, Turn], None] = lambda *_: None
        """Begins a session of the cluster's founder; lent by the coordinator."""
        self._attempt_type = attempt_type
        self._settings = settings
        self._rng = rng
        self._peers = peers
        self._dead = dead
        self._acceptor = acceptor
        self._applicant = applicant
        self._coordinators = coordinators
        self._epoch_seen = epoch_seen
        self._silent: Processes = ()
        """Witnesses of lost coordinators for which the last attempt waited and that did not answer."""
        self._ballots = 0
        self._fails = 0
        self._learn_at: Instant | None = None

    def begin(self, turn: Turn, *, learning: bool = False) -> None:
        """Begin an attempt to found, or to learn what the other seeds accepted."""
        self._ballots += 1
        me, peers, now = turn.me, self._peers, turn.now
        self.attempt = self._attempt_type(
            me, self._ballots, self._settings, lambda: peers.witnesses_for(me, (), {}, (), now), self._rng, self._dead,
            self._epoch_seen(), learning=learning,
        )  # fmt: skip
        self.attempt.begin(turn)

    def cancel(self) -> None:
        """Give up the attempt."""
        self.attempt = None

    def see_ballot(self, number: int) -> None:
        """Begin later attempts above a ballot that somebody used."""
        self._ballots = max(self._ballots, number)

    def is_proposing(self) -> bool:
        """Tell whether the attempt may have been accepted already."""
        return self.attempt is not None and self.attempt.phase is Phase.PROPOSING

    def on_denied(self, ticket_epoch: TicketEpoch, now: Instant) -> None:
        """Give up an attempt whose ticket epoch was denied: whoever asked counts on it that it is never taken."""
        proposed = self.attempt.record if self.attempt is not None else None
        if proposed is not None and proposed.ticket_epoch == ticket_epoch:
            self.attempt = None
            self._applicant.found_again_after(self._fails, now)

    def declare_dead(self, process: Process) -> None:
        """Wait no longer for a witness."""
        self._silent = tuple(each for each in self._silent if each != process)

    def waits_for(self) -> Processes:
        """Return the witnesses of lost coordinators whose answer is missing to found anew."""
        walk = self.attempt.walk if self.attempt is not None else None
        return (walk.waits_for() if walk is not None else ()) or self._silent

    # --- answers ---

    def on_value(self, sender: Process, item: GenerationValue, turn: Turn) -> None:
        """Take a seed's promise, and what it accepted."""
        if self.attempt is not None:
            self.attempt.on_value(sender, item, turn)
            self._follow(turn)

    def on_answer(self, sender: Process, item: GenesisAnswer, turn: Turn) -> None:
        """Take a seed's vote."""
        if self.attempt is not None:
            self.attempt.on_answer(sender, item, turn)
            self._follow(turn)

    def on_walk_answer(self, sender: Process, item: AckExclude | NotCoordinator | AckFence, turn: Turn) -> None:
        """Let the walk hear an answer."""
        if self.attempt is not None:
            self.attempt.on_walk_answer(sender, item, turn)
            self._follow(turn)

    def on_fresh(self, sender: Process, item: Fresh, turn: Turn) -> None:
        """Let the walk hear that a coordinator renewed its lease lately."""
        if self.attempt is not None:
            self.attempt.on_fresh(sender, item, turn)
            self._follow(turn)

    def on_stale(self, sender: Process, item: Stale, turn: Turn) -> None:
        """Let the walk hear that a coordinator did not renew its lease lately."""
        if self.attempt is not None:
            self.attempt.on_stale(sender, item, turn)

    # --- time ---

    def tick(self, turn: Turn) -> None:
        """Go on with the attempt."""
        if self.attempt is not None:
            self.attempt.tick(turn)
            self._follow(turn)

    def learn_if_due(self, turn: Turn) -> None:
        """As a seed without a journal, ask the other seeds what was promised before it was lost."""
        at = self.learns_at(turn.now)
        if at is not None and turn.now >= at:
            self.begin(turn, learning=True)

    def learns_at(self, now: Instant) -> Instant | None:
        """Return when the other seeds are to be asked; None if they need not be."""
        if self._acceptor.knows or self.attempt is not None or self._peers.me.pid not in self._peers.seeds:
            return None
        return self._learn_at if self._learn_at is not None else now

    def _follow(self, turn: Turn) -> None:
        """Act on the end of an attempt."""
        attempt = self.attempt
        if attempt is None:
            return
        self.see_ballot(attempt.highest)
        match attempt.phase:
            case Phase.FOUNDED if attempt.record is not None:
                self.attempt, self._fails, self._silent = None, 0, ()
                record = attempt.record
                turn.note("refounded" if attempt.generation else "founded", *record.ticket_epoch)
                self.open_session(record, record.last_of(record.ticket_epoch.ticket), turn)
            case Phase.LEARNED:
                self.attempt, self._learn_at = None, None
                self._acceptor.learn(attempt.ballot, attempt.generation, attempt.genesis, attempt.floor, turn)
            case Phase.CORE_ALIVE:
                self.attempt, self._silent = None, ()
                self._join_core(attempt.met, turn)
            case Phase.FAILED:
                self.attempt = None
                self._silent = attempt.walk.waits_for() if attempt.walk is not None else self._silent
                self._fails += 1
                self._applicant.found_again_after(self._fails, turn.now)
                self._learn_at = turn.now + int((1 + self._rng()) * self._settings.ticket_round_ns)
            case _:
                pass

    def _join_core(self, coordinator: Process | None, turn: Turn) -> None:
        """Ask a coordinator that lives after all; without one that answers, look again when a lease has passed."""
        if coordinator is not None:
            self._applicant.hear_active(turn.now)
            self._coordinators.hear_hint(coordinator)
        else:
            turn.note("core_lives")
            self._applicant.hear_unheard(turn.now)
