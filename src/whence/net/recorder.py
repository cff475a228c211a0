"""The inputs and effects of a live member as rows of a trace: the same columns as the simulator's, true time
unknown."""

from collections.abc import Iterable, Sequence
from typing import Unpack
from zlib import crc32

from whence.core.ready import UNMARKED, Gauge, Item, Late, Mark, Note
from whence.net.clock import wall_ns
from whence.trace.rows import HighWater, Rare, rare_row
from whence.trace.schema import Kind
from whence.trace.segments import TraceSegmentWriter
from whence.types import Bundle, EventId, Process, Span

MEASURE_NS, VIEW_NS = 10_000_000_000, 1_000_000_000
"""The time between two rows of a trace that say how full each buffer was, and between two that say whom a member
knows."""


class TraceRecorder:
    """Records one member of one group."""

    def __init__(self, segments: TraceSegmentWriter, me: Process, group: str, *, payloads: bool = False) -> None:
        """`payloads`: write them too, not only their sizes and checksums."""
        self.segments = segments
        self._me = me
        self._group = group
        self._payloads = payloads
        self._ev = self._pos = 0
        self._highest = HighWater()
        self._measured_at = self._viewed_at = wall_ns()

    def published(self, bundle: Bundle, mark: Mark | None) -> None:
        """Write a row for each event of the member's own bundle."""
        physical, k_hi, k_mid, k_lo, ticket, epoch = UNMARKED if mark is None else mark.columns()
        clk, (pid, incarnation), stamp_bytes = wall_ns(), self._me, len(bundle.stamp)
        for seq, payload in enumerate(bundle.payloads(), bundle.first):
            self.segments.add(
                Kind.PUBLISH,
                (pid, incarnation, self._ev, clk, None, self._group, bundle.pid, bundle.incarnation, seq, None,
                 physical, k_hi, k_mid, k_lo, stamp_bytes, len(payload), crc32(payload), ticket, epoch,
                 bytes(payload) if self._payloads else None),
            )  # fmt: skip
            self._ev += 1
            k_lo = None if k_lo is None else k_lo + 1

    def sent(self, to: tuple[int, ...], item: Item, size: int) -> None:
        """Write a row for each copy that goes out."""
        payload_bytes, clk, (pid, incarnation) = item.payload_bytes(), wall_ns(), self._me
        for target in to:
            row = (pid, incarnation, self._ev, clk, None, self._group, target, size - payload_bytes, payload_bytes)
            self.segments.add(Kind.SEND, row)
            self._ev += 1

    def received(self, sender: int, items: list[Item], size: int) -> None:
        """Write a row for a packet that arrived."""
        payload_bytes, (pid, incarnation) = sum(item.payload_bytes() for item in items), self._me
        row = (pid, incarnation, self._ev, wall_ns(), None, self._group, sender, size - payload_bytes, payload_bytes)
        self.segments.add(Kind.RECV, row)
        self._ev += 1

    def handed(self, bundle: Bundle, hold_ns: int, mark: Mark | None, offset: int, payloads: Sequence[bytes]) -> None:
        """Write a row for each event that the application is handed: part of a bundle, from an offset on."""
        physical, k_hi, k_mid, k_lo, ticket, epoch = UNMARKED if mark is None else mark.columns()
        k_lo = None if k_lo is None else k_lo + offset
        clk, (pid, incarnation) = wall_ns(), self._me
        for seq, payload in enumerate(payloads, bundle.first + offset):
            self.segments.add(
                Kind.DELIVER,
                (pid, incarnation, self._ev, clk, None, self._group, bundle.pid, bundle.incarnation, seq,
                 self._pos, hold_ns, physical, k_hi, k_mid, k_lo, len(payload), crc32(payload), ticket, epoch,
                 bytes(payload) if self._payloads else None),
            )  # fmt: skip
            self._ev += 1
            self._pos += 1
            k_lo = None if k_lo is None else k_lo + 1

    def skipped(self, spans: Sequence[Span]) -> None:
        """Write a row for events that the application will never be handed."""
        ids = tuple(EventId(s.pid, s.incarnation, seq) for s in spans for seq in range(s.first, s.last + 1))
        self.write(Kind.GAP, ids=ids)

    def late(self, step: Late) -> None:
        """Write a row for each event that came too late for its place."""
        bundle = step.bundle
        for seq in range(bundle.first, bundle.last + 1):
            self.write(Kind.LATE, event=EventId(bundle.pid, bundle.incarnation, seq), late_ns=step.late_ns)

    def noted(self, note: Note) -> None:
        """Write a row for the member's note about itself."""
        bundle, event = note.bundle, note.event
        if bundle is not None:
            event = EventId(bundle.pid, bundle.incarnation, bundle.first)
        self.write(
            Kind(note.kind), event=event, peer=note.peer, reason=note.reason, ticket=note.ticket, epoch=note.epoch,
            value=note.value, late_ns=note.late_ns, view=note.view, ids=note.ids,
        )  # fmt: skip

    def observe(self, gauges: Sequence[Gauge], view: tuple[int, ...] | None) -> None:
        """Examine a member; now and then record how full its buffers were at their fullest, and whom it knows."""
        self._highest.measure(gauges)
        now = wall_ns()
        if now - self._measured_at >= MEASURE_NS:
            self._measured_at = now
            self.fullest(gauges)
        if view is not None and now - self._viewed_at >= VIEW_NS:
            self._viewed_at = now
            self.write(Kind.VIEW, view=view)

    def fullest(self, gauges: Iterable[Gauge]) -> None:
        """Record how full every buffer was at its fullest, and begin again."""
        for fields in self._highest.rows(gauges):
            self.write(Kind.NOTE, **fields)

    def write(self, kind: Kind, **fields: Unpack[Rare]) -> None:
        """Write a row of any other kind."""
        self.segments.add(kind, rare_row((*self._me, self._ev, wall_ns(), None, self._group), fields))
        self._ev += 1
