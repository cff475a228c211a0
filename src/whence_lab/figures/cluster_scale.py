"""J, figure 4: throughput, latency and message size of the two layers, for 5, 25 and all members as updaters.

Section 6.2. The product of coordinators and p is kept at 6; PrCast has fan-out 4 and 5 hops, knows all members, carries
at most 20 events a message and remembers 40; recovery asks the originator; rounds are tuned until 0.2 % of all
connections fail.
"""

from collections.abc import Sequence
from math import log

from whence_lab.experiments.two_layer import FAILURES, Experiment, rounds_for, tuned_round_ns, with_round
from whence_lab.figures.bands import at_least, at_most, both, ends, ratio, straight_change, weighed
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import falls, listed, logarithmic, rises, straight

ALL = "all"
FIXED = ("5", "25")
UPDATERS = (*FIXED, ALL)
EVENTS_PER_ROUND = 6.0
BANDWIDTH_BPS = 100_000_000
"""J's hosts echo 4 KB within 1 ms (section 6.1): so they carry tens of Mb/s at least."""
LINK_NS = (1_500_000, 7_500_000)
"""A round trip takes 1 to 5 ms (section 6.1), and TCP needs one and a half until the first bytes have come."""
FIRST_ROUND_NS = 10_000_000
"""Where tuning begins."""
SLIGHTLY = 0.75
"""What is left after a slight decrease, at least."""
ROUNDS = 20
MESSAGES = 8000
"""A run has at least as many rounds as it takes to send so many, or a rate of 0.2 % would be a few failures."""


def experiment(config: Config) -> Experiment:
    """Return the run of a configuration, its rounds not tuned yet."""
    members = config["members"]
    return Experiment(
        members=members, coordinators=members if config["updaters"] == ALL else int(config["updaters"]),
        events_per_round=EVENTS_PER_ROUND, recovery="R1", round_ns=FIRST_ROUND_NS, rounds=ROUNDS,
        bandwidth_bps=BANDWIDTH_BPS, latency_ns=LINK_NS,
    )  # fmt: skip


def measure(config: Config, seed: int) -> dict[str, float]:
    """Tune the round, then measure."""
    untuned = experiment(config)
    round_ns = tuned_round_ns(untuned, seed)
    seen = with_round(untuned, round_ns, max(ROUNDS, rounds_for(untuned, MESSAGES))).run(seed)
    return {
        "throughput": seen.throughput(), "latency_ms": seen.latency_ms(), "message_bytes": seen.message_bytes(),
        "loss": seen.loss(), "failed_connections": seen.failed_connections(), "round_ms": round_ns / 1e6,
    }  # fmt: skip


def _each(curves: Sequence[str], judge: str, data: Data) -> dict[str, list[tuple[float, float]]]:
    return {name: data.means("members", judge, updaters=name) for name in curves}


def _said(points: dict[str, list[tuple[float, float]]]) -> str:
    return "; ".join(f"{name} updaters: {listed(curve)}" for name, curve in points.items())


def _sizes_shrink(data: Data) -> Finding:
    curves = _each(FIXED, "message_bytes", data)
    found = [data.curve("members", "message_bytes", updaters=name) for name in FIXED]
    parts = [ratio(curve[-1][1], curve[0][1]) for curve in found]
    return weighed(both([at_least(parts, SLIGHTLY), at_most(parts, 1.0)]), _said(curves))


def _sizes_grow(data: Data) -> Finding:
    curves = _each([ALL], "message_bytes", data)
    return Finding(rises(curves[ALL]), _said(curves))


def _latency_logarithmic(data: Data) -> Finding:
    curves = {name: data.curve("members", "latency_ms", updaters=name) for name in FIXED}
    told = [
        at_most([ratio(band, curve[0][1])], log(at) / log(curve[0][0]))
        for curve in curves.values()
        for at, band in curve[1:]
    ]
    return weighed(both(told), _said(_each(FIXED, "latency_ms", data)))


def _latency_linear(data: Data) -> Finding:
    curve = data.means("members", "latency_ms", updaters=ALL)
    fit, other = straight(curve), logarithmic(curve)
    return Finding(
        fit.slope > 0 and fit.r2 >= 0.95 and fit.r2 > other.r2,
        f"slope {fit.slope:.3g} ms a member, R² {fit.r2:.3f}, of a logarithm {other.r2:.3f}; {listed(curve)}",
    )


def _throughput_constant(data: Data) -> Finding:
    curves = _each(FIXED, "throughput", data)
    changes = {name: straight_change(data.curve("members", "throughput", updaters=name)) for name in FIXED}
    seen = ", ".join(f"from {low:+.1%} to {high:+.1%} with {name}" for name, (low, high) in changes.items())
    told = both([at_least(changes.values(), -0.1), at_most(changes.values(), 0.1)])
    return weighed(told, f"{seen}; {_said(curves)}")


def _throughput_falls(data: Data) -> Finding:
    curves = _each([ALL], "throughput", data)
    return Finding(falls(curves[ALL]), _said(curves))


def _failures_alike(data: Data) -> Finding:
    bands = [band for name in UPDATERS for _, band in data.curve("members", "failed_connections", updaters=name)]
    rates, each = [band.mean for band in bands], [ends(band) for band in bands]
    told = both([at_least(each, FAILURES / 2), at_most(each, 2 * FAILURES)])
    return weighed(told, f"from {min(rates):.2%} to {max(rates):.2%}")


def _log_law(data: Data) -> list[Line]:
    """Return the steepest rise that is logarithmic: in proportion to log n, from where the curve begins."""
    lines = []
    for name in FIXED:
        curve = data.means("members", "latency_ms", updaters=name)
        lines.append(Line(f"∝ log n ({name})", [(at, curve[0][1] * log(at) / log(curve[0][0])) for at, _ in curve]))
    return lines


def _flat(data: Data) -> list[Line]:
    lines = []
    for name in FIXED:
        curve = data.means("members", "throughput", updaters=name)
        mean = sum(y for _, y in curve) / len(curve)
        lines.append(Line(f"constant ({name})", [(curve[0][0], mean), (curve[-1][0], mean)]))
    return lines


def _straight(data: Data) -> list[Line]:
    curve = data.means("members", "latency_ms", updaters=ALL)
    fit = straight(curve)
    return [
        *_log_law(data),
        Line("linear (all)", [(x, fit.offset + fit.slope * x) for x in (curve[0][0], curve[-1][0])]),
    ]


def _label(name: str) -> str:
    return f"{name} updaters"


FIGURE = Figure(
    name="cluster-scale",
    title="Two-layer protocol with growing clusters",
    source="J, figure 4",
    settings=(
        "n·p = 6 events a round, fan-out 4, 5 hops, full views, 20 events a message, history 40, recovery R1, rounds "
        "tuned to 0.2 % failed connections. A round trip takes 1 to 5 ms, so a message by TCP 1.5 to 7.5 ms. Open in "
        "the paper, chosen here: a host carries 100 Mb/s in both directions together, events carry 64 bytes, and a "
        "connection fails if a message takes longer than a round."
    ),
    measure=measure,
    quick=Plan(grid(updaters=UPDATERS, members=[25, 50, 75, 100, 125, 175]), 3),
    full=Plan(grid(updaters=UPDATERS, members=[25, 50, 75, 100, 125, 175, 250, 350, 500]), 10),
    panels=(
        Panel(
            "a) throughput",
            "members",
            "throughput",
            "members",
            "events a second and member",
            "updaters",
            _label,
            stated=_flat,
        ),
        Panel("b) latency", "members", "latency_ms", "members", "ms", "updaters", _label, stated=_straight),
        Panel("c) message size", "members", "message_bytes", "members", "bytes", "updaters", _label),
    ),
    checks=(
        Check(
            "With a fixed number of coordinators messages even shrink a little as the group grows",
            "6.2",
            "5 and 25 updaters: the mean message of the largest group is smaller than that of the smallest, and by at "
            "most a quarter",
            _sizes_shrink,
        ),
        Check(
            "With all members as updaters messages grow with the number of coordinators",
            "6.2",
            "the mean message is larger at every larger size",
            _sizes_grow,
        ),
        Check(
            "With a fixed number of coordinators delay grows only logarithmically",
            "6.2",
            "5 and 25 updaters: latency rises at most as log n does from the smallest group on",
            _latency_logarithmic,
        ),
        Check(
            "With a fixed number of coordinators throughput stays constant",
            "6.2",
            "5 and 25 updaters: the line fitted to throughput changes by at most a tenth of the mean over all sizes",
            _throughput_constant,
        ),
        Check(
            "With all members as updaters latency grows linearly",
            "6.2",
            "a straight line with positive slope explains 95 % of the variance, and more of it than a logarithm",
            _latency_linear,
        ),
        Check(
            "With all members as updaters throughput falls",
            "6.2",
            "it is lower at every larger size",
            _throughput_falls,
        ),
        Check(
            "Rounds are tuned so that about 0.2 % of the connections fail in all experiments",
            "6.2",
            "the mean rate of every configuration is within a factor of two of 0.2 %",
            _failures_alike,
        ),
    ),
)
