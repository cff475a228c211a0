"""J, Theorem 5.1: the size of the recovery buffer against the chance that an event is in it when it is needed."""

from math import ceil, e

from whence.core.levels.optimistic.sizing import stay_rounds
from whence_lab.experiments.recovery_buffers import availability
from whence_lab.experiments.two_layer import Experiment
from whence_lab.figures.bands import at_least, at_most, both, ends, weighed
from whence_lab.figures.data import Data
from whence_lab.figures.figure import PART, Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import listed

MEMBERS, HOPS = 25, 5
STAY = stay_rounds(HOPS, HOPS, HOPS)
"""T: an event spreads, is found missing, is waited for and asked for."""
ROUND_NS = 100_000_000
EVENTS = 150
"""Measured in a run, on average."""
THEOREMS, HALF = 2.0, 0.5


def measure(config: Config, seed: int) -> dict[str, float]:
    """Run a load with a buffer of so many times its mean, npT."""
    per_round = config["mean"] / STAY
    experiment = Experiment(
        members=MEMBERS, coordinators=MEMBERS, events_per_round=per_round, round_ns=ROUND_NS,
        rounds=ceil(EVENTS / per_round), hops=HOPS, recovery_bundles=ceil(config["factor"] * config["mean"]),
        latency_ns=(500_000, 2_500_000),
    )  # fmt: skip
    held = availability(experiment, STAY, seed)
    return {"available": held, "missing": 1 - held}


def bound(mean: float) -> float:
    """Return the chance that an event is missing, at most: (e/4) to the power npT."""
    return float((e / 4) ** mean)


def _theorem(data: Data) -> Finding:
    curve = data.means("mean", "missing", factor=THEOREMS)
    bounds = [(mean, bound(mean)) for mean, _ in curve]
    told = [at_most([ends(band)], bound(mean)) for mean, band in data.curve("mean", "missing", factor=THEOREMS)]
    return weighed(both(told), f"missing by npT: {listed(curve)}; bounds: {listed(bounds)}")


def _too_small(data: Data) -> Finding:
    small = [factor for factor in data.values("factor") if factor < 1]
    curves = {factor: data.curve("mean", "missing", factor=factor) for factor in small}
    seen = "; ".join(
        f"with {factor:g} of it {listed([(x, band.mean) for x, band in curve])}" for factor, curve in curves.items()
    )
    return weighed(
        at_least([ends(band) for curve in curves.values() for _, band in curve], HALF), f"missing by npT: {seen}"
    )


def _bound(data: Data) -> list[Line]:
    return [Line("(e/4)^npT", [(mean, bound(mean)) for mean in data.values("mean")])]


def _label(mean: float) -> str:
    return f"npT = {mean:g}"


MEANS, FACTORS = [5, 10, 20, 40], [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0]

FIGURE = Figure(
    name="cluster-buffers",
    title="Size of the recovery buffer",
    source="J, Theorem 5.1",
    settings=(
        "n = 25 processes publish in each round with probability p; an event must be recoverable for T = 20 rounds "
        "(section 5.2, with 5 hops and both waits as long). Every member's buffer is looked at T rounds after each "
        "publication."
    ),
    measure=measure,
    quick=Plan(grid(mean=[5, 10, 20], factor=[0.5, 0.75, 1.0, 1.5, 2.0]), 10),
    full=Plan(grid(mean=MEANS, factor=FACTORS), 30),
    panels=(
        Panel(
            "a) still in the buffer",
            "factor",
            "available",
            "size of the buffer / npT",
            "part of events and members",
            "mean",
            _label,
            within=PART,
        ),
        Panel(
            "b) missing with a buffer of 2npT",
            "mean",
            "missing",
            "npT",
            "part of events and members",
            only={"factor": THEOREMS},
            log_y=True,
            linear_below=1e-5,
            within=PART,
            stated=_bound,
        ),
    ),
    checks=(
        Check(
            "With a buffer of 2npT an event is there with probability above 1 - (e/4)^npT",
            "5.2, Theorem 5.1",
            "for every npT the part missing is below (e/4)^npT",
            _theorem,
        ),
        Check(
            "With a buffer smaller than npT a large number of events cannot be recovered",
            "5.2",
            "with every size below npT that was run at least half are missing, for every npT",
            _too_small,
        ),
    ),
)
