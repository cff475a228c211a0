"""Draws a living group: how much every process was handed over time, coloured by the view it was in, with crashes."""

from bisect import bisect_right
from collections import Counter

from whence.check.diagrams.svg import COLOURS, FAINT, INK, QUIET, WRONG, Canvas
from whence.epochs import number_of
from whence.trace.memory import Trace
from whence.trace.schema import Kind

ROW, LEFT, TOP, WIDTH, BAR = 34.0, 110.0, 64.0, 860.0, 22.0
SLICES = 172
"""Stretches of time that are drawn as one bar each."""


def view_diagram(trace: Trace) -> str:
    """Return an SVG with a line per process: bars as high as it was handed much, coloured by its view; a triangle where
    it entered a view, a cross where it crashed."""
    deliveries = [(row["node"], row["t_true"]) for row in trace.records(Kind.DELIVER)]
    entered: dict[int, list[tuple[int, int]]] = {}
    for row in trace.records(Kind.VIEW):
        if row["epoch"] is not None:
            entered.setdefault(row["node"], []).append((row["t_true"], number_of(row["epoch"])))
    for views in entered.values():
        views.sort()
    crashes = [(row["node"], row["t_true"]) for row in trace.records(Kind.CRASH)]
    nodes = sorted({node for node, _ in deliveries} | set(entered))
    times = [time for _, time in deliveries]
    start, end = min(times, default=0), max(times, default=1)
    slice_ns = max(1, (end - start) // SLICES + 1)
    bars = Counter((node, (time - start) // slice_ns) for node, time in deliveries)
    most = max(bars.values(), default=1)
    canvas = Canvas()
    canvas.text(16, 28, "What every process was handed over time, by the view it was in", 16, bold=True)
    place = {node: TOP + at * ROW for at, node in enumerate(nodes)}

    def across(time: int) -> float:
        return LEFT + (min(max(time, start), end) - start) / max(1, end - start) * WIDTH

    for node, y in place.items():
        canvas.text(LEFT - 12, y + 4, f"process {node}", 12, INK, "end")
        canvas.line(LEFT, y + BAR / 2, LEFT + WIDTH, y + BAR / 2, FAINT, 0.6)
    for (node, at), count in sorted(bars.items()):
        height = BAR * (count / most) ** 0.5  # what came in bursts must not make the rest invisible
        colour = _colour(_epoch_at(entered.get(node, []), start + (at + 1) * slice_ns))
        x, y = LEFT + at * WIDTH / SLICES, place[node] + BAR / 2
        canvas.box(x, y - height, WIDTH / SLICES, height, colour, 0)
    for node, views in entered.items():
        for time, epoch in views:
            canvas.triangle(across(time), place[node] + BAR / 2 + 4, 3, _colour(epoch))
    for node, time in crashes:
        if node in place:
            canvas.cross(across(time), place[node] + BAR / 2, 5, WRONG)
    bottom = TOP + len(nodes) * ROW + 10
    epochs = sorted({epoch for views in entered.values() for _, epoch in views})
    for at, epoch in enumerate(epochs[:8]):
        canvas.box(LEFT + at * 100, bottom, 14, 10, _colour(epoch), 2)
        canvas.text(LEFT + at * 100 + 20, bottom + 9, f"view {epoch}", 12, QUIET)
    seconds = (end - start) / 1e9
    canvas.text(LEFT + WIDTH, bottom + 9, f"{seconds:.0f} s", 12, QUIET, "end")
    return canvas.render(LEFT + WIDTH + 40, bottom + 34, "deliveries of a living group over time, by view")


def _epoch_at(views: list[tuple[int, int]], time: int) -> int:
    """Return the view that a process was in."""
    found = bisect_right(views, (time, 1 << 62))
    return views[max(0, found - 1)][1] if views else 0


def _colour(epoch: int) -> str:
    return COLOURS[epoch % len(COLOURS)]
