"""Members with a journal that closed their group in order and did not leave it: they are members still, and away.

What such a member lacks it takes when it is back, so nothing says how much it should have had. It counts as down if
somebody else published after it had closed the group: that one went on without it.
"""

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from whence.check.closure import Process
from whence.check.history import AFTER_ALL, AT_GRP, AT_REASON, AT_T_TRUE, BEFORE_ALL
from whence.trace.memory import Row
from whence.trace.schema import CLOSED, Kind

if TYPE_CHECKING:
    from whence.check.living.members import Living

_TAKES: Final = (Kind.DELIVER, Kind.GAP, Kind.NOTE)
"""What a process may still record of a group that it has closed: it takes what it had been handed."""


def closings(living: "Living") -> dict[Process, Row]:
    """Return the rows that say so, per membership; of who is back, nothing."""
    last: dict[tuple[int, str], Row] = {}
    for row in sorted(living.trace.rows[Kind.NOTE], key=itemgetter(1, 2)):
        if row[AT_REASON] == CLOSED:
            last[row[0], row[AT_GRP]] = row
    return {
        process: last[each.pid, each.group]
        for process, each in living.memberships.items()
        if (each.pid, each.group) in last
        and each.is_durable and each.is_up and not (each.has_ended or each.moved_on)
        and all(step[2] in _TAKES or step[:2] < last[each.pid, each.group][1:3] for step in living.lines[process])
    }  # fmt: skip


def away(living: "Living") -> dict[Process, None]:
    """Return those of them that count as down; where rows have no true time, all after whom somebody may have
    published."""
    latest: dict[tuple[str, Process | None], int] = {}
    for event, row in enumerate(living.published):
        whose = (living.group_of(event), living.publisher.get(event))
        latest[whose] = max(latest.get(whose, BEFORE_ALL), AFTER_ALL if row[AT_T_TRUE] is None else row[AT_T_TRUE])
    found: dict[Process, None] = {}
    for process, row in living.closings.items():
        closed, grp = row[AT_T_TRUE], living.memberships[process].grp
        others = [at for (where, publisher), at in latest.items() if where == grp and publisher != process]
        if others and (closed is None or max(others) > closed):
            found[process] = None
    return found
