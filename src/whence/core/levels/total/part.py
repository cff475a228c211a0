"""What a member of a merged group is made of, which part it plays, and the guards of its state.

A follower that becomes a merger follows on until publishers have sent to it for δ: else it would leave out what was on
its way to the others. One that is replaced goes on as a follower after its last key.
Every input first runs the guards: state that cannot be is repaired and noted, and nothing is published for ε ticks.
"""

from collections import deque

from whence.core.clocks.stamp import FIRST_KEY, MergeKey, StampClock, Standing, last_key_of, low_key, tick_of
from whence.core.clocks.ticks import Ticks
from whence.core.levels.total.desk import Desk
from whence.core.levels.total.following import Following
from whence.core.levels.total.holes import Holes
from whence.core.levels.total.items import Bye
from whence.core.levels.total.merged import Merger
from whence.core.levels.total.meter import Meter
from whence.core.levels.total.outbox import Outbox
from whence.core.levels.total.roles import Roles
from whence.core.levels.total.roster import Roster, to_record
from whence.core.levels.total.settings import ALL_TOPICS, TotalSettings
from whence.core.ready import Mark, Note, Ready, Send
from whence.core.staged import STEPS, Life
from whence.errors import NotMemberError
from whence.types import Bundle, Instant, Process

_ASIDES_KEPT = 64
"""Late bundles a follower remembers, so that a copy of one is not handed out twice."""


class Part:
    """The state of a member, and its part in the group."""

    merger_kind: type[Merger] = Merger
    following_kind: type[Following] = Following
    holes_kind: type[Holes] = Holes

    def __init__(self, me: Process, settings: TotalSettings, now: Instant) -> None:
        self.me = me
        self.life = Life.OUTSIDE
        self._settings = settings
        self._timing = settings.timing
        merge = settings.merge
        self._ticks = Ticks(merge.tick_ns, settings.timing)
        self._rt = self._ticks.read(now)
        self._meter = Meter(self._rt)
        self._clock: StampClock[object] = settings.stamp_clock()
        self._clock.start(self._rt)
        self._follows = me.boot > 1
        """An earlier life of this process may have published."""
        self._quarantine_until = self._rt + self._timing.epsilon if self._follows else 0
        self._stalled = self._unanswered = False
        self._repairs = 0
        self._published = 0
        self._topic = 0
        delta_ns = settings.timing.delta * merge.tick_ns
        self._patience_ns = merge.patience_beats * merge.beat_ns
        self._outbox = Outbox(
            settings.resend_ns, delta_ns, settings.limits.outbox_bundles_max, doubt_ns=delta_ns + self._patience_ns
        )
        self._roles = Roles(me, settings)
        self._targets: tuple[int, ...] = ()
        self._merger: Merger | None = None
        self._desk: Desk | None = None
        self._next_position = 0
        """Where the log of this life goes on when this member merges again."""
        self._following: Following | None = None
        self._warm_at = 0
        """A follower that became a merger follows on until this tick: then all publishers have known of it for δ."""
        self._holes = self.holes_kind()
        self._alive_at = 0
        self._leave_by = 0
        self._asides: deque[int] = deque(maxlen=_ASIDES_KEPT)
        self._unsaid: list[Note] = []
        """What was noted by an input that was then refused; the next Ready tells it."""

    def is_first_life(self) -> None:
        """Learn that this process never lived before, whatever its incarnation."""
        self._follows, self._quarantine_until = False, 0

    # --- who merges ---

    def _keep(self, roster: Roster, now: Instant, ready: Ready) -> None:
        """Act by a roster, in later lives too."""
        self._roles.take(roster, now)
        self._targets = self._targets_now()
        if self._settings.merge.journal:
            ready.persist.append(to_record(roster))

    def _targets_now(self) -> tuple[int, ...]:
        """Return whom publications go to."""
        return self._roles.targets

    def _new_merger(self) -> Merger:
        return self.merger_kind(self._timing, self._settings.limits, self._settings.merge.release)

    def _merge(self) -> Desk:
        """Begin to merge, and to serve whoever follows."""
        self._merger = self._merger or self._new_merger()
        self._outbox.look_no_more()
        merge = self._settings.merge
        self._desk = Desk(self._settings.limits, merge.beat_ns, self._patience_ns, self._next_position)
        return self._desk

    def _follow(self, last: MergeKey | None, now: Instant, ready: Ready) -> None:
        """Begin to follow a merger, after a key."""
        roles, beat_ns = self._roles, self._settings.merge.beat_ns
        self._following = self.following_kind(roles.others, roles.home, ALL_TOPICS, beat_ns, self._patience_ns)
        self._following.last = last
        self._following.begin(now, ready)

    def _adopt(self, roster: Roster, now: Instant, ready: Ready) -> None:
        """Learn who merges now, and take the part that is this member's."""
        knew = self._roles.roster.version > 0
        self._keep(roster, now, ready)
        if not knew or (self._roles.merges and self.life is Life.JOINING):
            self._following = None
            self._take_part(now, ready)
        elif self._roles.merges and self._merger is None:
            self._merger = self._new_merger()
            beats = 4 * self._settings.merge.beat_ns // self._settings.merge.tick_ns
            self._warm_at = self._rt + self._timing.delta + 2 * self._timing.epsilon + beats
        elif not self._roles.merges and self._merger is not None:
            self._resign(now, ready)
        if self._following is not None and self._roles.others:
            self._following.among(self._roles.others, self._roles.home, now, ready)

    def _resign(self, now: Instant, ready: Ready) -> None:
        """Merge no more: another does. What is held comes in its stream."""
        assert self._merger is not None
        if self._desk is not None:
            self._next_position = self._desk.log.end
            if self._desk.followers():
                ready.send.append(Send(self._desk.followers(), Bye()))
            self._follow(self._merger.last, now, ready)
        self._merger = self._desk = None

    def _warm_up(self, ready: Ready) -> None:
        """Forget what the stream that is followed has passed; once publishers have sent here for δ, merge alone."""
        assert self._merger is not None
        following = self._following
        last = following.last if following is not None else None
        if last is not None:
            self._merger.discard_through(last)
        if self._rt >= self._warm_at:
            if following is not None:
                ready.send.append(Send((following.merger,), Bye()))
            self._following = None
            self._merger.last = max(self._merger.last, last or FIRST_KEY)
            self._merge().log.floor = self._merger.last

    def _take_part(self, now: Instant, ready: Ready) -> None:
        """Begin as a newcomer that knows who merges."""
        self._targets = self._targets_now()
        if not self._roles.merges:
            self._follow(None, now, ready)
            return
        desk = self._merge()
        unknown = last_key_of(self._rt + 2 * self._timing.epsilon - 1, self._timing.origin)
        desk.log.floor = max(desk.log.floor, unknown)
        self._step(Life.MEMBER)
        ready.notes.append(Note("join"))
        if self._follows:
            ready.notes.append(Note("reset", "gap"))  # what came between its lives it never had

    # --- guards ---

    def _begin(self, now: Instant) -> Ready:
        """Read the clock and repair what cannot be, before anything else happens."""
        ready = Ready(notes=self._unsaid)
        self._unsaid = []
        self._rt = rt = self._ticks.read(now)
        self._meter.passed(rt, stalled=self._stalled)
        if self._ticks.repairs != self._repairs:
            self._repairs = self._ticks.repairs
            self._repaired("clock", ready)
        standing = self._clock.guard(rt)
        if standing is Standing.RESET:
            self._repaired("stamp", ready)
        if self._merger is not None and (found := self._merger.guard(rt)) is not None:
            self._count(f"reset_{found}", 1)
            ready.notes.append(Note("reset", found))
        if self._following is not None:
            self._guard_following(self._following, ready)
            self._unanswered = self._following.unanswered(now)
        else:
            self._unanswered = False
        self._quarantine_until = min(self._quarantine_until, rt + self._timing.epsilon)
        self._stalled = (
            standing is Standing.STALLED or self._ticks.stands_still or rt < self._quarantine_until
        )  # fmt: skip
        return ready

    def _guard_following(self, following: Following, ready: Ready) -> None:
        """Give up a last key from the future, which would let nothing pass any more."""
        origin, latest = self._timing.origin, self._rt + self._timing.lead_max
        if following.last is not None and tick_of(following.last, origin) > latest + self._timing.stall_max:
            following.last = last_key_of(latest, origin)
            self._repaired("last_key", ready)

    def _repaired(self, what: str, ready: Ready) -> None:
        """Note a repair, and publish nothing until every stamp of before is in the past."""
        self._count(f"reset_{what}", 1)
        ready.notes.append(Note("reset", what))
        self._quarantine_until = self._rt + self._timing.epsilon

    def _corrupt(self, kind: int) -> None:
        """Let a fault strike: some part of the state claims to be from a far future, or is a mess."""
        far = self._rt + 100 * (self._timing.stall_max + self._timing.delta + self._timing.epsilon)
        match kind % 8:
            case 0:
                self._clock.spoil(far)
            case 1:
                self._ticks.rt = far
            case 2:
                self._outbox.spoil(far)
            case 3 if self._following is not None and self._following.last is not None:
                self._following.last = last_key_of(far, self._timing.origin)
            case _ if self._merger is not None:
                self._merger.spoil(self._rt, far, kind % 4)
            case _:
                self._clock.spoil(far)

    # --- small parts ---

    def _key(self, stamp: object, bundle: Bundle) -> MergeKey:
        k_hi, k_mid = self._clock.packed(stamp)
        return k_hi, k_mid, low_key(bundle.pid, bundle.boot, bundle.first)

    def _mark(self, key: MergeKey) -> Mark:
        return Mark(key=(tick_of(key, self._timing.origin), *key))

    def _observe(self, bundle: Bundle) -> None:
        """Let everything published from now on come after a bundle."""
        if bundle.process != self.me:
            self._clock.observe(self._rt, self._clock.read(bundle.stamp, self._rt))

    def _reject(self, reason: str, bundle: Bundle, ready: Ready) -> None:
        self._count(f"rejected_{reason}", 1)
        ready.notes.append(Note("reject", reason, bundle))

    def _drop(self, reason: str, bundle: Bundle, ready: Ready) -> None:
        self._count(f"{reason}", 1)
        ready.notes.append(Note("drop", reason, bundle))

    def _count(self, what: str, by: int) -> None:
        self._meter.counts[what] += by

    def _step(self, to: Life) -> None:
        if to not in STEPS[self.life]:
            raise NotMemberError(f"a process that is {self.life.value} cannot become {to.value}")
        self.life = to
