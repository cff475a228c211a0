"""What a coordinator remembers of the tickets it gave away: the last one, and who did not take theirs up.

A grant lasts while the coordinator's record names its claim; one that was closed is void, and its request is served
anew. A joiner whose grant had to be fenced lets others go first for a while: closing it took a whole lease, and one
that hears no answers would keep its coordinator busy for ever. Source: tickets_twolayer 4.8, X1; traps F23, F24.
"""

from msgspec import Struct

from whence.core.levels.optimistic.tickets.items import AckClusterJoin
from whence.core.levels.optimistic.tickets.records import Claim
from whence.core.levels.optimistic.tickets.walk import Walk
from whence.types import Instant, Process

UNHEARD_MAX = 64
"""Joiners that did not take up a grant. Full: the one noted first is forgotten."""


class Grant(Struct, frozen=True):
    """A ticket given away, to whom, and the answer that says so."""

    joiner: Process
    nonce: int
    claim: Claim
    answer: AckClusterJoin


class Grants:
    """The last grant, and joiners that were not heard of."""

    def __init__(self, patience_ns: int) -> None:
        self.last: Grant | None = None
        self._patience_ns = patience_ns
        self._unheard: dict[Process, Instant] = {}

    def answers(self, joiner: Process, nonce: int) -> Grant | None:
        """Return the last grant if it is the one that this request asked for."""
        last = self.last
        return last if last is not None and (last.joiner, last.nonce) == (joiner, nonce) else None

    def closed(self, walk: Walk, now: Instant) -> None:
        """Note who never took up its grant, so that it had to be fenced."""
        if self.last is None or not walk.hard or self.last.claim not in walk.closed:
            return
        self._unheard[self.last.joiner] = now + self._patience_ns
        if len(self._unheard) > UNHEARD_MAX:
            del self._unheard[next(iter(self._unheard))]

    def waits(self, joiner: Process, now: Instant) -> bool:
        """Tell whether others go before this joiner."""
        return self._unheard.get(joiner, now) > now
