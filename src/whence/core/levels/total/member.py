"""One member of a merged group: publisher always, merger or relay by the group's roster, else a merger's follower.

publish: guard -> stamp -> to every merger (or through relays, with the origin's stamp) -> Ready.
receive at a merger: guard -> does the stamp make sense? -> merger.arrive -> acknowledge; when due: release in order ->
journal -> deliver here, and to followers by way of the desk. At a follower: the next piece of the stream -> deliver.

Promises: every stream of every member has increasing keys. With `hlc`, whatever is published after a delivery has a
larger key than what was delivered, under any clocks: the stamp is observed at delivery. While the clock is behind such
a stamp, or was set back, or the process began a moment ago, publishing is refused (StalledError) instead of guessed.
Every input first runs the guards: state that cannot be is repaired and noted, and nothing is published for ε ticks.
"""

from collections.abc import Sequence

from whence.core.clocks.stamp import FIRST_KEY, MergeKey, last_key_of, low_key
from whence.core.levels.total.desk import Desk
from whence.core.levels.total.following import Following
from whence.core.levels.total.holes import HOLE_EVENTS_MAX
from whence.core.levels.total.items import (
    ALL_ITEMS,
    Alive,
    Aside,
    Batch,
    Bye,
    Follow,
    Mergers,
    Offer,
    Opened,
    Stream,
    Taken,
    journal_entry,
    read_journal,
)
from whence.core.levels.total.merged import BUNDLE, Entry, Fate, entry_of, key_of
from whence.core.levels.total.outbox import name_of
from whence.core.levels.total.part import Part
from whence.core.levels.total.roster import to_record
from whence.core.levels.total.settings import ALL_TOPICS, TOPICS_MAX
from whence.core.ready import Delivery, Gap, Gauge, Item, Late, Metric, Note, Ready, Returned, Send
from whence.core.staged import Life
from whence.errors import LimitError, NotMemberError, StalledError, UsageError
from whence.types import Bundle, Instant, Process, pack_payloads


class MergeMember(Part):
    """A member at level `total`."""

    # --- lives ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start as one of the first members: with the stream's first key."""
        if self.life is not Life.OUTSIDE:
            raise NotMemberError(f"only a process outside can be a founder, and this one is {self.life.value}")
        ready = self._begin(now)
        self._step(Life.MEMBER)
        self._holes.from_the_start = True
        ready.notes.append(Note("join"))
        self._keep(self._settings.first_roster([self.me.pid, *[peer.pid for peer in peers]]), now, ready)
        if self._roles.merges:
            self._merge()
        else:
            self._follow(FIRST_KEY, now, ready)
        return self._end(now, ready)

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Ask who merges, then a merger for its stream from now on; a merger starts one, without the past."""
        ready = self._begin(now)
        self._step(Life.JOINING)
        self._roles.ask(contacts, now, ready)
        if self._roles.roster.version:
            self._take_part(now, ready)
        return self._end(now, ready)

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Take up who merges, and the last key that an earlier life of this merger released."""
        ready = self._begin(now)
        self._roles.restore(records)
        kept = [entry for entry in map(read_journal, records) if entry is not None]
        if self._roles.merges and kept:
            self._merger = self._new_merger()
            self._merger.last, self._merger.position = max(kept)
        return self._end(now, ready)

    def checkpoint(self) -> list[bytes]:
        """Return what a new life needs of everything this one persisted: who merges, and a merger's last key."""
        if not self._settings.merge.journal or not self._roles.roster.version:
            return []
        merger = self._merger
        last = [journal_entry(merger.last, merger.position)] if merger is not None and self._desk is not None else []
        return [to_record(self._roles.roster), *last]

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
        ready.published, ready.mark = Returned(bundle), self._mark(key)
        if self._merger is not None:
            self._arrive(entry_of(key, now, self._topic, bundle), self._rt, ready)
        worth_until = self._clock.physical(stamp) + self._timing.delta
        following = self._following
        self._outbox.send(
            bundle, self._topic, self._targets, now, worth_until, ready, own=True,
            tell=self._desk is None,  # who merges has it
            key=key if following is not None and following.topics == ALL_TOPICS else None,
        )  # fmt: skip
        return bundle, self._end(now, ready)

    def refusal(self, now: Instant) -> StalledError | None:
        """Return why nothing may be published, by what the last input showed, and when to try again; None if it may.

        That is a tick later than it takes: timers of event loops count whole milliseconds and ring up to one early.
        """
        if self.life is not Life.MEMBER or not (self._stalled or self._unanswered):
            return None
        timing, ticks = self._timing, self._ticks
        if not self._stalled:
            beats = self._patience_ns // self._settings.merge.tick_ns
            why, wait = f"none of the mergers {', '.join(map(str, self._roles.others))} answers", beats
        elif ticks.stands_still:
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
        elif isinstance(item, Mergers):
            better = self._roles.hear(sender, item, now, ready)
            if better is not None:
                self._adopt(better, now, ready)
        elif isinstance(item, Follow) and self._desk is None:
            self._roles.tell(sender, ready)  # it does not know that another merges
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
            if bundle.pid == self.me.pid:
                self._outbox.came(bundle)
            self._outbox.passed(key, ready)
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
        self._meter.arrived(self._rt - self._clock.published(stamp), self._clock.chain(stamp))
        wrong = self._clock.wrong(stamp, self._rt)
        if wrong is not None:
            # Not acknowledged: from a clock a little ahead of ours, it is sent again when ours has come so far.
            self._reject(wrong, bundle, ready)
            return
        if self._merger is not None:
            self._arrive(entry_of(key, now, topic, bundle), self._clock.published(stamp), ready)
            if bundle.process == sender:
                self._merger.heard(self._rt, sender, key, bundle.first, bundle.last + 1)
        elif self.me.pid in self._roles.roster.relays:
            worth_until = self._clock.physical(stamp) + self._timing.delta
            self._outbox.send(self._passed_on(bundle), topic, self._targets, now, worth_until, ready, own=False)
        else:
            self._drop("not_merger", bundle, ready)
            return
        ready.send.append(Send((sender.pid,), Taken(name_of([bundle])), sender.boot))

    def _passed_on(self, bundle: Bundle) -> Bundle:
        """Return what a relay sends on: the origin's own stamp, or what comes by another relay may lose its place."""
        return bundle

    def _arrive(self, entry: Entry, published: int, ready: Ready) -> None:
        assert self._merger is not None
        bundle = entry[BUNDLE]
        fate = self._merger.arrive(self._rt, entry)
        took = self._rt - published
        if took > self._timing.delta + self._timing.lead_max:
            self._count("g2_violation", 1)
        # Who has only begun to merge serves nobody yet: whether it was late, the others tell.
        if fate is Fate.LATE and self._settings.merge.late == "side" and self._desk is not None:
            self._late(bundle, took - self._timing.delta, ready)
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
        if self._merger is None:
            return
        if self._desk is None:
            if self.life is not Life.OUTSIDE:
                self._warm_up(ready)
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
        followers = self._desk.followers() if self._desk is not None and self.life is Life.MEMBER else None
        better = self._roles.tick(now, followers, ready)
        if better is not None:
            self._adopt(better, now, ready)
        if self._settings.merge.release == "frontier":
            self._tell_alive(now, ready)
        if self.life is Life.LEAVING and (not len(self._outbox) or self._rt >= self._leave_by):
            self._step(Life.LEFT)
            self._outbox.tell_all(ready)
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
        if self._roles.others:
            ready.send.append(Send(self._roles.others, item))
        if self._desk is not None:
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
                if argument >= 0 and argument not in self._roles.others:
                    raise UsageError(f"the mergers are {', '.join(map(str, self._roles.others))}, not {argument}")
                self._following.switch(now, ready, None if argument < 0 else argument)
            case "topic":
                if not 0 <= argument < TOPICS_MAX:
                    raise UsageError(f"topics are numbered from 0 to {TOPICS_MAX - 1}")
                self._topic = argument
            case "subscribe":
                if self._following is None or not 0 < argument <= ALL_TOPICS:
                    raise UsageError("a follower names its topics by the bits of a positive 63-bit number")
                self._following.topics = argument
                self._outbox.look_no_more()
                self._following.begin(now, ready)
            case _:
                raise UsageError(f"members of this level know no act {name!r}; there are switch, topic, subscribe")

    # --- after every input ---

    def _end(self, now: Instant, ready: Ready) -> Ready:
        """Release what is due, and ask to be woken."""
        if self.life in (Life.OUTSIDE, Life.LEFT):
            return ready
        self._release(now, ready)
        wakes: list[Instant | None] = [self._outbox.wake_at(), self._roles.wake_at()]
        if self._merger is not None and self._desk is not None:
            due = self._merger.next_tick()
            wakes += [None if due is None else self._ticks.instant_of(due), self._desk.wake_at()]
        elif self._merger is not None:
            wakes.append(self._ticks.instant_of(self._warm_at))
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
