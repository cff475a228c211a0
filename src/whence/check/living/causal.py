"""Causal order over views: who is handed an event has been handed everything it follows that was published in a view it
is in (views 1, *causal*).

m1 -> m2 by Lamport over publications and deliveries of one group, where a membership is a process: what a removed
member published is no past of the member that the same process becomes later. When member p is handed m2, it has been
handed every m1 -> m2 published in an epoch whose view p is in (traps T10, T11, T22). What p published itself it has. To
be handed m2 and m1 later is wrong whatever the views were. In a strict group a joiner begins somewhere in the sequence:
a cause that never came to it is judged by `strict_total`. What those published that an operator left out of the next
generation is lost by right where no survivor has it (views 5.10). No time is needed: epochs say for whom an event is.
An event of a view that nobody recorded, and that never came, leaves a doubt. One mask operation per delivery.
"""

from whence.check.causal import PROMISE, judge_line
from whence.check.living.members import Living
from whence.check.optimistic import NOTHING_FOLLOWS, followers_delivered
from whence.check.verdict import Findings, Verdict, counted

__all__ = ["PROMISE", "judge"]


def judge(living: Living) -> Verdict:
    """Judge whether every delivery came after all it follows."""
    findings = Findings(PROMISE, living.incomplete)
    doubtful = 0
    for process, line in living.lines.items():
        came = living.handed[process]
        begins_late = living.is_strict and living.is_joiner(process)
        lost = living.left_behind & ~came if living.memberships[process].moved_on else 0
        lacking = came if begins_late else (came | living.meant[process]) & ~lost
        unsure = living.homeless.get(living.memberships[process].grp, 0) & ~(lacking | lost)
        doubtful += judge_line(living, findings, process, line, lacking, unsure)
    doubts = f"{counted(doubtful, 'cause')} never came, and nobody recorded the view it was published in"
    return findings.verdict(
        "every event was delivered after everything it follows", at_stake=followers_delivered(living),
        nothing=NOTHING_FOLLOWS, doubts=doubts if doubtful else None,
    )  # fmt: skip
