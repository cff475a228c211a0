"""A process's own clocks: a steady clock, which only drifts, and a wall clock, which may also jump."""

_BILLION = 1_000_000_000


class Clock:
    """How a process sees true time."""

    __slots__ = ("drift_ppb", "jumped_ns", "offset_ns")

    def __init__(self, offset_ns: int = 0, drift_ppb: int = 0) -> None:
        self.offset_ns = offset_ns
        self.drift_ppb = drift_ppb
        self.jumped_ns = 0

    def steady(self, true: int) -> int:
        """Return the clock for leases and rounds: it runs on through pauses and never jumps."""
        if self.drift_ppb:
            return true + self.offset_ns + true * self.drift_ppb // _BILLION
        return true + self.offset_ns

    def wall(self, true: int) -> int:
        """Return the clock for stamps and traces: like the steady one, but it jumps when it is set."""
        drifted = true * self.drift_ppb // _BILLION if self.drift_ppb else 0
        return true + self.offset_ns + drifted + self.jumped_ns

    def true_when(self, steady: int) -> int:
        """Return the first true time at which the steady clock shows at least this."""
        since = steady - self.offset_ns
        if not self.drift_ppb:
            return since
        true = since * _BILLION // (_BILLION + self.drift_ppb)
        while self.steady(true) < steady:
            true += 1
        return true
