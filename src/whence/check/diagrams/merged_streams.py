"""Draws a merged group: every member's deliveries over time, coloured by the merger they came from.

The trace shows the merger: a packet that arrived at the same instant, or else the process itself.
"""

from whence.check.diagrams.svg import COLOURS, FAINT, INK, QUIET, WRONG, Canvas
from whence.trace.memory import Trace
from whence.trace.schema import Kind

ROW, LEFT, TOP, WIDTH = 22.0, 110.0, 70.0, 900.0


def merged_streams_diagram(trace: Trace) -> str:
    """Return an SVG with a line per process, a mark per delivery, and a cross where a process crashed."""
    came_from = {(row["node"], row["t_true"]): row["peer"] for row in trace.records(Kind.RECV)}
    deliveries = [
        (row["node"], row["t_true"], came_from.get((row["node"], row["t_true"]), row["node"]), row["hold_ns"])
        for row in trace.records(Kind.DELIVER)
    ]
    nodes = sorted({node for node, *_ in deliveries})
    end = max([time for _, time, _, _ in deliveries], default=1)
    canvas = Canvas()
    canvas.text(16, 28, "Every member's stream, by the merger it came from", 16, bold=True)
    place = {node: TOP + at * ROW for at, node in enumerate(nodes)}

    def across(time: int) -> float:
        return LEFT + time / end * WIDTH

    for node, y in place.items():
        canvas.text(LEFT - 12, y + 4, f"process {node}", 12, INK, "end")
        canvas.line(LEFT, y, LEFT + WIDTH, y, FAINT, 0.6)
    for node, time, source, pending_ns in deliveries:
        merger = node if pending_ns else source
        x, y = across(time), place[node]
        canvas.line(x, y - 7, x, y + 7, COLOURS[merger % len(COLOURS)], 1.2)
    for row in trace.records(Kind.CRASH):
        if row["node"] in place:
            canvas.cross(across(row["t_true"]), place[row["node"]], 6, WRONG)
            canvas.text(across(row["t_true"]) + 12, place[row["node"]] + 4, "killed", 12, WRONG)
    bottom = TOP + len(nodes) * ROW + 16
    for at, merger in enumerate(sorted({node for node, _, _, pending_ns in deliveries if pending_ns})):
        canvas.box(LEFT + at * 160, bottom, 14, 10, COLOURS[merger % len(COLOURS)], 2)
        canvas.text(LEFT + at * 160 + 22, bottom + 9, f"from merger {merger}", 12, QUIET)
    return canvas.render(LEFT + WIDTH + 40, bottom + 40, "deliveries of a merged group over time")


def delivery_sequences(trace: Trace) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    """Return the events that every process delivered, in order."""
    lines: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for row in trace.records(Kind.DELIVER):
        lines.setdefault((row["node"], row["inc"]), []).append((row["m_pid"], row["m_inc"], row["m_seq"]))
    return lines
