"""Scenarios by request: a level, a number of members and events, some faults. What `simulate`, sweeps and the demo run.

The swarm (sim/swarm) draws its scenarios from a seed alone; here the caller chooses.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from whence.errors import UsageError
from whence.limits import MESH_MEMBERS_MAX
from whence.sim.canary import CANARY
from whence.sim.fault_plan import check_fault_plan, read_fault_plan
from whence.sim.lab import LIVING, LOSSLESS, REPAIRING, RIVALS, check_level
from whence.sim.scenario import Scenario
from whence.sim.scenarios import gossip, living, merge, tickets, tree
from whence.sim.scenarios.request import Request
from whence.sim.workload import Workload

NODES_MAX = 30_000
NODES_USUAL = 25
_LOSSLESS = (
    "{} promises nothing where links lose copies; lose none, or take --level gryphon, or a level that is no rival"
)
EVENTS_MAX = 10_000_000


class LevelScenarios(NamedTuple):
    """How the scenario of a level is built."""

    build: Callable[[Request], Scenario]
    has_coordinators: bool = False
    """Some members ask for tickets, and a workload may say how many."""


SCENARIOS: dict[str, LevelScenarios] = {
    "eventual": LevelScenarios(gossip.simulation),
    "fifo": LevelScenarios(gossip.simulation),
    "optimistic": LevelScenarios(tickets.simulation, has_coordinators=True),
    "causal": LevelScenarios(tree.simulation),
    "total": LevelScenarios(merge.simulation),
    CANARY: LevelScenarios(gossip.simulation),
    **dict.fromkeys(RIVALS, LevelScenarios(tree.rival_simulation)),
    **dict.fromkeys(REPAIRING, LevelScenarios(tree.repairing_simulation)),
    **dict.fromkeys(LIVING, LevelScenarios(living.simulation)),
}
"""The builder of each level's scenarios, and of the kinds of group on views."""


def simulation(
    level: str,
    nodes: int,
    events: int,
    seed: int,
    faults: str = "none",
    settings: dict[str, Any] | None = None,
    workload: Workload | None = None,
) -> Scenario:
    """Return a scenario: two thirds of the events while faults act, then healing, then the rest.

    `faults` is none, swarm (drawn from the seed) or the name of a TOML or JSON file. Without faults all is one calm
    phase. Raises UsageError for arguments that do not fit.
    """
    check_level(level, SCENARIOS)
    _check_between("nodes", nodes, 2, NODES_MAX)
    _check_between("events", events, 1, EVENTS_MAX)
    workload = workload or Workload()
    if workload.coordinators is not None and not SCENARIOS[level].has_coordinators:
        others = ", ".join(name for name, each in SCENARIOS.items() if each.has_coordinators)
        raise UsageError(f"coordinators: level {level} has none; leave it out, or take level {others}")
    if workload.loss and level in LOSSLESS:
        raise UsageError(f"--loss: {_LOSSLESS.format(level)}")
    plan = None if faults in ("none", "swarm") else read_fault_plan(faults)
    request = Request(
        level=level, nodes=nodes, events=events, seed=seed, faults=faults, plan=plan, settings=settings or {},
        workload=workload,
    )  # fmt: skip
    build = living.simulation if living.is_on_views(level, request.settings) else SCENARIOS[level].build
    scenario = build(request)
    if plan is not None:
        check_fault_plan(faults, plan, nodes, scenario.heal_at_ns)
        if level in LOSSLESS and (plan.network.loss or any(fault.kind == "burst" for fault in plan.faults)):
            raise UsageError(f"--faults: {faults} loses copies, and {_LOSSLESS.format(level)}")
    return workload.applied_to(scenario)


def usual_nodes(level: str, settings: dict[str, Any]) -> int:
    """Return how many members a group has if nobody says: as many as it may have, or NODES_USUAL."""
    return min(NODES_USUAL, MESH_MEMBERS_MAX) if living.is_on_views(level, settings) else NODES_USUAL


def _check_between(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageError(f"--{name} must be from {least:,} to {most:,}, not {value:,}")
