"""Strict total order: the members that stay have one sequence, without omissions; a joiner has a suffix of it (views
6).

(a) The sequences of all members of a group, removed and crashed ones too, fit into one order: nobody is handed two
events the other way round than somebody else (traps T30, T31). (b) Of two members that stay, the sequence of the one
that began later is a part of the other's without holes, from its first event to where the shorter one ends; two
founders begin with the same event (traps T29, T32, T33). How far each came is for `agreement` and `liveness` to say.
Removed members may lack what the others have: see `uniform`. Nothing rests on time, keys or clocks. Linear in the
deliveries and the members.
"""

from itertools import combinations
from typing import TypeAlias

from whence.check.closure import Process
from whence.check.living.members import Living
from whence.check.total import judge_sequences
from whence.check.verdict import Findings, Verdict, what, who

PROMISE = "strict_total"

Sequence: TypeAlias = list[int]


def judge(living: Living) -> Verdict:
    """Judge whether all who stay have one sequence."""
    findings = Findings(PROMISE, living.incomplete)
    judge_sequences(living, findings)
    compared = 0
    for one, other in combinations(living.judged, 2):
        if living.memberships[one].grp == living.memberships[other].grp:
            compared += _judge_pair(living, findings, one, other)
    return findings.verdict(
        "all who stay were handed one sequence without omissions", at_stake=compared,
        nothing="no two members that stay were handed two events each",
    )  # fmt: skip


def _judge_pair(living: Living, findings: Findings, one: Process, other: Process) -> bool:
    """Compare two members; return whether there was anything to compare."""
    long, short = list(living.delivered[one]), list(living.delivered[other])
    if not long or not short:
        return False
    if living.is_joiner(one) and not living.is_joiner(other):
        one, other, long, short = other, one, short, long
    if living.is_joiner(one) and short[0] not in living.delivered[one] and long[0] in living.delivered[other]:
        one, other, long, short = other, one, short, long
    begins = begin_in(long, short) if living.is_joiner(other) else 0
    if begins is None:
        if not set(long) & set(short):
            return False
        _report(living, findings, one, other, short[0])
        return True
    for ours, theirs in zip(long[begins:], short, strict=False):
        if ours != theirs:
            lacks = ours not in living.delivered[other]
            _report(living, findings, other if lacks else one, one if lacks else other, ours if lacks else theirs)
            break
    return min(len(long) - begins, len(short)) > 1


def begin_in(long: Sequence, short: Sequence) -> int | None:
    """Return where a sequence begins in another; None if its first event is not there."""
    return long.index(short[0]) if short[0] in long else None


def _report(living: Living, findings: Findings, lacking: Process, having: Process, event: int) -> None:
    """Report the first event at which two sequences part."""
    name, row = living.id_of(event), living.delivered[having][event]
    membership = living.memberships[lacking]
    late = living.delivered[lacking].get(event)
    sentence = (
        f"{who(*membership.name)} {'went on without' if late is None else 'has at another place'} {what(name)}, which "
        f"{who(row[0], row[1])} was handed"
    )
    evs = [] if late is None else [late[2]]
    findings.add(
        membership.name if late is None else late[:2], sentence, grp=membership.grp, ids=[name], evs=evs,
        rests_on_absence=late is None,
    )  # fmt: skip
