"""Charts as SVG text: lines, bars and a timeline, in the look of our other pictures.

What belongs to a level has its colour. A line ends where nothing was measured, and begins again after it.
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil, floor, inf, log10
from typing import NamedTuple

from whence.check.diagrams.svg import COLOURS, FAINT, INK, PAPER, QUIET, Canvas, colour_of_level

WIDTH, HEIGHT = 860.0, 330.0
LEFT, RIGHT, TOP, BOTTOM = 66.0, 24.0, 58.0, 50.0
GRID = "#e4e9ef"
DASHES = ("", "7 3", "2 3", "10 3 2 3", "4 5", "14 4", "1 4", "10 3 2 3 2 3")
"""What tells lines of one colour apart."""


class Line(NamedTuple):
    """A named line through points, in the colour of a level.

    It is not drawn between points further apart than `step`: nothing was measured between them.
    """

    name: str
    points: Sequence[tuple[float, float]]
    level: str = ""
    step: float = inf


class Bar(NamedTuple):
    """A named bar in the colour of a level, and what is written at its end."""

    name: str
    value: float
    shown: str
    level: str = ""


class Span(NamedTuple):
    """A stretch on a row of a timeline."""

    row: str
    begins: float
    ends: float
    who: str


def line_chart(title: str, x_title: str, y_title: str, lines: Sequence[Line], *, log_x: bool = False) -> str:
    """Draw lines over common axes; a logarithmic x leaves out what is not above 0."""
    lines = [line._replace(points=[(x, y) for x, y in line.points if x > 0 or not log_x]) for line in lines]
    lines = [line for line in lines if line.points]
    canvas = Canvas()
    height = HEIGHT + 18 * ((len(lines) + 3) // 4)
    canvas.text(LEFT, 26, title, 16, INK, bold=True)
    if not lines:
        canvas.text(LEFT, 70, "nothing to show", 13, QUIET)
        return canvas.render(WIDTH, 100, title)
    xs = [log10(x) if log_x else x for line in lines for x, _ in line.points]
    top = _nice(max(y for line in lines for _, y in line.points))
    low, high = min(xs), max(max(xs), min(xs) + 1e-9)
    plot_w, plot_h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        along = ((log10(x) if log_x else x) - low) / (high - low)
        return LEFT + along * plot_w, TOP + plot_h * (1 - y / top)

    for step in range(5):
        y = TOP + plot_h * step / 4
        canvas.line(LEFT, y, WIDTH - RIGHT, y, GRID)
        canvas.text(LEFT - 8, y + 4, _short(top * (1 - step / 4)), 11, QUIET, "end")
    for x in _ticks(low, high, log_x):
        place = LEFT + (x - low) / (high - low) * plot_w
        canvas.line(place, TOP, place, TOP + plot_h, GRID)
        canvas.text(place, TOP + plot_h + 17, _short(10**x if log_x else x), 11, QUIET, "middle")
    drawn: Counter[str] = Counter()
    for number, line in enumerate(lines):
        colour, dash = colour_of_level(line.level), DASHES[drawn[line.level] % len(DASHES)]
        drawn[line.level] += 1
        with canvas.about(line.name):
            for piece in pieces(line):
                points = [at(x, y) for x, y in piece]
                if len(points) == 1:
                    canvas.dot(*points[0], 3, colour)
                else:
                    canvas.path(points, colour, 2.0, dash)
            column, row = number % 4, number // 4
            x, y = LEFT + column * 195, HEIGHT + 4 + row * 18
            canvas.line(x, y - 4, x + 18, y - 4, colour, 3.0, dash)
            canvas.text(x + 24, y, _cut(line.name, 24), 12, INK)
    canvas.text(LEFT, TOP - 10, y_title, 11, QUIET)
    canvas.text(WIDTH - RIGHT, HEIGHT - 14, x_title, 11, QUIET, "end")
    return canvas.render(WIDTH, height, title)


def pieces(line: Line) -> list[list[tuple[float, float]]]:
    """Return the points of a line in pieces, cut where the next one is further away than its step."""
    cut: list[list[tuple[float, float]]] = []
    for point in line.points:
        if cut and point[0] - cut[-1][-1][0] <= line.step:
            cut[-1].append(point)
        else:
            cut.append([point])
    return cut


def bar_chart(title: str, unit: str, bars: Sequence[Bar]) -> str:
    """Draw horizontal bars, longest scale first."""
    canvas = Canvas()
    canvas.text(LEFT, 26, title, 16, INK, bold=True)
    canvas.text(LEFT, 46, unit, 11, QUIET)
    top = max((bar.value for bar in bars), default=0) or 1
    label = 210.0
    for number, bar in enumerate(bars):
        y = 62 + number * 26
        canvas.text(label - 10, y + 13, _cut(bar.name, 30), 12, INK, "end")
        canvas.box(label, y, max(1.5, (WIDTH - label - 120) * bar.value / top), 17, colour_of_level(bar.level), 3)
        canvas.text(label + (WIDTH - label - 120) * bar.value / top + 8, y + 13, bar.shown, 12, QUIET)
    return canvas.render(WIDTH, 76 + 26 * max(1, len(bars)), title)


def timeline(title: str, x_title: str, spans: Sequence[Span]) -> str:
    """Draw who held what when, one row each."""
    canvas = Canvas()
    canvas.text(LEFT, 26, title, 16, INK, bold=True)
    rows = sorted({span.row for span in spans})
    low, high = min(span.begins for span in spans), max(span.ends for span in spans)
    label, colours = 130.0, {who: COLOURS[at % len(COLOURS)] for at, who in enumerate(sorted({s.who for s in spans}))}
    scale = (WIDTH - label - RIGHT) / ((high - low) or 1)
    for number, row in enumerate(rows):
        y = 50 + number * 26
        canvas.text(label - 10, y + 13, row, 12, INK, "end")
        canvas.line(label, y + 22, WIDTH - RIGHT, y + 22, GRID)
        for span in spans:
            if span.row == row:
                width = max(2.0, (span.ends - span.begins) * scale)
                canvas.box(label + (span.begins - low) * scale, y, width, 17, colours[span.who], 3)
                if width > 8 * len(span.who):
                    canvas.text(label + (span.begins - low) * scale + 5, y + 13, span.who, 11, PAPER, halo=False)
    bottom = 50 + 26 * len(rows)
    canvas.text(label, bottom + 16, _short(low), 11, FAINT)
    canvas.text(WIDTH - RIGHT, bottom + 16, f"{_short(high)} {x_title}", 11, FAINT, "end")
    return canvas.render(WIDTH, bottom + 30, title)


def _nice(value: float) -> float:
    """Round up to 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next((factor * power for factor in (1.0, 2.0, 2.5, 5.0) if factor * power >= value), 10 * power)


def _ticks(low: float, high: float, is_log: bool) -> list[float]:
    if is_log:
        whole = [float(x) for x in range(ceil(low), floor(high) + 1)]
        return whole or [low, high]
    step = _nice((high - low) / 7)
    return [step * number for number in range(ceil(low / step), floor(high / step) + 1)]


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _short(value: float) -> str:
    if value and abs(value) < 0.01:
        return f"{value:.2g}"
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:.3g} M"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
