"""What a simulated process was seen to do, as rows of the trace.

Rows record what crosses the borders of a process: publishing, sending, receiving and delivering; never the internal
state of its member.
"""

from collections.abc import Collection, Iterable
from typing import Unpack
from zlib import crc32

from whence.core.ready import UNMARKED, Delivery, Gap, Gauge, Late, Mark
from whence.sim.clock import Clock
from whence.sim.loop import Loop
from whence.trace.memory import Row
from whence.trace.rows import HighWater, Rare, rare_row
from whence.trace.schema import Kind
from whence.types import Bundle, EventId


class Recorder:
    """The rows of one process through all its incarnations."""

    __slots__ = (
        "_clock",
        "_delivered",
        "_ev",
        "_group",
        "_highest",
        "_incarnation",
        "_loop",
        "_payloads",
        "_pid",
        "_pos",
        "_received",
        "_rows",
        "_sent",
    )  # fmt: skip

    def __init__(
        self, pid: int, group: str, rows: dict[Kind, list[Row]], loop: Loop, clock: Clock, *, payloads: bool = False
    ) -> None:
        """`payloads`: write them too, not only their sizes and checksums."""
        self._pid = pid
        self._incarnation = 0
        self._group = group
        self._rows = rows
        self._sent, self._received, self._delivered = rows[Kind.SEND], rows[Kind.RECV], rows[Kind.DELIVER]
        self._loop = loop
        self._payloads = payloads
        self._clock = clock
        self._ev = 0
        """Rows of this incarnation so far: with process and incarnation, this number identifies a row."""
        self._pos = 0
        """Deliveries of this incarnation so far."""
        self._highest = HighWater()

    def begin_incarnation(self, incarnation: int) -> None:
        """Count rows and deliveries from zero."""
        self._incarnation = incarnation
        self._ev = self._pos = 0

    def published(self, bundle: Bundle, mark: Mark | None, dests: tuple[int, ...] | None) -> None:
        """Write a row for each event of a bundle of this process."""
        clk, true = self._clock.wall(self._loop.now), self._loop.now
        stamp_bytes = len(bundle.stamp)
        rows = self._rows[Kind.PUBLISH]
        physical, k_hi, k_mid, k_lo, ticket, epoch = UNMARKED if mark is None else mark.columns()
        for seq, payload in enumerate(bundle.payloads(), bundle.first):
            rows.append(
                (self._pid, self._incarnation, self._ev, clk, true, self._group, bundle.pid, bundle.incarnation, seq,
                 dests, physical, k_hi, k_mid, k_lo, stamp_bytes, len(payload), crc32(payload), ticket, epoch,
                 bytes(payload) if self._payloads else None)
            )  # fmt: skip
            self._ev += 1
            if k_lo is not None:
                k_lo += 1

    def sent(self, targets: tuple[int, ...], stamp_bytes: int, payload_bytes: int) -> None:
        """Write a row for each copy that leaves."""
        true, ev = self._loop.now, self._ev
        clk = self._clock.wall(true)
        pid, incarnation, group, rows = self._pid, self._incarnation, self._group, self._sent
        for target in targets:
            rows.append((pid, incarnation, ev, clk, true, group, target, stamp_bytes, payload_bytes))
            ev += 1
        self._ev = ev

    def received(self, clk: int, group: str, sender: int, stamp_bytes: int, payload_bytes: int) -> None:
        """Write a row for a copy that came in."""
        self._received.append(
            (self._pid, self._incarnation, self._ev, clk, self._loop.now, group, sender, stamp_bytes, payload_bytes)
        )  # fmt: skip
        self._ev += 1

    def delivered(self, step: Delivery) -> None:
        """Write a row for each event that the application is handed."""
        true, ev, pos = self._loop.now, self._ev, self._pos
        clk = self._clock.wall(true)
        rows, bundle = self._delivered, step.bundle
        if step.mark is None and len(bundle.sizes) == 4:  # one event without a mark: the most frequent case
            body = bundle.body
            rows.append(
                (self._pid, self._incarnation, ev, clk, true, self._group, bundle.pid, bundle.incarnation, bundle.first,
                 pos, step.hold_ns, None, None, None, None, len(body), crc32(body), None, None,
                 bytes(body) if self._payloads else None)
            )  # fmt: skip
            self._ev, self._pos = ev + 1, pos + 1
            return
        pid, incarnation, group, hold_ns = self._pid, self._incarnation, self._group, step.hold_ns
        origin, origin_incarnation = bundle.pid, bundle.incarnation
        physical, k_hi, k_mid, k_lo, ticket, epoch = UNMARKED if step.mark is None else step.mark.columns()
        for seq, payload in enumerate(bundle.payloads(), bundle.first):
            rows.append(
                (pid, incarnation, ev, clk, true, group, origin, origin_incarnation, seq, pos, hold_ns,
                 physical, k_hi, k_mid, k_lo, len(payload), crc32(payload), ticket, epoch,
                 bytes(payload) if self._payloads else None)
            )  # fmt: skip
            ev += 1
            pos += 1
            if k_lo is not None:
                k_lo += 1
        self._ev, self._pos = ev, pos

    def void(self, events: Collection[EventId]) -> None:
        """Turn the last delivery rows of this process, of events that it was handed and did not take, into notes."""
        left, at = len(events), len(self._delivered)
        while left and at:
            at -= 1
            row = self._delivered[at]
            if row[:2] == (self._pid, self._incarnation):
                left -= 1
                del self._delivered[at]
                self._rows[Kind.NOTE].append(rare_row(row[:6], Rare(event=EventId(*row[6:9]), reason="untaken")))

    def skipped(self, gap: Gap) -> None:
        """Write one row with all events of a gap: those that the application will not be handed in their place."""
        ids = tuple(
            EventId(span.pid, span.incarnation, seq) for span in gap.spans for seq in range(span.first, span.last + 1)
        )
        self.write(Kind.GAP, ids=ids)

    def late(self, step: Late) -> None:
        """Write a row for each event that missed its place."""
        bundle = step.bundle
        for seq in range(bundle.first, bundle.last + 1):
            self.write(Kind.LATE, event=EventId(bundle.pid, bundle.incarnation, seq), late_ns=step.late_ns)

    def measure(self, gauges: Iterable[Gauge]) -> None:
        """Remember the highest fill of every buffer."""
        self._highest.measure(gauges)

    def fullest(self, gauges: Iterable[Gauge]) -> None:
        """Write the highest fill of every buffer, and begin anew."""
        for fields in self._highest.rows(gauges):
            self.write(Kind.NOTE, **fields)

    def at_rest(self, gauges: Iterable[Gauge]) -> None:
        """Write a row for every buffer that should be empty by now."""
        for gauge in gauges:
            if gauge.must_drain:
                self.write(Kind.NOTE, reason=f"{gauge.name}_at_rest", value=gauge.value, bound=0)

    def write(self, kind: Kind, **fields: Unpack[Rare]) -> None:
        """Write one row of a rare kind."""
        true = self._loop.now
        where = (self._pid, self._incarnation, self._ev, self._clock.wall(true), true, self._group)
        self._rows[kind].append(rare_row(where, fields))
        self._ev += 1
