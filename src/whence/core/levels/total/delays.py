"""What δ would have had to be: the delays of publications as a merger sees them.

Law: nothing that arrives within δ of its stamp is late, and nothing waits longer than δ + 2ε − 1 ticks (in the paper
δ + 3ε). So the least δ that covers all but one in N observed delays would have left out at most one in N. A delay is
the receiver's clock minus the stamp's: transit, sending again and the difference of clocks together. Copies that never
arrive have none.
Delays are counted by sixteenths of a power of two; a proposal is rounded up, by less than a sixteenth. Old counts are
halved from time to time, so that a proposal follows the network.
Cost: one addition per publication.
Source: docs/papers/merge.md: merge 10.
"""

LATE_ONE_IN = 10_000
"""A proposal leaves out at most one observed publication in so many."""

COUNTED_MAX = 1 << 20
"""Delays after which all counts are halved."""

_STEPS = 16


class DelayHistogram:
    """The delays of recent publications, in ticks."""

    def __init__(self) -> None:
        self.observed = 0
        """The publications whose delays are counted, before any halving."""
        self.least = 0
        """The least delay: negative where a publisher's clock was ahead of the receiver's by more than the transit."""
        self._counts: list[int] = []
        self._total = 0

    def add(self, delay: int) -> None:
        """Count a publication's first arrival."""
        self.observed += 1
        if delay < self.least:
            self.least = delay
        place = _place_of(max(0, delay))
        counts = self._counts
        if place >= len(counts):
            counts += [0] * (place + 1 - len(counts))
        counts[place] += 1
        self._total += 1
        if self._total >= COUNTED_MAX:
            self._counts = [count >> 1 for count in counts]
            self._total = sum(self._counts)

    def covering(self, one_in: int = LATE_ONE_IN) -> int | None:
        """Return a δ that all delays but one in `one_in` keep; None before any was observed."""
        spare = self._total // one_in
        for place in range(len(self._counts) - 1, -1, -1):
            spare -= self._counts[place]
            if spare < 0:
                return _most_in(place)
        return 0 if self._counts else None

    def epsilon_seen(self) -> int:
        """Return the least ε that the clocks seen allow: one was ahead by at least the least delay below zero."""
        return 1 - self.least


def _place_of(delay: int) -> int:
    """Return where a delay is counted: each below 16 by itself, then sixteen steps to each doubling."""
    shift = max(0, delay.bit_length() - _STEPS.bit_length())
    return shift * _STEPS + (delay >> shift)


def _most_in(place: int) -> int:
    """Return the largest delay that is counted in a place."""
    shift = max(0, place // _STEPS - 1)
    return ((place - shift * _STEPS + 1) << shift) - 1
