"""A member of a cluster: receives as any member does, and publishes only as a coordinator, under its ticket.

The node of level `optimistic`: gossip below, two-layer delivery above, and a desk for the cluster's tickets beside
them. Publishing asks the desk in the very moment; what it publishes carries its claim, so that receivers can drop what
comes after the claim was given to another. Source: tickets_twolayer 4.12, 5, 6.2, 6.7.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence.core.levels.optimistic.delivery import Optimistic
from whence.core.levels.optimistic.recovery import Recover, Recovered
from whence.core.levels.optimistic.tickets.desk import Desk
from whence.core.levels.optimistic.tickets.items import ITEMS
from whence.core.levels.optimistic.tickets.joining import Status
from whence.core.membership.partial_view import PartialView
from whence.core.ready import Gauge, Item, Note, Ready
from whence.core.staged import Life, Node
from whence.core.stages import Spread
from whence.errors import UsageError, WhenceError
from whence.limits import BOOT_MAX, Limits
from whence.types import Bundle, Instant, Process

if TYPE_CHECKING:
    pass

_RECOVERY = (Recover, Recovered)
BOOTS = BOOT_MAX + 1
"""The argument of `declare_dead` is pid × BOOTS + boot."""


def named(process: Process) -> int:
    """Return a process as the argument of `declare_dead`."""
    return process.pid * BOOTS + process.boot


class ClusterNode(Node):
    """One member of one cluster."""

    def __init__(
        self, me: Process, order: Optimistic, spread: Spread, members: PartialView, limits: Limits, desk: Desk
    ) -> None:
        super().__init__(me, order, spread, members, limits)
        self._layer = order
        self._desk = desk

    # --- the application's door ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start as one of the first members: no cluster can have been founded yet."""
        self._desk.begin()
        for peer in peers:
            self._desk.neighbours.hear(peer, now)
        return super().found(peers, now)

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Take up what this peer promised as a seed in an earlier life."""
        self._desk.restore(list(records))
        return Ready()

    def checkpoint(self) -> list[bytes]:
        """Return what a new life needs of everything this one persisted: a seed's last word."""
        return self._desk.checkpoint()

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events under the ticket. Raises NotCoordinatorError, LeaseSuspendedError, or what any member does."""
        if self.life is Life.MEMBER:
            claim = self._desk.authorize(now)
            seat = self._desk.seat
            self._layer.begin_epoch(claim, seat.base if seat is not None else 0)
        return super().publish(payloads, now)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Do what only this level knows: cjoin, cleave, declare_dead, distrust_clock. Raises UsageError."""
        if name == "distrust_clock":
            ready = Ready()
            self._desk.drop_leases(now, ready)
            return self._wake_by(ready, now)
        if self.life is not Life.MEMBER:
            raise UsageError(f"only a member may {name}, and this process is {self.life.value}")
        ready = Ready()
        match name:
            case "cjoin":
                self._desk.cjoin(now)
                ready.notes.append(Note("note", "ticket_asked"))
            case "cleave":
                self._desk.cleave(now, ready)
            case "declare_dead":
                self._desk.declare_dead(Process(argument // BOOTS, argument % BOOTS), now)
            case _:
                raise UsageError(f"members of this level know cjoin, cleave and declare_dead, not {name!r}")
        return self._wake_by(ready, now)

    def leave(self, now: Instant) -> Ready:
        """Begin to leave: first the cluster's core, then the group."""
        ready = super().leave(now)
        self._desk.depart(now, ready)
        return self._wake_by(ready, now)

    def status(self, now: Instant) -> Status:
        """Return how this process stands in the cluster: its ticket, and how long its lease lasts."""
        return self._desk.status(now)

    def refusal(self, now: Instant) -> WhenceError | None:
        """Return the error that publishing now would raise for want of a ticket or a lease."""
        return self._desk.refusal(now) if self.life is Life.MEMBER else None

    # --- inputs ---

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item: tickets' and recovery's here, all others as any member does."""
        if isinstance(item, ITEMS):
            ready = Ready()
            if self.life not in (Life.OUTSIDE, Life.LEFT):
                self._desk.receive(sender, item, now, ready)
                return self._wake_by(ready, now)
            return ready
        if isinstance(item, _RECOVERY):
            ready = Ready()
            if self.life in (Life.MEMBER, Life.LEAVING):
                self._layer.receive(sender, item, now, ready)
            else:
                ready.notes.append(Note("drop", "not_member", peer=sender.pid))
            return self._wake_by(ready, now)
        if self.life not in (Life.OUTSIDE, Life.LEFT):
            self._desk.neighbours.hear(sender, now)
        ready = super().receive(sender, item, now)
        # Nothing that a seat waits for comes sooner by it, and members with a seat are those who receive most.
        return ready if self._desk.seat is not None else self._wake_by(ready, now)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Learn that something sent to a peer did not arrive."""
        self._layer.unreachable(peer)
        return self._wake_by(super().unreachable(peer, now), now)

    def tick(self, now: Instant) -> Ready:
        """Do what time asks for, the tickets' rounds too."""
        ready = super().tick(now)
        if self.life not in (Life.OUTSIDE, Life.LEFT):
            self._desk.tick(now, ready)
        return self._wake_by(ready, now)

    def gauges(self) -> list[Gauge]:
        """Return how full every buffer is."""
        return [*super().gauges(), *self._desk.gauges()]

    def _gone(self) -> bool:
        return super()._gone() and self._desk.idle()

    def _wake_by(self, ready: Ready, now: Instant) -> Ready:
        """Ask to be woken for the tickets too."""
        if self.life in (Life.OUTSIDE, Life.LEFT):
            return ready
        self._wake(ready)
        at = self._desk.wake_at(now)
        if at is not None and (ready.wake_at is None or at < ready.wake_at):
            ready.wake_at = at
        return ready
