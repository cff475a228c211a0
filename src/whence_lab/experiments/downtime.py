"""How long nodes were down: the statistics of the thesis's framework (section 4.2), from the rows of a trace.

And a run to look at: a tree whose nodes crash, at most f of every path of 2f+1, lose what was not on disk, and return.
"""

from typing import Any

from msgspec import Struct

from whence.core.levels.causal.tree.topology import overlay_of
from whence.sim.lab import spec_of
from whence.sim.network import Latency, NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, SECOND_NS, Publish, Scenario
from whence.sim.scenarios.tree import crashes_within
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, M_PID, NODE, T_TRUE, Kind

_EVENT, _AT = (COLUMNS_OF[Kind.PUBLISH].index(name) for name in (M_PID, T_TRUE))
assert [COLUMNS_OF[Kind.DELIVER].index(name) for name in (M_PID, T_TRUE)] == [_EVENT, _AT]
_NODE, _T = (COLUMNS_OF[Kind.CRASH].index(name) for name in (NODE, T_TRUE))

LINK = Latency(shape="constant", low_ns=MS, high_ns=MS)
PAYLOAD_BYTES = 32
SPACING_NS = 20 * MS
SETTLE_NS = 20 * SECOND_NS
"""For what members that were down must catch up with."""


class Downtime(Struct, frozen=True):
    """How long nodes were down, in milliseconds."""

    crashes: int
    total_ms: float
    """Of all nodes together."""
    longest_ms: float
    """The longest time that one was down without recovering."""
    busiest_ms: float
    """Of the node that was down most, all its times together."""


def downtime(trace: Trace, until_ns: int) -> Downtime:
    """Return the downtime in a trace; who did not come back was down until the end."""
    rows = sorted(
        (row[_T], kind is Kind.RESTART, row[_NODE]) for kind in (Kind.CRASH, Kind.RESTART) for row in trace.rows[kind]
    )
    since: dict[int, int] = {}
    spells: dict[int, list[int]] = {}
    for at, is_back, node in [*rows, *((until_ns, True, node) for node in trace.run.nodes)]:
        if not is_back:
            since.setdefault(node, at)
        elif node in since:
            spells.setdefault(node, []).append(at - since.pop(node))
    each = [sum(times) for times in spells.values()]
    return Downtime(
        crashes=sum(map(len, spells.values())), total_ms=sum(each) / MS, busiest_ms=max(each, default=0) / MS,
        longest_ms=max((max(times) for times in spells.values()), default=0) / MS,
    )  # fmt: skip


class Delays(Struct, frozen=True):
    """Times from publication to delivery at other members, in ms; what never came counts with the time to the end."""

    everybody_p99: float
    around_p50: float
    """At nodes that did not crash in the run: what had to go around those that did."""
    around_p99: float
    never: float
    """The part of deliveries at others that never came."""


def delays(trace: Trace, end_ns: int) -> Delays:
    """Return the delays of a trace whose every event is for all nodes."""
    came = {(row[_NODE], row[_EVENT : _EVENT + 3]): row[_AT] for row in reversed(trace.rows[Kind.DELIVER])}
    crashed = {row[_NODE] for row in trace.rows[Kind.CRASH]}
    owed = [
        (node in crashed, came.get((node, row[_EVENT : _EVENT + 3])), row[_AT])
        for row in trace.rows[Kind.PUBLISH]
        for node in trace.run.nodes
        if node != row[_EVENT]
    ]
    times = [(did_crash, (end_ns if at is None else at) - since) for did_crash, at, since in owed]
    around = sorted(took for did_crash, took in times if not did_crash)
    everybody = sorted(took for _, took in times)
    return Delays(
        everybody_p99=everybody[len(everybody) * 99 // 100] / MS, around_p50=around[len(around) // 2] / MS,
        around_p99=around[len(around) * 99 // 100] / MS, never=sum(at is None for _, at, _ in owed) / len(owed),
    )  # fmt: skip


def planned_ms(scenario: Scenario) -> float:
    """Return how long nodes are to be down, all together, in ms."""
    return sum((fault.until_ns - fault.at_ns) * len(fault.nodes) for fault in scenario.faults) / MS


def crashing(level: str, nodes: int, events: int, crashes: int, seed: int, **more: Any) -> Scenario:
    """Return a run in which anybody publishes to all while nodes crash and come back; `more` are settings."""
    settings: dict[str, Any] = {"tree": "binary", "tree_nodes": nodes} | more
    values: Any = spec_of(level).settings_from(settings)
    end = events * SPACING_NS
    draw = RandomStreams(seed).of("publishers")
    return Scenario(
        level=level, seed=seed, nodes=nodes, settings=settings, sync_ns=MS,
        publishes=[
            Publish(at_ns=at * SPACING_NS, node=draw.randrange(nodes), group=0, size=PAYLOAD_BYTES)
            for at in range(events)
        ],
        network=NetworkModel(latency=LINK, fifo_links=True), heal_at_ns=end, end_at_ns=end + SETTLE_NS,
        faults=crashes_within(overlay_of(values.overlay), crashes, end, seed),
    )  # fmt: skip
