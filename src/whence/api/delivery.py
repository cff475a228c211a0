"""What the application receives: one event, a batch of them, or an event that came too late."""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import TypeAlias

from msgspec import Struct

from whence.core.ready import Mark
from whence.epochs import number_of
from whence.types import Bundle, EventId, Span


class Origin(Struct, frozen=True, gc=False):
    """What all events of a batch share."""

    sender: int
    incarnation: int
    first: int
    level: str
    position: int
    held_ns: int
    latency_ns: int | None
    gaps: tuple[Span, ...]
    resets: tuple[str, ...]
    mark: Mark | None
    redelivered: int
    ordinal: int
    inbox: int


class Delivery(Struct, frozen=True, gc=False):
    """One event, as the application sees it."""

    payload: bytes
    _offset: int
    _origin: Origin

    def __repr__(self) -> str:
        event = f"event={tuple(self.event)}, position={self.position}, level={self.level!r}"
        return f"Delivery({self.payload!r}, sender={self.sender}, {event})"

    @property
    def sender(self) -> int:
        """Return the peer that published it."""
        return self._origin.sender

    @property
    def event(self) -> EventId:
        """Return its identity."""
        origin = self._origin
        return EventId(origin.sender, origin.incarnation, origin.first + self._offset)

    @property
    def level(self) -> str:
        """Return the level of its group."""
        return self._origin.level

    @property
    def position(self) -> int:
        """Return its place among all events delivered here in this group. Where members remember, it is the same in all
        incarnations: an event that was handed out and not taken when a process died comes again at its old position."""
        return self._origin.position + self._offset

    @property
    def held_ns(self) -> int:
        """Return how long it was held back here until its turn."""
        return self._origin.held_ns

    @property
    def latency_ns(self) -> int | None:
        """Return its estimated latency: half the usual round trip to its publisher, plus the wait. None: not known."""
        return self._origin.latency_ns

    @property
    def gaps(self) -> tuple[Span, ...]:
        """Return the events that were skipped for good just before it."""
        return () if self._offset else self._origin.gaps

    @property
    def resets(self) -> tuple[str, ...]:
        """Return what happened just before it that may require a state built from deliveries to be rebuilt: `too_old`
        (more is missing than is asked for), `gap` (no merger's log reached back), or the name of a part that was
        repaired."""
        return () if self._offset else self._origin.resets

    @property
    def key(self) -> tuple[int, int, int, int] | None:
        """Return its place in the merge order, at levels that have one."""
        mark = self._origin.mark
        if mark is None or mark.key is None:
            return None
        physical, high, middle, low = mark.key
        return physical, high, middle, low + self._offset

    @property
    def ticket(self) -> int | None:
        """Return the ticket it was published with, at levels that have them."""
        mark = self._origin.mark
        return None if mark is None else mark.ticket

    @property
    def epoch(self) -> int | None:
        """Return that ticket's fencing epoch; in a living group, the number of the view it was published in."""
        mark = self._origin.mark
        if mark is None or mark.epoch is None or mark.ticket is not None:
            return None if mark is None else mark.epoch
        return number_of(mark.epoch)

    @property
    def redelivered(self) -> bool:
        """Tell whether an earlier incarnation may have been handed it and died before it was taken."""
        return self._offset < self._origin.redelivered


class LateEvent(Struct, frozen=True, gc=False):
    """An event that came after its place in the order had passed."""

    payload: bytes
    sender: int
    event: EventId
    late_ns: int


RoundTrip: TypeAlias = Callable[[int], int | None]
"""Returns the usual round trip to a peer, if it is known."""


class Batch(Struct, eq=False, gc=False):
    """Events of one bundle, delivered together. Iterate for single deliveries."""

    bundle: Bundle
    count: int
    """The number of its events."""
    position: int
    level: str
    held_ns: int
    _rtt_ns: RoundTrip
    _mark: Mark | None
    gaps: tuple[Span, ...] = ()
    resets: tuple[str, ...] = ()
    redelivered: int = 0
    """The number of its first events that an earlier incarnation may have been handed and had not taken."""
    _ordinal: int = 0
    """Events delivered before it in this incarnation, where what is taken is counted."""
    _inbox: int = 0
    """Which inbox handed it out."""

    @property
    def sender(self) -> int:
        """Return the peer that published it."""
        return self.bundle.pid

    def __len__(self) -> int:
        return self.count

    def payloads(self) -> list[bytes]:
        """Return the payloads alone."""
        return self.bundle.payloads()

    def __iter__(self) -> Iterator[Delivery]:
        payloads = self.bundle.payloads()
        return map(Delivery, payloads, range(len(payloads)), repeat(self._origin()))

    def only(self) -> Delivery:
        """Return its event, if it has exactly one."""
        return Delivery(self.bundle.body, 0, self._origin())

    def _origin(self) -> Origin:
        bundle = self.bundle
        rtt_ns = self._rtt_ns(bundle.pid)
        latency_ns = None if rtt_ns is None else rtt_ns // 2 + self.held_ns
        return Origin(
            bundle.pid, bundle.incarnation, bundle.first, self.level, self.position, self.held_ns, latency_ns,
            self.gaps, self.resets, self._mark, self.redelivered, self._ordinal,
            self._inbox,
        )  # fmt: skip

    def rest(self, gone: int) -> "Batch":
        """Return the batch without its first events."""
        bundle, mark = cut(self.bundle, self._mark, gone)
        return Batch(
            bundle, self.count - gone, self.position + gone, self.level, self.held_ns, self._rtt_ns, mark,
            redelivered=max(0, self.redelivered - gone), _ordinal=self._ordinal + gone,
            _inbox=self._inbox,
        )  # fmt: skip


def cut(bundle: Bundle, mark: Mark | None, gone: int) -> tuple[Bundle, Mark | None]:
    """Return a bundle and its mark without its first events."""
    if mark is not None and mark.key is not None:
        mark = Mark((*mark.key[:3], mark.key[3] + gone), mark.ticket, mark.epoch)
    return bundle.cut_before(bundle.first + gone), mark
