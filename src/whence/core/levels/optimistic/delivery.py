"""Two-layer delivery: causal order as far as events come in time, and never against it.

Promises: no event is delivered after one that follows it; none twice; what is skipped is told (`gap`) as soon as its
names are known, and never delivered afterwards. Nothing waits longer than `hold_rounds` + `recover_rounds`.
Assumes: no two owners of a ticket share an epoch (tickets see to that, and epochs fence what comes late even when the
tickets' assumptions about clocks are broken).
The sentence that decides: a bundle is delivered when it is its ticket's next and nothing it comes after is missing;
after waiting and asking in vain, what it comes after is skipped for good.
Costs per bundle: a stamp of the tickets in use; one comparison of vectors, and one per bundle held when another is
delivered. Source: tickets_twolayer 6; J section 5 (Algorithm 5), traps C1 to C20.
"""

from collections import deque
from collections.abc import Callable, Iterator
from struct import Struct as Layout

from msgspec import Struct

from whence.core.clocks import cct
from whence.core.clocks.cct import NUMBER_BITS, Stamp, entries_above, entry_of, epoch_of, number_of
from whence.core.levels.optimistic.recovery import Asking, Bucket, Library, Recover, Recovered
from whence.core.levels.optimistic.tickets.records import Claim
from whence.core.ready import Delivery, Gap, Gauge, Item, Mark, Note, Ready, Send
from whence.errors import SettingError
from whence.limits import BUNDLE_BYTES_MAX, ROUNDS_MAX, Limits
from whence.types import Bundle, Instant, Process, Span

_ENTRY = Layout("<HQQ")
"""A ticket in a snapshot: number, entry, base of its epoch."""

SOURCES_MAX = 8
"""Epochs per ticket whose publishers are remembered. Full: the lowest epoch is forgotten."""

UNNAMED_MAX = 256
"""Skipped ranges whose names are not known yet. Full: the oldest is not told."""

MODES = ("R1", "Rk", "R1+Rk", "none")


class LayerSettings(Struct, frozen=True, kw_only=True):
    """How long is waited for what is missing, and whom is asked. Rounds are gossip rounds."""

    hold_rounds: int = 6
    """Rounds a bundle waits for what it comes after before that is asked for. As long as an event is spread."""
    recover_rounds: int = 6
    """Rounds from asking to skipping: at least a round trip; the paper takes as long as an event is spread."""
    recovery: str = "R1+Rk"
    """R1: ask the publisher. Rk: ask `recovery_fanout` members. R1+Rk: first the publisher, then members. none: what is
    missing is skipped and told, never asked for."""
    recovery_fanout: int = 4
    """Members asked at once; 2 × p_f × N by Theorem 5.2. `whence size` prints what suits."""
    recovery_bundles: int = 512
    """Bundles kept for others; twice the bundles published while an event must stay recoverable, by Theorem 5.1."""
    recovery_bytes: int = 8 << 20
    """Their bytes. Full: the oldest are forgotten, and what was lost together with them is skipped."""
    recovery_ids: int = 64
    """Ids asked for on behalf of one bundle, the newest."""
    recovery_rate: float = 64.0
    """Ids a process asks for per round, and bundles it answers with; four times as many at once."""

    def __post_init__(self) -> None:
        for name in ("hold_rounds", "recover_rounds"):
            if not 1 <= getattr(self, name) <= ROUNDS_MAX:
                raise SettingError(f"{name} must be from 1 to {ROUNDS_MAX}, not {getattr(self, name)}")
        if self.recovery not in MODES:
            raise SettingError(f"recovery must be one of {', '.join(MODES)}, not {self.recovery!r}")
        for name in ("recovery_fanout", "recovery_bundles", "recovery_bytes", "recovery_ids", "recovery_rate"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, not {getattr(self, name)}")


class Source(Struct, frozen=True, gc=False):
    """Who published under a ticket and epoch; its own numbers are the clock's plus `shift`."""

    process: Process
    shift: int
    base: int


class Held(Struct, gc=False):
    """A bundle that waits, and since when."""

    bundle: Bundle
    stamp: Stamp
    since: Instant
    asked: list[tuple[int, int]]


class Sought(Struct, gc=False):
    """What former owners of our ticket published and has not come: up to which entry, and asked for until when."""

    ticket: int
    base: int
    asked: list[tuple[int, int]]
    again_at: Instant | None
    until: Instant


class Optimistic:
    """Hold, recover, skip."""

    def __init__(self, me: Process, tickets: int, settings: LayerSettings, round_ns: int, limits: Limits) -> None:
        self.clock = [0] * tickets
        """The last event delivered, or skipped past, of every ticket."""
        self.claim: Claim | None = None
        """What the next own bundle is published under."""
        self.base = 0
        self._me = me
        self._tickets = tickets
        self._settings = settings
        self._limits = limits
        self._hold_ns = settings.hold_rounds * round_ns
        self._recover_ns = settings.recover_rounds * round_ns
        self._held: dict[tuple[int, int], Held] = {}
        """What came by gossip and waits; it is given up when its time is over."""
        self._recovered: dict[tuple[int, int], Held] = {}
        """What was asked for and came too early; it waits for those that asked."""
        self._held_bytes = 0
        self._library = Library(settings.recovery_bundles, settings.recovery_bytes)
        burst = int(4 * settings.recovery_rate)
        self._answers = Bucket(settings.recovery_rate, burst, round_ns)
        self.asking = Asking(
            me, settings.recovery, settings.recovery_fanout, Bucket(settings.recovery_rate, burst, round_ns), 16 * burst
        )
        self.asking.source_of = self.source_of
        self.owner_of: Callable[[Claim], Process | None] = lambda _: None
        """Knows by hearsay who owns a claim of which nothing has come yet; lent by the tickets."""
        self._sources: dict[int, dict[int, Source]] = {}
        self._unnamed: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._suspects: dict[int, None] = {}
        self._to_ask: deque[tuple[Instant, tuple[int, int], Held]] = deque()
        self._to_ask_more: deque[tuple[Instant, tuple[int, int], Held]] = deque()
        self._to_skip: deque[tuple[Instant, tuple[int, int], Held]] = deque()
        self._sought: Sought | None = None

    # --- publishing ---

    def begin_epoch(self, claim: Claim, base: int) -> None:
        """Publish under this claim from now on; its first event follows everything up to `base`."""
        if claim != self.claim:
            self.claim = claim
            self.base = max(base, self.clock[claim.ticket])
            if self.base >> NUMBER_BITS >= claim.epoch:
                self.base = 0

    def seek(self, claim: Claim, base: int, now: Instant, ready: Ready) -> None:
        """Ask at once for what former owners of a ticket of ours published up to `base` and has not come.

        Others ask for it when they hold our first event, which follows it; we deliver that at creation.
        """
        if self._sought is not None:
            self._give_up_seeking()
        ids, clock = self._settings.recovery_ids, self.clock[claim.ticket]
        first = clock if epoch_of(clock) == epoch_of(base) else entry_of(epoch_of(base), 0)
        missing = range(max(first, base - ids) + 1, base + 1)
        asked = self.asking.first([(claim.ticket, entry) for entry in missing], now, ready) if base > clock else []
        if asked:
            ready.notes.append(Note("note", "predecessor_asked"))
            again = now + self._recover_ns // 2 if self._settings.recovery == "R1+Rk" else None
            until = now + self._hold_ns + self._recover_ns
            self._sought = Sought(claim.ticket, base, asked, again, until)

    def _go_on_seeking(self, now: Instant, ready: Ready) -> None:
        sought = self._sought
        if sought is None:
            return
        if self.clock[sought.ticket] >= sought.base or now >= sought.until:
            self._give_up_seeking()
        elif sought.again_at is not None and now >= sought.again_at:
            sought.again_at = None
            self.asking.second(sought.asked, ready)

    def _give_up_seeking(self) -> None:
        """Ask no more for what did not come; others may still."""
        sought, self._sought = self._sought, None
        if sought is not None:
            self.asking.drop(sought.asked)

    def _is_sought(self, stamp: Stamp) -> bool:
        sought = self._sought
        return sought is not None and stamp.ticket == sought.ticket and stamp.entry <= sought.base

    def stamp(self, now: Instant) -> bytes:
        """Return what a bundle published now comes after: all that was delivered here."""
        assert self.claim is not None
        return cct.packed(self.claim.ticket, self._before(self.claim), self.base, self.clock)

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver the member's own bundle at creation: it waits for nothing, and nothing waits for it in vain."""
        stamp = self._read(bundle)
        self._learn_source(bundle, stamp, ready)
        self._library.keep(stamp.ticket, stamp.before, stamp.entry, bundle)
        self._skip(stamp, ready)
        self._deliver(bundle, stamp, 0, ready)
        ready.mark = Mark(ticket=stamp.ticket, epoch=stamp.epoch)
        self._drain(now, ready)

    def _before(self, claim: Claim) -> int:
        """Return the entry just before the next own event."""
        entry = self.clock[claim.ticket]
        return entry if epoch_of(entry) == claim.epoch else entry_of(claim.epoch, 0)

    # --- receiving ---

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver a bundle that nothing is missing for, and what waited for it; hold one that is early."""
        stamp = self._take_in(bundle, ready)
        if stamp is None:
            return
        key = (stamp.ticket, stamp.entry)
        if key in self._held or key in self._recovered:
            ready.notes.append(Note("drop", "duplicate", bundle))
        elif self._deliverable(stamp):
            self._deliver(bundle, stamp, 0, ready)
            self._drain(now, ready)
        else:
            self._hold(key, Held(bundle, stamp, now, []), ready)

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        """Take a request for events, or events that were asked for."""
        self._suspects.pop(sender.pid, None)
        if isinstance(item, Recover):
            found = self._library.find(item.ranges)
            found = found[: self._answers.take(len(found), now)]
            if found and sender.pid != self._me.pid:
                ready.send.append(Send((sender.pid,), Recovered(found), sender.boot))
        elif isinstance(item, Recovered):
            for bundle in item.bundles:
                self._take_back(bundle, now, ready)

    def _take_back(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Take in what was asked for, as if it had come by itself; but it waits for those that asked."""
        stamp = self._take_in(bundle, ready)
        if stamp is None:
            return
        key = (stamp.ticket, stamp.entry)
        if key in self._held or key in self._recovered:
            ready.notes.append(Note("drop", "duplicate", bundle))
        elif self._deliverable(stamp):
            ready.notes.append(Note("note", "recovered", value=bundle.count))
            self._deliver(bundle, stamp, 0, ready)
            self._drain(now, ready)
        elif self._is_sought(stamp):
            ready.notes.append(Note("note", "recovered", value=bundle.count))
            self._hold_asking(key, Held(bundle, stamp, now, []), ready)
        elif any((stamp.ticket, entry) in self.asking for entry in _entries(stamp)):
            ready.notes.append(Note("note", "recovered", value=bundle.count))
            self._recovered[key] = Held(bundle, stamp, now, [])
            self._held_bytes += len(bundle.body)
            while self._overfull():
                self._force_oldest(now, ready)
        else:
            ready.notes.append(Note("drop", "not_asked_for", bundle))

    def _take_in(self, bundle: Bundle, ready: Ready) -> Stamp | None:
        """Read and keep a bundle; return None if it must not be delivered any more, or ever."""
        try:
            stamp = self._read(bundle)
        except ValueError:
            ready.notes.append(Note("reject", "stamp", bundle))
            return None
        self._learn_source(bundle, stamp, ready)
        self._library.keep(stamp.ticket, stamp.before, stamp.entry, bundle)
        if self._obsolete(stamp):
            ready.notes.append(Note("drop", "obsolete", bundle))
            return None
        return stamp

    def _read(self, bundle: Bundle) -> Stamp:
        return cct.read(bundle.stamp, self._tickets, bundle.count)

    # --- the sentence that decides ---

    def _obsolete(self, stamp: Stamp) -> bool:
        """Tell whether it, or something of its ticket after it, was delivered or skipped past."""
        return stamp.entry <= self.clock[stamp.ticket]

    def _deliverable(self, stamp: Stamp) -> bool:
        """Tell whether it is its ticket's next, and its own entry is the only one above the clock."""
        entry = self.clock[stamp.ticket]
        if entry != stamp.before:
            begins = not number_of(stamp.before) and epoch_of(entry) < stamp.epoch
            if not begins or entry < stamp.base:
                return False
        return entries_above(stamp.vector, self.clock) == 1

    def _missing(self, stamp: Stamp) -> Iterator[tuple[int, int]]:
        """Yield the ids (ticket, entry) that it comes after and that were neither delivered nor skipped."""
        for ticket, upto in enumerate(stamp.vector):
            own = ticket == stamp.ticket
            yield from self._between(
                ticket, self.clock[ticket], stamp.before if own else upto, stamp.base if own else None
            )

    def _between(self, ticket: int, since: int, upto: int, base: int | None) -> Iterator[tuple[int, int]]:
        """Yield a ticket's ids above one entry, up to another: in its epoch, and before it as far as that is known."""
        if upto <= since:
            return
        epoch = epoch_of(upto)
        if epoch_of(since) == epoch:
            yield from ((ticket, entry) for entry in range(since + 1, upto + 1))
            return
        if base is None:
            source = self._sources.get(ticket, {}).get(epoch)
            base = source.base if source is not None else 0
        if base > since and epoch_of(base) == epoch_of(since):
            yield from ((ticket, entry) for entry in range(since + 1, base + 1))
        elif base > since:
            yield from ((ticket, entry) for entry in range(entry_of(epoch_of(base), 1), base + 1))
        yield from ((ticket, entry) for entry in range(entry_of(epoch, 1), upto + 1))

    # --- delivering ---

    def _deliver(self, bundle: Bundle, stamp: Stamp, hold_ns: int, ready: Ready) -> None:
        clock, vector = self.clock, stamp.vector
        for ticket, entry in enumerate(vector):
            if entry > clock[ticket]:
                clock[ticket] = entry
                if self.asking:
                    self.asking.forget(ticket, entry)
        ready.deliver.append(Delivery(bundle, hold_ns, Mark(ticket=stamp.ticket, epoch=stamp.epoch)))

    def _drain(self, now: Instant, ready: Ready) -> None:
        """Drop what became obsolete, deliver what nothing is missing for, until neither changes anything."""
        changed = bool(self._held or self._recovered)
        while changed:
            changed = False
            for kept in (self._held, self._recovered):
                for key in list(kept):
                    held = kept.get(key)
                    if held is None:
                        continue
                    if self._obsolete(held.stamp):
                        self._release(key)
                        ready.notes.append(Note("drop", "obsolete", held.bundle))
                    elif self._deliverable(held.stamp):
                        self._release(key)
                        self._deliver(held.bundle, held.stamp, now - held.since, ready)
                        changed = True

    def _force(self, target: Held, now: Instant, ready: Ready) -> None:
        """Deliver a bundle whatever is missing, after those held that it comes after, each in its order."""
        vector = target.stamp.vector
        before = [
            held
            for kept in (self._held, self._recovered)
            for held in kept.values()
            if held.stamp.entry <= vector[held.stamp.ticket]
        ]
        for held in self._in_order(before):
            self._release((held.stamp.ticket, held.stamp.entry))
            if self._obsolete(held.stamp):
                ready.notes.append(Note("drop", "obsolete", held.bundle))
                continue
            self._skip(held.stamp, ready)
            self._deliver(held.bundle, held.stamp, now - held.since, ready)
        self._drain(now, ready)

    def _in_order(self, held: list[Held]) -> list[Held]:
        """Return bundles in an order that extends "comes after": sums of vectors grow along it."""
        return sorted(held, key=lambda each: (sum(each.stamp.vector), each.stamp.ticket))

    def _skip(self, stamp: Stamp, ready: Ready) -> None:
        """Tell what is given up for good by delivering this now."""
        spans: list[Span] = []
        named = True
        for ticket, upto in enumerate(stamp.vector):
            since = self.clock[ticket]
            if ticket == stamp.ticket:
                upto = stamp.before
                if number_of(upto) == 0 and stamp.base > since:
                    named &= self._name(ticket, since, stamp.base, spans)
            if upto > since:
                named &= self._name(ticket, since, upto, spans)
        if spans:
            ready.deliver.append(Gap(tuple(spans)))
        if not named:  # it may never be: nothing else of that epoch need come
            ready.notes.append(Note("reset", "unnamed"))

    def _name(self, ticket: int, since: int, upto: int, spans: list[Span]) -> bool:
        """Add the span of a ticket's events above one entry up to another, or keep it until its publisher is known.

        Return False in the latter case.
        """
        epoch = epoch_of(upto)
        first = number_of(since) + 1 if epoch_of(since) == epoch else 1
        last = number_of(upto)
        if last < first:
            return True
        source = self._sources.get(ticket, {}).get(epoch)
        if source is not None:
            spans.append(Span(*source.process, first + source.shift, last + source.shift))
            return True
        self._unnamed.setdefault((ticket, epoch), []).append((first, last))
        if len(self._unnamed) > UNNAMED_MAX:
            del self._unnamed[next(iter(self._unnamed))]
        return False

    def _learn_source(self, bundle: Bundle, stamp: Stamp, ready: Ready) -> None:
        """Remember who publishes under an epoch, and name what was skipped of it before its name was known."""
        epochs = self._sources.setdefault(stamp.ticket, {})
        if stamp.epoch in epochs:
            return
        shift = bundle.last - number_of(stamp.entry)
        epochs[stamp.epoch] = Source(bundle.process, shift, stamp.base)
        if len(epochs) > SOURCES_MAX:
            del epochs[min(epochs)]
        ranges = self._unnamed.pop((stamp.ticket, stamp.epoch), [])
        spans = [
            Span(*bundle.process, max(1, first + shift), last + shift) for first, last in ranges if last + shift > 0
        ]
        if spans:
            ready.deliver.append(Gap(tuple(spans)))

    # --- holding ---

    def _hold(self, key: tuple[int, int], held: Held, ready: Ready) -> None:
        self._held[key] = held
        self._held_bytes += len(held.bundle.body)
        self._to_ask.append((held.since + self._hold_ns, key, held))
        while self._overfull():
            self._force_oldest(held.since, ready)

    def _hold_asking(self, key: tuple[int, int], held: Held, ready: Ready) -> None:
        """Hold what our own first event must follow, and ask at once for what it follows itself."""
        self._held[key] = held
        self._held_bytes += len(held.bundle.body)
        self._ask(key, held, held.since, ready)
        while self._overfull():
            self._force_oldest(held.since, ready)

    def _overfull(self) -> bool:
        limits = self._limits
        count = len(self._held) + len(self._recovered)
        return count > limits.held_bundles_max or self._held_bytes > limits.held_bytes_max

    def _force_oldest(self, now: Instant, ready: Ready) -> None:
        kept = self._held or self._recovered
        self._force(next(iter(kept.values())), now, ready)

    def _release(self, key: tuple[int, int]) -> None:
        held = self._held.pop(key, None) or self._recovered.pop(key)
        self._held_bytes -= len(held.bundle.body)

    # --- time ---

    def tick(self, now: Instant, ready: Ready) -> None:
        """Ask for what has been missing for long, and skip what was asked for in vain."""
        self._go_on_seeking(now, ready)
        for key, held in self._due(self._to_ask, now):
            self._ask(key, held, now, ready)
        for _, held in self._due(self._to_ask_more, now):
            self.asking.second(held.asked, ready)
        for _, held in self._due(self._to_skip, now):
            self._force(held, now, ready)

    def _due(
        self, timers: deque[tuple[Instant, tuple[int, int], Held]], now: Instant
    ) -> Iterator[tuple[tuple[int, int], Held]]:
        """Yield what is due and still held."""
        while timers and timers[0][0] <= now:
            _, key, held = timers.popleft()
            if self._held.get(key) is held:
                yield key, held

    def _ask(self, key: tuple[int, int], held: Held, now: Instant, ready: Ready) -> None:
        missing = [each for each in self._missing_newest(held.stamp) if not self._here(each)]
        if len(missing) > self._settings.recovery_ids:
            ready.notes.append(Note("reset", "too_old", held.bundle))
            missing = missing[len(missing) - self._settings.recovery_ids :]
        held.asked = self.asking.first(missing, now, ready)
        if held.asked:
            ready.notes.append(Note("note", "recovery_asked"))
        if self._settings.recovery == "R1+Rk":
            self._to_ask_more.append((now + self._recover_ns // 2, key, held))
        self._to_skip.append((now + self._recover_ns, key, held))

    def _missing_newest(self, stamp: Stamp) -> list[tuple[int, int]]:
        """Return the missing ids, at most a few more than are asked for: a gap of years must not be written out."""
        window: deque[tuple[int, int]] = deque(maxlen=self._settings.recovery_ids + 1)
        for ticket, upto in enumerate(stamp.vector):
            own = ticket == stamp.ticket
            end = stamp.before if own else upto
            near = max(self.clock[ticket], end - self._settings.recovery_ids - 1)
            since = self.clock[ticket] if epoch_of(self.clock[ticket]) != epoch_of(end) else near
            if number_of(end) > 4 * self._settings.recovery_ids and since == self.clock[ticket]:
                since = near
            window.extend(self._between(ticket, since, end, stamp.base if own else None))
        return list(window)

    def _here(self, key: tuple[int, int]) -> bool:
        """Tell whether an id is in a bundle that is held."""
        ticket, entry = key
        return any(
            held.stamp.ticket == ticket and held.stamp.before < entry <= held.stamp.entry
            for kept in (self._held, self._recovered)
            for held in kept.values()
        )

    def wake_at(self) -> Instant | None:
        """Return when the first wait ends."""
        soonest: Instant | None = None
        sought = self._sought
        if sought is not None and self.clock[sought.ticket] < sought.base:
            soonest = sought.until if sought.again_at is None else sought.again_at
        for timers in (self._to_ask, self._to_ask_more, self._to_skip):
            while timers and self._held.get(timers[0][1]) is not timers[0][2]:
                timers.popleft()
            if timers and (soonest is None or timers[0][0] < soonest):
                soonest = timers[0][0]
        return soonest

    # --- newcomers ---

    def snapshot(self) -> bytes:
        """Return the clock, so that a newcomer does not take the whole past for missing."""
        return b"".join(
            [
                _ENTRY.pack(ticket, entry, source.base if (source := self._source_at(ticket, entry)) else 0)
                for ticket, entry in enumerate(self.clock)
                if entry
            ]
        )

    def adopt(self, snapshot: bytes) -> None:
        """Start from a member's clock. Raises ValueError if this is no snapshot."""
        if len(snapshot) % _ENTRY.size:
            raise ValueError(f"a snapshot is a multiple of {_ENTRY.size} bytes, not {len(snapshot)}")
        entries = list(_ENTRY.iter_unpack(snapshot))
        for ticket, entry, base in entries:
            if ticket >= self._tickets or max(entry, base) > cct.ENTRY_MAX:
                raise ValueError(f"no cluster of {self._tickets} tickets is at entry {entry} of ticket {ticket}")
        for ticket, entry, _ in entries:
            self.clock[ticket] = max(entry, self.clock[ticket])

    def gauges(self) -> list[Gauge]:
        """Return how much is held, kept and asked for."""
        limits, settings = self._limits, self._settings
        return [
            Gauge("held_bundles", len(self._held) + len(self._recovered), limits.held_bundles_max, rests=True),
            Gauge("held_bytes", self._held_bytes, limits.held_bytes_max, rests=True),
            Gauge("recovery_buffer", len(self._library), settings.recovery_bundles),
            Gauge("recovery_bytes", self._library.bytes, max(settings.recovery_bytes, BUNDLE_BYTES_MAX)),
            Gauge("under_recovery", len(self.asking), self.asking.ids_max),
            Gauge("unnamed_gaps", len(self._unnamed), UNNAMED_MAX),
        ]

    # --- who published what ---

    def source_of(self, ticket: int, epoch: int) -> int | None:
        """Return who published under a ticket and epoch, unless it stopped answering."""
        source = self._sources.get(ticket, {}).get(epoch)
        process = source.process if source is not None else self.owner_of(Claim(ticket, epoch))
        return None if process is None or process.pid in self._suspects else process.pid

    def unreachable(self, peer: int) -> None:
        """Ask somebody else for what this peer published, until it is heard of again."""
        self._suspects[peer] = None
        if len(self._suspects) > UNNAMED_MAX:
            del self._suspects[next(iter(self._suspects))]

    def _source_at(self, ticket: int, entry: int) -> Source | None:
        return self._sources.get(ticket, {}).get(epoch_of(entry))


def _entries(stamp: Stamp) -> range:
    """Return the entries of all events of a bundle."""
    return range(stamp.before + 1, stamp.entry + 1)
