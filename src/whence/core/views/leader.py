"""Leading a change: from what is wished to a view that is decided.

Laws (docs/papers/views.md, change). A removal flushes first and decides then: all that stay report, targets are the
maximum of their reports, all reach them, and only then the voters vote. Members that are not to be removed must contain
a quorum. Within an instance the set to be removed only grows. A vote that was already cast for another view wins.
"""

from collections.abc import Collection, Container, Iterable

from whence.core.ready import Note, Ready, Send
from whence.core.views.attempt import Attempt, Phase, Plan
from whence.core.views.items import Accept, Accepted, Decree, Flushed, Freeze, Nak, Prepare, Promise, Report, Target
from whence.core.views.proposal import lacking, plain_view, removal_view, targets, unsupplied
from whence.core.views.state import ViewState
from whence.core.views.view import NO_BALLOT, Ballot, MemberId, View
from whence.epochs import NUMBER_MAX, number_of
from whence.limits import MESH_MEMBERS_MAX
from whence.types import Instant

YIELD_NS = 4_000_000_000
"""How long a member leaves the lead to others that remove it, or so many others that no quorum would be left."""

IN_VAIN_MAX = 2
"""After so many views in a row that did not remove whom this member began to remove, it leaves the lead to others."""

DEFERS_NS = 1_000_000_000
"""How long removals wait after one was let go of because others can be done without it: those ask again meanwhile."""

GIVEN_UP_NS = 8_000_000_000
"""How long a removal waits that was given up because nobody has what counts of the removed: only an operator, or a
member that comes back, can help."""


class Leader:
    """Leads changes of the latest view, one attempt at a time."""

    def __init__(self, state: ViewState) -> None:
        self.state = state
        self.attempt: Attempt | None = None
        self.round = 0
        """The highest round that was seen."""
        self.dead: dict[int, None] = {}
        """Members of this instance that turned out to have what nobody can supply."""
        self.given_up: dict[MemberId, Instant] = {}
        """Members whose removal was given up, because nobody has what counts of them, and until when."""
        self.yields_until: Instant = 0
        """Others remove this member, or too many: until then it removes nobody."""
        self.defers_until: Instant = 0
        """Until then only those that do not answer are removed, or replaced by newcomers."""
        self.found_frozen = False
        """An attempt to promote found that somebody pursues a removal in this instance, or did."""
        self.wants_removal = False
        """This member began to remove somebody in this instance, or to let go of what keeps it from that."""
        self.in_vain = 0
        """Views since the members last changed that did not do what was begun here."""
        self.waits_for: list[int] = []
        """Who has not answered the present attempt."""
        self.asked_at: Instant = 0
        """When the first attempt at this change began."""
        self.fruitless = 0
        """Attempts that would have changed nothing, since the view last changed: the next one waits longer."""

    def reset(self, view: View, now: Instant, *, changed: bool) -> None:
        """Forget the attempt: its instance is decided, by this view."""
        self.attempt = None
        self.dead = {}
        self.found_frozen = False
        if changed:
            self.fruitless = self.in_vain = self.defers_until = 0
        elif self.wants_removal:
            self._note_in_vain(view, now)
        self.wants_removal = False
        self.waits_for = []

    def _note_in_vain(self, view: View, now: Instant) -> None:
        """Yield where this happens again: of members that remove others in a circle each may end the attempt of the one
        before, and that one never learns why (T59)."""
        self.in_vain += 1
        if self.in_vain >= IN_VAIN_MAX:
            self._yield(view, now)

    # --- what is wanted ---

    def plan(
        self, condemned: dict[int, None], leavers: dict[int, None], joins: dict[int, int], frozen: dict[int, None],
        *, silent: Container[int], along: dict[int, None], lets_go: bool, wants_promotion: bool, now: Instant,
    ) -> Plan | None:  # fmt: skip
        """Return what to attempt, or None where nothing may or need be changed. `silent` are the members that do not
        answer; `along` go with whoever is removed, because a removal would wait for them; `lets_go`: nobody pursues
        what is frozen; `wants_promotion`: there is room for voters."""
        view = self.state.latest
        if number_of(view.epoch) >= NUMBER_MAX:
            return None
        present = dict.fromkeys(member.pid for member in view.members)
        if now < self.yields_until:
            condemned = {}
        if now < self.defers_until:
            condemned = {pid: None for pid in condemned if pid in silent}
        self.given_up = {member: until for member, until in self.given_up.items() if now < until}
        waiting = dict.fromkeys(member.pid for member in self.given_up if member in view.members)
        condemned = {pid: None for pid in condemned if pid not in waiting and pid in present}
        self.wants_removal |= bool(condemned)
        joins = {pid: nonce for pid, nonce in joins.items() if pid not in waiting}
        leavers = {pid: None for pid in leavers if pid in present}
        all_go = all(voter.pid in leavers or voter.pid in condemned or voter.pid in silent for voter in view.voters)
        if all_go:
            leavers.pop(self.state.pid, None)  # somebody must vote, and answer
        remove = {pid: None for pid in [*condemned, *leavers, *joins, *self.dead] if pid in present}
        held = {pid: None for pid in frozen if pid in present}
        along = {pid: None for pid in along if pid in present} if remove else {}
        gone = {pid: None for pid in remove if pid in silent or pid in joins}  # who asks anew does not report
        choices = (remove | along, remove, gone | along, gone)  # first all, then those that are gone
        for some in choices:
            if some and self._may_remove(some | held, leavers):
                room = MESH_MEMBERS_MAX - (len(present) - len(some | held))
                fresh = {pid: nonce for pid, nonce in joins.items() if pid in some or pid not in present}
                kept = {pid: None for pid in leavers if pid in some}
                return Plan(some | held, kept, dict(list(fresh.items())[: max(0, room)]), plain=False, promote=True)
        fresh = {pid: nonce for pid, nonce in joins.items() if pid not in present}
        if self._is_waited_for(present, silent):
            fresh = {}
        fresh = dict(list(fresh.items())[: max(0, MESH_MEMBERS_MAX - len(present))])
        better = next((some for some in choices if held and some and self._may_remove(some, leavers)), None)
        if better is not None:
            lets_go = True  # an earlier attempt would remove more than can be: without it, some of them can
            self._defer(condemned, better, now)
        if fresh or lets_go:
            return Plan({}, {}, fresh, plain=True)
        if wants_promotion and not remove and not frozen:
            return Plan({}, {}, {}, plain=False, promote=True)
        return None

    def _defer(self, condemned: dict[int, None], better: dict[int, None], now: Instant) -> None:
        """Begin no removal for a while that was let go of for others: they ask anew in the next view, and whoever began
        at once would let go again, for ever (T62)."""
        if any(pid not in better for pid in condemned):
            self.defers_until = now + DEFERS_NS

    def _is_waited_for(self, present: Iterable[int], silent: Container[int]) -> bool:
        """Tell whether newcomers would wait for a member that does not answer: they ask again until it does, or until
        it is removed, and take no place meanwhile (T61)."""
        return any(pid in silent for pid in present)

    def _may_remove(self, remove: dict[int, None], leavers: dict[int, None]) -> bool:
        """Tell whether those that report would be a quorum, and a voter would stay."""
        view = self.state.latest
        stays = [member.pid for member in view.members if member.pid not in remove or member.pid in leavers]
        return view.has_quorum(stays) and any(voter.pid not in remove for voter in view.voters)

    # --- attempts ---

    def begin(self, plan: Plan, now: Instant, ready: Ready) -> None:
        """Begin an attempt with a higher ballot than any that was seen."""
        state = self.state
        self.round += 1
        if not self.waits_for:
            self.asked_at = now
        self.attempt = Attempt(state.latest, Ballot(self.round, state.pid), plan, now)
        voters = tuple(voter.pid for voter in state.latest.voters)
        ready.send.append(Send(voters, Prepare(state.adopted, self.attempt.ballot)))

    def seen(self, ballot: Ballot) -> None:
        """Note a ballot of somebody else."""
        self.round = max(self.round, ballot.round)

    def current(self, item: Promise | Report | Flushed | Accepted) -> Attempt | None:
        """Return the attempt that an answer belongs to."""
        attempt = self.attempt
        if attempt is None or attempt.view.epoch != item.instance or attempt.ballot != item.ballot:
            return None
        return attempt

    def receive(
        self, sender: int, item: Promise | Report | Flushed | Accepted | Nak, now: Instant, ready: Ready
    ) -> View | None:
        """Take an answer; return the view if it is decided by it."""
        if isinstance(item, Nak):
            self.seen(item.ballot)
            if self.attempt is not None and item.instance == self.attempt.view.epoch:
                self.attempt.moved_at = min(self.attempt.moved_at, now)
            return None
        attempt = self.current(item)
        if attempt is None:
            return None
        match item:
            case Promise() if attempt.phase is Phase.PREPARE:
                attempt.promises[sender] = item
                attempt.moved_at = now
                self._promised(attempt, now, ready)
            case Report() if (
                attempt.phase is Phase.REPORT and sender in attempt.asked and len(item.got) == len(attempt.view.members)
            ):
                attempt.reports[sender] = item
                attempt.moved_at = now
                self._reported(attempt, now, ready)
            case Flushed() if attempt.phase is Phase.FLUSH and sender in attempt.asked:
                attempt.flushed[sender] = None
                attempt.moved_at = now
                if self._are_all(attempt, attempt.flushed):
                    self._propose(attempt, ready)
            case Accepted() if attempt.phase is Phase.ACCEPT:
                attempt.votes[sender] = None
                attempt.moved_at = now
                if self._is_quorum(attempt, attempt.votes):
                    assert attempt.value is not None
                    return attempt.value
        return None

    def repeat(self, ready: Ready) -> None:
        """Send the question of this phase again to those that have not answered."""
        attempt = self.attempt
        if attempt is None:
            return
        instance, ballot = attempt.view.epoch, attempt.ballot
        missing = list(attempt.missing)
        match attempt.phase:
            case Phase.PREPARE:
                item: Prepare | Freeze | Target | Accept = Prepare(instance, ballot)
            case Phase.REPORT:
                item = Freeze(instance, ballot, list(attempt.plan.remove))
            case Phase.FLUSH:
                item = Target(instance, ballot, attempt.targets)
            case Phase.ACCEPT:
                assert attempt.value is not None
                item = Accept(instance, ballot, attempt.value)
        self.waits_for = missing
        if missing:
            ready.send.append(Send(tuple(missing), item))

    def _promised(self, attempt: Attempt, now: Instant, ready: Ready) -> None:
        if not self._is_quorum(attempt, attempt.promises):
            return
        highest, value = NO_BALLOT, None
        for promise in attempt.promises.values():
            if promise.value is not None and promise.accepted > highest:
                highest, value = promise.accepted, promise.value
        if value is not None:
            self._vote(attempt, value, ready)  # its flush is done
        elif attempt.plan.plain:
            self._vote(attempt, self._plain(attempt), ready)
        else:
            attempt.phase = Phase.REPORT
            item = Freeze(attempt.view.epoch, attempt.ballot, list(attempt.plan.remove))
            ready.send.append(Send(attempt.asked, item))

    def _reported(self, attempt: Attempt, now: Instant, ready: Ready) -> None:
        plan, present = attempt.plan, dict.fromkeys(member.pid for member in attempt.view.members)
        frozen = {
            pid: None
            for report in attempt.reports.values()
            for pid in report.frozen
            if pid in present and pid not in plan.remove
        }
        if frozen:
            if self.state.pid in frozen or not self._may_remove(plan.remove | frozen, plan.leavers):
                self._yield(attempt.view, now)
            if plan.remove:
                self._grow(attempt, frozen, now, ready)
            else:
                self.attempt = None  # somebody else pursues a removal
                self.found_frozen = True
            return
        if not self._are_all(attempt, attempt.reports):
            return
        dead = self._unsupplied(attempt)
        if dead and not self._may_remove(plan.remove | dead, plan.leavers):
            lack = self._lacking(attempt)
            if lack and self._may_remove(plan.remove | lack, plan.leavers):
                dead = lack
        if dead:
            self.dead |= dead
            self._grow(attempt, dead, now, ready)
            return
        attempt.targets = self._targets(attempt)
        attempt.phase = Phase.FLUSH
        ready.send.append(Send(attempt.asked, Target(attempt.view.epoch, attempt.ballot, attempt.targets)))

    def _yield(self, view: View, now: Instant) -> None:
        """Remove nobody for a while: of members that remove each other, or more together than can be, the first voter
        goes on, and of the others each waits longer than those before it (T52)."""
        voters = [voter.pid for voter in view.voters]
        place = voters.index(self.state.pid) if self.state.pid in voters else len(voters)
        self.yields_until = now + YIELD_NS + place * YIELD_NS // 4 if place else now

    def _is_quorum(self, attempt: Attempt, answers: Iterable[int]) -> bool:
        """Tell whether those that answered are a quorum of the voters."""
        return attempt.view.has_quorum(answers)

    def _are_all(self, attempt: Attempt, answers: Collection[int]) -> bool:
        """Tell whether everybody that was asked has answered."""
        return all(pid in answers for pid in attempt.asked)

    def _targets(self, attempt: Attempt) -> list[int]:
        """Return how far every stream must be got."""
        return targets(attempt)

    def _grow(self, attempt: Attempt, more: dict[int, None], now: Instant, ready: Ready) -> None:
        """Begin anew with more to be removed; if no quorum would be left, give up."""
        plan = attempt.plan
        leavers = {pid: None for pid in plan.leavers if pid not in self.dead}
        remove = plan.remove | more
        view = attempt.view
        if self._may_remove(remove, leavers):
            self.begin(Plan(remove, leavers, plan.joins, plain=False, promote=plan.promote), now, ready)
            return
        if self.dead:
            self.given_up |= {member: now + GIVEN_UP_NS for member in view.members if member.pid in plan.remove}
            ready.notes.append(Note("note", "unsuppliable"))
        joins = {pid: nonce for pid, nonce in plan.joins.items() if view.member_of(pid) is None}
        self.begin(Plan({}, {}, joins, plain=True), now, ready)

    def _unsupplied(self, attempt: Attempt) -> dict[int, None]:
        """Return those that have, or need, what nobody can supply."""
        return unsupplied(attempt)

    def _lacking(self, attempt: Attempt) -> dict[int, None]:
        """Return those that lack what others have and nobody can supply (T58)."""
        return lacking(attempt)

    # --- the vote ---

    def _plain(self, attempt: Attempt) -> View:
        """Return the view that removes nobody."""
        return plain_view(attempt)

    def _removal(self, attempt: Attempt) -> View:
        """Return the view that removes whom the plan names."""
        return removal_view(attempt)

    def _propose(self, attempt: Attempt, ready: Ready) -> None:
        """Put the view to the vote, unless it would change nothing."""
        value = self._removal(attempt)
        if value.members == attempt.view.members and value.voters == attempt.view.voters:
            self.fruitless += 1
            value = self._plain(attempt)  # those who reported may go on
        self._vote(attempt, value, ready)

    def _vote(self, attempt: Attempt, value: View, ready: Ready) -> None:
        attempt.value = value
        attempt.phase = Phase.ACCEPT
        voters = tuple(voter.pid for voter in attempt.view.voters)
        ready.send.append(Send(voters, Accept(attempt.view.epoch, attempt.ballot, value)))

    def decree(self, value: View, ready: Ready) -> None:
        """Tell the members of both views."""
        to = dict.fromkeys(member.pid for view in (self.state.latest, value) for member in view.members)
        to.pop(self.state.pid, None)
        if to:
            ready.send.append(Send(tuple(to), Decree(value)))
