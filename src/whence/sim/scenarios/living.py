"""Scenarios of groups on views: `causal` in a mesh and strict `total`, as live groups run them and `explore` explores
them.

Members have no disk unless `journal=true` is set: who crashes comes back as another member, and who stays away is
removed. With disks nobody is removed unasked; under a swarm of faults an operator removes who died for good, as in what
is explored.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from whence.errors import UsageError
from whence.limits import MESH_MEMBERS_MAX
from whence.sim.fault_plan import FaultPlan
from whence.sim.lab import LIVING, spec_of
from whence.sim.network import NetworkModel
from whence.sim.random_faults import draw_faults, draw_network
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, SECOND_NS, Act, Fault, Scenario
from whence.sim.scenarios.request import DRIFTING, Request, evenly, timeline

SPACING_NS = 20 * MS
"""The time between two publications of the whole group."""
START_NS = SECOND_NS
"""The time in which the founders open the group."""
SETTLE_NS, DEADLINE_NS, REST_NS = 6 * SECOND_NS, 3 * SECOND_NS, 6 * SECOND_NS
OPERATOR_NS = 500 * MS
TIMERS = {"retry_ns_max": 800 * MS, "join_timeout_ns": 1_500 * MS}


class Kind(NamedTuple):
    """A level's groups on views."""

    asked_by: Mapping[str, Collection[str]]
    """The settings, with their values, by which they are asked for."""
    settings: Callable[[int], dict[str, Any]]
    """What makes a group of so many members one."""
    larger: str
    """What to take for more members."""


KINDS = {
    "causal": Kind(
        {"membership": ("living",), "spread": ("mesh", "direct")},
        lambda nodes: {"spread": "mesh", "processes": " ".join(map(str, range(nodes)))},
        "--level causal without spread, on a tree",
    ),
    "total": Kind({"order": ("strict",)}, lambda _: {"order": "strict"}, "order=timed"),
}


def is_on_views(level: str, settings: Mapping[str, Any]) -> bool:
    """Tell whether a group on views is asked for: by the name of its kind, or by settings of its level."""
    asked_by = KINDS[level].asked_by if level in KINDS else {}
    return level in LIVING or any(settings.get(name) in values for name, values in asked_by.items())


def simulation(request: Request) -> Scenario:
    """Return the scenario that was asked for. Raises UsageError and SettingError."""
    level, nodes = LIVING.get(request.level, request.level), request.nodes
    if nodes > MESH_MEMBERS_MAX:
        raise UsageError(
            f"--nodes: a group on views has at most {MESH_MEMBERS_MAX} members, not {nodes}; "
            f"give --nodes {MESH_MEMBERS_MAX}, or take {KINDS[level].larger}"
        )
    settings = _settings(level, nodes, request.settings)
    spec_of(level).settings_from(settings)
    rng = RandomStreams(request.seed).of("workload")
    phases = timeline(request, SPACING_NS, SETTLE_NS, START_NS)
    plan = request.plan or FaultPlan(network=NetworkModel(fifo_links=True))
    if request.plan is None and request.faults == "swarm":
        plan = FaultPlan(draw_faults(nodes, phases.heal_at, rng), draw_network(rng), DRIFTING)
    faulty = request.faulty_events
    rest_at = phases.live_until + REST_NS
    return Scenario(
        level=level, seed=request.seed, nodes=nodes, settings=settings, network=plan.network, clocks=plan.clocks,
        faults=plan.faults, acts=_removals(request, settings, plan.faults, phases.heal_at),
        sync_ns=MS if settings["journal"] else 0,
        publishes=evenly(nodes, faulty, START_NS, phases.spacing, rng)
        + evenly(nodes, request.events - faulty, phases.live_from, phases.spacing, rng),
        heal_at_ns=phases.heal_at, live_from_ns=phases.live_from, live_until_ns=phases.live_until,
        deadline_ns=DEADLINE_NS, rest_at_ns=rest_at, end_at_ns=rest_at + MS,
    )  # fmt: skip


def _settings(level: str, nodes: int, given: dict[str, Any]) -> dict[str, Any]:
    journal = str(given.get("journal", "false")).lower() in ("true", "1")
    settings = {"membership": "living", "journal": journal, **KINDS[level].settings(nodes), **TIMERS}
    if not journal:
        settings |= {"remove_after_ns": 800 * MS}
    return settings | {name: value for name, value in given.items() if name not in ("journal", "spread", "order")}


def _removals(request: Request, settings: dict[str, Any], faults: list[Fault], heal_at: int) -> list[Act]:
    """Return what an operator does once the world has healed: remove who died for good, at every other member."""
    if request.faults != "swarm" or not settings["journal"]:
        return []
    dead = [node for fault in faults if fault.kind == "crash" and not fault.until_ns for node in fault.nodes]
    return [
        Act(at_ns=heal_at + OPERATOR_NS, node=node, name="remove", argument=gone)
        for gone in dead
        for node in range(request.nodes)
        if node != gone
    ]
