"""Open: what is published anywhere after `open()` has returned at j is handed to j, and so is all that follows anything
j was handed (views 1 and 5.5, *open*).

j is a member that joined a group that had begun; its join row is where `open()` returned. Of the events that took
effect (see `owed`), judged are those published later in true time than that row, and those that follow something j was
handed or published. Each is published in an epoch that is not below the one that added j: an earlier view is not for j,
and no later repair makes up for it (traps T8, T10, T34). And j is handed each of them if it stays. Without true time
only the second kind is judged; an event that never came to j then leaves a doubt, if its view was one before j's. One
mask operation per joiner and event.
"""

from whence.check.closure import Process, bits
from whence.check.history import AT_T_TRUE
from whence.check.living.members import Living, Membership
from whence.check.living.owed import Owed
from whence.check.verdict import Verdict, counted, what, which, who

PROMISE = "open"

_NO_TIME = "the rows have no true time, and it is unknown whether it was published before or after `open()` returned"


def judge(living: Living) -> Verdict:
    """Judge whether joiners were handed everything from their opening on."""
    owed = Owed(living, PROMISE)
    at_stake = 0
    for process, membership in living.memberships.items():
        if living.is_joiner(process):
            at_stake += _judge_joiner(living, owed, process, membership)
    return owed.verdict(
        f"{counted(at_stake, 'event')} published after a joiner was live, or following what it was handed, were for it",
        at_stake=at_stake, nothing="nothing took effect after somebody joined",
    )  # fmt: skip


def _judge_joiner(living: Living, owed: Owed, process: Process, membership: Membership) -> int:
    knows = living.handed[process] | sum(1 << event for event in living.own[process])
    at_stake = 0
    for event in bits(owed.effective & ~living.homeless.get(membership.grp, 0)):
        if living.group_of(event) != membership.grp or living.publisher.get(event) == process:
            continue
        is_later = _is_after(living, membership, event)
        follows = bool(living.past[event] & knows)
        if is_later is None and not follows and _is_too_early(living, membership, event):
            if not living.handed[process] >> event & 1 and process in living.judged:
                owed.doubt(_NO_TIME)
        elif is_later or follows:
            at_stake += 1
            _judge_event(
                living, owed, process, event, "follows what it was handed" if follows else "was published later"
            )
    return at_stake


def _is_after(living: Living, membership: Membership, event: int) -> bool | None:
    """Return whether an event was published after a joiner's `open()` returned; None where nobody can say."""
    if membership.join is None:
        return False
    opened, published = membership.join[AT_T_TRUE], living.published[event][AT_T_TRUE]
    return None if opened is None or published is None else bool(published > opened)


def _is_too_early(living: Living, membership: Membership, event: int) -> bool:
    epoch = living.epoch_of(event)
    return epoch is not None and membership.joined is not None and epoch < membership.joined


def _judge_event(living: Living, owed: Owed, process: Process, event: int, why: str) -> None:
    membership, row = living.memberships[process], living.published[event]
    name = living.id_of(event)
    if _is_too_early(living, membership, event):
        sentence = (
            f"{what(name)} is not for {who(*membership.name)}, which joined in {which(membership.joined)}: it was "
            f"published in {which(living.epoch_of(event))}, and {why}"
        )
        owed.findings.add(row[:2], sentence, grp=membership.grp, ids=[name], evs=[row[2]])
    elif process in living.judged and living.due[process] >> event & 1 and not living.handed[process] >> event & 1:
        sentence = f"{who(*membership.name)} was never handed {what(name)}, which {why}: it was open by then"
        owed.add_missing(membership, event, sentence)
