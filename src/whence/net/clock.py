"""The two clocks of a live process, and the incarnations that are derived from the time.

The steady one counts suspended time too (CLOCK_BOOTTIME), because a lease that slept through its end must not wake up
valid; where a system has no such clock, the monotonic one must do. The other is the wall clock, which may jump.
"""

import time
from collections.abc import Callable
from functools import partial

from whence.errors import StorageError
from whence.limits import EPOCH_MAX, INCARNATION_MAX

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


steady_ns: Callable[[], int] = partial(time.clock_gettime_ns, _STEADY)
"""Returns nanoseconds on the clock that never jumps. Not a Python function, for speed: every message asks for the
time."""

wall_ns: Callable[[], int] = time.time_ns
"""Returns nanoseconds on the wall clock."""


class SlipWatch:
    """Notices when the steady clock and the wall clock suddenly diverge: one stood still or jumped."""

    def __init__(self, most_ns: int) -> None:
        self._most_ns = most_ns
        self._apart_ns = wall_ns() - steady_ns()

    def slipped(self) -> bool:
        """Tell whether they have diverged by more than is allowed since the last call."""
        apart_ns = wall_ns() - steady_ns()
        slip_ns, self._apart_ns = abs(apart_ns - self._apart_ns), apart_ns
        return slip_ns > self._most_ns


EPOCHS_FROM_NS = 1_767_225_600_000_000_000
"""The beginning of 2026: quarters of a second since then fit the 31 bits of an epoch until 2043."""


def epoch_floor() -> int:
    """Return an epoch above those of groups begun earlier without a data directory: the time in quarters of a second.

    That holds while the wall clock is right and a group gave fewer than four epochs a second.
    """
    return min(max(0, (wall_ns() - EPOCHS_FROM_NS) // 250_000_000), EPOCH_MAX // 2)


_FIRST_S = 1_704_067_200
"""Incarnations count from the beginning of 2024."""

_PER_S = 2
"""Incarnations in a second: INCARNATION_MAX lasts until January 2058. A process that restarts faster runs ahead of the
time."""

_drawn: dict[int, int] = {}
"""The last incarnation given to each pid in this process."""


def incarnation_now(pid: int) -> int:
    """Return an incarnation that grows with time and is greater than any given to this pid in this process before.

    Two processes may get the same one within half a second: their peers can tell them apart, and refuse the second.
    Raises StorageError when incarnations have run out.
    """
    elapsed = (time.time_ns() - _FIRST_S * 1_000_000_000) * _PER_S // 1_000_000_000
    incarnation = max(1, elapsed, _drawn.get(pid, 0) + 1)
    if incarnation > INCARNATION_MAX:
        raise StorageError(
            f"incarnations end at {INCARNATION_MAX}, in January 2058, and the clock is beyond: set it right"
        )
    _drawn[pid] = incarnation
    return incarnation
