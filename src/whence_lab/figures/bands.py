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
