"""Draws tickets over time: who owned each and who only coordinated it, with crashes and gaps."""

from whence.check.diagrams.svg import COLOURS, FAINT, INK, QUIET, WRONG, Canvas
from whence.check.history import AFTER_ALL, AT_T_TRUE, History
from whence.check.ticket_exclusivity import PROMISE, covers_of, holds_of
from whence.check.verdict import Findings
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, TICKET, Kind

WIDTH, LEFT, ROW, TOP = 980.0, 90.0, 34.0, 46.0
_AT_TICKET = COLUMNS_OF[Kind.TICKET_ACQUIRE].index(TICKET)


def ticket_diagram(trace: Trace) -> str:
    """Return an SVG with a bar for every interval in which a process acted for a ticket: thick where it owned it."""
    history = History(trace)
    covers = covers_of(history, holds_of(history, Findings(PROMISE)))
    end = max((row[AT_T_TRUE] for rows in trace.rows.values() for row in rows[-1:]), default=1) or 1
    tickets = sorted(covers)
    canvas = Canvas()
    canvas.text(
        LEFT, 22, "tickets over time: a bar where a process owns the ticket, a line where it may give it away", 13
    )

    def x(time: int) -> float:
        return LEFT + (WIDTH - LEFT - 20) * min(time, end) / end

    for at, key in enumerate(tickets):
        y = TOP + at * ROW
        canvas.text(LEFT - 12, y + 14, f"ticket {key[1]}", 12, QUIET, "end")
        canvas.line(LEFT, y + 10, WIDTH - 20, y + 10, FAINT, 0.5)
        for hold in covers[key]:
            since, until = hold.since or 0, end if hold.until in (None, AFTER_ALL) else int(hold.until or 0)
            colour = COLOURS[hold.owner[0] % len(COLOURS)]
            owns = hold.row[_AT_TICKET] == key[1]
            height = 18.0 if owns else 5.0
            canvas.box(x(since), y + 10 - height / 2, max(1.0, x(until) - x(since)), height, colour, 2)
            if owns and x(until) - x(since) > 44:
                name = f"{hold.owner[0]}, epoch {hold.epoch}" if x(until) - x(since) > 90 else str(hold.owner[0])
                canvas.text(x(since) + 4, y + 14, name, 11, INK)
    bottom = TOP + len(tickets) * ROW + 6
    for row in trace.rows[Kind.CRASH]:
        canvas.cross(x(row[AT_T_TRUE]), bottom, 5, WRONG)
        canvas.text(x(row[AT_T_TRUE]) + 9, bottom + 4, f"{row[0]} crashes", 11, WRONG)
    for row in trace.rows[Kind.GAP]:
        canvas.triangle(x(row[AT_T_TRUE]), bottom + 24, 4, QUIET)
    if trace.rows[Kind.GAP]:
        canvas.text(LEFT - 12, bottom + 28, "gaps", 12, QUIET, "end")
    return canvas.render(WIDTH, bottom + 44, "tickets over time")
