"""Numbers by ordered pair of nodes: a sparse matrix whose keys are small integers.

Law: a missing pair has the number 0. A key holds the source in its upper bits and the target in its lower NODE_BITS.
One flat dict of ints costs a hop one look-up per number, where nested ones cost two.
Source: LoCaMu, section 2: the past and the dependencies are such matrices.
"""

from typing import TypeAlias

NODE_BITS = 16
NODE_MASK = (1 << NODE_BITS) - 1

PairNumbers: TypeAlias = dict[int, int]
"""A number for each pair of nodes, by its key."""


def pair(source: int, target: int) -> int:
    """Return the key of an ordered pair of nodes."""
    return source << NODE_BITS | target
