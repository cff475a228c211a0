"""Pictures of figures: our curves with their bands, and dashed what the paper states. The same data, the same bytes."""

from collections.abc import Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import (
    FixedLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    ScalarFormatter,
    StrMethodFormatter,
    SymmetricalLogLocator,
)

from whence_lab.figures.data import Band, Data
from whence_lab.figures.figure import Figure, Line, Panel
from whence_lab.figures.shapes import Points

PANEL_WIDTH, LONE_PANEL_WIDTH, HEIGHT = 4.6, 6.6, 4.4
ROW_MAX = 3
"""Panels side by side."""
TITLE_AT = 0.08
"""Inches above the picture's title."""
MARGIN = 0.05
"""Above and below the bands."""
TICKS_MAX = 10
"""So many measured values have a tick each."""
TICKS_NEAR = 0.08
"""On a linear axis, values that are nearer than this part of it share one tick."""
TICKS_APART = 1.25
"""On a logarithmic axis, values that are nearer than this factor share one tick."""
COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#b83280", "#6b46c1", "#4a5568", "#b7791f", "#0987a0", "#742a2a")
MARKERS = "os^Dv<>Ph"
SHARED = {"neighbourhood": 0, "causal, thesis coding": 1, "causal": 2, "cbcast": 3, "barriers": 4, "kn": 5, "hlc": 6}
"""Curves that several figures have, by the values that tell them apart: each has one colour everywhere."""
LINE, MARKER = 1.5, 3.5
LINE_STEP, MARKER_STEP = 1.6, 2.2
"""By so much a curve is thicker than the one that covers it, so that both are seen."""
COVERED = 0.012
"""Curves that are nearer than this part of all heights cover each other."""
STATED = "#555555"
DASHES = ("--", ":", "-.")
BESIDES: dict[str, dict[str, Any]] = {"svg": {"Date": None, "Creator": "whence"}, "png": {"Software": "whence"}}
"""What a picture says of its making: no time, so that two runs give the same file."""

STYLE: Any = {
    "svg.hashsalt": "whence", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e9ef", "axes.titlesize": 10,
    "axes.titleweight": "bold", "legend.fontsize": 7.5, "legend.framealpha": 0.75, "legend.edgecolor": "none",
    "figure.dpi": 100,
}  # fmt: skip


def draw(figure: Figure, data: Data, where: Path, kind: str) -> list[Path]:
    """Draw all panels of a figure into one picture, as PNG and as SVG; return the files."""
    with matplotlib.rc_context(STYLE):
        panels = len(figure.panels)
        rows = ceil(panels / ROW_MAX)
        columns = ceil(panels / rows)
        width = PANEL_WIDTH * columns if panels > 1 else LONE_PANEL_WIDTH
        picture, axes = pyplot.subplots(rows, columns, figsize=(width, HEIGHT * rows), squeeze=False)
        for panel, on in zip(figure.panels, axes.flat, strict=False):
            (_draw_bars if panel.bars else _draw_panel)(panel, data, on)
        for on in list(axes.flat)[panels:]:
            on.set_axis_off()
        top = 1 - TITLE_AT / (HEIGHT * rows)
        picture.suptitle(f"{figure.title} ({figure.source}; {kind})", fontsize=10.5, y=top, va="top")
        picture.tight_layout()
        files = [where / f"{figure.name}.{ending}" for ending in BESIDES]
        for file in files:
            picture.savefig(file, metadata=BESIDES[file.suffix[1:]])
        pyplot.close(picture)
    return files


class _Curve(NamedTuple):
    """One of our curves as it is drawn."""

    place: int
    """Of its colour and marker."""
    label: str
    points: list[tuple[float, Band]]


def _curves(panel: Panel, data: Data) -> list[_Curve]:
    found = []
    values = sorted(data.values(panel.curve), key=_in_order) if panel.curve else [None]
    for number, value in enumerate(values):  # a curve has one colour in all panels
        if panel.only.get(panel.curve, value) != value:
            continue
        only = dict(panel.only) | ({panel.curve: value} if panel.curve else {})
        label = panel.label(value) if panel.curve else "largest of any run" if panel.most else "here"
        points = data.curve(panel.x, panel.y, **only)
        if points:
            found.append(_Curve(SHARED.get(value, number), label, points))
    return found


def _in_order(value: Any) -> tuple[bool, Any]:
    """Return what sorts the values of curves: numbers, also those written as text, before other text."""
    is_number = not isinstance(value, str) or value.isdecimal()
    return not is_number, float(value) if is_number else value


def _covers(one: Points, other: Points, near: float) -> bool:
    """Tell whether two lines lie upon each other at two values of x, or at the only one that both have."""
    there = dict(other)
    apart = [abs(y - there[x]) for x, y in one if x in there]
    return bool(apart) and sum(each <= near for each in apart) >= min(2, len(apart))


def _above(panel: Panel, curves: Sequence[Points], stated: Sequence[Points]) -> list[int]:
    """Return for each curve how many, one upon the other, are drawn over it: by so many steps it is to be thicker."""
    scaled = [
        [(x, log10(max(y, panel.linear_below)) if panel.log_y else y) for x, y in points if y > 0 or not panel.log_y]
        for points in (*curves, *stated)
    ]
    heights = [y for points in scaled for _, y in points] or [0.0]
    near = COVERED * (max(heights) - min(heights))
    steps = [0] * len(scaled)
    for at in reversed(range(len(curves))):
        over = [steps[other] for other in range(at + 1, len(scaled)) if _covers(scaled[at], scaled[other], near)]
        steps[at] = 1 + max(over) if over else 0
    return steps[: len(curves)]


def _draw_curves(panel: Panel, data: Data, lines: Sequence[Line], on: Axes) -> list[float]:
    """Draw our curves, with bands or as the largest values; return how high everything is."""
    curves, heights = _curves(panel, data), [0.0]
    shown = [[(x, band.most if panel.most else band.mean) for x, band in curve.points] for curve in curves]
    above = _above(panel, shown, [line.points for line in lines])
    for curve, points, steps in zip(curves, shown, above, strict=True):
        colour, marker = COLOURS[curve.place % len(COLOURS)], MARKERS[curve.place % len(MARKERS)]
        xs = [x for x, _ in points]
        on.plot(
            xs, [y for _, y in points], color=colour, marker=marker, label=curve.label,
            markersize=MARKER + steps * MARKER_STEP, linewidth=LINE + steps * LINE_STEP,
        )  # fmt: skip
        heights += [y for _, y in points]
        if panel.most:
            continue
        ends = [_ends(panel, band) for _, band in curve.points]
        on.fill_between(xs, [low for low, _ in ends], [high for _, high in ends], color=colour, alpha=0.18, linewidth=0)
        heights += [end for both in ends for end in both]
    return heights


def _draw_panel(panel: Panel, data: Data, on: Axes) -> None:
    lines = _stated(panel, data)
    heights = _draw_curves(panel, data, lines, on)
    for number, line in enumerate(lines):
        style = DASHES[number % len(DASHES)]
        on.plot(
            [x for x, _ in line.points], [y for _, y in line.points], style, color=STATED, linewidth=1.2,
            label=line.name, zorder=3, path_effects=[withStroke(linewidth=2.8, foreground="white")],
        )  # fmt: skip
        heights += [y for _, y in line.points]
    _scale(panel, data, heights, on)
    on.set_title(panel.title, loc="left")
    on.set_xlabel(panel.x_label)
    on.set_ylabel(panel.y_label)
    _name_curves(on)


def _scale(panel: Panel, data: Data, heights: Sequence[float], on: Axes) -> None:
    """Set the axes: where ticks are, and from where to where they go."""
    if panel.log_x:
        on.set_xscale("log")
        on.xaxis.set_major_locator(FixedLocator(_apart(data.values(panel.x, **panel.only))))
        on.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
        on.xaxis.set_minor_locator(NullLocator())
    elif len(xs := data.values(panel.x, **panel.only)) <= TICKS_MAX:
        on.xaxis.set_major_locator(FixedLocator(_spread(xs)))
    elif all(isinstance(x, int) for x in xs):
        on.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.log_y and panel.linear_below:
        on.set_yscale("symlog", linthresh=panel.linear_below, linscale=0.5)
        on.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=panel.linear_below))
        on.set_ylim(bottom=-0.2 * panel.linear_below, top=2 * max(heights))
        on.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    elif panel.log_y:
        on.set_yscale("log")
    else:
        spare = MARGIN * (max(heights) - min(heights)) or 1.0
        on.set_ylim(min(heights) - spare, max(heights) + spare)
        on.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _draw_bars(panel: Panel, data: Data, on: Axes) -> None:
    """Draw a measure of things that have names: a bar each, side by side for the values that tell curves apart."""
    values = data.values(panel.curve) if panel.curve else [None]
    thickness = 0.8 / len(values)
    least, most = float("inf"), 0.0
    for number, value in enumerate(values):
        only = dict(panel.only) | ({panel.curve: value} if panel.curve else {})
        bands = [data.curve(panel.x, panel.y, **only, **{panel.x: name}) for name in panel.bars]
        shown = [(at, found[0][1]) for at, found in enumerate(bands) if found]
        places = [at + (number - (len(values) - 1) / 2) * thickness for at, _ in shown]
        label = panel.label(value) if panel.curve else "here"
        means = [band.mean for _, band in shown]
        least = min([least, *means])
        most = max([most, *(band.most for _, band in shown)])
        beyond = [[band.mean - max(0.0, band.low) for _, band in shown], [band.high - band.mean for _, band in shown]]
        on.barh(
            places, means, thickness, color=COLOURS[number % len(COLOURS)], label=label, xerr=beyond,
            error_kw={"elinewidth": 0.7, "ecolor": STATED},
        )  # fmt: skip
    on.set_yticks(range(len(panel.bars)), [str(name) for name in panel.bars], fontsize=7.5)
    on.invert_yaxis()
    if panel.log_x:
        on.set_xscale("log")
        if 0 < least < float("inf"):  # a bar has no length of its own on such an axis: it begins at a round number
            on.set_xlim(left=10.0 ** floor(log10(least)))
        on.xaxis.set_major_formatter(ScalarFormatter())
        on.xaxis.set_minor_formatter(NullFormatter())
    elif most:
        on.set_xlim(0, most * (1 + MARGIN))
    on.grid(visible=False, axis="y")
    on.set_axisbelow(True)
    on.set_title(panel.title, loc="left")
    on.set_xlabel(panel.y_label)
    if len(values) > 1:
        _name_curves(on)


def _name_curves(on: Axes) -> None:
    """Put the legend below the panel, where it hides no curve."""
    if on.get_legend_handles_labels()[0]:
        on.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)


def _ends(panel: Panel, band: Band) -> tuple[float, float]:
    """Return the ends of a band within what the measure can be.

    A logarithmic axis has no place for a band that reaches zero: there it ends at the least that a run had.
    """
    least, most = panel.within
    low = band.low if not panel.log_y or panel.linear_below or band.low > 0 else band.least
    return max(least, low), min(most, band.high)


def _spread(values: Sequence[float]) -> list[float]:
    """Return values for ticks of a linear axis: no two of them so near that their labels would cover each other."""
    shown: list[float] = []
    near = TICKS_NEAR * (values[-1] - values[0]) if values else 0.0
    for value in values:
        if not shown or value - shown[-1] >= near:
            shown.append(value)
    return shown


def _apart(values: Sequence[float]) -> list[float]:
    """Return values for ticks: no two of them so near that their labels would cover each other."""
    shown: list[float] = []
    for value in values:
        if not shown or value >= TICKS_APART * shown[-1]:
            shown.append(value)
    return shown


def _stated(panel: Panel, data: Data) -> Sequence[Line]:
    """Return what the paper states; nothing where it depends on runs that failed."""
    try:
        return panel.stated(data)
    except (LookupError, ZeroDivisionError):
        return ()
