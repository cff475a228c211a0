"""One chain: there is one view per epoch, for everybody, for ever (views 1 and 8, *one chain*).

(a) Two members that enter an epoch enter the same view: the same members in the same order, each with the incarnation
that asked for it and the epoch that added it, and the same voters where rows say so. (b) A view follows from the one
before: who is in it was in that one, or has this epoch as the one that added it. (c) A member enters views one by one
and never goes back; only a crash may swallow a row. (d) Nobody enters a view it is not in, a process is one member of a
view, and only one process acts as a member: without a journal the very incarnation that asked, with one no incarnation
that lost its disk meanwhile (traps T12, T15 to T17, T36). An operator who forces a generation begins another chain:
each is judged by itself. Nothing rests on time. Costs one look per view row and member.
"""

from itertools import pairwise

from whence.check.history import AT_GRP, AT_REASON
from whence.check.living.members import AT_PIDS, OUTSIDE, WIPED, Living, Membership, View, view_of
from whence.check.verdict import Findings, Verdict, counted, which, who
from whence.epochs import view_name
from whence.trace.memory import Row
from whence.trace.schema import Kind

PROMISE = "one_chain"


def judge(living: Living) -> Verdict:
    """Judge whether every epoch has one view, and one process acts for each member."""
    findings = Findings(PROMISE, living.incomplete)
    entries: dict[tuple[str, int], int] = {}
    for row in living.trace.rows[Kind.VIEW]:
        view = living.view_at(row)
        entries[view.grp, view.epoch] = entries.get((view.grp, view.epoch), 0) + 1
        _judge_row(living, findings, row, view)
    for (grp, epoch), view in living.views.items():
        if (grp, epoch - 1) in living.views:
            _judge_step(living, findings, living.views[grp, epoch - 1], view)
    for membership in living.memberships.values():
        _judge_entries(living, findings, membership)
        _judge_actor(living, findings, membership)
    _judge_owners(living, findings)
    return findings.verdict(
        f"{counted(len(living.views), 'view')}, one per epoch, whoever entered it",
        at_stake=sum(count > 1 for count in entries.values()), nothing="no epoch was entered by two members",
    )  # fmt: skip


def _judge_row(living: Living, findings: Findings, row: Row, view: View) -> None:
    pids = [member.pid for member in view.members]
    first = living.views[view.grp, view.epoch]
    wrong = None
    other_voters = bool(view.voters and first.voters) and view.voters != first.voters
    if view.members != first.members or other_voters:
        wrong = f"entered another {which(view.epoch)} than others did: {_told(view)}, not {_told(first)}"
    elif row[0] not in pids:
        wrong = f"entered {which(view.epoch)}, which it is not in"
    elif len(pids) != len(set(pids)) or list(row[AT_PIDS] or ()) != pids:
        wrong = f"entered {which(view.epoch)}, in which one process is there twice or is named wrongly"
    if wrong:
        findings.add(row[:2], f"{who(row[0], row[1])} {wrong}", grp=row[AT_GRP], evs=[row[2]])


def _told(view: View) -> str:
    return ", ".join(f"{member.pid} since {view_name(member.joined)}" for member in view.members)


def _judge_step(living: Living, findings: Findings, before: View, view: View) -> None:
    for member in view.members:
        if member.joined != view.epoch and member not in before.members:
            told = (row for row in living.trace.rows[Kind.NOTE] if row[AT_REASON] == OUTSIDE)
            rows = (*living.trace.rows[Kind.VIEW], *told)  # nobody need have entered it
            row = next(row for row in rows if living.view_at(row) == view)
            sentence = (
                f"process {member.pid} is in {which(view.epoch)} as a member since {view_name(member.joined)}, "
                f"and {which(before.epoch)} did not have that member"
            )
            findings.add(row[:2], sentence, grp=view.grp, evs=[row[2]])


def _judge_entries(living: Living, findings: Findings, membership: Membership) -> None:
    for early, late in pairwise(membership.entered):
        before, after = view_of(early).epoch, view_of(late).epoch
        skipped = after > before + 1 and early[1] == late[1]
        if after < before or skipped:
            does = "went back" if after < before else "jumped"
            sentence = f"{who(late[0], late[1])} {does} from {which(before)} to {which(after)}"
            findings.add(
                late[:2], sentence, grp=membership.grp, evs=[early[2], late[2]], rests_on_absence=after > before
            )


def _judge_actor(living: Living, findings: Findings, membership: Membership) -> None:
    """Find an incarnation that acts for a member that another one, or one with a disk since lost, asked for."""
    nonce, grp = membership.nonce, membership.grp
    if nonce is None or membership.joined is None:
        return
    wipes = [row[1] for row in living.trace.rows[Kind.CRASH] if row[0] == membership.pid and row[AT_REASON] == WIPED]
    lost = [inc for inc in wipes if nonce <= inc < membership.last_inc]
    acts = membership.last_inc >= nonce if membership.is_durable or not nonce else membership.last_inc == nonce
    if lost or not acts:
        row = next((each for each in (*membership.entered, membership.join) if each is not None), None)
        sentence = (
            f"{who(*membership.name)} acts for the member that its incarnation {nonce} asked for"
            + (f", and the disk was wiped in its incarnation {lost[0]}" if lost else "")
        )  # fmt: skip
        findings.add(membership.name, sentence, grp=grp, evs=[] if row is None else [row[2]])


def _judge_owners(living: Living, findings: Findings) -> None:
    """Find two memberships that are one member."""
    acting: dict[tuple[str, int, int], Membership] = {}
    for membership in living.memberships.values():
        if membership.joined is None:
            continue
        member = (membership.grp, membership.pid, membership.joined)
        if member in acting:
            sentence = (
                f"{who(*membership.name)} acts for the member that joined in {which(membership.joined)}, which "
                f"{who(*acting[member].name)} had been"
            )
            findings.add(membership.name, sentence, grp=membership.grp)
        acting.setdefault(member, membership)
