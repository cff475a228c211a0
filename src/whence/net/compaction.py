"""When a journal is worth rewriting: finding out costs as much as writing the records that still count.

Law: a journal is at most some four times as long as what still counts in it, or COMPACT_BYTES, once load leaves time to
examine it; all examinations together cost no more than the writes that made them due.
"""

COMPACT_BYTES = 16 << 20
"""A shorter journal is not examined."""

AGAIN_S, AGAIN_S_MAX = 1.0, 64.0
"""A journal of which more than half still counted is examined again when it has doubled, or after this time, which
doubles."""


class Compaction:
    """Remembers the result of the last examination of one journal."""

    def __init__(self) -> None:
        self.pause_s = AGAIN_S
        self._size = COMPACT_BYTES
        self._at = 0.0

    def due(self, size: int, now: float) -> bool:
        """Tell whether to examine how much of a journal of this size still counts."""
        return size >= COMPACT_BYTES and (size >= self._size or now >= self._at)

    def worth(self, size: int, counts: int, now: float) -> bool:
        """Note how much still counts; tell whether to write that to a new journal."""
        worth_it = counts <= size // 2
        self.pause_s = AGAIN_S if worth_it else min(2 * self.pause_s, AGAIN_S_MAX)
        self._at = now + self.pause_s
        self._size = 4 * counts if worth_it else 2 * size
        return worth_it
