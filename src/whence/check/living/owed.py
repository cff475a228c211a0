"""What members of a living run owe each other by its end, and when nobody can say.

An event *took effect* when a member that stays was handed it, or published it. What took effect is owed to every member
that stays and is in the view it was published in. A strict group has one more rule: a joiner begins at a place of the
one sequence, so what the others were handed before its first event is not owed to it.

A member that remembers may *close* the group in order and stay a member. From then on it is away, like one that was
killed: what is published later is not owed to it. What it had not taken by then leaves a doubt, unless the run says
that it must have come; only what was acknowledged as settled must be there.

A group that *ended*, because its last member left it, is judged up to the ends of those who left it by themselves:
they count as if they stayed. Where one of them lacks something, its application may only not have asked for it.

A run that stops while messages are under way shows nothing by what is missing. So missing deliveries count only where
the run says when they must have come (`run.phases`: what was published until `live_until`), or that everything must
(durable runs, or the parameter agreement = "all"). They never count in a group that stands still by right (views 9): no
quorum of its latest view is up, where a member that says nothing after a restart had ended; nobody that is up knows
that view, which the first of two voters decided alone, and no quorum of the latest that somebody knows is up; or nobody
has what a change needs and only an operator can help (traps T18, T26). With journals nobody is removed for being down:
as long as a member of the latest view is, strict groups hand out nothing, and joiners do not become live. The same
holds for a member that an operator forced into another generation and that has ended there.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

from whence.check.closure import Process, bits
from whence.check.expected import expects_all
from whence.check.history import AFTER_ALL, AT_GRP, AT_REASON, AT_T_TRUE
from whence.check.living.members import AT_VALUE, AT_VIEW_EPOCH, FORCED, UNSUPPLIABLE, Living, Membership, View
from whence.check.verdict import Findings, Verdict, counted
from whence.epochs import view_name
from whence.trace.memory import Row
from whence.trace.schema import Kind

CLOSED_BEFORE = "the member closed the group, and goes on where it was when it is back"
LEFT_BEFORE = "the member left, and need not have taken all that it had got"
IN_FLIGHT = "the run does not say by when deliveries must have been made"


class Owed:
    """Collects what is missing: as findings where it must be there, as doubts where nobody can say."""

    def __init__(self, living: Living, promise: str) -> None:
        self.living = living
        self.findings = Findings(promise, living.incomplete)
        self._doubts: dict[str, int] = {}

    # --- what is owed ---

    @cached_property
    def until(self) -> int | None:
        """True time until which publications count; AFTER_ALL for all of them, None where nobody can say."""
        phases, living = self.living.run.phases, self.living
        if phases is not None and all(row[AT_T_TRUE] is not None for row in living.published):
            return phases.live_until
        return AFTER_ALL if expects_all(living) else None

    @cached_property
    def effective(self) -> int:
        """The events that took effect, as bits."""
        living, mask = self.living, 0
        for process in living.judged:
            mask |= living.handed[process] | sum(1 << event for event in living.own[process])
        return mask

    def missing(self, process: Process, events: int) -> list[int]:
        """Return those of some events that are owed to a member that is judged and did not come."""
        return self.lacking(process, events & self.living.due[process]) if process in self.living.judged else []

    def lacking(self, process: Process, events: int) -> list[int]:
        """Return the same, also of what was published after the member had closed the group."""
        living = self.living
        absent = list(bits(events & living.owed[process] & ~living.handed[process]))
        return absent if self.owed_from_the_start(process) else [e for e in absent if not self._is_before(process, e)]

    def owed_from_the_start(self, process: Process) -> bool:
        """Return whether everything of its views is owed to a member; a joiner of a strict group begins somewhere."""
        return not (self.living.is_strict and self.living.is_joiner(process))

    def _is_before(self, process: Process, event: int) -> bool:
        """Return whether an event lies before a joiner's first, in the sequences of all others that were handed it."""
        living = self.living
        if living.publisher.get(event) == process:
            return False
        for other in living.judged:
            places = self.places[other]
            if event in places and living.memberships[other].grp == living.memberships[process].grp:
                first = next((places[each] for each in living.delivered[process] if each in places), None)
                if first is not None and first < places[event]:
                    return False
        return True

    @cached_property
    def places(self) -> dict[Process, dict[int, int]]:
        """Per member that is judged, the place of each event in its sequence."""
        return {
            process: {event: place for place, event in enumerate(self.living.delivered[process])}
            for process in self.living.judged
        }

    # --- what is found ---

    def add_missing(
        self, membership: Membership, event: int, sentence: str, *, to: Membership | None = None,
        **shown: Iterable[int],
    ) -> None:  # fmt: skip
        """Count something that did not come, `to` another member if that is given: as a finding, or as a doubt where it
        need not have come yet."""
        why = self._excuse(membership, event, to or membership)
        if why is not None:
            self.doubt(why)
            return
        living = self.living
        self.findings.add(
            membership.name, sentence, grp=membership.grp, ids=[living.id_of(event)], evs=[*shown.get("evs", ())],
            rests_on_absence=True,
        )  # fmt: skip

    def _excuse(self, membership: Membership, event: int, to: Membership) -> str | None:
        closed = self.living.closings.get(to.process)
        if closed is not None and not self._was_due(event, closed):
            return CLOSED_BEFORE
        standstill = self.standstill(membership.grp)
        if standstill is None and (self.living.is_strict or membership.join is None):
            standstill = self.awaited(membership.grp)
        if standstill is not None:
            return standstill
        if membership.has_ended and membership.process in self.living.judged:
            return LEFT_BEFORE
        if self.until is None:
            return IN_FLIGHT
        published = self.living.published[event][AT_T_TRUE]
        return "they were published after the end of the liveness phase" if (published or 0) > self.until else None

    def _was_due(self, event: int, closed: Row) -> bool:
        """Tell whether the run says that an event had to have come when a member closed the group."""
        phases, at = self.living.run.phases, closed[AT_T_TRUE]
        if phases is None or at is None or self.until != phases.live_until:
            return False
        return bool(max(self.living.published[event][AT_T_TRUE], phases.live_from) + phases.deadline_ns <= at)

    def standstill(self, grp: str) -> str | None:
        """Return why a group may stand still; None if it must go on."""
        living = self.living
        view = living.latest.get(grp)
        if view is None:
            return f"nobody recorded a view of group {grp!r}"
        staying = [each for process, each in living.staying.items() if process not in living.away]
        up = [each.pid for each in staying if each.grp == grp and each.is_back]
        if not view.is_quorum(up):
            return f"group {grp!r} is blocked: no quorum of its latest view, {view_name(view.epoch)}, is up"
        if (known := living.known.get(grp, view)) != view and not known.is_quorum(self._up_in(known)):
            return (
                f"group {grp!r} is blocked: nobody that is up knows its latest view, {view_name(view.epoch)}, and no "
                f"quorum of the one before, {view_name(known.epoch)}, is up"
            )
        if living.run.durable and living.run.parameters.get("keep", "own") == "own" and _is_unsuppliable(living, grp):
            return f"group {grp!r} waits for an operator: nobody has what its next view needs"
        return None

    def _up_in(self, view: View) -> list[int]:
        """Return the members of a view that are up and have not ended."""
        living = self.living
        return [
            each.pid
            for process, each in living.memberships.items()
            if each.grp == view.grp and each.is_back and living.up[process] and living.is_in(process, view.epoch)
        ]

    def no_way_in(self, grp: str) -> str | None:
        """Return why nobody can get into a group, or on in it; None if it must let in who asks."""
        if any(each.grp == grp and each.has_ended for each in self.living.staying.values()):
            return f"group {grp!r} has ended: its last member closed it"
        return self.standstill(grp) or self.awaited(grp)

    def awaited(self, grp: str) -> str | None:
        """Return whom a group waits for: a member with a journal that is down returns, or an operator removes it. One
        that was forced into another generation, and ended there, tells nobody that it is gone; nor does one that a
        forced generation names, and that had gone on without it."""
        if grp not in self.living.latest:
            return None
        pid, how = min([*self._away(grp), *self._went_on_without(grp)], default=(0, None))
        return None if how is None else f"group {grp!r} waits for process {pid}, which {how}"

    def _away(self, grp: str) -> Iterator[tuple[int, str]]:
        living = self.living
        for process, each in living.memberships.items():
            if each.grp == grp and each.is_durable and living.is_in(process, living.latest[grp].epoch):
                if not each.is_up:
                    yield each.pid, "is down and a member of its latest view"
                elif process in living.away:
                    yield each.pid, "closed it and is a member of its latest view"
                elif each.moved_on and self._is_gone(each):
                    yield each.pid, "was forced out of it and is gone"

    def _went_on_without(self, grp: str) -> Iterator[tuple[int, str]]:
        """Yield the processes that a forced generation names, and that were out before they could hear of it: another
        view removed them, or they had entered a later one than it was forced from."""
        living = self.living
        here = {each.pid: each.group for each in living.memberships.values() if each.grp == grp}
        since = self._forced_from(grp)
        for each in living.memberships.values():
            is_of_it = each.group in here.values() and living.latest[grp].find(each.pid) is not None
            if not is_of_it or each.pid in here or not each.is_durable or each.leave is None:
                continue
            by_another = living.label(each.group, each.leave[AT_VIEW_EPOCH]) != grp
            entered = max((row[AT_VIEW_EPOCH] for row in each.entered), default=since)
            if by_another or entered > since:
                yield each.pid, "it names and which had gone on without it"

    def _forced_from(self, grp: str) -> int:
        """Return the epoch that a generation was forced from; AFTER_ALL where nobody recorded it."""
        living = self.living
        told = (row for row in living.trace.rows[Kind.NOTE] if row[AT_REASON] == FORCED)
        return min(
            (row[AT_VALUE] for row in told if living.label(row[AT_GRP], row[AT_VIEW_EPOCH]) == grp), default=AFTER_ALL
        )

    def _is_gone(self, moved: Membership) -> bool:
        """Tell whether a process that went on in another generation is no member of that one any more."""
        return any(
            each.pid == moved.pid and each.group == moved.group and each.grp != moved.grp
            and (each.has_ended or not each.is_up)
            for each in self.living.memberships.values()
        )  # fmt: skip

    def doubt(self, why: str, count: int = 1) -> None:
        """Count something that nobody can judge."""
        self._doubts[why] = self._doubts.get(why, 0) + count

    def doubt_views(self) -> None:
        """Count the publications in views that nobody recorded."""
        unplaced = sum(mask.bit_count() for mask in self.living.homeless.values())
        if unplaced:
            self.doubt("nobody recorded the view they were published in", unplaced)

    def verdict(self, holds: str, *, at_stake: int, nothing: str, broken: str | None = None) -> Verdict:
        """Return the verdict."""
        doubts = [f"{counted(count, 'case')} cannot be judged: {why}" for why, count in self._doubts.items()]
        return self.findings.verdict(
            holds, broken, at_stake=at_stake, nothing=nothing, doubts="; ".join(doubts) or None
        )


def _is_unsuppliable(living: Living, grp: str) -> bool:
    names = {each.group for each in living.memberships.values() if each.grp == grp}
    return any(row[AT_REASON] == UNSUPPLIABLE and row[5] in names for row in living.trace.rows[Kind.NOTE])
