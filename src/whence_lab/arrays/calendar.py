"""What is to happen, by slice of time: the array engine's counterpart of the loop's heap.

A slice is as long as the shortest latency. So nothing that is sent in a slice arrives in it, and all that happens in
one can be done at once, for each member in the order of its own times. That is no approximation: only the order of work
differs.
"""

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Shorts: TypeAlias = NDArray[np.int16]
Column: TypeAlias = NDArray[Any]

_SHORT_MAX = 1 << 16
"""Below it numpy sorts by radix, in linear time."""


class Calendar:
    """Rows with a time, kept by slice."""

    def __init__(self, slice_ns: int) -> None:
        self._slice_ns = slice_ns
        self._planned: dict[int, list[tuple[Column, ...]]] = {}

    def add(self, times: Ints, *columns: Column) -> None:
        """Plan rows; each column has one value, or one row of values, for each time."""
        if not times.size:
            return
        slices = times // self._slice_ns
        first = int(slices.min())
        ahead = slices - first
        short = ahead.astype(np.uint16) if int(ahead.max()) < _SHORT_MAX else ahead
        order = np.argsort(short, kind="stable")
        short = short[order]
        rows = tuple(column[order] for column in (times, *columns))
        starts = [0, *(np.flatnonzero(short[1:] != short[:-1]) + 1).tolist(), len(order)]
        for begin, end in pairwise(starts):
            at = first + int(short[begin])
            self._planned.setdefault(at, []).append(tuple(row[begin:end] for row in rows))

    def take(self, at: int) -> tuple[Column, ...]:
        """Return the rows of a slice as columns, times first, in no order; an empty tuple if there are none."""
        chunks = self._planned.pop(at, None)
        if chunks is None:
            return ()
        if len(chunks) == 1:
            return chunks[0]
        return tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))
