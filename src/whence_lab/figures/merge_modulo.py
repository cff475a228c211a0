"""K, Theorem 3.7: clocks kept modulo B. From which B on are stamps those of unbounded clocks?"""

from random import Random

from whence.core.clocks.kn import Kn
from whence_lab.experiments.stabilization import NeverAges, bounded_matches
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import listed

EPSILON, DELTA = 2, 3
OURS, PAPERS = 2 * EPSILON + DELTA + 1, 6 * EPSILON + DELTA + 1
KINDS: dict[str, type[Kn]] = {"with ageing": Kn, "as in the paper": NeverAges}
COMPUTATIONS = 100
MODULI = [OURS, 9, 10, 12, 14, PAPERS, 20, 24, 32]


def measure(config: Config, seed: int) -> dict[str, float]:
    """Run random computations with clocks modulo B beside unbounded ones."""
    kind, modulus, alike = KINDS[config["kind"]], config["modulus"], []
    for number in range(COMPUTATIONS):
        random = Random(f"{seed} {number}")
        rest = modulus + random.randint(-EPSILON, EPSILON)
        alike.append(bounded_matches(kind, random, EPSILON, DELTA, modulus, rest))
    return {"alike": sum(alike) / COMPUTATIONS}


def _papers_bound(data: Data) -> Finding:
    curve = [(b, y) for b, y in data.means("modulus", "alike", kind="as in the paper") if b >= PAPERS]
    return Finding(all(part == 1.0 for _, part in curve), f"alike by B: {listed(curve)}")


def _with_ageing(data: Data) -> Finding:
    curve = data.means("modulus", "alike", kind="with ageing")
    enough = [part for b, part in curve if b >= OURS]
    return Finding(all(part == 1.0 for part in enough), f"alike by B: {listed(curve)}")


def _bounds(data: Data) -> list[Line]:
    return [
        Line(f"B = 6ε + δ + 1 = {PAPERS} (K)", [(PAPERS, 0.0), (PAPERS, 1.0)]),
        Line(f"B = 2ε + δ + 1 = {OURS} (ours)", [(OURS, 0.0), (OURS, 1.0)]),
    ]


FIGURE = Figure(
    name="merge-modulo",
    title="Clocks modulo B",
    source="K, Theorem 3.7",
    settings=(
        "ε = 2, δ = 3, three processes; random computations, 100 for each seed, in each of which one process creates "
        "no event for about B ticks: the worst that it can do."
    ),
    measure=measure,
    quick=Plan(grid(kind=list(KINDS), modulus=MODULI), 3),
    full=Plan(grid(kind=list(KINDS), modulus=MODULI), 30),
    panels=(
        Panel(
            "stamps like those of unbounded clocks",
            "modulus",
            "alike",
            "B",
            "part of the computations",
            "kind",
            stated=_bounds,
        ),
    ),
    checks=(
        Check(
            "Clocks modulo B ≥ 6ε + δ + 1 suffice",
            "3.3, Theorem 3.7",
            "as in the paper, all computations have the stamps of unbounded clocks for every such B",
            _papers_bound,
            known="An idle process takes its own old state for a new one, whatever B (merge E5).",
        ),
        Check(
            "Bounded clocks suffice; ours with ageing, from B = 2ε + δ + 1 on",
            "3.3, merge 7",
            "with ageing, all computations have the stamps of unbounded clocks for every such B",
            _with_ageing,
        ),
    ),
)
