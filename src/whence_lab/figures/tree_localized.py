"""LoCaMu, figure 5.1: LoCaMu beside Delta-Neighbourhood, the other localized protocol, under different settings.

Thesis, sections 5.3 and 5.4. One group of all; one publisher, the root, as fast as its wire lets it, except where the
number of publishers varies. What varies is called the panel.
"""

import itertools

from whence.sim.scenario import MS
from whence_lab.experiments.tree_load import Load, Patience, Phase, carried
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import Points, falls, listed, rises, straight
from whence_lab.figures.tree_schemes import (
    ABOUT,
    BARRIERS,
    CBCAST,
    LABELS,
    LOCAMU,
    MBPS,
    MUCH,
    NEIGHBOURHOOD,
    OURS,
    SIMILAR,
    about_constant,
    curves,
    label,
    said,
    similar,
)  # fmt: skip

BOTH = (LOCAMU, NEIGHBOURHOOD)
CAUSAL = (LOCAMU, CBCAST, BARRIERS)

TOGETHER = Patience(Phase(40 * MS, each=20, rounds=3), Phase(100 * MS, each=50))
"""Several: long enough for some messages of each, also where each waits for the last to be acknowledged."""

FULL_HEADER_BYTES = 232
"""Of a copy inside a large binary tree, f = 1, one publisher (LoCaMu section 11.3)."""
PAYLOAD = 32
WHOLE_NEIGHBOURHOOD = 31
"""Nodes from which on a binary tree has links with headers of full size; smaller trees have smaller ones."""


def _alone(link_ms: float) -> Patience:
    """Return how long one publisher is watched: a message crosses the tree in some links' time, and all are alike."""
    links = int(max(1, link_ms) * MS)
    return Patience(Phase(10 * links, each=20), Phase(5 * links, each=50))


def measure(config: Config, seed: int) -> dict[str, float]:
    """Fill the wires."""
    load = Load(
        scheme=config["scheme"], nodes=config["nodes"], bandwidth_bps=int(config["mbps"] * MBPS),
        publishers=config.get("publishers", 1), payload=config.get("payload", PAYLOAD), f=config.get("f", 1),
        degree=config.get("degree", 3), link_ns=int(config.get("latency_ms", 1) * MS),
    )  # fmt: skip
    seen = carried(load, _alone(load.link_ns / MS) if load.publishers == 1 else TOGETHER, seed)
    return {
        "individual": seen.everywhere, "aggregated": seen.aggregated, "metadata_bytes": seen.metadata_bytes,
        "written_bytes": seen.written_bytes,
    }  # fmt: skip


def capacity(mbps: float, nodes: int) -> float:
    """Return the deliveries a second that a large binary tree can carry: inner nodes send every message twice."""
    return mbps * MBPS / 8 / (2 * (PAYLOAD + FULL_HEADER_BYTES)) * (nodes - 1)


VARIED = {
    "size": "nodes", "publishers": "publishers", "bandwidth": "mbps", "payload": "payload", "f": "f",
    "degree": "degree", "latency": "latency_ms", "wide": "mbps",
}  # fmt: skip
"""What varies, by panel. `wide` is with every node publishing."""
TOGETHER_IN = ("publishers", "wide")


def _individual(data: Data, panel: str) -> dict[str, Points]:
    return curves(data, BOTH, VARIED[panel], "individual", panel=panel)


def _aggregated(data: Data) -> dict[str, Points]:
    return curves(data, BOTH, "publishers", "aggregated", panel="publishers")


def _size_near(data: Data) -> Finding:
    found = _individual(data, "size")
    return Finding(falls(found[NEIGHBOURHOOD]), said({NEIGHBOURHOOD: found[NEIGHBOURHOOD]}))


def _size_locamu(data: Data) -> Finding:
    found = _individual(data, "size")
    large = [(x, y) for x, y in found[LOCAMU] if x >= WHOLE_NEIGHBOURHOOD]
    return Finding(len(large) > 1 and about_constant(large), said({LOCAMU: found[LOCAMU]}))


def _capacity_alone(data: Data) -> Finding:
    (mbps,), (nodes,) = data.values("mbps", panel="publishers"), data.values("nodes", panel="publishers")
    alone = data.mean("aggregated", panel="publishers", scheme=LOCAMU, publishers=1)
    most = capacity(mbps, nodes)
    return Finding(alone >= (1 - ABOUT) * most, f"{alone:,.0f} deliveries a second, of {most:,.0f}")


def _near_linear(data: Data) -> Finding:
    curve = _aggregated(data)[NEIGHBOURHOOD]
    fit = straight(curve)
    return Finding(
        fit.slope > 0 and fit.r2 >= 0.99,
        f"{fit.slope:,.0f} more deliveries a second with each publisher, R² {fit.r2:.4f}",
    )


def _near_overtakes(data: Data) -> Finding:
    found = _aggregated(data)
    return Finding(
        found[NEIGHBOURHOOD][0][1] < found[LOCAMU][0][1] and found[NEIGHBOURHOOD][-1][1] > found[LOCAMU][-1][1],
        said(found),
    )


def _near_much_more(data: Data) -> Finding:
    found = _aggregated(data)
    return Finding(found[NEIGHBOURHOOD][-1][1] > SIMILAR * found[LOCAMU][-1][1], said(found))


def _saturates(points: Points) -> float:
    """Return with how few publishers a curve is about at its maximum."""
    most = max(y for _, y in points)
    return min(x for x, y in points if y >= (1 - ABOUT) * most)


def _saturates_first(data: Data) -> Finding:
    need = {scheme: _saturates(points) for scheme, points in _aggregated(data).items()}
    seen = ", ".join(f"{LABELS[scheme]} with {count:g} publishers" for scheme, count in need.items())
    return Finding(MUCH * need[LOCAMU] <= need[NEIGHBOURHOOD], f"about the most: {seen}")


def _faster_alone(data: Data) -> Finding:
    found = {s: data.mean("individual", panel="payload", scheme=s, payload=PAYLOAD) for s in BOTH}
    seen = ", ".join(f"{LABELS[scheme]} {rate:,.0f} a second" for scheme, rate in found.items())
    return Finding(found[LOCAMU] >= MUCH * found[NEIGHBOURHOOD], seen)


def _near_small(data: Data) -> Finding:
    found = curves(data, BOTH, "publishers", "metadata_bytes", panel="publishers")
    pairs = zip(found[LOCAMU], found[NEIGHBOURHOOD], strict=True)
    return Finding(all(near * SIMILAR < locamu for (_, locamu), (_, near) in pairs), said(found))


def _bandwidth_near(data: Data) -> Finding:
    curve = _individual(data, "bandwidth")[NEIGHBOURHOOD]
    return Finding(about_constant(curve), said({NEIGHBOURHOOD: curve}))


def _bandwidth_locamu(data: Data) -> Finding:
    curve = _individual(data, "bandwidth")[LOCAMU]
    return Finding(about_constant([(x, y / x) for x, y in curve]), said({LOCAMU: curve}))


def _ratios(data: Data, panel: str) -> Points:
    found = _individual(data, panel)
    return [(x, one / other) for (x, one), (_, other) in zip(found[LOCAMU], found[NEIGHBOURHOOD], strict=True)]


def _payload_nearer(data: Data) -> Finding:
    ratios = _ratios(data, "payload")
    return Finding(falls(ratios), f"LoCaMu is faster by a factor of, by payload: {listed(ratios)}")


def _payload_similar(data: Data) -> Finding:
    ratios = _ratios(data, "payload")
    return Finding(similar(ratios[-1][1], 1.0), f"LoCaMu is faster by a factor of, by payload: {listed(ratios)}")


def _f_locamu(data: Data) -> Finding:
    curve = _individual(data, "f")[LOCAMU]
    return Finding(falls(curve) and curve[-1][1] * SIMILAR < curve[0][1], said({LOCAMU: curve}))


def _degree_locamu(data: Data) -> Finding:
    curve = _individual(data, "degree")[LOCAMU]
    return Finding(falls(curve), said({LOCAMU: curve}))


def _degree_near(data: Data) -> Finding:
    curve = _individual(data, "degree")[NEIGHBOURHOOD]
    never = all(after >= before for (_, before), (_, after) in itertools.pairwise(curve))
    return Finding(never and curve[-1][1] > curve[0][1], said({NEIGHBOURHOOD: curve}))


def _latency(data: Data) -> Finding:
    found = curves(data, (*CAUSAL, NEIGHBOURHOOD), "latency_ms", "individual", panel="latency")
    holds = all(about_constant(found[scheme]) for scheme in CAUSAL) and falls(found[NEIGHBOURHOOD])
    return Finding(holds, said(found))


def _wide(data: Data) -> Finding:
    found = curves(data, BOTH, "mbps", "aggregated", panel="wide")
    return Finding(found[LOCAMU][-1][1] > found[NEIGHBOURHOOD][-1][1], said(found))


def _suffers_more(data: Data) -> Finding:
    lost = {
        (panel, scheme): points[0][1] / points[-1][1]
        for panel in ("f", "degree")
        for scheme, points in _individual(data, panel).items()
    }
    holds = all(lost[panel, LOCAMU] >= SIMILAR * lost[panel, NEIGHBOURHOOD] for panel in ("f", "degree"))
    seen = ", ".join(f"{LABELS[scheme]} by {panel}: {factor:.3g}" for (panel, scheme), factor in lost.items())
    return Finding(holds, f"throughput at the smallest for that at the largest: {seen}")


def _breadth(data: Data) -> Finding:
    found = curves(data, BOTH, "degree", "metadata_bytes", panel="degree")
    return Finding(about_constant(found[NEIGHBOURHOOD]) and rises(found[LOCAMU]), said(found))


def _idle(data: Data) -> Finding:
    (nodes,), (mbps,) = data.values("nodes", panel="payload"), data.values("mbps", panel="payload")
    names = {"panel": "payload", "scheme": NEIGHBOURHOOD, "payload": PAYLOAD}
    each = PAYLOAD + data.mean("metadata_bytes", **names)
    part = data.mean("individual", **names) * 2 * each * 8 / (mbps * MBPS)
    return Finding(part <= ABOUT, f"{nodes:g} nodes: {part:.2%} of the root's wire")


def _better_alone(data: Data) -> Finding:
    ratios = {panel: _ratios(data, panel) for panel in VARIED if panel not in TOGETHER_IN}
    least = {panel: min(y for _, y in points) for panel, points in ratios.items()}
    seen = ", ".join(f"{panel} {factor:.3g}" for panel, factor in least.items())
    return Finding(all(factor > 1 for factor in least.values()), f"the least factor by which LoCaMu is faster: {seen}")


def _ours(data: Data) -> Finding:
    found = curves(data, (OURS, LOCAMU), "nodes", "individual", panel="size")
    pairs = zip(found[OURS], found[LOCAMU], strict=False)
    return Finding(all(ours > thesis for (_, ours), (_, thesis) in pairs), said(found))


def _capacity_line(data: Data) -> list[Line]:
    (mbps,), (nodes,) = data.values("mbps", panel="publishers"), data.values("nodes", panel="publishers")
    ends = data.values("publishers", panel="publishers")
    most = capacity(mbps, nodes)
    return [Line("capacity with its headers (11.3)", [(ends[0], most), (ends[-1], most)])]


def _proportional(data: Data) -> list[Line]:
    curve = _individual(data, "bandwidth")[LOCAMU]
    return [Line("∝ bandwidth", [(x, curve[0][1] * x / curve[0][0]) for x, _ in curve])]


def _plan(nodes: int, panels: dict[str, dict[str, list[float]]], without_ours: tuple[str, ...]) -> list[Config]:
    """Return the configurations of all panels: per panel what varies, and what is not as the base."""
    base: dict[str, list[float]] = {"nodes": [nodes], "mbps": [100]}
    schemes: dict[str, tuple[str, ...]] = {panel: BOTH if panel in without_ours else (*BOTH, OURS) for panel in panels}
    schemes["latency"] = (*CAUSAL, NEIGHBOURHOOD)
    return [
        config
        for panel, varied in panels.items()
        for config in grid(panel=[panel], scheme=schemes[panel], **base | varied)
    ]


QUICK = _plan(63, {
    "size": {"nodes": [7, 15, 31, 63, 127]},
    "publishers": {"publishers": [1, 16, 32, 63], "mbps": [12.5]},
    "bandwidth": {"mbps": [10, 25, 50, 100]},
    "payload": {"payload": [32, 512, 2048, 8192, 32768]},
    "f": {"f": [1, 2, 3]},
    "degree": {"degree": [3, 4, 6, 9]},
    "latency": {"latency_ms": [0.5, 1, 2, 4]},
    "wide": {"publishers": [63], "mbps": [12.5, 25, 50, 100]},
}, without_ours=("f", "wide"))  # fmt: skip
FULL = _plan(511, {
    "size": {"nodes": [7, 15, 31, 63, 127, 255, 511, 1023]},
    "publishers": {"publishers": [1, 32, 64, 128, 192, 256, 320, 384, 448, 511]},
    "bandwidth": {"mbps": [10, 25, 50, 100, 250, 500, 1000]},
    "payload": {"payload": [32, 128, 512, 2048, 8192, 32768]},
    "f": {"f": [1, 2, 3]},
    "degree": {"degree": [3, 4, 5, 6, 8, 10]},
    "latency": {"latency_ms": [0.5, 1, 2, 4, 8]},
    "wide": {"publishers": [511], "mbps": [25, 50, 100, 200]},
}, without_ours=("wide",))  # fmt: skip


def _panel(title: str, panel: str, y: str, x_label: str, y_label: str, **more: object) -> Panel:
    shown = Panel(title, VARIED[panel], y, x_label, y_label, "scheme", label, {"panel": panel})
    return shown._replace(**more)  # type: ignore[arg-type]


PER_SECOND = "messages a second"

FIGURE = Figure(
    name="tree-localized",
    title="LoCaMu and Delta-Neighbourhood",
    source="LoCaMu, figure 5.1",
    settings=(
        "511 nodes in a binary tree, 100 Mb/s a node, links of 1 ms, payloads of 32 bytes, f = 1, one group of all, "
        "one publisher as fast as possible; one of these varies. Open in the thesis, chosen here: bandwidth counts "
        "what a node sends, acknowledgements cost nothing, one publisher is the root and several are drawn; they "
        "publish when their wire is free, and keep as much under way as fills the wires. Throughput of one publisher "
        "is what the slowest member delivers; aggregated are deliveries of all but the publisher's own. The last two "
        "panels are of sentences without a figure. Quick: 63 nodes; panel b with an eighth of the bandwidth too, and e "
        "and the last two without our headers. The thesis's axes are not in our copy."
    ),
    measure=measure,
    quick=Plan(QUICK, 1),
    full=Plan(FULL, 3),
    panels=(
        _panel("a) system size", "size", "individual", "nodes", PER_SECOND, log_x=True, log_y=True),
        _panel("b) publishers", "publishers", "aggregated", "publishers", "deliveries a second", stated=_capacity_line),
        _panel(
            "c) bandwidth", "bandwidth", "individual", "Mb/s", PER_SECOND, log_x=True, log_y=True, stated=_proportional,
        ),
        _panel("d) payload", "payload", "individual", "bytes", PER_SECOND, log_x=True, log_y=True),
        _panel("e) faults tolerated", "f", "individual", "f", PER_SECOND, log_y=True),
        _panel("f) node degree", "degree", "individual", "degree", PER_SECOND, log_y=True),
        _panel("g) latency of links (5.3)", "latency", "individual", "ms", PER_SECOND, log_x=True, log_y=True),
        _panel("h) all publish (5.2.1)", "wide", "aggregated", "Mb/s", "deliveries a second", log_x=True, log_y=True),
    ),
    checks=(
        Check(
            "Delta-Neighbourhood does not pipeline, so its throughput scales poorly with the system's size",
            "5.4, a", "it is lower at every larger size", _size_near,
        ),
        Check(
            "LoCaMu has no such drawback",
            "5.4, a", f"from {WHOLE_NEIGHBOURHOOD} nodes on, where headers have their full size, it differs by at most "
            "a tenth", _size_locamu,
        ),
        Check(
            "LoCaMu approximates the maximum network capacity even with a single publisher",
            "5.4, b", "with one publisher at least nine tenths of what wires carry of messages with full headers",
            _capacity_alone,
        ),
        Check(
            "A single publisher has a much higher throughput in LoCaMu than in Delta-Neighbourhood",
            "5.2.1; 5.7", "base settings: at least ten times", _faster_alone,
        ),
        Check(
            "Delta-Neighbourhood uses much less metadata",
            "5.2.1; 5.4 and 5.7, b", "less than half of LoCaMu's with any number of publishers", _near_small,
        ),
        Check(
            "Delta-Neighbourhood's aggregated throughput grows linearly with the number of publishers",
            "5.4, b", "a rising straight line explains 99 % of the variance", _near_linear,
        ),
        Check(
            "Bandwidth is saturated much more quickly in LoCaMu",
            "5.2.1; b", "aggregated throughput is within a tenth of its maximum with at most a tenth of the publishers "
            "that Delta-Neighbourhood takes", _saturates_first,
        ),
        Check(
            "It is lower with a single publisher, and eventually overcomes LoCaMu's",
            "5.2.1; 5.4 and 5.7, b", "it is below LoCaMu's with one publisher, and above it with as many as there are "
            "nodes", _near_overtakes,
        ),
        Check(
            "Because of its metadata Delta-Neighbourhood supports a much higher aggregated throughput",
            "5.4, b", "with as many publishers as there are nodes it is more than twice LoCaMu's", _near_much_more,
        ),
        Check(
            "Delta-Neighbourhood cannot benefit from more bandwidth, because end-to-end latency is its limit",
            "5.4, c", "over all bandwidths it differs by at most a tenth", _bandwidth_near,
        ),
        Check(
            "In LoCaMu a single publisher can fully exploit the bandwidth",
            "5.4, c", "throughput per Mb/s differs by at most a tenth over all bandwidths", _bandwidth_locamu,
        ),
        Check(
            "As payloads grow, the two begin to behave alike",
            "5.4, d", "the factor between them is smaller with every larger payload", _payload_nearer,
        ),
        Check(
            "With large payloads both behave similarly",
            "5.4, d", "with the largest payload they differ by at most a factor of two", _payload_similar,
            known="Without pipelining a message has the wires to itself, level after level; however large payloads "
            "are, a factor as large as the tree is deep remains.",
        ),
        Check(
            "LoCaMu's performance drops notably for large f",
            "5.4, e", "it is lower with every larger f, and at the largest less than half", _f_locamu,
        ),
        Check(
            "LoCaMu suffers from a larger node degree",
            "5.4, f", "it is lower with every larger degree", _degree_locamu,
        ),
        Check(
            "Delta-Neighbourhood improves with the degree, because the diameter shrinks",
            "5.4, f", "it is never lower with a larger degree, and higher at the largest than at the smallest",
            _degree_near,
        ),
        Check(
            "The latency of links affects only Delta-Neighbourhood's throughput, not LoCaMu's, CBCAST's or Causal "
            "Barriers'",
            "5.3", "over all latencies theirs differ by at most a tenth each, and Delta-Neighbourhood's is lower with "
            "every larger one", _latency,
        ),
        Check(
            "If bandwidth is sufficiently big, LoCaMu's throughput is superior with many publishers too",
            "5.2.1; 5.7", "with every node publishing and the most bandwidth it is above Delta-Neighbourhood's", _wide,
        ),
        Check(
            "With larger f and breadth LoCaMu's throughput suffers much more than Delta-Neighbourhood's",
            "5.2.1; e and f", "both: from the smallest to the largest it falls by at least twice the factor",
            _suffers_more,
        ),
        Check(
            "The breadth of the tree has no impact on Delta-Neighbourhood's metadata, and has on LoCaMu's",
            "5.2.1; f", "over all degrees the former differs by at most a tenth, and the latter is larger with every "
            "larger one", _breadth,
        ),
        Check(
            "Without pipelining nodes cannot use the bandwidth effectively",
            "5.3; 5.4", "base settings: one publisher of Delta-Neighbourhood fills at most a tenth of the root's wire",
            _idle,
        ),
        Check(
            "LoCaMu is better in every scenario but that of many concurrent publishers",
            "5.7, summary", "its single publisher is faster in all panels with one", _better_alone,
        ),
        Check(
            "Headers that carry only what cannot be predicted, ours, leave more of the wire for messages",
            "locamu 7.3", f"a single publisher is faster than in {LABELS[LOCAMU]} at every size", _ours,
        ),
    ),
    same_draw=("scheme",),
)  # fmt: skip
