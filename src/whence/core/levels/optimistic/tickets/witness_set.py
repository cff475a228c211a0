"""The witnesses of one coordinator: which of them are silent or refuse, and by whom they are replaced.

The sentence that decides: it closes once so many witnesses refuse, or are gone for good, that no majority is left.
Which witnesses are chosen never matters for safety; that they are replaced only with the consent of a majority of the
old ones does (registration). Source: docs/papers/optimistic.md 4.4, 4.5, 4.9; traps F13, F29.
"""

from collections.abc import Mapping

from whence.core.levels.optimistic.tickets.authority import Authority
from whence.core.levels.optimistic.tickets.known_peers import KnownPeers
from whence.core.levels.optimistic.tickets.records import Processes, blocking
from whence.core.levels.optimistic.tickets.registration import ChangeKind, Registration
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.types import Instant, Process

SILENT_ROUNDS = 3
"""Ticket rounds after which a witness that does not answer is replaced."""

AVOID_ROUNDS = 8
"""Ticket rounds for which a witness that did not answer is not chosen again."""

WITHDRAW_ROUNDS = 2
"""Ticket rounds after which a change of witnesses that does not go through is withdrawn."""

FOR_EVER = 1 << 62


class WitnessSet:
    """What one coordinator knows of its witnesses."""

    def __init__(
        self,
        authority: Authority,
        registration: Registration,
        peers: KnownPeers,
        settings: TicketSettings,
        dead: Mapping[Process, Instant],
    ) -> None:
        self.fenced_by: dict[Process, None] = {}
        self._authority = authority
        self._registration = registration
        self._peers = peers
        self._settings = settings
        self._dead = dead
        self._avoided: dict[Process, Instant] = {}
        """Witnesses not to be chosen, and until when."""

    def on_fenced(self, witness: Process, now: Instant) -> None:
        """Note a witness that will never renew this ticket epoch again."""
        self.fenced_by[witness] = None
        self._avoided[witness] = now + FOR_EVER

    def is_fenced(self) -> bool:
        """Tell whether so many witnesses refuse that no majority is left."""
        witnesses = self._authority.record.witnesses
        return bool(witnesses) and sum(each in self.fenced_by for each in witnesses) >= blocking(witnesses)

    def is_lost(self) -> bool:
        """Tell whether no majority is left: they came back without their journals, or were declared dead."""
        witnesses = self._authority.record.witnesses
        gone = sum(self._peers.is_forgotten(each) or each in self._dead for each in witnesses)
        return bool(witnesses) and gone >= blocking(witnesses)

    def watch(self, now: Instant) -> None:
        """Avoid witnesses that have been silent for some rounds, or have forgotten what they promised."""
        patience = SILENT_ROUNDS * self._settings.ticket_round_ns
        leases, asked_since = self._authority.leases, self._registration.asked_since
        for witness in self._authority.record.witnesses:
            asked = asked_since.get(witness, now)
            if now - max(asked, leases.last(witness)) > patience or self._peers.is_forgotten(witness):
                self._avoid(witness, now)

    def withdraw_if_stuck(self, turn: Turn) -> None:
        """Withdraw a change of witnesses that does not go through, so that it blocks no other change."""
        change = self._registration.pending
        patience = WITHDRAW_ROUNDS * self._settings.ticket_round_ns
        if change is None or change.kind is not ChangeKind.WITNESSES or turn.now - change.since <= patience:
            return
        for witness in change.record.proposed:
            if witness not in change.acks:
                self._avoid(witness, turn.now)
        self._registration.withdraw()

    def choose(self, predecessors: Processes, turn: Turn) -> None:
        """Propose other witnesses where some are silent or no longer nearest; call while no change is under way."""
        record = self._authority.record
        current = record.witnesses
        known = {witness.pid: witness for witness in current if not self._peers.is_forgotten(witness)}
        wanted = self._peers.witnesses_for(record.owner, predecessors, self._avoided, current, turn.now)
        wanted = tuple(
            [known.get(witness.pid, witness) for witness in wanted]
        )  # it may have restarted, and be the same
        if len(wanted) < min(len(current), self._settings.witnesses) or set(wanted) == set(current):
            return
        self._registration.propose(ChangeKind.WITNESSES, record.next(proposed=wanted), turn)

    def _avoid(self, witness: Process, now: Instant) -> None:
        until = now + AVOID_ROUNDS * self._settings.ticket_round_ns
        self._avoided[witness] = max(until, self._avoided.get(witness, until))
