"""The progress of every publisher: the rule `frontier` releases early what all live publishers have passed.

Law: a publisher's keys grow with its numbers. Once a key of each live publisher is known, and nothing before it is in
transit, no key at or below the least of them can arrive any more.
Assumed: links that lose nothing, or a wait of δ + ε after a missing number; publishers that report their progress on
every beat. Clocks need not agree.
Source: docs/papers/merge.md: merge 5.
"""

from whence.core.clocks.stamp import FIRST_KEY, MergeKey
from whence.types import Process


class _Progress:
    """The progress that one publisher reports."""

    __slots__ = ("at", "certain", "claimed", "doubted_until", "expected")

    def __init__(self) -> None:
        self.expected = 1
        """The number it continues with."""
        self.claimed = self.certain = FIRST_KEY
        """The last key it reported, and the last key that certainly nothing in transit is below."""
        self.doubted_until = 0
        """Something before the reported key is missing; it may still arrive until this tick."""
        self.at = 0

    def key_at(self, rt: int) -> MergeKey:
        """Return a key such that everything still to come from this publisher is above it."""
        return self.claimed if rt >= self.doubted_until else self.certain


class Frontier:
    """The progress of every publisher heard from."""

    def __init__(self, wait_ticks: int) -> None:
        self._wait_ticks = wait_ticks
        self._progress: dict[Process, _Progress] = {}
        self._complete_from: int | None = None
        """By this tick, every live publisher has been heard from."""

    def heard(self, rt: int, publisher: Process, key: MergeKey, first: int, following: int) -> None:
        """Learn that everything a publisher will send from number `following` on has a larger key.

        `first` is the number of the first event that the key covers. The key counts only if nothing before is missing.
        """
        progress = self._progress.get(publisher)
        if progress is None:
            progress = self._progress[publisher] = _Progress()
            if self._complete_from is None:
                self._complete_from = rt + self._wait_ticks
        if first > progress.expected:
            progress.certain = progress.key_at(rt)
            progress.doubted_until = rt + self._wait_ticks
        progress.expected = max(progress.expected, following)
        progress.claimed = max(progress.claimed, key)
        progress.at = rt

    def reached(self, rt: int) -> MergeKey:
        """Return a key such that everything still to come from any live publisher is above it."""
        if self._complete_from is None or rt < self._complete_from:
            return FIRST_KEY
        silent = rt - self._wait_ticks
        return min((each.key_at(rt) for each in self._progress.values() if each.at >= silent), default=FIRST_KEY)

    def forget_silent(self, before: int, rt: int) -> None:
        """Forget publishers last heard from before a tick, or in the future."""
        self._progress = {who: each for who, each in self._progress.items() if before <= each.at <= rt}
