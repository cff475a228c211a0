"""One member of a merged group: publisher always, merger or relay by its number, else a merger's follower.

publish: guard -> stamp -> to every merger (or through relays, with the origin's stamp) -> Ready.
receive at a merger: guard -> does the stamp make sense? -> merger.arrive -> acknowledge; when due: release in order ->
journal -> deliver here, and to followers by way of the desk. At a follower: the next piece of the stream -> deliver.

Promises: every stream of every member has increasing keys. With `hlc`, whatever is published after a delivery has a
larger key than what was delivered, under any clocks: the stamp is observed at delivery. While the clock is behind such
a stamp, or was set back, or the process began a moment ago, publishing is refused (StalledError) instead of guessed.
Every input first runs the guards: state that cannot be is repaired and noted, and nothing is published for ε ticks.
"""

from collections import deque
from collections.abc import Sequence

from whence.core.clocks.stamp import FIRST_KEY, MergeKey, StampClock, Standing, last_key_of, low_key, tick_of
from whence.core.clocks.ticks import Ticks
from whence.core.merge.desk import Desk
from whence.core.merge.following import Following
from whence.core.merge.holes import HOLE_EVENTS_MAX, Holes
from whence.core.merge.items import (
    ALL_ITEMS,
    Alive,
    Aside,
    Batch,
    Bye,
    Follow,
    Offer,
    Opened,
    Stream,
    Taken,
    journal_entry,
    read_journal,
)
from whence.core.merge.meter import Meter
from whence.core.merge.outbox import Outbox, name_of
from whence.core.merge.settings import ALL_TOPICS, TOPICS_MAX, TotalSettings
from whence.core.node import STEPS, Life
from whence.core.order.merged import BUNDLE, Entry, Fate, Merger, entry_of, key_of
from whence.core.ready import Delivery, Gap, Gauge, Item, Late, Mark, Metric, Note, Ready, Send
from whence.errors import LimitError, NotMemberError, StalledError, UsageError
from whence.types import Bundle, Instant, Process, pack_payloads

_ASIDES_KEPT = 64
"""Late bundles a follower remembers, so that a copy of one is not handed out twice."""


class MergeMember:
    """A member at level `total`."""

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
        self._quarantine_until = self._rt + self._timing.epsilon if me.boot > 1 else 0
        self._stalled = False
        self._repairs = 0
        self._published = 0
        self._topic = 0
        delta_ns = settings.timing.delta * merge.tick_ns
        self._outbox = Outbox(settings.resend_ns, delta_ns, settings.limits.outbox_bundles_max)
        self._targets = tuple(pid for pid in settings.sends_to(me.pid) if pid != me.pid)
        patience_ns = merge.patience_beats * merge.beat_ns
        self._merger: Merger | None = None
        self._desk: Desk | None = None
        self._following: Following | None = None
        if settings.is_merger(me.pid):
            self._merger = self.merger_kind(settings.timing, settings.limits, merge.release)
            self._desk = Desk(settings.limits, merge.beat_ns, patience_ns)
        else:
            mergers = settings.mergers()
            home = mergers[me.pid % len(mergers)]
            self._following = self.following_kind(mergers, home, ALL_TOPICS, merge.beat_ns, patience_ns)
        self._holes = self.holes_kind()
        self._alive_at = 0
        self._leave_by = 0
        self._asides: deque[int] = deque(maxlen=_ASIDES_KEPT)
        self._unsaid: list[Note] = []
        """What was noted by an input that was then refused; the next Ready tells it."""

    # --- lives ---

    def is_first_life(self) -> None:
        """Learn that this process never lived before, whatever its incarnation."""
        self._quarantine_until = 0

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start as one of the first members: with the stream's first key."""
        if self.life is not Life.OUTSIDE:
            raise NotMemberError(f"only a process outside can be a founder, and this one is {self.life.value}")
        ready = self._begin(now)
        self._step(Life.MEMBER)
        self._holes.from_the_start = True
        ready.notes.append(Note("join"))
        if self._following is not None:
            self._following.last = FIRST_KEY
            self._following.begin(now, ready)
        return self._end(now, ready)

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Ask a merger for its stream from now on; a merger starts one, and says that it does not know the past."""
        ready = self._begin(now)
        self._step(Life.JOINING)
        if self._desk is not None:
            unknown = last_key_of(self._rt + 2 * self._timing.epsilon - 1, self._timing.origin)
            self._desk.log.floor = max(self._desk.log.floor, unknown)
            self._step(Life.MEMBER)
            ready.notes.append(Note("join"))
            if self._quarantine_until:
                ready.notes.append(Note("reset", "gap"))  # what came between its lives it never had
        elif self._following is not None:
            self._following.begin(now, ready)
        return self._end(now, ready)

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Take up the last key that an earlier life of this merger released."""
        ready = self._begin(now)
        if self._merger is not None:
            kept = [entry for entry in map(read_journal, records) if entry is not None]
            if kept:
                self._merger.last, self._merger.position = max(kept)
        return self._end(now, ready)

    def checkpoint(self) -> list[bytes]:
        """Return what a new life needs of everything this one persisted: the last key alone."""
        if self._merger is None or not self._settings.merge.journal:
            return []
        return [journal_entry(self._merger.last, self._merger.position)]

    def leave(self, now: Instant) -> Ready:
        """Begin to leave: send what is on its way, and send followers to another merger."""
        ready = self._begin(now)
        if self.life is Life.JOINING:
            self._step(Life.LEFT)
            ready.notes.append(Note("leave"))
            return ready
        self._step(Life.LEAVING)
        self._leave_by = self._rt + self._timing.delta + self._timing.epsilon
        if self._desk is not None and self._desk.followers():
            ready.send.append(Send(self._desk.followers(), Bye()))
        return self._end(now, ready)

    # --- publishing ---

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events as one bundle. Raises NotMemberError, LimitError, or StalledError while a clock is behind."""
        if self.life is not Life.MEMBER:
            raise NotMemberError(f"only a member may publish, and this process is {self.life.value}; join first")
        sizes, body = pack_payloads(payloads)
        self._settings.limits.check(len(payloads), len(body), self._published)
        ready = self._begin(now)
        refusal = self.refusal(now) or self._full_tick()
        if refusal is not None:
            self._unsaid += ready.notes
            raise refusal
        stamp = self._clock.local(self._rt)
        self._meter.created(self._clock.chain(stamp))
        bundle = Bundle(*self.me, self._published + 1, sizes, body, self._clock.write(stamp))
        key = self._key(stamp, bundle)
        self._published += bundle.count
        ready.mark = self._mark(key)
        if self._merger is not None:
            self._arrive(entry_of(key, now, self._topic, bundle), ready)
        worth_until = self._clock.physical(stamp) + self._timing.delta
        self._outbox.send(bundle, self._topic, self._targets, now, worth_until, ready, own=True)
        return bundle, self._end(now, ready)

    def refusal(self, now: Instant) -> StalledError | None:
        """Return why nothing may be published, by what the last input showed, and when to try again; None if it may.

        That is a tick later than it takes: timers of event loops count whole milliseconds and ring up to one early.
        """
        if self.life is not Life.MEMBER or not self._stalled:
            return None
        timing, ticks = self._timing, self._ticks
        if ticks.stands_still:
            why, wait = "the clock on the wall was set back", ticks.lead - timing.lead_max
        elif self._rt < self._quarantine_until:
            why = "this process began, or was repaired, too short a time ago"
            wait = self._quarantine_until - self._rt
        else:
            why = "the clock is behind what this process has delivered"
            wait = self._clock.ahead(self._rt) - timing.lead_max
        return StalledError(why, (max(1, wait) + 1) * self._settings.merge.tick_ns)

    def _full_tick(self) -> StalledError | None:
        """Return the refusal of an event that others would refuse, because the tick has as many as it may."""
        wait = self._clock.wait(self._rt)
        if not wait:
            return None
        self._count("tick_full", 1)
        why = "this tick has all the events it may have (events_per_tick_max, publishers_max, epsilon)"
        return StalledError(why, (wait + 1) * self._settings.merge.tick_ns)

    # --- receiving ---

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item from a peer."""
        ready = self._begin(now)
        if self.life in (Life.OUTSIDE, Life.LEFT) or not isinstance(item, ALL_ITEMS):
            ready.notes.append(Note("drop", "not_member", peer=sender.pid))
            return ready
        if isinstance(item, Offer):
            size = len(item.body).to_bytes(4, "little")
            self._offered(sender, Bundle(*sender, item.first, size, item.body, item.stamp), 0, now, ready)
        elif isinstance(item, Batch):
            self._offered(sender, item.bundle, item.topic, now, ready)
        elif isinstance(item, Taken):
            self._outbox.taken(sender.pid, item.names, now)
        elif self._desk is not None:
            self._serve(self._desk, sender, item, now, ready)
        elif self._following is not None:
            self._read(self._following, sender, item, now, ready)
        return self._end(now, ready)

    def _serve(self, desk: Desk, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        if isinstance(item, Follow):
            if self.life is Life.MEMBER:
                desk.follow(sender, item, self._newest(), now, ready)
        elif isinstance(item, Bye):
            desk.forget(sender.pid)
        elif isinstance(item, Alive):
            self._alive(sender, item, ready)

    def _newest(self) -> MergeKey:
        """Return a key that everything this merger releases from now on is above, if it comes within δ."""
        assert self._merger is not None
        timing = self._timing
        return max(self._merger.last, last_key_of(self._rt - timing.delta - timing.epsilon, timing.origin))

    def _read(self, following: Following, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        if isinstance(item, Stream):
            for bundle in following.take(sender, item, now, ready):
                self._follow_up(following, bundle, now, ready)
        elif isinstance(item, Opened):
            if following.opened(sender, item, now, ready) and self.life is Life.JOINING:
                self._step(Life.MEMBER)
                ready.notes.append(Note("join", peer=sender.pid))
        elif isinstance(item, Aside):
            self._set_aside(item, ready)
        elif isinstance(item, Bye):
            following.unreachable(sender.pid, now, ready)

    def _follow_up(self, following: Following, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver a bundle of the stream, unless its key is not above the last one or its stamp is absurd."""
        try:
            stamp = self._clock.read(bundle.stamp, self._rt)
            key = self._key(stamp, bundle)
        except (ValueError, LimitError):
            self._reject("stamp", bundle, ready)
            return
        ahead = self._clock.physical(stamp) - self._rt - self._timing.lead_max
        if ahead > self._timing.stall_max:
            self._reject("future", bundle, ready)
        elif following.last is not None and key <= following.last:
            self._drop("duplicate", bundle, ready)
        else:
            following.last = key
            self._clock.observe(self._rt, stamp)
            if following.topics == ALL_TOPICS:
                self._tell_hole(bundle, ready)
            ready.deliver.append(Delivery(bundle, 0, self._mark(key)))

    def _tell_hole(self, bundle: Bundle, ready: Ready) -> None:
        """Tell the application which events of the publisher the stream left out before a bundle."""
        hole = self._holes.before(bundle)
        if hole is None:
            return
        self._count("skipped", hole.last - hole.first + 1)
        least = hole.last - HOLE_EVENTS_MAX + 1
        if hole.first < least:
            hole = hole._replace(first=least)
            ready.notes.append(Note("reset", "gap", bundle))
        ready.deliver.append(Gap((hole,)))

    def _set_aside(self, item: Aside, ready: Ready) -> None:
        bundle = item.bundle
        try:
            stamp = self._clock.read(bundle.stamp, self._rt)
            name = low_key(bundle.pid, bundle.boot, bundle.first)
        except (ValueError, LimitError):
            self._reject("stamp", bundle, ready)
            return
        if name not in self._asides and self._clock.wrong(stamp, self._rt) is None:
            self._asides.append(name)
            self._clock.observe(self._rt, stamp)
            self._count("late", bundle.count)
            ready.deliver.append(Late(bundle, item.late_ticks * self._settings.merge.tick_ns))

    # --- merging ---

    def _offered(self, sender: Process, bundle: Bundle, topic: int, now: Instant, ready: Ready) -> None:
        """Take a publication: put it in its place, or pass it on unchanged, and acknowledge it."""
        try:
            stamp = self._clock.read(bundle.stamp, self._rt)
            key = self._key(stamp, bundle)
        except (ValueError, LimitError):
            self._reject("stamp", bundle, ready)
            return
        self._meter.arrived(self._rt - self._clock.physical(stamp), self._clock.chain(stamp))
        wrong = self._clock.wrong(stamp, self._rt)
        if wrong is not None:
            # Not acknowledged: from a clock a little ahead of ours, it is sent again when ours has come so far.
            self._reject(wrong, bundle, ready)
            return
        if self._merger is not None:
            self._arrive(entry_of(key, now, topic, bundle), ready)
            if bundle.process == sender:
                self._merger.heard(self._rt, sender, key, bundle.first, bundle.last + 1)
        elif self._settings.is_relay(self.me.pid):
            worth_until = self._clock.physical(stamp) + self._timing.delta
            self._outbox.send(self._passed_on(bundle), topic, self._targets, now, worth_until, ready, own=False)
        else:
            self._drop("not_merger", bundle, ready)
            return
        ready.send.append(Send((sender.pid,), Taken(name_of([bundle])), sender.boot))

    def _passed_on(self, bundle: Bundle) -> Bundle:
        """Return what a relay sends on: the origin's own stamp, or what comes by another relay may lose its place."""
        return bundle

    def _arrive(self, entry: Entry, ready: Ready) -> None:
        assert self._merger is not None
        bundle = entry[BUNDLE]
        fate = self._merger.arrive(self._rt, entry)
        physical = tick_of(key_of(entry), self._timing.origin)
        if self._rt > physical + self._timing.delta + self._timing.lead_max:
            self._count("g2_violation", 1)
        if fate is Fate.LATE and self._settings.merge.late == "side":
            self._late(bundle, self._rt - physical - self._timing.delta, ready)
        elif fate is not Fate.KEPT:
            self._drop(fate.value, bundle, ready)

    def _late(self, bundle: Bundle, ticks: int, ready: Ready) -> None:
        """Hand a bundle out beside the stream, here and to followers."""
        assert self._desk is not None
        self._count("late", bundle.count)
        late_ticks = max(0, ticks)
        self._observe(bundle)
        ready.deliver.append(Late(bundle, late_ticks * self._settings.merge.tick_ns))
        if self._desk.followers():
            ready.send.append(Send(self._desk.followers(), Aside(bundle, late_ticks)))

    def _release(self, now: Instant, ready: Ready) -> None:
        if self._merger is None or self._desk is None:
            return
        released = self._merger.release(self._rt)
        if not released:
            return
        if self._settings.merge.journal:
            ready.persist.append(journal_entry(self._merger.last, self._merger.position))
        for entry in released:
            bundle, held_ns = entry[BUNDLE], max(0, now - entry[3])
            self._observe(bundle)
            self._meter.released(held_ns // self._settings.merge.tick_ns, self._rt - self._merger.due_tick(entry))
            self._tell_hole(bundle, ready)
            ready.deliver.append(Delivery(bundle, held_ns, self._mark(key_of(entry))))
        self._desk.log.append(released, self._rt)
        self._desk.pump(ready)

    def _alive(self, sender: Process, item: Alive, ready: Ready) -> None:
        """Learn how far a publisher is. Every message carries a stamp, and what is seen is observed."""
        assert self._merger is not None
        try:
            stamp = self._clock.read(item.stamp, self._rt)
            k_hi, k_mid = self._clock.packed(stamp)
        except (ValueError, LimitError):
            ready.notes.append(Note("reject", "stamp", peer=sender.pid))
            return
        if self._clock.wrong(stamp, self._rt) is None:
            self._clock.observe(self._rt, stamp)
            self._merger.heard(self._rt, sender, (k_hi, k_mid, 0), item.following, item.following)

    # --- time ---

    def tick(self, now: Instant) -> Ready:
        """Do what time asks for: release, send again, beat, leave."""
        if self.life in (Life.OUTSIDE, Life.LEFT):
            return Ready()
        ready = self._begin(now)
        timing = self._timing
        self._outbox.tick(self._rt, now, self._rt + timing.lead_max + timing.stall_max + timing.delta, ready)
        if self._desk is not None:
            self._desk.tick(now, ready)
            self._desk.log.trim(self._rt - self._settings.merge.log_ticks)
        if self._following is not None:
            self._following.tick(now, ready)
        if self._settings.merge.release == "frontier":
            self._tell_alive(now, ready)
        if self.life is Life.LEAVING and (not len(self._outbox) or self._rt >= self._leave_by):
            self._step(Life.LEFT)
            ready.notes.append(Note("leave"))
            return ready
        return self._end(now, ready)

    def _tell_alive(self, now: Instant, ready: Ready) -> None:
        beat_ns = self._settings.merge.beat_ns
        if now < self._alive_at <= now + beat_ns:
            return
        self._alive_at = now + beat_ns
        if self.life is not Life.MEMBER or self._stalled or self._clock.wait(self._rt):
            return
        stamp = self._clock.local(self._rt)
        item = Alive(self._clock.write(stamp), self._published + 1)
        others = tuple(pid for pid in self._settings.mergers() if pid != self.me.pid)
        if others:
            ready.send.append(Send(others, item))
        if self._merger is not None:
            self._alive(self.me, item, ready)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Learn that something sent to a peer did not arrive: turn to another merger, or forget a follower."""
        ready = self._begin(now)
        if self.life not in (Life.OUTSIDE, Life.LEFT):
            if self._following is not None:
                self._following.unreachable(peer, now, ready)
            elif self._desk is not None:
                self._desk.forget(peer)
        return self._end(now, ready)

    # --- what only this level knows ---

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Switch to another merger, publish or subscribe to topics, or suffer a fault. Raises UsageError."""
        ready = self._begin(now)
        if name == "corrupt_state":
            self._corrupt(argument)
            ready.wake_at = now  # the guards see it before anything is done with it
            return ready
        try:
            self._act(name, argument, now, ready)
        except UsageError:
            self._unsaid += ready.notes
            raise
        return self._end(now, ready)

    def _act(self, name: str, argument: int, now: Instant, ready: Ready) -> None:
        match name:
            case "switch":
                if self._following is None or self.life not in (Life.MEMBER, Life.JOINING):
                    raise UsageError("only a member that follows a merger can switch to another")
                if argument >= self._settings.merge.mergers:
                    raise UsageError(f"mergers are numbered from 0 to {self._settings.merge.mergers - 1}")
                self._following.switch(now, ready, None if argument < 0 else argument)
            case "topic":
                if not 0 <= argument < TOPICS_MAX:
                    raise UsageError(f"topics are numbered from 0 to {TOPICS_MAX - 1}")
                self._topic = argument
            case "subscribe":
                if self._following is None or not 0 < argument <= ALL_TOPICS:
                    raise UsageError("a follower names its topics by the bits of a positive 63-bit number")
                self._following.topics = argument
                self._following.begin(now, ready)
            case _:
                raise UsageError(f"members of this level know no act {name!r}; there are switch, topic, subscribe")

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
        self._quarantine_until = min(self._quarantine_until, rt + self._timing.epsilon)
        self._stalled = standing is Standing.STALLED or self._ticks.stands_still or rt < self._quarantine_until
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

    def _end(self, now: Instant, ready: Ready) -> Ready:
        """Release what is due, and ask to be woken."""
        if self.life in (Life.OUTSIDE, Life.LEFT):
            return ready
        self._release(now, ready)
        wakes: list[Instant | None] = [self._outbox.wake_at()]
        if self._merger is not None and self._desk is not None:
            due = self._merger.next_tick()
            wakes += [None if due is None else self._ticks.instant_of(due), self._desk.wake_at()]
        if self._following is not None:
            wakes.append(self._following.wake_at())
        if self._settings.merge.release == "frontier":
            wakes.append(self._alive_at)
        if self.life is Life.LEAVING:
            wakes.append(self._ticks.instant_of(self._leave_by))
        ready.wake_at = min([at for at in wakes if at is not None], default=None)
        return ready

    # --- what an observer sees ---

    def held_back(self) -> bool:
        """Tell whether publishers should wait: more is on its way to the mergers than arrives soon enough."""
        return self._outbox.bytes > self._outbox.pace.window

    def full_window(self) -> tuple[str, int, int] | None:
        """Return the limit that holds publishers back, with its value and what there is; None if they are not."""
        named = "bytes on their way to the mergers", self._outbox.pace.window, self._outbox.bytes
        return named if self.held_back() else None

    def view(self) -> tuple[int, ...] | None:
        """Return None: who is a merger is a setting, and nobody else is needed."""
        return None

    def gauges(self) -> list[Gauge]:
        """Return how full every buffer is."""
        gauges = self._outbox.gauges()
        if self._merger is not None and self._desk is not None:
            gauges += [*self._merger.gauges(), *self._desk.gauges()]
        return gauges

    def metrics(self) -> list[Metric]:
        """Return what was counted and measured in this life."""
        merger, following = self._merger, self._following
        found = self._meter.metrics(self._clock.ahead(self._rt), None if merger is None else merger.held())
        found += [Metric("stalled", int(self._stalled)), Metric("clock_lead_ticks", self._ticks.lead),
                  Metric("unacknowledged_total", self._outbox.given_up)]  # fmt: skip
        if merger is not None:
            found += [Metric("early_total", merger.early), Metric("purged_total", merger.purged),
                      Metric("position", merger.position)]  # fmt: skip
        return found if following is None else [*found, Metric("switches_total", following.switches)]

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
