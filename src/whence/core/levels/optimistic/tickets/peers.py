"""Whom this process knows to live, and whom it would like as witnesses.

Hearsay, and only hearsay: which witnesses are chosen never matters for safety (tickets_twolayer 4.9), and nothing else
reads this. Bounded by the number of peers it keeps.
"""

from whence.core.levels.optimistic.tickets.records import Processes
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.types import Instant, Process

PEERS_MAX = 1024
"""Peers whose last word is remembered. Full: the one silent for longest is forgotten, unless it is a seed."""

SILENT_ROUNDS = 4
"""Ticket rounds without a word after which a peer is a second choice."""


class KnownPeers:
    """The latest life of each peer, and when it last spoke."""

    def __init__(self, me: Process, settings: TicketSettings) -> None:
        self.me = me
        self.seeds = settings.seed_pids()
        self._settings = settings
        self._heard: dict[int, tuple[int, Instant]] = {}

    def hear(self, peer: Process, now: Instant) -> None:
        """Note that a life of a peer spoke."""
        known = self._heard.pop(peer.pid, None)
        if known is not None and known[0] > peer.boot:
            self._heard[peer.pid] = known
            return
        self._heard[peer.pid] = (peer.boot, now)
        if len(self._heard) > PEERS_MAX:
            del self._heard[next(pid for pid in self._heard if pid not in self.seeds)]

    def is_restarted(self, process: Process) -> bool:
        """Tell whether a later life of the peer has spoken."""
        known = self._heard.get(process.pid)
        return (known is not None and known[0] > process.boot) or (
            process.pid == self.me.pid and process.boot != self.me.boot
        )

    def spoke_lately(self, process: Process, now: Instant) -> bool:
        """Tell whether this very life was heard of within some rounds."""
        known = self._heard.get(process.pid)
        patience = SILENT_ROUNDS * self._settings.ticket_round_ns
        return known is not None and known[0] == process.boot and now - known[1] <= patience

    def known_seeds(self, now: Instant) -> list[Process]:
        """Return the seeds whose life is known, ourselves left out, those that spoke lately first."""
        seeds = [Process(pid, self._heard[pid][0]) for pid in self.seeds if pid in self._heard and pid != self.me.pid]
        return sorted(seeds, key=lambda seed: not self.spoke_lately(seed, now))

    def witnesses_for(
        self, owner: Process, ring: Processes, avoid: dict[Process, Instant], current: Processes, now: Instant
    ) -> Processes:
        """Choose witnesses: the nearest coordinators before it, nearest first, and seeds; one seed at least.

        A seed among them keeps a recent record where founders look for one. Whoever is avoided, is_restarted or the
        owner itself is left out; of the seeds, those that it has already are kept.
        """
        size = self._settings.witnesses
        before = self._fit(ring, owner, avoid, now)
        seeds = self._fit(tuple(self.known_seeds(now)), owner, avoid, now)
        spare = [seed for seed in seeds if seed not in before]
        spare.sort(
            key=lambda seed: (seed not in current, not self.spoke_lately(seed, now), (seed.pid - owner.pid) % 64)
        )
        if spare and not any(process.pid in self.seeds for process in before[:size]):
            before = before[: size - 1]
        chosen = before[:size]
        return (*chosen, *spare[: size - len(chosen)])

    def _fit(self, processes: Processes, owner: Process, avoid: dict[Process, Instant], now: Instant) -> list[Process]:
        fit: dict[int, Process] = {}
        for process in processes:
            shunned = avoid.get(process, now) > now
            if process.pid != owner.pid and not shunned and not self.is_restarted(process):
                fit.setdefault(process.pid, process)
        return list(fit.values())
