"""Random draws for many members at once, by the same rules as members draw for themselves."""

import numpy as np
from numpy.random import Generator

from whence_lab.arrays.calendar import Ints


def drawn_apart(rng: Generator, rows: int, count: int, size: int, taken: Ints | None = None) -> Ints:
    """Draw for each row `count` different numbers below `size`, none of them the row's taken ones.

    One after another, and again what was drawn before: as `FullView.targets` and founders do.
    """
    before = 0 if taken is None else taken.shape[1]
    drawn = np.empty((rows, before + count), np.int64)
    if taken is not None:
        drawn[:, :before] = taken
    for at in range(before, before + count):
        again = np.arange(rows)
        while again.size:
            values = rng.integers(0, size, again.size)
            drawn[again, at] = values
            again = again[(drawn[again, :at] == values[:, None]).any(axis=1)]
    return drawn[:, before:]
