"""Our levels and the survey's systems on one workload and one network: what each promises, costs, and how it repairs.

Every process publishes to one group of all, at random; links take 1 to 5 ms and keep their order. A second run is the
same until the busiest process crashes for good. All numbers come from the rows of the traces.
"""

from collections import Counter
from typing import Any

from msgspec import Struct, structs

from whence.check.judge import judge
from whence.check.levels import PROMISES_OF
from whence.check.verdict import Outcome
from whence.sim.network import Latency, NetworkModel
from whence.sim.run import run
from whence.sim.scenario import MS, SECOND_NS, Fault, Scenario
from whence.sim.scenarios import simulation
from whence.sim.workload import Workload
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, M_PID, PAYLOAD_BYTES, STAMP_BYTES, T_TRUE, Kind

NETWORK = NetworkModel(latency=Latency(shape="uniform", low_ns=MS, high_ns=5 * MS), fifo_links=True)
WORKLOAD = Workload(rate=20, payload=32)
EVENTS, REPAIR_EVENTS = 60, 240
CRASH_AFTER = 40
"""Events before the crash."""
TAIL = 10
"""Events in a row that must come undisturbed for a repair to count."""

SETTINGS: dict[str, dict[str, Any]] = {
    "eventual": {"round_ns": 20 * MS}, "fifo": {"round_ns": 20 * MS}, "causal": {"ordered_links": True},
}  # fmt: skip
"""Gossip rounds as short as this network allows; else the defaults."""

LEVELS = (
    "eventual", "fifo", "causal", "neighbourhood", "cbcast", "barriers", "vcube", "scribe", "gryphon", "plumtree",
    "thicket",
)  # fmt: skip
SIZES = (15, 63, 255)

ORDER_OF = {
    "eventual": "all members, once", "fifo": "FIFO, gaps told",
    "causal": "causal across groups, through crashes within f",
    "neighbourhood": "FIFO, through crashes within f", "cbcast": "causal across groups, no crashes",
    "barriers": "causal across groups, no crashes", "vcube": "causal per topic, no crashes",
    "scribe": "best effort", "gryphon": "FIFO without gaps, through loss and crashes",
    "plumtree": "all members, once", "thicket": "all members, once; load spread",
}  # fmt: skip
"""What each promises, in a few words; PROMISES_OF has what is judged."""

_AT_T = COLUMNS_OF[Kind.PUBLISH].index(T_TRUE)
_EVENT = slice(COLUMNS_OF[Kind.PUBLISH].index(M_PID), COLUMNS_OF[Kind.PUBLISH].index(M_PID) + 3)
_AT_STAMP, _AT_PAYLOAD = COLUMNS_OF[Kind.SEND].index(STAMP_BYTES), COLUMNS_OF[Kind.SEND].index(PAYLOAD_BYTES)


class Compared(Struct, frozen=True):
    """One level at one size."""

    level: str
    nodes: int
    holds: bool
    """No promise was broken or left open in the calm run."""
    messages: float
    """Copies of all kinds sent for one event, while events were published and until the last arrived."""
    copies: float
    """Those of them that carry payloads."""
    metadata_bytes: float
    """Bytes of everything but payloads, for one event and receiver."""
    latency_ms: float
    """The median and the 99th percentile, from publication to delivery elsewhere."""
    latency_p99_ms: float
    busiest: float
    """Messages for one event that the busiest process sends."""
    repair_ms: float | None
    """From the crash until the first of ten events in a row that reach every survivor within twice the time that the
    slowest took before it; None: there were none in the run."""
    lost: int
    """Deliveries of events published after the crash that survivors never made."""


def compared(level: str, nodes: int, seed: int = 1) -> Compared:
    """Run a level without faults and with a crash, and return what was seen."""
    calm = _planned(level, nodes, EVENTS, seed)
    trace = run(calm).trace
    seen = Seen(trace)
    verdicts = judge(trace)
    busy = _planned(level, nodes, REPAIR_EVENTS, seed)
    victim = seen.busiest_process()
    others = [node for node in range(nodes) if node != victim]
    publishes = [
        structs.replace(publish, node=others[publish.node % len(others)]) if publish.node == victim else publish
        for publish in busy.publishes
    ]
    crash_at = sorted(publish.at_ns for publish in publishes)[CRASH_AFTER] - MS
    crash = Fault(kind="crash", at_ns=crash_at, nodes=[victim], lasting=True)
    after = Seen(run(structs.replace(busy, publishes=publishes, faults=[crash])).trace)
    repair_ms, lost = after.repair(crash_at, others)
    return Compared(
        level, nodes, not any(verdict.outcome in (Outcome.BROKEN, Outcome.UNKNOWN) for verdict in verdicts),
        *seen.costs(nodes), repair_ms, lost,
    )  # fmt: skip


def _planned(level: str, nodes: int, events: int, seed: int) -> Scenario:
    planned = simulation(level, nodes, events, seed, "none", dict(SETTINGS.get(level, {})), WORKLOAD)
    return structs.replace(planned, network=NETWORK, end_at_ns=planned.end_at_ns + SECOND_NS)


class Seen:
    """What a trace shows of its traffic."""

    def __init__(self, trace: Trace) -> None:
        self._published: dict[tuple[int, int, int], int] = {row[_EVENT]: row[_AT_T] for row in trace.rows[Kind.PUBLISH]}
        self._delivered: dict[tuple[int, int, int], dict[int, int]] = {}
        for row in trace.rows[Kind.DELIVER]:
            self._delivered.setdefault(row[_EVENT], {}).setdefault(row[0], row[_AT_T])
        first, last = min(self._published.values()), max(row[_AT_T] for row in trace.rows[Kind.DELIVER])
        self._sends = [row for row in trace.rows[Kind.SEND] if first <= row[_AT_T] <= last]

    def busiest_process(self) -> int:
        """Return the process that sends most."""
        return self._load().most_common(1)[0][0]

    def _load(self) -> Counter[int]:
        return Counter(row[0] for row in self._sends)

    def costs(self, nodes: int) -> tuple[float, float, float, float, float, float]:
        """Return messages and copies per event, bytes per event and receiver, latency, and load of the busiest."""
        events = len(self._published)
        delays = sorted(
            at - self._published[event]
            for event, receivers in self._delivered.items()
            for receiver, at in receivers.items()
            if receiver != event[0]
        )
        overhead = sum(row[_AT_STAMP] for row in self._sends)
        return (
            len(self._sends) / events,
            sum(row[_AT_PAYLOAD] > 0 for row in self._sends) / events,
            overhead / events / (nodes - 1),
            delays[len(delays) // 2] / MS,
            delays[len(delays) * 99 // 100] / MS,
            self._load().most_common(1)[0][1] / events,
        )

    def repair(self, crash_at: int, survivors: list[int]) -> tuple[float | None, int]:
        """Return how long events were disturbed by a crash, and how many deliveries are missing."""
        before = [self._completed(event, survivors) for event, at in self._published.items() if at < crash_at]
        usual = 2 * max(took for took in before if took is not None)
        later = sorted((at, event) for event, at in self._published.items() if at >= crash_at)
        lost = sum(node not in self._delivered.get(event, {}) for _, event in later for node in survivors)
        took = [self._completed(event, survivors) for _, event in later]
        for start, (at, _) in enumerate(later[: 1 - TAIL]):
            if all(each is not None and each <= usual for each in took[start : start + TAIL]):
                return (at - crash_at if start else 0) / MS, lost
        return None, lost

    def _completed(self, event: tuple[int, int, int], survivors: list[int]) -> int | None:
        """Return how long an event took to reach all survivors; None if it did not."""
        receivers = self._delivered.get(event, {})
        if any(node not in receivers for node in survivors):
            return None
        return max(receivers[node] for node in survivors) - self._published[event]


def promise_of(level: str) -> str:
    """Return what a level promises, in words, and the promises that are judged."""
    return f"{ORDER_OF[level]} ({', '.join(PROMISES_OF[level])})"
