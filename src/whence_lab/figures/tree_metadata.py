"""LoCaMu, figure 5.4: the worst cases of headers and memory, and the largest that runs show.

Thesis, sections 5.2.3 and 5.6. 1,500 groups whose sizes fall as Zipf's law has it; every curve twice: by formula, and
from a run in which every node publishes to each of its groups.
"""

from collections.abc import Sequence
from math import log

from msgspec import structs

from whence.core.levels.causal.tree.topology import zipf_sizes
from whence_lab.experiments.tree_metadata import Sizes, Talk, barriers_worst, cbcast_worst, locamu_worst
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import Points, listed, straight
from whence_lab.figures.tree_schemes import BARRIERS, CBCAST, LABELS, LOCAMU, MUCH, OURS, about_constant

SCHEMES = (LOCAMU, CBCAST, BARRIERS)
"""Those of the thesis. Ours has no formula: it runs beside them."""
RUNNING = (*SCHEMES, OURS)
FORMULA, RUN = "formula", "run"
SPREAD, AT_ONCE = "spread", "all at once"
"""Paces of a run: 20,000 messages a second, or all in one moment."""
GROUPS = 1_500
NODES = 65_536
DEGREE, F = 3, 1
STATED_BYTES = 540
"""Of LoCaMu, "no matter the system size"."""
STATED_MEMBERS = 237_895
"""Of all groups together with 65,536 nodes."""
STATED_NODES = 1_024
"""Where the thesis states 2^20 entries, 8 MB, and 4 KB."""


def measure(config: Config, seed: int) -> dict[str, float]:
    """Compute the worst case, or run."""
    scheme, nodes, degree, f = config["scheme"], config["nodes"], config["degree"], config["f"]
    if config["how"] == RUN:
        talk = Talk(scheme=scheme, nodes=nodes, groups=GROUPS, degree=degree, f=f, each=config["each"])
        sizes = (structs.replace(talk, every_ns=0) if config["pace"] == AT_ONCE else talk).run(seed)
    else:
        sizes = worst(scheme, nodes, degree, f)
    counted = {"header": sizes.header, "members": float(sum(zipf_sizes(nodes, GROUPS)))}
    return counted if scheme == OURS else counted | {"memory": sizes.memory}


def worst(scheme: str, nodes: int, degree: int, f: int) -> Sizes:
    """Return the worst case of a protocol."""
    if scheme == LOCAMU:
        return locamu_worst(degree, f)
    if scheme == CBCAST:
        return cbcast_worst(sum(zipf_sizes(nodes, GROUPS)), degree)
    return barriers_worst(nodes)


def _named(scheme: str, how: str, pace: str = SPREAD) -> str:
    return f"{LABELS[scheme]}, {how}" + (f", {pace}" if pace != SPREAD else "")


def _curve(
    data: Data, scheme: str, how: str, panel: str, x: str, measured: str = "header", pace: str = SPREAD
) -> Points:
    return data.means(x, measured, curve=_named(scheme, how, pace), panel=panel)


def _power(points: Points) -> float:
    """Return the exponent p of the power law x^p that fits best."""
    return straight([(log(x), log(y)) for x, y in points]).slope


def _grows(scheme: str, least: float, most: float, data: Data) -> Finding:
    curve = _curve(data, scheme, FORMULA, "size", "nodes")
    power = _power(curve)
    return Finding(least <= power <= most, f"∝ N^{power:.2f}; bytes by nodes: {listed(curve)}")


def _grows_with_members(scheme: str, least: float, most: float, data: Data) -> Finding:
    """Judge the growth in runs along the members of all groups, for which formulas have entries."""
    sizes, members = (_curve(data, scheme, RUN, "size", "nodes", name) for name in ("header", "members"))
    curve = [(count, size) for (_, count), (_, size) in zip(members, sizes, strict=True)]
    power, along_nodes = _power(curve), _power(sizes)
    return Finding(
        least <= power <= most,
        f"∝ members^{power:.2f}, and N^{along_nodes:.2f}, as members ∝ N^{_power(members):.2f}; bytes by members: "
        f"{listed(curve)}",
    )


def _stated(data: Data) -> Finding:
    found = {
        "Causal Barriers": data.mean("header", scheme=BARRIERS, how=FORMULA, nodes=STATED_NODES),
        "CBCAST, one group": float(cbcast_worst(STATED_NODES, DEGREE).header),
        "LoCaMu": data.mean("header", scheme=LOCAMU, how=FORMULA, nodes=STATED_NODES, panel="size"),
    }
    stated = {"Causal Barriers": 8.0 * 2**20, "CBCAST, one group": 4.0 * 2**10, "LoCaMu": float(STATED_BYTES)}
    return Finding(found == stated, ", ".join(f"{name} {size:,.0f} B" for name, size in found.items()))


def _locamu_flat(data: Data) -> Finding:
    found = {how: _curve(data, LOCAMU, how, "size", "nodes") for how in (FORMULA, RUN)}
    whole = [(x, y) for x, y in found[RUN] if x >= WHOLE_NEIGHBOURHOOD]
    holds = about_constant(found[FORMULA]) and len(whole) > 1 and about_constant(whole)
    return Finding(holds, "; ".join(f"{how}: {listed(curve)}" for how, curve in found.items()))


WHOLE_NEIGHBOURHOOD = 63
"""Nodes from which on a binary tree has nodes with whole neighbourhoods of three hops, and so full headers."""


def _within(data: Data) -> Finding:
    curve = _curve(data, LOCAMU, RUN, "size", "nodes")
    return Finding(max(y for _, y in curve) <= STATED_BYTES, f"bytes in runs, by nodes: {listed(curve)}")


def _members(data: Data) -> Finding:
    found = data.mean("members", scheme=CBCAST, how=FORMULA, nodes=NODES, panel="size")
    return Finding(found == STATED_MEMBERS, f"the printed formula gives {found:,.0f}")


def _only_locamu(how: str, by: tuple[str, ...], data: Data, schemes: Sequence[str] = SCHEMES) -> Finding:
    found = {(scheme, x): _curve(data, scheme, how, x, x) for scheme in schemes for x in by}
    holds = all(
        (curve[-1][1] > curve[0][1]) if scheme == LOCAMU else about_constant(curve)
        for (scheme, _), curve in found.items()
    )
    return Finding(holds, "; ".join(f"{LABELS[s]} by {x}: {listed(curve)}" for (s, x), curve in found.items()))


def _barriers_by_degree(pace: str, data: Data) -> Finding:
    curve = _curve(data, BARRIERS, RUN, "degree", "degree", pace=pace)
    return Finding(about_constant(curve), f"bytes by degree: {listed(curve)}")


def _ours(data: Data) -> Finding:
    found = {(s, x): _curve(data, s, RUN, *x) for s in (OURS, LOCAMU) for x in VARIED}
    pairs = [zip(found[OURS, x], found[LOCAMU, x], strict=True) for x in VARIED]
    holds = all(ours < thesis for each in pairs for (_, ours), (_, thesis) in each)
    return Finding(holds, "; ".join(f"{LABELS[s]} by {x}: {listed(curve)}" for (s, (_, x)), curve in found.items()))


VARIED = (("size", "nodes"), ("f", "f"), ("degree", "degree"))
"""Panels, each with what varies in it."""


def _less_than_barriers(data: Data) -> Finding:
    seen, holds = [], True
    for panel, x in (("f", "f"), ("degree", "degree")):
        locamu, barriers = (_curve(data, scheme, FORMULA, panel, x)[-1] for scheme in (LOCAMU, BARRIERS))
        holds = holds and MUCH * locamu[1] <= barriers[1]
        seen.append(f"{x} = {locamu[0]:g}: {locamu[1]:,.0f} and {barriers[1]:,.0f} B")
    return Finding(holds, "; ".join(seen))


def _both_large(data: Data) -> Finding:
    found = {scheme: data.mean("header", scheme=scheme, how=FORMULA, panel="both") for scheme in SCHEMES}
    seen = ", ".join(f"{LABELS[scheme]} {size:,.0f} B" for scheme, size in found.items())
    return Finding(found[LOCAMU] > found[CBCAST], seen)


def _exponential(x: str, data: Data) -> Finding:
    curve = _curve(data, LOCAMU, FORMULA, x, x)
    exponential = straight([(at, log(y)) for at, y in curve]).r2
    power = straight([(log(at), log(y)) for at, y in curve]).r2
    return Finding(
        exponential > power,
        f"R² of an exponential law {exponential:.4f}, of a power law {power:.4f}; bytes: {listed(curve)}",
    )


def safe_neighbourhood(degree: int, f: int) -> int:
    """Return the nodes within 2f+1 hops of a node in a large tree."""
    nodes, at = 1, degree
    for _ in range(2 * f + 1):
        nodes, at = nodes + at, at * (degree - 1)
    return nodes


def _exponential_in_neighbourhood(data: Data) -> Finding:
    curve = [(safe_neighbourhood(DEGREE, int(f)), size) for f, size in _curve(data, LOCAMU, FORMULA, "f", "f")]
    exponential = straight([(nodes, log(size)) for nodes, size in curve]).r2
    power = straight([(log(nodes), log(size)) for nodes, size in curve])
    return Finding(
        exponential > power.r2,
        f"R² of an exponential law {exponential:.4f}, of the power {power.slope:.2f} {power.r2:.4f}; bytes by nodes of "
        f"the neighbourhood: {listed(curve)}",
    )


def _outscales(data: Data) -> Finding:
    last = {scheme: _curve(data, scheme, FORMULA, "size", "nodes", "memory")[-1][1] for scheme in SCHEMES}
    header = {scheme: _curve(data, scheme, FORMULA, "size", "nodes")[-1][1] for scheme in SCHEMES}
    holds = all(each[LOCAMU] < each[CBCAST] < each[BARRIERS] for each in (last, header))
    return Finding(holds, "; ".join(f"{LABELS[s]}: {header[s]:,.0f} B, keeps {last[s]:,.0f}" for s in SCHEMES))


def _memory_flat(data: Data) -> Finding:
    found = {how: _curve(data, LOCAMU, how, "size", "nodes", "memory") for how in (FORMULA, RUN)}
    whole = [(x, y) for x, y in found[RUN] if x >= WHOLE_NEIGHBOURHOOD]
    holds = about_constant(found[FORMULA]) and len(whole) > 1 and about_constant(whole)
    return Finding(holds, "; ".join(f"{how}: {listed(curve)}" for how, curve in found.items()))


def _plan(
    panel: str, how: str, schemes: tuple[str, ...] = SCHEMES, each: bool = True, pace: str = SPREAD, **varied: list[int]
) -> list[Config]:
    base = {"nodes": [NODES], "degree": [DEGREE], "f": [F]}
    found = grid(panel=[panel], how=[how], scheme=schemes, **base | varied)
    return [config | {"curve": _named(config["scheme"], how, pace), "each": each, "pace": pace} for config in found]


FORMULAS = [
    *_plan("size", FORMULA, nodes=[64, 256, 1_024, 4_096, 16_384, 65_536]),
    *_plan("f", FORMULA, f=[1, 2, 3, 4, 5]),
    *_plan("degree", FORMULA, degree=[3, 4, 5, 6, 8, 10, 16]),
    *_plan("both", FORMULA, f=[3], degree=[16]),
]
QUICK_RUN, FULL_RUN = 63, 255
QUICK = [
    *FORMULAS,
    *_plan("size", RUN, RUNNING, nodes=[31, 63, 127]),
    *_plan("f", RUN, RUNNING, nodes=[QUICK_RUN], f=[1, 2, 3]),
    *_plan("degree", RUN, RUNNING, nodes=[QUICK_RUN], degree=[3, 4, 6, 9]),
    *_plan("degree", RUN, (BARRIERS,), pace=AT_ONCE, nodes=[QUICK_RUN], degree=[3, 4, 6, 9]),
]
FULL = [
    *FORMULAS,
    *_plan("size", RUN, RUNNING, nodes=[31, 63, 127, 255, 511]),
    *_plan("size", RUN, (LOCAMU, OURS), each=False, nodes=[4_096, 16_384, 65_536]),
    *_plan("f", RUN, RUNNING, nodes=[FULL_RUN], f=[1, 2, 3]),
    *_plan("degree", RUN, RUNNING, nodes=[FULL_RUN], degree=[3, 4, 5, 6, 8, 10]),
    *_plan("degree", RUN, (BARRIERS,), pace=AT_ONCE, nodes=[FULL_RUN], degree=[3, 4, 5, 6, 8, 10]),
]


def _at_540(data: Data) -> list[Line]:
    nodes = data.values("nodes", panel="size")
    return [Line("540 B (thesis)", [(nodes[0], STATED_BYTES), (nodes[-1], STATED_BYTES)])]


def _panel(title: str, panel: str, x: str, y: str, x_label: str) -> Panel:
    return Panel(title, x, y, x_label, "bytes", "curve", str, {"panel": panel}, log_x=panel == "size", log_y=True)


FIGURE = Figure(
    name="tree-metadata",
    title="Metadata of the causal protocols",
    source="LoCaMu, figure 5.4",
    settings=(
        "65,536 nodes, degree 3 (the caption has 2), f = 1; 1,500 groups with ⌊N·g^-1.25 + 0.5⌋ members. One of nodes, "
        "f and degree varies. Formulas: LoCaMu section 11.4; the thesis prints only values. Chosen here: members of a "
        "group are spread over the tree by a fixed rule. A run: every node publishes once to each of its groups, "
        "20,000 messages a second in all, in an order that is drawn, the same for all protocols, f and degrees; "
        "counted is the largest header as it would be without compression (of ours the largest that is sent), and "
        "what the fullest node keeps, at 4 bytes a number. Runs have 31 to 127 nodes, and 63 where f or degree vary "
        "(full: up to 511, and 255); full runs of LoCaMu with up to 65,536 nodes have one message for each group."
    ),
    measure=measure,
    quick=Plan(QUICK, 3),
    full=Plan(FULL, 3),
    panels=(
        _panel("a) header, by system size", "size", "nodes", "header", "nodes")._replace(stated=_at_540),
        _panel("b) memory, by system size", "size", "nodes", "memory", "nodes"),
        _panel("c) header, by f", "f", "f", "header", "f"),
        _panel("d) header, by node degree", "degree", "degree", "header", "degree"),
    ),
    checks=(
        Check(
            "With 1,024 nodes Causal Barriers need 8 MB, CBCAST 4 KB for one group, LoCaMu 540 bytes",
            "5.6", "the formulas give exactly 2^20 entries of 8 bytes, 2^10 of 4, and 540 bytes", _stated,
        ),
        Check(
            "Causal Barriers' metadata is roughly quadratic in the system's size",
            "5.6, a", "formula: the power of N that fits best is within a tenth of 2",
            lambda data: _grows(BARRIERS, 1.8, 2.2, data),
        ),
        Check(
            "CBCAST's metadata is linear in the system's size",
            "5.6, a", "formula: the power of N that fits best is within a tenth of 1",
            lambda data: _grows(CBCAST, 0.9, 1.1, data),
        ),
        Check(
            "CBCAST's metadata is linear in the system's size and in the number of groups, in runs",
            "5.6, a", "runs: the power of the members of all groups that fits best is within a tenth of 1",
            lambda data: _grows_with_members(CBCAST, 0.9, 1.1, data),
        ),
        Check(
            "Causal Barriers' metadata grows faster than the system, in runs",
            "5.6, a", "runs: the power of the members of all groups that fits best is above 1, and at most quadratic",
            lambda data: _grows_with_members(BARRIERS, 1.0, 2.2, data),
        ),
        Check(
            "LoCaMu's metadata does not depend on the system's size",
            "5.6, a", f"by formula, and in runs from {WHOLE_NEIGHBOURHOOD} nodes on: it differs by at most a tenth",
            _locamu_flat,
        ),
        Check(
            "LoCaMu requires 540 bytes with degree 3 and f = 1",
            "5.6, a", "no header of a run would be larger, uncompressed", _within,
        ),
        Check(
            "The memory that LoCaMu needs does not depend on the system's size",
            "5.6, b", f"by formula, and in runs from {WHOLE_NEIGHBOURHOOD} nodes on: it differs by at most a tenth",
            _memory_flat,
        ),
        Check(
            "For a large enough system LoCaMu has the best results",
            "5.2.3; 5.6, a and b", "65,536 nodes, formulas: header and memory are smaller than CBCAST's, and those "
            "smaller than Causal Barriers'", _outscales,
        ),
        Check(
            "The members of all groups are 237,895",
            "5.6", "the printed distribution gives this sum for 65,536 nodes", _members,
            known="The sum of ⌊N·g^-1.25 + 0.5⌋ over 1,500 groups is 259,019 (locamu E25).",
        ),
        Check(
            "Only LoCaMu's metadata is affected by f and the node degree",
            "5.6, c and d", "formulas: LoCaMu's is larger at the largest than at the smallest, the others' differ by "
            "at most a tenth", lambda data: _only_locamu(FORMULA, ("f", "degree"), data),
        ),
        Check(
            "Only LoCaMu's metadata is affected by f, in runs",
            "5.6, c", "runs: LoCaMu's is larger at the largest than at the smallest, the others' differ by at most a "
            "tenth", lambda data: _only_locamu(RUN, ("f",), data),
        ),
        Check(
            "LoCaMu's metadata is affected by the node degree, CBCAST's is not, in runs",
            "5.6, d", "runs: LoCaMu's is larger at the largest than at the smallest, CBCAST's differs by at most a "
            "tenth", lambda data: _only_locamu(RUN, ("degree",), data, (LOCAMU, CBCAST)),
        ),
        Check(
            "Causal Barriers' metadata is not affected by the node degree, in runs",
            "5.6, d", "runs: it differs by at most a tenth", lambda data: _barriers_by_degree(SPREAD, data),
            known="In a run it depends on what a node has heard of before it publishes. The degree changes how long "
            "messages are under way, and with that what follows what.",
        ),
        Check(
            "Causal Barriers' metadata is not affected by the node degree, where nothing follows anything",
            "5.6, d", "runs in which all is published at once: it differs by at most a tenth",
            lambda data: _barriers_by_degree(AT_ONCE, data),
        ),
        Check(
            "Even with large f and degree LoCaMu needs much less than Causal Barriers",
            "5.6, c and d", "formulas, 65,536 nodes: at most a tenth at the largest of each", _less_than_barriers,
        ),
        Check(
            "For high f and breadth together LoCaMu's messages can be bigger than CBCAST's or Causal Barriers'",
            "5.2.3", "formulas, 65,536 nodes, f = 3 and degree 16, where a neighbourhood of f + 1 hops is just within "
            "the tree: larger than CBCAST's", _both_large,
        ),
        Check(
            "LoCaMu's metadata grows exponentially with the faults tolerated",
            "5.2.3; 5.6, c", "an exponential law explains more of the variance of its logarithm than a power law",
            lambda data: _exponential("f", data),
        ),
        Check(
            "LoCaMu's metadata grows exponentially with the breadth",
            "5.2.3; 5.6, d", "an exponential law explains more of the variance of its logarithm than a power law",
            lambda data: _exponential("degree", data),
            known="With f = 1 a ball of two hops has 1 + d² nodes: headers grow as d⁴, a power and no exponential.",
        ),
        Check(
            "LoCaMu's metadata is exponential in the size of the safe neighbourhood",
            "5.6", "over f an exponential law explains more of the variance of its logarithm than a power law",
            _exponential_in_neighbourhood,
            known="Headers name pairs of nodes within f+1 hops, about as many as there are nodes within 2f+1: they are "
            "proportional to its size. What grows exponentially is the neighbourhood, with f.",
        ),
        Check(
            "Headers that carry only what cannot be predicted, ours, are smaller",
            "locamu 7.3", f"runs: the largest that is sent is smaller than {LABELS[LOCAMU]} at every size, f and "
            "degree", _ours,
        ),
    ),
    same_draw=("panel", "how", "curve", "scheme", "f", "degree", "pace"),
)  # fmt: skip
