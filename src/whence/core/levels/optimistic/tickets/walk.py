"""The walk: close dead coordinators one after another along the ring, until one answers or the ring is round.

Promises: when it is done, every coordinator it passed will never act again, and none was left out between its start and
its end: each is closed either by its own word (soft) or by so many witnesses of it that no majority is left (hard),
and a witness's word shows the successor it registered before it could act on it.
Assumes: `drift_max` for the wait after a hard close; nothing about delays.
The sentence that decides: a hard close needs a blocking set of every witness set the victim may still count; then one
whole lease must pass on our clock since the last fence.
It walks by registered pointers, never by hearsay. Whoever takes everybody for lost fences only who renewed no lease
lately by the word of so many witnesses that no majority is left: who hears nothing may be deaf, also to witnesses.
Source: tickets_twolayer 4.7, 4.9, 4.10 (Lemmas A, B, C), X2; traps F2, F3, F11 to F14, F18, F20, F23, F25, F27, F28,
F30.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from whence.core.levels.optimistic.tickets.items import (
    AckExclude,
    AckFence,
    Exclude,
    NotCoordinator,
    Probe,
    RequestFence,
    Stale,
)
from whence.core.levels.optimistic.tickets.records import (
    Claim,
    Pointer,
    Processes,
    Record,
    blocking,
    majority,
    merged_last,
    unpack,
)
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.ready import Item
from whence.types import Instant, Process

ASKED_MAX = 2
"""Times a coordinator is asked whether it lives before its witnesses fence it."""

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
    MET = "met"


STEPS: dict[Stage, tuple[Stage, ...]] = {
    Stage.ASKING: (Stage.ASKING, Stage.FENCING, Stage.DRAINING, Stage.DONE, Stage.STUCK, Stage.MET),
    Stage.FENCING: (Stage.ASKING, Stage.DRAINING, Stage.DONE, Stage.STUCK),
    Stage.DRAINING: (Stage.DONE,),
    Stage.DONE: (),
    Stage.STUCK: (),
    Stage.MET: (),
}
"""From each stage, those that may follow. MET: someone lives who should not have been there, by its own word or by
that of most of its witnesses; only where nobody may."""


class Found(NamedTuple):
    """Where the walk ended: the next coordinator and what lies beyond it, or None where the ring is round."""

    succ: Pointer
    beyond: Pointer | None


class Walk:
    """One pass along the ring."""

    def __init__(
        self,
        settings: TicketSettings,
        own: Claim | None,
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
        self.closed: list[Claim] = []
        self.hard = False
        self.on_words = False
        """An operator's word stood for a witness, and what only that one knew is not known here."""
        self._settings = settings
        self._own = own
        self._dead = dead
        self._cur = first
        self._beyond = beyond
        self._best: Record | None = None
        self._acks: dict[Process, None] = {}
        self._fresh: dict[Process, None] = {}
        self._stale: dict[Process, None] = {}
        self._leaves = False
        self._asked = 0
        self._retry_at: Instant = 0
        self._drained_at: Instant = 0
        self._last_fence_at: Instant = 0

    # --- beginnings ---

    def ask(self, now: Instant, post: Post) -> None:
        """Begin by asking the first coordinator whether it lives."""
        self._ask(now, post)

    def fence(self, now: Instant, post: Post) -> None:
        """Begin by closing the first coordinator, which has been silent for long."""
        self._begin_fencing(now, post)

    def accept(self, record: Record | None, now: Instant, post: Post) -> None:
        """Begin with the first coordinator's own word that it is closed, and its final record if it ever had one."""
        self._advance(record, now, post)

    # --- answers ---

    def on_ack_exclude(self, sender: Process, item: AckExclude, now: Instant, post: Post) -> None:
        """Stop at a coordinator that lives."""
        if self.stage is not Stage.ASKING or (item.ticket, item.epoch) != self._cur.claim or sender != self._cur.owner:
            return
        record = unpack(item.record)
        if self._own is None and not item.leaving:
            self._step(Stage.MET)
        elif self._own is None:
            self._leaves = True  # it closes itself before long; until then its witnesses say that it lives
        else:
            self._end(Found(record.pointer(), record.succ), now)

    def on_fresh(self, sender: Process, claim: Claim) -> None:
        """Stop where most witnesses say that a coordinator renewed its lease a moment ago."""
        if self.stage is not Stage.ASKING or self._own is not None or claim != self._cur.claim or self._leaves:
            return
        self._fresh[sender] = None
        self._stale.pop(sender, None)
        # Of any of its sets: who heard of it lately need not be in one we know of together, and it lives all the same.
        if len(self._fresh) >= majority(self._sets()[0]):
            self._step(Stage.MET)

    def on_stale(self, sender: Process, item: Stale, post: Post) -> None:
        """Count a witness that was not renewed with; learn from one of before who took its place, and ask these too."""
        if self.stage is not Stage.ASKING or self._own is not None or (item.ticket, item.epoch) != self._cur.claim:
            return
        self._stale[sender] = None
        self._fresh.pop(sender, None)
        if not item.record:
            return
        record, known = unpack(item.record), self._best.version if self._best is not None else self._cur.version
        if record.claim != self._cur.claim or record.version <= known:
            return
        before = [witness for each in self._sets() for witness in each]
        self._best = record
        self._asked = min(self._asked, PROBED_MAX - 1)
        self._probe([witness for each in self._sets() for witness in each if witness not in before], post)

    def on_not_coordinator(self, sender: Process, item: NotCoordinator, now: Instant, post: Post) -> None:
        """Pass a coordinator that says itself that it is closed."""
        if (item.ticket, item.epoch) != self._cur.claim or sender != self._cur.owner:
            return
        if self.stage is Stage.ASKING and item.forgot:
            self._begin_fencing(now, post)
        elif self.stage in (Stage.ASKING, Stage.FENCING) and not item.forgot:
            self._advance(unpack(item.record) if item.record else None, now, post)

    def on_ack_fence(self, sender: Process, item: AckFence, now: Instant, post: Post) -> None:
        """Count a witness that will never renew the victim again, and learn what it knows of it."""
        if self.stage is not Stage.FENCING or (item.ticket, item.epoch) != self._cur.claim:
            return
        self._acks[sender] = None
        self._last_fence_at = now
        if item.record:
            record = unpack(item.record)
            if record.claim == self._cur.claim and (self._best is None or record.version > self._best.version):
                self._best = record
                self._request_fences(post)
        self._check_closed(now, post)

    def tick(self, now: Instant, post: Post) -> None:
        """Ask again where an answer is overdue; end the wait when leases have drained."""
        if self.stage is Stage.DRAINING and now >= self._drained_at:
            self._step(Stage.DONE)
        elif self.stage is Stage.ASKING and now >= self._retry_at:
            if self._asked >= (PROBED_MAX if self._own is None else ASKED_MAX) and self._may_fence():
                self._begin_fencing(now, post)
            else:
                self._ask(now, post)
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
        """Return the witnesses whose word is still needed, or would do: that they fence the victim, or, where everybody
        is taken for lost, first that it renewed no lease with them."""
        if self.stage is Stage.ASKING and self._own is None and self._asked >= PROBED_MAX:
            heard = (*self._fresh, *self._stale, *self._dead)
            unheard = [witness for each in self._sets() for witness in each if witness not in heard]
            return tuple(dict.fromkeys(unheard))
        if self.stage is not Stage.FENCING:
            return ()
        open_sets = [witnesses for witnesses in self._sets() if not self._blocked(witnesses)]
        silent = [witness for each in open_sets for witness in each if not self._fenced(witness)]
        return tuple(dict.fromkeys(silent))

    # --- steps ---

    def _may_fence(self) -> bool:
        """Tell whether silence is enough, or, where everybody is taken for lost, whether its witnesses say so too.

        Those that must say so are as many as must fence it: whoever could close it can also learn that.
        """
        if self._own is not None or self._leaves:
            return True
        return all(self._is_lost(each) for each in self._sets())

    def _is_lost(self, witnesses: Processes) -> bool:
        """Tell whether so many witnesses have not been renewed with lately that no majority is left."""
        return sum(each in self._stale or each in self._dead for each in witnesses) >= blocking(witnesses)

    def _ask(self, now: Instant, post: Post) -> None:
        self._asked += 1
        self._retry_at = now + 2 * self._settings.answer_ns
        post(self._cur.owner, Exclude(*self._cur.claim))
        if self._own is None:
            self._probe([witness for each in self._sets() for witness in each], post)

    def _probe(self, witnesses: list[Process], post: Post) -> None:
        for witness in dict.fromkeys(witnesses):  # those too that said it lives: that may have been its last lease
            post(witness, Probe(*self._cur.claim))

    def _begin_fencing(self, now: Instant, post: Post) -> None:
        self._step(Stage.FENCING)
        self._best = None
        self._acks = {}
        self._last_fence_at = now
        self._retry_at = now + 2 * self._settings.answer_ns
        self._request_fences(post)

    def _request_fences(self, post: Post) -> None:
        """Ask all witnesses of all sets that have not answered yet."""
        asked: dict[Process, None] = {}
        for witnesses in self._sets():
            for witness in witnesses:
                if not self._fenced(witness):
                    asked[witness] = None
        for witness in asked:
            post(witness, RequestFence(*self._cur.claim))

    def _sets(self) -> list[Processes]:
        """Return every witness set the victim may still count: those of its latest record known, else the pointer's.

        A record that names a set as installed proves that all earlier ones are no longer counted.
        """
        best = self._best
        if best is None or best.version < self._cur.version:
            return [self._cur.witnesses]
        return [best.witnesses, best.proposed] if best.proposed else [best.witnesses]

    def _fenced(self, witness: Process) -> bool:
        return witness in self._acks or witness in self._dead

    def _blocked(self, witnesses: Processes) -> bool:
        return sum(map(self._fenced, witnesses)) >= blocking(witnesses)

    def _check_closed(self, now: Instant, post: Post) -> None:
        if not all(map(self._blocked, self._sets())):
            return
        fenced = [sum(witness in self._acks for witness in each) >= blocking(each) for each in self._sets()]
        self.on_words = self.on_words or not all(fenced)
        told = [self._dead[witness] for each in self._sets() for witness in each if witness in self._dead]
        self._last_fence_at = max([self._last_fence_at, *told])  # until it was declared dead it may have renewed
        self.hard = True
        self._advance(self._best, now, post)

    def _advance(self, record: Record | None, now: Instant, post: Post) -> None:
        """Leave a closed coordinator behind, and go where its last record points; if it never had one, beyond it."""
        cur = self._cur
        self.top = max(self.top, cur.claim.epoch, record.top if record is not None else 0)
        self.closed.append(cur.claim)
        if record is not None:
            self.last = merged_last(self.last, record.last)
        ahead, further = (record.succ, record.beyond) if record is not None else (self._beyond, None)
        if ahead is None or len(self.closed) > STEPS_MAX:
            self._step(Stage.STUCK)
        elif ahead.claim == self._own or (self._own is None and ahead.claim in self.closed):
            self._end(None, now)
        elif ahead.claim in self.closed:
            self._step(Stage.STUCK)
        else:
            self._cur, self._beyond, self._asked, self._best, self._acks = ahead, further, 0, None, {}
            self._fresh, self._stale, self._leaves = {}, {}, False
            self._step(Stage.ASKING)
            self._ask(now, post)

    def _end(self, found: Found | None, now: Instant) -> None:
        """Wait until every lease that a fence cut off has ended, if there was any."""
        self.found = found
        self._drained_at = self._drain_from() + self._settings.wait_ns
        self._step(Stage.DRAINING if self.hard and now < self._drained_at else Stage.DONE)

    def _drain_from(self) -> Instant:
        return self._last_fence_at

    def _step(self, to: Stage) -> None:
        assert to in STEPS[self.stage], (self.stage, to)
        self.stage = to
