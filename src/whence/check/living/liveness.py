"""Liveness over views: once the faults have stopped, who wants to be a member is one, and events arrive (views 9).

At the end of the run: (a) every process that is up, wanted to be a member before the liveness phase began and was not
removed for good is live (it has a join row) and has entered the latest view of its group, which it is in. A process
wants it if it is a founder or has rows in the group, or any rows where there is only one group, and goes on wanting it
through restarts until a leave row (traps T13, T28, T37). (b) What members that stay published in the liveness phase is
handed to every member that stays and is in its view, within `run.phases.deadline_ns` of true time after its
publication, or after that member became live; to a joiner of a strict group if it was live by then.

A group may stand still by right: see `owed`. Without true time, or where the run does not say when its faults stopped,
nobody can say. One look per event of the liveness phase and member.
"""

from whence.check.closure import Process
from whence.check.expected import NO_PHASES
from whence.check.history import AT_T_TRUE
from whence.check.living.members import AT_VIEW_EPOCH, Living, Membership
from whence.check.living.owed import Owed
from whence.check.verdict import Verdict, counted, unknown, what, which, who
from whence.trace.memory import Phases
from whence.trace.schema import Kind

PROMISE = "liveness"

_MS = 1_000_000
_TIMED = (Kind.PUBLISH, Kind.DELIVER, Kind.JOIN, Kind.VIEW)


def judge(living: Living) -> Verdict:
    """Judge whether everybody is in, and whether what was published reached them in time."""
    phases, rows = living.run.phases, living.trace.rows
    if phases is None or any(row[AT_T_TRUE] is None for kind in _TIMED for row in rows[kind]):
        return unknown(PROMISE, NO_PHASES)
    owed = Owed(living, PROMISE)
    wanting = _wanting(living, phases)
    for membership in wanting:
        wrong = _is_out(living, membership)
        if wrong is not None:
            _add(owed, membership, f"{who(*membership.name)} {wrong}")
    strangers = _strangers(living, phases)
    for process in strangers:
        grp = next(iter(living.run.groups))
        why = owed.no_way_in(grp)
        if why is not None:
            owed.doubt(why)
        else:
            sentence = f"{who(*process)} wanted to be a member and never was one"
            owed.findings.add(process, sentence, grp=grp, rests_on_absence=True)
    expected = sum(_judge_events(living, owed, process, phases) for process in living.staying)
    return owed.verdict(
        f"{counted(len(wanting), 'process', 'processes')} that wanted to be members are, and "
        f"{counted(expected, 'expected delivery', 'expected deliveries')} came within "
        f"{phases.deadline_ns / _MS:,.0f} ms",
        at_stake=len(wanting) + expected, nothing="nobody was up and wanted to be a member",
    )  # fmt: skip


def _wanting(living: Living, phases: Phases) -> list[Membership]:
    """Return the last membership in each group of every process that is up and wants to be a member."""
    last: dict[tuple[int, str], Membership] = {}
    for membership in living.memberships.values():
        last[membership.pid, membership.grp] = membership
    is_one_group = len(living.run.groups) == 1
    founders = {(pid, grp) for grp, pids in living.run.groups.items() for pid in pids}
    return [
        each
        for who_where, each in last.items()
        if living.up[each.process]
        and (not each.is_silent or (each.goes_on and (is_one_group or who_where in founders)))
        and (living.lines[each.process][0][4][AT_T_TRUE] or 0) <= phases.live_from
    ]


def _strangers(living: Living, phases: Phases) -> list[Process]:
    """Return the processes of a run with one group that left rows before the liveness phase, and none as a member."""
    if len(living.run.groups) != 1:
        return []
    known = {each.pid for each in living.memberships.values()}
    return sorted(
        {
            (row[0], living.last_incarnations[row[0]])
            for rows in living.trace.rows.values()
            for row in rows
            if row[0] not in known and (row[AT_T_TRUE] or 0) <= phases.live_from
        }
    )


def _is_out(living: Living, membership: Membership) -> str | None:
    """Say why a process is not where it wants to be; None if it is."""
    latest = living.latest.get(membership.grp)
    if latest is None or not living.is_in(membership.process, latest.epoch):
        return "wanted to be a member and is not in the latest view"
    if membership.join is None:
        return "is in the latest view and never became live"
    entered = max((row[AT_VIEW_EPOCH] for row in membership.entered), default=None)
    if entered != latest.epoch:
        return f"never entered {which(latest.epoch)}, the latest; its last one is {which(entered)}"
    return None


def _add(owed: Owed, membership: Membership, sentence: str) -> None:
    why = owed.no_way_in(membership.grp)
    if why is not None:
        owed.doubt(why)
    else:
        owed.findings.add(membership.name, sentence, grp=membership.grp, rests_on_absence=True)


def _judge_events(living: Living, owed: Owed, process: Process, phases: Phases) -> int:
    """Judge what was published in the liveness phase at one member; return how much that was."""
    membership, expected = living.staying[process], 0
    for publisher in living.staying:
        for event in living.own[publisher]:
            if not _is_owed(living, owed, process, event, phases):
                continue
            expected += 1
            row, since = living.delivered[process].get(event), _due_from(living, membership, event)
            if row is None or row[AT_T_TRUE] - since > phases.deadline_ns:
                took = "never" if row is None else f"only {(row[AT_T_TRUE] - since) / _MS:,.1f} ms after it was due"
                sentence = (
                    f"{who(*membership.name)} delivered {what(living.id_of(event))} {took}; the deadline is "
                    f"{phases.deadline_ns / _MS:,.0f} ms"
                )
                owed.add_missing(membership, event, sentence)
    return expected


def _due_from(living: Living, membership: Membership, event: int) -> int:
    """Return since when an event is on its way to a member: its publication, or later, when the member became live."""
    published: int = living.published[event][AT_T_TRUE]
    return published if membership.join is None else max(published, membership.join[AT_T_TRUE])


def _is_owed(living: Living, owed: Owed, process: Process, event: int, phases: Phases) -> bool:
    published = living.published[event][AT_T_TRUE]
    if not (phases.live_from <= published <= phases.live_until and living.meant[process] >> event & 1):
        return False
    if process in living.closings and not living.due[process] >> event & 1:
        return False
    join = living.memberships[process].join
    return owed.owed_from_the_start(process) or (join is not None and join[AT_T_TRUE] < published)
