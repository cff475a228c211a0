"""Bugs in how a living group changes its view: who may decide, where cuts are, what is frozen (views 5.6 to 5.8)."""

from collections.abc import Collection, Container, Iterable
from copy import copy

from msgspec import structs

from whence.core.ready import NEVER, Ready
from whence.core.views.attempt import Attempt, Phase, Plan
from whence.core.views.changes import Changes
from whence.core.views.items import Accepted, Flushed, Freeze, JoinRequest, Nak, Promise, Report, Target
from whence.core.views.leader import Leader
from whence.core.views.links import Links
from whence.core.views.participant import Participant
from whence.core.views.peers import Peer
from whence.core.views.removal import Removal
from whence.core.views.streams import Stream
from whence.core.views.view import NO_BALLOT, VOTERS_MAX, Ballot, View
from whence.core.views.wishes import Wishes
from whence.types import Instant

LATE_NS = 100_000_000

# --- where cuts are ---


class CutsWhereItIs(Leader):
    """Cuts the removed where the leader itself is (T2)."""

    def _targets(self, attempt: Attempt) -> list[int]:
        mine = attempt.reports[self.state.pid]
        return [
            mine.got[place] if member.pid in attempt.plan.remove else target
            for place, (member, target) in enumerate(zip(attempt.view.members, super()._targets(attempt), strict=True))
        ]


class CutsAtTheMinimum(Leader):
    """Cuts the removed at what everybody has (T2)."""

    def _targets(self, attempt: Attempt) -> list[int]:
        opened = [report for report in attempt.reports.values() if report.opened] or list(attempt.reports.values())
        return [
            min(report.got[place] for report in opened) if member.pid in attempt.plan.remove else target
            for place, (member, target) in enumerate(zip(attempt.view.members, super()._targets(attempt), strict=True))
        ]


class AsksAQuorum(Leader):
    """Does not wait for the reports of all that stay, a quorum is enough (T3)."""

    def _are_all(self, attempt: Attempt, answers: Collection[int]) -> bool:
        return attempt.view.has_quorum(answers)


class DecidesBeforeTheFlush(Leader):
    """Puts a cut to the vote before everybody has what it counts (T4)."""

    def _reported(self, attempt: Attempt, now: Instant, ready: Ready) -> None:
        super()._reported(attempt, now, ready)
        if attempt.phase is Phase.FLUSH:
            self._propose(attempt, ready)


class FlushesTheRemovedOnly(Leader):
    """Flushes the streams of the removed, and no others (T5)."""

    def _targets(self, attempt: Attempt) -> list[int]:
        targets = super()._targets(attempt)
        return [
            target if member.pid in attempt.plan.remove else 0
            for member, target in zip(attempt.view.members, targets, strict=True)
        ]


class SuppliesAnything(Leader):
    """Does not ask who can supply what counts of the removed (T26)."""

    def _unsupplied(self, attempt: Attempt) -> dict[int, None]:
        return {}


class SuppliesTheOlderOnly(Leader):
    """Does not ask who can supply a newcomer with what members said that are no older than it (T57)."""

    def _unsupplied(self, attempt: Attempt) -> dict[int, None]:
        unopened = [pid for pid, report in attempt.reports.items() if not report.opened]
        oldest = min((member.joined for member in attempt.view.members if member.pid in unopened), default=NEVER)
        young = [member.pid for member in attempt.view.members if member.joined >= oldest]
        asked = copy(attempt)
        asked.plan = structs.replace(
            attempt.plan, remove={pid: None for pid in attempt.plan.remove if pid not in young}
        )
        return super()._unsupplied(asked)


class RemovesNoneThatLack(Leader):
    """Gives a removal up where those that have what nobody can supply are too many to be removed (T58)."""

    def _lacking(self, attempt: Attempt) -> dict[int, None]:
        return {}


# --- who decides ---


class AcceptorsAreThoseWhoStay(Leader):
    """Lets those who stay decide, as if the removed had never voted (T15)."""

    def _may_remove(self, remove: dict[int, None], leavers: dict[int, None]) -> bool:
        return any(voter.pid not in remove for voter in self.state.latest.voters)

    def _is_quorum(self, attempt: Attempt, answers: Iterable[int]) -> bool:
        voters = [voter for voter in attempt.view.voters if voter.pid not in attempt.dead]
        return structs.replace(attempt.view, voters=voters).has_quorum(answers)


class RemovesAnyNumber(Leader):
    """Removes a majority at once (T18)."""

    def _may_remove(self, remove: dict[int, None], leavers: dict[int, None]) -> bool:
        return any(voter.pid not in remove for voter in self.state.latest.voters)


class IgnoresWhatWasAccepted(Leader):
    """Proposes its own view, whatever was voted for before (T16)."""

    def receive(
        self, sender: int, item: Promise | Report | Flushed | Accepted | Nak, now: Instant, ready: Ready
    ) -> View | None:
        if isinstance(item, Promise):
            item = structs.replace(item, accepted=NO_BALLOT, value=None)
        return super().receive(sender, item, now, ready)


class NewcomersVoteAtOnce(Leader):
    """Makes voters of members as they are added (T25)."""

    def _plain(self, attempt: Attempt) -> View:
        return _with_all_voting(super()._plain(attempt))

    def _removal(self, attempt: Attempt) -> View:
        return _with_all_voting(super()._removal(attempt))


def _with_all_voting(view: View) -> View:
    rest = [member for member in view.members if member not in view.voters]
    return structs.replace(view, voters=[*view.voters, *rest][:VOTERS_MAX])


class LeaversDoNotReport(Leader):
    """Treats who leaves like the dead (T35)."""

    def plan(
        self, condemned: dict[int, None], leavers: dict[int, None], joins: dict[int, int], frozen: dict[int, None],
        *, silent: Container[int], along: dict[int, None], lets_go: bool, wants_promotion: bool, now: Instant,
    ) -> Plan | None:  # fmt: skip
        return super().plan(
            condemned | leavers, {}, joins, frozen,
            silent=silent, along=along, lets_go=lets_go, wants_promotion=wants_promotion, now=now,
        )  # fmt: skip


# --- what is frozen ---


class MayRemoveFewer(Leader):
    """Leaves out of an attempt what an earlier one wanted to remove (T21)."""

    def plan(
        self, condemned: dict[int, None], leavers: dict[int, None], joins: dict[int, int], frozen: dict[int, None],
        *, silent: Container[int], along: dict[int, None], lets_go: bool, wants_promotion: bool, now: Instant,
    ) -> Plan | None:  # fmt: skip
        return super().plan(
            condemned, leavers, joins, {},
            silent=silent, along=along, lets_go=lets_go, wants_promotion=wants_promotion, now=now,
        )  # fmt: skip

    def receive(
        self, sender: int, item: Promise | Report | Flushed | Accepted | Nak, now: Instant, ready: Ready
    ) -> View | None:
        if isinstance(item, Report):
            item = structs.replace(item, frozen=[])
        return super().receive(sender, item, now, ready)


class FreezesAnew(Participant):
    """Lets go of what an earlier attempt froze when a later one freezes less (T21)."""

    def _freeze(self, sender: int, asked: Freeze, now: Instant, ready: Ready) -> None:
        if asked.ballot > self.state.report_ballot:
            self.state.frozen = {}
        super()._freeze(sender, asked, now, ready)


class TakesOldTargets(Participant):
    """Goes by the targets of any attempt, however old (T20)."""

    def _freeze(self, sender: int, asked: Freeze, now: Instant, ready: Ready) -> None:
        targets = self.state.targets
        super()._freeze(sender, asked, now, ready)
        self.state.targets = targets

    def _target(self, sender: int, asked: Target, now: Instant, ready: Ready) -> None:
        ballot: Ballot = self.state.report_ballot
        if asked.ballot <= ballot:
            super()._target(sender, structs.replace(asked, ballot=ballot), now, ready)


# --- entering, joining, being removed ---


class EntersWithOpenCuts(Changes):
    """Enters a view although something of those it removes is missing (T22)."""

    def try_enter(self, now: Instant, ready: Ready) -> None:
        state = self.state
        cuts, state.open_cuts = state.open_cuts, {}
        super().try_enter(now, ready)
        state.open_cuts = cuts
        self.close_cuts()


class EntersLate(Changes):
    """Enters a view some time after it is known. That is no bug, but messages of that view may come before (T10)."""

    _from: Instant = 0

    def adopt(self, view: View, now: Instant, ready: Ready) -> None:
        self._from = now + LATE_NS
        super().adopt(view, now, ready)
        self.inbox.ask_at = min(self.inbox.ask_at, self._from)

    def try_enter(self, now: Instant, ready: Ready) -> None:
        if now >= self._from or not self.state.opened:
            super().try_enter(now, ready)


class AddsWhoeverAsked(Wishes):
    """Adds who asked at any time (T13)."""

    def _is_current(self, item: JoinRequest) -> bool:
        return True


class KeepsOldRequests(Wishes):
    """Adds who asked in an earlier view (T60)."""

    def _ask_again(self, view: View, ready: Ready) -> None:
        self._joins = {pid: asked for pid, asked in self._joins.items() if self._may_join(pid, asked[0])}


class ForgetsWhoIsNew(Wishes):
    """Waits no more, after a restart, for newcomers that have not marked (T60)."""

    def returned(self, now: Instant) -> None:
        pass


class WaitsForWhoGaveUp(Wishes):
    """Removes no newcomer by itself that has marked, though it gave up (T61)."""

    def _gives_up(self, stream: Stream, peer: Peer, since: Instant, now: Instant) -> bool:
        return not stream.got and super()._gives_up(stream, peer, since, now)


class AddsWhomNobodyOpens(Leader):
    """Adds newcomers while somebody does not answer (T61)."""

    def _is_waited_for(self, present: Iterable[int], silent: Container[int]) -> bool:
        return False


class BeginsAtOnceAgain(Leader):
    """Begins a removal again in the view that let go of it for newcomers (T62)."""

    def _defer(self, condemned: dict[int, None], better: dict[int, None], now: Instant) -> None:
        pass


class WaitsForItself(Wishes):
    """Waits for somebody else to let go of what it froze itself (T64)."""

    def _gave_up(self, condemned: dict[int, None]) -> bool:
        return False


class PromotesInVain(Wishes):
    """Goes on trying to promote where somebody waits for removals to be abandoned (T64)."""

    def _may_promote(self, now: Instant) -> bool:
        self.leader.fruitless += self.leader.found_frozen
        self.leader.found_frozen = False
        return super()._may_promote(now)


class ForgetsItsRemoval(Removal):
    """Forgets in a crash that it was removed (T63)."""

    def learn(self, view: View, ready: Ready) -> None:
        self.by = view
        self.state.live = False


class AnswersNobodyOnceRemoved(Removal):
    """Tells only those of the view that removed it, who may all be gone (T63)."""

    def answer(self, pid: int, adopted: int, ready: Ready) -> None:
        pass

    def introduce(self, pid: int, ready: Ready) -> None:
        pass


class FallsSilent(Changes):
    """Tells nobody of the view that removed it (T37)."""

    def _removed(self, view: View, now: Instant, ready: Ready) -> None:
        before = len(ready.send)
        super()._removed(view, now, ready)
        del ready.send[before:]
        self.removal.end(self.removal.verdict(view), ready)

    def receive(self, sender: int, item: object, now: Instant, ready: Ready) -> None:
        if self.removal.by is None:
            super().receive(sender, item, now, ready)  # type: ignore[arg-type]


class GivesUpInSilence(Leader):
    """Ends an attempt that changes nothing without a view, so that those who reported wait for ever (T40)."""

    def plan(
        self, condemned: dict[int, None], leavers: dict[int, None], joins: dict[int, int], frozen: dict[int, None],
        *, silent: Container[int], along: dict[int, None], lets_go: bool, wants_promotion: bool, now: Instant,
    ) -> Plan | None:  # fmt: skip
        return super().plan(
            condemned, leavers, joins, frozen,
            silent=silent, along=along, lets_go=False, wants_promotion=wants_promotion, now=now,
        )  # fmt: skip

    def _propose(self, attempt: Attempt, ready: Ready) -> None:
        value = self._removal(attempt)
        if value.members == attempt.view.members and value.voters == attempt.view.voters:
            self.fruitless += 1
            self.attempt = None
        else:
            self._vote(attempt, value, ready)


class WaitsForTheLeaver(Wishes):
    """Lets a member that leaves lead, and it passes the lead on (T41)."""

    def _leader(self, condemned: dict[int, None]) -> int:
        state = self.state
        for voter in state.latest.voters:
            pid = voter.pid
            if pid == state.pid and self._may_leave():
                continue
            if pid == state.pid or not any(pid in some for some in (self.links.suspects.now, condemned, state.frozen)):
                return pid
        return state.pid


class TellsWhoSpeaks(Removal):
    """Does not tell the removed that they are, unless they say something (T42)."""

    def adopted(self, view: View, silent: Container[int], now: Instant) -> None:
        pass


class TellsBeforeACrash(Removal):
    """Does not tell the removed that they are, once it has restarted (T56)."""

    def go_on_telling(self, now: Instant) -> None:
        pass


class NeverYields(Leader):
    """Goes on removing where others remove so many that no quorum would be left (T52)."""

    def _yield(self, view: View, now: Instant) -> None:
        pass


class TriesAgainAndAgain(Leader):
    """Begins a removal anew, however often others end it (T59)."""

    def _note_in_vain(self, view: View, now: Instant) -> None:
        pass


class MissesNobody(Wishes):
    """Does not look at whom to remove when somebody falls silent (T55)."""

    def missed(self, now: Instant) -> None:
        pass


class RemembersWhatDoesNotMove(Wishes):
    """Keeps an attempt that does not move, although another member leads (T53)."""

    def _give_up_lead(self, now: Instant) -> None:
        pass


class AsksOnlyWhomItKnows(Changes):
    """Asks only members of the view it knows for views that it lacks (T51)."""

    def _ask_stranger(self, sender: int, now: Instant) -> None:
        self.links.owe(now, at_once=True)


class SpeaksOfWhatItNeverKnew(Links):
    """Tells others that the views before it came are forgotten (T48)."""

    def is_told_by_older(self, pid: int, first: int) -> bool:
        return False


class TellsTheRemovedWhatItNeverKnew(Links):
    """Tells the removed that the views before it came are forgotten, though older members know them (T66)."""

    def is_told_by_older(self, pid: int, first: int) -> bool:
        return pid in self.peers and super().is_told_by_older(pid, first)


class TakesSilenceForDeath(Wishes):
    """Suspects whoever should lead if it was not heard of for long, also where it had nothing to say (T65)."""

    def _expect(self, pid: int, now: Instant, ready: Ready) -> None:
        peer = self.links.peers.get(pid)
        if peer is not None and now - max(peer.heard_at, peer.since) >= 2 * self.settings.suspect_ns:
            self.links.suspect(pid, now)


class LeavesWithoutAWord(Wishes):
    """Says that it leaves to the one that it expects to lead, and to nobody else (T67)."""

    def _say_who_leaves(self, leavers: dict[int, None], leads: int, ready: Ready) -> None:
        pass


class LeadsBecauseAnotherIsUnwanted(Wishes):
    """Leads, though it goes itself, where the only one that stays is to be removed (T68)."""

    def _unfit(self, condemned: dict[int, None], *, goes: bool) -> tuple[Container[int], ...]:
        return super()._unfit(condemned, goes=False)
