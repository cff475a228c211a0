"""One run from beginning to end: safety phase, heal, liveness phase. The same scenario gives the same trace digest."""

from collections import Counter
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any
from zlib import crc32

from msgspec import Struct, json, to_builtins

from whence import __version__
from whence.core.level import LevelSpec, remembers
from whence.core.settings import by_name
from whence.sim.cluster import Cluster, founders_of
from whence.sim.crash import Crash, crash_of
from whence.sim.faults import ScenarioScheduler
from whence.sim.lab import spec_of
from whence.sim.process_ids import with_process_ids
from whence.sim.scenario import Scenario
from whence.trace.memory import Phases, Run, Trace
from whence.types import Process

_SLICES = 50
"""How often a run reports progress and writes out its trace."""


class Outcome(Struct, frozen=True):
    """The result of a run."""

    trace: Trace
    effective: Counter[str]
    """Faults that did something, by kind."""
    steps: int
    """Actions that the loop ran."""
    wall_seconds: float
    crash: Crash | None = None
    """The exception that ended the run early; the trace ends there."""
    remaining: tuple[Process, ...] = ()
    """Who asked to leave and is still a member when the run ends."""


def run(
    scenario: Scenario,
    spec: LevelSpec | None = None,
    *,
    start_order: Iterable[int] | None = None,
    on_slice: Callable[[Trace, float], None] | None = None,
    keep_crash: bool = False,
    payloads: bool = False,
) -> Outcome:
    """Run a scenario. `on_slice` is called now and then with the trace so far and the part of the run that is done.

    `start_order` lists all nodes in the order in which their processes are made.
    `payloads`: the trace has them, not only their sizes and checksums.
    Raises what a process raises; with `keep_crash`, the exception ends the run and is part of the outcome.
    """
    began = perf_counter()
    founders = founders_of(scenario)
    scenario = with_process_ids(scenario)
    spec = spec or spec_of(scenario.level)
    trace = Trace(describe(scenario, spec))
    cluster = Cluster(scenario, spec, trace.rows, payloads=payloads)
    scheduler = ScenarioScheduler(cluster, scenario)
    crash = None
    try:
        cluster.start(None if start_order is None else [founders[node] for node in start_order])
        scheduler.plan()
        slices = _SLICES if on_slice is not None else 1
        for at in range(1, slices + 1):
            cluster.loop.run(scenario.end_at_ns * at // slices)
            if on_slice is not None:
                on_slice(trace, at / slices)
        cluster.record_gauges()
    except Exception as error:
        if not keep_crash:
            raise
        crash = crash_of(error, cluster.loop.now)
    trace.run.forgetful = cluster.forgetful_incarnations()
    remaining = tuple(Process(each.pid, each.incarnation) for each in cluster.processes.values() if each.leaving)
    return Outcome(trace, cluster.effective, cluster.loop.steps, perf_counter() - began, crash, remaining)


def describe(scenario: Scenario, spec: LevelSpec) -> Run:
    """Return the description of a run: what a reader needs to judge it and to run it again.

    A run that ends before all that must arrive is due has no liveness phase: shrinking cuts runs short, and what has
    not come by then says nothing.
    """
    settings = spec.settings_from(scenario.settings)
    phases = None
    if 0 < scenario.live_until_ns <= scenario.end_at_ns - scenario.deadline_ns:
        phases = Phases(
            heal_at=scenario.heal_at_ns,
            live_from=scenario.live_from_ns,
            live_until=scenario.live_until_ns,
            deadline_ns=scenario.deadline_ns,
        )
    clocked: dict[str, Any] = {name: by_name(settings).get(name) for name in ("tick_ns", "epsilon", "delta")}
    return Run(
        run_id=f"{scenario.level}-{scenario.nodes}-{scenario.seed}-{_digest(scenario):08x}",
        version=__version__,
        level=scenario.level,
        seed=scenario.seed,
        nodes=list(founders_of(scenario)),
        groups={scenario.group: list(founders_of(scenario))},
        durable=remembers(spec, settings),
        parameters=by_name(settings) | {"network": to_builtins(scenario.network)},
        reach_min=scenario.reach_min,
        **clocked,
        phases=phases,
    )


def _digest(scenario: Scenario) -> int:
    """Return a checksum that differs between runs of one seed with different settings, faults or publications."""
    told = to_builtins(scenario)
    if not scenario.forgetful:  # the field is younger than ids that people have in files
        del told["forgetful"]
    return crc32(json.encode(told, order="sorted"))
