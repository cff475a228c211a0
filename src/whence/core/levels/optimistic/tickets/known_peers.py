"""The peers this process has heard from, and which of them suit as witnesses.

Hearsay, and only hearsay: which witnesses are chosen never matters for safety (docs/papers/optimistic.md 4.9), and
nothing else reads this. Bounded by the number of peers it keeps.
"""

from whence.core.levels.optimistic.tickets.records import Processes
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.types import Instant, Process

PEERS_MAX = 1024
"""Peers remembered. Full: the one silent for longest is forgotten, unless it is a seed."""

SILENT_ROUNDS = 4
"""Ticket rounds of silence after which a peer is a second choice."""


class KnownPeers:
    """The latest incarnation of each peer, and when it was last heard from."""

    def __init__(self, me: Process, settings: TicketSettings) -> None:
        self.me = me
        self.seeds = settings.seed_pids()
        self._settings = settings
        self._heard: dict[int, tuple[int, Instant]] = {}
        self._since: dict[int, int] = {me.pid: me.incarnation}
        """Since which incarnation a peer remembers what it promised as a witness, as far as it said so."""

    def hear(self, peer: Process, now: Instant) -> None:
        """Note that an incarnation of a peer was heard from."""
        known = self._heard.pop(peer.pid, None)
        if known is not None and known[0] > peer.incarnation:
            self._heard[peer.pid] = known
            return
        self._heard[peer.pid] = (peer.incarnation, now)
        if len(self._heard) > PEERS_MAX:
            del self._heard[next(pid for pid in self._heard if pid not in self.seeds)]

    def hear_since(self, peer: Process, since: int) -> None:
        """Note since which incarnation a peer remembers what it promised."""
        self._since[peer.pid] = max(since, self._since.get(peer.pid, 0))
        if len(self._since) > PEERS_MAX:
            del self._since[next(pid for pid in self._since if pid != self.me.pid and pid not in self.seeds)]

    def remember_since(self, since: int) -> None:
        """Note since which incarnation this process itself remembers."""
        self._since[self.me.pid] = since

    def is_forgotten(self, witness: Process) -> bool:
        """Tell whether nobody remembers any more what a witness promised: its peer came back without its journal."""
        return self._since.get(witness.pid, 0) > witness.incarnation

    def is_back(self, witness: Process) -> bool:
        """Tell whether a later incarnation said that it speaks for a witness."""
        return self.is_restarted(witness) and 0 < self._since.get(witness.pid, 0) <= witness.incarnation

    def is_restarted(self, process: Process) -> bool:
        """Tell whether a later incarnation of the peer was heard from."""
        known = self._heard.get(process.pid)
        return (known is not None and known[0] > process.incarnation) or (
            process.pid == self.me.pid and process.incarnation != self.me.incarnation
        )

    def heard_lately(self, process: Process, now: Instant) -> bool:
        """Tell whether this very incarnation was heard from within some rounds."""
        known = self._heard.get(process.pid)
        patience = SILENT_ROUNDS * self._settings.ticket_round_ns
        return known is not None and known[0] == process.incarnation and now - known[1] <= patience

    def known_seeds(self, now: Instant) -> list[Process]:
        """Return the seeds whose incarnation is known, this process left out, those heard from lately first."""
        seeds = [Process(pid, self._heard[pid][0]) for pid in self.seeds if pid in self._heard and pid != self.me.pid]
        return sorted(seeds, key=lambda seed: not self.heard_lately(seed, now))

    def witnesses_for(
        self, owner: Process, ring: Processes, avoid: dict[Process, Instant], current: Processes, now: Instant
    ) -> Processes:
        """Choose witnesses: the nearest coordinators before it, nearest first, and seeds; one seed at least.

        A seed among them keeps a recent record where founders look for one. Processes that are avoided or
        restarted, and the owner itself, are left out; of the seeds, those that it has already are preferred.
        """
        size = self._settings.witnesses
        before = self._fit(ring, owner, avoid, now)
        seeds = self._fit(tuple(self.known_seeds(now)), owner, avoid, now)
        spare = [seed for seed in seeds if seed not in before]
        used = [witness.pid for witness in current]
        spare.sort(
            key=lambda seed: (seed.pid not in used, not self.heard_lately(seed, now), (seed.pid - owner.pid) % 64)
        )
        if spare and not any(process.pid in self.seeds for process in before[:size]):
            before = before[: size - 1]
        chosen = before[:size]
        return (*chosen, *spare[: size - len(chosen)])

    def _fit(self, processes: Processes, owner: Process, avoid: dict[Process, Instant], now: Instant) -> list[Process]:
        fit: dict[int, Process] = {}
        for process in processes:
            avoided = avoid.get(process, now) > now
            if process.pid != owner.pid and not avoided and not self.is_restarted(process):
                fit.setdefault(process.pid, process)
        return list(fit.values())
