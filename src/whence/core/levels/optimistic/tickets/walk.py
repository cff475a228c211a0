"""The walk: close dead coordinators one after another along the ring, until one answers or the ring is round.

Promises: when it is done, no coordinator it passed will ever act again, and none was left out between its start and its
end: each is closed either by its own word (soft) or by so many of its witnesses that no majority is left (hard), and a
witness's answer shows the successor that was registered before it could act.
Assumes: `drift_max` for the wait after a hard close; nothing about delays.
The sentence that decides: a hard close needs a blocking set of every witness set the victim may still count; then one
whole lease must pass on our clock since the last fence, and more where a witness says that it lent longer ones.
It walks by registered pointers, never by hearsay. A founder that takes everybody for lost (a total-loss walk) fences
only those that renewed no lease lately by the word of so many witnesses that no majority is left: a founder that hears
nothing may be cut off itself, from witnesses too.
Source: docs/papers/optimistic.md 4.7, 4.9, 4.10 (Lemmas A, B, C), X2; traps F2, F3, F11 to F14, F18, F20, F23, F25,
F27, F28, F30.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from whence.core.levels.optimistic.tickets.items import (
    AckExclude,
    AckFence,
    Exclude,
    Fresh,
    NotCoordinator,
    Probe,
    RequestFence,
    Stale,
)
from whence.core.levels.optimistic.tickets.lease import NEVER
from whence.core.levels.optimistic.tickets.record_bytes import unpack
from whence.core.levels.optimistic.tickets.records import Pointer, Processes, Record, TicketEpoch, merged_last
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.victim import Victim
from whence.core.ready import Item
from whence.types import Instant, Process

ASKED_MAX = 2
"""Times a coordinator is asked whether it lives before its witnesses are asked to fence it."""

PROBED_MAX = 3
"""The same where everybody is taken for lost: its witnesses are asked too, and one lost answer must not count."""

STEPS_MAX = 4096
"""A ring has no more coordinators than tickets."""

Post = Callable[[Process, Item], None]


class Stage(Enum):
    """What the walk waits for."""

    ASKING = "asking"
    FENCING = "fencing"
    DRAINING = "draining"
    DONE = "done"
    STUCK = "stuck"
    ALIVE = "alive"


TRANSITIONS: dict[Stage, tuple[Stage, ...]] = {
    Stage.ASKING: (Stage.ASKING, Stage.FENCING, Stage.DRAINING, Stage.DONE, Stage.STUCK, Stage.ALIVE),
    Stage.FENCING: (Stage.ASKING, Stage.DRAINING, Stage.DONE, Stage.STUCK),
    Stage.DRAINING: (Stage.DONE,),
    Stage.DONE: (),
    Stage.STUCK: (),
    Stage.ALIVE: (),
}
"""From each stage, those that may follow. ALIVE ends a total-loss walk: a coordinator lives, by its own word or by that
of most of its witnesses."""


class Found(NamedTuple):
    """Where the walk ended: the next coordinator and what lies beyond it, or None where the ring is round."""

    succ: Pointer
    beyond: Pointer | None


class Walk:
    """One pass along the ring: a coordinator's own, which ends at a live successor, or a founder's total-loss walk."""

    def __init__(
        self,
        settings: TicketSettings,
        own: TicketEpoch | None,
        first: Pointer,
        beyond: Pointer | None,
        dead: dict[Process, Instant],
    ) -> None:
        self.stage = Stage.ASKING
        self.found: Found | None = None
        self.top = 0
        """The largest epoch seen on the way."""
        self.last = b""
        """The last events known of what was closed."""
        self.closed: list[TicketEpoch] = []
        self.hard = False
        """Somebody was closed by its witnesses, so leases must drain."""
        self.relied_on_operator = False
        """An operator's word stood for a witness, and what only that one knew is not known here."""
        self._settings = settings
        self._own = own
        """Who walks; None for a total-loss walk."""
        self._dead = dead
        self._victim = Victim(first, beyond, dead)
        self._retry_at: Instant = 0
        self._drained_at: Instant = 0
        self._last_fence_at: Instant = 0
        self._leases_end_at: Instant = NEVER
        """When every lease has ended of which a witness said how long it may be counted on."""

    # --- beginnings ---

    def ask(self, now: Instant, post: Post) -> None:
        """Ask the coordinator the walk has come to whether it lives; in a total-loss walk, its witnesses too."""
        victim = self._victim
        victim.asked += 1
        self._retry_at = now + 2 * self._settings.answer_ns
        post(victim.pointer.owner, Exclude(*victim.ticket_epoch))
        if self._own is None:
            self._probe(victim.witnesses(), post)

    def fence(self, now: Instant, post: Post) -> None:
        """Ask the witnesses of the coordinator the walk has come to, which is silent, to close it."""
        self._step(Stage.FENCING)
        self._victim.begin_fencing()
        self._last_fence_at = now
        self._retry_at = now + 2 * self._settings.answer_ns
        self._request_fences(post)

    def accept(self, record: Record | None, now: Instant, post: Post) -> None:
        """Take the coordinator's own word that it is closed, and its final record if it ever had one."""
        self._advance(record, now, post)

    # --- answers ---

    def on_ack_exclude(self, sender: Process, item: AckExclude, now: Instant, post: Post) -> None:
        """Stop at a coordinator that lives."""
        victim = self._victim
        if (item.ticket, item.epoch) != victim.ticket_epoch or sender != victim.pointer.owner:
            return
        if self.stage is not Stage.ASKING:
            return
        record = unpack(item.record)
        if self._own is not None:
            self._end(Found(record.pointer(), record.succ), now)
        elif item.leaving:
            victim.leaving = True
        else:
            self._step(Stage.ALIVE)

    def on_fresh(self, sender: Process, item: Fresh) -> None:
        """Stop where most witnesses say that a coordinator renewed its lease a moment ago."""
        victim = self._victim
        if self.stage is not Stage.ASKING or self._own is not None:
            return
        if (item.ticket, item.epoch) == victim.ticket_epoch and not victim.leaving:
            victim.on_fresh(sender, item.since)
            if victim.is_alive():
                self._step(Stage.ALIVE)

    def on_stale(self, sender: Process, item: Stale, post: Post) -> None:
        """Count a witness that was not renewed with; learn from a former one who took its place, and ask these too."""
        victim = self._victim
        if self.stage is not Stage.ASKING or self._own is not None or (item.ticket, item.epoch) != victim.ticket_epoch:
            return
        victim.on_stale(sender, item.since)
        if not item.record:
            return
        record, known = unpack(item.record), victim.record or victim.pointer
        if record.ticket_epoch != victim.ticket_epoch or record.version <= known.version:
            return
        before = victim.witnesses()
        victim.record = record
        victim.asked = min(victim.asked, PROBED_MAX - 1)
        self._probe([witness for witness in victim.witnesses() if witness not in before], post)

    def on_not_coordinator(self, sender: Process, item: NotCoordinator, now: Instant, post: Post) -> None:
        """Pass a coordinator that says itself that it is closed."""
        victim = self._victim
        if (item.ticket, item.epoch) != victim.ticket_epoch or sender != victim.pointer.owner:
            return
        if self.stage is Stage.ASKING and item.forgot:
            self.fence(now, post)
        elif self.stage in (Stage.ASKING, Stage.FENCING) and not item.forgot:
            self._advance(unpack(item.record) if item.record else None, now, post)

    def on_ack_fence(self, sender: Process, item: AckFence, now: Instant, post: Post) -> None:
        """Count a witness that will never renew the victim again, and learn what it knows of it."""
        victim = self._victim
        if self.stage is not Stage.FENCING or (item.ticket, item.epoch) != victim.ticket_epoch:
            return
        victim.acks.add(sender, item.since)
        self._last_fence_at = now
        self._leases_end_at = max(self._leases_end_at, now + item.wait_ns)
        if item.record:
            record = unpack(item.record)
            newer = victim.record is None or record.version > victim.record.version
            if record.ticket_epoch == victim.ticket_epoch and newer:
                victim.record = record
                self._request_fences(post)
        self._check_closed(now, post)

    def tick(self, now: Instant, post: Post) -> None:
        """Ask again where an answer is overdue; end the wait when leases have drained."""
        if self.stage is Stage.DRAINING and now >= self._drained_at:
            self._step(Stage.DONE)
        elif self.stage is Stage.ASKING and now >= self._retry_at:
            if self._victim.asked >= (PROBED_MAX if self._own is None else ASKED_MAX) and self._may_fence():
                self.fence(now, post)
            else:
                self.ask(now, post)
        elif self.stage is Stage.FENCING and now >= self._retry_at:
            self._retry_at = now + 2 * self._settings.answer_ns
            self._request_fences(post)
            self._check_closed(now, post)

    def wake_at(self) -> Instant | None:
        """Return when tick has something to do."""
        if self.stage is Stage.DRAINING:
            return self._drained_at
        return self._retry_at if self.stage in (Stage.ASKING, Stage.FENCING) else None

    def waits_for(self) -> Processes:
        """Return the witnesses whose answer is still needed, or would do: that they fence the victim, or, in a
        total-loss walk, first that it renewed no lease with them."""
        victim = self._victim
        if self.stage is Stage.ASKING and self._own is None and victim.asked >= PROBED_MAX:
            return victim.unheard()
        return victim.unfenced() if self.stage is Stage.FENCING else ()

    # --- steps ---

    def _may_fence(self) -> bool:
        """Tell whether silence is enough, or, in a total-loss walk, whether the victim's witnesses miss it too.

        Those that must say so are as many as must fence it: whoever could close it can also learn that.
        """
        return self._own is not None or self._victim.leaving or self._victim.is_lost()

    def _probe(self, witnesses: list[Process], post: Post) -> None:
        for witness in witnesses:  # those too that said it lives: that may have been its last lease
            post(witness, Probe(*self._victim.ticket_epoch))

    def _request_fences(self, post: Post) -> None:
        """Ask all witnesses of all sets that have not answered yet."""
        for witness in self._victim.witnesses():
            if not self._victim.is_fenced_by(witness):
                post(witness, RequestFence(*self._victim.ticket_epoch))

    def _check_closed(self, now: Instant, post: Post) -> None:
        victim = self._victim
        if not victim.is_closed():
            return
        self.relied_on_operator = self.relied_on_operator or victim.needed_operator()
        self._last_fence_at = max([self._last_fence_at, *victim.declared_at()])
        self.hard = True
        self._advance(victim.record, now, post)

    def _advance(self, record: Record | None, now: Instant, post: Post) -> None:
        """Leave a closed coordinator behind, and go where its last record points; if it never had one, beyond it."""
        passed = self._victim
        self.top = max(self.top, passed.ticket_epoch.epoch, record.top if record is not None else 0)
        self.closed.append(passed.ticket_epoch)
        if record is not None:
            self.last = merged_last(self.last, record.last)
        ahead, further = (record.succ, record.beyond) if record is not None else (passed.beyond, None)
        if ahead is None or len(self.closed) > STEPS_MAX:
            self._step(Stage.STUCK)
        elif ahead.ticket_epoch == self._own or (self._own is None and ahead.ticket_epoch in self.closed):
            self._end(None, now)
        elif ahead.ticket_epoch in self.closed:
            self._step(Stage.STUCK)
        else:
            self._victim = Victim(ahead, further, self._dead)
            self._step(Stage.ASKING)
            self.ask(now, post)

    def _end(self, found: Found | None, now: Instant) -> None:
        """Wait until every lease that a fence cut off has ended, if there was any."""
        self.found = found
        self._drained_at = self._leases_end()
        self._step(Stage.DRAINING if self.hard and now < self._drained_at else Stage.DONE)

    def _leases_end(self) -> Instant:
        """Return when no lease counts any more that was lent before a fence, by this cluster's settings or others."""
        return max(self._last_fence_at + self._settings.wait_ns, self._leases_end_at)

    def _step(self, to: Stage) -> None:
        assert to in TRANSITIONS[self.stage], (self.stage, to)
        self.stage = to
