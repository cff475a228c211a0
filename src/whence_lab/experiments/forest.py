"""LoCaMu at its two extremes: the thesis's base configuration at saturation, and one message for each of many groups.

Base configuration (section 11.1): a complete binary tree of 511 nodes, f = 1, one group of all, payloads of 32 bytes,
100 Mb/s per node, links of 1 ms; the root publishes as fast as its bandwidth lets it. Many groups: every inner node of
a binary tree is the root of a group, all below it are its members, and publishes one message.
"""

from time import process_time
from typing import Any

from msgspec import Struct

from whence.sim.cluster import Cluster
from whence.sim.faults import ScenarioScheduler
from whence.sim.lab import spec_of
from whence.sim.network import Latency, NetworkModel
from whence.sim.run import describe
from whence.sim.scenario import SECOND_NS, Publish, Scenario
from whence.trace.memory import Trace
from whence.trace.schema import Kind

MS = 1_000_000
PAYLOAD_BYTES = 32
BANDWIDTH_BPS = 100_000_000
LINK = Latency(shape="constant", low_ns=MS, high_ns=MS)
GROUP_EVERY_NS = 100_000
"""The time between the messages of two groups."""


class Forest(Struct, frozen=True):
    """The result of a run."""

    nodes: int
    messages: int
    hops: int
    """Copies sent, without acknowledgements."""
    delivered: int
    owed: int
    """Deliveries expected over all members of all groups."""
    records_left: int
    frame_bytes: float
    """The mean size of a copy on the wire."""
    built_s: float
    ran_s: float
    """Processor time."""

    @property
    def us_per_hop(self) -> float:
        """Return the processor time per hop, with its share of acknowledgements."""
        return self.ran_s / max(1, self.hops) * 1e6


def run(planned: Scenario) -> Forest:
    """Build the nodes of a scenario, run it, and count."""
    began = process_time()
    spec = spec_of(planned.level)
    trace = Trace(describe(planned, spec))
    cluster = Cluster(planned, spec, trace.rows)
    cluster.start()
    ScenarioScheduler(cluster, planned).plan()
    built = process_time()
    cluster.loop.run(planned.end_at_ns)
    ran = process_time()
    members: list[Any] = [process.member for process in cluster.processes.values()]
    rows = trace.rows
    copies = [row for row in rows[Kind.SEND] if row[-1]]
    sizes = [members[0].state.place.overlay.table(publish.group or 0).members for publish in planned.publishes]
    return Forest(
        nodes=planned.nodes, messages=len(rows[Kind.PUBLISH]), hops=sum(member.cost.copies for member in members),
        delivered=len(rows[Kind.DELIVER]), owed=sum(map(len, sizes)),
        records_left=sum(len(member.state.records) for member in members),
        frame_bytes=sum(row[-2] + row[-1] for row in copies) / max(1, len(copies)),
        built_s=built - began, ran_s=ran - built,
    )  # fmt: skip


def saturated(nodes: int = 511, seconds: float = 0.2, coding: str = "thesis") -> Scenario:
    """Return the base configuration: the root publishes whenever its two links have taken its last message."""
    frame = run(_paced(15, 40, 10 * MS, coding)).frame_bytes
    every = 2 * frame * 8 * SECOND_NS / BANDWIDTH_BPS
    return _paced(nodes, int(seconds * SECOND_NS / every), every, coding)


def _paced(nodes: int, messages: int, every_ns: float, coding: str) -> Scenario:
    publishes = [Publish(at_ns=int(at * every_ns), node=0, group=0, size=PAYLOAD_BYTES) for at in range(messages)]
    return Scenario(
        level="causal", seed=1, nodes=nodes, publishes=publishes,
        settings={"tree": "binary", "tree_nodes": nodes, "coding": coding, "ordered_links": True,
                  "replay": coding != "thesis"},
        network=NetworkModel(latency=LINK, bandwidth_bps=BANDWIDTH_BPS),
        end_at_ns=int(messages * every_ns) + SECOND_NS,
    )  # fmt: skip


def one_for_each_subtree(nodes: int) -> Scenario:
    """Return a scenario in which every inner node publishes one message to all below it."""
    inner = [node for node in range(nodes) if 2 * node + 1 < nodes]
    publishes = [
        Publish(at_ns=group * GROUP_EVERY_NS, node=node, group=group, size=PAYLOAD_BYTES)
        for group, node in enumerate(inner)
    ]
    return Scenario(
        level="causal", seed=1, nodes=nodes, publishes=publishes,
        settings={"tree": "binary", "tree_nodes": nodes, "groups": "subtrees", "ordered_links": True},
        network=NetworkModel(latency=LINK), end_at_ns=len(inner) * GROUP_EVERY_NS + SECOND_NS,
    )  # fmt: skip
