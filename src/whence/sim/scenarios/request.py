"""What `simulate` asks for, and what the scenarios of all levels share: phases, faults, and events spread over time."""

from random import Random
from typing import Any, NamedTuple

from msgspec import Struct

from whence.sim.fault_plan import FaultPlan
from whence.sim.random_faults import draw_faults, draw_network
from whence.sim.scenario import SECOND_NS, Clocks, Publish
from whence.sim.workload import Workload

DRIFTING = Clocks(offset_ns=SECOND_NS, drift_ppm=200)
"""The clocks of a run with faults, unless a fault file says otherwise."""


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
