"""A journal is rewritten where that makes it shorter, and looking whether it would costs little."""

from itertools import pairwise

from whence.net.compaction import AGAIN_S_MAX, COMPACT_BYTES, Compaction


def test_a_journal_of_which_most_counts_is_looked_at_when_it_has_doubled() -> None:
    compaction, looks, size = Compaction(), 0, 0
    while size < 64 * COMPACT_BYTES:  # all within one second, and everything counts
        size += COMPACT_BYTES // 64
        if compaction.due(size, 0.5):
            looks += 1
            assert not compaction.worth(size, size, 0.5)
    assert looks == 7, "once for every doubling"


def test_one_that_was_rewritten_grows_to_four_times_what_counted() -> None:
    compaction = Compaction()
    assert compaction.due(4 * COMPACT_BYTES, 0.0)
    assert compaction.worth(4 * COMPACT_BYTES, COMPACT_BYTES, 0.0)
    assert not compaction.due(4 * COMPACT_BYTES - 1, 0.5)
    assert compaction.due(4 * COMPACT_BYTES, 0.5)
    assert not compaction.due(COMPACT_BYTES - 1, 9.0), "a short one is left alone"


def test_without_load_it_is_looked_at_again_and_ever_more_seldom() -> None:
    compaction, now, looks = Compaction(), 0.0, []
    while now < 1000:
        if compaction.due(COMPACT_BYTES, now):
            looks.append(now)
            compaction.worth(COMPACT_BYTES, COMPACT_BYTES, now)
        now += 0.5
    pauses = [after - before for before, after in pairwise(looks)]
    assert pauses[:4] == [2, 4, 8, 16]
    assert max(pauses) == AGAIN_S_MAX
