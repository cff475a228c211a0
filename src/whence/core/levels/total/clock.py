"""The clock of a member: ticks that never go back, stamps made from them, and the guards that repair both.

Law: before every input, the clock is read, and impossible state is repaired and noted. After a repair, nothing is
published for ε ticks, until every earlier stamp is in the past. The same holds for a process that has just started and
may have published in an earlier incarnation. While the wall clock is set back, or is behind what was delivered here,
publishing is refused (StalledError): no stamp is guessed.
Source: docs/papers/merge.md: merge 6 and merge 11; merge E6, E16 and E17.
"""

from whence.core.clocks.stamp import GuardResult, MergeKey, StampClock, low_key
from whence.core.clocks.ticks import Ticks
from whence.core.levels.total.metrics import MemberMetrics
from whence.core.levels.total.settings import TotalSettings
from whence.core.ready import Note, Ready
from whence.errors import StalledError
from whence.types import Bundle, Instant, Process


class GuardedClock:
    """Reads, stamps and guards for one incarnation."""

    def __init__(self, me: Process, settings: TotalSettings, now: Instant, metrics: MemberMetrics) -> None:
        self.timing = settings.timing
        self.lead_max = settings.timing.lead_max
        self.ticks = Ticks(settings.merge.tick_ns, settings.timing)
        self.rt = self.ticks.read(now)
        """The tick of the current input."""
        self.stamps: StampClock[object] = settings.stamp_clock()
        self.stamps.start(self.rt)
        self.lived_before = me.incarnation > 1
        """An earlier incarnation of this process may have published."""
        self.stalled = False
        """Nothing may be published now."""
        self.stall_ticks = 0
        """How long publishing was stalled, in total."""
        self._quarantine_until = self.rt + self.timing.epsilon if self.lived_before else 0
        self._repairs = 0
        self._tick_ns = settings.merge.tick_ns
        self._me = me
        self._metrics = metrics

    def is_first_incarnation(self) -> None:
        """Learn that this process has no earlier incarnation, whatever its number says."""
        self.lived_before, self._quarantine_until = False, 0

    def guard(self, now: Instant, ready: Ready) -> None:
        """Read the clock, and repair it and the stamps where they are corrupt."""
        before, ticks = self.rt, self.ticks
        self.rt = rt = ticks.read(now)
        if self.stalled and rt > before:
            self.stall_ticks += rt - before
        if ticks.repairs != self._repairs:
            self._repairs = ticks.repairs
            self.repaired("clock", ready)
        found = self.stamps.guard(rt)
        if found is GuardResult.RESET:
            self.repaired("stamp", ready)
        if self._quarantine_until > rt + self.timing.epsilon:
            self._quarantine_until = rt + self.timing.epsilon
        self.stalled = found is GuardResult.STALLED or ticks.lead > self.lead_max or rt < self._quarantine_until

    def repaired(self, what: str, ready: Ready) -> None:
        """Note a repair, and publish nothing until every earlier stamp is in the past."""
        self._metrics.counts[f"reset_{what}"] += 1
        ready.notes.append(Note("reset", what))
        self._quarantine_until = self.rt + self.timing.epsilon
        self.stalled = True

    def refusal(self) -> StalledError:
        """Return why nothing may be published while the clock is stalled, and when to try again.

        That is one tick later than needed: timers of event loops count whole milliseconds and fire up to one early.
        """
        if self.ticks.stands_still:
            why, wait = "the clock on the wall was set back", self.ticks.lead - self.lead_max
        elif self.rt < self._quarantine_until:
            why = "this process began, or was repaired, too short a time ago"
            wait = self._quarantine_until - self.rt
        else:
            why = "the clock is behind what this process has delivered"
            wait = self.stamps.ahead(self.rt) - self.lead_max
        return StalledError(why, (max(1, wait) + 1) * self._tick_ns)

    def key_of(self, stamp: object, bundle: Bundle) -> MergeKey:
        """Return a bundle's place in the order. Raises LimitError if a part does not fit."""
        k_hi, k_mid = self.stamps.packed(stamp)
        return k_hi, k_mid, low_key(bundle.pid, bundle.incarnation, bundle.first)

    def observe(self, bundle: Bundle) -> None:
        """Observe a bundle's stamp, so that everything published from now on comes after it."""
        if bundle.pid != self._me.pid or bundle.incarnation != self._me.incarnation:
            self.stamps.observe(self.rt, self.stamps.read(bundle.stamp, self.rt))
