"""LoCaMu, figure 5.2: LoCaMu, CBCAST and Causal Barriers with one group of all and more and more publishers.

Thesis, section 5.5.1, with what sections 5.2.2, 5.3 and 5.7 say of it. What it shares with figure 5.3 is in
tree_publishers.py.
"""

from itertools import pairwise

from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Figure, Finding, Plan
from whence_lab.figures.shapes import Points, falls, rises
from whence_lab.figures.tree_publishers import (
    AGGREGATED,
    ALGORITHMS,
    BOTH,
    COMMON_SETTINGS,
    METADATA,
    NARROW,
    NODES,
    ONE,
    QUICK_NODES,
    QUICK_PART,
    QUICK_SETTINGS,
    SAME_DRAW,
    THESIS_SIZE,
    barriers_most,
    barriers_slow,
    cbcast_outgrows,
    found,
    last,
    locamu_good,
    measure,
    ours_smaller,
    panels,
    planned,
    told,
)  # fmt: skip
from whence_lab.figures.tree_schemes import ABOUT, BARRIERS, CBCAST, LABELS, LOCAMU, MUCH, OURS, about_constant, said

FULL_WIRE = 0.99
"""A wire that carries something for this part of the time is full."""
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


def _cbcast_first(data: Data) -> Finding:
    seen = {wires: found(data, ONE, METADATA, wires) for wires in BOTH}
    first = [{scheme: points[0][1] for scheme, points in each.items()} for each in seen.values()]
    holds = all(each[CBCAST] < each[scheme] for each in first for scheme in (LOCAMU, BARRIERS))
    return Finding(holds, "; ".join(f"{LABELS[s]} {first[0][s]:.3g} and {first[1][s]:.3g} B" for s in ALGORITHMS))


def _cbcast_grows(data: Data) -> Finding:
    seen = {wires: found(data, ONE, METADATA, wires, (CBCAST,)) for wires in BOTH}
    return Finding(all(rises(each[CBCAST]) for each in seen.values()), f"bytes by publishers, {told(seen)}")


def _cbcast_falls(data: Data) -> Finding:
    seen = found(data, ONE, AGGREGATED, NARROW, (CBCAST,))
    values = [y for _, y in seen[CBCAST]]
    after = seen[CBCAST][values.index(max(values)) :]
    return Finding(falls(after) and values[-1] < (1 - ABOUT) * max(values), said(seen))


def _less_is_faster(data: Data) -> Finding:
    carries, sizes = last(found(data, ONE, AGGREGATED, NARROW)), last(found(data, ONE, METADATA, NARROW))
    by_size = sorted(ALGORITHMS, key=lambda scheme: sizes[scheme])
    seen = ", ".join(f"{LABELS[scheme]}: {sizes[scheme]:,.0f} B, {carries[scheme]:,.0f} a second" for scheme in by_size)
    return Finding(all(carries[less] > carries[more] for less, more in pairwise(by_size)), seen)


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
    (nodes,) = data.values("nodes")
    few = [
        (cbcast, locamu)
        for each in seen.values()
        for (x, cbcast), (_, locamu) in zip(each[CBCAST], each[LOCAMU], strict=True)
        if x * FEW <= nodes
    ]
    holds = len(few) > len(BOTH) and all(cbcast >= (1 - ABOUT) * locamu for cbcast, locamu in few)
    return Finding(holds, f"deliveries a second by publishers, {told(seen)}")


SCHEMES = (*ALGORITHMS, OURS)

FIGURE = Figure(
    name="tree-causal",
    title="The causal protocols with one group",
    source="LoCaMu, figure 5.2",
    settings=(
        "511 nodes in a binary tree, 100 Mb/s a node (wide wires) and 10 (narrow), links of 1 ms, payloads of 32 "
        "bytes, f = 1, one group of all; the number of publishers varies. " + COMMON_SETTINGS + QUICK_SETTINGS
    ),
    measure=measure,
    quick=Plan(planned(QUICK_NODES, QUICK_PART, ONE, SCHEMES, (1, 15, 31, 63, 127)), 2),
    full=Plan(planned(NODES, 1, ONE, SCHEMES, (1, 31, 63, 127, 191, 255, 383, 511)), 3),
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
            _cbcast_first,
        ),
        Check(
            "As publishers are added, CBCAST's compression becomes less effective",
            "5.5.1, b and d; 5.7", "both wires: its metadata is larger with every larger number of publishers",
            _cbcast_grows,
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
            "5.3; c", "narrow wires, all publishing: less metadata, more deliveries", _less_is_faster,
            size=THESIS_SIZE,
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
