"""Brings every item about tickets to the part it concerns; some concern whichever part is at work.

An item about a ticket the cluster does not have is rejected here, so that no part need look; unless it closes a
coordinator, which may be of an earlier generation that had more tickets.
"""

from collections.abc import Callable
from typing import Any

from whence.core.levels.optimistic.tickets import items
from whence.core.levels.optimistic.tickets.applicant import Applicant
from whence.core.levels.optimistic.tickets.coordinator import Coordinator
from whence.core.levels.optimistic.tickets.founder import Founder
from whence.core.levels.optimistic.tickets.known_coordinators import KnownCoordinators
from whence.core.levels.optimistic.tickets.known_peers import KnownPeers
from whence.core.levels.optimistic.tickets.record_bytes import unpack, unpack_processes
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.levels.optimistic.tickets.seed import Seed
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.witness import Witness
from whence.core.ready import Item, Note
from whence.types import Process

OF_WITNESSES = (items.Alive, items.Fenced, items.Fresh, items.Stale, items.AckFence)
"""Answers that say since when a witness remembers."""

OF_WALKS = (
    items.Probe, items.Fresh, items.Stale, items.Exclude, items.AckExclude, items.NotCoordinator, items.RequestFence,
    items.AckFence, items.Fenced,
)  # fmt: skip
"""Items by which coordinators are closed."""


class Dispatcher:
    """The handler of every item."""

    def __init__(
        self,
        tickets: int,
        peers: KnownPeers,
        coordinators: KnownCoordinators,
        witness: Witness,
        applicant: Applicant,
        founder: Founder,
        coordinator: Coordinator,
        seed: Seed,
    ) -> None:
        self._tickets = tickets
        self._peers = peers
        self._coordinators = coordinators
        self._witness = witness
        self._applicant = applicant
        self._founder = founder
        self._coordinator = coordinator
        self._handlers: dict[type[Item], Callable[[Process, Any, Turn], None]] = {
            # as a witness
            items.Renew: self._on_renew,
            items.Probe: self._on_probe,
            items.RequestFence: self._on_request_fence,
            # as a coordinator
            items.Alive: coordinator.on_alive,
            items.Fenced: coordinator.on_fenced,
            items.Update: coordinator.on_update,
            items.AckUpdate: coordinator.on_ack_update,
            items.Exclude: coordinator.on_exclude,
            items.AcquireTicket: coordinator.on_acquire,
            items.ReleaseTicket: coordinator.on_release,
            items.AckReleaseTicket: coordinator.on_ack_release,
            items.Reserved: coordinator.on_reserved,
            # as whoever walks the ring
            items.Fresh: self._on_fresh,
            items.Stale: self._on_stale,
            items.NotCoordinator: self._on_not_coordinator,
            items.AckExclude: self._on_walk_answer,
            items.AckFence: self._on_walk_answer,
            # as an applicant
            items.AckAcquireTicket: self._on_granted,
            items.RejectAcquireTicket: self._on_reject,
            # as a founder
            items.GenerationValue: founder.on_value,
            items.GenesisAnswer: founder.on_answer,
            # as a seed
            items.GenerationRead: seed.on_generation_read,
            items.Genesis: seed.on_genesis,
            items.Reserve: seed.on_reserve,
        }

    def hear(self, sender: Process, item: Item, turn: Turn) -> None:
        """Bring an item to its handler."""
        self._peers.hear(sender, turn.now)
        if isinstance(item, OF_WITNESSES):
            self._peers.hear_since(sender, item.since)
        if getattr(item, "ticket", 0) >= self._tickets and not isinstance(item, OF_WALKS):
            turn.ready.notes.append(Note("reject", "other_cluster", peer=sender.pid))
            return
        self._handlers[type(item)](sender, item, turn)

    # --- as a witness ---

    def _on_renew(self, sender: Process, item: items.Renew, turn: Turn) -> None:
        self._coordinators.hear_owner(TicketEpoch(item.ticket, item.epoch), sender)
        answer = self._witness.renew(item, turn.now)
        if answer is not None:
            turn.post(sender, answer)

    def _on_probe(self, sender: Process, item: items.Probe, turn: Turn) -> None:
        answer = self._witness.probe(item, turn.now)
        if answer is not None:
            turn.post(sender, answer)

    def _on_request_fence(self, sender: Process, item: items.RequestFence, turn: Turn) -> None:
        turn.post(sender, self._witness.fence(item, turn.now))

    # --- as whoever walks the ring: a coordinator, or else a founder ---

    def _on_fresh(self, sender: Process, item: items.Fresh, turn: Turn) -> None:
        if (session := self._coordinator.session) is not None:
            session.ring.on_fresh(sender, item)
        else:
            self._founder.on_fresh(sender, item, turn)

    def _on_stale(self, sender: Process, item: items.Stale, turn: Turn) -> None:
        session = self._coordinator.session
        if session is None or not item.record:
            self._founder.on_stale(sender, item, turn)
        elif not session.grants.is_busy():
            session.ring.on_stale(unpack(item.record).pointer())

    def _on_not_coordinator(self, sender: Process, item: items.NotCoordinator, turn: Turn) -> None:
        if (session := self._coordinator.session) is not None:
            session.exclusion.on_not_coordinator(sender, item, turn)
        else:
            self._founder.on_walk_answer(sender, item, turn)

    def _on_walk_answer(self, sender: Process, item: items.AckExclude | items.AckFence, turn: Turn) -> None:
        if (session := self._coordinator.session) is not None:
            session.exclusion.on_answer(sender, item, turn)
        else:
            self._founder.on_walk_answer(sender, item, turn)

    # --- as an applicant ---

    def _on_granted(self, sender: Process, item: items.AckAcquireTicket, turn: Turn) -> None:
        """Take a ticket if it is the one waited for; else deny it, so that it can be given to another."""
        record = unpack(item.record)
        ticket_epoch, session = record.ticket_epoch, self._coordinator.session
        self._applicant.hear_active(turn.now)
        if record.owner != turn.me or ticket_epoch.ticket >= self._tickets:
            return
        if session is not None and session.ticket_epoch == ticket_epoch:
            return  # it came twice
        taken = session is not None or self._founder.is_proposing() or self._coordinator.was_closed(ticket_epoch)
        if taken or not self._applicant.takes(item.nonce, ticket_epoch):
            self._coordinator.deny(sender, ticket_epoch, turn)
            return
        self._founder.cancel()
        self._applicant.begin_anew(turn.now)
        self._coordinator.open(record, item.base, turn)

    def _on_reject(self, sender: Process, item: items.RejectAcquireTicket, turn: Turn) -> None:
        if item.nonce != self._applicant.nonce or self._coordinator.session is not None:
            return
        if item.active:
            self._applicant.hear_active(turn.now)
        else:
            self._coordinators.forget(sender)
        for owner in unpack_processes(item.hints):
            if owner.pid != turn.me.pid and not self._peers.is_restarted(owner):
                self._coordinators.hear_hint(owner)
        self._applicant.on_reject(sender, turn.now, full=item.full)
