"""Bands against a threshold: a sentence holds, fails, or is not decided, because a band contains the threshold.

A check that compares means, or ratios of means, with a number does it here, so that other seeds do not turn its
verdict.
"""

from collections.abc import Iterable, Sequence

from whence_lab.figures.data import Band
from whence_lab.figures.figure import Finding

Ends = tuple[float, float]
"""The ends of a band."""


def ends(band: Band) -> Ends:
    """Return the ends of a measure's band."""
    return band.low, band.high


def ratio(above: Band, below: Band) -> Ends:
    """Return the ends of the ratio of two positive measures: what it is at most and at least within both bands."""
    return above.low / below.high, above.high / below.low if below.low > 0 else float("inf")


def straight_change(curve: Sequence[tuple[float, Band]]) -> Ends:
    """Return the ends of how much the straight line of least squares changes over a curve, as a part of its mean.

    The line's change is a sum of the means with weights, and so is the root of the sum of the squares of their bands
    with the same weights its own band: seeds of one configuration say nothing of another's.
    """
    xs, n = [x for x, _ in curve], len(curve)
    middle = sum(xs) / n
    over = sum((x - middle) ** 2 for x in xs)
    mean = sum(band.mean for _, band in curve) / n
    weights = [(x - middle) * (max(xs) - min(xs)) / over / mean for x in xs]
    change = sum(weight * band.mean for weight, (_, band) in zip(weights, curve, strict=True))
    half = sum((weight * (band.high - band.low) / 2) ** 2 for weight, (_, band) in zip(weights, curve, strict=True))
    return change - half**0.5, change + half**0.5


def at_most(bands: Iterable[Ends], limit: float) -> bool | None:
    """Return whether all bands are at or below a limit; None if one contains it, and none is above."""
    seen = list(bands)
    if any(low > limit for low, _ in seen):
        return False
    return True if all(high <= limit for _, high in seen) else None


def at_least(bands: Iterable[Ends], limit: float) -> bool | None:
    """Return whether all bands are at or above a limit, as `at_most`."""
    return at_most([(-high, -low) for low, high in bands], -limit)


def both(told: Sequence[bool | None]) -> bool | None:
    """Return whether all hold; False if one does not, and None if one is not decided and none fails."""
    return False if False in told else None if None in told else True


def weighed(told: bool | None, seen: str) -> Finding:
    """Return the finding of a check that bands decide."""
    return Finding(bool(told), seen, decided=told is not None)
