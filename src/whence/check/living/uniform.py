"""Uniform: those who were removed or died were handed a prefix of the one sequence too (views 1 and 6, *uniform*).

The sequence is that of the member that stays and began first. A founder that did not stay was handed the beginning of
it. A joiner that did not stay was handed a part of it without holes. Where no founder stays, what somebody was handed
before the sequence begins cannot be compared, and only what comes from its first event on counts. Somebody that was
handed more than the sequence has by the end is accused where the others must have come that far: see `owed`. Of who
went on in another generation counts what it was handed before: there it is handed what is left of this one as its
survivors agree. Linear in the deliveries.
"""

from whence.check.closure import Process
from whence.check.living.members import Living
from whence.check.living.owed import Owed
from whence.check.living.strict_total import Sequence, begin_in
from whence.check.verdict import Verdict, counted, vacuous, what, who

PROMISE = "uniform"


def judge(living: Living) -> Verdict:
    """Judge whether those who did not stay were handed nothing else than the others."""
    if not living.run.parameters.get("uniform"):
        return vacuous(PROMISE, "the group does not promise it: it runs without `uniform`")
    owed = Owed(living, PROMISE)
    compared = 0
    for process, membership in living.memberships.items():
        reference = _reference(living, membership.grp)
        if process not in living.staying and reference is not None:
            compared += _judge_one(living, owed, process, reference)
    return owed.verdict(
        f"{counted(compared, 'member')} that did not stay were handed a prefix of what the others were",
        at_stake=compared, nothing="nobody who did not stay was handed anything that can be compared",
    )  # fmt: skip


def _reference(living: Living, grp: str) -> Process | None:
    """Return the member that stays and began first: of several, the one that was handed most."""
    staying = [process for process, each in living.staying.items() if each.grp == grp and living.delivered[process]]
    return min(
        staying, key=lambda process: (living.memberships[process].joined or 0, -len(living.delivered[process])),
        default=None,
    )  # fmt: skip


def _judge_one(living: Living, owed: Owed, process: Process, reference: Process) -> bool:
    """Compare one member with the sequence; return whether there was anything to compare."""
    whole: Sequence = list(living.delivered[reference])
    moved_on = living.memberships[process].moved_on
    here = [event for event, row in living.delivered[process].items() if moved_on is None or moved_on.is_after(row)]
    handed = _comparable(here, whole, begins_late=living.is_joiner(reference))
    if not handed:
        return False
    may_begin_later = living.is_joiner(process) or living.is_joiner(reference)
    begins = begin_in(whole, handed) if may_begin_later else 0
    if begins is None and set(handed).isdisjoint(whole):
        begins = len(whole)  # it begins where the sequence ends
    if begins is None:
        _report(living, owed, process, reference, handed[0])
        return True
    parted = next((ours for theirs, ours in zip(whole[begins:], handed, strict=False) if ours != theirs), None)
    beyond = handed[len(whole) - begins :]
    if parted is not None:
        _report(living, owed, process, reference, parted)
    elif beyond:
        name = living.id_of(beyond[0])
        sentence = f"{who(*living.memberships[process].name)} was handed {what(name)}, and nobody who stays ever was"
        owed.add_missing(living.memberships[process], beyond[0], sentence, to=living.memberships[reference])
    return True


def _comparable(handed: Sequence, whole: Sequence, *, begins_late: bool) -> Sequence:
    """Leave out what was handed before a sequence that begins late; all of it, if nothing is in both."""
    if not begins_late:
        return handed
    if whole[0] in handed:
        return handed[handed.index(whole[0]) :]
    return handed if set(handed) & set(whole) else []


def _report(living: Living, owed: Owed, process: Process, reference: Process, event: int) -> None:
    """Report the first event that somebody was handed out of the sequence."""
    name, row = living.id_of(event), living.delivered[process][event]
    sentence = (
        f"{who(row[0], row[1])} was handed {what(name)} at a place where {who(*living.memberships[reference].name)}, "
        "which stays, was handed another event"
    )
    owed.findings.add(row[:2], sentence, grp=living.group_of(event), ids=[name], evs=[row[2]])
