"""One topic of a trace: what is promised per topic is judged on the events of each alone."""

from whence.trace.memory import Trace
from whence.trace.rows import Rare, rare_row
from whence.trace.schema import COLUMNS_OF, DESTS, M_PID, Kind

_AT_DESTS = COLUMNS_OF[Kind.PUBLISH].index(DESTS)
_EVENT = slice(COLUMNS_OF[Kind.PUBLISH].index(M_PID), COLUMNS_OF[Kind.PUBLISH].index(M_PID) + 3)


def topics_of(trace: Trace) -> list[tuple[int, ...]]:
    """Return the members of every topic that something was published to."""
    return sorted({tuple(row[_AT_DESTS] or ()) for row in trace.rows[Kind.PUBLISH]})


def of_topic(trace: Trace, members: tuple[int, ...]) -> Trace:
    """Return a trace in which only what was published to these members was published and delivered.

    Rows of other topics become notes, so that no row is missing.
    """
    part = Trace(trace.run)
    part.rows = {kind: list(rows) for kind, rows in trace.rows.items()}
    published = trace.rows[Kind.PUBLISH]
    kept = {row[_EVENT] for row in published if tuple(row[_AT_DESTS] or ()) == members}
    for kind in (Kind.PUBLISH, Kind.DELIVER):
        part.rows[kind] = [row for row in trace.rows[kind] if row[_EVENT] in kept]
        others = [row for row in trace.rows[kind] if row[_EVENT] not in kept]
        part.rows[Kind.NOTE] += [rare_row(row[:6], Rare(reason="other_topic")) for row in others]
    return part
