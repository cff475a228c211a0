"""Receipts: what was acknowledged is not lost by any change that the protocol makes by itself (views 7).

A note row `majority` or `settled` tells the publisher that this event and its earlier own ones came that far. From then
on every member that stays, and is in the view of such an event, is handed it, whatever became of its publisher (traps
T5, T18, T23 to T25). `stored` says it only as long as the publisher stays. `settled` says more: the other members have
it, and where they remember, their applications do. So where rows have true time and members remember, each other member
that stays and is in the event's view was handed it before the note.
A member that closed the group and lacks what was settled is missed, whenever it was published.
Nobody is told of an event that is not its own. When a missing delivery counts, and what a joiner of a strict group is
owed: see `owed`. One mask operation per note and member.
"""

from whence.check.closure import NO_EVENT, Process
from whence.check.history import AT_GRP, AT_REASON, AT_T_TRUE, KEY_OF
from whence.check.living.members import SETTLED, STORED, Living
from whence.check.living.owed import Owed
from whence.check.verdict import Verdict, counted, what, who
from whence.trace.memory import Row
from whence.trace.schema import Kind
from whence.types import EventId

PROMISE = "receipts"


def judge(living: Living) -> Verdict:
    """Judge whether everything acknowledged is there."""
    owed = Owed(living, PROMISE)
    acknowledged: dict[tuple[Process, str], int] = {}
    """How many own events of a publisher were acknowledged so far, per level."""
    at_stake = 0
    for publisher, line in living.lines.items():
        for _, _, kind, _, row in line:
            if kind is Kind.NOTE:
                at_stake += _judge_note(living, owed, publisher, row, acknowledged)
    return owed.verdict(
        f"{counted(at_stake, 'acknowledged event')} reached every member that stays and is in their view",
        at_stake=at_stake, nothing="no member that stays was owed anything that was acknowledged",
    )  # fmt: skip


def _judge_note(
    living: Living, owed: Owed, process: Process, row: Row, acknowledged: dict[tuple[Process, str], int]
) -> int:
    """Judge the events that a note is the first to acknowledge; return how many were owed to somebody."""
    level, name = str(row[AT_REASON]), EventId(*row[KEY_OF][1:])
    event = living.number.get(row[KEY_OF], NO_EVENT)
    publisher = living.publisher.get(event)
    if publisher is None or publisher[0] != process[0]:
        sentence = f"{who(row[0], row[1])} was told that {what(name)} is {level}, and did not publish it"
        owed.findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[name], evs=[row[2]], rests_on_absence=True)
        return 0
    own = living.own[publisher]
    since, until = acknowledged.get((publisher, level), 0), own.index(event) + 1
    acknowledged[publisher, level] = max(since, until)
    if level == STORED and publisher not in living.judged:
        return 0
    at_stake = 0
    for covered in own[since:until]:
        at_stake += _judge_event(living, owed, row, level, covered)
    return at_stake


def _was_settled_without(living: Living, owed: Owed, process: Process, event: int, level: str) -> bool:
    """Tell whether a member that closed the group lacks an event that was settled: all its members have that."""
    is_other = process in living.closings and process != living.publisher.get(event)
    return level == SETTLED and is_other and bool(owed.lacking(process, 1 << event))


def _judge_event(living: Living, owed: Owed, note: Row, level: str, event: int) -> bool:
    """Judge one acknowledged event at every member; return whether it was owed to anybody."""
    name, is_owed = living.id_of(event), False
    for process, membership in living.judged.items():
        if _was_settled_without(living, owed, process, event, level):
            is_owed = True
            told = f"{who(note[0], note[1])} was told that {what(name)} is settled"
            sentence = f"{told}, and {who(*membership.name)} closed the group without it"
            owed.findings.add(note[:2], sentence, grp=note[AT_GRP], ids=[name], evs=[note[2]], rests_on_absence=True)
            continue
        if not living.due[process] >> event & 1:
            continue
        is_owed = True
        came = living.delivered[process].get(event)
        if came is None:
            for missing in owed.missing(process, 1 << event):
                sentence = f"{who(*membership.name)} was never handed {what(name)}, which was acknowledged as {level}"
                owed.add_missing(membership, missing, sentence)
        elif (
            level == SETTLED
            and membership.is_durable
            and process != living.publisher.get(event)
            and (came[AT_T_TRUE] or 0) > (note[AT_T_TRUE] or came[AT_T_TRUE] or 0)
        ):
            sentence = (
                f"{who(note[0], note[1])} was told that {what(name)} is settled before {who(*membership.name)} "
                "was handed it"
            )
            owed.findings.add(note[:2], sentence, grp=note[AT_GRP], ids=[name], evs=[note[2]])
    return is_owed
