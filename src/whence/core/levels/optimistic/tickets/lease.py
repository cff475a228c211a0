"""Leases: when a coordinator may act.

Promises: `until` never lies after the moment at which fewer than a majority of the witnesses would still let it act.
The sentence that decides: a lease lasts from when it was *asked for*, by the echo of the asker's own clock, never from
when the answer came; and it is checked at every action, not once per round.
Assumes: the clock counts suspension and never jumps. Source: docs/papers/optimistic.md 4.4, 4.10 (Lemma B); traps F4 to
F6, F37.
"""

from whence.core.levels.optimistic.tickets.records import Processes, majority
from whence.types import Instant, Process

NEVER = -(1 << 63)
ALWAYS = 1 << 63


class Leases:
    """What the witnesses have lent."""

    def __init__(self, lease_ns: int) -> None:
        self._lease_ns = lease_ns
        self._asked: dict[Process, Instant] = {}
        """The latest request that each witness granted."""
        self._from = NEVER
        """No request before this counts."""

    def grant(self, witness: Process, asked_at: Instant, now: Instant) -> None:
        """Note that a witness renewed what was asked for then."""
        if self._from <= asked_at <= now:
            self._asked[witness] = max(asked_at, self._asked.get(witness, NEVER))

    def drop(self, now: Instant) -> None:
        """Count nothing that was asked for before now."""
        self._asked, self._from = {}, now

    def last(self, witness: Process) -> Instant:
        """Return when the latest lease of a witness was asked for, or NEVER."""
        return self._asked.get(witness, NEVER)

    def until(self, witnesses: Processes) -> Instant:
        """Return when a majority of these no longer lets act: the lease of the weakest of the strongest majority."""
        needed = majority(witnesses)
        if not needed:
            return ALWAYS
        asked = sorted([self._asked[witness] for witness in witnesses if witness in self._asked], reverse=True)
        return asked[needed - 1] + self._lease_ns if len(asked) >= needed else NEVER

    def keep_only(self, witnesses: Processes) -> None:
        """Forget all others."""
        self._asked = {witness: asked for witness, asked in self._asked.items() if witness in witnesses}
