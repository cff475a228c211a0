"""The paper's ⟨r, c⟩ (figure 3): an experiment, never a merge order.

Its `less` extends happened-before where a process has one event per tick; but it has cycles, and its reset lets r + c
fall along a chain of causes, so that a merger which waits for r + c would deliver an effect before its cause.
Source: docs/papers/merge.md: merge 9.
"""

from typing import NamedTuple


class RcStamp(NamedTuple):
    """⟨r, c⟩."""

    r: int
    c: int

    @property
    def l(self) -> int:  # noqa: E743 - the papers' name
        """Return r + c."""
        return self.r + self.c


def less(one: RcStamp, other: RcStamp, epsilon: int) -> bool:
    """Tell whether one comes before the other, by the paper's relation. Not transitive."""
    if one.r + epsilon < other.r:
        return True
    return abs(one.r - other.r) <= epsilon and (one.l, one.r) < (other.l, other.r)


class Rc:
    """One process's ⟨r, c⟩."""

    def __init__(self, epsilon: int) -> None:
        self._epsilon = epsilon
        self._r = self._c = 0

    def start(self, rt: int) -> RcStamp:
        """Begin an incarnation, with one event."""
        self._r, self._c = rt, 0
        return RcStamp(rt, 0)

    def local(self, rt: int) -> RcStamp:
        """Create an event; forget c where nothing happened for 2ε."""
        fresh = self._r + 2 * self._epsilon < rt
        return self._set(rt, 0 if fresh else max(0, self._r + self._c - rt))

    def receive(self, rt: int, stamps: list[RcStamp]) -> RcStamp:
        """Create the event that consumes these messages."""
        past = rt - 2 * self._epsilon
        if self._r < past and all(stamp.r < past for stamp in stamps):
            return self._set(rt, 0)
        return self._set(rt, max(0, self._r + self._c - rt, *(stamp.l - rt + 1 for stamp in stamps)))

    def _set(self, rt: int, c: int) -> RcStamp:
        self._r, self._c = rt, c
        return RcStamp(rt, c)
