"""Who is fit to merge, by what mergers measure of the members that follow them.

Law: the better of two members is the one that has heard its stream without interruption for longer: it stays, and it
hears well. One whose own beat breaks the assumptions of the merge (a clock ε ahead or more, a beat that takes longer
than δ) counts as heard for no time: as a merger it would make others' events late. Equals are told apart by number, so
that members that know the same choose the same.
Cost: two numbers in every beat of a follower; a merger tells the other mergers of its best few with each beat.
Source: docs/papers/merge.md: merge 11.
"""

from collections.abc import Iterable
from typing import NamedTuple

from whence.types import Instant

CANDIDATES_MAX = 16
"""Members that a merger reports to the others: mergers, relays and deputies are chosen from the best of these."""


class Candidate(NamedTuple):
    """A member that follows, and for how long it has heard its stream without interruption."""

    pid: int
    steady_ns: int


class Fitness:
    """Judges the beats of followers by the timing that the merge assumes."""

    def __init__(self, tick_ns: int, delta: int, epsilon: int) -> None:
        self._early_ns = epsilon * tick_ns
        self._late_ns = (delta + epsilon) * tick_ns

    def steady_ns(self, sent_at: Instant, claimed_ns: int, now: Instant) -> int:
        """Return how long a follower counts as steady, by a beat of its own: not at all if the beat is untimely."""
        return claimed_ns if -self._early_ns < now - sent_at < self._late_ns else 0


def by_merit(reports: Iterable[Iterable[Candidate]]) -> dict[int, int]:
    """Return the members in several reports, each once, the best first, with the time that each was heard steadily."""
    steady: dict[int, int] = {}
    for report in reports:
        for pid, steady_ns in report:
            steady[pid] = max(steady.get(pid, 0), steady_ns)
    return dict(sorted(steady.items(), key=lambda member: (-member[1], member[0])))
