"""A coordinator: one claim to one ticket, from its first lease to its end.

Promises: it acts (publishes, grants, commits a change) only while a majority of its witnesses lets it, by its own clock
and their echo; what it tells others it has registered before; once closed or leaving it never acts again.
The sentence that decides: it may act now if `now` is before the end of the majority's leases, and it is active.
No lease means suspended, not dead: it resumes if nobody fenced it. Source: tickets_twolayer 4.4 to 4.8; traps B1 to B5,
B8 to B10, F1, F6, F8 to F10, F16 to F19, F23 to F26, F29, F33, F35.
Costs per ticket round: 2k + 1 renewals and their answers, one greeting of the successor and its answer.
"""

from collections.abc import Callable
from enum import Enum

from msgspec import structs

from whence.core.clocks.cct import epoch_of
from whence.core.levels.optimistic.tickets.change import Change, Kind
from whence.core.levels.optimistic.tickets.epochs import Reservation
from whence.core.levels.optimistic.tickets.granting import absorbed, grantable, granted, taken_over, tickets_of
from whence.core.levels.optimistic.tickets.grants import Grant, Grants
from whence.core.levels.optimistic.tickets.items import (
    AckCleave,
    AckClusterJoin,
    AckExclude,
    AckFence,
    AckUpdate,
    Alive,
    Cleave,
    NotCoordinator,
    Probe,
    Renew,
    Update,
)
from whence.core.levels.optimistic.tickets.lease import Leases
from whence.core.levels.optimistic.tickets.neighbours import Neighbours
from whence.core.levels.optimistic.tickets.records import (
    EPOCH_MAX,
    Claim,
    Pointer,
    Processes,
    Record,
    blocking,
    last_with,
    majority,
    pack,
    pack_processes,
    unpack,
    unpack_processes,
)
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.walk import Stage, Walk
from whence.core.ready import Dice, Note
from whence.types import Instant, Process

PROBE_MISSES, WALK_MISSES, SURE_MISSES = 2, 3, 7
"""Greetings unanswered before witnesses are probed, before the successor is closed if they miss it too, or anyway."""

SILENT_ROUNDS = 3
"""Ticket rounds after which a witness that does not answer is replaced."""

SHUN_ROUNDS = 8
"""Ticket rounds for which a witness that did not answer is not chosen again."""

WITHDRAW_ROUNDS = 2
"""Ticket rounds after which a change of witnesses that does not go through is withdrawn."""

YIELD_LEASES, HOPELESS_LEASES = 4, 16
"""Leases' times for which a coordinator goes without before it gives up its claim to whoever walks the ring, and by
itself. Too few witnesses may be left of a set for a majority while each of the others says that it lives."""

ABSORBED_KEPT = 16
"""Leavers whose repeated farewells are still answered."""


class Standing(Enum):
    """Where a coordinator is in its life."""

    ACQUIRING = "acquiring"
    ACTIVE = "active"
    LEAVING = "leaving"
    CLOSED = "closed"


STEPS: dict[Standing, tuple[Standing, ...]] = {
    Standing.ACQUIRING: (Standing.ACTIVE, Standing.LEAVING, Standing.CLOSED),
    Standing.ACTIVE: (Standing.LEAVING, Standing.CLOSED),
    Standing.LEAVING: (Standing.CLOSED,),
    Standing.CLOSED: (),
}
"""From each standing, those that may follow. A claim never comes back."""


class Seat:
    """One coordinator."""

    walk_type: type[Walk] = Walk
    leases_type: type[Leases] = Leases
    change_type: type[Change] = Change

    def __init__(
        self,
        record: Record,
        base: int,
        settings: TicketSettings,
        neighbours: Neighbours,
        dice: Dice,
        entry_of: Callable[[int], int],
        dead: dict[Process, Instant],
        now: Instant,
    ) -> None:
        self.standing = Standing.ACQUIRING
        self.record = record
        """What is committed."""
        self.base = base
        """The last event of earlier owners that must come before ours."""
        self.since = now
        self.pending: Change | None = None
        self.walk: Walk | None = None
        self.confirmed = record.alone()
        """The successor has been active, so it has registered a record of its own."""
        self._settings = settings
        self._neighbours = neighbours
        self._dice = dice
        self._entry_of = entry_of
        self._dead = dead
        self._leases = self.leases_type(settings.lease_ns)
        self._asked_since: dict[Process, Instant] = {}
        self._avoid: dict[Process, Instant] = {}
        self._fenced_by: dict[Process, None] = {}
        self._suspended_since = now
        self._told = 0
        """How many tickets observers believe this process acts for; 0 while it may not act."""
        self._round_at = now
        self._ring: Processes = ()
        self._pred: tuple[Process, Claim] | None = None
        self._pred_stamp = 0
        self._stamp = record.top
        self._misses = 0
        self._answered = True
        self._fresh: dict[Process, None] = {}
        self._grants = Grants(SHUN_ROUNDS * settings.ticket_round_ns)
        self._absorbed: dict[Claim, None] = {}
        self.epochs = Reservation(neighbours.seeds, record.claim.epoch, dead)
        self._leave_at: Instant | None = None

    # --- what may be done now ---

    @property
    def claim(self) -> Claim:
        """Return who this coordinator is."""
        return self.record.claim

    def until(self) -> Instant:
        """Return when the majority's leases end."""
        return self._leases.until(self.record.witnesses)

    def may_act(self, now: Instant) -> bool:
        """Tell whether it may publish, grant or commit at this very moment."""
        return self.standing is Standing.ACTIVE and now < self.until()

    def coordinates(self) -> int:
        """Return for how many tickets it acts, its own among them."""
        return len(tickets_of(self.record, self._settings.tickets))

    def waits_for(self, now: Instant) -> Processes:
        """Return the witnesses whose word is missing: to take over from the dead, or to act at all."""
        if self.walk is not None:
            return self.walk.waits_for()
        if self.standing is Standing.LEAVING or self.may_act(now):
            return ()
        lease_ns = self._settings.lease_ns
        return tuple([witness for witness in self.record.witnesses if self._leases.last(witness) + lease_ns <= now])

    def lapse(self, turn: Turn) -> None:
        """Notice at the beginning of a turn that the leases ended, perhaps long ago."""
        if self._told and not self.may_act(turn.now):
            late = turn.now - self.until() if self.standing is Standing.ACTIVE else 0
            self._told = 0
            self._suspended_since = turn.now
            self.walk = None
            turn.ready.notes.append(
                Note("ticket_suspend", ticket=self.claim.ticket, epoch=self.claim.epoch, late_ns=late)
            )
            if late > self._settings.answer_ns:
                turn.note("lease_overslept", *self.claim)

    def tell(self, turn: Turn) -> None:
        """Tell observers at the end of a turn for how many tickets it acts from now on."""
        acts_for = self.coordinates() if self.may_act(turn.now) else 0
        if acts_for == self._told:
            return
        if not acts_for:
            self._suspended_since = turn.now
        self._told = acts_for
        kind = "ticket_acquire" if acts_for else "ticket_suspend"
        turn.ready.notes.append(Note(kind, ticket=self.claim.ticket, epoch=self.claim.epoch, value=acts_for or None))

    # --- leases ---

    def on_alive(self, sender: Process, item: Alive, turn: Turn) -> None:
        """Take a witness's lease, and its word that it keeps a version of the record."""
        self._leases.grant(sender, item.sent_at, turn.now)
        if self.standing is Standing.ACQUIRING and turn.now < self.until():
            self._step(Standing.ACTIVE)
        pending = self.pending
        if pending is not None and item.version == pending.record.version:
            pending.acks[sender] = None
            self._commit_if_registered(turn)

    def on_fenced(self, sender: Process, turn: Turn) -> None:
        """Close once so many witnesses refuse that no majority is left."""
        self._fenced_by[sender] = None
        self._avoid[sender] = turn.now + (1 << 62)
        witnesses = self.record.witnesses
        if witnesses and sum(witness in self._fenced_by for witness in witnesses) >= blocking(witnesses):
            self.close(turn)

    def drop_leases(self, turn: Turn) -> None:
        """Act no more until a majority answers what is asked from now on."""
        self._leases.drop(turn.now)
        if not self._is_closed():
            self._renew(turn)

    def _renew(self, turn: Turn) -> None:
        """Ask all installed and proposed witnesses for another lease, and show them the record."""
        record = self.pending.record if self.pending is not None else self.record
        renew = Renew(*self.claim, record.version, turn.now, pack(record))
        for witness in dict.fromkeys((*record.witnesses, *record.proposed)):
            self._asked_since.setdefault(witness, turn.now)
            turn.post(witness, renew)

    # --- registered changes ---

    def _propose(self, change: Change, turn: Turn) -> None:
        self.pending = change
        self._renew(turn)
        self._commit_if_registered(turn)  # without witnesses there is nobody to wait for

    def _commit_if_registered(self, turn: Turn) -> None:
        change = self.pending
        if change is None or not change.registered() or not self.may_act(turn.now):
            return
        self.pending = None
        self.record = change.record
        if change.kind is Kind.WITNESSES:
            self._install(change.record, turn)
            return
        self._stamp = change.record.top
        self._misses, self._answered, self._fresh = 0, True, {}
        self.confirmed = change.record.alone()
        turn.note(f"ticket_{change.kind.value}", *change.record.succ.claim)
        grant = self._grants.last
        if change.kind is Kind.GRANT and grant is not None:
            turn.post(grant.joiner, grant.answer)
            return  # it is greeted with the next round, so that no greeting overtakes its ticket
        if change.leaver is not None:
            turn.post(change.leaver, AckCleave(*next(reversed(self._absorbed))))
        self._greet(turn)

    def _install(self, record: Record, turn: Turn) -> None:
        """Count on the proposed witnesses from now on, and on them alone."""
        self.record = record.next(witnesses=record.proposed, proposed=())
        self._leases.keep_only(self.record.witnesses)
        self._asked_since = {w: at for w, at in self._asked_since.items() if w in self.record.witnesses}
        self._renew(turn)

    def _withdraw_stuck_witnesses(self, turn: Turn) -> None:
        change = self.pending
        patience = WITHDRAW_ROUNDS * self._settings.ticket_round_ns
        if change is None or change.kind is not Kind.WITNESSES or turn.now - change.since <= patience:
            return
        for witness in change.record.proposed:
            if witness not in change.acks:
                self._shun(witness, turn.now)
        self.record = structs.replace(self.record, version=change.record.version + 1)
        self.pending = None

    def _choose_witnesses(self, turn: Turn) -> None:
        """Replace witnesses that are silent or no longer nearest."""
        if self.pending is not None or self.walk is not None or not self.may_act(turn.now):
            return
        current = self.record.witnesses
        wanted = self._neighbours.witnesses_for(self.record.owner, self._ring, self._avoid, current, turn.now)
        if len(wanted) < min(len(current), self._settings.witnesses) or set(wanted) == set(current):
            return
        self._propose(self.change_type(Kind.WITNESSES, self.record.next(proposed=wanted), turn.now), turn)

    def _watch_witnesses(self, now: Instant) -> None:
        patience = SILENT_ROUNDS * self._settings.ticket_round_ns
        for witness in self.record.witnesses:
            asked = self._asked_since.get(witness, now)
            if now - max(asked, self._leases.last(witness)) > patience or self._neighbours.outlived(witness):
                self._shun(witness, now)

    def _shun(self, witness: Process, now: Instant) -> None:
        until = now + SHUN_ROUNDS * self._settings.ticket_round_ns
        self._avoid[witness] = max(until, self._avoid.get(witness, until))

    # --- the ring ---

    def on_update(self, sender: Process, item: Update, turn: Turn) -> None:
        """Learn who precedes us, unless it is old news, and answer."""
        if item.stamp < self._pred_stamp:
            return
        self._pred_stamp = item.stamp
        self._pred = (sender, Claim(item.pred_ticket, item.pred_epoch))
        self._ring = unpack_processes(item.ring)
        active = self.standing is not Standing.ACQUIRING
        record = self.record
        turn.post(sender, AckUpdate(*self.claim, record.version, pack_processes(record.witnesses), active))

    def on_ack_update(self, sender: Process, item: AckUpdate, turn: Turn) -> None:
        """Know that the successor lives, and whom to ask about it when it does not."""
        succ = self.record.succ
        if (item.ticket, item.epoch) != succ.claim or sender != succ.owner:
            return
        self._misses, self._answered = 0, True
        self.confirmed = self.confirmed or item.active
        if item.version >= succ.version and self.pending is None:
            refreshed = Pointer(succ.claim, succ.owner, item.version, unpack_processes(item.witnesses))
            self.record = structs.replace(self.record, succ=refreshed)

    def on_fresh(self, sender: Process, claim: Claim) -> None:
        """Count a witness that saw the successor renew lately."""
        if claim == self.record.succ.claim:
            self._fresh[sender] = None

    def on_stale(self, record: Record) -> None:
        """Learn from a former witness of the successor whom to ask about it instead."""
        succ = self.record.succ
        if record.claim == succ.claim and record.version > succ.version and self.pending is None and self.walk is None:
            self.record = structs.replace(self.record, succ=record.pointer())

    def on_not_coordinator(self, sender: Process, item: NotCoordinator, turn: Turn) -> None:
        """Close a successor that says itself that it is closed: no fence, no wait."""
        if self.walk is not None:
            self.walk.on_not_coordinator(sender, item, turn.now, turn.post)
            self._follow_walk(turn)
            return
        succ = self.record.succ
        if (item.ticket, item.epoch) != succ.claim or sender != succ.owner:
            return
        if self.pending is not None or not self.may_act(turn.now):
            return
        self.walk = self._new_walk()
        if item.forgot:
            self.walk.fence(turn.now, turn.post)
        else:
            turn.note("soft_close", *succ.claim)
            self.walk.accept(unpack(item.record) if item.record else None, turn.now, turn.post)
        self._follow_walk(turn)

    def on_walk_answer(self, sender: Process, item: AckExclude | AckFence, turn: Turn) -> None:
        """Let the walk hear an answer."""
        if self.walk is None:
            return
        if isinstance(item, AckExclude):
            self.walk.on_ack_exclude(sender, item, turn.now, turn.post)
        else:
            self.walk.on_ack_fence(sender, item, turn.now, turn.post)
        self._follow_walk(turn)

    def _greet(self, turn: Turn) -> None:
        """Tell the successor that we precede it."""
        succ = self.record.succ
        if succ.claim == self.claim or not self.may_act(turn.now):
            return
        ring = [self.record.owner, *self._ring]
        if succ.owner in ring:
            ring = ring[: ring.index(succ.owner)]
        update = Update(*succ.claim, *self.claim, self._stamp, pack_processes(ring[: self._settings.witnesses]))
        turn.post(succ.owner, update)

    def _watch_successor(self, turn: Turn) -> None:
        """Count an unanswered greeting; probe, and close the successor when nobody else hears of it either."""
        if self.record.alone() or not self.may_act(turn.now):
            return
        if not self._answered:
            self._misses += 1
        self._answered = False
        succ = self.record.succ
        missed_too = sum(witness in self._fresh for witness in succ.witnesses) < majority(succ.witnesses)
        sure = self._misses >= SURE_MISSES or (self._misses >= WALK_MISSES and missed_too)
        free = self.pending is None and self.walk is None
        if sure and free and self._dice() < self._settings.exclude_chance:
            turn.note("exclusion", *succ.claim)
            self.walk = self._new_walk()
            self.walk.fence(turn.now, turn.post)
            self._follow_walk(turn)
        elif self._misses >= PROBE_MISSES:
            self._fresh = {}
            turn.post_all(succ.witnesses, Probe(*succ.claim))

    def _new_walk(self) -> Walk:
        record = self.record
        return self.walk_type(self._settings, self.claim, record.succ, record.beyond, self._dead)

    def _follow_walk(self, turn: Turn) -> None:
        """Take over what the walk closed; without a lease, drop it: the fences stay, and it can be walked again."""
        walk = self.walk
        if walk is None:
            return
        if walk.stage is Stage.STUCK or not self.may_act(turn.now):
            self.walk = None
            self._answered = True
            return
        if walk.stage is not Stage.DONE or self.pending is not None:
            return
        self.walk = None
        if not self.confirmed:
            self._grants.closed(walk, turn.now)
        if walk.on_words:
            self.epochs.distrust(self.record.top, turn)
        succ, beyond = walk.found if walk.found is not None else (None, None)
        record = taken_over(self.record, succ, beyond, walk.top, walk.last, self._settings.tickets)
        self._propose(self.change_type(Kind.TAKEOVER, record, turn.now), turn)

    # --- giving and taking back tickets ---

    def serve(self, joiner: Process, nonce: int, turn: Turn) -> str:
        """Give a joiner a ticket; return "" if that began, or why not: busy or full."""
        grant = self._grants.answers(joiner, nonce)
        if grant is not None and self._stands(grant):
            if self.pending is None and self.walk is None and not self.confirmed:
                turn.post(joiner, grant.answer)
            return ""
        if self.pending is not None or self.walk is not None or not self.may_act(turn.now) or not self.confirmed:
            return "busy"
        if self._grants.waits(joiner, turn.now):
            return "busy"
        free = self._grantable()
        if not free:
            return "full"
        ticket = free[int(self._dice() * len(free))]
        base = max(self.record.last_of(ticket), self._entry_of(ticket))
        epoch = max(self.record.top, epoch_of(base), self.epochs.floor) + 1
        if epoch > EPOCH_MAX:
            return "full"
        if not self.epochs.covers(epoch):
            self.epochs.ask(epoch, turn)
            return "busy"
        ring = (self.record.owner, *self._ring)
        witnesses = self._neighbours.witnesses_for(joiner, ring, {}, (), turn.now)
        mine, theirs = granted(self.record, Claim(ticket, epoch), joiner, witnesses, self._settings.tickets)
        self._grants.last = Grant(joiner, nonce, theirs.claim, AckClusterJoin(nonce, pack(theirs), base))
        self._propose(self.change_type(Kind.GRANT, mine, turn.now), turn)
        return ""

    def _stands(self, grant: Grant) -> bool:
        """Tell whether a grant is being registered, or named by the record; one that was closed is void."""
        registering = self.pending is not None and self.pending.kind is Kind.GRANT
        return registering or self.record.succ.claim == grant.claim

    def _grantable(self) -> list[int]:
        return grantable(self.record, self._settings.tickets)

    def on_cleave(self, sender: Process, item: Cleave, turn: Turn) -> None:
        """Take back what our successor gives up; answer repeats."""
        claim = Claim(item.ticket, item.epoch)
        if claim in self._absorbed and self.record.succ.claim != claim:
            turn.post(sender, AckCleave(*claim))
            return
        if claim != self.record.succ.claim or self.pending is not None or self.walk is not None:
            return
        leaver = unpack(item.record)
        if leaver.claim != claim or not self.may_act(turn.now):
            return
        self._absorbed[claim] = None
        if len(self._absorbed) > ABSORBED_KEPT:
            del self._absorbed[next(iter(self._absorbed))]
        record = absorbed(self.record, leaver, self._settings.tickets)
        self._propose(self.change_type(Kind.ABSORB, record, turn.now, leaver=sender), turn)

    # --- the end ---

    def leave(self, turn: Turn) -> None:
        """Stop acting for good, as soon as no change is under way; then give back what is coordinated."""
        if self._leave_at is None:
            self._leave_at = turn.now
        if self.standing in (Standing.LEAVING, Standing.CLOSED):
            return
        if (self.pending is None and self.walk is None) or self.standing is Standing.ACQUIRING:
            self._step(Standing.LEAVING)
            self._release(turn)

    def leaving(self) -> bool:
        """Tell whether it wants to go."""
        return self._leave_at is not None

    def on_ack_cleave(self, turn: Turn) -> None:
        """Be gone: the predecessor has everything."""
        if self.standing is Standing.LEAVING:
            self.close(turn)

    def close(self, turn: Turn) -> None:
        """Never act again; the record stays as the last word about this claim."""
        if self.standing is not Standing.CLOSED:
            self._step(Standing.CLOSED)
            self._release(turn)
            self.walk = self.pending = None

    def yield_to_walk(self, turn: Turn) -> None:
        """Close for somebody who walks the ring, where nothing was acted for in long and may never be again."""
        suspended = turn.now - self._suspended_since
        if not self.may_act(turn.now) and suspended > YIELD_LEASES * self._settings.lease_ns:
            self.close(turn)

    def final_record(self) -> Record:
        """Return the record with the last event published under it."""
        ticket = self.claim.ticket
        return structs.replace(self.record, last=last_with(self.record.last, ticket, self._entry_of(ticket)))

    def _release(self, turn: Turn) -> None:
        if self._told:
            self._told = 0
            turn.ready.notes.append(Note("ticket_release", ticket=self.claim.ticket, epoch=self.claim.epoch))

    def _go_on_leaving(self, turn: Turn) -> None:
        if self._leave_at is None:
            return
        settings, gone_for = self._settings, turn.now - self._leave_at
        if gone_for > 4 * settings.lease_ns:
            self.close(turn)
        elif self.standing is not Standing.LEAVING:
            self.leave(turn)
        elif gone_for >= int(settings.drain_rounds * settings.ticket_round_ns) and self._pred is not None:
            turn.post(self._pred[0], Cleave(*self.claim, pack(self.final_record())))

    def _close_if_lost(self, turn: Turn) -> None:
        """Close when overtaken, when suspended for long and fenced somewhere, or when leases cannot come any more."""
        if self._is_overtaken():
            turn.note("ticket_overtaken", *self.claim)
            self.close(turn)
        if self.standing in (Standing.LEAVING, Standing.CLOSED) or self.may_act(turn.now):
            return
        leases = (turn.now - self._suspended_since) / self._settings.lease_ns
        never = leases > (YIELD_LEASES if self.standing is Standing.ACQUIRING else HOPELESS_LEASES)
        if never or self._is_widowed() or (self._fenced_by and leases > 2):
            self.close(turn)

    def _is_overtaken(self) -> bool:
        """Tell whether something was published under a later epoch of our ticket: it has another owner."""
        return epoch_of(self._entry_of(self.claim.ticket)) > self.claim.epoch

    def _is_widowed(self) -> bool:
        """Tell whether no majority of the witnesses is left: they began another life, or were declared dead."""
        witnesses = self.record.witnesses
        gone = sum(self._neighbours.outlived(each) or each in self._dead for each in witnesses)
        return bool(witnesses) and gone >= blocking(witnesses)

    # --- time ---

    def tick(self, turn: Turn) -> None:
        """Do a round's work where it is due, and what the walk waits for."""
        if self.standing is Standing.ACQUIRING and turn.now < self.until():
            self._step(Standing.ACTIVE)  # a founder without witnesses: there is nobody whose leave it needs
        if self.walk is not None:
            self.walk.tick(turn.now, turn.post)
            self._follow_walk(turn)
        if turn.now >= self._round_at:
            self._round_at = turn.now + self._settings.ticket_round_ns
            self._do_round(turn)

    def _do_round(self, turn: Turn) -> None:
        self._close_if_lost(turn)
        if self._is_closed():
            return
        self._watch_witnesses(turn.now)
        self._withdraw_stuck_witnesses(turn)
        self._go_on_leaving(turn)
        if not self._is_closed():
            self._renew(turn)
        if self.standing is Standing.ACTIVE:
            self._watch_successor(turn)
            self._greet(turn)
            self._choose_witnesses(turn)
            self.epochs.go_on(self.record.top, turn)

    def _is_closed(self) -> bool:
        return self.standing is Standing.CLOSED

    def wake_at(self, now: Instant) -> Instant:
        """Return when tick or a lapse is due."""
        at = self._round_at
        if self.walk is not None and (walk_at := self.walk.wake_at()) is not None:
            at = min(at, walk_at)
        ends = self.until() if self._told else at
        return min(at, ends) if ends > now else at

    def _step(self, to: Standing) -> None:
        assert to in STEPS[self.standing], (self.standing, to)
        self.standing = to
