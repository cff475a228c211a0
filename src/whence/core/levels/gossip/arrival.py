"""Order of arrival: deliver each bundle when it first arrives, and never again.

Promises: no event is delivered twice at one process, however often gossip brings it.
The sentence that decides: deliver exactly what was not seen before.
Costs per bundle: one look-up; memory per sender is the number of holes in what was seen, bounded.
Source: gossip 2.1 (the layer above gossip must tolerate duplicates).
"""

from whence.core.dissemination.seen import Seen
from whence.core.dissemination.senders import Senders
from whence.core.ready import Delivery, Gauge, Note, Ready
from whence.limits import Limits
from whence.types import Bundle, Instant, Process


class Arrival:
    """Deliver on first arrival."""

    __slots__ = ("_limits", "_me", "_most_runs", "_senders")

    def __init__(self, me: Process, limits: Limits) -> None:
        self._me = me
        self._limits = limits
        self._senders: Senders[Seen] = Senders(limits, Seen)
        self._senders.open(*me)  # so that there is always room for the member's own events
        self._most_runs = 0

    def stamp(self, now: Instant) -> bytes:
        """Return no stamp: any order will do."""
        return b""

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver the member's own bundle at creation."""
        self.admit(bundle, now, ready)

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver a bundle unless it was seen before."""
        seen = self._senders.states.get((bundle.pid, bundle.incarnation))
        if seen is None:
            refusal = self._senders.refuses(bundle.pid, bundle.incarnation)
            if refusal is not None:
                ready.notes.append(Note("drop", refusal, bundle))
                return
            crowded_out = self._senders.crowded_out(bundle.pid)
            if crowded_out is not None:
                self._senders.close(crowded_out)
            seen = self._senders.open(bundle.pid, bundle.incarnation)
        if seen.add(bundle.first, bundle.last, self._limits.spans_per_sender_max):
            ready.deliver.append(Delivery(bundle))
            self._most_runs = max(self._most_runs, len(seen.firsts))
        else:
            ready.notes.append(Note("drop", "duplicate", bundle))

    def tick(self, now: Instant, ready: Ready) -> None:
        """Do nothing: nothing waits."""

    def wake_at(self) -> Instant | None:
        """Return None: nothing waits."""
        return None

    def snapshot(self) -> bytes:
        """Return nothing: a newcomer waits for nothing."""
        return b""

    def adopt(self, snapshot: bytes) -> None:
        """Adopt nothing."""

    def gauges(self) -> list[Gauge]:
        """Return how much is remembered."""
        return [
            Gauge("senders", len(self._senders), self._limits.senders_max),
            Gauge("spans_per_sender", self._most_runs, self._limits.spans_per_sender_max),
        ]
