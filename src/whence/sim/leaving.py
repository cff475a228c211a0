"""The verdict on members that asked to leave: in a group that does not stand still by right, whoever asks is let go.

A trace does not show who asked, so the run tells it.
"""

from collections.abc import Sequence

from whence.check.living.members import Living
from whence.check.living.owed import Owed
from whence.check.verdict import Outcome, Verdict, Violation, counted, who
from whence.trace.memory import Trace
from whence.types import Process

PROMISE = "leaving"


def leaving_verdict(trace: Trace, remaining: Sequence[Process]) -> Verdict | None:
    """Return the verdict `broken` if some asked to leave and are members when a run ends that had a liveness phase;
    None if nobody is who should not be."""
    if not remaining or trace.run.phases is None:
        return None
    living = Living(trace)
    owed = Owed(living, PROMISE)
    violations = [
        Violation(
            promise=PROMISE, node=each.pid, inc=each.last_inc, grp=each.grp,
            sentence=f"{who(*each.name)} asked to leave and was still a member when the run ended",
        )
        for each in living.memberships.values()
        if each.leave is None and Process(*each.name) in remaining and owed.no_way_in(each.grp) is None
    ]  # fmt: skip
    if not violations:
        return None
    sentence = f"{counted(len(violations), 'member')} asked to leave and stayed"
    return Verdict(
        promise=PROMISE, outcome=Outcome.BROKEN, sentence=sentence, violations=violations, count=len(violations)
    )
