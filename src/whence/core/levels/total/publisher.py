"""The publisher's side of a member: it numbers and stamps what is published, and sends it to every merger.

Law: the keys of one publisher grow with its numbers. With `hlc`, whatever is published after a delivery has a larger
key than what was delivered, under any clocks: stamps are observed at delivery. An event that others would reject,
because its tick is full, is refused before it is created. A relay passes publications on with their origin's stamp: a
new one could invert what comes by another relay.
Cost per publication: a stamp, one item to every merger or relay, an entry in the outbox.
Source: docs/papers/merge.md: merge 4, 8 and 11; merge E8.
"""

from whence.core.clocks.stamp import REST_BITS
from whence.core.clocks.ticks import NEVER
from whence.core.levels.total.clock import GuardedClock
from whence.core.levels.total.follower import Follower
from whence.core.levels.total.items import Alive
from whence.core.levels.total.merger import Merger
from whence.core.levels.total.metrics import MemberMetrics
from whence.core.levels.total.outbox import Outbox
from whence.core.levels.total.settings import ALL_TOPICS, TotalSettings
from whence.core.ready import Mark, Ready, Returned
from whence.errors import StalledError
from whence.types import Bundle, Instant, Process


class Publisher:
    """Everything this process publishes in one incarnation."""

    def __init__(
        self, me: Process, settings: TotalSettings, clock: GuardedClock, outbox: Outbox, metrics: MemberMetrics
    ) -> None:
        self.published = 0
        """The number of the last event."""
        self.topic = 0
        """The topic of what is published from now on."""
        self.targets: tuple[int, ...] = ()
        """Mergers or relays that publications are sent to."""
        self.outbox = outbox
        self._me = me
        self._clock = clock
        self._metrics = metrics
        self._delta = settings.timing.delta
        self._origin = settings.timing.origin
        self._worth_ticks_max = settings.timing.lead_max + settings.timing.stall_max + settings.timing.delta
        self._tick_ns = settings.merge.tick_ns
        self._beat_ns = settings.merge.beat_ns
        self._always = settings.merge.release == "frontier"
        """Mergers wait for every publisher's progress."""
        self._reports = settings.merge.resends + 1
        self._unreported = 0
        """How often the number of the last event is still to be reported."""
        self.alive_at: Instant = 0
        """When the publisher next reports its progress."""

    def full_tick(self) -> StalledError | None:
        """Return the refusal of an event that others would reject, because the tick is full; None if it is not."""
        wait = self._clock.stamps.wait(self._clock.rt)
        if not wait:
            return None
        self._metrics.counts["tick_full"] += 1
        why = "this tick has all the events it may have (events_per_tick_max, publishers_max, epsilon)"
        return StalledError(why, (wait + 1) * self._tick_ns)

    def publish(
        self, sizes: bytes, body: bytes, merger: Merger | None, follower: Follower | None, now: Instant, ready: Ready
    ) -> Bundle:
        """Stamp events as one bundle and send it; a merger here takes it at once."""
        clock, metrics, me = self._clock, self._metrics, self._me
        stamps, rt = clock.stamps, clock.rt
        stamp = stamps.local(rt)
        chain = stamps.chain(stamp)
        if chain > metrics.k_max:
            metrics.k_max = chain
        bundle = Bundle(me.pid, me.incarnation, self.published + 1, sizes, body, stamps.write(stamp))
        key = clock.key_of(stamp, bundle)
        self.published += len(sizes) >> 2
        self._unreported = self._reports
        if not self._always:
            self.alive_at = now + self._beat_ns
        ready.published, ready.mark = Returned(bundle), Mark(((key[0] >> REST_BITS) + self._origin, *key))
        if merger is not None:
            merger.arrive(key, bundle, self.topic, rt, now, ready)
        self.outbox.send(
            bundle, self.topic, self.targets, now, stamps.physical(stamp) + self._delta, ready, own=True,
            tell=merger is None or merger.server is None,  # a merger that serves has it
            key=key if follower is not None and follower.subscription.topics == ALL_TOPICS else None,
        )  # fmt: skip
        return bundle

    def pause(self, now: Instant) -> None:
        """Report at once with which number this publisher would continue, because it publishes no more."""
        self.alive_at = min(self.alive_at, now)

    def wake_at(self) -> Instant:
        """Return when progress is next reported; NEVER if it is not."""
        return self.alive_at if self._always or self._unreported else NEVER

    def relay(self, bundle: Bundle, stamp: object, topic: int, now: Instant, ready: Ready) -> None:
        """Pass another process's publication on to the mergers, unchanged."""
        worth_until = self._clock.stamps.physical(stamp) + self._delta
        self.outbox.send(bundle, topic, self.targets, now, worth_until, ready, own=False)

    def tick(self, now: Instant, ready: Ready) -> None:
        """Send again what was not acknowledged; give up what is too late."""
        rt = self._clock.rt
        self.outbox.tick(rt, now, rt + self._worth_ticks_max, ready)

    def alive(self, now: Instant, *, is_publisher: bool) -> Alive | None:
        """Return this publisher's progress, if it is due: on every beat for mergers that release by the frontier, else
        a few times after its last event, so that its followers learn what was left out at the end."""
        if not (self._always or self._unreported) or now < self.alive_at <= now + self._beat_ns:
            return None
        self.alive_at = now + self._beat_ns
        stamps, rt = self._clock.stamps, self._clock.rt
        if not is_publisher or self._clock.stalled or stamps.wait(rt):
            return None
        self._unreported = max(0, self._unreported - 1)
        return Alive(stamps.write(stamps.local(rt)), self.published + 1)
