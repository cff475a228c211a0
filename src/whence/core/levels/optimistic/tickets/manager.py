"""One cluster's tickets in one process: the application's door to them, and every input's way to its part.

The process is a witness for others, perhaps a seed, perhaps an applicant, a founder or a coordinator. Each of these is
one part; they are put together here, one manager per cluster, and nothing is shared between managers.
Source: docs/papers/optimistic.md 4, 5.
"""

from collections.abc import Callable, Sequence

from whence.core.clocks.cct import epoch_of
from whence.core.levels.optimistic.tickets import items
from whence.core.levels.optimistic.tickets.acceptor import FounderAcceptor
from whence.core.levels.optimistic.tickets.applicant import Applicant
from whence.core.levels.optimistic.tickets.authority import SessionState
from whence.core.levels.optimistic.tickets.coordinator import Coordinator
from whence.core.levels.optimistic.tickets.dispatch import Dispatcher
from whence.core.levels.optimistic.tickets.founder import Founder
from whence.core.levels.optimistic.tickets.founding import FoundingAttempt
from whence.core.levels.optimistic.tickets.known_coordinators import KnownCoordinators
from whence.core.levels.optimistic.tickets.known_peers import KnownPeers
from whence.core.levels.optimistic.tickets.memory import MARK, Memory
from whence.core.levels.optimistic.tickets.seed import Seed
from whence.core.levels.optimistic.tickets.session import CoordinatorSession
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.witness import Witness
from whence.core.ready import Gauge, Item, RandomSource, Ready
from whence.core.ticket_status import OwnedTicket, TicketStatus
from whence.errors import LeaseSuspendedError, NotCoordinatorError, UsageError
from whence.types import Instant, Process

DEAD_MAX = 256
"""Processes an operator declared dead."""

TURN_STEPS_MAX = 10_000


class TicketManager:
    """Tickets of one cluster. Its parts are named here, so that a planted bug can be one of them replaced."""

    session_type: type[CoordinatorSession] = CoordinatorSession
    coordinator_type: type[Coordinator] = Coordinator
    memory_type: type[Memory] = Memory
    witness_type: type[Witness] = Witness
    applicant_type: type[Applicant] = Applicant
    acceptor_type: type[FounderAcceptor] = FounderAcceptor
    attempt_type: type[FoundingAttempt] = FoundingAttempt

    def __init__(
        self, me: Process, settings: TicketSettings, rng: RandomSource, entry_of: Callable[[int], int], handover_ns: int
    ) -> None:
        self.me = me
        self.dead: dict[Process, Instant] = {}
        """Processes an operator declared dead, and when."""
        self.peers = KnownPeers(me, settings)
        self.coordinators = KnownCoordinators(me)
        self.memory = self.memory_type(me, settings.wait_ns, settings.seed_pids())
        self.witness = self.witness_type(settings.tickets, settings.lease_ns, 10 * settings.wait_ns, self.memory)
        self.acceptor = self.acceptor_type()
        self.applicant = self.applicant_type(me, settings, rng, self.coordinators)
        self.founder = Founder(
            self.attempt_type, settings, rng, self.peers, self.dead, self.acceptor, self.applicant, self.coordinators,
            self._epoch_seen,
        )  # fmt: skip
        self.coordinator = self.coordinator_type(
            self.session_type, settings, rng, self.peers, self.dead, entry_of, self.applicant, self.coordinators,
            self.founder,
        )  # fmt: skip
        self.founder.open_session = self.coordinator.open
        seed = Seed(me, settings, self.acceptor, self.witness, self._epoch_seen, self.founder.see_ballot)
        self._dispatcher = Dispatcher(
            settings.tickets, self.peers, self.coordinators, self.witness, self.applicant, self.founder,
            self.coordinator, seed,
        )  # fmt: skip
        self._settings = settings
        self._entry_of = entry_of
        self._handover_ns = handover_ns

    # --- what lasts longer than this process ---

    def begin(self) -> list[bytes]:
        """Start with the group: nobody can have founded the cluster yet. Return what must be written down."""
        if not self.acceptor.knows:
            self.acceptor.begin()
            return [*self.remember(), self.acceptor.journal()]
        return self.remember()

    def remember(self) -> list[bytes]:
        """Return what must be written down before this process promises anything as a witness."""
        self.memory.begin()
        return self.memory.take()

    def restore(self, journal: Sequence[bytes], now: Instant) -> list[bytes]:
        """Take up what this process promised as a seed and as a witness in earlier incarnations; return what must be
        written down. Raises StorageError."""
        self.witness.restore(self.memory.restore(journal, now), now)
        self.peers.remember_since(self.memory.since)
        for record in reversed(journal):
            if record[:4] != MARK and self.acceptor.restore(record):
                break
        self.acceptor.see(self.witness.top())
        return self.memory.take()

    def checkpoint(self) -> list[bytes]:
        """Return records that stand for all that earlier incarnations and this one wrote down."""
        seed = [self.acceptor.journal()] if self.acceptor.knows else []
        return [*self.memory.checkpoint(self.witness.remembered()), *seed]

    # --- the application's door ---

    def acquire(self, now: Instant) -> None:
        """Ask for a ticket, until one is had or given back. Raises UsageError if one is had or asked for."""
        if self.applicant.wanted:
            raise UsageError("this process already has a ticket, or asks for one")
        self.applicant.want(now)

    def release(self, now: Instant, ready: Ready) -> None:
        """Give the ticket back. Raises UsageError without one, and for the last coordinator: it must stay."""
        if not self.applicant.wanted:
            raise UsageError("this process neither has a ticket nor asks for one")
        session = self.coordinator.session
        if session is not None and session.authority.record.alone() and session.registration.pending is None:
            raise UsageError("the last coordinator cannot leave its cluster; retry once another one has joined")
        self.depart(now, ready)

    def depart(self, now: Instant, ready: Ready) -> None:
        """Give up the ticket, or the wish for one, whatever comes of it."""
        turn = self._begin_turn(now, ready)
        if self.applicant.wanted:
            turn.note("ticket_given_back")
        self.applicant.wanted = False
        self.founder.cancel()
        if self.coordinator.session is not None:
            self.coordinator.session.leave(turn)
        self._end_turn(turn)

    def drop_leases(self, now: Instant, ready: Ready) -> None:
        """Count on no lease that was lent so far, and ask for new ones: the clock may have stood still."""
        turn = self._begin_turn(now, ready)
        if self.coordinator.session is not None:
            self.coordinator.session.drop_leases(turn)
        self._end_turn(turn)

    def declare_dead(self, process: Process, now: Instant) -> None:
        """Count a witness as fenced for good: an operator's word that this incarnation is over. Raises UsageError."""
        if process == self.me:
            raise UsageError("this process is alive: it cannot be declared dead")
        if self.peers.heard_lately(process, now):
            raise UsageError(
                f"process {process.pid}, incarnation {process.incarnation}, spoke to this one a moment ago: it is alive"
            )
        if self.peers.is_back(process):
            raise UsageError(
                f"process {process.pid} is back with its data directory and answers for incarnation "
                f"{process.incarnation} itself"
            )
        if len(self.dead) >= DEAD_MAX:
            raise UsageError(f"at most {DEAD_MAX} processes can be declared dead; restart this one")
        self.dead.setdefault(process, now)
        self.founder.declare_dead(process)

    def authorize(self, now: Instant) -> CoordinatorSession:
        """Return the session to publish under now. Raises NotCoordinatorError or LeaseSuspendedError, with a hint."""
        refusal = self.refusal(now)
        if refusal is not None:
            raise refusal
        assert self.coordinator.session is not None
        return self.coordinator.session

    def refusal(self, now: Instant) -> NotCoordinatorError | LeaseSuspendedError | None:
        """Return why nothing may be published now, and when to try again; None if something may."""
        session = self.coordinator.session
        round_ns = self._settings.ticket_round_ns
        state = session.authority.state if session is not None else None
        if session is None or state is SessionState.LEAVING or state is SessionState.CLOSED:
            if self.applicant.wanted:
                return NotCoordinatorError(self.applicant.why_not_yet(self.founder.waits_for()), round_ns)
            given_back = "it is giving its ticket back" if session is not None else "it has not asked for a ticket"
            return NotCoordinatorError(given_back, None)
        authority = session.authority
        if not authority.may_act(now):
            why = "no lease has come yet" if state is SessionState.ACQUIRING else "its lease has run out"
            return LeaseSuspendedError(why, round_ns)
        ticket, epoch = authority.record.ticket_epoch
        entry = self._entry_of(ticket)
        if epoch_of(entry) > epoch:
            return NotCoordinatorError("its ticket has a later owner, and another one is asked for", round_ns)
        if entry < session.base and now - authority.since < self._handover_ns:
            left = self._handover_ns - (now - authority.since)
            return LeaseSuspendedError("the last events of the ticket's former owner have not come yet", left)
        return None

    def status(self, now: Instant) -> TicketStatus:
        """Return how this process stands."""
        session, refusal = self.coordinator.session, self.refusal(now)
        acts = session is not None and session.authority.may_act(now)
        state = "joining" if self.applicant.wanted else "none"
        if session is not None:
            suspended = session.state is SessionState.ACTIVE and not acts
            state = "suspended" if suspended else session.state.value
        return TicketStatus(
            state=state,
            ticket=session.ticket_epoch.ticket if session is not None else None,
            epoch=session.ticket_epoch.epoch if session is not None else None,
            lease_left_ns=session.authority.until() - now if session is not None and acts else 0,
            coordinates=session.authority.coordinates() if session is not None and acts else 0,
            why=refusal.why if refusal is not None else "",
            retry_ns=(refusal.retry_ns or 0) if refusal is not None else 0,
            waits_for=session.waits_for(now) if session is not None else self.founder.waits_for(),
            owners=tuple(
                OwnedTicket(*ticket_epoch, owner, self.witness.lease_left_ns(ticket_epoch, now))
                for ticket_epoch, owner in self.coordinators.owners()
                if owner != self.me
            ),
        )

    def is_idle(self) -> bool:
        """Tell whether nothing of ours has to be given back any more."""
        return self.coordinator.session is None

    # --- inputs ---

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        """Take a peer's item."""
        turn = self._begin_turn(now, ready)
        self._dispatcher.hear(sender, item, turn)
        if self.dead:
            self._revive()
        self._end_turn(turn)

    def tick(self, now: Instant, ready: Ready) -> None:
        """Do what time asks for."""
        turn = self._begin_turn(now, ready)
        if self.coordinator.session is not None:
            self.coordinator.session.tick(turn)
        if self.founder.attempt is not None:
            self.founder.tick(turn)
        self._continue_joining(turn)
        if not self.acceptor.knows:
            self.founder.learn_if_due(turn)
        self._end_turn(turn)

    def wake_at(self, now: Instant) -> Instant | None:
        """Return when tick has something to do."""
        times: list[Instant] = []
        session, attempt = self.coordinator.session, self.founder.attempt
        if session is not None:
            times.append(session.wake_at(now))
        if attempt is not None:
            times.append(attempt.wake_at())
        elif session is None and self.applicant.wanted:
            times.append(self.applicant.next_at)
        if not self.acceptor.knows and (learns_at := self.founder.learns_at(now)) is not None:
            times.append(learns_at)
        return max(min(times), now) if times else None

    def gauges(self) -> list[Gauge]:
        """Return how much is remembered."""
        return [*self.witness.gauges(), *self.coordinator.gauges()]

    def _continue_joining(self, turn: Turn) -> None:
        """Ask for a ticket where one is wanted; found the cluster where there seems to be no coordinator."""
        applicant = self.applicant
        if not applicant.wanted or self.coordinator.session is not None or self.founder.attempt is not None:
            return
        if turn.now < applicant.next_at:
            return
        if applicant.should_found(turn.now):
            self.founder.begin(turn)
        else:
            turn.post_pid(applicant.ask(turn.now), items.AcquireTicket(applicant.nonce))

    def _begin_turn(self, now: Instant, ready: Ready) -> Turn:
        """Begin with noticing that the leases ended, perhaps long ago."""
        turn, session = Turn(self.me, now, ready), self.coordinator.session
        self.memory.let_drain(now)
        if session is not None and session.authority.lapse(turn):
            session.exclusion.abandon()
        return turn

    def _end_turn(self, turn: Turn) -> None:
        """Hear what this process said to itself; then let the coordinator end its turn."""
        steps = 0
        while turn.to_self and steps < TURN_STEPS_MAX:
            self._dispatcher.hear(self.me, turn.to_self.popleft(), turn)
            steps += 1
        self.coordinator.end_turn(turn)
        turn.ready.persist += self.memory.take()

    def _revive(self) -> None:
        """Count on no declaration about a process that is back with its journal: what it promised is not over."""
        for process in [each for each in self.dead if self.peers.is_back(each)]:
            del self.dead[process]

    def _epoch_seen(self) -> int:
        """Return the highest epoch that was delivered or heard of here."""
        delivered = (epoch_of(self._entry_of(ticket)) for ticket in range(self._settings.tickets))
        heard = (ticket_epoch.epoch for ticket_epoch, _ in self.coordinators.owners())
        return max((*delivered, *heard))
