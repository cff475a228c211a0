"""What a member of level `total` counts and measures, for operators and for `whence tune`.

Nothing here decides anything. Ticks are the group's ticks; totals are those of one incarnation.
Source: docs/papers/merge.md: merge 11.
"""

from collections import Counter, deque

from whence.core.levels.total.delays import LATE_ONE_IN, DelayHistogram
from whence.core.ready import Metric, Note, Ready
from whence.types import Bundle

RECENT = 1024
"""The number of released bundles over which quantiles of waits are computed."""

DELAYS_UP_TO = (0, *(1 << at for at in range(17)))
"""Upper bounds of the histogram of delays, in ticks; longer ones count in a last bucket without a bound."""

QUANTILES = (("0.5", 0.5), ("0.99", 0.99))


class MemberMetrics:
    """Counters, a histogram of delays, and the last waits."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Late, duplicate, rejected, reset and so on."""
        self.k_max = 0
        """The longest chain of events in one tick that any stamp counted."""
        self.arrivals = DelayHistogram()
        """The delays from which a δ is proposed."""
        self._delays = [0] * (len(DELAYS_UP_TO) + 1)
        self._delay_sum = 0
        self._waits: deque[int] = deque(maxlen=RECENT)
        self._wait_max = 0
        self._lag = self._lag_max = 0

    def reject(self, reason: str, bundle: Bundle, ready: Ready) -> None:
        """Count and note a bundle whose stamp is not valid."""
        self.counts[f"rejected_{reason}"] += 1
        ready.notes.append(Note("reject", reason, bundle))

    def drop(self, reason: str, bundle: Bundle, ready: Ready) -> None:
        """Count and note a bundle that is dropped."""
        self.counts[reason] += 1
        ready.notes.append(Note("drop", reason, bundle))

    def arrived(self, delay: int, chain: int) -> None:
        """Count a publication of another process: the receiver's clock minus its stamp's, and its chain."""
        if delay > 0:
            self._delays[min((delay - 1).bit_length() + 1, len(DELAYS_UP_TO))] += 1
            self._delay_sum += delay
        else:
            self._delays[0] += 1
        if chain > self.k_max:
            self.k_max = chain

    def released(self, waits: list[int], first_lag: int, last_lag: int) -> None:
        """Count released bundles: the ticks each was held back, and how long after its time the first and last left."""
        self._waits += waits
        self._wait_max = max(self._wait_max, *waits)
        self._lag, self._lag_max = last_lag, max(self._lag_max, first_lag)

    def metrics(self, lead: int, stall_ticks: int, buffered: int | None) -> list[Metric]:
        """Return everything by name.

        `lead` is l − rt now, `stall_ticks` how long nothing could be published, `buffered` what a merger holds now.
        """
        counts = self.counts
        found = [
            Metric("late_total", counts["late"]),
            Metric("duplicate_total", counts["duplicate"]),
            Metric("skipped_total", counts["skipped"]),
            Metric("g2_violation_total", counts["g2_violation"]),
            Metric("stall_ticks", stall_ticks),
            Metric("lead_ticks", lead),
            Metric("k_max", self.k_max),
            Metric("tick_full_total", counts["tick_full"]),
        ]
        for name, label in (("rejected", "reason"), ("reset", "part")):
            of = [(key.partition("_")[2], count) for key, count in sorted(counts.items()) if key.startswith(f"{name}_")]
            found += [Metric(f"{name}_total", count, label, part) for part, count in of]
            found += [] if of else [Metric(f"{name}_total", 0, label, "any")]
        if buffered is not None:
            found += [Metric("buffer_len", buffered), Metric("stale_total", counts["stale"]), *self._timings()]
        return found

    def proposed(self, delta: int, epsilon: int, tick_ns: int) -> list[Metric]:
        """Return the δ that is set, and the one that would have left out at most one publication in `LATE_ONE_IN`."""
        covering = self.arrivals.covering()
        found = [
            Metric("delta_ticks", delta),
            Metric("delays_observed_total", self.arrivals.observed),
            Metric("epsilon_seen_ticks", self.arrivals.epsilon_seen()),
        ]
        if covering is None:
            return found
        label, of = "late_one_in", str(LATE_ONE_IN)
        return [
            *found,
            Metric("delta_proposed_ticks", covering, label, of),
            Metric("delta_proposed_ns", covering * tick_ns, label, of),
            Metric("buffering_proposed_ns", (covering + 2 * epsilon - 1) * tick_ns, label, of),
        ]

    def _timings(self) -> list[Metric]:
        waits = sorted(self._waits)
        found = [
            Metric("buffer_ticks", waits[min(len(waits) - 1, int(part * len(waits)))] if waits else 0, "quantile", name)
            for name, part in QUANTILES
        ]
        found += [
            Metric("buffer_ticks", self._wait_max, "quantile", "1"),
            Metric("release_lag_ticks", self._lag),
            Metric("release_lag_ticks_max", self._lag_max),
        ]
        so_far = 0
        for bound, count in zip((*map(str, DELAYS_UP_TO), "+Inf"), self._delays, strict=True):
            so_far += count
            found.append(Metric("observed_delay_ticks_bucket", so_far, "le", bound))
        return [
            *found,
            Metric("observed_delay_ticks_sum", self._delay_sum),
            Metric("observed_delay_ticks_count", so_far),
        ]
