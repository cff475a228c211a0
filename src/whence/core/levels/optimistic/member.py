"""A member of a cluster: receives as any member does, and publishes only as a coordinator, under its ticket.

Gossip below, two-layer delivery above, and beside them the manager of the cluster's tickets. Publishing asks it for
leave at that very moment; what is published carries its ticket and epoch, so receivers can drop what comes after the
ticket was given to another. Source: docs/papers/optimistic.md 4.12, 5, 6.2, 6.7.
"""

from collections.abc import Sequence

from whence.core.levels.optimistic.delivery import TwoLayerDelivery
from whence.core.levels.optimistic.recovery import Recover, Recovered
from whence.core.levels.optimistic.tickets.items import ITEMS
from whence.core.levels.optimistic.tickets.manager import TicketManager
from whence.core.membership.partial_view import PartialView
from whence.core.ready import Gauge, Item, Note, Ready
from whence.core.staged import Lifecycle, StagedMember
from whence.core.stages import Spread
from whence.core.ticket_status import TicketStatus, dead_process
from whence.errors import UsageError, WhenceError
from whence.limits import Limits
from whence.types import Bundle, Instant, Process

_RECOVERY = (Recover, Recovered)

ACT_ALIASES = {"cjoin": "acquire_ticket", "cleave": "release_ticket"}
"""The paper's names of acts, as scenario files have them."""


class OptimisticMember(StagedMember):
    """One member of one cluster."""

    def __init__(
        self,
        me: Process,
        delivery: TwoLayerDelivery,
        spread: Spread,
        members: PartialView,
        limits: Limits,
        tickets: TicketManager,
    ) -> None:
        super().__init__(me, delivery, spread, members, limits)
        self._delivery = delivery
        self._tickets = tickets

    # --- the application's door ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start as one of the first members: no cluster can have been founded yet."""
        for peer in peers:
            self._tickets.peers.hear(peer, now)
        ready = super().found(peers, now)
        ready.persist += self._tickets.begin()
        return ready

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Ask the contacts to be let in."""
        ready = super().join(contacts, now)
        ready.persist += self._tickets.remember()
        return ready

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Take up what this process promised as a witness and as a seed in earlier incarnations. Raises StorageError
        where it may not: the seeds were others."""
        return Ready(persist=self._tickets.restore(records, now))

    def has_begun(self) -> bool:
        """Tell whether an earlier incarnation of this process was a member of the group, by its journal."""
        return self._tickets.memory.restored

    def checkpoint(self) -> list[bytes]:
        """Return what a new incarnation needs of everything this one persisted: its promises as witness and seed."""
        return self._tickets.checkpoint()

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events under the ticket. Raises NotCoordinatorError, LeaseSuspendedError, or what any member does."""
        if self.lifecycle is Lifecycle.MEMBER:
            session = self._tickets.authorize(now)
            self._delivery.epoch.begin(session.ticket_epoch, session.base)
        return super().publish(payloads, now)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Do what only this level knows: acquire_ticket, release_ticket, declare_dead, distrust_clock.

        The paper calls the first two cjoin and cleave; these names are accepted too. Raises UsageError.
        """
        ready = Ready()
        if name == "distrust_clock":
            self._tickets.drop_leases(now, ready)
            return self._wake_by(ready, now)
        name = ACT_ALIASES.get(name, name)
        if self.lifecycle is not Lifecycle.MEMBER:
            raise UsageError(f"only a member may {name}, and this process is {self.lifecycle.value}")
        match name:
            case "acquire_ticket":
                self._tickets.acquire(now)
                ready.notes.append(Note("note", "ticket_asked"))
            case "release_ticket":
                self._tickets.release(now, ready)
            case "declare_dead":
                self._tickets.declare_dead(dead_process(argument), now)
            case _:
                raise UsageError(
                    f"members of this level know acquire_ticket, release_ticket and declare_dead, not {name!r}"
                )
        return self._wake_by(ready, now)

    def leave(self, now: Instant) -> Ready:
        """Begin to leave: first give the ticket back, then leave the group."""
        ready = super().leave(now)
        self._tickets.depart(now, ready)
        return self._wake_by(ready, now)

    def status(self, now: Instant) -> TicketStatus:
        """Return how this process stands in the cluster: its ticket, and how long its lease lasts."""
        return self._tickets.status(now)

    def refusal(self, now: Instant) -> WhenceError | None:
        """Return the error that publishing now would raise for want of a ticket or a lease."""
        return self._tickets.refusal(now) if self.lifecycle is Lifecycle.MEMBER else None

    # --- inputs ---

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item: those of tickets and recovery here, all others as any member does."""
        if isinstance(item, ITEMS):
            ready = Ready()
            if self.lifecycle not in (Lifecycle.OUTSIDE, Lifecycle.LEFT):
                self._tickets.receive(sender, item, now, ready)
                return self._wake_by(ready, now)
            return ready
        if isinstance(item, _RECOVERY):
            ready = Ready()
            if self.lifecycle in (Lifecycle.MEMBER, Lifecycle.LEAVING):
                self._delivery.receive(sender, item, now, ready)
            else:
                ready.notes.append(Note("drop", "not_member", peer=sender.pid))
            return self._wake_by(ready, now)
        if self.lifecycle not in (Lifecycle.OUTSIDE, Lifecycle.LEFT):
            self._tickets.peers.hear(sender, now)
        ready = super().receive(sender, item, now)
        # Nothing a coordinator waits for comes sooner by it, and coordinators are the members that receive most.
        return ready if self._tickets.coordinator.session is not None else self._wake_by(ready, now)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Learn that something sent to a peer did not arrive."""
        self._delivery.publishers.suspect(peer)
        return self._wake_by(super().unreachable(peer, now), now)

    def tick(self, now: Instant) -> Ready:
        """Do what time asks for, the tickets' rounds too."""
        ready = super().tick(now)
        if self.lifecycle not in (Lifecycle.OUTSIDE, Lifecycle.LEFT):
            self._tickets.tick(now, ready)
        return self._wake_by(ready, now)

    def gauges(self) -> list[Gauge]:
        """Return how full every buffer is."""
        return [*super().gauges(), *self._tickets.gauges()]

    def _gone(self) -> bool:
        return super()._gone() and self._tickets.is_idle()

    def _wake_by(self, ready: Ready, now: Instant) -> Ready:
        """Ask to be woken for the tickets too."""
        if self.lifecycle in (Lifecycle.OUTSIDE, Lifecycle.LEFT):
            return ready
        self._wake(ready)
        at = self._tickets.wake_at(now)
        if at is not None and (ready.wake_at is None or at < ready.wake_at):
            ready.wake_at = at
        return ready
