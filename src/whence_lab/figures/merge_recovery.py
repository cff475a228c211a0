"""K, section 3.3: how long after arbitrary corruption stamps and streams are wrong, against ε and δ."""

from random import Random
from typing import Any

from whence_lab.experiments.computations import Rules, World
from whence_lab.experiments.stabilization import corrupted, recovery
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import listed, logarithmic, straight

PROCESSES, MERGERS = 3, 2
EPSILONS, DELTAS = [2, 4, 5, 6, 8], [0, 4, 8, 12, 16]
DELTA, EPSILON = 6, 3
"""The one while the other varies."""
ORDERS = ("kn", "hlc")


def steps_for(epsilon: int, delta: int) -> int:
    """Return the steps of a computation in which every clock advances by more than twice the time of recovery."""
    ticks = 2 * (2 * delta + 6 * epsilon) + 10
    return int(ticks * (PROCESSES + MERGERS) / 0.45)


def measure(config: Config, seed: int) -> dict[str, float]:
    """Corrupt every process, channel and buffer in some computations; return the last ticks at which harm was seen."""
    epsilon, delta, order = config["epsilon"], config["delta"], config["order"]
    stamps, stream = [], []
    for number in range(config["computations"]):
        random = Random(f"{seed} {number}")
        reading, k = random.choice(("receiver", "sender")), random.randint(1, 3)
        rules = Rules(epsilon=epsilon, delta=delta, n=PROCESSES, k=k, mergers=MERGERS, order=order, reading=reading,
                      steps=steps_for(epsilon, delta), loss=0.05)  # fmt: skip
        world = World(random, rules)
        corrupted(world)
        world.run()
        world.finish()
        of_stamps, of_stream = recovery(world, order)
        stamps.append(of_stamps + 1)
        stream.append(of_stream + 1)
    return {"worst_stamps": max(stamps), "worst_stream": max(stream), "mean_stream": sum(stream) / len(stream)}


def _worst(data: Data, measure: str, order: str, along: str, **fixed: int) -> list[tuple[float, float]]:
    return [(x, band.most) for x, band in data.curve(along, measure, order=order, **fixed)]


def _curves(data: Data, measure: str, order: str) -> dict[str, list[tuple[float, float]]]:
    return {
        "epsilon": _worst(data, measure, order, "epsilon", delta=DELTA),
        "delta": _worst(data, measure, order, "delta", epsilon=EPSILON),
    }


def _within(data: Data, measure: str, order: str, per_delta: int, per_epsilon: int) -> Finding:
    curves = _curves(data, measure, order)
    holds = all(y <= per_delta * DELTA + per_epsilon * x for x, y in curves["epsilon"])
    holds = holds and all(y <= per_delta * x + per_epsilon * EPSILON for x, y in curves["delta"])
    seen = "; ".join(f"worst ticks by {name}: {listed(curve)}" for name, curve in curves.items())
    return Finding(holds, seen)


def _stamps_recover(data: Data) -> Finding:
    return _within(data, "worst_stamps", "kn", 1, 3)


def _grows_in_proportion(data: Data) -> Finding:
    fits = {
        (order, name): (straight(curve), logarithmic(curve) if name == "epsilon" else None)
        for order in ORDERS
        for name, curve in _curves(data, "worst_stream", order).items()
    }
    holds = all(
        fit.slope > 0 and fit.r2 >= 0.9 and (other is None or fit.r2 > other.r2) for fit, other in fits.values()
    )
    seen = "; ".join(
        f"{order} over {name}: {fit.slope:.2g} ticks each, R² {fit.r2:.3f}"
        + ("" if other is None else f", of a logarithm {other.r2:.3f}")
        for (order, name), (fit, other) in fits.items()
    )
    return Finding(holds, seen)


def _stream_recovers(data: Data) -> Finding:
    kn, hlc = (_within(data, "worst_stream", order, 2, 6) for order in ORDERS)
    return Finding(kn.holds and hlc.holds, f"kn: {kn.seen}; hlc: {hlc.seen}")


def _harm_is_done(data: Data) -> Finding:
    worst = max(y for curve in _curves(data, "worst_stream", "kn").values() for _, y in curve)
    return Finding(worst > 0, f"the stream was wrong for up to {worst:g} ticks")


def _by_epsilon(data: Data) -> list[Line]:
    return [
        Line("δ + 3ε (K, stamps)", [(x, DELTA + 3 * x) for x in EPSILONS]),
        Line("2δ + 6ε (ours, stream)", [(x, 2 * DELTA + 6 * x) for x in EPSILONS]),
    ]


def _by_delta(data: Data) -> list[Line]:
    return [
        Line("δ + 3ε (K, stamps)", [(x, x + 3 * EPSILON) for x in DELTAS]),
        Line("2δ + 6ε (ours, stream)", [(x, 2 * x + 6 * EPSILON) for x in DELTAS]),
    ]


def plan(computations: int, seeds: int) -> Plan:
    """Return ε varied with δ fixed, and the other way round."""
    shared: dict[str, list[Any]] = {"order": list(ORDERS), "computations": [computations]}
    return Plan(
        [
            *grid(epsilon=EPSILONS, delta=[DELTA], **shared),
            *grid(epsilon=[EPSILON], delta=DELTAS, **shared),
        ],
        seeds,
    )


FIGURE = Figure(
    name="merge-recovery",
    title="Recovery from arbitrary corruption",
    source="K, section 3.3",
    settings=(
        "Random computations of three processes, with up to three events a tick, and two mergers; every state, channel "
        "and buffer is corrupted at once. Counted is the last tick, on a process's own clock since then, at which a "
        "pair of events was ordered wrongly (stamps), or a merger released garbage or a cause after its effect "
        "(stream). The panels show the largest of any run."
    ),
    measure=measure,
    quick=plan(20, 10),
    full=plan(100, 20),
    panels=(
        Panel(
            "a) stream, by ε (δ = 6)",
            "epsilon",
            "worst_stream",
            "ε, ticks",
            "ticks until right",
            "order",
            only={"delta": DELTA},
            most=True,
            stated=_by_epsilon,
        ),
        Panel(
            "b) stream, by δ (ε = 3)",
            "delta",
            "worst_stream",
            "δ, ticks",
            "ticks until right",
            "order",
            only={"epsilon": EPSILON},
            most=True,
            stated=_by_delta,
        ),
        Panel(
            "c) stamps, by ε (δ = 6)",
            "epsilon",
            "worst_stamps",
            "ε, ticks",
            "ticks until right",
            "order",
            only={"delta": DELTA},
            most=True,
            stated=_by_epsilon,
        ),
    ),
    checks=(
        Check(
            "Stamps recover within δ + 3ε from an arbitrary state",
            "3.3",
            "with stamps ⟨r, c, kn⟩ no pair is ordered wrongly later than δ + 3ε ticks, in any run",
            _stamps_recover,
        ),
        Check(
            "Recovery grows in proportion to ε and δ",
            "1, 7",
            "the stream, both orders: over ε and over δ a rising straight line explains 90 % of the variance of the "
            "last tick that was wrong, and over ε more of it than a logarithm",
            _grows_in_proportion,
        ),
        Check(
            "Recovery is bounded in proportion to ε and δ; ours of the stream takes at most 2δ + 6ε",
            "1, 4.2, merge 6",
            "no merger releases anything wrong later than 2δ + 6ε ticks, in any run",
            _stream_recovers,
        ),
        Check(
            "Faults do harm, or recovery would show nothing",
            "2",
            "some stream is wrong after the faults ended",
            _harm_is_done,
        ),
    ),
)
