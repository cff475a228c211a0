"""One cluster's tickets in one process: hears every word about them and brings it to whom it concerns.

The process is a witness for others, perhaps a seed, perhaps an applicant or a coordinator; all of that here, one desk
per cluster, and nothing shared between desks. Source: tickets_twolayer 4, 5.
"""

from collections.abc import Callable
from typing import Any

from whence.core.clocks.cct import epoch_of
from whence.core.levels.optimistic.tickets import items as say
from whence.core.levels.optimistic.tickets.founding import Arbiter, Founding, Phase
from whence.core.levels.optimistic.tickets.joining import Applicant, Owned, Status
from whence.core.levels.optimistic.tickets.neighbours import Neighbours
from whence.core.levels.optimistic.tickets.records import Claim, Record, pack, pack_processes, unpack, unpack_processes
from whence.core.levels.optimistic.tickets.seat import Seat, Standing
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.witness import Witness
from whence.core.ready import Dice, Gauge, Item, Note, Ready
from whence.errors import LeaseSuspendedError, NotCoordinatorError, UsageError
from whence.types import Instant, Process

PAST_MAX = 256
"""Closed claims of ours whose final records we keep. Full: the oldest is forgotten; asked for it, we say so."""

DEAD_MAX = 256
"""Processes an operator declared dead."""

TURN_STEPS_MAX = 10_000


class Desk:
    """Tickets of one cluster. Its parts are named here, so that a planted bug can be one of them replaced."""

    seat_type: type[Seat] = Seat
    witness_type: type[Witness] = Witness
    applicant_type: type[Applicant] = Applicant
    arbiter_type: type[Arbiter] = Arbiter
    founding_type: type[Founding] = Founding

    def __init__(
        self, me: Process, settings: TicketSettings, dice: Dice, entry_of: Callable[[int], int], handover_ns: int
    ) -> None:
        self.me = me
        self.seat: Seat | None = None
        self.witness = self.witness_type(settings.tickets, settings.lease_ns, 10 * settings.wait_ns)
        self.arbiter = self.arbiter_type()
        self.applicant = self.applicant_type(me, settings, dice)
        self.neighbours = Neighbours(me, settings)
        self.dead: dict[Process, Instant] = {}
        """Processes an operator declared dead, and when."""
        self.on_seat: Callable[[Claim, int, Instant, Ready], None] = lambda *_: None
        """Told of every ticket obtained, and of the last event of its former owners; lent by the order."""
        self._silent: tuple[Process, ...] = ()
        """Witnesses of lost coordinators for which the last attempt to found anew waited in vain."""
        self._settings = settings
        self._dice = dice
        self._entry_of = entry_of
        self._handover_ns = handover_ns
        self._past: dict[Claim, Record] = {}
        self._forgotten_epoch = 0
        self._founding: Founding | None = None
        self._ballots = 0
        self._fails = 0
        self._learn_at: Instant | None = None
        self._handlers: dict[type[Item], Callable[[Process, Any, Turn], None]] = {
            say.Renew: self._on_renew,
            say.Alive: self._on_alive,
            say.Fenced: self._on_fenced,
            say.Update: self._on_update,
            say.AckUpdate: self._on_ack_update,
            say.NotCoordinator: self._on_not_coordinator,
            say.Probe: self._on_probe,
            say.Fresh: self._on_fresh,
            say.Stale: self._on_stale,
            say.Exclude: self._on_exclude,
            say.AckExclude: self._on_walk_answer,
            say.RequestFence: self._on_request_fence,
            say.AckFence: self._on_walk_answer,
            say.ClusterJoin: self._on_cluster_join,
            say.AckClusterJoin: self._on_ack_cluster_join,
            say.RejectClusterJoin: self._on_reject,
            say.Cleave: self._on_cleave,
            say.AckCleave: self._on_ack_cleave,
            say.GenerationRead: self._on_generation_read,
            say.GenerationValue: self._on_generation_value,
            say.Genesis: self._on_genesis,
            say.GenesisAnswer: self._on_genesis_answer,
            say.Reserve: self._on_reserve,
            say.Reserved: self._on_reserved,
        }

    # --- the application's door ---

    def begin(self) -> None:
        """Start with the group: nobody can have founded the cluster yet."""
        self.arbiter.begin()

    def restore(self, journal: list[bytes]) -> None:
        """Take up what this peer, as a seed, promised in an earlier life."""
        for record in reversed(journal):
            if self.arbiter.restore(record):
                return

    def checkpoint(self) -> list[bytes]:
        """Return the last of the records that a new life would take up."""
        return [self.arbiter.journal()] if self.arbiter.knows else []

    def cjoin(self, now: Instant) -> None:
        """Ask for a ticket, until one is had or cleave is called. Raises UsageError if one is had or asked for."""
        if self.applicant.wanted:
            raise UsageError("this process already has a ticket, or asks for one")
        self.applicant.want(now)

    def cleave(self, now: Instant, ready: Ready) -> None:
        """Give the ticket back. Raises UsageError without one, and for the last coordinator: it must stay."""
        if not self.applicant.wanted:
            raise UsageError("this process neither has a ticket nor asks for one")
        if self.seat is not None and self.seat.record.alone() and self.seat.pending is None:
            raise UsageError("the last coordinator cannot leave its cluster; retry once another one has joined")
        self.depart(now, ready)

    def depart(self, now: Instant, ready: Ready) -> None:
        """Give up the ticket, or the wish for one, whatever comes of it."""
        turn = self._turn(now, ready)
        if self.applicant.wanted:
            turn.note("ticket_given_back")
        self.applicant.wanted = False
        self._founding = None
        if self.seat is not None:
            self.seat.leave(turn)
        self._end(turn)

    def drop_leases(self, now: Instant, ready: Ready) -> None:
        """Count on no lease that was lent so far, and ask for new ones: the clock may have stood still."""
        turn = self._turn(now, ready)
        if self.seat is not None:
            self.seat.drop_leases(turn)
        self._end(turn)

    def declare_dead(self, process: Process, now: Instant) -> None:
        """Count a witness as fenced for good: an operator's word that this life of it is over. Raises UsageError."""
        if process == self.me:
            raise UsageError("this process lives")
        if self.neighbours.spoke_lately(process, now):
            raise UsageError(f"process {process.pid}, life {process.boot}, spoke to this one a moment ago: it lives")
        if len(self.dead) >= DEAD_MAX:
            raise UsageError(f"at most {DEAD_MAX} processes can be declared dead; restart this one")
        self.dead.setdefault(process, now)
        self._silent = tuple(each for each in self._silent if each != process)

    def authorize(self, now: Instant) -> Claim:
        """Return the claim to publish under now. Raises NotCoordinatorError or LeaseSuspendedError, with a hint."""
        refusal = self.refusal(now)
        if refusal is not None:
            raise refusal
        assert self.seat is not None
        return self.seat.claim

    def refusal(self, now: Instant) -> NotCoordinatorError | LeaseSuspendedError | None:
        """Return why nothing may be published now, and when to try again; None if something may."""
        seat = self.seat
        round_ns = self._settings.ticket_round_ns
        if seat is None or seat.standing in (Standing.LEAVING, Standing.CLOSED):
            if self.applicant.wanted:
                return NotCoordinatorError(self.applicant.why_not_yet(self._lost_witnesses()), round_ns)
            given_back = "it is giving its ticket back" if seat is not None else "it has not asked for a ticket"
            return NotCoordinatorError(given_back, None)
        if not seat.may_act(now):
            why = "no lease has come yet" if seat.standing is Standing.ACQUIRING else "its lease has run out"
            return LeaseSuspendedError(why, round_ns)
        entry = self._entry_of(seat.claim.ticket)
        if epoch_of(entry) > seat.claim.epoch:
            return NotCoordinatorError("its ticket has a later owner, and another one is asked for", round_ns)
        if entry < seat.base and now - seat.since < self._handover_ns:
            left = self._handover_ns - (now - seat.since)
            return LeaseSuspendedError("the last events of the ticket's former owner have not come yet", left)
        return None

    def status(self, now: Instant) -> Status:
        """Return how this process stands."""
        seat, refusal = self.seat, self.refusal(now)
        acts = seat is not None and seat.may_act(now)
        standing = "joining" if self.applicant.wanted else "none"
        if seat is not None:
            standing = "suspended" if seat.standing is Standing.ACTIVE and not acts else seat.standing.value
        return Status(
            standing=standing,
            ticket=seat.claim.ticket if seat is not None else None,
            epoch=seat.claim.epoch if seat is not None else None,
            lease_left_ns=seat.until() - now if seat is not None and acts else 0,
            coordinates=seat.coordinates() if seat is not None and acts else 0,
            why=refusal.why if refusal is not None else "",
            retry_ns=(refusal.retry_ns or 0) if refusal is not None else 0,
            waits_for=self._waits_for(now),
            owners=tuple(
                Owned(*claim, owner, self.witness.lease_left_ns(claim, now))
                for claim, owner in self.applicant.claims()
                if owner != self.me
            ),
        )

    def _waits_for(self, now: Instant) -> tuple[Process, ...]:
        return self.seat.waits_for(now) if self.seat is not None else self._lost_witnesses()

    def _lost_witnesses(self) -> tuple[Process, ...]:
        """Return the witnesses of lost coordinators whose word is missing to found anew."""
        walk = self._founding.walk if self._founding is not None else None
        return (walk.waits_for() if walk is not None else ()) or self._silent

    def idle(self) -> bool:
        """Tell whether nothing of ours has to be given back any more."""
        return self.seat is None

    # --- inputs ---

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        """Take a peer's word."""
        turn = self._turn(now, ready)
        self._hear(sender, item, turn)
        self._end(turn)

    def tick(self, now: Instant, ready: Ready) -> None:
        """Do what time asks for."""
        turn = self._turn(now, ready)
        if self.seat is not None:
            self.seat.tick(turn)
        self._go_on_founding(turn)
        self._go_on_joining(turn)
        self._go_on_learning(turn)
        self._end(turn)

    def wake_at(self, now: Instant) -> Instant | None:
        """Return when tick has something to do."""
        times: list[Instant] = []
        if self.seat is not None:
            times.append(self.seat.wake_at(now))
        if self._founding is not None:
            times.append(self._founding.wake_at())
        elif self.seat is None and self.applicant.wanted:
            times.append(self.applicant.next_at)
        if self._is_seed() and not self.arbiter.knows and self._founding is None:
            times.append(self._learn_at if self._learn_at is not None else now)
        return max(min(times), now) if times else None

    def gauges(self) -> list[Gauge]:
        """Return how much is remembered."""
        return [*self.witness.gauges(), Gauge("past_claims", len(self._past), PAST_MAX)]

    # --- one turn ---

    def _turn(self, now: Instant, ready: Ready) -> Turn:
        turn = Turn(self.me, now, ready)
        if self.seat is not None:
            self.seat.lapse(turn)
        return turn

    def _end(self, turn: Turn) -> None:
        """Hear what we said to ourselves; then tell observers how we stand, and put a closed seat away."""
        steps = 0
        while turn.to_self and steps < TURN_STEPS_MAX:
            self._hear(self.me, turn.to_self.popleft(), turn)
            steps += 1
        seat = self.seat
        if seat is None:
            return
        seat.tell(turn)
        if seat.standing is Standing.CLOSED:
            self._put_away(seat, turn)

    def _put_away(self, seat: Seat, turn: Turn) -> None:
        self._past[seat.claim] = seat.final_record()
        if len(self._past) > PAST_MAX:
            oldest = next(iter(self._past))
            self._forgotten_epoch = max(self._forgotten_epoch, oldest.epoch)
            del self._past[oldest]
        self.seat = None
        turn.note("ticket_closed", *seat.claim)
        if self.applicant.wanted:
            self.applicant.begin_anew(turn.now + int(self._dice() * self._settings.ticket_round_ns))
            self.applicant.hear_active(turn.now)

    def _hear(self, sender: Process, item: Item, turn: Turn) -> None:
        self.neighbours.hear(sender, turn.now)
        ticket = getattr(item, "ticket", 0)
        if ticket >= self._settings.tickets:
            turn.ready.notes.append(Note("reject", "other_cluster", peer=sender.pid))
            return
        self._handlers[type(item)](sender, item, turn)

    def _seat_of(self, item: Any) -> Seat | None:
        """Return our seat if the item speaks to exactly this claim."""
        seat = self.seat
        return seat if seat is not None and seat.claim == (item.ticket, item.epoch) else None

    # --- as a witness ---

    def _on_renew(self, sender: Process, item: say.Renew, turn: Turn) -> None:
        self.applicant.hear_owner(Claim(item.ticket, item.epoch), sender)
        answer = self.witness.renew(item, turn.now)
        if answer is not None:
            turn.post(sender, answer)

    def _on_probe(self, sender: Process, item: say.Probe, turn: Turn) -> None:
        turn.post(sender, self.witness.probe(item, turn.now))

    def _on_request_fence(self, sender: Process, item: say.RequestFence, turn: Turn) -> None:
        turn.post(sender, self.witness.fence(item))

    # --- as a coordinator ---

    def _on_alive(self, sender: Process, item: say.Alive, turn: Turn) -> None:
        if (seat := self._seat_of(item)) is not None:
            before = seat.standing
            seat.on_alive(sender, item, turn)
            if before is Standing.ACQUIRING and seat.standing is Standing.ACTIVE:
                seat.since = turn.now

    def _on_fenced(self, sender: Process, item: say.Fenced, turn: Turn) -> None:
        if (seat := self._seat_of(item)) is not None:
            seat.on_fenced(sender, turn)

    def _on_update(self, sender: Process, item: say.Update, turn: Turn) -> None:
        self.applicant.hear_owner(Claim(item.pred_ticket, item.pred_epoch), sender)
        if (seat := self._seat_of(item)) is not None and seat.standing is not Standing.CLOSED:
            seat.on_update(sender, item, turn)
        else:
            self._deny(sender, Claim(item.ticket, item.epoch), turn, unknown="ackcjoin_lost")

    def _on_exclude(self, sender: Process, item: say.Exclude, turn: Turn) -> None:
        if (seat := self._seat_of(item)) is not None:
            seat.yield_to_walk(turn)
        if seat is not None and seat.standing is not Standing.CLOSED:
            leaving = seat.standing is Standing.LEAVING
            turn.post(sender, say.AckExclude(item.ticket, item.epoch, leaving, pack(seat.record)))
        else:
            self._deny(sender, Claim(item.ticket, item.epoch), turn, unknown="ackcjoin_lost")

    def _deny(self, sender: Process, claim: Claim, turn: Turn, unknown: str = "ackcjoin_refused") -> None:
        """Say that we will never act as this claim, and see to it."""
        final = self._past.get(claim)
        if final is None and self.seat is not None and self.seat.claim == claim:
            final = self.seat.final_record()
        forgot = final is None and claim.epoch <= self._forgotten_epoch
        if final is None and not forgot:
            turn.note(unknown, *claim)
            self.applicant.refuse(claim, turn.now)
            proposed = self._founding.record if self._founding is not None else None
            if proposed is not None and proposed.claim == claim:
                self._founding = None  # whoever asked now counts on it that we never take the seat
                self.applicant.found_again_after(self._fails, turn.now)
        record = pack(final) if final is not None else b""
        turn.post(sender, say.NotCoordinator(*claim, forgot, record))

    def _on_ack_update(self, sender: Process, item: say.AckUpdate, turn: Turn) -> None:
        if self.seat is not None:
            self.seat.on_ack_update(sender, item, turn)

    def _on_fresh(self, sender: Process, item: say.Fresh, turn: Turn) -> None:
        if self.seat is not None:
            self.seat.on_fresh(sender, Claim(item.ticket, item.epoch))
        elif self._founding is not None:
            self._founding.on_fresh(sender, Claim(item.ticket, item.epoch), turn)
            self._follow_founding(turn)

    def _on_stale(self, sender: Process, item: say.Stale, turn: Turn) -> None:
        if self.seat is not None and item.record:
            self.seat.on_stale(unpack(item.record))
        elif self._founding is not None:
            self._founding.on_stale(sender, item, turn)

    def _on_not_coordinator(self, sender: Process, item: say.NotCoordinator, turn: Turn) -> None:
        if self.seat is not None:
            self.seat.on_not_coordinator(sender, item, turn)
        elif self._founding is not None:
            self._founding.on_walk_answer(sender, item, turn)
            self._follow_founding(turn)

    def _on_walk_answer(self, sender: Process, item: say.AckExclude | say.AckFence, turn: Turn) -> None:
        if self.seat is not None:
            self.seat.on_walk_answer(sender, item, turn)
        elif self._founding is not None:
            self._founding.on_walk_answer(sender, item, turn)
            self._follow_founding(turn)

    def _on_cluster_join(self, sender: Process, item: say.ClusterJoin, turn: Turn) -> None:
        seat = self.seat
        refusal = "no coordinator"
        if seat is not None and seat.standing is Standing.ACTIVE:
            refusal = seat.serve(sender, item.nonce, turn)
        if refusal:
            acts = seat is not None and seat.may_act(turn.now)
            hints = [owner for owner in self.applicant.owners() if owner != sender][-say.HINTS_MAX :]
            if acts and len(hints) < say.HINTS_MAX:
                hints.append(self.me)
            turn.post(sender, say.RejectClusterJoin(item.nonce, acts, refusal == "full", pack_processes(hints)))

    def _on_cleave(self, sender: Process, item: say.Cleave, turn: Turn) -> None:
        if self.seat is not None:
            self.seat.on_cleave(sender, item, turn)

    def _on_ack_cleave(self, sender: Process, item: say.AckCleave, turn: Turn) -> None:
        if (seat := self._seat_of(item)) is not None:
            seat.on_ack_cleave(turn)

    # --- as an applicant ---

    def _on_ack_cluster_join(self, sender: Process, item: say.AckClusterJoin, turn: Turn) -> None:
        record = unpack(item.record)
        self.applicant.hear_active(turn.now)
        if record.owner != self.me or record.claim.ticket >= self._settings.tickets:
            return
        if self.seat is not None and self.seat.claim == record.claim:
            return  # it came twice
        founding = self._founding is not None and self._founding.phase is Phase.PROPOSING
        taken = self.seat is not None or founding or record.claim in self._past
        if taken or not self.applicant.takes(item.nonce, record.claim):
            self._deny(sender, record.claim, turn)
            return
        self._founding = None
        self.applicant.begin_anew(turn.now)
        self._sit_down(record, item.base, turn)

    def _sit_down(self, record: Record, base: int, turn: Turn) -> None:
        self.seat = self.seat_type(
            record, base, self._settings, self.neighbours, self._dice, self._entry_of, self.dead, turn.now
        )  # fmt: skip
        self.on_seat(record.claim, base, turn.now, turn.ready)
        self.seat.tick(turn)

    def _on_reject(self, sender: Process, item: say.RejectClusterJoin, turn: Turn) -> None:
        if item.nonce != self.applicant.nonce or self.seat is not None:
            return
        if item.active:
            self.applicant.hear_active(turn.now)
        else:
            self.applicant.forget_owner(sender)
        for owner in unpack_processes(item.hints):
            if owner.pid != self.me.pid and not self.neighbours.outlived(owner):
                self.applicant.hear_hint(owner)
        self.applicant.on_reject(sender, turn.now, full=item.full)

    def _go_on_joining(self, turn: Turn) -> None:
        applicant = self.applicant
        if not applicant.wanted or self.seat is not None or self._founding is not None:
            return
        if turn.now < applicant.next_at:
            return
        if applicant.should_found(turn.now):
            self._begin_founding(turn)
        else:
            turn.post_pid(applicant.ask(turn.now), say.ClusterJoin(applicant.nonce))

    # --- as a founder, and as a seed ---

    def _is_seed(self) -> bool:
        return self.me.pid in self.neighbours.seeds

    def _begin_founding(self, turn: Turn, *, learning: bool = False) -> None:
        self._ballots += 1
        self._founding = self.founding_type(
            self.me, self._ballots, self._settings, lambda: self._own_witnesses(turn.now), self._dice, self.dead,
            self._epoch_seen(), learning=learning,
        )  # fmt: skip
        self._founding.begin(turn)

    def _own_witnesses(self, now: Instant) -> tuple[Process, ...]:
        return self.neighbours.witnesses_for(self.me, (), {}, (), now)

    def _go_on_founding(self, turn: Turn) -> None:
        if self._founding is not None:
            self._founding.tick(turn)
            self._follow_founding(turn)

    def _follow_founding(self, turn: Turn) -> None:
        founding = self._founding
        if founding is None:
            return
        self._ballots = max(self._ballots, founding.highest)
        match founding.phase:
            case Phase.FOUNDED if founding.record is not None:
                self._founding, self._fails, self._silent = None, 0, ()
                turn.note("refounded" if founding.generation else "founded", *founding.record.claim)
                record = founding.record
                self._sit_down(record, record.last_of(record.claim.ticket), turn)
            case Phase.LEARNED:
                self._founding, self._learn_at = None, None
                self.arbiter.learn(founding.ballot, founding.generation, founding.genesis, founding.floor, turn)
            case Phase.MET:
                self._founding, self._silent = None, ()
                if founding.met is not None:
                    self.applicant.hear_active(turn.now)
                    self.applicant.hear_hint(founding.met)
                else:
                    turn.note("core_lives")
                    self.applicant.hear_unheard(turn.now)
            case Phase.FAILED:
                self._founding = None
                self._silent = founding.walk.waits_for() if founding.walk is not None else self._silent
                self._fails += 1
                self.applicant.found_again_after(self._fails, turn.now)
                self._learn_at = turn.now + int((1 + self._dice()) * self._settings.ticket_round_ns)
            case _:
                pass

    def _go_on_learning(self, turn: Turn) -> None:
        """Ask the other seeds what we promised before we lost our journal."""
        if self.arbiter.knows or not self._is_seed() or self._founding is not None:
            return
        if self._learn_at is None or turn.now >= self._learn_at:
            self._begin_founding(turn, learning=True)

    def _on_generation_read(self, sender: Process, item: say.GenerationRead, turn: Turn) -> None:
        if self._is_seed():
            self._ballots = max(self._ballots, item.ballot)
            recent = self.witness.recent()
            start = next((record for record in recent if record.generation == self.arbiter.generation), None)
            self.arbiter.see(self._epoch_seen())
            hold_ns = 3 * self._settings.ticket_round_ns // 2
            self.arbiter.read(sender, item, pack(start) if start is not None else b"", hold_ns, turn)

    def _on_generation_value(self, sender: Process, item: say.GenerationValue, turn: Turn) -> None:
        if self._founding is not None:
            self._founding.on_value(sender, item, turn)
            self._follow_founding(turn)

    def _on_genesis(self, sender: Process, item: say.Genesis, turn: Turn) -> None:
        if self._is_seed():
            self.arbiter.accept(sender, item, turn)

    def _on_reserve(self, sender: Process, item: say.Reserve, turn: Turn) -> None:
        if self._is_seed():
            self.arbiter.reserve(sender, item, turn)

    def _on_reserved(self, sender: Process, item: say.Reserved, turn: Turn) -> None:
        if self.seat is not None:
            self.seat.epochs.on_reserved(sender.pid, item)

    def _epoch_seen(self) -> int:
        """Return the highest epoch that was delivered or heard of here."""
        delivered = (epoch_of(self._entry_of(ticket)) for ticket in range(self._settings.tickets))
        heard = (claim.epoch for claim, _ in self.applicant.claims())
        return max((*delivered, *heard))

    def _on_genesis_answer(self, sender: Process, item: say.GenesisAnswer, turn: Turn) -> None:
        if self._founding is not None:
            self._founding.on_answer(sender, item, turn)
            self._follow_founding(turn)
