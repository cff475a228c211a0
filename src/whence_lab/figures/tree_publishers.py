"""What LoCaMu's figures 5.2 and 5.3 share: throughput and metadata of the causal protocols against their publishers.

Thesis, section 5.5. Each publisher publishes 100 messages a second, to one group of all or to the subtrees that it is
in, on wide and on narrow wires. Panels a and c of both figures show aggregated throughput, b and d average metadata.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise, product
from math import log

from whence.sim.scenario import MS
from whence_lab.experiments.tree_load import Load, Patience, Phase, carried
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Config, Finding, Panel, grid
from whence_lab.figures.shapes import Points
from whence_lab.figures.tree_schemes import (
    ABOUT,
    BARRIERS,
    CBCAST,
    LABELS,
    LOCAMU,
    MBPS,
    MUCH,
    OURS,
    SIMILAR,
    curves,
    label,
    said,
)  # fmt: skip

ALGORITHMS = (LOCAMU, CBCAST, BARRIERS)
"""Those of the thesis."""
ONE, SEVERAL = "all", "subtrees"
"""One group of all, or one of each subtree."""
WIDE, NARROW = "wide", "narrow"
BOTH = (WIDE, NARROW)
WIRES_MBPS = {WIDE: 100.0, NARROW: 10.0}
NODES, QUICK_NODES = 511, 127
THESIS_SIZE = {"nodes": NODES}
"""How far apart the protocols are is said of this size: metadata grow with the nodes, but not LoCaMu's."""
QUICK_PART = 4
"""Quick runs have a quarter of the nodes, so also of the bandwidth: wires fill with the same part of the nodes."""
RATE = 100.0
PATIENCE = Patience(Phase(100 * MS), Phase(100 * MS))
"""Ten messages of each publisher until wires and links are warm, and ten that count."""
SAME_DRAW = ("scheme", "wires", "mbps")
"""All protocols, on all wires, are given the same publishers, times and groups."""

PAYLOAD = 32

AGGREGATED, METADATA, WRITTEN = "aggregated", "metadata_bytes", "written_bytes"


def measure(config: Config, seed: int) -> dict[str, float]:
    """Let publishers keep to their rate, and count."""
    load = Load(
        scheme=config["scheme"], nodes=config["nodes"], groups=config["groups"], publishers=config["publishers"],
        rate=RATE, payload=PAYLOAD, bandwidth_bps=int(config["mbps"] * MBPS),
    )  # fmt: skip
    seen = carried(load, PATIENCE, seed)
    return {
        AGGREGATED: seen.aggregated, METADATA: seen.metadata_bytes, WRITTEN: seen.written_bytes,
        "published": seen.published, "root_busy": seen.root_busy, "busiest": seen.busiest,
    }  # fmt: skip


def planned(nodes: int, part: int, groups: str, schemes: Sequence[str], publishers: Sequence[int]) -> list[Config]:
    """Return the configurations of all protocols on wires with a part of the thesis's bandwidths."""
    found = grid(groups=[groups], scheme=schemes, nodes=[nodes], publishers=publishers, wires=BOTH)
    return [config | {"mbps": WIRES_MBPS[config["wires"]] / part} for config in found]


def panels(groups: str) -> tuple[Panel, ...]:
    """Return the panels a to d, and the bytes that copies really take here."""
    shown = (
        ("a) throughput, wide wires", WIDE, AGGREGATED, "deliveries a second"),
        ("b) metadata, wide wires", WIDE, METADATA, "bytes of a copy"),
        ("c) throughput, narrow wires", NARROW, AGGREGATED, "deliveries a second"),
        ("d) metadata, narrow wires", NARROW, METADATA, "bytes of a copy"),
        ("e) metadata, wide wires, as it is written here", WIDE, WRITTEN, "bytes of a copy"),
    )
    return tuple(
        Panel(title, "publishers", y, "publishers", y_label, "scheme", label, {"wires": wires, "groups": groups},
              log_y=y != AGGREGATED)
        for title, wires, y, y_label in shown
    )  # fmt: skip


# --- sentences that both figures are judged by ---


def found(data: Data, groups: str, measured: str, wires: str, schemes: Iterable[str] = ALGORITHMS) -> dict[str, Points]:
    """Return a measure of protocols against the publishers."""
    return curves(data, schemes, "publishers", measured, groups=groups, wires=wires)


def last(found: dict[str, Points]) -> dict[str, float]:
    """Return the value of each protocol where all nodes publish."""
    return {scheme: points[-1][1] for scheme, points in found.items()}


def told(seen: dict[str, dict[str, Points]]) -> str:
    """Return curves of both wires as text."""
    return "; ".join(f"{wires} wires: {said(curves)}" for wires, curves in seen.items())


def cbcast_first(groups: str, data: Data) -> Finding:
    """Judge whether CBCAST carries less than the others with the fewest publishers."""
    first = _first(groups, data)
    return Finding(all(each[CBCAST] < each[scheme] for each in first for scheme in (LOCAMU, BARRIERS)), _sizes(first))


def little_concurrency(groups: str, data: Data) -> Finding:
    """Judge whether CBCAST carries little and Causal Barriers much with the fewest publishers."""
    first = _first(groups, data)
    return Finding(all(MUCH * each[CBCAST] <= each[BARRIERS] for each in first), _sizes(first))


def _first(groups: str, data: Data) -> list[dict[str, float]]:
    """Return the metadata with the fewest publishers, on either wire."""
    seen = [found(data, groups, METADATA, wires) for wires in BOTH]
    return [{scheme: points[0][1] for scheme, points in each.items()} for each in seen]


def _sizes(first: list[dict[str, float]]) -> str:
    wide, narrow = first
    return "; ".join(f"{LABELS[scheme]} {wide[scheme]:.3g} and {narrow[scheme]:.3g} B" for scheme in wide)


def less_is_faster(groups: str, data: Data) -> Finding:
    """Judge whether protocols with less metadata deliver more over full wires."""
    carries, sizes = (last(found(data, groups, name, NARROW)) for name in (AGGREGATED, METADATA))
    by_size = sorted(ALGORITHMS, key=lambda scheme: sizes[scheme])
    seen = ", ".join(f"{LABELS[scheme]}: {sizes[scheme]:,.0f} B, {carries[scheme]:,.0f} a second" for scheme in by_size)
    return Finding(all(carries[less] > carries[more] for less, more in pairwise(by_size)), seen)


def mainly_metadata(groups: str, data: Data) -> Finding:
    """Judge whether the bytes of a copy explain more of how far apart deliveries are than they leave open."""
    seen, holds = [], True
    for wires, (one, other) in product(BOTH, combinations(ALGORITHMS, 2)):
        carries, sizes = (last(found(data, groups, name, wires)) for name in (AGGREGATED, METADATA))
        faster = carries[one] / carries[other]
        larger = (PAYLOAD + sizes[other]) / (PAYLOAD + sizes[one])
        if abs(log(faster)) > log(1 + ABOUT):
            holds = holds and abs(log(faster) - log(larger)) < abs(log(larger))
            seen.append(f"{wires} wires, {LABELS[one]} to {LABELS[other]}: {faster:.3g}, by bytes {larger:.3g}")
    return Finding(holds if seen else None, "; ".join(seen) or "deliveries are about the same")


def barriers_most(groups: str, data: Data) -> Finding:
    """Judge whether Causal Barriers always carry more than any other."""
    seen = {wires: found(data, groups, METADATA, wires) for wires in BOTH}
    holds = all(
        barriers > other
        for each, scheme in product(seen.values(), (LOCAMU, CBCAST))
        for (_, barriers), (_, other) in zip(each[BARRIERS], each[scheme], strict=True)
    )
    return Finding(holds, f"bytes by publishers, {told(seen)}")


def cbcast_outgrows(groups: str, data: Data) -> Finding:
    """Judge whether CBCAST carries more than LoCaMu where all publish."""
    seen = {wires: found(data, groups, METADATA, wires, (CBCAST, LOCAMU)) for wires in BOTH}
    return Finding(
        all(last(each)[CBCAST] > last(each)[LOCAMU] for each in seen.values()), f"bytes by publishers, {told(seen)}"
    )


def barriers_slow(groups: str, data: Data) -> Finding:
    """Judge whether Causal Barriers deliver at most a tenth of what LoCaMu does where all publish."""
    ends = {wires: last(found(data, groups, AGGREGATED, wires)) for wires in BOTH}
    return Finding(all(MUCH * each[BARRIERS] <= each[LOCAMU] for each in ends.values()), _ends(ends))


def locamu_good(groups: str, data: Data) -> Finding:
    """Judge whether LoCaMu delivers about as much as the best where all publish."""
    ends = {wires: last(found(data, groups, AGGREGATED, wires)) for wires in BOTH}
    return Finding(all(each[LOCAMU] >= (1 - ABOUT) * max(each.values()) for each in ends.values()), _ends(ends))


def ours_smaller(groups: str, data: Data) -> Finding:
    """Judge whether our headers are always smaller, and so carry more over wires that are full."""
    sizes = {wires: found(data, groups, METADATA, wires, (OURS, LOCAMU)) for wires in BOTH}
    carries = last(found(data, groups, AGGREGATED, NARROW, (OURS, LOCAMU)))
    holds = carries[OURS] > carries[LOCAMU] and all(
        ours < thesis
        for each in sizes.values()
        for (_, ours), (_, thesis) in zip(each[OURS], each[LOCAMU], strict=True)
    )
    return Finding(holds, f"{_ends({NARROW: carries})}; bytes by publishers, {told(sizes)}")


def _ends(ends: dict[str, dict[str, float]]) -> str:
    seen = (
        f"{wires} wires: " + ", ".join(f"{LABELS[scheme]} {value:,.0f}" for scheme, value in each.items())
        for wires, each in ends.items()
    )
    return "deliveries a second where all publish, " + "; ".join(seen)


MAINLY = (
    "all publishing, both wires, protocols whose deliveries differ by more than a tenth: what the bytes of a copy "
    "explain of the factor between them is more than what they leave"
)
TWICE = f"more than {SIMILAR:g} times"
COMMON_SETTINGS = (
    "Publishers are drawn (one is the root) and publish 100 messages a second each, whatever the wires carry: the "
    "thesis limits their throughput to that, so that all nodes send, and names no other limit. The limit on what is "
    "under way of figure 5.1, where one publisher is as fast as possible, is not applied: it would also limit how much "
    "is concurrent, and with that the metadata that is compared here. What wires cannot carry waits before them, so "
    "where they are full a longer run would have longer queues. Open in the thesis, chosen here: 100 ms are counted "
    "after 100 ms; bandwidth counts what a node sends; metadata is the mean of all copies, by the formulas of section "
    "4.3; a publisher's own deliveries do not count. All protocols are given the same publications. "
)
QUICK_SETTINGS = f"Quick: {QUICK_NODES} nodes with a quarter of the bandwidths. The thesis's axes are not in our copy."
