"""A coordinator's session: one ticket under one epoch, from its first lease to its end.

Promises: what it tells others it has registered before; once closed or leaving it never acts again. Its parts:
authority (may it act), registration (its record at its witnesses), the witness set, its place in the ring, exclusion of
a dead successor, grants, and reserved epochs. They meet here, and one round's work is done here.
The sentence that decides its end: it closes when its witnesses fenced it, when they can lend no lease any more, when
its ticket has a later owner, or when it left and its predecessor has taken everything back.
Source: docs/papers/optimistic.md 4.4 to 4.8; traps B5, B10, F16 to F19, F24 to F26, F29, F33.
Costs per ticket round: 2k + 1 renewals and their answers, one greeting of the successor and its answer.
"""

from collections.abc import Callable

from msgspec import structs

from whence.core.clocks.cct import epoch_of
from whence.core.levels.optimistic.tickets.authority import Authority, SessionState
from whence.core.levels.optimistic.tickets.epochs import Reservation
from whence.core.levels.optimistic.tickets.exclusion import Exclusion
from whence.core.levels.optimistic.tickets.grants import Grants
from whence.core.levels.optimistic.tickets.intervals import taken_over
from whence.core.levels.optimistic.tickets.items import Alive, Fenced, ReleaseTicket
from whence.core.levels.optimistic.tickets.known_peers import KnownPeers
from whence.core.levels.optimistic.tickets.memory import speaks_for
from whence.core.levels.optimistic.tickets.record_bytes import pack
from whence.core.levels.optimistic.tickets.records import Processes, Record, TicketEpoch, last_with
from whence.core.levels.optimistic.tickets.registration import ChangeKind, Registration
from whence.core.levels.optimistic.tickets.ring import Ring
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.walk import Walk
from whence.core.levels.optimistic.tickets.witness_set import WitnessSet
from whence.core.ready import RandomSource
from whence.types import Instant, Process

YIELD_LEASES, HOPELESS_LEASES = 4, 16
"""Lease times for which a coordinator goes without before it gives up its ticket to whoever walks the ring, and by
itself. Too few witnesses may be left of a set for a majority while each of the others says that it lives."""

FENCED_LEASES = 2
"""Lease times after which it gives up when some witness has fenced it."""

LEAVE_LEASES = 4
"""Lease times after which a leaver whose farewell nobody answers closes all the same."""


class CoordinatorSession:
    """One coordinator. Its parts are named here, so that a planted bug can be one of them replaced."""

    authority_type: type[Authority] = Authority
    registration_type: type[Registration] = Registration
    exclusion_type: type[Exclusion] = Exclusion
    grants_type: type[Grants] = Grants

    def __init__(
        self,
        record: Record,
        base: int,
        settings: TicketSettings,
        peers: KnownPeers,
        rng: RandomSource,
        entry_of: Callable[[int], int],
        dead: dict[Process, Instant],
        now: Instant,
    ) -> None:
        self.base = base
        """The last event of earlier owners that must come before ours."""
        self.authority = authority = self.authority_type(record, settings, now)
        self.registration = registration = self.registration_type(authority, self._on_commit)
        self.witnesses = WitnessSet(authority, registration, peers, settings, dead)
        self.ring = ring = Ring(authority, settings)
        self.exclusion = exclusion = self.exclusion_type(
            authority, registration, ring, settings, dead, rng, self._take_over
        )
        self.epochs = Reservation(peers.seeds, record.ticket_epoch.epoch, dead)
        self.grants = self.grants_type(
            authority, registration, ring, exclusion, self.epochs, peers, settings, rng, entry_of
        )
        self._settings = settings
        self._entry_of = entry_of
        self._round_at = now
        self._leave_at: Instant | None = None

    @property
    def ticket_epoch(self) -> TicketEpoch:
        """Return who this coordinator is."""
        return self.authority.record.ticket_epoch

    @property
    def state(self) -> SessionState:
        """Return where it is between its ticket's grant and its end."""
        return self.authority.state

    def waits_for(self, now: Instant) -> Processes:
        """Return the witnesses whose answer is missing: to take over from the dead, or to act at all."""
        walk = self.exclusion.walk
        return walk.waits_for() if walk is not None else self.authority.lenders_missing(now)

    def final_record(self) -> Record:
        """Return the record with the last event published under it."""
        record = self.authority.record
        ticket = record.ticket_epoch.ticket
        return structs.replace(record, last=last_with(record.last, ticket, self._entry_of(ticket)))

    # --- leases ---

    def on_alive(self, sender: Process, item: Alive, turn: Turn) -> None:
        """Take a witness's lease, and its word that it keeps a version of the record."""
        for witness in self._witnesses_of(sender, item.since):
            self.authority.take_lease(witness, item.sent_at, turn.now)
            self.registration.on_ack(witness, item.version, turn)

    def on_fenced(self, sender: Process, item: Fenced, turn: Turn) -> None:
        """Close once so many witnesses refuse that no majority is left."""
        for witness in (*self._witnesses_of(sender, item.since), sender):
            self.witnesses.on_fenced(witness, turn.now)
        if self.witnesses.is_fenced():
            self.close(turn)

    def _witnesses_of(self, sender: Process, since: int) -> Processes:
        """Return those of the witnesses, installed or proposed, for which a process speaks."""
        pending, record = self.registration.pending, self.authority.record
        proposed = pending.record.proposed if pending is not None else ()
        known = dict.fromkeys((*record.witnesses, *proposed))
        return tuple([witness for witness in known if speaks_for(sender, since, witness)])

    def drop_leases(self, turn: Turn) -> None:
        """Act no more until a majority answers what is asked from now on."""
        self.authority.leases.drop(turn.now)
        if self.state is not SessionState.CLOSED:
            self.registration.renew(turn)

    # --- changes ---

    def _on_commit(self, kind: ChangeKind, turn: Turn) -> None:
        """Act on a change of the successor that was committed."""
        self.ring.on_new_successor()
        turn.note(f"ticket_{kind.value}", *self.authority.record.succ.ticket_epoch)
        if self.grants.answer(kind, turn):
            self.ring.greet(turn)

    def _take_over(self, walk: Walk, turn: Turn) -> None:
        """Propose the record of whoever coordinates what a walk closed."""
        self.grants.on_closed(walk, turn.now)
        record = self.authority.record
        if walk.relied_on_operator:
            self.epochs.distrust(record.top, turn)
        succ, beyond = walk.found if walk.found is not None else (None, None)
        record = taken_over(record, succ, beyond, walk.top, walk.last, self._settings.tickets)
        self.registration.propose(ChangeKind.TAKEOVER, record, turn)

    # --- the end ---

    def leave(self, turn: Turn) -> None:
        """Stop acting for good, as soon as no change is under way; then give back what is coordinated."""
        if self._leave_at is None:
            self._leave_at = turn.now
        if self.state in (SessionState.LEAVING, SessionState.CLOSED):
            return
        if not self.grants.is_busy() or self.state is SessionState.ACQUIRING:
            self.authority.step(SessionState.LEAVING)
            self.authority.announce_release(turn)

    def on_ack_release(self, turn: Turn) -> None:
        """Close: the predecessor has taken everything back."""
        if self.state is SessionState.LEAVING:
            self.close(turn)

    def close(self, turn: Turn) -> None:
        """Never act again; the record stays as the last word about this ticket epoch."""
        if self.state is not SessionState.CLOSED:
            self.authority.step(SessionState.CLOSED)
            self.authority.announce_release(turn)
            self.exclusion.abandon()
            self.registration.pending = None

    def yield_to_walk(self, turn: Turn) -> None:
        """Close for somebody who walks the ring, if it has been suspended for so long that it may never act again."""
        suspended = turn.now - self.authority.suspended_since
        if not self.authority.may_act(turn.now) and suspended > YIELD_LEASES * self._settings.lease_ns:
            self.close(turn)

    def _continue_leaving(self, turn: Turn) -> None:
        """Say farewell once the last events have spread, every round, until it is answered or took too long."""
        if self._leave_at is None:
            return
        settings, gone_for = self._settings, turn.now - self._leave_at
        if gone_for > LEAVE_LEASES * settings.lease_ns:
            self.close(turn)
        elif self.state is not SessionState.LEAVING:
            self.leave(turn)
        elif gone_for >= int(settings.drain_rounds * settings.ticket_round_ns) and self.ring.predecessor is not None:
            turn.post(self.ring.predecessor, ReleaseTicket(*self.ticket_epoch, pack(self.final_record())))

    def _close_if_lost(self, turn: Turn) -> None:
        """Close when superseded, when suspended for long and fenced somewhere, or when leases cannot come any more."""
        authority = self.authority
        if self._is_superseded():
            turn.note("ticket_overtaken", *self.ticket_epoch)
            self.close(turn)
        if self.state in (SessionState.LEAVING, SessionState.CLOSED) or authority.may_act(turn.now):
            return
        leases = (turn.now - authority.suspended_since) / self._settings.lease_ns
        never = leases > (YIELD_LEASES if self.state is SessionState.ACQUIRING else HOPELESS_LEASES)
        if never or self.witnesses.is_lost() or (self.witnesses.fenced_by and leases > FENCED_LEASES):
            self.close(turn)

    def _is_superseded(self) -> bool:
        """Tell whether something was published under a later epoch of our ticket: it has another owner."""
        return epoch_of(self._entry_of(self.ticket_epoch.ticket)) > self.ticket_epoch.epoch

    # --- time ---

    def tick(self, turn: Turn) -> None:
        """Do a round's work where it is due, and what the walk waits for."""
        authority = self.authority
        if authority.state is SessionState.ACQUIRING and turn.now < authority.until():
            authority.step(SessionState.ACTIVE)  # a founder without witnesses: there is nobody whose leave it needs
        self.exclusion.tick(turn)
        if turn.now >= self._round_at:
            self._round_at = turn.now + self._settings.ticket_round_ns
            self._do_round(turn)

    def _do_round(self, turn: Turn) -> None:
        self._close_if_lost(turn)
        if self.state is SessionState.CLOSED:
            return
        self.witnesses.watch(turn.now)
        self.witnesses.withdraw_if_stuck(turn)
        self._continue_leaving(turn)
        if self.authority.state is not SessionState.CLOSED:
            self.registration.renew(turn)
        if self.authority.state is SessionState.ACTIVE:
            self.exclusion.watch_successor(turn)
            self.ring.greet(turn)
            if not self.grants.is_busy() and self.authority.may_act(turn.now):
                self.witnesses.choose(self.ring.predecessors, turn)
            self.epochs.reserve_ahead(self.authority.record.top, turn)

    def wake_at(self, now: Instant) -> Instant:
        """Return when tick or a lapse is due."""
        at, walk = self._round_at, self.exclusion.walk
        if walk is not None and (walk_at := walk.wake_at()) is not None:
            at = min(at, walk_at)
        ends = self.authority.until() if self.authority.announced else at
        return min(at, ends) if ends > now else at
