"""Theorem 5.1 tried out: is an event still in the recovery buffer of every member T rounds after its publication?"""

from msgspec import structs

from whence.core.clocks.cct import entry_of
from whence.sim.cluster import Cluster
from whence.sim.faults import ScenarioScheduler
from whence.sim.run import describe
from whence.trace.memory import Trace
from whence_lab.experiments.two_layer import EPOCH, USED_BEFORE, DealtMember, Experiment


def availability(experiment: Experiment, stay_rounds: int, seed: int) -> float:
    """Return the part of all pairs of a measured event and a member in which the member's buffer holds the event
    `stay_rounds` rounds after it was published."""
    scenario, spec = experiment.scenario(seed), experiment.level()
    begin, end = experiment.window_ns()
    stay_ns = stay_rounds * experiment.round_ns
    scenario = structs.replace(scenario, end_at_ns=max(scenario.end_at_ns, end + stay_ns + experiment.round_ns))
    cluster = Cluster(scenario, spec, Trace(describe(scenario, spec)).rows)
    cluster.start()
    ScenarioScheduler(cluster, scenario).plan()
    numbers: dict[int, int] = {}
    held: list[bool] = []

    def look(key: tuple[int, int]) -> None:
        for process in cluster.processes.values():
            assert isinstance(process.member, DealtMember)
            held.append(key in process.member.delivery._buffer._bundles)

    for publish in sorted(scenario.publishes, key=lambda each: each.at_ns):
        numbers[publish.node] = numbers.get(publish.node, USED_BEFORE) + 1
        if begin <= publish.at_ns < end:
            key = (publish.node, entry_of(EPOCH, numbers[publish.node]))
            cluster.loop.at(publish.at_ns + stay_ns, look, key)
    cluster.loop.run(scenario.end_at_ns)
    return sum(held) / max(1, len(held))
