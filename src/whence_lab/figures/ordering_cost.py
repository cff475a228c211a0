"""What order costs: latency, time held, bytes and losses of every level and rival, on one workload and one network."""

from collections.abc import Collection

from whence_lab.experiments.ordering_cost import NETWORKS, OURS, SYSTEMS, measured
from whence_lab.figures.bands import at_most, ratio, weighed
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Config, Figure, Finding, Panel, Plan, grid

MEMBERS = 15
CALM, LOSSY = NETWORKS
DELTA_3_EPSILON_MS = 16.0
"""δ + 3ε of `total, timed` here: 10 and 2 ticks of a millisecond."""
WAYS = ("gossip", "direct")
LEFT_OUT_NOTHING = ("causal, tree", "causal, mesh", "total, strict")
"""Ours that promise to leave nothing out, whatever the network loses."""


def measure(config: Config, seed: int) -> dict[str, float]:
    """Run one system."""
    return measured(config["system"], config["network"], config["members"], config["events"], seed)


def _of(data: Data, measure: str, network: str, *systems: str) -> dict[str, float]:
    members = max(data.values("members"))
    return {name: data.mean(measure, system=name, network=network, members=members) for name in systems}


def _said(values: dict[str, float], unit: str) -> str:
    return ", ".join(f"{name} {value:.3g} {unit}" for name, value in values.items())


def _small_overhead(data: Data) -> Finding:
    seen = _of(data, "latency_ms", CALM, *(f"{level}, {way}" for way in WAYS for level in ("eventual", "optimistic")))
    names = {"network": CALM, "members": max(data.values("members"))}
    bands = {name: data.band("latency_ms", system=name, **names) for name in seen}
    told = at_most([ratio(bands[f"optimistic, {way}"], bands[f"eventual, {way}"]) for way in WAYS], 1.5)
    return weighed(told, _said(seen, "ms"))


def _arrival_holds_nothing(data: Data) -> Finding:
    held = [_of(data, "hold_p99_ms", network, *(f"eventual, {way}" for way in WAYS)) for network in NETWORKS]
    most = max(value for each in held for value in each.values())
    return Finding(most == 0, f"at most {most:.3g} ms")


def _merge_bounded(data: Data) -> Finding:
    members = max(data.values("members"))
    worst = {
        network: data.band("hold_p99_ms", system="total, timed", network=network, members=members).most
        for network in NETWORKS
    }
    return Finding(all(held <= DELTA_3_EPSILON_MS for held in worst.values()), _said(worst, "ms"))


def _nothing_left_out(data: Data) -> Finding:
    seen = {
        f"{name} ({network})": value
        for network in NETWORKS
        for name, value in _of(data, "lost_percent", network, *LEFT_OUT_NOTHING).items()
    }
    return Finding(not any(seen.values()), _said(seen, "%"))


def _no_rival_forgets_when_calm(data: Data) -> Finding:
    seen = _of(data, "lost_percent", CALM, *SYSTEMS)
    lost = {name: value for name, value in seen.items() if value > (0.5 if name in GOSSIPING else 0.0)}
    return Finding(not lost, _said(lost, "%") or "nobody loses more")


GOSSIPING = ("eventual, gossip", "fifo, gossip", "optimistic, gossip", "Plumtree", "Thicket")
"""Those that promise to reach everybody with high probability, and no more."""


def _total_dearest(data: Data) -> Finding:
    seen = _of(data, "latency_ms", CALM, "causal, mesh", "total, strict")
    return Finding(seen["total, strict"] > seen["causal, mesh"], _said(seen, "ms"))


def _network(name: str) -> str:
    return f"{name} network"


def _panel(title: str, measure: str, label: str, *, log_x: bool = True, bars: Collection[str] = SYSTEMS) -> Panel:
    return Panel(
        title, "system", measure, "", label, "network", _network, only={"members": MEMBERS}, log_x=log_x,
        bars=tuple(bars),
    )  # fmt: skip


FIGURE = Figure(
    name="ordering-cost",
    title="What order costs",
    source="ours; J, section 6.3; K, Lemma 4.2",
    settings=(
        "15 members, of which 8 publish 100 events a second in all, of 32 bytes, to everybody; the same moments in "
        "every run. Links take 1 to 5 ms. Calm: they keep their order and lose nothing. Lossy: they keep no order, and "
        "lose 1 %. Gossip with rounds of 20 ms, direct as in small live groups; δ = 10 ms and ε = 2 ms for total, "
        "timed; Plumtree and Thicket wait 40 ms before they repair, and 300 events let their trees grow before those "
        "that count; defaults else. Bytes are all but payloads, for one event and receiver. Rivals do not say how "
        "long they hold an event."
    ),
    measure=measure,
    quick=Plan(grid(system=list(SYSTEMS), network=list(NETWORKS), members=[MEMBERS], events=[100]), 3),
    full=Plan(grid(system=list(SYSTEMS), network=list(NETWORKS), members=[MEMBERS], events=[1000]), 10),
    panels=(
        _panel("a) latency", "latency_ms", "median, ms"),
        _panel("b) latency of the slowest", "latency_p99_ms", "99th percentile, ms"),
        _panel("c) metadata", "metadata_bytes", "bytes for one event and receiver"),
        _panel("d) time held", "hold_ms", "mean, ms (rivals: not measured)", log_x=False, bars=OURS),
        _panel("e) deliveries lost", "lost_percent", "%", log_x=False),
    ),
    checks=(
        Check(
            "The causality layer adds a small overhead by delaying events",
            "J 6.3",
            "calm: the median latency of optimistic is at most half above that of eventual, spread in the same way",
            _small_overhead,
        ),
        Check(
            "An event is delivered on arrival where no order is promised",
            "gossip 3.1",
            "eventual holds nothing, on either network",
            _arrival_holds_nothing,
        ),
        Check(
            "No message waits longer than δ + 3ε at a merger",
            "K 4.2, Lemma 4.2",
            "99 of 100 events of total, timed wait at most 16 ms, in every run, on either network",
            _merge_bounded,
        ),
        Check(
            "Levels that promise to leave nothing out pay with time, not with events",
            "locamu, views",
            "causal, tree; causal, mesh and total, strict lose no delivery, on either network",
            _nothing_left_out,
        ),
        Check(
            "On a network as all assume it, nobody loses what it promises",
            "rivals",
            "calm: no delivery is lost; those that promise it with high probability lose at most 0.5 %",
            _no_rival_forgets_when_calm,
        ),
        Check(
            "One order for all costs more than causal order",
            "views",
            "calm, on the same views: the median latency of total, strict is above that of causal, mesh",
            _total_dearest,
        ),
    ),
    same_draw=("system", "network"),
)
