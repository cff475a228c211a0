"""K, Theorem 3.8: the size of stamps ⟨r, c, kn⟩ against n, ε and δ; and what ours take on the wire."""

from math import ceil, log2
from random import Random

from whence_lab.experiments.computations import Rules, World
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import listed, straight, through_origin

SIZES, EPSILONS, DELTAS = [2, 4, 8, 16, 32], [2, 3, 5, 6, 8], [1, 4, 16, 64]
N, EPSILON, DELTA = 3, 4, 6
"""What is fixed while another varies; none of them is among the values that vary."""
STEPS_PER_PROCESS = 150
RESERVED = "K's bounds, whole bits"
UNROUNDED = "K's bounds, not rounded"
"""What K's bounds on each field add up to. K itself states the order, ε log n + log δ, and no number; its stamps are
fields, and a field has whole bits."""


def bits_for(n: int, epsilon: int, delta: int) -> int:
    """Return the bits that the paper's bounds reserve: r modulo 6ε + δ + 1, c below ε, 2ε counts up to n."""
    return ceil(log2(6 * epsilon + delta + 1)) + ceil(log2(epsilon)) + 2 * epsilon * ceil(log2(n + 1))


def bits_without_rounding(n: int, epsilon: int, delta: int) -> float:
    """Return the same if fields had parts of bits: fewer, by nearly a bit for each of the 2ε + 2 fields at most."""
    return log2(6 * epsilon + delta + 1) + log2(epsilon) + 2 * epsilon * log2(n + 1)


def measure(config: Config, seed: int) -> dict[str, float]:
    """Stamp the events of one computation, one event per process and tick, in both ways."""
    n, epsilon, delta = config["n"], config["epsilon"], config["delta"]
    rules = Rules(epsilon=epsilon, delta=delta, n=n, mergers=0, loss=0.0, steps=STEPS_PER_PROCESS * n)
    world = World(Random(seed), rules).run()
    most_kn = max(max(event.kn.kn) for event in world.events)
    most_c = max(event.kn.c for event in world.events)
    kn = [len(world.kn[0].write(event.kn)) for event in world.events]
    hlc = [len(world.hlc[0].write(event.hlc)) for event in world.events]
    return {
        "most_kn": most_kn, "most_c": most_c, "kn_bytes": sum(kn) / len(kn), "hlc_bytes": sum(hlc) / len(hlc),
        "bits": ceil(log2(6 * epsilon + delta + 1)) + most_c.bit_length() + 2 * epsilon * most_kn.bit_length(),
    }  # fmt: skip


def _each(data: Data, measure: str) -> dict[str, list[tuple[float, float]]]:
    """Return the largest value of any run along each of the three."""
    along = {
        "n": data.curve("n", measure, epsilon=EPSILON, delta=DELTA),
        "ε": data.curve("epsilon", measure, n=N, delta=DELTA),
        "δ": data.curve("delta", measure, n=N, epsilon=EPSILON),
    }
    return {name: [(x, band.most) for x, band in curve] for name, curve in along.items()}


def _said(curves: dict[str, list[tuple[float, float]]]) -> str:
    return "; ".join(f"by {name}: {listed(curve)}" for name, curve in curves.items())


def _c_below_epsilon(data: Data) -> Finding:
    curves = _each(data, "most_c")
    holds = all(y < x for x, y in curves["ε"])
    return Finding(holds and all(y < EPSILON for name in ("n", "δ") for _, y in curves[name]), _said(curves))


def _kn_within_n(data: Data) -> Finding:
    curves = _each(data, "most_kn")
    holds = all(y <= x for x, y in curves["n"])
    return Finding(holds and all(y <= N for name in ("ε", "δ") for _, y in curves[name]), _said(curves))


def _bits_within_bound(data: Data) -> Finding:
    curves = _each(data, "bits")
    cases = [(y, _case(name, int(x))) for name, curve in curves.items() for x, y in curve]
    bounds = {name: [(x, float(bits_for(*_case(name, int(x))))) for x, _ in curve] for name, curve in curves.items()}
    beyond = sum(y > bits_without_rounding(*case) for y, case in cases)
    return Finding(
        all(y <= bits_for(*case) for y, case in cases),
        f"{_said(curves)}; bounds {_said(bounds)}; without whole bits, of {len(cases)} cases {beyond} are beyond the "
        f"sum, which is {bits_without_rounding(2, EPSILON, DELTA):.1f} for n = 2",
    )


def _case(name: str, x: int) -> tuple[int, int, int]:
    """Return n, ε and δ where one of them has this value."""
    fixed = {"n": N, "ε": EPSILON, "δ": DELTA} | {name: x}
    return fixed["n"], fixed["ε"], fixed["δ"]


def _bits_logarithmic(data: Data) -> Finding:
    curves = _each(data, "bits")
    few, least = curves["n"][0]
    holds = all(y <= least * log2(x + 1) / log2(few + 1) for x, y in curves["n"])
    first, of_first = curves["δ"][0]
    holds = holds and all(y <= of_first + ceil(log2(x / first)) for x, y in curves["δ"])
    return Finding(holds, _said({name: curves[name] for name in ("n", "δ")}))


def _hlc_flat(data: Data) -> Finding:
    curve = data.means("epsilon", "hlc_bytes", n=N, delta=DELTA)
    return Finding(max(y for _, y in curve) <= 9, f"bytes of hlc by ε: {listed(curve)}")


def _kn_linear(data: Data) -> Finding:
    curve = data.means("epsilon", "kn_bytes", n=N, delta=DELTA)
    fit = straight(curve)
    return Finding(fit.slope > 0 and fit.r2 >= 0.9, f"bytes of kn by ε: {listed(curve)}; R² {fit.r2:.3f}")


def _bits_proportional(data: Data) -> Finding:
    curve = data.means("epsilon", "bits", n=N, delta=DELTA)
    return Finding(through_origin(curve).r2 >= 0.9, f"bits by ε: {listed(curve)}; R² {through_origin(curve).r2:.3f}")


def _bounds_by(name: str, values: list[int]) -> list[Line]:
    return [
        Line(RESERVED, [(x, bits_for(*_case(name, x))) for x in values]),
        Line(UNROUNDED, [(x, bits_without_rounding(*_case(name, x))) for x in values]),
    ]


CONFIGS = [
    *grid(n=SIZES, epsilon=[EPSILON], delta=[DELTA]),
    *grid(n=[N], epsilon=EPSILONS, delta=[DELTA]),
    *grid(n=[N], epsilon=[EPSILON], delta=DELTAS),
]

FIGURE = Figure(
    name="merge-stamps",
    title="Size of stamps",
    source="K, Theorem 3.8",
    settings=(
        "Random computations with one event per process and tick, as the paper has it, and clocks that differ by less "
        "than ε. Bits are those that the largest values seen need in the paper's layout, in which a field has whole "
        "bits; bytes are those on the wire. Panels a to c show the largest of any run."
    ),
    measure=measure,
    quick=Plan(CONFIGS, 3),
    full=Plan(CONFIGS, 30),
    panels=(
        Panel(
            "a) bits, by n (ε = 4, δ = 6)",
            "n",
            "bits",
            "processes",
            "bits",
            only={"epsilon": EPSILON, "delta": DELTA},
            log_x=True,
            most=True,
            stated=lambda _: _bounds_by("n", SIZES),
        ),
        Panel(
            "b) bits, by ε (n = 3, δ = 6)",
            "epsilon",
            "bits",
            "ε, ticks",
            "bits",
            only={"n": N, "delta": DELTA},
            most=True,
            stated=lambda _: _bounds_by("ε", EPSILONS),
        ),
        Panel(
            "c) bits, by δ (n = 3, ε = 4)",
            "delta",
            "bits",
            "δ, ticks",
            "bits",
            only={"n": N, "epsilon": EPSILON},
            log_x=True,
            most=True,
            stated=lambda _: _bounds_by("δ", DELTAS),
        ),
        Panel(
            "d) bytes of kn on the wire (n = 3, δ = 6)",
            "epsilon",
            "kn_bytes",
            "ε, ticks",
            "bytes",
            only={"n": N, "delta": DELTA},
        ),
        Panel(
            "e) bytes of hlc, ours (n = 3, δ = 6)",
            "epsilon",
            "hlc_bytes",
            "ε, ticks",
            "bytes",
            only={"n": N, "delta": DELTA},
        ),
    ),
    checks=(
        Check("c is less than ε", "3.2, Lemma 3.2", "in every run", _c_below_epsilon),
        Check("Entries of kn are at most n", "3.2, Lemma 3.4", "in every run", _kn_within_n),
        Check(
            "A stamp takes O(ε log n + log δ) space",
            "3.3, Theorem 3.8",
            "the bits that the values of any run need, each field in whole bits, are at most those of K's bounds on r, "
            "c and kn, in whole bits too: ⌈log(6ε+δ+1)⌉ + ⌈log ε⌉ + 2ε ⌈log(n+1)⌉; K states the order alone",
            _bits_within_bound,
        ),
        Check(
            "Stamps grow logarithmically in the number of processes, and in δ",
            "1; 3.3, Theorem 3.8",
            "in every run: with n processes at most log(n+1)/log 3 times the bits with two; a bit more at most with "
            "every doubling of δ",
            _bits_logarithmic,
        ),
        Check(
            "The space of timestamps is proportional to the guarantees of the system",
            "7",
            "bits in the paper's layout: a line through the origin explains 90 % of the variance over ε",
            _bits_proportional,
        ),
        Check(
            "On the wire, ours, stamps grow with ε beside a fixed part",
            "merge 12",
            "bytes of kn on the wire: a rising straight line explains 90 % of the variance over ε",
            _kn_linear,
        ),
        Check(
            "Hybrid logical clocks, ours, do not grow with ε",
            "merge 4, 12",
            "at most 9 bytes at every ε",
            _hlc_flat,
        ),
    ),
)
