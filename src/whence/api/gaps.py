"""Gaps and resets that will be reported with the next delivery: bounded, and it is reported when some were left out."""

from collections.abc import Iterable

from whence.types import Span

GAPS_MAX = 4096
"""Spans of a gap that wait for the next delivery. Full: the oldest are dropped, and a reset called GAPS_LOST reports
it."""

GAPS_LOST = "gaps"

RESETS_MAX = 16
"""Kinds of resets that wait for the next delivery: members know fewer."""


def bounded(spans: Iterable[Span], resets: dict[str, None]) -> tuple[list[Span], dict[str, None]]:
    """Return the spans with adjacent ones joined, only the newest if there are too many, and the resets to report."""
    gaps: dict[tuple[int, int, int], Span] = {}
    """By process and the number after the last."""
    for span in spans:
        before = gaps.pop((span.pid, span.incarnation, span.first), None)
        joined = span if before is None else span._replace(first=before.first)
        gaps[joined.pid, joined.incarnation, joined.last + 1] = joined
    if len(gaps) > GAPS_MAX:
        resets = {**resets, GAPS_LOST: None}
    return list(gaps.values())[-GAPS_MAX:], resets
