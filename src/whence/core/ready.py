"""What the driver must now do, and in which order. The one output of every input to a node.

The contract of its executor (core/runner.py, for simulator and network alike):

1. `persist` is durable before anything below happens. Otherwise a crash forgets what peers were sent.
2. `published` is reported to the application and the trace, before anybody else learns of it.
3. `send` goes out next. It may be lost on the way; it is never reordered before an earlier Ready's `persist`.
4. `deliver` reaches the application in this order, once.
5. `notes` go to the trace.
6. `wake_at`: call tick at that time on the process's clock, or earlier. Of several that were asked for since the last
   tick the earliest counts; None asks for nothing.

Where the driver itself retains a publication (`durable=True` at a level that persists nothing), 2 comes before 1: the
application and the trace know of it first, because a later incarnation may offer it again.

A driver that stops between any two of these steps has crashed, and the node must be rebuilt from what was persisted.
"""

from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias

from msgspec import Struct, field

from whence.types import ANY_INCARNATION, Bundle, EventId, Instant, Span

RandomSource: TypeAlias = Callable[[], float]
"""Draws uniformly from [0, 1). The driver owns the stream, so that a run can be repeated."""


class Item(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What two members exchange. Each kind is a subclass, defined beside its protocol, with a number that never
    changes."""

    asks_to_write: ClassVar[bool] = False
    """Whether only a sender with the right to write may send it. A bundle in an item always requires that right of its
    publisher."""

    needs_its_sender: ClassVar[bool] = False
    """Whether it counts only while its sender is there: who reads it late must not act for somebody who gave up."""

    def is_valid(self) -> bool:
        """Tell whether the fields agree with each other; each alone was checked when it was read."""
        return True

    def bundle_count(self) -> int:
        """Return the number of bundles it carries: they cost a reader memory beyond the item's own size."""
        return 0

    def payload_bytes(self) -> int:
        """Return the number of bytes that are the application's; the rest is what order and reliability cost."""
        return 0


class _WithBundle(Protocol):
    @property
    def bundle(self) -> Bundle: ...


class BundleItem(Item, frozen=True):
    """An item that carries one bundle, as its last field; each kind declares it, since inherited fields come first."""

    def is_valid(self: _WithBundle) -> bool:
        """Tell whether the bundle is valid."""
        return self.bundle.is_valid()

    def bundle_count(self) -> int:
        """Return one."""
        return 1

    def payload_bytes(self: _WithBundle) -> int:
        """Return the bundle's bytes."""
        return len(self.bundle.body)


NEVER: Instant = 1 << 62
"""Later than any time that a clock shows: what is due then is not due at all."""


class Send(Struct, frozen=True, gc=False):
    """Send one item to some peers. It is encoded once for all of them."""

    to: tuple[int, ...]
    item: Item
    incarnation: int = ANY_INCARNATION
    """Only this incarnation of the peer may read it."""


Columns: TypeAlias = tuple[int | None, int | None, int | None, int | None, int | None, int | None]
"""A mark as a trace has it: the four parts of its key, its ticket and its epoch."""

UNMARKED: Columns = (None,) * 6


class Mark(Struct, frozen=True, gc=False):
    """What a level states about a bundle, for applications and observers."""

    key: tuple[int, int, int, int] | None = None
    """The first event's place in the merge order: l, k_hi, k_mid, k_lo; k_lo grows by one with each further event."""
    ticket: int | None = None
    epoch: int | None = None
    """The ticket the bundle was published with, and its fencing epoch."""

    def columns(self) -> Columns:
        """Return it as a trace has it."""
        return (*(self.key or UNMARKED[:4]), self.ticket, self.epoch)


class Delivery(Struct, frozen=True, gc=False):
    """Hand every event of the bundle to the application."""

    bundle: Bundle
    hold_ns: int = 0
    mark: Mark | None = None


class Gap(Struct, frozen=True, gc=False):
    """Tell the application that these events will never be delivered here."""

    spans: tuple[Span, ...]


class Returned(Struct, frozen=True, gc=False):
    """Tell the application that its publication is durable, so the call returns. Among deliveries: that it was found to
    be durable after a crash."""

    bundle: Bundle
    group: int = 0
    mark: "Mark | None" = None


class Unheard(Struct, frozen=True, gc=False):
    """Tell the application that no member acknowledged this publication in time: it may be delivered nowhere."""

    bundle: Bundle


class Late(Struct, frozen=True, gc=False):
    """Hand a bundle that came after its place to the side output."""

    bundle: Bundle
    late_ns: int


class Note(Struct, frozen=True, gc=False):
    """Something an observer should know: `kind` is a kind of trace row, `reason` one word."""

    kind: str
    reason: str | None = None
    bundle: Bundle | None = None
    """The event meant is its first one, unless `event` names one."""
    peer: int | None = None
    ticket: int | None = None
    epoch: int | None = None
    value: int | None = None
    """ticket_acquire: the number of tickets the process acts for from now on, its own and those below it."""
    view: tuple[int, ...] | None = None
    ids: tuple[EventId, ...] | None = None
    """view: the members by number, and each as its number, the incarnation that joined, and the epoch it was added in.
    `value` has a bit for each that votes, by place."""
    event: EventId | None = None
    late_ns: int | None = None
    """ticket_suspend: how long the lease had been over, on the process's own clock, when it noticed."""


class Ready(Struct):
    """Everything one input caused."""

    persist: list[bytes] = field(default_factory=list)
    published: Returned | None = None
    send: list[Send] = field(default_factory=list)
    deliver: list[Delivery | Gap | Late | Returned | Unheard] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    wake_at: Instant | None = None
    mark: Mark | None = None
    """The mark of what was just published."""


class Gauge(Struct, frozen=True, gc=False):
    """How full something is, and how full it may get."""

    name: str
    value: int
    bound: int
    must_drain: bool = False
    """Must become 0 once nothing has been published for long."""


class Metric(Struct, frozen=True, gc=False):
    """Something counted or measured, for observers. Several of one name differ in the value of one label."""

    name: str
    value: int
    label: str = ""
    of: str = ""
