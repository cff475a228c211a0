"""A member at level `total` in timed order: always a publisher; a merger or relay if the group's roles say so, else a
follower.

publish: guard -> stamp -> to every merger, or through relays -> Ready.
receive at a merger: guard -> is the stamp valid? -> into the buffer -> acknowledge; once due: release in order ->
journal -> deliver here, and stream to followers. At a follower: the next piece of the stream -> deliver.

Law: every stream of every member has increasing keys, and with `hlc` no effect comes before its cause, whatever clocks
do. Before every input, the guards repair and note corrupt state: 2δ + 6ε ticks after a fault, streams are right again.
The parts: clock.py, publisher.py and outbox.py, merger.py, follower.py, roles.py.
Source: docs/papers/merge.md: merge 5, 6 and 11.
"""

from collections.abc import Sequence

from whence.core.clocks.ticks import NEVER
from whence.core.levels.total.clock import GuardedClock
from whence.core.levels.total.items import ALL_ITEMS, Ack, Batch, Bye, Follow, Mergers, Offer
from whence.core.levels.total.metrics import MemberMetrics
from whence.core.levels.total.outbox import Outbox
from whence.core.levels.total.publisher import Publisher
from whence.core.levels.total.roles import Roles
from whence.core.levels.total.settings import ALL_TOPICS, TOPICS_MAX, TotalSettings
from whence.core.ready import Gauge, Item, Metric, Note, Ready, Send
from whence.core.staged import STEPS, Lifecycle
from whence.errors import NotMemberError, StalledError, UsageError
from whence.types import Bundle, Instant, Process, pack_payloads

_ABSENT = (Lifecycle.OUTSIDE, Lifecycle.LEFT)


class TotalMember:
    """The inputs of a member, passed to its parts, and its membership in the group."""

    publisher_type: type[Publisher] = Publisher
    roles_type: type[Roles] = Roles

    def __init__(self, me: Process, settings: TotalSettings, now: Instant) -> None:
        self.me = me
        self.lifecycle = Lifecycle.OUTSIDE
        self._settings = settings
        self._metrics = MemberMetrics()
        self.clock = GuardedClock(me, settings, now, self._metrics)
        delta_ns = settings.timing.delta * settings.merge.tick_ns
        self.outbox = Outbox(
            settings.resend_ns, delta_ns, settings.limits.outbox_bundles_max, delta_ns + settings.patience_ns
        )
        self.publisher = self.publisher_type(me, settings, self.clock, self.outbox, self._metrics)
        self.roles = self.roles_type(me, settings, self.clock, self.publisher, self._metrics)
        self._leave_by = 0
        self._hands_over = False
        """A merger that leaves waits for another to warm up."""
        self._unsaid: list[Note] = []
        """Notes of an input that was then refused; the next Ready carries them."""

    # --- joining and leaving ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start as one of the first members: with the stream's first key."""
        if self.lifecycle is not Lifecycle.OUTSIDE:
            raise NotMemberError(f"only a process outside can be a founder, and this one is {self.lifecycle.value}")
        ready = self.guard(now)
        self._step(Lifecycle.MEMBER)
        ready.notes.append(Note("join"))
        self.roles.found([self.me.pid, *[peer.pid for peer in peers]], now, ready)
        return self._end(now, ready)

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Ask who merges, then a merger for its stream from now on; a merger starts one, without the past."""
        ready = self.guard(now)
        self._step(Lifecycle.JOINING)
        self.roles.exchange.began_with(contacts)
        self.roles.exchange.ask(contacts, now, ready)
        if self.roles.exchange.table.term and self.roles.take_part(now, ready):
            self._step(Lifecycle.MEMBER)
        return self._end(now, ready)

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Restore who merges, and the last key that an earlier incarnation of this merger released."""
        ready = self.guard(now)
        self.roles.restore(records)
        return self._end(now, ready)

    def checkpoint(self) -> list[bytes]:
        """Return what a later incarnation needs of everything this one persisted."""
        return self.roles.checkpoint()

    def leave(self, now: Instant) -> Ready:
        """Begin to leave: finish sending what is pending; a merger first lets another member warm up in its place."""
        ready = self.guard(now)
        if self.lifecycle is Lifecycle.JOINING:
            self._step(Lifecycle.LEFT)
            ready.notes.append(Note("leave"))
            return ready
        self._step(Lifecycle.LEAVING)
        self._hands_over = self.roles.hand_over(now, ready)
        self.publisher.pause(now)
        timing = self._settings.timing
        self._leave_by = self.clock.rt + (self.roles.warm_ticks if self._hands_over else timing.delta + timing.epsilon)
        return self._end(now, ready)

    # --- publishing ---

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events as one bundle. Raises NotMemberError, LimitError, or StalledError while a clock is behind."""
        if self.lifecycle is not Lifecycle.MEMBER:
            raise NotMemberError(f"only a member may publish, and this process is {self.lifecycle.value}; join first")
        sizes, body = pack_payloads(payloads)
        publisher, roles = self.publisher, self.roles
        self._settings.limits.check(len(payloads), len(body), publisher.published)
        ready = self.guard(now)
        refusal = self.refusal(now) or publisher.full_tick()
        if refusal is not None:
            self._unsaid += ready.notes
            raise refusal
        bundle = publisher.publish(sizes, body, roles.merger, roles.follower, now, ready)
        return bundle, self._end(now, ready)

    def refusal(self, now: Instant) -> StalledError | None:
        """Return why publishing is refused, and when to try again; None if it is not. The clock is as last read."""
        if self.lifecycle is not Lifecycle.MEMBER:
            return None
        if self.clock.stalled:
            return self.clock.refusal()
        follower = self.roles.follower
        if follower is None or not follower.subscription.unanswered(now):
            return None
        mergers = ", ".join(map(str, self.roles.exchange.others))
        tick_ns = self._settings.merge.tick_ns
        patience = max(1, self._settings.patience_ns // tick_ns)
        return StalledError(f"none of the mergers {mergers} answers", (patience + 1) * tick_ns)

    # --- receiving ---

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item from a peer."""
        ready = self.guard(now)
        roles = self.roles
        if self.lifecycle in _ABSENT or not isinstance(item, ALL_ITEMS):
            ready.notes.append(Note("drop", "not_member", peer=sender.pid))
            return ready
        server = None if roles.merger is None else roles.merger.server
        if isinstance(item, Offer):
            size = len(item.body).to_bytes(4, "little")
            bundle = Bundle(sender.pid, sender.incarnation, item.first, size, item.body, item.stamp)
            roles.take_publication(sender, bundle, 0, now, ready)
        elif isinstance(item, Batch):
            roles.take_publication(sender, item.bundle, item.topic, now, ready)
        elif isinstance(item, Ack):
            self.outbox.acknowledged(sender.pid, item.ids, now, ready, late=item.late)
        elif isinstance(item, Mergers):
            table = roles.exchange.hear(sender, item, now, ready)
            if table is not None and roles.adopt(table, now, ready, joining=self.lifecycle is Lifecycle.JOINING):
                self._step(Lifecycle.MEMBER)
        elif server is not None and roles.merger is not None:
            roles.merger.receive(server, sender, item, now, ready, admits=self.lifecycle is Lifecycle.MEMBER)
        elif isinstance(item, Follow):
            roles.exchange.tell(sender, ready)  # it does not know that another merges
            if roles.merger is not None:
                ready.send.append(Send((sender.pid,), Bye(), sender.incarnation))  # it warms up: look for another
        elif roles.follower is not None:
            began = roles.follower.receive(sender, item, now, ready)
            if began and self.lifecycle is Lifecycle.JOINING:
                self._step(Lifecycle.MEMBER)
                ready.notes.append(Note("join", peer=sender.pid))
        return self._end(now, ready)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Learn that something sent to a peer did not arrive."""
        ready = self.guard(now)
        if self.lifecycle not in _ABSENT:
            self.roles.unreachable(peer, now, ready)
        return self._end(now, ready)

    # --- time ---

    def tick(self, now: Instant) -> Ready:
        """Do what is due: release, send again, beat, leave."""
        if self.lifecycle in _ABSENT:
            return Ready()
        ready = self.guard(now)
        roles = self.roles
        self.publisher.tick(now, ready)
        table = roles.tick(now, ready, may_mend=self.lifecycle is Lifecycle.MEMBER)
        if table is not None and roles.adopt(table, now, ready, joining=self.lifecycle is Lifecycle.JOINING):
            self._step(Lifecycle.MEMBER)
        alive = self.publisher.alive(now, is_publisher=self.lifecycle is not Lifecycle.JOINING)
        if alive is not None:
            roles.tell_alive(alive, ready)
        sent = not len(self.outbox) and not self._hands_over
        if self.lifecycle is Lifecycle.LEAVING and (sent or self.clock.rt >= self._leave_by):
            self._step(Lifecycle.LEFT)
            roles.depart(ready)
            self.outbox.tell_all(ready)
            ready.notes.append(Note("leave"))
            return ready
        return self._end(now, ready)

    # --- what only this level knows ---

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Switch to another merger, or publish or subscribe to topics. Raises UsageError."""
        ready = self.guard(now)
        roles, follower = self.roles, self.roles.follower
        try:
            match name:
                case "switch":
                    if follower is None or self.lifecycle not in (Lifecycle.MEMBER, Lifecycle.JOINING):
                        raise UsageError("only a member that follows a merger can switch to another")
                    mergers = roles.exchange.others
                    if argument >= 0 and argument not in mergers:
                        raise UsageError(f"the mergers are {', '.join(map(str, mergers))}, not {argument}")
                    follower.subscription.switch(now, ready, None if argument < 0 else argument)
                case "topic":
                    if not 0 <= argument < TOPICS_MAX:
                        raise UsageError(f"topics are numbered from 0 to {TOPICS_MAX - 1}")
                    self.publisher.topic = argument
                case "subscribe":
                    if follower is None or not 0 < argument <= ALL_TOPICS:
                        raise UsageError("a follower names its topics by the bits of a positive 63-bit number")
                    follower.subscribe(argument, now, ready)
                case _:
                    raise UsageError(f"members of this level know no act {name!r}; there are switch, topic, subscribe")
        except UsageError:
            self._unsaid += ready.notes
            raise
        return self._end(now, ready)

    # --- before and after every input ---

    def guard(self, now: Instant) -> Ready:
        """Read the clock and repair corrupt state, before anything else happens; return what that caused."""
        ready = Ready(notes=self._unsaid)
        self._unsaid = []
        roles = self.roles
        self.clock.guard(now, ready)
        roles.guard(now, ready, is_member=self.lifecycle is Lifecycle.MEMBER)
        if roles.merger is not None:
            found = roles.merger.buffer.guard(self.clock.rt)
            if found is not None:
                roles.merger.repaired(found, ready)
        if roles.follower is not None:
            roles.follower.guard(ready)
        return ready

    def _end(self, now: Instant, ready: Ready) -> Ready:
        """Release what is due, and ask to be woken."""
        if self.lifecycle in _ABSENT:
            return ready
        roles = self.roles
        merger = roles.merger
        if merger is not None:
            if merger.server is not None:
                merger.release(merger.server, now, ready)
            else:
                roles.warm_up(merger, ready)
        wake_at = min(self.outbox.wake_at(), roles.wake_at(), self.publisher.wake_at())
        if self.lifecycle is Lifecycle.LEAVING:
            wake_at = min(wake_at, self._leave_by * self._settings.merge.tick_ns)
        ready.wake_at = wake_at if wake_at < NEVER else None
        return ready

    def _step(self, to: Lifecycle) -> None:
        if to not in STEPS[self.lifecycle]:
            raise NotMemberError(f"a process that is {self.lifecycle.value} cannot become {to.value}")
        self.lifecycle = to

    # --- what an observer sees ---

    def held_back(self) -> bool:
        """Tell whether publishers should wait: more is in transit to the mergers than can arrive soon enough."""
        return self.outbox.bytes > self.outbox.window.bytes_max

    def full_window(self) -> tuple[str, int, int] | None:
        """Return the name, value and current use of the limit that holds publishers back; None if none does."""
        named = "bytes on their way to the mergers", self.outbox.window.bytes_max, self.outbox.bytes
        return named if self.held_back() else None

    def view(self) -> tuple[int, ...] | None:
        """Return None: members need to know nobody but the mergers."""
        return None

    def _proposed(self) -> list[Metric]:
        timing = self._settings.timing
        return self._metrics.proposed(timing.delta, timing.epsilon, self._settings.merge.tick_ns)

    def gauges(self) -> list[Gauge]:
        """Return how full every buffer is."""
        merger = self.roles.merger
        return self.outbox.gauges() + ([] if merger is None else merger.gauges())

    def metrics(self) -> list[Metric]:
        """Return what was counted and measured in this incarnation."""
        clock, merger, follower = self.clock, self.roles.merger, self.roles.follower
        buffered = None if merger is None else len(merger.buffer)
        return [
            *self._metrics.metrics(clock.stamps.ahead(clock.rt), clock.stall_ticks, buffered),
            Metric("stalled", int(clock.stalled)),
            Metric("clock_lead_ticks", clock.ticks.lead),
            Metric("unacknowledged_total", self.outbox.given_up),
            *([] if merger is None else [*merger.metrics(), *self._proposed()]),
            *([] if follower is None else [Metric("switches_total", follower.subscription.switches)]),
        ]
