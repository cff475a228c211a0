"""Exclusion: a coordinator closes its successor when that is silent or says itself that it is closed.

Promises: what its walk closed is taken over only by a registered change, while it holds its own leases. Without them it
drops the walk: the fences stay, and the ring can be walked again. It never gives up its own ticket for want of answers.
Source: docs/papers/optimistic.md 4.6, 4.7; traps F11, F19, F20, F23, F28, F30, F35.
"""

from collections.abc import Callable

from whence.core.levels.optimistic.tickets.authority import Authority
from whence.core.levels.optimistic.tickets.items import AckExclude, AckFence, NotCoordinator
from whence.core.levels.optimistic.tickets.record_bytes import unpack
from whence.core.levels.optimistic.tickets.registration import Registration
from whence.core.levels.optimistic.tickets.ring import Ring
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.levels.optimistic.tickets.walk import Stage, Walk
from whence.core.ready import RandomSource
from whence.types import Instant, Process


class Exclusion:
    """One coordinator's walk along the ring, if there is one."""

    walk_type: type[Walk] = Walk

    def __init__(
        self,
        authority: Authority,
        registration: Registration,
        ring: Ring,
        settings: TicketSettings,
        dead: dict[Process, Instant],
        rng: RandomSource,
        on_closed: Callable[[Walk, Turn], None],
    ) -> None:
        self.walk: Walk | None = None
        self._authority = authority
        self._registration = registration
        self._ring = ring
        self._settings = settings
        self._dead = dead
        self._rng = rng
        self._on_closed = on_closed
        """Told of a walk that is done, while it may be acted upon."""

    def watch_successor(self, turn: Turn) -> None:
        """Count an unanswered greeting; probe, and close the successor when nobody else hears of it either."""
        ring, record = self._ring, self._authority.record
        if record.alone() or not self._authority.may_act(turn.now):
            return
        ring.count_greeting()
        free = self._registration.pending is None and self.walk is None
        if ring.is_successor_lost() and free and self._rng() < self._settings.exclude_chance:
            turn.note("exclusion", *record.succ.ticket_epoch)
            self._new_walk().fence(turn.now, turn.post)
            self._follow(turn)
        else:
            ring.probe_if_missed(turn)

    def on_not_coordinator(self, sender: Process, item: NotCoordinator, turn: Turn) -> None:
        """Close a successor that says itself that it is closed: no fence, no wait."""
        if self.walk is not None:
            self.walk.on_not_coordinator(sender, item, turn.now, turn.post)
            self._follow(turn)
            return
        succ = self._authority.record.succ
        if (item.ticket, item.epoch) != succ.ticket_epoch or sender != succ.owner:
            return
        if self._registration.pending is not None or not self._authority.may_act(turn.now):
            return
        walk = self._new_walk()
        if item.forgot:
            walk.fence(turn.now, turn.post)
        else:
            turn.note("soft_close", *succ.ticket_epoch)
            walk.accept(unpack(item.record) if item.record else None, turn.now, turn.post)
        self._follow(turn)

    def on_answer(self, sender: Process, item: AckExclude | AckFence, turn: Turn) -> None:
        """Let the walk hear an answer."""
        if self.walk is None:
            return
        if isinstance(item, AckExclude):
            self.walk.on_ack_exclude(sender, item, turn.now, turn.post)
        else:
            self.walk.on_ack_fence(sender, item, turn.now, turn.post)
        self._follow(turn)

    def tick(self, turn: Turn) -> None:
        """Do what the walk waits for."""
        if self.walk is not None:
            self.walk.tick(turn.now, turn.post)
            self._follow(turn)

    def abandon(self) -> None:
        """Walk no further: without leases nothing may be taken over."""
        self.walk = None

    def _new_walk(self) -> Walk:
        record = self._authority.record
        self.walk = self.walk_type(self._settings, record.ticket_epoch, record.succ, record.beyond, self._dead)
        return self.walk

    def _follow(self, turn: Turn) -> None:
        """Take over what the walk closed; drop a walk that is stuck, or that the leases do not last for."""
        walk = self.walk
        if walk is None:
            return
        if walk.stage is Stage.STUCK or not self._authority.may_act(turn.now):
            self.walk = None
            self._ring.forgive()
        elif walk.stage is Stage.DONE and self._registration.pending is None:
            self.walk = None
            self._on_closed(walk, turn)
