"""What one process does as a coordinator: its session, and what it says of those that are over.

Promises: at most one session at a time; whatever is said to another ticket epoch than the session's is never taken for
said to it. Asked about a ticket epoch it does not hold, it says that it will never act for it, and never does.
Source: docs/papers/optimistic.md 4.6, 4.8; traps B8, F16, F23, F24.
"""

from collections.abc import Callable

from whence.core.levels.optimistic.tickets import items
from whence.core.levels.optimistic.tickets.applicant import Applicant
from whence.core.levels.optimistic.tickets.authority import SessionState
from whence.core.levels.optimistic.tickets.founder import Founder
from whence.core.levels.optimistic.tickets.known_coordinators import KnownCoordinators
from whence.core.levels.optimistic.tickets.known_peers import KnownPeers
from whence.core.levels.optimistic.tickets.record_bytes import pack, pack_processes
from whence.core.levels.optimistic.tickets.records import Record, TicketEpoch
from whence.core.levels.optimistic.tickets.session import CoordinatorSession
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.ready import Gauge, RandomSource, Ready
from whence.types import Instant, Process

CLOSED_MAX = 256
"""Closed sessions whose final records are kept. Full: the oldest is forgotten, and we say so if asked."""


class Coordinator:
    """The session, if there is one, and the final records of those before."""

    def __init__(
        self,
        session_type: type[CoordinatorSession],
        settings: TicketSettings,
        rng: RandomSource,
        peers: KnownPeers,
        dead: dict[Process, Instant],
        entry_of: Callable[[int], int],
        applicant: Applicant,
        coordinators: KnownCoordinators,
        founder: Founder,
    ) -> None:
        self.session: CoordinatorSession | None = None
        self.on_session: Callable[[TicketEpoch, int, Instant, Ready], None] = lambda *_: None
        """Told of every ticket obtained, and of the last event of its former owners; lent by the delivery."""
        self._session_type = session_type
        self._settings = settings
        self._rng = rng
        self._peers = peers
        self._dead = dead
        self._entry_of = entry_of
        self._applicant = applicant
        self._coordinators = coordinators
        self._founder = founder
        self._closed: dict[TicketEpoch, Record] = {}
        self._forgotten_epoch = 0

    def open(self, record: Record, base: int, turn: Turn) -> None:
        """Begin a session with a ticket that was granted or founded."""
        self.session = self._session_type(
            record, base, self._settings, self._peers, self._rng, self._entry_of, self._dead, turn.now
        )
        self.on_session(record.ticket_epoch, base, turn.now, turn.ready)
        self.session.tick(turn)

    def end_turn(self, turn: Turn) -> None:
        """Tell observers for how many tickets it acts from now on, and put a closed session away."""
        session = self.session
        if session is None:
            return
        session.authority.announce(turn)
        if session.authority.state is SessionState.CLOSED:
            self._put_away(session, turn)

    def was_closed(self, ticket_epoch: TicketEpoch) -> bool:
        """Tell whether a session of this ticket epoch is over."""
        return ticket_epoch in self._closed

    def gauges(self) -> list[Gauge]:
        """Return how many final records are kept."""
        return [Gauge("past_claims", len(self._closed), CLOSED_MAX)]

    def deny(self, sender: Process, ticket_epoch: TicketEpoch, turn: Turn, unknown: str = "ackcjoin_refused") -> None:
        """Say that this process will never act for a ticket epoch, and see to it."""
        final = self._closed.get(ticket_epoch)
        if final is None and self.session is not None and self.session.ticket_epoch == ticket_epoch:
            final = self.session.final_record()
        forgot = final is None and ticket_epoch.epoch <= self._forgotten_epoch
        if final is None and not forgot:
            turn.note(unknown, *ticket_epoch)
            self._applicant.refuse(ticket_epoch, turn.now)
            self._founder.on_denied(ticket_epoch, turn.now)
        record = pack(final) if final is not None else b""
        turn.post(sender, items.NotCoordinator(*ticket_epoch, forgot, record))

    # --- what is said to the session ---

    def on_alive(self, sender: Process, item: items.Alive, turn: Turn) -> None:
        """Take a witness's lease."""
        if (session := self._session_of(item)) is not None:
            session.on_alive(sender, item, turn)

    def on_fenced(self, sender: Process, item: items.Fenced, turn: Turn) -> None:
        """Take a witness's refusal."""
        if (session := self._session_of(item)) is not None:
            session.on_fenced(sender, item, turn)

    def on_update(self, sender: Process, item: items.Update, turn: Turn) -> None:
        """Take the predecessor's greeting, or deny."""
        self._coordinators.hear_owner(TicketEpoch(item.pred_ticket, item.pred_epoch), sender)
        session = self._session_of(item)
        if session is not None and session.state is not SessionState.CLOSED:
            session.ring.on_update(sender, item, turn)
        else:
            self.deny(sender, TicketEpoch(item.ticket, item.epoch), turn, unknown="ackcjoin_lost")

    def on_ack_update(self, sender: Process, item: items.AckUpdate, turn: Turn) -> None:
        """Take the successor's answer."""
        session = self.session
        if session is not None:
            session.ring.on_ack_update(sender, item, pending=session.registration.pending is not None)

    def on_exclude(self, sender: Process, item: items.Exclude, turn: Turn) -> None:
        """Answer somebody who walks the ring."""
        session = self._session_of(item)
        if session is not None:
            session.yield_to_walk(turn)
        if session is not None and session.state is not SessionState.CLOSED:
            leaving = session.state is SessionState.LEAVING
            turn.post(sender, items.AckExclude(item.ticket, item.epoch, leaving, pack(session.authority.record)))
        else:
            self.deny(sender, TicketEpoch(item.ticket, item.epoch), turn, unknown="ackcjoin_lost")

    def on_acquire(self, sender: Process, item: items.AcquireTicket, turn: Turn) -> None:
        """Give a joiner a ticket, or say why not and who may have one."""
        session = self.session
        refusal = "no coordinator"
        if session is not None and session.state is SessionState.ACTIVE:
            refusal = session.grants.serve(sender, item.nonce, turn)
        if refusal:
            acts = session is not None and session.authority.may_act(turn.now)
            hints = [owner for owner in self._coordinators.others() if owner != sender][-items.HINTS_MAX :]
            if acts and len(hints) < items.HINTS_MAX:
                hints.append(turn.me)
            full = refusal == "full"
            turn.post(sender, items.RejectAcquireTicket(item.nonce, acts, full, pack_processes(hints)))

    def on_release(self, sender: Process, item: items.ReleaseTicket, turn: Turn) -> None:
        """Take back what the successor gives up."""
        if self.session is not None:
            self.session.grants.on_release(sender, item, turn)

    def on_ack_release(self, sender: Process, item: items.AckReleaseTicket, turn: Turn) -> None:
        """Close a session that has left."""
        if (session := self._session_of(item)) is not None:
            session.on_ack_release(turn)

    def on_reserved(self, sender: Process, item: items.Reserved, turn: Turn) -> None:
        """Take a seed's word that a block of epochs is written down."""
        if self.session is not None:
            self.session.epochs.on_reserved(sender.pid, item)

    def _session_of(
        self, item: items.Alive | items.Fenced | items.Update | items.Exclude | items.AckReleaseTicket
    ) -> CoordinatorSession | None:
        """Return the session if the item speaks to exactly its ticket epoch."""
        session = self.session
        return session if session is not None and session.ticket_epoch == (item.ticket, item.epoch) else None

    def _put_away(self, session: CoordinatorSession, turn: Turn) -> None:
        """Keep a closed session's final record, and ask for another ticket if one is still wanted."""
        self._closed[session.ticket_epoch] = session.final_record()
        if len(self._closed) > CLOSED_MAX:
            oldest = next(iter(self._closed))
            self._forgotten_epoch = max(self._forgotten_epoch, oldest.epoch)
            del self._closed[oldest]
        self.session = None
        turn.note("ticket_closed", *session.ticket_epoch)
        if self._applicant.wanted:
            self._applicant.begin_anew(turn.now + int(self._rng() * self._settings.ticket_round_ns))
            self._applicant.hear_active(turn.now)
