"""Pictures of figures: what covers what, in which order, and what is drawn where a bound is stated."""

import json
from typing import Any

import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

from whence_lab.figures.catalogue import FIGURES
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Line, Panel
from whence_lab.figures.plots import LINE, _draw_panel, _spread

FIELDS = ("mean", "low", "high", "least", "most", "runs")


def data(curves: dict[str, list[float]], half: float = 1.0) -> Data:
    """Return curves over 1, 2, 3… by their names."""
    return Data(
        {"config": json.dumps({"name": name, "x": x}), "measure": "y"}
        | dict(zip(FIELDS, (y, y - half, y + half, y / 2, y + half / 2, 3), strict=True))
        for name, ys in curves.items()
        for x, y in enumerate(ys, 1)
    )


def drawn(panel: Panel, curves: dict[str, list[float]], half: float = 1.0) -> Axes:
    """Return the axes of a panel."""
    _, on = pyplot.subplots()
    _draw_panel(panel, data(curves, half), on)
    pyplot.close("all")
    return on


PANEL = Panel("p", "x", "y", "x", "y", "name")


def widths(on: Axes) -> dict[str, float]:
    return {str(line.get_label()): float(line.get_linewidth()) for line in on.get_lines()}


def test_a_curve_is_thicker_than_those_that_cover_it_and_no_other() -> None:
    seen = widths(drawn(PANEL, {"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3], "d": [9, 50, 90]}))
    assert seen["a"] > seen["b"] > seen["c"] == seen["d"] == LINE


def test_curves_that_only_cross_are_all_thin() -> None:
    assert set(widths(drawn(PANEL, {"a": [1, 20, 30], "b": [30, 20, 1]})).values()) == {LINE}


def test_a_curve_upon_what_the_paper_states_is_thicker_than_that() -> None:
    on = drawn(PANEL._replace(stated=lambda _: [Line("bound", [(1, 5.0), (2, 9.0)])]), {"a": [5, 9]})
    bound = next(line for line in on.get_lines() if line.get_label() == "bound")
    assert widths(on)["a"] > bound.get_linewidth()
    assert bound.get_zorder() > on.get_lines()[0].get_zorder()


def test_numbers_come_in_their_order_and_before_words() -> None:
    assert list(widths(drawn(PANEL, {"all": [1, 3], "25": [4, 6], "5": [7, 9]}))) == ["5", "25", "all"]


def test_where_no_run_may_exceed_a_bound_the_largest_of_any_run_is_drawn_and_no_band() -> None:
    on = drawn(PANEL._replace(most=True), {"a": [4, 6]})
    drawn_ys: Any = on.get_lines()[0].get_ydata()
    assert list(drawn_ys) == [4.5, 6.5]
    assert not on.collections


@pytest.mark.parametrize("half", [1.0, 40.0])
def test_a_band_that_reaches_zero_ends_at_the_least_run_on_a_logarithmic_axis(half: float) -> None:
    on = drawn(PANEL._replace(log_y=True), {"a": [4, 6]}, half)
    (band,) = on.collections
    lowest = min(float(path.get_extents().y0) for path in band.get_paths())
    assert lowest == (3.0 if half == 1.0 else 2.0)


def test_zeros_are_in_the_picture_of_an_axis_that_is_linear_below_a_value() -> None:
    on = drawn(PANEL._replace(log_y=True, linear_below=0.1), {"a": [50, 0.2, 0]}, 0.0)
    assert on.get_yscale() == "symlog"
    assert on.get_ylim()[0] < 0


def test_labels_of_near_values_do_not_run_together() -> None:
    assert _spread([100, 200, 400, 800, 1600]) == [100, 400, 800, 1600]


@pytest.mark.parametrize("name", FIGURES)
def test_panels_have_letters_of_their_own(name: str) -> None:
    titles: list[Any] = [panel.title for panel in FIGURES[name].panels]
    if len(titles) > 1:
        assert [title[:3] for title in titles] == [f"{letter}) " for letter in "abcdefghij"[: len(titles)]]
