"""Verdict: who is removed while alive learns up to which event its own took effect: these and no others (views 5.8).

A leave row names the last own event that took effect (none: no event took effect) and the epoch of the view without the
member. That view is one without it. Its own events up to the one named are handed to every member that stays and is in
their view. No later one is ever handed to a member of the view without it, not even to one that is removed afterwards:
those who stayed had stopped counting, and hold what was agreed on (traps T1, T2, T12, T20). Removed members may have
been handed more. An event of an earlier generation says that none of the later one took effect: what was published
before an operator forced it is judged there. The last member of a group closes it and names the view it was alone in:
then nothing is judged. A verdict `removed_unknown` says nothing and is not judged. When a missing delivery counts, and
what a joiner of a strict group is owed: see `owed`. One look per own event and member.
"""

from whence.check.closure import NO_EVENT
from whence.check.history import AT_GRP, AT_REASON, KEY_OF
from whence.check.living.members import AT_VIEW_EPOCH, UNKNOWN_VERDICT, Living, Membership
from whence.check.living.owed import Owed
from whence.check.verdict import Verdict, counted, what, which, who
from whence.trace.memory import Row
from whence.types import EventId

PROMISE = "verdict"


def judge(living: Living) -> Verdict:
    """Judge whether what members were told when they left is what happened."""
    owed = Owed(living, PROMISE)
    at_stake = 0
    for membership in living.memberships.values():
        if membership.leave is not None:
            at_stake += _judge_leave(living, owed, membership, membership.leave)
    return owed.verdict(
        f"{counted(at_stake, 'member')} learnt, when they were out, which of their events took effect",
        at_stake=at_stake, nothing="nobody who had published learnt which of its events took effect",
    )  # fmt: skip


def _judge_leave(living: Living, owed: Owed, gone: Membership, row: Row) -> bool:
    """Judge one verdict; return whether there were events for it to be about."""
    if row[AT_REASON] == UNKNOWN_VERDICT:
        return False
    grp, own, epoch = gone.grp, living.own[gone.process], row[AT_VIEW_EPOCH]
    without = living.views.get((grp, epoch))
    named = None if row[KEY_OF][1] is None else EventId(*row[KEY_OF][1:])
    last = NO_EVENT if named is None else living.number.get(row[KEY_OF], NO_EVENT)
    if named is not None and _is_of_another_generation(living, gone, last):
        named, last = None, NO_EVENT
    told = f"{who(row[0], row[1])} was told that it is out since {which(epoch)}"
    is_last = without is not None and len(without.members) == 1
    if living.is_in(gone.process, epoch) and is_last:
        return False  # the last member closed the group: there is no view without it
    if living.is_in(gone.process, epoch):
        owed.findings.add(row[:2], f"{told}, and is in that view", grp=row[AT_GRP], evs=[row[2]])
    if named is not None and last not in own:
        sentence = f"{told} and that its events took effect up to {what(named)}, which it did not publish"
        owed.findings.add(row[:2], sentence, grp=grp, ids=[named], evs=[row[2]], rests_on_absence=True)
        return True
    if without is None:
        owed.doubt("nobody recorded the view without the member")
        return bool(own)
    cut = own.index(last) + 1 if named is not None else 0
    _judge_within(living, owed, gone, own[:cut])
    _judge_beyond(living, owed, gone, row, own[cut:])
    return bool(own)


def _is_of_another_generation(living: Living, gone: Membership, event: int) -> bool:
    """Return whether the process published the event as a member of another generation of the group."""
    publisher = living.memberships.get(living.publisher[event]) if event in living.publisher else None
    return (
        publisher is not None
        and (publisher.pid, publisher.group) == (gone.pid, gone.group)
        and publisher.grp != gone.grp
    )


def _judge_within(living: Living, owed: Owed, gone: Membership, within: list[int]) -> None:
    mask = sum(1 << event for event in within)
    for process, membership in living.judged.items():
        for event in owed.missing(process, mask):
            sentence = (
                f"{who(*membership.name)} was never handed {what(living.id_of(event))}, and {who(*gone.name)} was told "
                "that it took effect"
            )
            owed.add_missing(membership, event, sentence)


def _judge_beyond(living: Living, owed: Owed, gone: Membership, row: Row, beyond: list[int]) -> None:
    for process, membership in living.memberships.items():
        if membership.grp != gone.grp or not living.is_in(process, row[AT_VIEW_EPOCH]):
            continue
        for event in beyond:
            came = living.delivered[process].get(event)
            if came is not None:
                name = living.id_of(event)
                sentence = (
                    f"{who(came[0], came[1])} was handed {what(name)}, and {who(*gone.name)} was told that this one "
                    "did not take effect"
                )
                owed.findings.add(came[:2], sentence, grp=gone.grp, ids=[name], evs=[came[2]])
