"""An applicant: a process that wants a ticket, asks for one, and takes only the one it still waits for.

Promises: it never holds two tickets of one cluster; it never takes a ticket that came too late, or that it once said it
does not hold. The sentence that decides: an answer counts if it carries the nonce of the request under way, and its
ticket epoch was not refused before. Source: docs/papers/optimistic.md 4.8, 5; traps B7, F10, F23, F24.
"""

from whence.core.levels.optimistic.tickets.known_coordinators import KnownCoordinators
from whence.core.levels.optimistic.tickets.records import Processes, TicketEpoch
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.ready import RandomSource
from whence.types import Instant, Process

TOMBSTONES_MAX = 64
"""Ticket epochs refused while one request is under way. Full: the request is given up, and another one begun."""

PASSED_OVER_MAX = 256
"""Coordinators not to be asked for a while. Full: the one noted first may be asked again."""

PASS_OVER_ROUNDS = 4
"""Ticket rounds for which a coordinator that had no ticket to give, or did not answer, is not asked again."""

QUIET_ROUNDS = 6
"""Ticket rounds without hearing from any coordinator after which all are taken for lost."""


class Applicant:
    """What one process does to get a ticket."""

    def __init__(
        self, me: Process, settings: TicketSettings, rng: RandomSource, coordinators: KnownCoordinators
    ) -> None:
        self.wanted = False
        self.nonce = 0
        self.next_at: Instant = 0
        self._me = me
        self._settings = settings
        self._rng = rng
        self._coordinators = coordinators
        self._seeds = settings.seed_pids()
        self._tombstones: dict[TicketEpoch, None] = {}
        self._passed_over: dict[Process, Instant] = {}
        """Coordinators that had nothing to give or did not answer, and until when they are not asked again."""
        self._asked: Process | None = None
        """The coordinator whose answer is awaited."""
        self._tries = 0
        """Requests in a row that nobody answered."""
        self._refused = ""
        """Why the coordinator asked last gave none; what a process that is no coordinator says does not count."""
        self._found_from: Instant = 0
        self._unheard = False
        """Witnesses said that coordinators live, and none was heard since."""

    def want(self, now: Instant) -> None:
        """Begin to ask for a ticket."""
        self.wanted = True
        self.begin_anew(now)
        self._found_from = now + self._patience()

    def begin_anew(self, now: Instant) -> None:
        """Begin a new request; answers to earlier ones are refused from now on."""
        self.nonce += 1
        self._tombstones = {}
        self._tries = 0
        self._asked = None
        self._refused = ""
        self.next_at = now

    def why_not_yet(self, silent: Processes) -> str:
        """Return in a clause how far the request is, where witnesses are silent that are needed to found anew."""
        asking = "it is still asking for a ticket"
        if silent:
            named = ", ".join(f"{pid}:{incarnation}" for pid, incarnation in silent)
            return f"{asking}; all coordinators are gone, and their witnesses {named} must answer or be declared dead"
        if self._unheard:
            return f"{asking}; coordinators do not answer, and their witnesses say that they live: look at the links"
        if self._refused or self._coordinators.others():
            return asking + self._refused
        seeds = ", ".join(map(str, self._seeds))
        return (
            f"{asking} and has heard of no coordinator; most of the seeds {seeds} must be up, as founders of the group"
        )

    def takes(self, nonce: int, ticket_epoch: TicketEpoch) -> bool:
        """Tell whether an answer is the one waited for."""
        return self.wanted and nonce == self.nonce and ticket_epoch not in self._tombstones

    def refuse(self, ticket_epoch: TicketEpoch, now: Instant) -> None:
        """Never take this ticket epoch, should it still come."""
        if len(self._tombstones) >= TOMBSTONES_MAX:
            self.begin_anew(now)
        self._tombstones[ticket_epoch] = None

    # --- whom to ask ---

    def hear_active(self, now: Instant) -> None:
        """Know that the cluster has a coordinator."""
        self._unheard = False
        self._found_from = max(self._found_from, now + self._patience())

    def hear_unheard(self, now: Instant) -> None:
        """Know that coordinators live that are not heard here; if they are dead, that is certain a lease from now."""
        self._unheard = True
        self._found_from = now + self._settings.lease_ns + int(4 * self._rng() * self._settings.ticket_round_ns)

    def ask(self, now: Instant) -> int:
        """Return whom to ask now: a coordinator heard of, or else a seed, which may know others.

        One that did not answer is passed over for a while: it may be dead, and others need not wait for that. Where
        all heard of are, only a seed can tell of those that came after them.
        """
        if self._asked is not None:
            self._pass_over(self._asked, now)
            self._asked = None
        self._tries += 1
        wait = min(4 * 2 ** min(self._tries, 6) * self._settings.answer_ns, 4 * self._settings.ticket_round_ns)
        self.next_at = now + int(wait * (0.5 + self._rng()))
        passed = {owner.pid for owner, until in self._passed_over.items() if until > now}
        others = [pid for pid in self._seeds if pid != self._me.pid]
        others = [pid for pid in others if pid not in passed] or others
        owners = [owner for owner in self._coordinators.others() if owner.pid not in passed or not others]
        if owners and self._rng() < 0.8:
            self._asked = owners[int(self._rng() * len(owners))]
            return self._asked.pid
        return others[int(self._rng() * len(others))] if others else self._me.pid

    def on_reject(self, sender: Process, now: Instant, *, full: bool) -> None:
        """Ask another one soon; one that has no ticket to give, only after some rounds."""
        round_ns = self._settings.ticket_round_ns
        self._asked, self._tries = None, 0
        if full:
            self._refused = ", and the coordinator asked last had none to give"
            self._pass_over(sender, now)
        others = [owner for owner in self._coordinators.others() if owner not in self._passed_over]
        self.next_at = now + int(round_ns * (0.5 + self._rng()) * (0.3 if others or not full else 2))

    def _pass_over(self, owner: Process, now: Instant) -> None:
        self._passed_over = {each: until for each, until in self._passed_over.items() if until > now}
        self._passed_over[owner] = now + PASS_OVER_ROUNDS * self._settings.ticket_round_ns
        while len(self._passed_over) > PASSED_OVER_MAX:
            del self._passed_over[next(iter(self._passed_over))]

    # --- founding ---

    def should_found(self, now: Instant) -> bool:
        """Tell whether no coordinator has been heard of for so long that there seems to be none."""
        return now >= self._found_from

    def found_again_after(self, fails: int, now: Instant) -> None:
        """Wait before the next attempt to found, at random and longer each time."""
        wait = self._settings.ticket_round_ns * (0.5 + self._rng() * 2 ** min(fails, 3))
        self._found_from = now + int(wait)
        self.next_at = now + self._settings.answer_ns

    def _patience(self) -> int:
        """Return how long to look for a coordinator: seeds first and one after another, if none was ever heard of."""
        if self._coordinators.has_owners():
            return int(self._settings.ticket_round_ns * (QUIET_ROUNDS + 4 * self._rng()))
        rank = self._seeds.index(self._me.pid) if self._me.pid in self._seeds else len(self._seeds)
        return int((0.5 + rank + self._rng()) * 4 * self._settings.answer_ns)
