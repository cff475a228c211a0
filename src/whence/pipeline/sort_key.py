"""Packs a sort key of several longs into one: only the bits that differ between rows count, and these mostly fit.

Spark sorts by a single long several times faster than by several columns. A bit that is the same in every row decides
nothing, so leaving it out keeps the order. Where more bits differ than fit, the packed key has the leading ones and the
longs themselves break ties.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from whence.pipeline.frames import Column, F

KEY_BITS: Final = 63
"""Bits of a non-negative long."""
RUNS_MAX: Final = 12
"""Runs of bits taken from one word; a word whose bits are more scattered is taken with those between them."""


class Run(NamedTuple):
    """Adjacent bits of one of the words."""

    word: int
    lowest: int
    length: int


class KeyPacking(NamedTuple):
    """The bits that make the packed key, from the highest; `is_exact` where it alone decides the order."""

    runs: list[Run]
    is_exact: bool

    def column(self, words: Sequence[str], first: Column) -> Column:
        """Return the packed key: a small number first, then the bits of the words."""
        one = first.cast("bigint")
        for word, lowest, length in self.runs:
            bits = F.shiftrightunsigned(F.col(words[word]), lowest).bitwiseAND(F.lit((1 << length) - 1).cast("bigint"))
            one = F.shiftleft(one, length).bitwiseOR(bits)
        return one


def key_packing(varying: Sequence[int], firsts: int) -> KeyPacking:
    """Return how to pack: `varying` has a mask for every word, and the number that comes first is below `firsts`."""
    if any(mask >> KEY_BITS for mask in varying):
        return KeyPacking([], is_exact=False)  # words of either sign do not compare by their bits
    room = KEY_BITS - max(0, firsts - 1).bit_length()
    runs: list[Run] = []
    for word, mask in enumerate(varying):
        for run in _runs(word, mask):
            if run.length >= room:
                fits = Run(word, run.lowest + run.length - room, room)
                return KeyPacking([*runs, fits], is_exact=run.length == room and not _has_lower_bits(varying, run))
            runs.append(run)
            room -= run.length
    return KeyPacking(runs, is_exact=True)


def _has_lower_bits(varying: Sequence[int], last: Run) -> bool:
    """Return whether any bit differs below a run."""
    return bool(varying[last.word] & ((1 << last.lowest) - 1)) or any(varying[last.word + 1 :])


def _runs(word: int, mask: int) -> list[Run]:
    runs = []
    top = mask.bit_length()
    while top:
        low = top
        while low and mask >> (low - 1) & 1:
            low -= 1
        runs.append(Run(word, low, top - low))
        top = (mask & ((1 << low) - 1)).bit_length()
    if len(runs) > RUNS_MAX:
        return [Run(word, runs[-1].lowest, mask.bit_length() - runs[-1].lowest)]
    return runs
