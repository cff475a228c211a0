"""A seed: one of the configured peers whose majority settles who founds the cluster and which epochs may be given.

Every process has this part; only where it is a seed does it answer. Source: docs/papers/optimistic.md 4.9, X3.
"""

from collections.abc import Callable

from whence.core.levels.optimistic.tickets.acceptor import FounderAcceptor
from whence.core.levels.optimistic.tickets.items import GenerationRead, Genesis, Reserve
from whence.core.levels.optimistic.tickets.record_bytes import pack
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.witness import Witness
from whence.types import Process


class Seed:
    """What one process answers as a seed."""

    def __init__(
        self,
        me: Process,
        settings: TicketSettings,
        acceptor: FounderAcceptor,
        witness: Witness,
        epoch_seen: Callable[[], int],
        on_ballot: Callable[[int], None],
    ) -> None:
        self._is_seed = me.pid in settings.seed_pids()
        self._hold_ns = 3 * settings.ticket_round_ns // 2
        self._acceptor = acceptor
        self._witness = witness
        self._epoch_seen = epoch_seen
        self._on_ballot = on_ballot

    def on_generation_read(self, sender: Process, item: GenerationRead, turn: Turn) -> None:
        """Promise a founder's ballot, and show a recent record to begin a walk at."""
        if not self._is_seed:
            return
        self._on_ballot(item.ballot)
        generation = self._acceptor.generation
        start = next((record for record in self._witness.recent() if record.generation == generation), None)
        self._acceptor.see(self._epoch_seen())
        self._acceptor.read(sender, item, pack(start) if start is not None else b"", self._hold_ns, turn)

    def on_genesis(self, sender: Process, item: Genesis, turn: Turn) -> None:
        """Accept a founder, or not."""
        if self._is_seed:
            self._acceptor.accept(sender, item, turn)

    def on_reserve(self, sender: Process, item: Reserve, turn: Turn) -> None:
        """Write down a block of epochs."""
        if self._is_seed:
            self._acceptor.reserve(sender, item, turn)
