"""Several words of a sort key as one: only the bits that differ between rows count, and these mostly fit into one long.

Spark sorts by a single long several times faster than by several columns. A bit that is the same in every row decides
nothing, so leaving it out keeps the order. Where more bits differ than fit, the leading ones go first and the words
themselves break ties.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

ROOM: Final = 63
"""Bits of a long that is never negative."""
RUNS_MAX: Final = 12
"""Runs of bits taken from one word; a word whose bits are more scattered is taken with those between them."""


class Run(NamedTuple):
    """Adjacent bits of one of the words."""

    word: int
    lowest: int
    length: int


class Squeeze(NamedTuple):
    """Which bits make the long, from the highest; `is_exact` where it decides every order by itself."""

    runs: list[Run]
    is_exact: bool

    def column(self, words: Sequence[str], first: Column) -> Column:
        """Return the long: a small number first, then the bits of the words."""
        one = first.cast("bigint")
        for word, lowest, length in self.runs:
            bits = F.shiftrightunsigned(F.col(words[word]), lowest).bitwiseAND(F.lit((1 << length) - 1).cast("bigint"))
            one = F.shiftleft(one, length).bitwiseOR(bits)
        return one


def squeezing(varying: Sequence[int], firsts: int) -> Squeeze:
    """Choose the bits: `varying` has a mask for every word, and the number that comes first is below `firsts`."""
    if any(mask >> ROOM for mask in varying):
        return Squeeze([], is_exact=False)  # words of either sign do not compare by their bits
    room = ROOM - max(0, firsts - 1).bit_length()
    runs: list[Run] = []
    for word, mask in enumerate(varying):
        for run in _runs(word, mask):
            if run.length >= room:
                fits = Run(word, run.lowest + run.length - room, room)
                return Squeeze([*runs, fits], is_exact=run.length == room and not _more(varying, run))
            runs.append(run)
            room -= run.length
    return Squeeze(runs, is_exact=True)


def _more(varying: Sequence[int], last: Run) -> bool:
    """Tell whether any bit differs below a run."""
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
