"""J, section 6.2: the length of rounds against the rate of failed connections, which J tunes to 0.2 %."""

from itertools import pairwise

from whence_lab.experiments.two_layer import FAILURES, with_round
from whence_lab.figures.cluster_scale import UPDATERS, experiment
from whence_lab.figures.data import Data
from whence_lab.figures.figure import PERCENT, Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import listed

MEMBERS = 75
ROUNDS = 20
MS = 1_000_000


def measure(config: Config, seed: int) -> dict[str, float]:
    """Run with rounds of this length."""
    untuned = experiment({"members": config["members"], "updaters": config["updaters"]})
    seen = with_round(untuned, int(config["round_ms"] * MS), ROUNDS).run(seed)
    return {"failed_percent": 100 * seen.failed_connections(), "message_bytes": seen.message_bytes()}


def tuned_ms(data: Data, updaters: str) -> float | None:
    """Return the length at which the rate falls to 0.2 %, between the lengths that were run; None if it does not."""
    curve = data.means("round_ms", "failed_percent", updaters=updaters)
    goal = 100 * FAILURES
    for (before, high), (after, low) in pairwise(curve):
        if high > goal >= low:
            return before + (after - before) * (high - goal) / (high - low)
    return None


def _falls(data: Data) -> Finding:
    curves = {name: data.curve("round_ms", "failed_percent", updaters=name) for name in UPDATERS}
    holds = all(
        after.low <= before.high for curve in curves.values() for (_, before), (_, after) in pairwise(curve)
    ) and all(curve[-1][1].mean < curve[0][1].mean for curve in curves.values())
    seen = "; ".join(f"{name}: {listed([(x, band.mean) for x, band in curve])}" for name, curve in curves.items())
    return Finding(holds, f"% failed by ms: {seen}")


def _reachable(data: Data) -> Finding:
    found = {name: tuned_ms(data, name) for name in UPDATERS}
    seen = ", ".join(f"{name} updaters: {'none' if at is None else f'{at:.2f} ms'}" for name, at in found.items())
    return Finding(all(at is not None for at in found.values()), seen)


def _longer_for_larger(data: Data) -> Finding:
    found = [(name, tuned_ms(data, name) or 0.0) for name in UPDATERS]
    few, some, everybody = (at for _, at in found)
    return Finding(few < some < everybody, ", ".join(f"{name} updaters: {at:.2f} ms" for name, at in found))


def _goal(data: Data) -> list[Line]:
    lengths = data.values("round_ms")
    return [Line("0.2 % (J)", [(lengths[0], 100 * FAILURES), (lengths[-1], 100 * FAILURES)])]


def _label(name: str) -> str:
    return f"{name} updaters"


LENGTHS_QUICK, LENGTHS_FULL = [7, 8, 9, 10, 12], [6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, 10, 11, 12, 14]

FIGURE = Figure(
    name="cluster-rounds",
    title="Length of rounds and failed connections",
    source="J, section 6.2",
    settings=(
        "75 members; everything else as in cluster-scale: a connection fails if a message takes longer than a round, "
        "links and bandwidth are those of section 6.1."
    ),
    measure=measure,
    quick=Plan(grid(updaters=UPDATERS, members=[MEMBERS], round_ms=LENGTHS_QUICK), 2),
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
            stated=_goal,
            within=PERCENT,
        ),
    ),
    checks=(
        Check(
            "Longer rounds let fewer connections fail, so that rounds can be tuned to a rate",
            "6.2",
            "the rate never rises beyond the bands, and is lower with the longest rounds than with the shortest",
            _falls,
        ),
        Check(
            "Rounds can be tuned to 0.2 % for every instance",
            "6.2",
            "the curves of 5, 25 and all updaters cross 0.2 % within the lengths tried",
            _reachable,
        ),
        Check(
            "Larger messages need longer rounds",
            "6.2",
            "5 updaters need the shortest, all the longest rounds",
            _longer_for_larger,
        ),
    ),
)
