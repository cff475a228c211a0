"""K, sections 4.1 and 6: messages lost, delay and buffers against δ."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from msgspec import structs

from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.sim.network import Latency, NetworkModel
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.sim.summary import summarize
from whence.sim.workload import Workload
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, HOLD_NS, M_PID, NODE, REASON, T_TRUE, VALUE, Kind
from whence_lab.figures.data import Data
from whence_lab.figures.figure import PERCENT, Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import listed, rises

MEMBERS, EVENTS, RATE, EPSILON = 6, 300, 500.0, 2
DELTAS_QUICK, DELTAS_FULL = [10, 20, 30, 50, 80], [5, 10, 15, 20, 25, 30, 40, 50, 60, 80]
LATENCY = Latency(shape="exponential", low_ns=1_000_000, high_ns=10_000_000)
"""At least 1 ms and 10 ms more on average: some messages take as long as one likes."""
TICK_MS = 1.0
MERGERS = (0, 1)
"""The members that a group begins with as mergers; here none is replaced."""
ORDER = ("total_order", "keys", "fifo", "optimistic_causal")
"""What is promised of messages that arrive; that they do is not."""
_NODE, _AT, _ID, _HOLD = (COLUMNS_OF[Kind.DELIVER].index(name) for name in (NODE, T_TRUE, M_PID, HOLD_NS))
_TICK_NS = int(TICK_MS * 1e6)
_REASON, _VALUE = (COLUMNS_OF[Kind.NOTE].index(name) for name in (REASON, VALUE))


def measure(config: Config, seed: int) -> dict[str, float]:
    """Run a group at level total that sends nothing twice: what comes after δ is lost, as in the paper."""
    settings = {"delta": config["delta"], "epsilon": EPSILON, "resends": 0, "late": "drop"}
    planned = simulation("total", MEMBERS, EVENTS, seed, "none", settings, Workload(rate=RATE))
    trace = run(structs.replace(planned, network=NetworkModel(latency=LATENCY))).trace
    facts = summarize(trace)
    holds = [row[_HOLD] for row in trace.rows[Kind.DELIVER] if row[_HOLD]]
    published = {row[_ID : _ID + 3]: row[_AT] for row in trace.rows[Kind.PUBLISH]}
    released = [row[_AT] - published[row[_ID : _ID + 3]] for row in trace.rows[Kind.DELIVER] if row[_NODE] in MERGERS]
    fullest = [row[_VALUE] for row in trace.rows[Kind.NOTE] if row[_REASON] == "buffer_bundles"]
    return {
        "disorder": sum(verdict.outcome is Outcome.BROKEN for verdict in judge(trace) if verdict.promise in ORDER),
        "lost_percent": 100 * (1 - facts["owed_delivered"] / facts["deliveries_expected"]),
        "latency_ms_max": max(released, default=0) / 1e6,
        "in_time_ms_max": max(_in_time(trace, published, config["delta"]), default=0) / 1e6,
        "hold_ms_max": max(holds, default=0) / 1e6, "buffer": max(fullest, default=0),
    }  # fmt: skip


def _in_time(trace: Trace, published: Mapping[tuple[Any, ...], int], delta: int) -> list[int]:
    """Return how long after its publication a merger released each message that had reached it within δ, in ns."""
    rows = [row for row in trace.rows[Kind.DELIVER] if row[_NODE] in MERGERS]
    took = [(row[_AT] - published[row[_ID : _ID + 3]], row[_HOLD] or 0) for row in rows]
    return [until for until, held in took if until - held <= delta * _TICK_NS]


def _loss_falls(data: Data) -> Finding:
    curve = data.curve("delta", "lost_percent")
    never_rises = all(after.low <= before.high for (_, before), (_, after) in pairwise(curve))
    points = [(x, band.mean) for x, band in curve]
    return Finding(never_rises and not curve[0][1].overlaps(curve[-1][1]), f"% lost by δ: {listed(points)}")


def _delay_rises(data: Data) -> Finding:
    points = data.means("delta", "latency_ms_max")
    return Finding(rises(points), f"longest time in ms by δ: {listed(points)}")


def _buffer_rises(data: Data) -> Finding:
    points = data.means("delta", "buffer")
    return Finding(rises(points), f"messages in the fullest buffer by δ: {listed(points)}")


def _wait_bounded(data: Data) -> Finding:
    points = [(x, band.most) for x, band in data.curve("delta", "hold_ms_max")]
    return Finding(all(y <= (x + 3 * EPSILON) * TICK_MS for x, y in points), f"longest wait by δ: {listed(points)}")


def _delivered_by(data: Data) -> Finding:
    in_time, all_of_them = (
        [(x, band.most) for x, band in data.curve("delta", name)] for name in ("in_time_ms_max", "latency_ms_max")
    )
    return Finding(
        all(y < _limit_ms(x) for x, y in in_time),
        f"longest time in ms by δ, any run: {listed(in_time)}; with those that came later than δ {listed(all_of_them)}",
    )


def _limit_ms(delta: float) -> float:
    """Return δ + 3ε ticks and the one in which the publisher's clock was."""
    return (delta + 3 * EPSILON + 1) * TICK_MS


def _in_order(data: Data) -> Finding:
    most = max(band.most for _, band in data.curve("delta", "disorder"))
    return Finding(most == 0, f"promises of order broken in the worst run: {most:g}")


def _released_by(data: Data) -> list[Line]:
    return [Line("δ + 3ε (K) and a tick", [(x, _limit_ms(x)) for x in data.values("delta")])]


def _bound(data: Data) -> list[Line]:
    return [Line("δ + 3ε (K)", [(x, (x + 3 * EPSILON) * TICK_MS) for x in data.values("delta")])]


FIGURE = Figure(
    name="merge-delta",
    title="What δ trades",
    source="K, sections 4.1 and 6",
    settings=(
        "Chosen here, because the paper measures nothing: six members of level total with two mergers, 500 events a "
        "second, links of 1 ms and exponentially 10 ms more on average, ε = 2, ticks of 1 ms; nothing is sent twice."
    ),
    measure=measure,
    quick=Plan(grid(delta=DELTAS_QUICK), 4),
    full=Plan(grid(delta=DELTAS_FULL), 40),
    panels=(
        Panel("a) lost", "delta", "lost_percent", "δ in ticks", "% of deliveries", within=PERCENT),
        Panel("b) longest time until released at a merger", "delta", "latency_ms_max", "δ in ticks", "ms"),
        Panel(
            "c) the same, of what came within δ",
            "delta",
            "in_time_ms_max",
            "δ in ticks",
            "ms",
            most=True,
            stated=_released_by,
        ),
        Panel("d) longest wait at a merger", "delta", "hold_ms_max", "δ in ticks", "ms", most=True, stated=_bound),
        Panel("e) fullest buffer of a merger", "delta", "buffer", "δ in ticks", "messages"),
    ),
    checks=(
        Check(
            "Increasing δ decreases the number of messages lost",
            "4.1, 6",
            "it never rises beyond the bands, and those of the smallest and largest δ do not overlap",
            _loss_falls,
        ),
        Check(
            "Increasing δ increases the longest delay",
            "4.1",
            "the longest time from publication to release at a merger rises with every larger δ",
            _delay_rises,
        ),
        Check(
            "Increasing δ increases the buffer that merging needs",
            "4.1",
            "the fullest buffer rises with every larger δ",
            _buffer_rises,
        ),
        Check(
            "No message waits longer than δ + 3ε at a merger",
            "4.2, Lemma 4.2",
            "in a simulated group too, in every run",
            _wait_bounded,
        ),
        Check(
            "What is sent at r is delivered before a clock reads r + δ + 3ε, so that the system becomes ds(ε, δ + 3ε)",
            "4.2, Lemma 4.1, Theorem 4.3",
            "in every run a merger releases everything that reached it within δ, as the lemma presupposes, within "
            "δ + 3ε ticks of its publication and the tick in which its publisher's clock was",
            _delivered_by,
        ),
        Check(
            "Two mergers deliver what arrives at both in the same order, causes before their effects",
            "4.2, Theorems 4.4 and 4.5",
            "in every run, whatever is lost: one order, each publisher's order, and causal order",
            _in_order,
        ),
    ),
)
