"""Bugs in the tickets, each one a trap of the published algorithms (tickets_twolayer section 8; the trap is named)."""

from collections.abc import Callable

from msgspec import structs

from whence.core.levels.optimistic.level import ClusterParts
from whence.core.levels.optimistic.tickets import items as say
from whence.core.levels.optimistic.tickets.change import Change, Kind
from whence.core.levels.optimistic.tickets.desk import Desk
from whence.core.levels.optimistic.tickets.founding import Arbiter, Founding, Phase
from whence.core.levels.optimistic.tickets.granting import tickets_of
from whence.core.levels.optimistic.tickets.grants import Grant
from whence.core.levels.optimistic.tickets.joining import Applicant
from whence.core.levels.optimistic.tickets.lease import NEVER, Leases
from whence.core.levels.optimistic.tickets.records import Claim, Processes, Record, unpack
from whence.core.levels.optimistic.tickets.seat import Seat, Standing
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.walk import Post, Walk
from whence.core.levels.optimistic.tickets.witness import Witness
from whence.core.ready import Item, Ready, Send
from whence.types import ANY_BOOT, Instant, Process

# --- leases ---


class CountsFromReceipt(Seat):
    """Counts a lease from when the answer came."""

    def on_alive(self, sender: Process, item: say.Alive, turn: Turn) -> None:
        super().on_alive(sender, structs.replace(item, sent_at=turn.now), turn)


class LooksOncePerRound(Seat):
    """Looks at its lease in its round, and acts on what it saw until the next."""

    _seen = False

    def may_act(self, now: Instant) -> bool:
        return self.standing is Standing.ACTIVE and (self._seen or super().may_act(now))

    def _do_round(self, turn: Turn) -> None:
        self._seen = super().may_act(turn.now)
        super()._do_round(turn)


class ActsAtOnce(Seat):
    """Acts as soon as it is told of its ticket, for one lease of grace."""

    def may_act(self, now: Instant) -> bool:
        graced = now - self.since < self._settings.lease_ns and self.standing in (Standing.ACQUIRING, Standing.ACTIVE)
        return graced or super().may_act(now)


class NeedsEveryWitness(Leases):
    """Suspends itself when a single witness is silent."""

    def until(self, witnesses: Processes) -> Instant:
        asked = [self._asked.get(witness) for witness in witnesses]
        held = [at for at in asked if at is not None]
        return min(held) + self._lease_ns if held and len(held) == len(asked) else NEVER


class NeedsEverybody(Seat):
    """Counts with all 2k + 1 witnesses instead of k + 1."""

    leases_type = NeedsEveryWitness


# --- witnesses ---


class ForgetsFences(Witness):
    """Lets a fenced epoch renew again after a lease and a half."""

    def __init__(self, tickets: int, lease_ns: int, keep_ns: int) -> None:
        super().__init__(tickets, lease_ns, keep_ns)
        self._fenced_at: dict[int, Instant] = {}
        self._now: Instant = 0

    def renew(self, item: say.Renew, now: Instant) -> Item | None:
        self._now = now
        at = self._fenced_at.get(item.ticket)
        if at is not None and now - at > self._lease_ns // 2:
            self._fences.pop(item.ticket, None)
        return super().renew(item, now)

    def fence(self, item: say.RequestFence) -> say.AckFence:
        self._fenced_at[item.ticket] = self._now
        return super().fence(item)


class HidesRecords(Witness):
    """Does not say what it knows of a coordinator it fenced."""

    def fence(self, item: say.RequestFence) -> say.AckFence:
        return structs.replace(super().fence(item), record=b"")


class AnswersForOtherLives(Desk):
    """Takes a restarted witness for the one it was."""

    def _turn(self, now: Instant, ready: Ready) -> Turn:
        turn = super()._turn(now, ready)
        turn.post = lambda to, item: _post_to_any_life(turn, to, item)  # type: ignore[method-assign]
        return turn

    def _on_alive(self, sender: Process, item: say.Alive, turn: Turn) -> None:
        witnesses = self.seat.record.witnesses if self.seat is not None else ()
        named = next((witness for witness in witnesses if witness.pid == sender.pid), sender)
        super()._on_alive(named, item, turn)


def _post_to_any_life(turn: Turn, to: Process, item: Item) -> None:
    if to == turn.me:
        turn.to_self.append(item)
    elif to.pid != turn.me.pid:
        boot = ANY_BOOT if isinstance(item, say.Renew | say.RequestFence) else to.boot
        turn.ready.send.append(Send((to.pid,), item, boot))


# --- registered changes ---


class SwitchesAlone(Change):
    """Installs new witnesses without asking the old ones."""

    def registered(self) -> bool:
        if self.kind is Kind.WITNESSES:
            return self._kept_by(self.record.proposed)
        return super().registered()


class SwitchesWitnessesAlone(Seat):
    """Installs new witnesses once they agree, whatever the old ones know."""

    change_type = SwitchesAlone


class RegistersNothing(Change):
    """Takes every change for registered."""

    def registered(self) -> bool:
        return self.kind is not Kind.WITNESSES or super().registered()


class GrantsUnregistered(Seat):
    """Acts on a change before any witness knows of it."""

    change_type = RegistersNothing


class ServesWhileBusy(Seat):
    """Gives tickets away while a change or a walk is under way."""

    def serve(self, joiner: Process, nonce: int, turn: Turn) -> str:
        walk, self.walk = self.walk, None
        pending, self.pending = self.pending, None
        confirmed, self.confirmed = self.confirmed, True
        refusal = super().serve(joiner, nonce, turn)
        if self.pending is None:
            self.pending, self.confirmed = pending, confirmed
        self.walk = walk
        return refusal


# --- the walk ---


class DoesNotWait(Walk):
    """Takes over as soon as the fences stand."""

    def _drain_from(self) -> Instant:
        return self._last_fence_at - self._settings.wait_ns


class TakesOverAtOnce(Seat):
    """Does not wait until the leases it cut off have ended."""

    walk_type = DoesNotWait


class FencesAlone(Walk):
    """Takes one witness's word for all."""

    def _check_closed(self, now: Instant, post: Post) -> None:
        if self._acks:
            self.hard = True
            self._advance(self._best, now, post)


class FencesWithOne(Seat):
    """Takes a coordinator for closed when one witness fenced it."""

    walk_type = FencesAlone


class JumpsOver(Walk):
    """Believes what it heard about the ring, instead of what its victims registered."""

    def _advance(self, record: Record | None, now: Instant, post: Post) -> None:
        if record is not None and self._beyond is not None:
            record = structs.replace(record, succ=self._beyond, beyond=None)
        super()._advance(record, now, post)


class WalksByHearsay(Seat):
    """Skips whoever its victims had let in."""

    walk_type = JumpsOver


class LosesTheNested(Walk):
    """Cannot get past a coordinator that never registered anything."""

    def _advance(self, record: Record | None, now: Instant, post: Post) -> None:
        self._beyond = None
        super()._advance(record, now, post)


class ForgetsWhatLiesBeyond(Seat):
    """Does not keep the old successor while the new one is not confirmed."""

    walk_type = LosesTheNested


class NeverWalks(Seat):
    """Never closes a silent successor."""

    def _watch_successor(self, turn: Turn) -> None:
        self._misses = 0
        super()._watch_successor(turn)


# --- giving and taking back ---


class GivesItsOwn(Seat):
    """May give away the very ticket it owns."""

    def _grantable(self) -> list[int]:
        return tickets_of(self.record, self._settings.tickets)


class AbsorbsAnybody(Seat):
    """Takes back the tickets of a leaver that is not its successor."""

    def on_cleave(self, sender: Process, item: say.Cleave, turn: Turn) -> None:
        leaver = unpack(item.record)
        if self.record.succ.claim != leaver.claim and self.pending is None and self.walk is None:
            self.record = structs.replace(self.record, succ=leaver.pointer(), beyond=leaver.succ)
        super().on_cleave(sender, item, turn)


class LeavesLate(Seat):
    """Goes on acting until its farewell is answered."""

    def may_act(self, now: Instant) -> bool:
        return now < self.until() and self.standing in (Standing.ACTIVE, Standing.LEAVING)

    def _release(self, turn: Turn) -> None:
        if self.standing is Standing.CLOSED:
            super()._release(turn)


class NeverStopsLeaving(Seat):
    """Waits for ever for an answer to its farewell."""

    def _go_on_leaving(self, turn: Turn) -> None:
        since, self._leave_at = self._leave_at, self._leave_at and turn.now - self._settings.lease_ns
        super()._go_on_leaving(turn)
        self._leave_at = since


class SuspendedForEver(Seat):
    """Neither resumes nor closes when some witnesses fenced it."""

    def on_fenced(self, sender: Process, turn: Turn) -> None:
        self._avoid[sender] = turn.now

    def _close_if_lost(self, turn: Turn) -> None:
        pass


# --- joining ---


class ForgetsRefusals(Applicant):
    """Takes a ticket after it said that it does not hold it."""

    def refuse(self, claim: Claim, now: Instant) -> None:
        pass


class TakesLateTickets(Applicant):
    """Takes any ticket that comes, whatever request it answers."""

    def takes(self, nonce: int, claim: Claim) -> bool:
        return self.wanted


class AnswersForAnyClaim(Desk):
    """Takes whatever is said to this process for said to the coordinator it is now."""

    def _on_update(self, sender: Process, item: say.Update, turn: Turn) -> None:
        if self.seat is not None:
            self.seat.on_update(sender, item, turn)
            mine = self.seat.record
            claim = (item.ticket, item.epoch)
            turn.post(sender, say.AckUpdate(*claim, mine.version, b"", active=True))
        else:
            super()._on_update(sender, item, turn)


# --- founding ---


class FoundsWithOneVote(Founding):
    """Founds once a single seed promised and accepted."""

    def _needed(self) -> int:
        return 1

    def on_answer(self, sender: Process, item: say.GenesisAnswer, turn: Turn) -> None:
        super().on_answer(sender, item, turn)
        if self.phase is Phase.PROPOSING and self._votes:
            self._step(Phase.FOUNDED)


class AcceptsEveryFounder(Arbiter):
    """Accepts whoever comes, whatever it promised or accepted."""

    def accept(self, sender: Process, item: say.Genesis, turn: Turn) -> None:
        turn.post(sender, say.GenesisAnswer(item.ballot, True, item.ballot))


class FoundsWithoutWalking(Founding):
    """Founds the next generation without closing the last."""

    def _begin_walk(self, turn: Turn) -> None:
        self._propose(unpack(self.genesis).top, b"", turn)


class CountsFromWhatItSaw(Founding):
    """Begins above the epochs it read on its walk, whatever those knew that an operator declared dead."""

    def _first_epoch(self, top: int) -> int:
        return top + 1


class WritesNoEpochs(Arbiter):
    """Says that epochs are written down, and writes down none; accepts any epoch."""

    def accept(self, sender: Process, item: say.Genesis, turn: Turn) -> None:
        self.floor = 0
        super().accept(sender, item, turn)

    def reserve(self, sender: Process, item: say.Reserve, turn: Turn) -> None:
        turn.post(sender, say.Reserved(item.epoch, 0))


class EpochsInMemory(Desk):
    """Keeps which epochs may have been given in nobody's journal."""

    founding_type = CountsFromWhatItSaw
    arbiter_type = WritesNoEpochs


class FencesTheUnheard(Walk):
    """Takes whoever it does not hear for dead, whatever the witnesses say."""

    def on_fresh(self, sender: Process, claim: Claim) -> None:
        pass

    def _may_fence(self) -> bool:
        return True


class FoundsUnasked(Founding):
    """Does not ask witnesses before it fences everybody."""

    walk_type = FencesTheUnheard


class ServesOnce(Seat):
    """Takes a request that it answered once for answered, though the grant was closed."""

    def _stands(self, grant: Grant) -> bool:
        return True


class NeverFoundsAnew(Founding):
    """Gives up when a generation was founded before."""

    def _begin_walk(self, turn: Turn) -> None:
        self._step(Phase.FAILED)


def _desk(**parts: type) -> Callable[[ClusterParts], ClusterParts]:
    """Return how to plant parts of a desk."""
    wrong = type("WrongDesk", (Desk,), dict(parts))
    return lambda recipe: recipe._replace(desk=wrong)


def _seat(kind: type[Seat]) -> Callable[[ClusterParts], ClusterParts]:
    return _desk(seat_type=kind)


def _whole(kind: type[Desk]) -> Callable[[ClusterParts], ClusterParts]:
    return lambda recipe: recipe._replace(desk=kind)


_ACTS: tuple[tuple[str, str, Callable[[ClusterParts], ClusterParts]], ...] = (
    ("counts_leases_from_receipt", "F5: counts a lease from when the answer came", _seat(CountsFromReceipt)),
    ("looks_once_per_round", "F6: looks at its lease once per round", _seat(LooksOncePerRound)),
    ("acts_at_once", "F8: acts before it holds leases", _seat(ActsAtOnce)),
    ("forgets_fences", "F15: lets a fenced epoch renew again after a while", _desk(witness_type=ForgetsFences)),
    ("hides_records", "F11: fences without telling the record", _desk(witness_type=HidesRecords)),
    ("same_witness_after_restart", "F34: a restarted witness passes for the one it was", _whole(AnswersForOtherLives)),
    ("switches_witnesses_alone", "F13: new witnesses without the old majority", _seat(SwitchesWitnessesAlone)),
    ("grants_unregistered", "F18: acts on a change before it is registered", _seat(GrantsUnregistered)),
    ("serves_while_busy", "B9: gives tickets away while a change is under way", _seat(ServesWhileBusy)),
    ("takes_over_at_once", "F2: does not wait until cut-off leases have ended", _seat(TakesOverAtOnce)),
    ("fences_with_one", "F12: takes one witness's fence for all", _seat(FencesWithOne)),
    ("walks_by_hearsay", "F27: skips whoever its victims had let in", _seat(WalksByHearsay)),
    ("gives_its_own", "B4: may give away the ticket it owns", _seat(GivesItsOwn)),
    ("absorbs_anybody", "B3: takes back the tickets of any leaver", _seat(AbsorbsAnybody)),
    ("leaves_late", "B5: goes on acting until its farewell is answered", _seat(LeavesLate)),
    ("forgets_refusals", "F24: takes a ticket it said it does not hold", _desk(applicant_type=ForgetsRefusals)),
    ("takes_late_tickets", "F24: takes any ticket that comes", _desk(applicant_type=TakesLateTickets)),
    ("founds_with_one_vote", "F21: founds once a single seed agrees", _desk(founding_type=FoundsWithOneVote)),
    ("accepts_every_founder", "F21: a seed accepts every founder", _desk(arbiter_type=AcceptsEveryFounder)),
    (
        "founds_without_walking",
        "F22: begins anew before the last are closed",
        _desk(founding_type=FoundsWithoutWalking),
    ),
    ("epochs_in_memory", "X3: keeps the highest epoch in no journal", _whole(EpochsInMemory)),
)
"""Two act at once."""

_COMES_BACK: tuple[tuple[str, str, Callable[[ClusterParts], ClusterParts]], ...] = (
    ("needs_every_witness", "F1: needs 2k + 1 witnesses instead of k + 1", _seat(NeedsEverybody)),
    ("forgets_what_lies_beyond", "F23: cannot pass an unregistered successor", _seat(ForgetsWhatLiesBeyond)),
    ("never_walks", "F30: never closes a silent successor", _seat(NeverWalks)),
    ("never_stops_leaving", "F26: waits for ever for an answer to its farewell", _seat(NeverStopsLeaving)),
    ("suspended_for_ever", "F29: fenced by some, neither resumes nor closes", _seat(SuspendedForEver)),
    ("answers_for_any_claim", "B8: answers for claims of its earlier lives", _whole(AnswersForAnyClaim)),
    ("serves_once", "X1: never serves a request again whose answer was lost", _seat(ServesOnce)),
    ("founds_unasked", "X2: takes coordinators it does not hear for lost", _desk(founding_type=FoundsUnasked)),
    ("never_founds_anew", "F22: never recovers from total loss", _desk(founding_type=NeverFoundsAnew)),
)
"""Tickets do not come back."""

_LEVEL = ("optimistic",)

BUGS = tuple((name, "ticket_exclusivity", bug, plant, _LEVEL) for name, bug, plant in _ACTS) + tuple(
    (name, "ticket_coverage", bug, plant, _LEVEL) for name, bug, plant in _COMES_BACK
)
