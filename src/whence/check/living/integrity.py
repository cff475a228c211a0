"""Integrity over views: what is delivered was published before, as it was, in a view that the receiver is in.

All that integrity says of any run, with membership by views: an event is published by a member of the view it names,
which is not behind the latest view that its publisher had entered; nothing is published or delivered by who has learnt
that it is out (views 5.8); a delivery names the epoch of the publication, and the receiver is a member of that view:
the member it is now, not one that the same process was before (traps T11, T12). A view that nobody recorded leaves a
doubt. After a restart a process says first where it is; what it then finds in its journal may have been published
before that.
"""

from whence.check.closure import NO_EVENT, Process
from whence.check.history import AT_GRP
from whence.check.integrity import PROMISE, judge_with
from whence.check.living.members import AT_EPOCH, AT_VIEW_EPOCH, Living
from whence.check.verdict import Findings, Verdict, counted, unknown, what, which, who
from whence.trace.schema import Kind

__all__ = ["PROMISE", "judge"]


def judge(living: Living) -> Verdict:
    """Judge whether everything delivered was published, unchanged and for this member."""
    findings = Findings(PROMISE, living.incomplete)
    for process in living.lines:
        _judge_line(living, findings, process)
    verdict = judge_with(living, findings)
    unplaced = sum(mask.bit_count() for mask in living.homeless.values())
    if verdict.holds and unplaced:
        return unknown(PROMISE, f"nobody recorded the view that {counted(unplaced, 'event')} were published in")
    return verdict


def _judge_line(living: Living, findings: Findings, process: Process) -> None:
    entered: int | None = None
    resumes = False
    for _, _, kind, event, row in living.lines[process]:
        wrong = None
        if kind is Kind.RESTART:
            entered, resumes = None, True
        elif kind is Kind.VIEW:
            entered, resumes = None if resumes else row[AT_VIEW_EPOCH], False
        elif event == NO_EVENT:
            continue
        elif kind is Kind.PUBLISH:
            epoch = living.epoch_of(event)
            if entered is not None and epoch is not None and epoch < entered:
                wrong = (
                    f"published {what(living.id_of(event))} in {which(epoch)}, after it had entered {which(entered)}"
                )
            elif living.memberships[process].joined is None or living.is_in(process, epoch) is False:
                wrong = f"published {what(living.id_of(event))} in {which(epoch)}, which it is not in"
        elif kind is Kind.DELIVER:
            epoch, named = living.epoch_of(event), row[AT_EPOCH[Kind.DELIVER]]
            if named != epoch:
                wrong = f"delivered {what(living.id_of(event))} as one of {which(named)}, and it is of {which(epoch)}"
            elif living.is_in(process, epoch) is False:
                wrong = f"delivered {what(living.id_of(event))} of {which(epoch)}, which it is not in"
        if wrong:
            sentence = f"{who(row[0], row[1])} {wrong}"
            findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[living.id_of(event)], evs=[row[2]])
