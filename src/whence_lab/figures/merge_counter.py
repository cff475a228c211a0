"""K, figure 4 and section 5: growth of c where stamps are ⟨r, c⟩, and its bound with quiet windows."""

from whence_lab.experiments.small_stamps import PROGRAMS, longest_c
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import listed, rises, straight

EPSILON = 4
PAPERS, OURS = PROGRAMS
TICKS = [100, 200, 400, 800, 1600]
PERIODS = [50, 100, 200, 400]
PROCESSES = [3, 6, 12, 24]
LONG = 6400
"""Ticks of a run with windows: many periods."""


def measure(config: Config, seed: int) -> dict[str, float]:
    """Let the message go round; the schedule is the paper's, and no chance is in it."""
    return {"c": longest_c(config["program"], config["processes"], EPSILON, config["ticks"], config["period"])}


def _unbounded(data: Data) -> Finding:
    curve = data.means("ticks", "c", program=PAPERS, processes=3, period=0)
    return Finding(rises(curve) and straight(curve).r2 >= 0.99, f"c after ticks: {listed(curve)}")


def _bounded(data: Data, program: str) -> Finding:
    once, twice = (data.means("period", "c", program=program, processes=3, ticks=ticks) for ticks in (LONG, 2 * LONG))
    fit = straight(once)
    return Finding(
        once == twice and fit.r2 >= 0.99 and fit.slope > 0,
        f"c by period: {listed(once)}; in twice the time {listed(twice)}; R² of a line {fit.r2:.4f}",
    )


def _windows_bound(data: Data) -> Finding:
    return _bounded(data, PAPERS)


def _windows_bound_ours(data: Data) -> Finding:
    return _bounded(data, OURS)


def _independent_of_n(data: Data) -> Finding:
    curve = data.means("processes", "c", program=OURS, period=PERIODS[-1], ticks=LONG)
    return Finding(curve[-1][1] <= curve[0][1], f"c by processes, period {PERIODS[-1]}: {listed(curve)}")


def _proportional(data: Data) -> list[Line]:
    curve = data.means("period", "c", program=OURS, processes=3, ticks=LONG)
    fit = straight(curve)
    return [Line("∝ period", [(x, fit.offset + fit.slope * x) for x, _ in curve])]


def _label(processes: int) -> str:
    return f"{processes} processes"


CONFIGS = [
    *grid(program=[PAPERS], processes=PROCESSES, ticks=TICKS, period=[0]),
    *grid(program=[PAPERS, OURS], processes=PROCESSES, ticks=[LONG, 2 * LONG], period=PERIODS),
]

FIGURE = Figure(
    name="merge-counter",
    title="c of the stamps ⟨r, c⟩",
    source="K, figure 4, section 5",
    settings=(
        "The paper's schedule with 3 processes and ε = 4; with more, the message goes through all of them. Windows of "
        "2ε ticks without events, one a period. Nothing is drawn by chance: one run each. Panels b and c: 6,400 ticks."
    ),
    measure=measure,
    quick=Plan(CONFIGS, 1),
    full=Plan(CONFIGS, 1),
    panels=(
        Panel("a) without windows", "ticks", "c", "ticks", "largest c", "processes", _label, only={"period": 0}),
        Panel(
            "b) a quiet window a period, figure 3",
            "period",
            "c",
            "period in ticks",
            "largest c",
            "processes",
            _label,
            only={"ticks": LONG, "program": PAPERS},
        ),
        Panel(
            "c) the same, forgetting on receipt",
            "period",
            "c",
            "period in ticks",
            "largest c",
            "processes",
            _label,
            only={"ticks": LONG, "program": OURS},
            stated=_proportional,
        ),
    ),
    checks=(
        Check(
            "c is unbounded even with only three processes",
            "5.1",
            "it is larger after every longer run, and a straight line explains 99 % of its variance",
            _unbounded,
        ),
        Check(
            "With windows of 2ε without events the bound on c is proportional to the period",
            "5.2",
            "figure 3, three processes: c is the same in twice the time, and a line over the period explains 99 %",
            _windows_bound,
            known="Figure 3 forgets c at a receipt only if the message is old too; the first receipt after a window "
            "brings a new message, and keeps the old c (merge E24).",
        ),
        Check(
            "With windows of 2ε without events the bound on c is proportional to the period",
            "5.2, merge E24",
            "the same for a program that forgets its own c after 2ε whatever comes next",
            _windows_bound_ours,
        ),
        Check(
            "With these windows the space of a stamp is independent of the number of processes",
            "1, 7",
            "forgetting on receipt, c is no larger with 24 processes than with 3",
            _independent_of_n,
            known="In one period a message can pass through all processes in every tick (merge E20).",
        ),
    ),
)
