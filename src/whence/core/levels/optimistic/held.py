"""Bundles that came too early, and the timers of those that came by themselves.

Promises: what is held is bounded in bundles and bytes; a timer of a bundle that is no longer held does nothing.
A bundle that came by gossip is `waiting`: its timers run, and when they have, it is delivered whatever is missing. One
that was asked for is `recovered`: it has no timers and waits for those that asked.
Source: docs/papers/optimistic.md 6.4; traps C5, C13.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from whence.core.clocks.cct import Stamp
from whence.core.levels.optimistic.missing import Id
from whence.core.ready import Gauge
from whence.limits import Limits
from whence.types import Bundle, Instant


class HeldBundle(Struct, gc=False):
    """A bundle that waits, since when, and the ids asked for on its behalf."""

    bundle: Bundle
    stamp: Stamp
    since: Instant
    asked: list[Id]


Timers = deque[tuple[Instant, Id, HeldBundle]]
"""In the order in which they end: all timers of one queue run equally long."""


class HeldBundles:
    """All bundles that came too early, by the id of their last event."""

    def __init__(self, limits: Limits) -> None:
        self.waiting: dict[Id, HeldBundle] = {}
        self.recovered: dict[Id, HeldBundle] = {}
        self.bytes = 0
        self.to_ask: Timers = deque()
        self.to_ask_more: Timers = deque()
        self.to_skip: Timers = deque()
        self._limits = limits

    def wait(self, key: Id, held: HeldBundle) -> None:
        """Hold a bundle until it can be delivered or its timers have run."""
        self.waiting[key] = held
        self.bytes += len(held.bundle.body)

    def keep_recovered(self, key: Id, held: HeldBundle) -> None:
        """Hold a bundle that was asked for until those that asked are delivered."""
        self.recovered[key] = held
        self.bytes += len(held.bundle.body)

    def release(self, key: Id) -> None:
        """Hold a bundle no longer."""
        held = self.waiting.pop(key, None) or self.recovered.pop(key)
        self.bytes -= len(held.bundle.body)

    def all(self) -> list[HeldBundle]:
        """Return all bundles held, those that wait first."""
        return [*self.waiting.values(), *self.recovered.values()]

    def oldest(self) -> HeldBundle:
        """Return the bundle that has waited for longest."""
        return next(iter((self.waiting or self.recovered).values()))

    def is_overfull(self) -> bool:
        """Tell whether more is held than the limits allow."""
        count = len(self.waiting) + len(self.recovered)
        return count > self._limits.held_bundles_max or self.bytes > self._limits.held_bytes_max

    def holds(self, key: Id) -> bool:
        """Tell whether an id is in a bundle that is held."""
        ticket, entry = key
        return any(
            held.stamp.ticket == ticket and held.stamp.before < entry <= held.stamp.entry
            for bundles in (self.waiting, self.recovered)
            for held in bundles.values()
        )

    def due(self, timers: Timers, now: Instant) -> Iterator[tuple[Id, HeldBundle]]:
        """Yield what is due and still waits."""
        while timers and timers[0][0] <= now:
            _, key, held = timers.popleft()
            if self.waiting.get(key) is held:
                yield key, held

    def wake_at(self) -> Instant | None:
        """Return when the first timer ends."""
        soonest: Instant | None = None
        for timers in (self.to_ask, self.to_ask_more, self.to_skip):
            while timers and self.waiting.get(timers[0][1]) is not timers[0][2]:
                timers.popleft()
            if timers and (soonest is None or timers[0][0] < soonest):
                soonest = timers[0][0]
        return soonest

    def gauges(self) -> list[Gauge]:
        """Return how much is held."""
        limits = self._limits
        return [
            Gauge("held_bundles", len(self.waiting) + len(self.recovered), limits.held_bundles_max, must_drain=True),
            Gauge("held_bytes", self.bytes, limits.held_bytes_max, must_drain=True),
        ]
