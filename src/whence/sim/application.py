"""The application of a simulated process that remembers: it takes slowly, by event or in batches, breaks off, crashes.

What it is handed and takes is counted as for a live one (core/offsets.py), and the offsets survive crashes. The trace
records what it was handed. Events that were handed out and not yet taken when the process crashed do not count as
taken: their rows become notes, and they are owed again. Only the application knows which these were; any other event
that comes again, or not at all, is a broken promise.
"""

from collections import deque
from collections.abc import Callable
from random import Random

from whence.core.member import Member, Resuming
from whence.core.offsets import Offsets
from whence.core.ready import Delivery
from whence.limits import BUNDLE_EVENTS_MAX
from whence.sim.recorder import Recorder
from whence.sim.world import World
from whence.store.consumer_offsets import ConsumerOffsets
from whence.types import Bundle, EventId

BATCHES_PART = 0.3
"""The part of all incarnations that take batches; the others take single events."""

PAUSES = (0, 1, 1, 1, 2, 12)
"""Multiples of `take_ns` until it asks for the next event: at once, sooner or later, or after it broke off."""


class Application:
    """The application that one process hands its events to, through all its incarnations."""

    __slots__ = (
        "_died_with",
        "_heard",
        "_in_batches",
        "_in_hand",
        "_incarnation",
        "_is_away",
        "_offsets",
        "_planned",
        "_queue",
        "_record",
        "_remembers",
        "_rng",
        "_store",
        "_world",
    )  # fmt: skip

    def __init__(
        self, world: World, record: Recorder, rng: Random, heard: Callable[[Bundle], None], is_away: Callable[[], bool],
        *, remembers: bool = True,
    ) -> None:  # fmt: skip
        """`heard` is called with every bundle that was handed out; `is_away` tells whether the process is paused;
        `remembers`: a later incarnation goes on where this one was."""
        self._remembers = remembers
        self._world, self._record, self._rng, self._heard, self._is_away = world, record, rng, heard, is_away
        self._store = ConsumerOffsets(bytearray(ConsumerOffsets.BYTES))
        self._queue: deque[tuple[Delivery, int]] = deque()
        """Bundles delivered and not fully handed out, each with the number of its events that were."""
        self._in_hand: list[EventId] = []
        self._planned = self._in_batches = False
        self._incarnation = 0
        self._offsets = Offsets(None)

    # --- incarnations ---

    def begin(self, incarnation: int, member: Member) -> Offsets:
        """Begin an incarnation with its member; return its offsets."""
        assert self._world.offsets is not None
        self._incarnation = incarnation
        store = self._store if self._remembers else None
        self._offsets = self._world.offsets(store, member if isinstance(member, Resuming) else None)
        self._in_batches = self._rng.random() < BATCHES_PART
        return self._offsets

    def die(self, damage: str) -> None:
        """Crash with the process, and lose what was not taken."""
        if self._in_hand:
            self._world.effective["died_with_events_in_hand"] += 1
        if self._in_hand and self._queue and self._queue[0][1]:
            self._world.effective["died_inside_a_bundle"] += 1
        self._record.void(self._in_hand)
        self._in_hand.clear()
        self._queue.clear()
        self._planned = False
        if damage == "wiped":
            self._store = ConsumerOffsets(bytearray(ConsumerOffsets.BYTES))

    # --- what it is handed ---

    def deliver(self, step: Delivery) -> None:
        """Take what the member delivers: at once, or when its turn comes."""
        delivered = self._offsets.deliver(step.bundle)
        if delivered.left:
            self._queue.append((step, delivered.have))
            if not self._world.take_ns:
                self.drain()
            elif not self._planned:
                self._plan()

    def drain(self) -> None:
        """Hand out and take everything that is queued."""
        while self._queue:
            self._hand(BUNDLE_EVENTS_MAX)
        self._take()

    def _plan(self) -> None:
        self._planned = True
        pause = self._rng.choice(PAUSES) * self._world.take_ns
        self._world.loop.at(self._world.loop.now + pause, self._ask, self._incarnation)

    def _ask(self, incarnation: int) -> None:
        """Take what was handed out, and ask for more."""
        if incarnation != self._incarnation or not self._planned:
            return
        self._planned = False
        if self._is_away():
            self._plan()
        elif not self._world.take_ns:
            self.drain()
        else:
            self._take()
            if self._queue:
                self._hand(BUNDLE_EVENTS_MAX if self._in_batches else 1)
                self._plan()

    def _take(self) -> None:
        events = len(self._in_hand)
        self._in_hand.clear()
        self._offsets.take(events)

    def _hand(self, events: int) -> None:
        """Hand out the next events of the first bundle, at most `events` of them."""
        step, begin = self._queue[0]
        bundle, count = step.bundle, step.bundle.count
        end = min(begin + events, count)
        if end - begin == count:
            self._record.delivered(step)
        else:
            self._write(step, begin, end)
        self._offsets.hand(bundle, end - begin)
        self._in_hand += [EventId(bundle.pid, bundle.incarnation, bundle.first + at) for at in range(begin, end)]
        if end < count:
            self._queue[0] = (step, end)
            return
        self._queue.popleft()
        self._heard(bundle)

    def _write(self, step: Delivery, begin: int, end: int) -> None:
        """Record a part of a bundle that is handed out."""
        bundle = step.bundle
        payloads = bundle.payloads()
        for at in range(begin, end):
            size = bundle.sizes[4 * at : 4 * at + 4]
            alone = Bundle(bundle.pid, bundle.incarnation, bundle.first + at, size, payloads[at], bundle.stamp)
            self._record.delivered(Delivery(alone, step.hold_ns, step.mark))
