"""The canary: a level that claims what `fifo` promises and is wrong on purpose.

An exploration that does not catch it finds nothing.
"""

from whence.core.levels.gossip.fifo import Fifo
from whence.core.levels.gossip.level import GOSSIP, Settings
from whence.core.ready import Delivery, Ready
from whence.core.stages import Order
from whence.types import Bundle, Instant, Process

CANARY = "canary"


class DeliversOnArrival(Fifo):
    """Delivers bundles in the order of arrival, each once."""

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        progress = self._senders.states.get((bundle.pid, bundle.incarnation)) or self._open(bundle, now, ready)
        if progress is not None and bundle.first not in progress.held:
            progress.held[bundle.first] = None  # type: ignore[assignment]
            ready.deliver.append(Delivery(bundle))


def _delivers_on_arrival(me: Process, settings: Settings) -> Order:
    """Build the canary's order."""
    return DeliversOnArrival(me, settings.limits, settings.fifo.hold_rounds * settings.gossip.round_ns)


SPEC = GOSSIP["fifo"]._replace(order=_delivers_on_arrival)
