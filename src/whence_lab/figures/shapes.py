"""Shapes that papers state of curves: straight lines, logarithms, growth; and how well points keep to them."""

from collections.abc import Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

Points = Sequence[tuple[float, float]]


class Fit(NamedTuple):
    """The straight line of least squares."""

    slope: float
    offset: float
    r2: float
    """The part of the variance that the line explains; 1 where all points are on it."""


def straight(points: Points) -> Fit:
    """Fit a straight line."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    over = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / over if over else 0.0
    offset = mean_y - slope * mean_x
    total = sum((y - mean_y) ** 2 for _, y in points)
    left = sum((y - offset - slope * x) ** 2 for x, y in points)
    return Fit(slope, offset, 1 - left / total if total else 1.0)


def through_origin(points: Points) -> Fit:
    """Fit y = slope · x; it explains less than nothing where the mean would be nearer to the points."""
    slope = sum(x * y for x, y in points) / sum(x * x for x, _ in points)
    mean = sum(y for _, y in points) / len(points)
    total = sum((y - mean) ** 2 for _, y in points)
    left = sum((y - slope * x) ** 2 for x, y in points)
    return Fit(slope, 0.0, 1 - left / total if total else float(left == 0))


def logarithmic(points: Points) -> Fit:
    """Fit y = offset + slope · ln x."""
    return straight([(log(x), y) for x, y in points])


def rises(points: Points) -> bool:
    """Tell whether each point is above the one before it."""
    return all(after > before for (_, before), (_, after) in pairwise(points))


def falls(points: Points) -> bool:
    """Tell whether each point is below the one before it."""
    return all(after < before for (_, before), (_, after) in pairwise(points))


def listed(points: Points, digits: int = 3) -> str:
    """Return points as text, for what a check has seen."""
    return ", ".join(f"{x:g}: {y:.{digits}g}" for x, y in points)
