"""What follows from the reports of an attempt: who cannot be supplied, and the view that is put to the vote.

Laws (docs/papers/views.md, change). What counts of a removed member is held by somebody who stays, or those that have
or need it go too. A cut is at the target that everybody flushed to. A member becomes a voter only when everything
unstable is for it too. All of it is computed from the attempt alone.
"""

from msgspec import structs

from whence.core.views.attempt import Attempt
from whence.core.views.items import Report
from whence.core.views.view import MARKS_MAX, VOTERS_MAX, Cut, MarkAt, MemberId, View
from whence.epochs import forced_epoch


def unsupplied(attempt: Attempt) -> dict[int, None]:
    """Return those that have, or need, messages of a removed member that nobody can supply."""
    dead: dict[int, None] = {}
    reports = attempt.reports
    for place, member in enumerate(attempt.view.members):
        if member.pid not in attempt.plan.remove:
            continue
        opened = {pid: report for pid, report in reports.items() if report.opened}
        if not opened:
            continue
        high = max(report.acted_on[place] for report in opened.values())
        supplied = _supplied(opened, place)
        dead |= {pid: None for pid, report in opened.items() if report.acted_on[place] > supplied}
        dead |= _newcomers_without(attempt, place, member, min(supplied, high), opened)
    return dead


def lacking(attempt: Attempt) -> dict[int, None]:
    """Return those that lack messages of a removed member that others have and nobody can supply."""
    lacks: dict[int, None] = {}
    opened = {pid: report for pid, report in attempt.reports.items() if report.opened}
    for place, member in enumerate(attempt.view.members):
        if opened and member.pid in attempt.plan.remove:
            high = max(report.acted_on[place] for report in opened.values())
            if _supplied(opened, place) < high:
                lacks |= {pid: None for pid, report in opened.items() if report.got[place] < high}
    return lacks


def _supplied(opened: dict[int, Report], place: int) -> int:
    """Return how far a stream can be supplied to all that report."""
    low = min(report.got[place] for report in opened.values())
    high = max(report.acted_on[place] for report in opened.values())
    for number in range(low + 1, high + 1):
        if not any(report.held_from[place] <= number <= report.got[place] for report in opened.values()):
            return number - 1
    return high


def _newcomers_without(
    attempt: Attempt, place: int, member: MemberId, upto: int, opened: dict[int, Report]
) -> dict[int, None]:
    """Return newcomers for whom messages of a removed member are held by nobody: from their mark on, or all of one that
    is no older than they are (T57)."""
    dead: dict[int, None] = {}
    for pid, report in attempt.reports.items():
        mine = attempt.view.member_of(pid)
        if report.opened or mine is None or pid == member.pid:
            continue
        base = 1
        if member.joined < mine.joined:
            marks = [mark for other in attempt.reports.values() for mark in other.marks[place]]
            base = next((mark.number for mark in marks if mark.is_base_for(mine.joined)), upto + 1)
        for number in range(base, upto + 1):
            if not any(other.held_from[place] <= number <= other.got[place] for other in opened.values()):
                dead[pid] = None
                break
    return dead


def plain_view(attempt: Attempt) -> View:
    """Return the view that adds the newcomers of an attempt and removes nobody."""
    view, joins = attempt.view, attempt.plan.joins
    epoch = view.epoch + 1
    members = [*view.members, *[MemberId(pid, epoch) for pid in joins]]
    return View(epoch, members, view.voters, [*view.nonces, *joins.values()], [])


def removal_view(attempt: Attempt) -> View:
    """Return the view without those whom an attempt removes. Members that are fit for it fill the voters up."""
    view, plan = attempt.view, attempt.plan
    epoch = view.epoch + 1
    stays = [
        (member, nonce)
        for member, nonce in zip(view.members, view.nonces, strict=True)
        if member.pid not in plan.remove
    ]
    members = [*[member for member, _ in stays], *[MemberId(pid, epoch) for pid in plan.joins]]
    nonces = [*[nonce for _, nonce in stays], *plan.joins.values()]
    voters = [voter for voter in view.voters if voter.pid not in plan.remove]
    closed = min(report.closed for report in attempt.reports.values())
    for member, _ in stays:
        if len(voters) < VOTERS_MAX and member not in voters and member.joined <= closed:
            voters.append(member)
    cuts = [_cut(attempt, place, member) for place, member in enumerate(view.members) if member.pid in plan.remove]
    return View(epoch, members, voters, nonces, cuts)


def targets(attempt: Attempt) -> list[int]:
    """Return how far every stream must be got, so that nobody that stays has more."""
    reports = attempt.reports.values()
    return [max(report.acted_on[place] for report in reports) for place in range(len(attempt.view.members))]


def forced_targets(attempt: Attempt) -> list[int]:
    """Return the same for an operator's view: of the removed, only what somebody can supply."""
    return [
        _supplied(attempt.reports, place) if member.pid in attempt.plan.remove else number
        for place, (member, number) in enumerate(zip(attempt.view.members, targets(attempt), strict=True))
    ]


def forced_view(attempt: Attempt, fork: int) -> View:
    """Return the view with which an operator's generation begins. Where no voter is left, those that are left vote."""
    view = removal_view(attempt)
    return structs.replace(
        view, epoch=forced_epoch(attempt.view.epoch, fork), voters=view.voters or view.members[:VOTERS_MAX],
        forced_from=attempt.view.epoch,
    )  # fmt: skip


def _cut(attempt: Attempt, place: int, member: MemberId) -> Cut:
    """Return how far the messages of a removed member count, with the marks that newcomers need."""
    number = attempt.targets[place]
    clock = 0
    marks: dict[int, MarkAt] = {}
    for report in attempt.reports.values():
        if report.got[place] == number:
            clock = max(clock, report.clocks[place])
        marks |= {mark.number: mark for mark in report.marks[place] if mark.number <= number}
    return Cut(member, number, clock, [marks[at] for at in sorted(marks)][-MARKS_MAX:])
