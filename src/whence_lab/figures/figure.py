"""What a figure is: settings as data, a measuring function, panels to draw, and the paper's sentences as checks.

A figure is one module with one `Figure`, listed in figures/catalogue.py. Everything else (running it as a sweep, bands,
pictures, verdicts, files) is the same for all: figures/reproduce.py.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from whence_lab.figures.data import Data

Config = dict[str, Any]
"""One configuration: values that JSON can hold. With its seed it decides a run."""

Measure = Callable[[Config, int], Mapping[str, float]]
"""From a configuration and a seed to numbers by name. A function of a module: workers of Spark import it."""


PERCENT = (0.0, 100.0)
PART = (0.0, 1.0)
"""What parts of something can be, for bands."""


class Plan(NamedTuple):
    """What is run: every configuration, each with so many seeds."""

    configs: Sequence[Config]
    seeds: int


class Line(NamedTuple):
    """What the paper states, drawn dashed: a bound, a level, a law's shape."""

    name: str
    points: Sequence[tuple[float, float]]


class Panel(NamedTuple):
    """One picture of a figure: a measure against a value of the configuration, one curve for each value of another."""

    title: str
    x: str
    """The name of the value along the x axis."""
    y: str
    """The name of the measure."""
    x_label: str
    y_label: str
    curve: str = ""
    """The name of the value that tells curves apart; none: one curve."""
    label: Callable[[Any], str] = str
    """What a curve is called in the legend, from its value."""
    only: Mapping[str, Any] = {}
    """Show only configurations with these values."""
    log_x: bool = False
    log_y: bool = False
    linear_below: float = 0.0
    """A logarithmic y axis is linear below this value, so that zeros are in the picture."""
    most: bool = False
    """Draw the largest value of any run, where a bound is stated that no run may exceed, instead of means and bands."""
    within: tuple[float, float] = (0.0, float("inf"))
    """What the measure can be: bands are drawn within it."""
    bars: Sequence[Any] = ()
    """Draw bars from the left instead, one for each of these values of x, from the top on."""
    stated: Callable[[Data], Sequence[Line]] = lambda _: ()


class Finding(NamedTuple):
    """What a check found."""

    holds: bool | None
    """None: nothing happened that the sentence speaks of."""
    seen: str
    """The numbers that decided, in a sentence."""
    decided: bool = True
    """Whether the bands decide: where one contains the threshold, other seeds may say the opposite."""


class Check(NamedTuple):
    """A sentence of the paper about the figure, and what must be seen here for it to hold."""

    says: str
    """The sentence, in our words."""
    where: str
    """The section it is from."""
    threshold: str
    """What decides, taken from the sentence or the figure's axis, and written before the run."""
    judge: Callable[[Data], Finding]
    known: str = ""
    """Why the sentence cannot hold, where we know that it is wrong: then it must not hold here either."""
    size: Mapping[str, int] = {}
    """The size of the system that the sentence is about, as values of the configuration: where all runs are smaller, it
    is not judged."""


class Figure(NamedTuple):
    """One figure, table or bound of a paper."""

    name: str
    """The name on the command line."""
    title: str
    source: str
    """Paper and place, such as "J, figure 4"."""
    settings: str
    """The paper's settings in a sentence or two, and what the paper leaves open and we chose."""
    measure: Measure
    quick: Plan
    full: Plan
    panels: Sequence[Panel]
    checks: Sequence[Check]
    same_draw: Collection[str] = ()
    """Names of values that have no part in the draw of seeds: configurations that differ in these alone have the same
    seeds, so that what they are compared by is the same workload."""


def grid(**values: Sequence[Any]) -> list[Config]:
    """Return every combination of the values."""
    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]
