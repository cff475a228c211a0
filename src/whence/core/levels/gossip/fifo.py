"""Each sender's events in the order it published them.

Promises: of one process, no event is delivered after a later one; what will never be delivered here is reported as a
gap before the first event that jumps it.
Assumes: nothing of the spread; what it loses is waited for during `hold_rounds` rounds, and then skipped.
The sentence that decides: a bundle is delivered when its first event is the next one expected of its sender.
Costs per bundle: one look-up if in order, one pending entry if out of order; no stamp beyond the event's own number.
Source: gossip 3.2, one component of the clock of optimistic 6.3; gossip 3.3 for newcomers.
"""

from collections import deque
from struct import Struct as Layout

from msgspec import Struct

from whence import limits as wire_limits
from whence.core.dissemination.senders import Senders
from whence.core.ready import Delivery, Gap, Gauge, Note, Ready
from whence.errors import SettingError
from whence.limits import Limits
from whence.types import Bundle, Instant, Process, Span

_ENTRY = Layout("<IIQ")
"""A sender in a snapshot: pid, incarnation, next number expected."""


SEQ_END = wire_limits.SEQ_MAX + 1
"""The number expected next of a process that has published all the events it can."""


class FifoSettings(Struct, frozen=True, kw_only=True):
    """How long to wait for missing events."""

    hold_rounds: int = 10
    """Gossip rounds a bundle waits for an earlier one. Fewer than `rounds` + 2 skips events that are still coming."""

    def __post_init__(self) -> None:
        if not 1 <= self.hold_rounds <= wire_limits.ROUNDS_MAX:
            raise SettingError(f"hold_rounds must be from 1 to {wire_limits.ROUNDS_MAX}, not {self.hold_rounds}")


class Held(Struct, frozen=True, gc=False):
    """A bundle that waits, and since when."""

    bundle: Bundle
    since: Instant


class Progress:
    """How far one sender's events have been delivered, and its pending bundles by their first event."""

    __slots__ = ("expected", "held")

    def __init__(self) -> None:
        self.expected = 1
        self.held: dict[int, Held] = {}


class Fifo:
    """Hold back what comes early; skip what does not come in time."""

    __slots__ = ("_held_bundles", "_held_bytes", "_hold_ns", "_limits", "_me", "_senders", "_waiting", "_waiting_max")

    def __init__(self, me: Process, limits: Limits, hold_ns: int) -> None:
        self._me = me
        self._limits = limits
        self._hold_ns = hold_ns
        self._senders: Senders[Progress] = Senders(limits, Progress)
        self._senders.open(*me)  # so that there is always room for the member's own events
        self._waiting: deque[tuple[Instant, Process, int]] = deque()
        """Every bundle that was held back, by deadline; entries that were released meanwhile are ignored."""
        self._waiting_max = 2 * limits.held_bundles_max + 1
        """Over it, ignored entries are removed, at least half of all: constant cost per bundle held back."""
        self._held_bundles = 0
        self._held_bytes = 0

    def stamp(self, now: Instant) -> bytes:
        """Return no stamp: the event's own number suffices."""
        return b""

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver the member's own bundle at creation."""
        self.admit(bundle, now, ready)

    def admit(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Deliver a bundle that is next and all that waited for it; hold back one that is early."""
        progress = self._senders.states.get((bundle.pid, bundle.incarnation)) or self._open(bundle, now, ready)
        if progress is None:
            return
        expected = progress.expected
        if bundle.first == expected:
            progress.expected = expected + (len(bundle.sizes) >> 2)
            ready.deliver.append(Delivery(bundle))
            if progress.held:
                self._release(progress, now, ready)
        elif bundle.last < expected or bundle.first in progress.held:
            ready.notes.append(Note("drop", "duplicate", bundle))
        elif bundle.first < expected:
            self.admit(bundle.cut_before(expected), now, ready)
        else:
            self._hold(progress, bundle, now, ready)

    def tick(self, now: Instant, ready: Ready) -> None:
        """Skip what has been waited for long enough."""
        while self._waiting and self._waiting[0][0] <= now:
            self._give_up_oldest(now, ready)

    def wake_at(self) -> Instant | None:
        """Return when the first wait ends."""
        waiting = self._waiting
        while waiting and not self._is_held(waiting[0][1], waiting[0][2]):
            waiting.popleft()
        return waiting[0][0] if waiting else None

    def snapshot(self) -> bytes:
        """Return the next number expected of every sender."""
        entries = [_ENTRY.pack(pid, incarnation, progress.expected) for (pid, incarnation), progress in self._senders]
        return b"".join(entries[: wire_limits.SNAPSHOT_BYTES_MAX // _ENTRY.size])

    def adopt(self, snapshot: bytes) -> None:
        """Expect of every sender what a member expects. Raises ValueError if the bytes are not a snapshot."""
        if len(snapshot) % _ENTRY.size:
            raise ValueError(f"a snapshot is a multiple of {_ENTRY.size} bytes, not {len(snapshot)}")
        entries = list(_ENTRY.iter_unpack(snapshot))
        for pid, incarnation, expected in entries:
            if (
                pid > wire_limits.PEER_ID_MAX
                or incarnation > wire_limits.INCARNATION_MAX
                or not 1 <= expected <= SEQ_END
            ):
                raise ValueError(f"no process {pid}, {incarnation} can be expected to send event {expected}")
        for pid, incarnation, expected in entries:
            if (pid, incarnation) != self._me and self._senders.refuses(pid, incarnation) is None:
                crowded_out = self._senders.crowded_out(pid)
                if crowded_out is not None and self._senders.states.get((pid, incarnation)) is None:
                    self._senders.close(crowded_out)
                self._senders.open(pid, incarnation).expected = expected

    def gauges(self) -> list[Gauge]:
        """Return how much is remembered and held back."""
        return [
            Gauge("senders", len(self._senders), self._limits.senders_max),
            Gauge("held_bundles", self._held_bundles, self._limits.held_bundles_max, must_drain=True),
            Gauge("held_bytes", self._held_bytes, self._limits.held_bytes_max, must_drain=True),
            Gauge("hold_deadlines", len(self._waiting), self._waiting_max),
        ]

    def _open(self, bundle: Bundle, now: Instant, ready: Ready) -> Progress | None:
        """Begin with a sender; an older incarnation of the same peer may have to be closed for it."""
        refusal = self._senders.refuses(bundle.pid, bundle.incarnation)
        if refusal is not None:
            ready.notes.append(Note("drop", refusal, bundle))
            return None
        closing = self._senders.crowded_out(bundle.pid)
        if closing is not None:
            progress = self._senders.states.get(closing)
            if progress is not None and progress.held:
                self._skip_to(closing, progress, max(progress.held), now, ready)
            self._senders.close(closing)
        return self._senders.open(bundle.pid, bundle.incarnation)

    def _hold(self, progress: Progress, bundle: Bundle, now: Instant, ready: Ready) -> None:
        progress.held[bundle.first] = Held(bundle, now)
        self._waiting.append((now + self._hold_ns, bundle.process, bundle.first))
        if len(self._waiting) > self._waiting_max:
            self._waiting = deque(entry for entry in self._waiting if self._is_held(entry[1], entry[2]))
        self._held_bundles += 1
        self._held_bytes += len(bundle.body)
        while self._overfull():
            self._give_up_oldest(now, ready)

    def _overfull(self) -> bool:
        limits = self._limits
        return self._held_bundles > limits.held_bundles_max or self._held_bytes > limits.held_bytes_max

    def _release(self, progress: Progress, now: Instant, ready: Ready) -> None:
        """Deliver what waited for the event just before it."""
        while (held := progress.held.pop(progress.expected, None)) is not None:
            progress.expected = held.bundle.last + 1
            self._held_bundles -= 1
            self._held_bytes -= len(held.bundle.body)
            ready.deliver.append(Delivery(held.bundle, now - held.since))

    def _give_up_oldest(self, now: Instant, ready: Ready) -> None:
        _, process, first = self._waiting.popleft()
        progress = self._senders.states.get(process)
        if progress is not None and first in progress.held:
            self._skip_to(process, progress, first, now, ready)

    def _skip_to(self, process: Process, progress: Progress, first: int, now: Instant, ready: Ready) -> None:
        """Deliver the bundle at `first` and all that are pending before it, reporting what is missing in between."""
        for start in sorted(progress.held):
            if start > first:
                break
            held = progress.held.get(start)
            if held is None:
                continue
            if start < progress.expected:
                del progress.held[start]
                self._held_bundles -= 1
                self._held_bytes -= len(held.bundle.body)
                continue
            ready.deliver.append(Gap((Span(*process, progress.expected, start - 1),)))
            progress.expected = start
            self._release(progress, now, ready)

    def _is_held(self, process: Process, first: int) -> bool:
        progress = self._senders.states.get(process)
        return progress is not None and first in progress.held
