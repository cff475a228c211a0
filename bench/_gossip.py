"""What a gossip hop costs once a simulated group is under way: frames, codec, protocol and trace, all as in any run.

A hop is a SEND row: one copy, sent, carried, received and processed. Founding the group and its first rounds are not
counted; they allocate every process's state, once. The trace is recorded throughout and written out as Parquet when
a list holds a chunk, as in any long run; the writing itself is not counted.
"""

import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple

from _common import no_collections

from whence.sim.cluster import Cluster
from whence.sim.lab import spec_of
from whence.sim.run import describe
from whence.sim.scenario import SECOND_NS, Scenario
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, PAYLOAD_BYTES, Kind
from whence.trace.writer import TraceWriter

LEVEL = "fifo"
PAYLOAD = 24
"""Bytes of each bundle's one event."""
PUBLISHERS = 10
"""The number of members that publish in turn, whatever the size of the group."""
TURN_NS = 20_000_000
"""How long a world runs between two looks at the trace."""
SHORT_TURN_NS = 5_000_000
"""How long each of several worlds runs until it is another one's turn: too short to warm the cache."""


class Load(NamedTuple):
    """A group and what it does."""

    nodes: int
    view: str
    rounds: int
    """As many as needed to reach everybody: they grow with the logarithm of the group."""
    interval_ns: int
    """Time between two publications in the whole group."""


class Hops(NamedTuple):
    """The hops of the counted time."""

    hops: int
    us_per_hop: float
    bundles_per_hop: float
    deliveries_per_hop: float
    peak_mib: int


def hops_of(load: Load, hops: int, warm_ns: int = 3 * SECOND_NS // 2, worlds: int = 1) -> Hops:
    """Run a group until this many hops after its warm-up are counted.

    With several worlds, that many independent groups take turns: the hops of small groups, in a memory as large as
    that of a large one.
    """
    trace = Trace(describe(_scenario(load, 1), spec_of(LEVEL)))
    clusters = [_begun(load, seed, trace) for seed in range(1, worlds + 1)]
    sent, delivered = trace.rows[Kind.SEND], trace.rows[Kind.DELIVER]
    at_payload = COLUMNS_OF[Kind.SEND].index(PAYLOAD_BYTES)
    counted = deliveries = payload_bytes = now = 0
    seconds = 0.0
    turn_ns = TURN_NS if worlds == 1 else SHORT_TURN_NS
    with TemporaryDirectory() as directory, no_collections():
        writer = TraceWriter(Path(directory), trace.run)
        while counted < hops:
            now += turn_ns
            sent_before, delivered_before = len(sent), len(delivered)
            began = process_time()
            for cluster in clusters:
                cluster.loop.run(now)
            took = process_time() - began
            if now > warm_ns:
                seconds += took
                counted += len(sent) - sent_before
                deliveries += len(delivered) - delivered_before
                payload_bytes += sum([row[at_payload] for row in sent[sent_before:]])
            writer.drain(trace)
    return Hops(
        counted,
        seconds / counted * 1e6,
        payload_bytes / PAYLOAD / counted,
        deliveries / counted,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    )


class _Publishing:
    """Members of a cluster that publish in turn for ever; only the next publication is on the loop."""

    def __init__(self, cluster: Cluster, load: Load) -> None:
        self._cluster = cluster
        self._interval_ns = load.interval_ns
        self._step = load.nodes // PUBLISHERS
        self.next(0)

    def next(self, at: int) -> None:
        """Publish, and plan the next publication."""
        loop = self._cluster.loop
        self._cluster.processes[at % PUBLISHERS * self._step].publish([bytes(PAYLOAD)])
        loop.at(loop.now + self._interval_ns, self.next, at + 1)


def _begun(load: Load, seed: int, trace: Trace) -> Cluster:
    cluster = Cluster(_scenario(load, seed), spec_of(LEVEL), trace.rows)
    cluster.start()
    _Publishing(cluster, load)
    return cluster


def _scenario(load: Load, seed: int) -> Scenario:
    settings = {"view": load.view, "rounds": load.rounds}
    return Scenario(level=LEVEL, seed=seed, nodes=load.nodes, settings=settings)
