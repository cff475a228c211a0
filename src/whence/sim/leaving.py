"""The verdict on members that asked to leave: in a group that lives, whoever asks is let go.

A trace does not show who asked, so the run tells it. Where the oracles cannot say that the group lives, because it may
stand still by right, nothing is said.
"""

from collections.abc import Sequence

from whence.check.verdict import Outcome, Verdict, Violation, counted, who
from whence.types import Process

PROMISE, LIVENESS = "leaving", "liveness"


def leaving_verdict(remaining: Sequence[Process], verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the verdict `broken` if some asked to leave and are still members at the end of a run in which the group
    lived; else None."""
    lives = any(each.promise == LIVENESS and each.outcome is Outcome.HOLDS for each in verdicts)
    if not remaining or not lives:
        return None
    violations = [
        Violation(
            promise=PROMISE, node=each.pid, inc=each.incarnation,
            sentence=f"{who(each.pid, each.incarnation)} asked to leave and was still a member when the run ended",
        )
        for each in remaining
    ]  # fmt: skip
    sentence = f"{counted(len(remaining), 'member')} asked to leave and stayed"
    return Verdict(
        promise=PROMISE, outcome=Outcome.BROKEN, sentence=sentence, violations=violations, count=len(violations)
    )
