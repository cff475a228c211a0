"""The settings of tickets: every duration a multiple of the ticket round, each with what it trades."""

from msgspec import Struct

from whence.core.levels.optimistic.tickets.records import K_MAX, TICKETS_MAX
from whence.errors import SettingError
from whence.limits import PEER_ID_MAX


class TicketSettings(Struct, frozen=True, kw_only=True):
    """Tickets of one cluster. All members must agree on them."""

    tickets: int = 32
    """Coordinators at most, and entries of the vector clock: each costs some 4 bytes in every stamp once used."""
    k: int = 1
    """Failures within one repair (some ten ticket rounds) that cost nobody else its ticket. 2k + 1 witnesses each."""
    seeds: str = ""
    """Peers that fill up witness sets and settle who founds the cluster, as numbers with commas between. At least
    2k + 1; 2k + 2, so that a seed that is a coordinator itself can be passed over."""
    allow_unsafe_liveness: bool = False
    """Run with fewer seeds: safe, but the crash of one of two coordinators may suspend the other for good."""
    ticket_round_ns: int = 1_000_000_000
    """How often a coordinator renews its leases and greets its successor. At least as long as an event takes to spread
    plus twice `answer_ns`; longer is cheaper and finds the dead later."""
    answer_ns: int = 100_000_000
    """How long an answer may take before it is asked for again (the paper's δ). Only speed depends on it."""
    lease_rounds: float = 2.5
    """A lease's length in ticket rounds. Below 2 and an answer, one lost message suspends; more delays reuse."""
    drift_max: float = 0.02
    """How much faster or slower than true time any clock may run (ρ; optimistic 1). Exclusion rests on it."""
    exclude_chance: float = 0.7
    """Per round, once a successor is taken for dead; below 1 so that adjacent coordinators do not act in step."""
    drain_rounds: float = 1.0
    """Ticket rounds a leaver keeps silent before its ticket may be given away, so that its last events have spread."""

    def __post_init__(self) -> None:
        if not 1 <= self.tickets <= TICKETS_MAX:
            raise SettingError(f"tickets must be from 1 to {TICKETS_MAX}, not {self.tickets}")
        if not 0 <= self.k <= K_MAX:
            raise SettingError(f"k must be from 0 to {K_MAX}, not {self.k}")
        seeds = self.seed_pids()
        if not seeds:
            raise SettingError("seeds must name at least one peer: without any, nobody can begin the cluster")
        if len(seeds) < 2 * self.k + 1 and not self.allow_unsafe_liveness:
            raise SettingError(f"seeds must name at least 2k + 1 = {2 * self.k + 1} peers, not {len(seeds)}")
        for name in ("ticket_round_ns", "answer_ns"):
            if getattr(self, name) < 1000:
                raise SettingError(f"{name} must be at least 1000, not {getattr(self, name)}")
        if self.lease_rounds < 1:
            raise SettingError(f"lease_rounds must be at least 1, not {self.lease_rounds}")
        if not 0 <= self.drift_max < 1:
            raise SettingError(f"drift_max must be from 0 to below 1, not {self.drift_max}")
        if not 0 < self.exclude_chance <= 1:
            raise SettingError(f"exclude_chance must be above 0 and at most 1, not {self.exclude_chance}")
        if self.drain_rounds < 0:
            raise SettingError(f"drain_rounds must not be below 0, not {self.drain_rounds}")

    def seed_pids(self) -> tuple[int, ...]:
        """Return the seeds. Raises SettingError if they are no numbers of peers."""
        try:
            seeds = tuple(dict.fromkeys(int(pid) for pid in self.seeds.split(",") if pid.strip()))
        except ValueError:
            raise SettingError(f"seeds must be numbers with commas between, not {self.seeds!r}") from None
        if any(not 0 <= pid <= PEER_ID_MAX for pid in seeds):
            raise SettingError(f"seeds must be from 0 to {PEER_ID_MAX}, not {self.seeds!r}")
        return seeds

    @property
    def lease_ns(self) -> int:
        """Return how long a lease lasts (D; optimistic 4.4)."""
        return int(self.lease_rounds * self.ticket_round_ns)

    @property
    def wait_ns(self) -> int:
        """Return how long after the last fence every lease given before it has ended, on any clock within the bound."""
        return int(self.lease_ns * (1 + self.drift_max) / (1 - self.drift_max)) + 1

    @property
    def witnesses(self) -> int:
        """Return how many witnesses a coordinator wants."""
        return 2 * self.k + 1
