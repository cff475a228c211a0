"""K, Lemma 4.2: how long a merger buffers a message, against δ + 3ε."""

from random import Random

from whence_lab.experiments.computations import Rules, World
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import listed, rises

EPSILONS, DELTAS = [2, 3, 4, 6, 8], [0, 2, 4, 8, 12]
DELTA, EPSILON = 3, 5
"""The one while the other varies; neither is among the values that vary."""
STEPS = 400


def measure(config: Config, seed: int) -> dict[str, float]:
    """Merge in random computations; return the longest and the mean time in a merger's buffer, in its ticks."""
    waited: list[int] = []
    for number in range(config["computations"]):
        random = Random(f"{seed} {number}")
        rules = Rules(
            epsilon=config["epsilon"], delta=config["delta"], n=3, steps=STEPS,
            order=random.choice(("kn", "hlc")), reading=random.choice(("receiver", "sender")),
        )  # fmt: skip
        world = World(random, rules).run()
        world.finish()
        waited += [wait for output in world.output for wait in output.waited]
    return {"longest": max(waited), "mean": sum(waited) / len(waited)}


def _longest(data: Data) -> dict[str, list[tuple[float, float]]]:
    return {
        "epsilon": [(x, band.most) for x, band in data.curve("epsilon", "longest", delta=DELTA)],
        "delta": [(x, band.most) for x, band in data.curve("delta", "longest", epsilon=EPSILON)],
    }


def _said(curves: dict[str, list[tuple[float, float]]]) -> str:
    return "; ".join(f"longest by {name}: {listed(curve)}" for name, curve in curves.items())


def _within_lemma(data: Data) -> Finding:
    curves = _longest(data)
    holds = all(y <= DELTA + 3 * x for x, y in curves["epsilon"])
    return Finding(holds and all(y <= x + 3 * EPSILON for x, y in curves["delta"]), _said(curves))


def _within_ours(data: Data) -> Finding:
    curves = _longest(data)
    holds = all(y <= DELTA + 2 * x - 1 for x, y in curves["epsilon"])
    return Finding(holds and all(y <= x + 2 * EPSILON - 1 for x, y in curves["delta"]), _said(curves))


def _attained(data: Data) -> Finding:
    curve = _longest(data)["epsilon"]
    return Finding(any(y == DELTA + 2 * x - 1 for x, y in curve), _said({"epsilon": curve}))


def _less_with_epsilon(data: Data) -> Finding:
    curve = _longest(data)["epsilon"]
    return Finding(rises(curve), _said({"epsilon": curve}))


def _by_epsilon(data: Data) -> list[Line]:
    return [
        Line("δ + 3ε (K)", [(x, DELTA + 3 * x) for x in EPSILONS]),
        Line("δ + 2ε - 1 (ours)", [(x, DELTA + 2 * x - 1) for x in EPSILONS]),
    ]


def _by_delta(data: Data) -> list[Line]:
    return [
        Line("δ + 3ε (K)", [(x, x + 3 * EPSILON) for x in DELTAS]),
        Line("δ + 2ε - 1 (ours)", [(x, x + 2 * EPSILON - 1) for x in DELTAS]),
    ]


def plan(computations: int, seeds: int) -> Plan:
    """Return ε varied with δ fixed, and the other way round."""
    each = {"computations": [computations]}
    return Plan([*grid(epsilon=EPSILONS, delta=[DELTA], **each), *grid(epsilon=[EPSILON], delta=DELTAS, **each)], seeds)


FIGURE = Figure(
    name="merge-buffering",
    title="Time in a merger's buffer",
    source="K, Lemma 4.2",
    settings=(
        "Random computations of three processes and two mergers that keep ε and δ in either reading; a tenth of the "
        "messages is lost."
    ),
    measure=measure,
    quick=plan(50, 3),
    full=plan(500, 20),
    panels=(
        Panel(
            "a) longest, by ε (δ = 3)",
            "epsilon",
            "longest",
            "ε, ticks",
            "ticks",
            only={"delta": DELTA},
            most=True,
            stated=_by_epsilon,
        ),
        Panel(
            "b) longest, by δ (ε = 5)",
            "delta",
            "longest",
            "δ, ticks",
            "ticks",
            only={"epsilon": EPSILON},
            most=True,
            stated=_by_delta,
        ),
        Panel("c) mean, by δ (ε = 5)", "delta", "mean", "δ, ticks", "ticks", only={"epsilon": EPSILON}),
    ),
    checks=(
        Check(
            "A process buffers a message for at most δ + 3ε",
            "4.2, Lemma 4.2",
            "no message in any run waits longer",
            _within_lemma,
        ),
        Check(
            "The bound is not sharp: δ + 2ε - 1 suffices",
            "merge 5, E9",
            "no message in any run waits longer",
            _within_ours,
        ),
        Check(
            "A smaller ε reduces what must be buffered",
            "6",
            "the longest wait is shorter with every smaller ε",
            _less_with_epsilon,
        ),
        Check("The sharper bound is attained", "merge 5", "at some ε the longest wait is δ + 2ε - 1", _attained),
    ),
)
