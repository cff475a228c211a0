"""Bounds in living runs: no buffer ever held more than its limit, and at rest none holds anything.

What should be empty at rest is so only where the group need not wait for anybody: for a quorum, for an operator, or for
a member with a journal that is down. Nor is it where the last member closed the group: who was removed just before may
never learn that.
"""

from whence.check.bounds import AT_REST, PROMISE, judge_rows
from whence.check.living.members import Living
from whence.check.living.owed import Owed
from whence.check.verdict import Verdict

__all__ = ["PROMISE", "judge"]


def judge(living: Living) -> Verdict:
    """Judge whether every measured value kept its bound."""
    owed = Owed(living, PROMISE)
    waiting = {grp for grp in living.run.groups if owed.no_way_in(grp)}
    return judge_rows(living, lambda reason, grp: not (reason.endswith(AT_REST) and grp in waiting))
