"""Delays and clock offsets as a trace shows them, and what they mean for τ, ε and δ.

Rows used: `publish` (when, on the publisher's clock), and every other process's `deliver` and `late` rows of the same
event. An event arrived `hold_ns` before its delivery; at level total only a merger's deliveries show that (it holds
everything; its followers hold nothing, and their rows are left out). So an observed delay is the receiver's clock at
arrival minus the publisher's clock at publication: δ by the receiver's reading, skew included.
Offsets: where rows have true time, each process's clock minus it. Else, for two processes that heard each other, half
the difference of the least delays either way (the other half of their sum is what that cannot know).
"""

from itertools import pairwise
from math import ceil
from typing import TypeAlias

from msgspec import Struct

from whence.check.diagrams.svg import COLOURS, INK, QUIET, Canvas
from whence.check.levels import KEYED
from whence.errors import UsageError
from whence.trace.memory import Trace
from whence.trace.schema import Kind

Name: TypeAlias = tuple[int, int, int]

ENTRY_BYTES = 400
"""Memory of a pending bundle beyond its payload: entry, key, ids and Python objects, measured generously."""

QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)


class Observed(Struct, frozen=True):
    """What a trace shows."""

    delays_ns: list[int]
    """Sorted; negative where the receiver's clock was behind the publisher's by more than the message took."""
    offset_ns: int
    """The largest difference between two clocks."""
    events_per_second: float
    payload_bytes: float
    """Mean."""
    exact: bool
    """Offsets are known from true time, not estimated."""


class Choice(Struct, frozen=True):
    """One δ and what it costs. Ticks, unless the name says otherwise."""

    quantile: float
    delta: int
    beyond_delta: float
    """The part of observed messages that took longer than δ."""
    late_at_most: float
    """The part that came after l + δ + ε at the earliest possible l: only these can be late."""
    latency_ms: float
    """Nothing waits longer: (δ + 2ε − 1) τ."""
    buffer_bytes: int


class Proposal(Struct, frozen=True):
    """Settings for level total, and what else could be chosen."""

    tick_ns: int
    epsilon: int
    delta: int
    choices: list[Choice]


def observe(trace: Trace) -> Observed:
    """Return the delays and offsets in a trace. Raises UsageError where it has none."""
    published: dict[Name, int] = {}
    first = last = None
    size = 0
    for row in trace.records(Kind.PUBLISH):
        published[row["m_pid"], row["m_inc"], row["m_seq"]] = row["t_clk"]
        first, last = (row["t_clk"] if first is None else first), row["t_clk"]
        size += row["payload_bytes"]
    least: dict[tuple[int, int], int] = {}
    delays: list[int] = []
    for kind in (Kind.DELIVER, Kind.LATE):
        for row in trace.records(kind):
            name = (row["m_pid"], row["m_inc"], row["m_seq"])
            pending_ns = row.get("hold_ns") or 0
            shows = pending_ns > 0 or kind is Kind.LATE or trace.run.level not in KEYED
            if row["node"] != name[0] and name in published and shows:
                delay = row["t_clk"] - pending_ns - published[name]
                delays.append(delay)
                pair = (name[0], row["node"])
                least[pair] = min(least.get(pair, delay), delay)
    if not delays or first is None or last is None:
        raise UsageError(f"the trace of run {trace.run.run_id!r} shows no event at another process than its publisher")
    span_ns = max(1, abs(last - first))
    offset, exact = _offset(trace, least)
    return Observed(sorted(delays), offset, len(published) * 1e9 / span_ns, size / len(published), exact)


def _offset(trace: Trace, least: dict[tuple[int, int], int]) -> tuple[int, bool]:
    offsets: dict[int, int] = {}
    for row in trace.records(Kind.PUBLISH):
        if row["t_true"] is None:
            estimates = [
                abs(forth - back) // 2
                for (one, other), forth in least.items()
                if (back := least.get((other, one))) is not None and one < other
            ]
            return max(estimates, default=0), False
        offset = row["t_clk"] - row["t_true"]
        if abs(offset) > abs(offsets.get(row["node"], 0)):
            offsets[row["node"]] = offset
    return max([*offsets.values(), 0]) - min([*offsets.values(), 0]), True


def propose(observed: Observed, quantile: float = 0.9999, tick_ns: int | None = None) -> Proposal:
    """Return τ, ε and δ such that the stated part of what was observed is on time, and the alternatives.

    τ is a millisecond unless given: hlc's stamps do not grow with ε, and a finer tick wastes less of the wait.
    """
    tick = tick_ns or 1_000_000
    epsilon = ceil(observed.offset_ns / tick) + 1
    parts = sorted({*QUANTILES, quantile})
    choices = [_choice(observed, part, tick, epsilon) for part in parts]
    chosen = next(choice for choice in choices if choice.quantile == quantile)
    return Proposal(tick, epsilon, chosen.delta, choices)


def _choice(observed: Observed, quantile: float, tick: int, epsilon: int) -> Choice:
    delays = observed.delays_ns
    at = min(len(delays) - 1, ceil(quantile * len(delays)) - 1)
    delta = max(0, ceil(delays[max(0, at)] / tick))
    latency_ns = (delta + 2 * epsilon - 1) * tick
    pending = observed.events_per_second * latency_ns / 1e9
    return Choice(
        quantile, delta, _beyond(delays, delta * tick), _beyond(delays, (delta + epsilon) * tick), latency_ns / 1e6,
        round(pending * (observed.payload_bytes + ENTRY_BYTES)),
    )  # fmt: skip


def _beyond(delays: list[int], limit: int) -> float:
    return sum(delay > limit for delay in delays) / len(delays)


def trade_off(proposal: Proposal) -> str:
    """Return an SVG of what a shorter wait costs: the part that may be late over the latency, one point per choice."""
    width, height, left, top, right, bottom = 640.0, 380.0, 80.0, 50.0, 30.0, 60.0
    canvas = Canvas()
    choices = proposal.choices
    longest = max(choice.latency_ms for choice in choices) * 1.05
    floor = min([choice.beyond_delta for choice in choices if choice.beyond_delta] or [1e-4]) / 3

    def place(choice: Choice) -> tuple[float, float]:
        part = max(choice.beyond_delta, floor)
        depth = _decades(1.0, part) / _decades(1.0, floor)
        return left + choice.latency_ms / longest * (width - left - right), top + depth * (height - top - bottom)

    canvas.text(left, 28, "What a shorter wait costs", 16, bold=True)
    canvas.line(left, top, left, height - bottom, QUIET)
    canvas.line(left, height - bottom, width - right, height - bottom, QUIET)
    canvas.text(left, height - 18, f"latency at most, ms (0 to {longest:,.0f})", 12, QUIET)
    canvas.text(left - 8, top + 4, "100 %", 11, QUIET, "end")
    canvas.text(left - 8, height - bottom, "none", 11, QUIET, "end")
    canvas.text(12, top - 14, "beyond δ", 12, QUIET)
    points = [place(choice) for choice in choices]
    for (x1, y1), (x2, y2) in pairwise(points):
        canvas.line(x1, y1, x2, y2, COLOURS[0], 1.6)
    for choice, (x, y) in zip(choices, points, strict=True):
        chosen = choice.delta == proposal.delta
        canvas.dot(x, y, 6 if chosen else 4, COLOURS[1] if chosen else COLOURS[0])
        label = f"δ = {choice.delta}" + (" (proposed)" if chosen else "")
        canvas.text(x - 8, y - 10, label, 11, INK, "end" if x > width / 2 else "start", bold=chosen)
    return canvas.render(width, height, "late part over latency")


def _decades(high: float, low: float) -> float:
    decades = 0.0
    while high > low * 1.0001:
        step = min(high / low, 10.0)
        decades += 1.0 if step == 10.0 else (step - 1) / 9
        high /= step
    return decades or 1.0
