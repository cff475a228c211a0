"""What a member does by the group's table of roles: it merges, it follows a merger, or both for a while.

Law: a follower that becomes a merger warms up: it goes on following until publishers have sent to it for δ. Otherwise
it would leave out what was in transit to the other mergers. A merger that is replaced continues as a follower after its
last key. One that leaves first lets another warm up. A newcomer that merges starts a stream without the past, and notes
that. The role always agrees with the table: the guard sees to it before every input.
Who merges, and how members come to agree on it: role_table.py and role_exchange.py.
Source: docs/papers/merge.md: merge 8 and merge 11.
"""

from collections.abc import Sequence

from whence.core.clocks.stamp import FIRST_KEY, MergeKey, last_key_of
from whence.core.clocks.ticks import NEVER
from whence.core.levels.total.clock import GuardedClock
from whence.core.levels.total.follower import Follower, StreamState
from whence.core.levels.total.gaps import GapDetector
from whence.core.levels.total.items import PUBLICATION_ID, Ack, Alive, Bye, journal_entry, read_journal
from whence.core.levels.total.merge_buffer import Fate, MergeBuffer
from whence.core.levels.total.merger import Merger
from whence.core.levels.total.metrics import MemberMetrics
from whence.core.levels.total.publisher import Publisher
from whence.core.levels.total.role_exchange import RoleExchange
from whence.core.levels.total.role_table import RoleTable, to_record
from whence.core.levels.total.settings import ALL_TOPICS, TotalSettings
from whence.core.levels.total.stream_server import StreamServer
from whence.core.levels.total.subscription import Subscription
from whence.core.ready import Note, Ready, Send
from whence.errors import LimitError
from whence.types import Bundle, Instant, Process

WARM_BEATS = 4
"""The most beats that a publisher needs to learn of a new merger."""


class Roles:
    """The member's role in the group, and its changes."""

    buffer_type: type[MergeBuffer] = MergeBuffer
    subscription_type: type[Subscription] = Subscription
    gaps_type: type[GapDetector] = GapDetector
    exchange_type: type[RoleExchange] = RoleExchange

    def __init__(
        self, me: Process, settings: TotalSettings, clock: GuardedClock, publisher: Publisher, metrics: MemberMetrics
    ) -> None:
        self.exchange = self.exchange_type(me, settings, clock)
        self.merger: Merger | None = None
        self.follower: Follower | None = None
        self._stream = StreamState(self.gaps_type())
        self._next_position = 0
        """Where the log of this incarnation continues when this member merges again."""
        self._me = me
        self._settings = settings
        self._timing = settings.timing
        self._tick_ns = settings.merge.tick_ns
        self._clock = clock
        self._publisher = publisher
        self._metrics = metrics

    # --- beginning ---

    def found(self, founders: Sequence[int], now: Instant, ready: Ready) -> None:
        """Begin as one of the first members: with the stream's first key."""
        self._stream.gaps.from_the_start = True
        self.exchange.began_with(founders)
        self._keep(self._settings.first_roles(founders), now, ready)
        if self.exchange.merges:
            self._serve()
        else:
            self._follow(FIRST_KEY, now, ready)

    def take_part(self, now: Instant, ready: Ready) -> bool:
        """Begin as a newcomer that knows who merges; return whether it is a member at once."""
        self._publisher.targets = self.exchange.targets
        if not self.exchange.merges:
            self._follow(None, now, ready)
            return False
        log = self._serve().log
        log.floor = max(log.floor, last_key_of(self._clock.rt + 2 * self._timing.epsilon - 1, self._timing.origin))
        ready.notes.append(Note("join"))
        if self._clock.lived_before:
            ready.notes.append(Note("reset", "gap"))  # it never had what came between its incarnations
        return True

    def restore(self, records: Sequence[bytes]) -> None:
        """Restore who merges, and the last key that an earlier incarnation of this merger released."""
        self.exchange.restore(records)
        stored = [entry for entry in map(read_journal, records) if entry is not None]
        if self.exchange.merges and stored:
            self.merger = self._new_merger()
            self.merger.buffer.last, self.merger.buffer.position = max(stored)

    def checkpoint(self) -> list[bytes]:
        """Return what a later incarnation needs of all that was persisted: who merges, and a merger's last key."""
        if not self._settings.merge.journal or not self.exchange.table.term:
            return []
        records = [to_record(self.exchange.table)]
        if self.merger is not None and self.merger.server is not None:
            records.append(journal_entry(self.merger.buffer.last, self.merger.buffer.position))
        return records

    # --- changes ---

    def adopt(self, table: RoleTable, now: Instant, ready: Ready, *, joining: bool) -> bool:
        """Adopt a table and this member's role in it; return whether a newcomer is now a member."""
        knew = self.exchange.table.term > 0
        self._keep(table, now, ready)
        joined = False
        if not knew or (self.exchange.merges and joining):
            self.follower = None
            joined = self.take_part(now, ready)
        else:
            self._align(now, ready)
        if self.follower is not None and self.exchange.others:
            self.follower.subscription.among(self.exchange.others, self.exchange.home, now, ready)
        return joined

    def _align(self, now: Instant, ready: Ready) -> None:
        """Begin or end to merge, as the table says; one that does neither begins to follow."""
        if self.exchange.merges and self.merger is None:
            self.merger = self._new_merger()
            self.merger.warm_at = self._clock.rt + self.warm_ticks
        elif not self.exchange.merges and self.merger is not None:
            self._resign(self.merger, now, ready)
        if self.merger is None and self.follower is None and self.exchange.others:
            self._follow(self._stream.last, now, ready)

    def guard(self, now: Instant, ready: Ready, *, is_member: bool, thoroughly: bool = False) -> None:
        """Repair a table that is impossible, and a role that does not agree with the table."""
        repaired = self.exchange.guard(thoroughly=thoroughly or (is_member and self._is_wrong()))
        if repaired is not None:
            self._repaired(ready)
            self._keep(repaired, now, ready)
        merger, exchange = self.merger, self.exchange
        if not is_member or not exchange.table.term:
            return
        if self._is_wrong():
            if repaired is None:
                self._repaired(ready)
            self._align(now, ready)
        if merger is not None and merger.server is None and merger.warm_at > self._clock.rt + self.warm_ticks:
            merger.warm_at = self._clock.rt + self.warm_ticks
        if repaired is not None and self.follower is not None and exchange.others:
            self.follower.subscription.among(exchange.others, exchange.home, now, ready)

    def _is_wrong(self) -> bool:
        """Tell whether the role does not agree with the table, or there is none."""
        return self.exchange.merges is (self.merger is None) or (self.merger is None and self.follower is None)

    def _repaired(self, ready: Ready) -> None:
        self._metrics.counts["reset_roles"] += 1
        ready.notes.append(Note("reset", "roles"))

    @property
    def warm_ticks(self) -> int:
        """Return how long a new merger collects before it serves: until all publishers have sent to it for δ."""
        beats = WARM_BEATS * self._settings.merge.beat_ns // self._tick_ns
        return self._timing.delta + 2 * self._timing.epsilon + beats

    def hand_over(self, now: Instant, ready: Ready) -> bool:
        """Let another member merge beside this one, which leaves; return whether there is one to wait for."""
        server = None if self.merger is None else self.merger.server
        table = None if server is None else self.exchange.joined_by_successor(server.candidates())
        if server is None or table is None:
            return False
        self._keep(table, now, ready)
        self.exchange.tell_all(server.followers(), ready)
        return True

    def depart(self, ready: Ready) -> None:
        """As a merger that leaves, direct everybody to the others."""
        server = None if self.merger is None else self.merger.server
        if server is not None:
            self.exchange.say_farewell(server.followers(), ready)
            if server.followers():
                ready.send.append(Send(server.followers(), Bye()))

    def _keep(self, table: RoleTable, now: Instant, ready: Ready) -> None:
        """Act by a table, in later incarnations too."""
        self.exchange.adopt(table, now)
        self._publisher.targets = self.exchange.targets
        if self._settings.merge.journal:
            ready.persist.append(to_record(table))

    def _new_merger(self) -> Merger:
        settings = self._settings
        buffer = self.buffer_type(self._timing, settings.limits, settings.merge.release)
        buffer.last = self._stream.last or FIRST_KEY
        return Merger(buffer, settings, self._clock, self._stream, self._metrics)

    def _serve(self) -> StreamServer:
        """Begin to release, and to serve followers."""
        if self.merger is None:
            self.merger = self._new_merger()
        self._publisher.outbox.expect_nothing()
        settings = self._settings
        server = StreamServer(settings, self._next_position)
        self.merger.server = server
        return server

    def _follow(self, last: MergeKey | None, now: Instant, ready: Ready) -> None:
        """Begin to follow a merger, after a key."""
        exchange, merge = self.exchange, self._settings.merge
        subscription = self.subscription_type(
            exchange.others, exchange.home, ALL_TOPICS, merge.beat_ns, self._settings.patience_ns
        )
        subscription.last = last
        self.follower = Follower(
            self._me, subscription, self._clock, self._stream, self._publisher.outbox, self._metrics, merge.tick_ns
        )
        subscription.begin(now, ready)

    def _resign(self, merger: Merger, now: Instant, ready: Ready) -> None:
        """Stop merging: another member does. What is pending here comes in its stream."""
        server = merger.server
        if server is not None:
            self._next_position = server.log.end
            if server.followers():
                ready.send.append(Send(server.followers(), Bye()))
            self._follow(merger.buffer.last, now, ready)
        self.merger = None

    def warm_up(self, merger: Merger, ready: Ready) -> None:
        """Drop what the followed stream has passed; once publishers have sent here for δ, stop following and merge."""
        subscription = None if self.follower is None else self.follower.subscription
        last = None if subscription is None else subscription.last
        if last is not None:
            merger.buffer.discard_through(last)
        if self._clock.rt >= merger.warm_at:
            if subscription is not None:
                ready.send.append(Send((subscription.merger,), Bye()))
            self.follower = None
            merger.buffer.last = max(merger.buffer.last, last or FIRST_KEY)
            self._publisher.outbox.merge_here(merger.buffer.has, ready)
            self._serve().log.floor = merger.buffer.last

    # --- inputs ---

    def take_publication(self, sender: Process, bundle: Bundle, topic: int, now: Instant, ready: Ready) -> None:
        """Put a publication in its place as a merger, or pass it on as a relay, and acknowledge it."""
        clock, metrics = self._clock, self._metrics
        stamps, rt = clock.stamps, clock.rt
        try:
            stamp = stamps.read(bundle.stamp, rt)
            key = clock.key_of(stamp, bundle)
        except (ValueError, LimitError):
            metrics.reject("stamp", bundle, ready)
            return
        published = stamps.published(stamp)
        metrics.arrived(rt - published, stamps.chain(stamp))
        wrong = stamps.wrong(stamp, rt)
        if wrong is not None:
            # Not acknowledged: if its clock is only a little ahead, it is sent again once ours has caught up.
            metrics.reject(wrong, bundle, ready)
            return
        merger = self.merger
        late = False
        if merger is not None:
            fate = merger.arrive(key, bundle, topic, published, now, ready)
            late = fate is Fate.LATE
            if late or fate is Fate.BUFFERED:
                metrics.arrivals.add(rt - published)
            frontier = merger.buffer.frontier
            if frontier is not None and bundle.process == sender:
                frontier.heard(rt, sender, key, bundle.first, bundle.last + 1)
        elif self.exchange.relays:
            self._publisher.relay(bundle, stamp, topic, now, ready)
        else:
            metrics.drop("not_merger", bundle, ready)
            return
        ack = Ack(PUBLICATION_ID.pack(bundle.pid, bundle.incarnation, bundle.first), late)
        ready.send.append(Send((sender.pid,), ack, sender.incarnation))

    def unreachable(self, peer: int, now: Instant, ready: Ready) -> None:
        """Learn that something sent to a peer did not arrive: switch to another merger, or forget a follower."""
        if self.follower is not None:
            self.follower.subscription.unreachable(peer, now, ready)
        elif self.merger is not None and self.merger.server is not None:
            self.merger.server.forget(peer)

    def tick(self, now: Instant, ready: Ready, *, may_mend: bool) -> RoleTable | None:
        """Do what is due; return a newer table if this member is the one to make it."""
        followers: tuple[int, ...] = ()
        candidates = answered_at = None
        self.guard(now, ready, is_member=may_mend, thoroughly=True)
        if self.merger is not None and self.merger.server is not None:
            self.merger.tick(self.merger.server, now, ready)
            followers = self.merger.server.followers()
            candidates = self.merger.server.candidates() if may_mend else None
        if self.follower is not None:
            self.follower.subscription.tick(now, ready)
            answered_at = self.follower.subscription.answered_at
        return self.exchange.tick(now, followers, candidates, answered_at, ready)

    def tell_alive(self, item: Alive, ready: Ready) -> None:
        """Report this member's progress as a publisher to every merger."""
        if self.exchange.others:
            ready.send.append(Send(self.exchange.others, item))
        if self.merger is not None and self.merger.server is not None:
            self.merger.heard(self._me, item, ready)

    def wake_at(self) -> Instant:
        """Return when the member's role needs a tick; NEVER if it does not."""
        wake_at = self.exchange.wake_at()
        merger, follower = self.merger, self.follower
        if merger is not None:
            server = merger.server
            if server is None:
                wake_at = min(wake_at, merger.warm_at * self._tick_ns)
            else:
                due = merger.next_tick()
                wake_at = min(wake_at, server.wake_at(), NEVER if due is None else due * self._tick_ns)
        return wake_at if follower is None else min(wake_at, follower.subscription.wake_at())
