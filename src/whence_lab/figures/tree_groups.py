"""LoCaMu, figure 5.3: LoCaMu, CBCAST and Causal Barriers with a group for each subtree and more and more publishers.

Thesis, section 5.5.2, with what sections 5.2.2, 5.5 and 5.7 say of it. What it shares with figure 5.2 is in
tree_publishers.py; some of that figure's runs are repeated here, to compare several groups with one.
"""

from itertools import product

from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Figure, Finding, Plan
from whence_lab.figures.shapes import Points, listed, rises
from whence_lab.figures.tree_publishers import (
    AGGREGATED,
    ALGORITHMS,
    BOTH,
    COMMON_SETTINGS,
    MAINLY,
    METADATA,
    NARROW,
    NODES,
    ONE,
    QUICK_NODES,
    QUICK_PART,
    QUICK_SETTINGS,
    SAME_DRAW,
    SEVERAL,
    THESIS_SIZE,
    TWICE,
    barriers_most,
    barriers_slow,
    cbcast_first,
    cbcast_outgrows,
    found,
    last,
    less_is_faster,
    little_concurrency,
    locamu_good,
    mainly_metadata,
    measure,
    ours_smaller,
    panels,
    planned,
)  # fmt: skip
from whence_lab.figures.tree_schemes import ABOUT, BARRIERS, CBCAST, LABELS, LOCAMU, OURS, SIMILAR, said, similar


def _factors(data: Data, scheme: str, measured: str, wires: str) -> Points:
    """Return by publishers the factor between several groups and one, wherever both were run."""
    several = dict(found(data, SEVERAL, measured, wires, (scheme,))[scheme])
    return [(x, several[x] / y) for x, y in found(data, ONE, measured, wires, (scheme,))[scheme]]


def _compared(data: Data, schemes: tuple[str, ...], measured: str) -> dict[str, Points]:
    return {
        f"{LABELS[scheme]}, {wires} wires": _factors(data, scheme, measured, wires)
        for scheme, wires in product(schemes, BOTH)
    }


def _told(factors: dict[str, Points]) -> str:
    curves = "; ".join(f"{name}: {listed(points)}" for name, points in factors.items())
    return f"several groups to one, by publishers: {curves}"


def _alike(schemes: tuple[str, ...], measured: str, data: Data) -> Finding:
    factors = _compared(data, schemes, measured)
    return Finding(all(similar(y, 1.0) for points in factors.values() for _, y in points), _told(factors))


def _cbcast_changes(data: Data) -> Finding:
    factors = _compared(data, (CBCAST,), METADATA)
    return Finding(all(abs(y - 1) > ABOUT for points in factors.values() for _, y in points), _told(factors))


def _cbcast_worse(data: Data) -> Finding:
    factors = _compared(data, (CBCAST,), METADATA)
    return Finding(all(points[-1][1] > SIMILAR for points in factors.values()), _told(factors))


def _cbcast_affected(data: Data) -> Finding:
    seen = found(data, SEVERAL, AGGREGATED, NARROW, (CBCAST, LOCAMU))
    return Finding(last(seen)[CBCAST] * SIMILAR < last(seen)[LOCAMU], said(seen))


def _locamu_increases(data: Data) -> Finding:
    seen = found(data, SEVERAL, AGGREGATED, NARROW, (LOCAMU,))
    return Finding(rises(seen[LOCAMU]), said(seen))


SCHEMES = (*ALGORITHMS, OURS)

FIGURE = Figure(
    name="tree-groups",
    title="The causal protocols with a group for each subtree",
    source="LoCaMu, figure 5.3",
    settings=(
        "511 nodes in a binary tree, 100 Mb/s a node (wide wires) and 10 (narrow), links of 1 ms, payloads of 32 "
        "bytes, f = 1, 255 groups: an inner node and all below it, so the smallest have three members (the thesis says "
        "two); the number of publishers varies, and each message goes to a group drawn from those its publisher is in. "
        "Some runs with one group, to compare. " + COMMON_SETTINGS + QUICK_SETTINGS
    ),
    measure=measure,
    quick=Plan(
        planned(QUICK_NODES, QUICK_PART, SEVERAL, SCHEMES, (1, 15, 31, 63, 127))
        + planned(QUICK_NODES, QUICK_PART, ONE, ALGORITHMS, (15, 127)), 2,
    ),
    full=Plan(
        planned(NODES, 1, SEVERAL, SCHEMES, (1, 31, 63, 127, 191, 255, 383, 511))
        + planned(NODES, 1, ONE, ALGORITHMS, (63, 511)), 3,
    ),
    panels=panels(SEVERAL),
    checks=(
        Check(
            "LoCaMu's average metadata is similar with one group and with several",
            "5.5.2, b and d; 5.5", "both wires, with few and with all publishing: they differ by at most a factor of "
            "two", lambda data: _alike((LOCAMU,), METADATA, data),
        ),
        Check(
            "Causal Barriers' average metadata is similar with one group and with several",
            "5.5.2, b and d; 5.5", "both wires, with few and with all publishing: they differ by at most a factor of "
            "two", lambda data: _alike((BARRIERS,), METADATA, data),
        ),
        Check(
            "So these two perform with several groups as with one",
            "5.5.2, a and c", "both wires, with few and with all publishing: deliveries differ by at most a factor of "
            "two", lambda data: _alike((LOCAMU, BARRIERS), AGGREGATED, data),
            known="Until wires are full, 100 messages a second of a publisher are as many deliveries as they have "
            "destinations, and a subtree has fewer than the tree: of 511 nodes a drawn publisher's groups have 138 "
            "members on average, of 127 nodes 46.",
        ),
        Check(
            "CBCAST's metadata changes with the number of groups",
            "5.5", "both wires, with few and with all publishing: several groups and one differ by more than a tenth",
            _cbcast_changes,
        ),
        Check(
            "CBCAST scales much worse with several groups, because messages carry several vector clocks",
            "5.5.2, b and d", f"both wires, all publishing: {TWICE} the metadata of one group", _cbcast_worse,
            size=THESIS_SIZE,
        ),
        Check(
            "With little concurrency CBCAST requires less metadata than the others",
            "5.2.2; b and d", "both wires: with the fewest publishers less than LoCaMu and than Causal Barriers",
            lambda data: cbcast_first(SEVERAL, data),
        ),
        Check(
            "With little concurrency CBCAST's messages are very small, and Causal Barriers' are large",
            "5.2.2; b and d", "both wires, with the fewest publishers: at least ten times CBCAST's metadata",
            lambda data: little_concurrency(SEVERAL, data),
        ),
        Check(
            "With many publishers and several groups CBCAST requires more metadata than LoCaMu",
            "5.7; 5.2.2; b and d", "both wires: where all publish", lambda data: cbcast_outgrows(SEVERAL, data),
        ),
        Check(
            "Causal Barriers always require more metadata than any of the others",
            "5.2.2; b and d", "both wires, any number of publishers: more than LoCaMu and than CBCAST",
            lambda data: barriers_most(SEVERAL, data),
        ),
        Check(
            "With many publishers and several groups CBCAST's throughput is very affected",
            "5.7; c", "narrow wires, all publishing: less than half of LoCaMu's", _cbcast_affected,
            size=THESIS_SIZE,
        ),
        Check(
            "LoCaMu's throughput continuously increases",
            "5.7; c", "narrow wires: it is higher with every larger number of publishers", _locamu_increases,
        ),
        Check(
            "Protocols that use less metadata achieve a higher aggregated throughput",
            "5.3; c", "narrow wires, all publishing: less metadata, more deliveries",
            lambda data: less_is_faster(SEVERAL, data),
        ),
        Check(
            "Differences in performance are mainly caused by the amount of metadata",
            "5.3; a and c", MAINLY, lambda data: mainly_metadata(SEVERAL, data),
        ),
        Check(
            "Causal Barriers severely underperform in large systems",
            "5.7, summary", "both wires, all publishing: at most a tenth of LoCaMu's deliveries",
            lambda data: barriers_slow(SEVERAL, data), size=THESIS_SIZE,
        ),
        Check(
            "LoCaMu has good performance in every scenario",
            "5.7, summary", "both wires, all publishing: at least nine tenths of the deliveries of the best",
            lambda data: locamu_good(SEVERAL, data),
        ),
        Check(
            "Headers that carry only what cannot be predicted, ours, leave more of the wire for messages",
            "locamu 7.3", f"smaller than {LABELS[LOCAMU]} with any number of publishers, and more deliveries over "
            "narrow wires where all publish", lambda data: ours_smaller(SEVERAL, data),
        ),
    ),
    same_draw=SAME_DRAW,
)  # fmt: skip
