"""What `simulate` asks for, and what the scenarios of all levels share: phases, faults, and events spread over time."""

from random import Random
from typing import Any, NamedTuple

from msgspec import Struct

from whence.sim.fault_plan import FaultPlan
from whence.sim.random_faults import draw_faults, draw_network
from whence.sim.scenario import MS, SECOND_NS, Clocks, Publish
from whence.sim.workload import Workload

DRIFTING = Clocks(offset_ns=SECOND_NS, drift_ppm=200)
"""The clocks of a run with faults, unless a fault file says otherwise."""


USUAL_LINK_NS = 20 * MS
"""What a link takes at most, unless the workload says otherwise."""
HOPS_MAX = 100
"""How many links an event and what it waits for may cross one after the other."""
OVERHEAD_BYTES = 200
"""What a copy carries besides its payload, generously."""
LOSS_USUAL = 0.3
SLACK_NS_MAX = 3_600 * SECOND_NS


class Request(Struct, frozen=True, kw_only=True):
    """A run that somebody asked for."""

    level: str
    nodes: int
    events: int
    seed: int
    faults: str = "none"
    """none, swarm, or the file that `plan` was read from."""
    plan: FaultPlan | None = None
    settings: dict[str, Any] = {}
    workload: Workload = Workload()

    @property
    def faulty_events(self) -> int:
        """Return the number of events published while faults act: two thirds, or none without faults."""
        return 0 if self.faults == "none" else self.events * 2 // 3

    def slack_ns(self, *, one_by_one: bool) -> int:
        """Return how much longer than usual the last deliveries may take over the links that were asked for, so that
        a run does not end, and blame the level, while they are under way. `one_by_one`: a publisher waits for an event
        before it sends the next one."""
        work, slack = self.workload, 0
        if work.latency_ms is not None:
            hops = HOPS_MAX + (self.events * self.nodes.bit_length() if one_by_one else 0)
            slack += max(0, int(work.latency_ms * MS) - USUAL_LINK_NS) * hops
        if work.bandwidth is not None:
            bits = self.events * self.nodes * ((work.payload or 0) + OVERHEAD_BYTES) * 8
            slack += max(0, bits * SECOND_NS // work.bandwidth - SECOND_NS)
        if work.loss is not None and work.loss > LOSS_USUAL:
            slack += int(20 * SECOND_NS * work.loss / (1.001 - work.loss))
        return min(slack, SLACK_NS_MAX)

    def fault_plan(self, end: int, rng: Random) -> FaultPlan:
        """Return the plan of the file, or one drawn for the time before `end`, or one without faults."""
        if self.plan is not None:
            return self.plan
        if self.faults == "swarm":
            return FaultPlan(draw_faults(self.nodes, max(1, end), rng), draw_network(rng), DRIFTING)
        return FaultPlan()


class Timeline(NamedTuple):
    """When the phases of a run begin and end: faults from `start` to `heal_at`, liveness from `live_from` on."""

    start: int
    spacing: int
    heal_at: int
    live_from: int
    live_until: int


def timeline(request: Request, usual_spacing_ns: int, settle_ns: int, start: int = 0) -> Timeline:
    """Return the phases of a run whose group needs `settle_ns` to recover. Without faults all is one calm phase."""
    spacing = request.workload.spacing_ns(usual_spacing_ns)
    faulty = request.faulty_events
    heal_at = start + faulty * spacing if faulty else 0
    live_from = heal_at + settle_ns if faulty else start
    return Timeline(start, spacing, heal_at, live_from, live_from + (request.events - faulty) * spacing)


def evenly(nodes: int, events: int, start: int, spacing: int, rng: Random) -> list[Publish]:
    """Return publications spread evenly over time, each by a member drawn at random."""
    return [
        Publish(at_ns=start + at * spacing + int(rng.random() * spacing), node=int(rng.random() * nodes))
        for at in range(events)
    ]
