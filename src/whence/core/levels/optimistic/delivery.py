"""Two-layer delivery: causal order as far as events come in time, and never against it.

Promises: no event is delivered after one that follows it; none twice; what is skipped is reported (`gap`) as soon as
its publisher is known, and never delivered afterwards. Nothing waits longer than `hold_rounds` + `recover_rounds`.
Assumes: no two owners of a ticket share an epoch. Tickets see to that; and epochs fence what comes late even when the
assumptions that tickets make about clocks are broken.
The sentence that decides: a bundle is delivered when it is its ticket's next and nothing it follows is missing; when
waiting and asking did not help, what it follows is skipped for good.
Costs per bundle: a stamp of the tickets in use; one comparison of vectors, and one per bundle held when another is
delivered. Source: docs/papers/optimistic.md 6; J section 5 (Algorithm 5), traps C1 to C20.
"""

from whence.core.clocks import cct
from whence.core.clocks.cct import Stamp, entries_above, epoch_of, number_of
from whence.core.levels.optimistic.epoch import PublishingEpoch
from whence.core.levels.optimistic.handover import Handover
from whence.core.levels.optimistic.held import HeldBundle, HeldBundles
from whence.core.levels.optimistic.missing import Id, entries_in, newest_missing
from whence.core.levels.optimistic.publishers import Publishers
from whence.core.levels.optimistic.recovery import Recover, Recovered, RecoveryBuffer, RecoveryRequests, TokenBucket
from whence.core.levels.optimistic.settings import DeliverySettings
from whence.core.levels.optimistic.snapshot import pack_snapshot, read_snapshot
from whence.core.ready import Delivery, Gauge, Item, Mark, Note, Ready, Send
from whence.limits import BUNDLE_BYTES_MAX, Limits
from whence.types import Bundle, Instant, Process


class TwoLayerDelivery:
    """Deliver, hold, recover, skip. Some parts are named here, so that a planted bug can be one of them replaced."""

    epoch_type: type[PublishingEpoch] = PublishingEpoch
    publishers_type: type[Publishers] = Publishers
    handover_type: type[Handover] = Handover
    buffer_type: type[RecoveryBuffer] = RecoveryBuffer

    def __init__(self, me: Process, tickets: int, settings: DeliverySettings, round_ns: int, limits: Limits) -> None:
        self.clock = [0] * tickets
        """The last event delivered, or skipped past, of every ticket."""
        self.epoch = self.epoch_type(self.clock)
        self.publishers = self.publishers_type()
        burst = int(4 * settings.recovery_rate)
        self.requests = RecoveryRequests(
            me,
            settings.recovery,
            settings.recovery_fanout,
            TokenBucket(settings.recovery_rate, burst, round_ns),
            16 * burst,
        )
        self.requests.publisher_of = self.publishers.pid_of
        self.handover = self.handover_type(self.clock, settings, round_ns, self.requests)
        self._me = me
        self._tickets = tickets
        self._settings = settings
        self._hold_ns = settings.hold_rounds * round_ns
        self._recover_ns = settings.recover_rounds * round_ns
        self._held = HeldBundles(limits)
        self._buffer = self.buffer_type(settings.recovery_bundles, settings.recovery_bytes)
        self._answers = TokenBucket(settings.recovery_rate, burst, round_ns)

    # --- publishing ---

    def stamp(self, now: Instant) -> bytes:
        """Return what a bundle published now follows: all that was delivered here."""
        return self.epoch.stamp()

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver the member's own bundle at creation: it waits for nothing."""
        stamp = cct.read(bundle.stamp, self._tickets, bundle.count)
        self.publishers.learn(bundle, stamp, ready)
        self._buffer.keep(stamp.ticket, stamp.before, stamp.entry, bundle)
        self.publishers.report_skipped(stamp, self.clock, ready)
        self._deliver(bundle, stamp, 0, ready)
        ready.mark = Mark(ticket=stamp.ticket, epoch=stamp.epoch)
        self._drain(now, ready)

    # --- receiving ---

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver a bundle for which nothing is missing, and what waited for it; hold one that is early."""
        stamp = self._take_in(bundle, ready)
        if stamp is None:
            return
        key, held = (stamp.ticket, stamp.entry), self._held
        if key in held.waiting or key in held.recovered:
            ready.notes.append(Note("drop", "duplicate", bundle))
        elif self._is_deliverable(stamp):
            self._deliver(bundle, stamp, 0, ready)
            self._drain(now, ready)
        else:
            early = HeldBundle(bundle, stamp, now, [])
            held.wait(key, early)
            held.to_ask.append((now + self._hold_ns, key, early))
            self._make_room(now, ready)

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        """Take a request for events, or events that were asked for."""
        self.publishers.trust(sender.pid)
        if isinstance(item, Recover):
            found = self._buffer.find(item.ranges)
            found = found[: self._answers.take(len(found), now)]
            if found and sender.pid != self._me.pid:
                ready.send.append(Send((sender.pid,), Recovered(found), sender.incarnation))
        elif isinstance(item, Recovered):
            for bundle in item.bundles:
                self._admit_recovered(bundle, now, ready)

    def _admit_recovered(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Take what was asked for as if it had come by itself; but if it is early it waits for those that asked."""
        stamp = self._take_in(bundle, ready)
        if stamp is None:
            return
        key, held = (stamp.ticket, stamp.entry), self._held
        if key in held.waiting or key in held.recovered:
            ready.notes.append(Note("drop", "duplicate", bundle))
        elif self._is_deliverable(stamp):
            ready.notes.append(Note("note", "recovered", value=bundle.count))
            self._deliver(bundle, stamp, 0, ready)
            self._drain(now, ready)
        elif self.handover.awaits(stamp):  # our own first event must follow it: ask at once for what it follows itself
            ready.notes.append(Note("note", "recovered", value=bundle.count))
            early = HeldBundle(bundle, stamp, now, [])
            held.wait(key, early)
            self._ask(key, early, now, ready)
            self._make_room(now, ready)
        elif any((stamp.ticket, entry) in self.requests for entry in entries_in(stamp)):
            ready.notes.append(Note("note", "recovered", value=bundle.count))
            held.keep_recovered(key, HeldBundle(bundle, stamp, now, []))
            self._make_room(now, ready)
        else:
            ready.notes.append(Note("drop", "not_asked_for", bundle))

    def _take_in(self, bundle: Bundle, ready: Ready) -> Stamp | None:
        """Read a bundle and keep it for others; return None if it must not be delivered any more, or ever."""
        try:
            stamp = cct.read(bundle.stamp, self._tickets, bundle.count)
        except ValueError:
            ready.notes.append(Note("reject", "stamp", bundle))
            return None
        self.publishers.learn(bundle, stamp, ready)
        self._buffer.keep(stamp.ticket, stamp.before, stamp.entry, bundle)
        if self._is_obsolete(stamp):
            ready.notes.append(Note("drop", "obsolete", bundle))
            return None
        return stamp

    # --- the sentence that decides ---

    def _is_obsolete(self, stamp: Stamp) -> bool:
        """Tell whether it, or something of its ticket after it, was delivered or skipped past."""
        return stamp.entry <= self.clock[stamp.ticket]

    def _is_deliverable(self, stamp: Stamp) -> bool:
        """Tell whether it is its ticket's next, and its own entry is the only one above the clock."""
        entry = self.clock[stamp.ticket]
        if entry != stamp.before:
            begins = not number_of(stamp.before) and epoch_of(entry) < stamp.epoch
            if not begins or entry < stamp.base:
                return False
        return entries_above(stamp.vector, self.clock) == 1

    # --- delivering ---

    def _deliver(self, bundle: Bundle, stamp: Stamp, hold_ns: int, ready: Ready) -> None:
        clock, vector = self.clock, stamp.vector
        for ticket, entry in enumerate(vector):
            if entry > clock[ticket]:
                clock[ticket] = entry
                if self.requests:
                    self.requests.forget(ticket, entry)
        ready.deliver.append(Delivery(bundle, hold_ns, Mark(ticket=stamp.ticket, epoch=stamp.epoch)))

    def _drain(self, now: Instant, ready: Ready) -> None:
        """Drop what became obsolete and deliver what has nothing missing, until neither changes anything."""
        waiting, recovered = self._held.waiting, self._held.recovered
        changed = bool(waiting or recovered)
        while changed:
            changed = False
            for bundles in (waiting, recovered):
                for key in list(bundles):
                    held = bundles.get(key)
                    if held is None:
                        continue
                    if self._is_obsolete(held.stamp):
                        self._held.release(key)
                        ready.notes.append(Note("drop", "obsolete", held.bundle))
                    elif self._is_deliverable(held.stamp):
                        self._held.release(key)
                        self._deliver(held.bundle, held.stamp, now - held.since, ready)
                        changed = True

    def _force(self, target: HeldBundle, now: Instant, ready: Ready) -> None:
        """Deliver a bundle whatever is missing, after those held that it follows, each in its order."""
        vector = target.stamp.vector
        before = [held for held in self._held.all() if held.stamp.entry <= vector[held.stamp.ticket]]
        for held in in_causal_order(before):
            self._held.release((held.stamp.ticket, held.stamp.entry))
            if self._is_obsolete(held.stamp):
                ready.notes.append(Note("drop", "obsolete", held.bundle))
                continue
            self.publishers.report_skipped(held.stamp, self.clock, ready)
            self._deliver(held.bundle, held.stamp, now - held.since, ready)
        self._drain(now, ready)

    def _make_room(self, now: Instant, ready: Ready) -> None:
        """Deliver the oldest bundles whatever is missing, while more is held than the limits allow."""
        while self._held.is_overfull():
            self._force(self._held.oldest(), now, ready)

    # --- time ---

    def tick(self, now: Instant, ready: Ready) -> None:
        """Ask for what has been missing for long, and skip what was asked for and did not come."""
        self.handover.tick(now, ready)
        held = self._held
        for key, early in held.due(held.to_ask, now):
            self._ask(key, early, now, ready)
        for _, early in held.due(held.to_ask_more, now):
            self.requests.ask_more(early.asked, ready)
        for _, early in held.due(held.to_skip, now):
            self._force(early, now, ready)

    def _ask(self, key: Id, early: HeldBundle, now: Instant, ready: Ready) -> None:
        """Ask for what an early bundle follows and nobody here holds, and start the timers that end in skipping it."""
        held, ids_max = self._held, self._settings.recovery_ids
        newest = newest_missing(early.stamp, self.clock, self.publishers.base_of, ids_max)
        missing = [each for each in newest if not held.holds(each)]
        if len(missing) > ids_max:
            ready.notes.append(Note("reset", "too_old", early.bundle))
            missing = missing[len(missing) - ids_max :]
        early.asked = self.requests.ask(missing, now, ready)
        if early.asked:
            ready.notes.append(Note("note", "recovery_asked"))
        if self._settings.recovery == "R1+Rk":
            held.to_ask_more.append((now + self._recover_ns // 2, key, early))
        held.to_skip.append((now + self._recover_ns, key, early))

    def wake_at(self) -> Instant | None:
        """Return when the first wait ends."""
        held = self._held
        soonest = held.wake_at() if held.to_ask or held.to_skip else None
        if self.handover.open is not None:
            at = self.handover.wake_at()
            return at if soonest is None or (at is not None and at < soonest) else soonest
        return soonest

    # --- newcomers and observers ---

    def snapshot(self) -> bytes:
        """Return the clock, so that a newcomer does not take the whole past for missing."""
        return pack_snapshot(self.clock, self.publishers.base_of)

    def adopt(self, snapshot: bytes) -> None:
        """Start from a member's clock. Raises ValueError if this is no snapshot."""
        for ticket, entry in read_snapshot(snapshot, self._tickets):
            self.clock[ticket] = max(entry, self.clock[ticket])

    def gauges(self) -> list[Gauge]:
        """Return how much is held, kept and asked for."""
        settings = self._settings
        return [
            *self._held.gauges(),
            Gauge("recovery_buffer", len(self._buffer), settings.recovery_bundles),
            Gauge("recovery_bytes", self._buffer.bytes, max(settings.recovery_bytes, BUNDLE_BYTES_MAX)),
            Gauge("under_recovery", len(self.requests), self.requests.ids_max),
            *self.publishers.gauges(),
        ]


def in_causal_order(held: list[HeldBundle]) -> list[HeldBundle]:
    """Return bundles in a linear extension of happened-before: sums of vectors grow along it."""
    return sorted(held, key=lambda each: (sum(each.stamp.vector), each.stamp.ticket))
