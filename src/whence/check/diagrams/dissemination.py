"""Draws how one event spread: a thin line per process, true time from left to right, an arrow for each first delivery.

Lines are sorted by the time of delivery; colours count the hops. The event came with the last message received before
its delivery, or before it became pending. Meant for up to some 125 processes.
"""

from bisect import bisect_right
from typing import NamedTuple

from whence.check.diagrams.svg import COLOURS, FAINT, INK, QUIET, WRONG, Canvas, width_of
from whence.check.history import AT_T_TRUE
from whence.check.verdict import counted, what
from whence.errors import TraceError
from whence.trace.memory import Row, Trace
from whence.trace.schema import COLUMNS_OF, HOLD_NS, M_PID, M_SEQ, PEER, T_CLK, Kind
from whence.types import EventId

_ID = slice(COLUMNS_OF[Kind.DELIVER].index(M_PID), COLUMNS_OF[Kind.DELIVER].index(M_SEQ) + 1)
_AT_PEER, _AT_T_CLK = COLUMNS_OF[Kind.RECV].index(PEER), COLUMNS_OF[Kind.RECV].index(T_CLK)
_AT_HOLD = COLUMNS_OF[Kind.DELIVER].index(HOLD_NS)
_LEFT, _RIGHT, _TOP, _PLOT = 64.0, 28.0, 92.0, 900.0
_PALE = "#e4e7eb"


class FirstDelivery(NamedTuple):
    """A process's first delivery of the event: when, over how many hops, and who sent it (None: unknown)."""

    node: int
    t: int
    hop: int | None
    peer: int | None
    sent: int
    """When it left the peer."""
    arrived: int
    """When it arrived; it was pending from then until t."""


def dissemination_diagram(trace: Trace, event: EventId) -> str:
    """Return a self-contained SVG of how an event spread. Raises TraceError where the trace cannot tell."""
    return _Picture(trace, event).draw()


def first_deliveries(trace: Trace, event: EventId) -> list[FirstDelivery]:
    """Return every node's first delivery of an event, in order of time. Raises TraceError where nobody published it."""
    origin = next((row for row in trace.rows[Kind.PUBLISH] if row[_ID] == event), None)
    if origin is None or origin[AT_T_TRUE] is None:
        raise TraceError(f"the trace of run {trace.run.run_id} does not tell when {what(event)} was published")
    begin = origin[AT_T_TRUE]
    firsts = {origin[0]: FirstDelivery(origin[0], begin, 0, None, begin, begin)}
    deliveries = [row for row in trace.rows[Kind.DELIVER] if row[_ID] == event and row[AT_T_TRUE] is not None]
    received, sent = _by_process(trace, Kind.RECV), _sends(trace)
    for row in sorted(deliveries, key=lambda row: (row[AT_T_TRUE], row[0])):
        if row[0] in firsts:
            continue
        message = _message_of(row, received.get(row[:2], []))
        if message is None:
            firsts[row[0]] = FirstDelivery(row[0], row[AT_T_TRUE], None, None, row[AT_T_TRUE], row[AT_T_TRUE])
            continue
        peer, arrived = message[_AT_PEER], message[AT_T_TRUE]
        hop = firsts[peer].hop if peer in firsts else None
        times = sent.get((peer, row[0]), [])
        place = bisect_right(times, arrived)
        left = max(begin, times[place - 1]) if place else arrived
        firsts[row[0]] = FirstDelivery(row[0], row[AT_T_TRUE], None if hop is None else hop + 1, peer, left, arrived)
    return list(firsts.values())


def _by_process(trace: Trace, kind: Kind) -> dict[tuple[int, int], list[Row]]:
    found: dict[tuple[int, int], list[Row]] = {}
    for row in trace.rows[kind]:
        found.setdefault(row[:2], []).append(row)
    return found


def _sends(trace: Trace) -> dict[tuple[int, int], list[int]]:
    """Return when each node sent something to each other one."""
    found: dict[tuple[int, int], list[int]] = {}
    for row in trace.rows[Kind.SEND]:
        if row[AT_T_TRUE] is not None and row[_AT_PEER] is not None:
            found.setdefault((row[0], row[_AT_PEER]), []).append(row[AT_T_TRUE])
    return found


def _message_of(delivery: Row, received: list[Row]) -> Row | None:
    """Return the last message received before a delivery, or before the event became pending."""
    since = delivery[_AT_T_CLK] - (delivery[_AT_HOLD] or 0)
    before = (row for row in reversed(received) if row[2] < delivery[2] and row[_AT_T_CLK] <= since)
    return next(before, None)


class _Picture:
    def __init__(self, trace: Trace, event: EventId) -> None:
        self.trace, self.event = trace, event
        self.firsts = first_deliveries(trace, event)
        seen = [first.node for first in self.firsts]
        self.unreached = [node for node in trace.run.nodes if node not in seen]
        nodes = seen + self.unreached
        self.pitch = min(24.0, max(7.5, 900 / max(len(nodes), 1)))
        self.y = {node: _TOP + self.pitch * (place + 0.5) for place, node in enumerate(nodes)}
        self.bottom = _TOP + self.pitch * len(nodes)
        self.begin = self.firsts[0].t
        self.span = max(self.firsts[-1].t - self.begin, 1) * 1.04
        self.canvas = Canvas()

    def draw(self) -> str:
        reached, all_nodes = len(self.firsts), len(self.y)
        took = (self.firsts[-1].t - self.begin) / 1e6
        hops = max((first.hop for first in self.firsts if first.hop is not None), default=0)
        title = f"How {what(self.event)} spread: to {reached} of {all_nodes} processes in {took:,.1f} ms"
        self.canvas.text(_LEFT, 32, title, 17, bold=True)
        self._draw_axis()
        self._draw_lines()
        for first in self.firsts:
            self._draw_first(first)
        self._draw_legend(hops, self._draw_membership())
        return self.canvas.render(_LEFT + _PLOT + _RIGHT, self.bottom + 54, title)

    def _x(self, t: int) -> float:
        return _LEFT + _PLOT * (t - self.begin) / self.span

    def _colour(self, hop: int | None) -> str:
        return QUIET if hop is None else INK if hop == 0 else COLOURS[(hop - 1) % len(COLOURS)]

    def _draw_axis(self) -> None:
        step = _round_step(self.span / 1e6 / 8)
        mark = 0.0
        while mark * 1e6 <= self.span:
            x = self._x(self.begin + round(mark * 1e6))
            self.canvas.line(x, _TOP, x, self.bottom + 4, _PALE)
            self.canvas.text(x, self.bottom + 20, f"{mark:g}", 11, QUIET, "middle")
            mark += step
        self.canvas.text(_LEFT + _PLOT, self.bottom + 40, "ms after the publication", 11, QUIET, "end")

    def _draw_lines(self) -> None:
        """Draw a line per process: pale before it knows the event, strong from then on, broken red if it never did."""
        size = min(11.0, self.pitch * 0.95)
        knows = {first.node: self._x(first.t) for first in self.firsts}
        for node, y in self.y.items():
            end, colour = _LEFT + _PLOT, INK if node in knows else WRONG
            if node in knows:
                self.canvas.line(_LEFT, y, knows[node], y, _PALE, 0.8)
                self.canvas.line(knows[node], y, end, y, FAINT, 0.8)
            else:
                self.canvas.line(_LEFT, y, end, y, WRONG, 0.8, "2 4")
            self.canvas.text(_LEFT - 8, y + size * 0.35, str(node), size, colour, "end")

    def _draw_first(self, first: FirstDelivery) -> None:
        x, y, colour = self._x(first.t), self.y[first.node], self._colour(first.hop)
        arrived = self._x(first.arrived)
        if first.peer in self.y:
            self.canvas.arrow((self._x(first.sent), self.y[first.peer]), (arrived, y), colour, 0.9, gap=2.5)
        if x - arrived > 1:
            self.canvas.line(arrived, y, x, y, colour, min(4.0, self.pitch * 0.4))
        self.canvas.dot(x, y, 5 if first.hop == 0 else min(3.5, self.pitch * 0.32), colour, width=0.8)

    def _draw_membership(self) -> list[Kind]:
        """Mark who crashed, left, came back or joined while the event spread; return which of these happened."""
        happened = []
        for kind in (Kind.CRASH, Kind.LEAVE, Kind.RESTART, Kind.JOIN):
            for row in self.trace.rows[kind]:
                t = row[AT_T_TRUE]
                if t is not None and self.begin < t <= self.begin + self.span and row[0] in self.y:
                    self._mark(kind, self._x(t), self.y[row[0]], min(4.5, self.pitch * 0.45))
                    happened.append(kind)
        return list(dict.fromkeys(happened))

    def _mark(self, kind: Kind, x: float, y: float, size: float) -> None:
        if kind in (Kind.CRASH, Kind.LEAVE):
            self.canvas.cross(x, y, size, INK if kind is Kind.CRASH else QUIET, 1.8)
        else:
            self.canvas.triangle(x, y, size, INK if kind is Kind.RESTART else QUIET)

    def _draw_legend(self, hops: int, happened: list[Kind]) -> None:
        x, y = _LEFT, 56.0

        def place(words: str, colour: str = INK) -> tuple[float, float]:
            """Write the words of one entry and return where its sign goes; begin a new line when this one is full."""
            nonlocal x, y
            room = 30 + width_of([words], 12)
            if x + room > _LEFT + _PLOT:
                x, y = _LEFT, y + 18
            self.canvas.text(x + 13, y, words, 12, colour)
            x += room
            return x - room + 4, y - 4

        for hop in [*range(hops + 1), None]:
            count = sum(first.hop == hop for first in self.firsts)
            if count:
                name = "published" if hop == 0 else "unknown route" if hop is None else counted(hop, "hop")
                self.canvas.dot(*place(name if hop == 0 else f"{name}: {count}"), 4.5, self._colour(hop))
        if any(first.t > first.arrived for first in self.firsts):
            at_x, at_y = place("pending before delivery")
            self.canvas.line(at_x - 5, at_y, at_x + 5, at_y, QUIET, 4)
        for kind in happened:
            self._mark(kind, *place(kind.value), 4)
        if self.unreached:
            at_x, at_y = place(f"not reached: {len(self.unreached)}", WRONG)
            self.canvas.line(at_x - 5, at_y, at_x + 5, at_y, WRONG, 1.6, "2 2")


def _round_step(rough: float) -> float:
    """Return the next step of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** (len(f"{int(rough)}") - 1) if rough >= 1 else 0.1
    while power > rough:
        power /= 10
    return next(power * part for part in (1, 2, 5, 10) if power * part >= rough)
