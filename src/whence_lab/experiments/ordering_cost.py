"""What order costs: every level of ours and every rival on one workload and one network, from the rows of its trace.

Eight of the members publish to one group of all, at the same times in every run; what needs a start (tickets, overlays,
trees that grow out of traffic) has it before. Links take 1 to 5 ms. On a calm network they keep their order and lose
nothing, as connections do; a lossy one has datagrams: a hundredth is lost, and they overtake each other.
"""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import structs

from whence.core.dissemination.direct import EVERYBODY_KNOWN
from whence.sim.network import Latency, NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.run import run
from whence.sim.scenario import MS, SECOND_NS, Publish, Scenario
from whence.sim.scenarios import simulation
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, HOLD_NS, M_PID, STAMP_BYTES, T_TRUE, Kind

PUBLISHERS = 8
RATE = 100
"""Events a second, of all publishers together."""
SPACING_NS = SECOND_NS // RATE
PAYLOAD = 32
LINKS = Latency(shape="uniform", low_ns=MS, high_ns=5 * MS)
CALM = NetworkModel(latency=LINKS, fifo_links=True)
LOSSY = NetworkModel(latency=LINKS, loss=0.01)
NETWORKS = {"calm": CALM, "lossy": LOSSY}
ROUND_NS = 20 * MS
"""Gossip rounds as short as these links allow."""
START_NS = SECOND_NS
"""When a group on views begins to publish."""
GRAFT_NS = 40 * MS
"""How long Plumtree and Thicket wait for a message that was announced: longer than their trees need on these links. The
more is published in that time, the more branches a repair brings back, and the longer trees take to settle."""
GROWTH = 3 * RATE
"""Events before those that count, where trees grow out of traffic."""
AFTERWARDS_NS = 5 * SECOND_NS
"""The time after the last publication in which what is late may still come."""


class System(NamedTuple):
    """A level, or a way to have it, with its settings."""

    level: str
    promise: str
    settings: Mapping[str, Any] = MappingProxyType({})
    calm: Mapping[str, Any] = MappingProxyType({})
    """Settings on a calm network only."""
    living: bool = False
    """Its members are those of a view."""
    growth: int = 0
    """Events that are published before those that count, at the same rate."""


GOSSIP = {"round_ns": ROUND_NS}
DIRECT = EVERYBODY_KNOWN
"""As live groups spread events unless told otherwise: to everybody at once."""
OURS = {
    "eventual, gossip": System("eventual", "every member, most probably", GOSSIP),
    "fifo, gossip": System("fifo", "each publisher's order; gaps are told", GOSSIP),
    "optimistic, gossip": System("optimistic", "causal order; gaps are told", GOSSIP),
    "eventual, direct": System("eventual", "every member that keeps up", DIRECT),
    "fifo, direct": System("fifo", "each publisher's order; gaps are told", DIRECT),
    "optimistic, direct": System("optimistic", "causal order; gaps are told", DIRECT),
    "causal, tree": System("causal", "causal order, nothing left out", {}, {"ordered_links": True}),
    "causal, mesh": System("causal", "causal order, nothing left out", {"spread": "mesh"}, living=True),
    "total, timed": System("total", "one order; late events are told", {"delta": 10, "epsilon": 2}),
    "total, strict": System("total", "one order, nothing left out", {"order": "strict"}, living=True),
}
GRAFTS = {"graft_ns": GRAFT_NS}
RIVALS = {
    "CBCAST": System("cbcast", "causal order, no loss"),
    "Causal Barriers": System("barriers", "causal order, no loss"),
    "Delta-Neighbourhood": System("neighbourhood", "each publisher's order"),
    "VCube-PS": System("vcube", "causal order, no loss"),
    "Scribe": System("scribe", "best effort"),
    "Gryphon": System("gryphon", "each publisher's order, without gaps"),
    "Plumtree": System("plumtree", "every member, most probably", GRAFTS, growth=GROWTH),
    "Thicket": System("thicket", "every member, most probably", GRAFTS, growth=GROWTH),
}
SYSTEMS = OURS | RIVALS

_AT_T = COLUMNS_OF[Kind.PUBLISH].index(T_TRUE)
_AT_EVENT = COLUMNS_OF[Kind.PUBLISH].index(M_PID)
_AT_HOLD, _AT_STAMP = COLUMNS_OF[Kind.DELIVER].index(HOLD_NS), COLUMNS_OF[Kind.SEND].index(STAMP_BYTES)


def scenario(name: str, network: str, nodes: int, events: int, seed: int) -> Scenario:
    """Return the run of a system."""
    system = SYSTEMS[name]
    settings = {**system.settings, **(system.calm if network == "calm" else {})}
    if system.living:
        settings |= {"membership": "living", "journal": False}
        if "spread" in settings:
            settings |= {"processes": " ".join(map(str, range(nodes)))}
        planned, start = Scenario(level=system.level, seed=seed, nodes=nodes, settings=settings), START_NS
    else:
        planned = simulation(system.level, nodes, 1, seed, "none", settings)
        start = planned.publishes[0].at_ns + START_NS
    addressed = any(publish.group is not None for publish in planned.publishes)
    group = 0 if addressed else None
    counted_from = start + system.growth * SPACING_NS
    publishes = [
        *publications(system.growth, start, RandomStreams(seed).of("growth of trees"), group),
        *publications(events, counted_from, RandomStreams(seed).of("cost of order"), group),
    ]
    return structs.replace(
        planned, publishes=publishes, network=NETWORKS[network], sync_ns=0, rest_at_ns=0, live_from_ns=0,
        live_until_ns=0, end_at_ns=publishes[-1].at_ns + AFTERWARDS_NS,
    )  # fmt: skip


def publications(events: int, start: int, rng: Random, group: int | None) -> list[Publish]:
    """Return the same publications for all systems, from a time on."""
    moments = [(start + at * SPACING_NS + rng.randrange(SPACING_NS), rng.randrange(PUBLISHERS)) for at in range(events)]
    return [Publish(at_ns=at, node=node, size=PAYLOAD, group=group) for at, node in moments]


def measured(name: str, network: str, nodes: int, events: int, seed: int) -> dict[str, float]:
    """Run a system and return what its order cost."""
    return costs(run(scenario(name, network, nodes, events, seed)).trace, nodes, events)


def costs(trace: Trace, nodes: int, events: int) -> dict[str, float]:
    """Return latency and time held in ms, deliveries lost in percent, bytes and messages for one event and receiver.

    The last so many events count.
    """
    counted = sorted(trace.rows[Kind.PUBLISH], key=lambda row: row[_AT_T])[-events:]
    published = {row[_AT_EVENT : _AT_EVENT + 3]: row[_AT_T] for row in counted}
    first, last = min(published.values()), max(row[_AT_T] for row in trace.rows[Kind.DELIVER])
    came = {(row[0], row[_AT_EVENT : _AT_EVENT + 3]): row for row in trace.rows[Kind.DELIVER]}
    others = [row for (node, event), row in came.items() if node != event[0] and event in published]
    delays = sorted(row[_AT_T] - published[row[_AT_EVENT : _AT_EVENT + 3]] for row in others)
    held = sorted(row[_AT_HOLD] or 0 for row in others)
    sends = [row for row in trace.rows[Kind.SEND] if first <= row[_AT_T] <= last]
    owed = events * (nodes - 1)
    return {
        "latency_ms": delays[len(delays) // 2] / MS,
        "latency_p99_ms": delays[len(delays) * 99 // 100] / MS,
        "hold_ms": sum(held) / len(held) / MS,
        "hold_p99_ms": held[len(held) * 99 // 100] / MS,
        "lost_percent": 100 * (1 - len(delays) / owed),
        "metadata_bytes": sum(row[_AT_STAMP] for row in sends) / owed,
        "messages": len(sends) / owed,
    }
