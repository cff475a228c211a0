"""Bytes of ordering metadata per copy on a tree, fault-free: LoCaMu section 11, figures 5.2 and 5.3.

It counts what the protocols put on the wire to order and to name a message; not packet headers, acknowledgements and
payloads, as in the thesis.
"""

from typing import Any

from msgspec import Struct

from whence.sim.cluster import Cluster
from whence.sim.faults import ScenarioScheduler
from whence.sim.lab import spec_of
from whence.sim.network import Latency, NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.run import describe
from whence.sim.scenario import Publish, Scenario
from whence.trace.memory import Trace

MS = 1_000_000
PAYLOAD_BYTES = 32
LINK_NS = MS
EVERY_NS = 10 * MS
"""The time between two messages of one publisher."""


class Bytes(Struct, frozen=True):
    """What the copies of a run carried."""

    mean: float
    """By the formula of the paper; for `causal` with its own coding, as it is written."""
    written: float
    """As it is written here: lengths, names and all that is needed to read it back."""
    most: int
    copies: int
    records_left: int
    """Messages that some member still retains when all has settled."""


SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "causal": ("causal", {"ordered_links": True}),
    "causal, thesis coding": ("causal", {"coding": "thesis", "replay": False}),
    "cbcast": ("cbcast", {}),
    "barriers": ("barriers", {}),
    "neighbourhood": ("neighbourhood", {}),
}
"""What is compared: levels and their settings."""

PUBLISHERS = (1, 8, 32, 128, 511)
SIZES = (63, 255, 511, 2047, 8191)
WARM_MESSAGES, COUNTED_MESSAGES = 8, 16
"""At least, of all publishers together: the first messages on a link carry more than later ones."""
WARM_ROUNDS = 3
"""At least, of each publisher: until messages have crossed the tree, publishers know too little of each other."""


def scenario(
    level: str, nodes: int, publishers: int, messages: int, groups: str = "all", seed: int = 1, **settings: Any
) -> Scenario:
    """Return a fault-free run: each publisher sends `messages` at 100 a second; a single publisher is the root."""
    rng = RandomStreams(seed).of("publishers")
    who = [0] if publishers == 1 else rng.sample(range(nodes), publishers)
    counts = {"all": 1, "subtrees": sum(2 * node + 1 < nodes for node in range(nodes))}
    publishes = []
    for node in who:
        start = rng.randrange(EVERY_NS)
        above = [0] if groups == "all" else _ancestors(node, counts["subtrees"])
        publishes += [
            Publish(at_ns=start + at * EVERY_NS, node=node, group=rng.choice(above), size=PAYLOAD_BYTES)
            for at in range(messages)
        ]
    return Scenario(
        level=level, seed=seed, nodes=nodes, publishes=publishes,
        settings={"tree": "binary", "tree_nodes": nodes, "groups": groups, **settings},
        network=NetworkModel(latency=Latency(shape="constant", low_ns=LINK_NS, high_ns=LINK_NS)),
        end_at_ns=messages * EVERY_NS + 1_000 * MS,
    )  # fmt: skip


def compared(scheme: str, nodes: int, publishers: int, groups: str = "all") -> Bytes:
    """Return what the copies of a scheme carry once its links are warm."""
    level, settings = SCHEMES[scheme]
    warm, counted = max(WARM_ROUNDS, -(-WARM_MESSAGES // publishers)), -(-COUNTED_MESSAGES // publishers)
    planned = scenario(level, nodes, publishers, warm + counted, groups, **settings)
    return measure(planned, warm * EVERY_NS)


def measure(planned: Scenario, warm_ns: int = 0) -> Bytes:
    """Run a scenario and count what is sent after a time."""
    spec = spec_of(planned.level)
    cluster = Cluster(planned, spec, Trace(describe(planned, spec)).rows)
    cluster.start()
    ScenarioScheduler(cluster, planned).plan()
    members: list[Any] = [process.member for process in cluster.processes.values()]
    cluster.loop.run(warm_ns)
    before = _counted(members)
    cluster.loop.run(planned.end_at_ns)
    copies, size, written = (after - earlier for after, earlier in zip(_counted(members), before, strict=True))
    return Bytes(
        mean=size / max(1, copies),
        written=written / max(1, copies),
        most=max(member.cost.most for member in members),
        copies=copies,
        records_left=sum(gauge.value for member in members for gauge in member.gauges() if gauge.name == "records"),
    )


def _counted(members: list[Any]) -> tuple[int, int, int]:
    costs = [member.cost for member in members]
    return (
        sum(cost.copies for cost in costs),
        sum(cost.bytes for cost in costs),
        sum(getattr(cost, "written", cost.bytes) for cost in costs),
    )


def _ancestors(node: int, inner: int) -> list[int]:
    """Return the groups of subtrees that contain a node: its own, if it is an inner node, and its ancestors'."""
    found = [node] if node < inner else []
    while node:
        node = (node - 1) // 2
        found.append(node)
    return found
