"""When a journal is worth rewriting: looking costs as much as writing down what still counts.

Law: a journal is at most some four times as long as what counts of it, or COMPACT_BYTES, once load lets it be looked
at; all looks together cost no more than the writing that made them due.
"""

COMPACT_BYTES = 16 << 20
"""A shorter journal is not looked at."""

AGAIN_S, AGAIN_S_MAX = 1.0, 64.0
"""One of which more than half counted is looked at again when it has doubled, or after so long; longer each time."""


class Compaction:
    """Remembers how the last look at one journal went."""

    def __init__(self) -> None:
        self.pause_s = AGAIN_S
        self._size = COMPACT_BYTES
        self._at = 0.0

    def due(self, size: int, now: float) -> bool:
        """Tell whether to find out how much of a journal of this size still counts."""
        return size >= COMPACT_BYTES and (size >= self._size or now >= self._at)

    def worth(self, size: int, counts: int, now: float) -> bool:
        """Learn how much counts; tell whether to write that to a new journal."""
        worth_it = counts <= size // 2
        self.pause_s = AGAIN_S if worth_it else min(2 * self.pause_s, AGAIN_S_MAX)
        self._at = now + self.pause_s
        self._size = 4 * counts if worth_it else 2 * size
        return worth_it
