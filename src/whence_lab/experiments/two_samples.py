"""Whether two samples can be of one distribution: the test of Kolmogorov and Smirnov, and a test of the means.

The first sees any difference, the second small shifts. With many measures each test counts in proportion, so that all
together reject equal distributions no more often than `alpha` says (Bonferroni). Counts have ties, which makes the
first test more careful than it need be, never less.
"""

from collections.abc import Mapping
from math import erfc, exp, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whence.errors import UsageError

Samples = Mapping[str, NDArray[Any]]
"""One sample for each measure."""

SIZE_MIN = 50
"""Both tests are those of large samples; with few they would see differences where there are none."""
_TERMS = 100


class Difference(NamedTuple):
    """A measure of which two samples can hardly be of one distribution."""

    measure: str
    test: str
    p: float
    """How likely a difference as large is, if they are."""
    means: tuple[float, float]


def differences(first: Samples, second: Samples, alpha: float) -> list[Difference]:
    """Return in what two sets of samples differ; with probability 1 - alpha nothing, if all are of one distribution.

    Raises UsageError if a sample is too small to tell.
    """
    tests = (("distribution", kolmogorov_smirnov), ("mean", means_alike))
    limit = alpha / (len(tests) * len(first))
    found = []
    for measure in first:
        one, other = (np.asarray(samples[measure], float) for samples in (first, second))
        if min(one.size, other.size) < SIZE_MIN:
            raise UsageError(
                f"{measure}: samples must have at least {SIZE_MIN} values, not {min(one.size, other.size)}"
            )
        for name, test in tests:
            p = test(one, other)
            if p < limit:
                found.append(Difference(measure, name, p, (float(one.mean()), float(other.mean()))))
    return found


def kolmogorov_smirnov(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return how likely two samples of one distribution are at least as far apart as these, for large samples."""
    one, other = np.sort(one), np.sort(other)
    values = np.concatenate([one, other])
    below_one = np.searchsorted(one, values, side="right") / one.size
    below_other = np.searchsorted(other, values, side="right") / other.size
    distance = float(np.abs(below_one - below_other).max())
    size = sqrt(one.size * other.size / (one.size + other.size))
    scaled = (size + 0.12 + 0.11 / size) * distance
    if scaled < 0.2:  # the series converges slowly there, and its sum is 1 to many digits
        return 1.0
    terms = [(-1) ** (k - 1) * exp(-2.0 * k * k * scaled * scaled) for k in range(1, _TERMS)]
    return min(1.0, max(0.0, float(2.0 * sum(terms))))


def means_alike(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return how likely the means of two samples with equal expectations are at least as far apart, for large ones."""
    apart = abs(float(one.mean()) - float(other.mean()))
    error = sqrt(float(one.var(ddof=1)) / one.size + float(other.var(ddof=1)) / other.size)
    if error == 0.0:
        return 1.0 if apart == 0.0 else 0.0
    return erfc(apart / error / sqrt(2.0))
