"""J, section 6.2: the length of rounds against the rate of failed connections, which J tunes to 0.2 %."""

from itertools import pairwise
from math import inf

from whence_lab.experiments.two_layer import FAILURES, with_round
from whence_lab.figures.bands import at_least, at_most, both, ends, weighed
from whence_lab.figures.cluster_scale import UPDATERS, experiment
from whence_lab.figures.data import Band, Data
from whence_lab.figures.figure import PERCENT, Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import Points, listed

MEMBERS = 75
ROUNDS = 20
MS = 1_000_000
GOAL = 100 * FAILURES
"""The rate that rounds are tuned to, in %."""


def measure(config: Config, seed: int) -> dict[str, float]:
    """Run with rounds of this length."""
    untuned = experiment({"members": config["members"], "updaters": config["updaters"]})
    seen = with_round(untuned, int(config["round_ms"] * MS), ROUNDS).run(seed)
    return {"failed_percent": 100 * seen.failed_connections(), "message_bytes": seen.message_bytes()}


def crossing(curve: Points) -> float:
    """Return the length at which a rate falls to 0.2 %, on straight lines between the lengths that were run.

    Where it is as low from the beginning that is the shortest, and where it never is, infinity.
    """
    if curve[0][1] <= GOAL:
        return curve[0][0]
    for (before, high), (after, low) in pairwise(curve):
        if high > GOAL >= low:
            return before + (after - before) * (high - GOAL) / (high - low)
    return inf


def tuned_ms(data: Data, updaters: str) -> Band:
    """Return the length at which the mean rate falls to 0.2 %, with those at which the ends of its bands do."""
    curve = data.curve("round_ms", "failed_percent", updaters=updaters)
    mean, low, high = (crossing([(x, getattr(band, name)) for x, band in curve]) for name in ("mean", "low", "high"))
    return Band(mean, low, high, low, high, curve[0][1].runs)


def _falls(data: Data) -> Finding:
    curves = {name: data.curve("round_ms", "failed_percent", updaters=name) for name in UPDATERS}
    holds = all(
        after.low <= before.high for curve in curves.values() for (_, before), (_, after) in pairwise(curve)
    ) and all(curve[-1][1].high < curve[0][1].low for curve in curves.values())
    seen = "; ".join(f"{name}: {listed([(x, band.mean) for x, band in curve])}" for name, curve in curves.items())
    return Finding(holds, f"% failed by ms: {seen}")


def _said(found: dict[str, Band]) -> str:
    return ", ".join(
        f"{name} updaters: {band.mean:.2f} ms ({band.low:.2f} to {band.high:.2f})" for name, band in found.items()
    )


def _reachable(data: Data) -> Finding:
    curves = [data.curve("round_ms", "failed_percent", updaters=name) for name in UPDATERS]
    told = [each for curve in curves for each in (
        at_least([ends(curve[0][1])], GOAL), at_most([ends(curve[-1][1])], GOAL)
    )]  # fmt: skip
    return weighed(both(told), _said({name: tuned_ms(data, name) for name in UPDATERS}))


def _longer_for_larger(data: Data) -> Finding:
    found = {name: tuned_ms(data, name) for name in UPDATERS}
    told = [
        None if shorter.overlaps(longer) else shorter.high < longer.low for shorter, longer in pairwise(found.values())
    ]
    return weighed(both(told), _said(found))


def _goal(data: Data) -> list[Line]:
    lengths = data.values("round_ms")
    return [Line("0.2 % (J)", [(lengths[0], GOAL), (lengths[-1], GOAL)])]


def _label(name: str) -> str:
    return f"{name} updaters"


LENGTHS_QUICK, LENGTHS_FULL = [7, 8, 8.5, 9, 9.5, 10, 11, 12], [6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, 10, 11, 12, 14]

FIGURE = Figure(
    name="cluster-rounds",
    title="Length of rounds and failed connections",
    source="J, section 6.2",
    settings=(
        "75 members; everything else as in cluster-scale: a connection fails if a message takes longer than a round, "
        "links and bandwidth are those of section 6.1."
    ),
    measure=measure,
    quick=Plan(grid(updaters=UPDATERS, members=[MEMBERS], round_ms=LENGTHS_QUICK), 6),
    full=Plan(grid(updaters=UPDATERS, members=[MEMBERS], round_ms=LENGTHS_FULL), 20),
    panels=(
        Panel(
            "failed connections",
            "round_ms",
            "failed_percent",
            "length of a round in ms",
            "%",
            "updaters",
            _label,
            log_y=True,
            linear_below=0.1,
            stated=_goal,
            within=PERCENT,
        ),
    ),
    checks=(
        Check(
            "Longer rounds let fewer connections fail, so that rounds can be tuned to a rate",
            "6.2",
            "the rate never rises beyond the bands, and those of the shortest and the longest rounds do not overlap",
            _falls,
        ),
        Check(
            "Rounds can be tuned to 0.2 % for every instance",
            "6.2",
            "with 5, 25 and all updaters the rate is at least 0.2 % in the shortest rounds tried, and at most in the "
            "longest",
            _reachable,
        ),
        Check(
            "Larger messages need longer rounds",
            "6.2",
            "5 updaters need the shortest, all the longest rounds, and where the ends of their bands cross 0.2 % do "
            "not overlap",
            _longer_for_larger,
        ),
    ),
)
