"""Ticks from the wall clock: they never go back, whatever the wall clock does.

If the wall clock is set back, the ticks stand still until it has caught up. While they lead it by more than ε−1, peers
would refuse what is stamped with them, so nothing may be published. An absurd lead (`stall_max` more) is not a clock
that was set back but a corrupt memory of it, and is given up at once.
A wall clock that is set forward cannot be told from time that passed; peers refuse what comes from the future.
"""

from typing import Final

from whence.core.clocks.stamp import Timing

NEVER: Final = 1 << 63
"""Later than every instant of a wall clock."""


class Ticks:
    """A process's clock in ticks."""

    __slots__ = ("_lead_max", "_repair_over", "_tick_ns", "lead", "repairs", "rt")

    def __init__(self, tick_ns: int, timing: Timing) -> None:
        self._tick_ns = tick_ns
        self._lead_max = timing.lead_max
        self._repair_over = timing.lead_max + timing.stall_max
        self.rt = 0
        self.lead = 0
        """How far the ticks are ahead of the wall clock."""
        self.repairs = 0

    def read(self, now: int) -> int:
        """Return the tick of an instant on the wall clock, or the last one returned if that is later."""
        wall = max(0, now // self._tick_ns)
        lead = self.rt - wall
        if lead <= 0:
            self.rt, self.lead = wall, 0
        elif lead > self._repair_over:
            self.rt, self.lead = wall, 0
            self.repairs += 1
        else:
            self.lead = lead
        return self.rt

    @property
    def stands_still(self) -> bool:
        """Tell whether the clock was set back so far that peers would refuse its ticks."""
        return self.lead > self._lead_max

    def instant_of(self, tick: int) -> int:
        """Return when, on the wall clock, a tick begins."""
        return tick * self._tick_ns
