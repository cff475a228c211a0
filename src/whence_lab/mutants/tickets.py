"""Bugs in the tickets, each one a trap of the published algorithms (docs/papers/optimistic.md 8; the trap is named)."""

from collections.abc import Callable, Sequence

from msgspec import structs

from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.levels.optimistic.tickets import items
from whence.core.levels.optimistic.tickets.acceptor import FounderAcceptor
from whence.core.levels.optimistic.tickets.applicant import Applicant
from whence.core.levels.optimistic.tickets.authority import Authority, SessionState
from whence.core.levels.optimistic.tickets.coordinator import Coordinator
from whence.core.levels.optimistic.tickets.exclusion import Exclusion
from whence.core.levels.optimistic.tickets.founding import FoundingAttempt, Phase
from whence.core.levels.optimistic.tickets.grants import Grant, Grants
from whence.core.levels.optimistic.tickets.intervals import tickets_of
from whence.core.levels.optimistic.tickets.lease import NEVER, Leases
from whence.core.levels.optimistic.tickets.manager import TicketManager
from whence.core.levels.optimistic.tickets.memory import Memory, Remembered
from whence.core.levels.optimistic.tickets.record_bytes import unpack
from whence.core.levels.optimistic.tickets.records import Processes, Record, TicketEpoch
from whence.core.levels.optimistic.tickets.registration import ChangeKind, PendingChange, Registration
from whence.core.levels.optimistic.tickets.session import CoordinatorSession
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.walk import Post, Walk
from whence.core.levels.optimistic.tickets.witness import Witness
from whence.core.ready import Item
from whence.types import Instant, Process

# --- leases ---


class CountsFromReceipt(CoordinatorSession):
    """Counts a lease from when the answer came."""

    def on_alive(self, sender: Process, item: items.Alive, turn: Turn) -> None:
        super().on_alive(sender, structs.replace(item, sent_at=turn.now), turn)


class ActsOnWhatItSaw(Authority):
    """Acts on what it saw in its last round."""

    seen = False

    def may_act(self, now: Instant) -> bool:
        return self.state is SessionState.ACTIVE and (self.seen or super().may_act(now))

    def look(self, now: Instant) -> None:
        self.seen = super().may_act(now)


class LooksOncePerRound(CoordinatorSession):
    """Looks at its lease in its round, and acts on what it saw until the next."""

    authority_type = ActsOnWhatItSaw

    def _do_round(self, turn: Turn) -> None:
        self.authority.look(turn.now)  # type: ignore[attr-defined]
        super()._do_round(turn)


class ActsInGrace(Authority):
    """Acts as soon as it learns of its ticket, for one lease of grace."""

    def may_act(self, now: Instant) -> bool:
        begun = self.state in (SessionState.ACQUIRING, SessionState.ACTIVE)
        return (begun and now - self.since < self._settings.lease_ns) or super().may_act(now)


class NeedsEveryWitness(Leases):
    """Suspends itself when a single witness is silent."""

    def until(self, witnesses: Processes) -> Instant:
        asked = [self._asked.get(witness) for witness in witnesses]
        held = [at for at in asked if at is not None]
        return min(held) + self._lease_ns if held and len(held) == len(asked) else NEVER


class NeedsEverybody(Authority):
    """Requires all 2k + 1 witnesses instead of k + 1."""

    leases_type = NeedsEveryWitness


# --- witnesses ---


class ForgetsFences(Witness):
    """Lets a fenced epoch renew again after a lease and a half."""

    def __init__(self, tickets: int, lease_ns: int, keep_ns: int, memory: Memory) -> None:
        super().__init__(tickets, lease_ns, keep_ns, memory)
        self._fenced_at: dict[int, Instant] = {}

    def renew(self, item: items.Renew, now: Instant) -> Item | None:
        at = self._fenced_at.get(item.ticket)
        if at is not None and now - at > self._lease_ns // 2:
            self._fences.pop(item.ticket, None)
        return super().renew(item, now)

    def fence(self, item: items.RequestFence, now: Instant) -> items.AckFence:
        self._fenced_at[item.ticket] = now
        return super().fence(item, now)


class HidesRecords(Witness):
    """Does not report what it knows about a coordinator that it fenced."""

    def fence(self, item: items.RequestFence, now: Instant) -> items.AckFence:
        return structs.replace(super().fence(item, now), record=b"")


# --- what a restarted witness remembers ---


class ClaimsToRemember(Memory):
    """Treats a restarted witness that lost its journal as its earlier incarnation."""

    def __init__(self, me: Process, wait_ns: int, seeds: tuple[int, ...]) -> None:
        super().__init__(me, wait_ns, seeds)
        self.since = 1


class RemembersNothing(Memory):
    """Keeps no journal as a witness, and says so."""

    def restore(self, journal: Sequence[bytes], now: Instant) -> Remembered:
        return Remembered({}, {})


class ForgetsFencesInACrash(Memory):
    """Does not write fences down."""

    def keep_fence(self, ticket: int, epoch: int) -> None:
        pass

    def checkpoint(self, remembered: Remembered) -> list[bytes]:
        return super().checkpoint(structs.replace(remembered, fences={}))


class ForgetsRecordsInACrash(Memory):
    """Does not write records down."""

    def keep_record(self, record: bytes) -> None:
        pass

    def checkpoint(self, remembered: Remembered) -> list[bytes]:
        return super().checkpoint(structs.replace(remembered, records={}))


class KeepsTheFirstRecord(Memory):
    """Writes down the first record of a coordinator, and none of its changes."""

    def keep_record(self, record: bytes) -> None:
        if not unpack(record).version:
            super().keep_record(record)


class ForgetsItsLeases(Memory):
    """Says of the leases of earlier incarnations that they last as long as those of today."""

    def wait_ns(self, now: Instant) -> int:
        return self._own_wait_ns


# --- registered changes ---


class SwitchesAlone(PendingChange):
    """Treats new witnesses as registered once they agree, whatever the old ones know."""

    def is_registered(self) -> bool:
        if self.kind is ChangeKind.WITNESSES:
            return self._is_stored_at(self.record.proposed)
        return super().is_registered()


class SwitchesWitnessesAlone(Registration):
    """Installs new witnesses without asking the old ones."""

    change_type = SwitchesAlone


class RegistersNothing(PendingChange):
    """Treats every change as registered."""

    def is_registered(self) -> bool:
        return self.kind is not ChangeKind.WITNESSES or super().is_registered()


class GrantsUnregistered(Registration):
    """Acts on a change before any witness knows of it."""

    change_type = RegistersNothing


class ServesWhileBusy(Grants):
    """Gives tickets away while a change or a walk is in progress."""

    def serve(self, joiner: Process, nonce: int, turn: Turn) -> str:
        exclusion, registration, ring = self._exclusion, self._registration, self._ring
        walk, exclusion.walk = exclusion.walk, None
        pending, registration.pending = registration.pending, None
        confirmed, ring.confirmed = ring.confirmed, True
        refusal = super().serve(joiner, nonce, turn)
        if registration.pending is None:
            registration.pending, ring.confirmed = pending, confirmed
        exclusion.walk = walk
        return refusal


# --- the walk ---


class DoesNotWait(Walk):
    """Takes over as soon as the fences stand."""

    def _leases_end(self) -> Instant:
        return self._last_fence_at


class FencesAlone(Walk):
    """Treats a coordinator as closed when one witness has fenced it."""

    def _check_closed(self, now: Instant, post: Post) -> None:
        if self._victim.acks:
            self.hard = True
            self._advance(self._victim.record, now, post)


class JumpsOver(Walk):
    """Believes what it heard about the ring, not what its victims registered: skips the coordinators they let in."""

    def _advance(self, record: Record | None, now: Instant, post: Post) -> None:
        if record is not None and self._victim.beyond is not None:
            record = structs.replace(record, succ=self._victim.beyond, beyond=None)
        super()._advance(record, now, post)


class LosesTheNested(Walk):
    """Does not retain the old successor of a coordinator that never registered anything, and cannot get past it."""

    def _advance(self, record: Record | None, now: Instant, post: Post) -> None:
        self._victim.beyond = None
        super()._advance(record, now, post)


class NeverWalks(Exclusion):
    """Never closes a silent successor."""

    def watch_successor(self, turn: Turn) -> None:
        self._ring.misses = 0
        super().watch_successor(turn)


# --- giving and taking back ---


class GivesItsOwn(Grants):
    """May give away the very ticket it owns."""

    def _grantable(self) -> list[int]:
        return tickets_of(self._authority.record, self._settings.tickets)


class AbsorbsAnybody(Grants):
    """Takes back the tickets of a leaver that is not its successor."""

    def on_release(self, sender: Process, item: items.ReleaseTicket, turn: Turn) -> None:
        leaver, authority = unpack(item.record), self._authority
        if authority.record.succ.ticket_epoch != leaver.ticket_epoch and not self.is_busy():
            authority.record = structs.replace(authority.record, succ=leaver.pointer(), beyond=leaver.succ)
        super().on_release(sender, item, turn)


class LeavesLate(Authority):
    """Continues to act until its farewell is answered."""

    def may_act(self, now: Instant) -> bool:
        return now < self.until() and self.state in (SessionState.ACTIVE, SessionState.LEAVING)

    def announce_release(self, turn: Turn) -> None:
        if self.state is SessionState.CLOSED:
            super().announce_release(turn)


class NeverStopsLeaving(CoordinatorSession):
    """Waits for ever for an answer to its farewell."""

    def _continue_leaving(self, turn: Turn) -> None:
        since, self._leave_at = self._leave_at, self._leave_at and turn.now - self._settings.lease_ns
        super()._continue_leaving(turn)
        self._leave_at = since


class SuspendedForEver(CoordinatorSession):
    """Neither resumes nor closes when some witnesses fenced it."""

    def on_fenced(self, sender: Process, item: items.Fenced, turn: Turn) -> None:
        self.witnesses._avoided[sender] = turn.now

    def _close_if_lost(self, turn: Turn) -> None:
        pass


# --- joining ---


class ForgetsRefusals(Applicant):
    """Takes a ticket after it said that it does not hold it."""

    def refuse(self, ticket_epoch: TicketEpoch, now: Instant) -> None:
        pass


class TakesLateTickets(Applicant):
    """Takes any ticket that comes, whatever request it answers."""

    def takes(self, nonce: int, ticket_epoch: TicketEpoch) -> bool:
        return self.wanted


class AnswersForAnyEpoch(Coordinator):
    """Treats every message to this process as one to the coordinator it is now."""

    def on_update(self, sender: Process, item: items.Update, turn: Turn) -> None:
        if self.session is not None:
            self.session.ring.on_update(sender, item, turn)
            version = self.session.authority.record.version
            turn.post(sender, items.AckUpdate(item.ticket, item.epoch, version, b"", active=True))
        else:
            super().on_update(sender, item, turn)


# --- founding ---


class FoundsWithOneVote(FoundingAttempt):
    """Founds once a single seed promised and accepted."""

    def _needed(self) -> int:
        return 1

    def on_answer(self, sender: Process, item: items.GenesisAnswer, turn: Turn) -> None:
        super().on_answer(sender, item, turn)
        if self.phase is Phase.PROPOSING and self._votes:
            self._step(Phase.FOUNDED)


class AcceptsEveryFounder(FounderAcceptor):
    """Accepts every founder, whatever it promised or accepted before."""

    def accept(self, sender: Process, item: items.Genesis, turn: Turn) -> None:
        turn.post(sender, items.GenesisAnswer(item.ballot, True, item.ballot))


class FoundsWithoutWalking(FoundingAttempt):
    """Founds the next generation without closing the last."""

    def _begin_walk(self, turn: Turn) -> None:
        self._propose(unpack(self.genesis).top, b"", turn)


class CountsFromWhatItSaw(FoundingAttempt):
    """Begins above the epochs it read on its walk, whatever the members declared dead by an operator knew."""

    def _first_epoch(self, top: int) -> int:
        return top + 1


class WritesNoEpochs(FounderAcceptor):
    """Reports epochs as persisted, and persists none; accepts any epoch."""

    def accept(self, sender: Process, item: items.Genesis, turn: Turn) -> None:
        self.floor = 0
        super().accept(sender, item, turn)

    def reserve(self, sender: Process, item: items.Reserve, turn: Turn) -> None:
        turn.post(sender, items.Reserved(item.epoch, 0))


class ForgetsItsPromises(FounderAcceptor):
    """Judges founders after a crash as if there had been none before."""

    def restore(self, journal: bytes) -> bool:
        self.knows = True
        return True


class FencesTheUnheard(Walk):
    """Treats every coordinator that it does not hear as dead, whatever the witnesses say."""

    def on_fresh(self, sender: Process, item: items.Fresh) -> None:
        pass

    def _may_fence(self) -> bool:
        return True


class FoundsUnasked(FoundingAttempt):
    """Does not ask witnesses before it fences everybody."""

    walk_type = FencesTheUnheard


class ServesOnce(Grants):
    """Treats a request that it once answered as answered, though the grant was closed."""

    def _stands(self, grant: Grant) -> bool:
        return True


class NeverFoundsAnew(FoundingAttempt):
    """Gives up when a generation was founded before."""

    def _begin_walk(self, turn: Turn) -> None:
        self._step(Phase.FAILED)


Plant = Callable[[OptimisticLevel], OptimisticLevel]


def _tickets(**parts: type) -> Plant:
    """Return how to plant parts of a ticket manager."""
    wrong = type("WrongTicketManager", (TicketManager,), dict(parts))
    return lambda level: level._replace(tickets=wrong)


def _session(kind: type[CoordinatorSession]) -> Plant:
    return _tickets(session_type=kind)


def _part(**parts: type) -> Plant:
    """Return how to plant parts of a coordinator's session."""
    return _session(type("WrongSession", (CoordinatorSession,), dict(parts)))


def _walk(kind: type[Walk]) -> Plant:
    """Return how to plant the walk of coordinators; founders walk as they should."""
    return _part(exclusion_type=type("WrongExclusion", (Exclusion,), {"walk_type": kind}))


_ACTS: tuple[tuple[str, str, Plant], ...] = (
    ("counts_leases_from_receipt", "F5: counts a lease from when the answer came", _session(CountsFromReceipt)),
    ("looks_once_per_round", "F6: looks at its lease once per round", _session(LooksOncePerRound)),
    ("acts_at_once", "F8: acts before it holds leases", _part(authority_type=ActsInGrace)),
    ("forgets_fences", "F15: lets a fenced epoch renew again after a while", _tickets(witness_type=ForgetsFences)),
    ("hides_records", "F11: fences without telling the record", _tickets(witness_type=HidesRecords)),
    (
        "same_witness_after_restart",
        "F34: a witness that lost its journal passes for the one it was",
        _tickets(memory_type=ClaimsToRemember),
    ),
    ("fences_in_memory", "X6: a restarted witness forgot its fences", _tickets(memory_type=ForgetsFencesInACrash)),
    ("records_in_memory", "X6: a restarted witness forgot its records", _tickets(memory_type=ForgetsRecordsInACrash)),
    (
        "first_records_only",
        "X6: a restarted witness forgot how records changed",
        _tickets(memory_type=KeepsTheFirstRecord),
    ),
    (
        "leases_of_today",
        "X6: a restarted witness forgot how long its leases were",
        _tickets(memory_type=ForgetsItsLeases),
    ),
    ("promises_in_memory", "X6: a restarted seed forgot its promises", _tickets(acceptor_type=ForgetsItsPromises)),
    (
        "switches_witnesses_alone",
        "F13: new witnesses without the old majority",
        _part(registration_type=SwitchesWitnessesAlone),
    ),
    (
        "grants_unregistered",
        "F18: acts on a change before it is registered",
        _part(registration_type=GrantsUnregistered),
    ),
    ("serves_while_busy", "B9: gives tickets away while a change is under way", _part(grants_type=ServesWhileBusy)),
    ("takes_over_at_once", "F2: does not wait until cut-off leases have ended", _walk(DoesNotWait)),
    ("fences_with_one", "F12: takes one witness's fence for all", _walk(FencesAlone)),
    ("walks_by_hearsay", "F27: skips whoever its victims had let in", _walk(JumpsOver)),
    ("gives_its_own", "B4: may give away the ticket it owns", _part(grants_type=GivesItsOwn)),
    ("absorbs_anybody", "B3: takes back the tickets of any leaver", _part(grants_type=AbsorbsAnybody)),
    ("leaves_late", "B5: goes on acting until its farewell is answered", _part(authority_type=LeavesLate)),
    ("forgets_refusals", "F24: takes a ticket it said it does not hold", _tickets(applicant_type=ForgetsRefusals)),
    ("takes_late_tickets", "F24: takes any ticket that comes", _tickets(applicant_type=TakesLateTickets)),
    ("founds_with_one_vote", "F21: founds once a single seed agrees", _tickets(attempt_type=FoundsWithOneVote)),
    ("accepts_every_founder", "F21: a seed accepts every founder", _tickets(acceptor_type=AcceptsEveryFounder)),
    (
        "founds_without_walking",
        "F22: begins anew before the last are closed",
        _tickets(attempt_type=FoundsWithoutWalking),
    ),
    (
        "epochs_in_memory",
        "X3: keeps the highest epoch in no journal",
        _tickets(attempt_type=CountsFromWhatItSaw, acceptor_type=WritesNoEpochs, memory_type=RemembersNothing),
    ),
)
"""Bugs that let two act at once."""

_COMES_BACK: tuple[tuple[str, str, Plant], ...] = (
    ("needs_every_witness", "F1: needs 2k + 1 witnesses instead of k + 1", _part(authority_type=NeedsEverybody)),
    ("forgets_what_lies_beyond", "F23: cannot pass an unregistered successor", _walk(LosesTheNested)),
    ("never_walks", "F30: never closes a silent successor", _part(exclusion_type=NeverWalks)),
    ("never_stops_leaving", "F26: waits for ever for an answer to its farewell", _session(NeverStopsLeaving)),
    ("suspended_for_ever", "F29: fenced by some, neither resumes nor closes", _session(SuspendedForEver)),
    (
        "answers_for_any_claim",
        "B8: answers for ticket epochs of its past",
        _tickets(coordinator_type=AnswersForAnyEpoch),
    ),
    ("serves_once", "X1: never serves a request again whose answer was lost", _part(grants_type=ServesOnce)),
    ("founds_unasked", "X2: takes coordinators it does not hear for lost", _tickets(attempt_type=FoundsUnasked)),
    ("never_founds_anew", "F22: never recovers from total loss", _tickets(attempt_type=NeverFoundsAnew)),
)
"""Bugs by which tickets do not come back."""

_LEVEL = ("optimistic",)

BUGS = tuple((name, "ticket_exclusivity", bug, plant, _LEVEL) for name, bug, plant in _ACTS) + tuple(
    (name, "ticket_coverage", bug, plant, _LEVEL) for name, bug, plant in _COMES_BACK
)
