"""LoCaMu, figure 5.2: LoCaMu, CBCAST and Causal Barriers with one group of all and more and more publishers.

Thesis, section 5.5.1, with what sections 5.2.2, 5.3 and 5.7 say of it. What it shares with figure 5.3 is in
tree_publishers.py.
"""

from collections.abc import Sequence
from itertools import pairwise

from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Plan
from whence_lab.figures.shapes import Points, falls, listed, rises
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
    THESIS_SIZE,
    WIDE,
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
    told,
)  # fmt: skip
from whence_lab.figures.tree_schemes import ABOUT, BARRIERS, CBCAST, LABELS, LOCAMU, MUCH, OURS, about_constant, said

FULL_WIRE = 0.99
"""A wire that carries something for this part of the time is full."""
SOME = 31
SMALLER = "wide, smaller trees"
"""A number of publishers that is kept while the tree varies, and the wires of these runs."""
FEW = 8
"""Not a lot of publishers is at most an eighth of the nodes."""


def _until_full(points: Points) -> bool:
    """Tell whether a curve rises until it is about at its maximum."""
    most = max(y for _, y in points)
    return all(after > before for (_, before), (_, after) in pairwise(points) if before < (1 - ABOUT) * most)


def _reaches_the_most(data: Data) -> Finding:
    seen = {wires: found(data, ONE, AGGREGATED, wires) for wires in BOTH}
    busy = last(found(data, ONE, "busiest", NARROW))
    holds = all(_until_full(points) for each in seen.values() for points in each.values())
    shares = ", ".join(f"{LABELS[scheme]} {100 * share:.1f} %" for scheme, share in busy.items())
    return Finding(
        holds and all(share >= FULL_WIRE for share in busy.values()),
        f"deliveries a second by publishers, {told(seen)}; the busiest narrow wire, all publishing: {shares}",
    )


def _barriers_high(data: Data) -> Finding:
    seen = {wires: found(data, ONE, METADATA, wires, (BARRIERS, LOCAMU)) for wires in BOTH}
    factors = [b / a for each in seen.values() for (_, b), (_, a) in zip(each[BARRIERS], each[LOCAMU], strict=True)]
    return Finding(min(factors) >= MUCH, f"from {min(factors):.3g} to {max(factors):.3g} times as much as LoCaMu's")


def _cbcast_by_size(data: Data) -> Finding:
    names = {"groups": ONE, "scheme": CBCAST, "publishers": SOME}
    smaller = data.means("nodes", METADATA, wires=SMALLER, **names)
    curve = smaller + data.means("nodes", METADATA, wires=WIDE, **names)
    return Finding(curve[-1][1] > smaller[0][1], f"bytes by nodes, {SOME} publishers: {listed(curve)}")


def _cbcast_grows(data: Data) -> Finding:
    seen = {wires: found(data, ONE, METADATA, wires, (CBCAST,)) for wires in BOTH}
    return Finding(all(rises(each[CBCAST]) for each in seen.values()), f"bytes by publishers, {told(seen)}")


def _cbcast_falls(data: Data) -> Finding:
    seen = found(data, ONE, AGGREGATED, NARROW, (CBCAST,))
    values = [y for _, y in seen[CBCAST]]
    after = seen[CBCAST][values.index(max(values)) :]
    return Finding(falls(after) and values[-1] < (1 - ABOUT) * max(values), said(seen))


def _root_limits(data: Data) -> Finding:
    root, busiest = (last(found(data, ONE, name, NARROW)) for name in ("root_busy", "busiest"))
    seen = ", ".join(f"{LABELS[s]}: root {100 * root[s]:.0f} %, busiest {100 * busiest[s]:.0f} %" for s in ALGORITHMS)
    return Finding(all(root[scheme] >= (1 - ABOUT) * busiest[scheme] for scheme in ALGORITHMS), seen)


def _locamu_keeps(data: Data) -> Finding:
    seen = {wires: found(data, ONE, AGGREGATED, wires, (LOCAMU,)) for wires in BOTH}
    values = [[y for _, y in each[LOCAMU]] for each in seen.values()]
    return Finding(
        all(each[-1] >= (1 - ABOUT) * max(each) for each in values), f"deliveries a second by publishers, {told(seen)}"
    )


def _locamu_flat(data: Data) -> Finding:
    seen = {wires: found(data, ONE, METADATA, wires, (LOCAMU,)) for wires in BOTH}
    return Finding(all(about_constant(each[LOCAMU]) for each in seen.values()), f"bytes by publishers, {told(seen)}")


def _cbcast_good(data: Data) -> Finding:
    seen = {wires: found(data, ONE, AGGREGATED, wires, (CBCAST, LOCAMU)) for wires in BOTH}
    nodes = max(data.values("nodes"))
    few = [
        (cbcast, locamu)
        for each in seen.values()
        for (x, cbcast), (_, locamu) in zip(each[CBCAST], each[LOCAMU], strict=True)
        if x * FEW <= nodes
    ]
    holds = len(few) > len(BOTH) and all(cbcast >= (1 - ABOUT) * locamu for cbcast, locamu in few)
    return Finding(holds, f"deliveries a second by publishers, {told(seen)}")


SCHEMES = (*ALGORITHMS, OURS)


def _smaller(sizes: Sequence[int], part: int) -> list[Config]:
    """Return runs of CBCAST on smaller trees with as many publishers and the same wide wires."""
    found = (planned(nodes, part, ONE, (CBCAST,), (SOME,)) for nodes in sizes)
    return [config | {"wires": SMALLER} for each in found for config in each if config["wires"] == WIDE]


FIGURE = Figure(
    name="tree-causal",
    title="The causal protocols with one group",
    source="LoCaMu, figure 5.2",
    settings=(
        "511 nodes in a binary tree, 100 Mb/s a node (wide wires) and 10 (narrow), links of 1 ms, payloads of 32 "
        "bytes, f = 1, one group of all; the number of publishers varies. " + COMMON_SETTINGS
        + "CBCAST runs on smaller trees too, of which only one sentence is judged. " + QUICK_SETTINGS
    ),
    measure=measure,
    quick=Plan(
        planned(QUICK_NODES, QUICK_PART, ONE, SCHEMES, (1, 15, SOME, 63, 127)) + _smaller((31, 63), QUICK_PART), 2
    ),
    full=Plan(planned(NODES, 1, ONE, SCHEMES, (1, SOME, 63, 127, 191, 255, 383, 511)) + _smaller((127, 255), 1), 3),
    panels=panels(ONE),
    checks=(
        Check(
            "As publishers are added, throughput continuously increases up to the maximum flow of the network",
            "5.5.1, a and c", "all protocols, both wires: it is higher with more publishers until it is within a tenth "
            "of its maximum; and with narrow wires, all publishing, some wire is busy for 99 % of the time",
            _reaches_the_most, size=THESIS_SIZE,
        ),
        Check(
            "Causal Barriers use a very high amount of metadata",
            "5.5.1, b and d", "both wires, any number of publishers: at least ten times LoCaMu's", _barriers_high,
            size=THESIS_SIZE,
        ),
        Check(
            "Causal Barriers always require more metadata than any of the others",
            "5.2.2; b and d", "both wires, any number of publishers: more than LoCaMu and than CBCAST",
            lambda data: barriers_most(ONE, data),
        ),
        Check(
            "CBCAST initially uses less metadata than the others, because its clocks are compressed",
            "5.5.1, b and d; 5.2.2", "both wires: with the fewest publishers less than LoCaMu and than Causal Barriers",
            lambda data: cbcast_first(ONE, data),
        ),
        Check(
            "With little concurrency CBCAST's messages are very small, and Causal Barriers' are large",
            "5.2.2; b and d", "both wires, with the fewest publishers: at least ten times CBCAST's metadata",
            lambda data: little_concurrency(ONE, data),
        ),
        Check(
            "As publishers are added, CBCAST's compression becomes less effective",
            "5.5.1, b and d; 5.7", "both wires: its metadata is larger with every larger number of publishers",
            _cbcast_grows,
        ),
        Check(
            "In a very large system CBCAST's compression is not efficient any more",
            "5.7", f"wide wires, {SOME} publishers: its metadata is larger in the largest tree than in the smallest",
            _cbcast_by_size,
        ),
        Check(
            "Eventually CBCAST requires more metadata than LoCaMu",
            "5.5.1, b and d; 5.2.2", "both wires: where all publish", lambda data: cbcast_outgrows(ONE, data),
        ),
        Check(
            "CBCAST's metadata lets its throughput decrease where the network is saturated",
            "5.5.1, c", "narrow wires: it falls from its maximum on, and by more than a tenth", _cbcast_falls,
            known="It falls by more, but not to the end. On full wires more of what is delivered is from near by where "
            "more publish (with 15, 63 and 127 of 127 nodes, 9, 42 and 57 % within three hops), and that takes fewer "
            "copies.",
        ),
        Check(
            "Protocols that use less metadata achieve a higher aggregated throughput",
            "5.3; c", "narrow wires, all publishing: less metadata, more deliveries",
            lambda data: less_is_faster(ONE, data), size=THESIS_SIZE,
        ),
        Check(
            "Differences in performance are mainly caused by the amount of metadata",
            "5.3; a and c", MAINLY, lambda data: mainly_metadata(ONE, data),
        ),
        Check(
            "Aggregated throughput is limited by the bandwidth of the root",
            "5.3; c", "all protocols, narrow wires, all publishing: the root's wire is busy for at least nine tenths "
            "of the time of the busiest", _root_limits,
            known="What comes from one of the root's two children the root sends to the other, once; every other inner "
            "node has three neighbours and sends every message twice.",
        ),
        Check(
            "LoCaMu's performance does not suffer from several nodes publishing",
            "5.7; a and c", "both wires: where all publish at least nine tenths of its maximum", _locamu_keeps,
        ),
        Check(
            "In LoCaMu only what is published and forwarded near a node affects it",
            "5.7; b and d", "both wires: its metadata differs by at most a tenth over all numbers of publishers",
            _locamu_flat,
            known="Where more publish in all, more publish near a node too, and a copy names what came from them since "
            "the last one on its link.",
        ),
        Check(
            "Causal Barriers severely underperform in large systems",
            "5.7, summary", "both wires, all publishing: at most a tenth of LoCaMu's deliveries",
            lambda data: barriers_slow(ONE, data), size=THESIS_SIZE,
        ),
        Check(
            "CBCAST performs well if not a lot of nodes publish and there are few groups",
            "5.7, summary", "both wires, at most an eighth of the nodes publishing: at least nine tenths of LoCaMu's "
            "deliveries", _cbcast_good,
        ),
        Check(
            "LoCaMu has good performance in every scenario",
            "5.7, summary", "both wires, all publishing: at least nine tenths of the deliveries of the best",
            lambda data: locamu_good(ONE, data),
        ),
        Check(
            "Headers that carry only what cannot be predicted, ours, leave more of the wire for messages",
            "locamu 7.3", f"smaller than {LABELS[LOCAMU]} with any number of publishers, and more deliveries over "
            "narrow wires where all publish", lambda data: ours_smaller(ONE, data),
        ),
    ),
    same_draw=SAME_DRAW,
)  # fmt: skip
