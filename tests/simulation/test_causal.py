"""Causal multicast explored: schedules of trees, none broken; every planted bug found; faults within f and beyond."""

import gc
import sys
from types import FunctionType, ModuleType
from typing import Any

import pytest
from msgspec import structs

from tests.simulation.hunts import hunted
from whence.check.judge import judge
from whence.check.levels import PROMISES_OF
from whence.check.verdict import Outcome
from whence.core.levels.causal.level import CausalLevel
from whence.core.levels.causal.settings import Settings
from whence.core.levels.causal.tree.coding import HeaderCoding
from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.record import Record
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.topology import OverlaySettings, overlay_of
from whence.sim.cluster import Cluster
from whence.sim.explore import explore, judged
from whence.sim.faults import ScenarioScheduler
from whence.sim.lab import spec_of
from whence.sim.recorder import Recorder
from whence.sim.run import describe, run
from whence.sim.scenario import Fault
from whence.sim.scenarios import simulation
from whence.sim.scenarios.tree import crash_recovery, crashes_within
from whence.sim.swarm import draw
from whence.trace.memory import Trace
from whence_lab.experiments.headers import scenario
from whence_lab.mutants import find, mutants_of

pytestmark = pytest.mark.no_cover

PARTS = 4
RIVALS = ("cbcast", "barriers", "neighbourhood")


@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_on_a_tree_breaks_a_promise(part: int, long_mode: bool) -> None:
    """120 schedules, 10,000 in long mode: f from 1 to 3, crashes with torn writes, mistakes, loss, slow links."""
    schedules = (10_000 if long_mode else 120) // PARTS
    total = explore("causal", schedules, seed=1 + part * schedules, workers=1)
    assert total.broken is None
    assert total.unknown == 0
    assert total.delivered > total.published > schedules


@pytest.mark.parametrize("level", RIVALS)
def test_no_schedule_without_faults_breaks_a_promise_of_a_rival(level: str, long_mode: bool) -> None:
    total = explore(level, 1_000 if long_mode else 60, seed=1, workers=1)
    assert total.broken is None
    assert total.unknown == 0


@pytest.mark.parametrize("name", [mutant.name for mutant in mutants_of("causal")])
def test_a_planted_bug_is_caught_by_the_promise_it_must_break(name: str, long_mode: bool) -> None:
    """And the schedule that shows it shows nothing against the level without the bug."""
    caught = hunted("causal", name, long_mode)
    assert caught.caught
    assert caught.seed is not None
    is_valid = {verdict.promise: verdict.outcome for verdict in judged(draw("causal", caught.seed))[1]}
    assert is_valid[find("causal", name).law] is Outcome.HOLDS


@pytest.mark.parametrize("seed", [596, 1113, 5540, 6023, 101_586])
def test_schedules_that_once_broke_a_promise_hold_now(seed: int) -> None:
    """Late names that nobody waited for; headers told lower than their own dependencies after a fence; copies passed on
    for their forwarder that had been cut for the one who passed them on."""
    assert all(verdict.holds for verdict in judged(draw("causal", seed))[1])


class CutsInSecret(HeaderCoding):
    """Leaves out of copies what is far from their receiver, who passes them on as they came all the same."""

    def header_of(self, record: Record, target: int, *, cut: bool) -> Header:
        return structs.replace(super().header_of(record, target, cut=True), cut=False)


@pytest.mark.long
def test_a_copy_that_was_cut_and_is_passed_on_breaks_causal_order() -> None:
    """E12. It takes two crashes at the right moments: one schedule in some thousands has them, and is searched for."""
    for schedule in (draw("causal", seed) for seed in range(1, 20_000)):
        if schedule.settings.get("spread") == "mesh":
            continue
        broken = [verdict.promise for verdict in judge(run(schedule, CausalLevel(coding=CutsInSecret)).trace)
                  if verdict.outcome is Outcome.BROKEN]  # fmt: skip
        if broken:
            assert broken == ["causal"]
            assert not [verdict for verdict in judge(run(schedule).trace) if verdict.outcome is Outcome.BROKEN]
            return
    pytest.fail("no schedule shows it")


def test_the_swarm_draws_every_kind_of_tree_coding_identity_and_f_and_groups_without_a_tree() -> None:
    drawn = [draw("causal", seed) for seed in range(1, 300)]
    for name, values in (("f", 3), ("coding", 2), ("identity", 2), ("replay", 2), ("held_copies_max", 2)):
        assert len({scenario.settings[name] for scenario in drawn}) == values
    assert len({scenario.shape for scenario in drawn}) == 24
    assert {fault.disk for scenario in drawn for fault in scenario.faults if fault.kind == "crash"} == {"lost", "torn"}


@pytest.mark.parametrize("seed", range(3))
def test_within_f_everybody_gets_everything_and_all_is_forgotten(seed: int) -> None:
    outcome, verdicts = judged(crash_recovery(seed))
    assert outcome.effective["restart"]
    assert [verdict.promise for verdict in verdicts] == list(PROMISES_OF["causal"])
    assert all(verdict.holds for verdict in verdicts)


def test_beyond_f_order_is_kept_and_progress_resumes_when_all_are_back() -> None:
    """Half of the tree is down at once: nothing is promised of time, everything of order."""
    calm = crash_recovery(5)
    down = Fault(kind="crash", at_ns=10**8, until_ns=10**9, nodes=list(range(1, 31, 2)), disk="torn")
    _, verdicts = judged(structs.replace(calm, faults=[down]))
    assert all(verdict.holds for verdict in verdicts)


def test_crashes_within_f_leave_enough_of_every_path_up() -> None:
    overlay = overlay_of(OverlaySettings(tree_nodes=63, f=2))
    faults = crashes_within(overlay, 30, 10**10, seed=3)
    assert len(faults) > 5
    paths = [
        overlay.path(source, target)
        for source in range(overlay.size)
        for target in range(source)
        if overlay.distance(source, target) <= 2 * overlay.f
    ]
    for fault in faults:  # the most are down when one more goes down
        down = {other.nodes[0] for other in faults if other.at_ns <= fault.at_ns < other.until_ns}
        assert all(sum(node in down for node in path) <= overlay.f for path in paths)


@pytest.mark.parametrize("level", ["causal", *RIVALS])
def test_simulations_for_people_hold_what_the_level_promises(level: str) -> None:
    faults = "swarm" if level == "causal" else "none"
    _, verdicts = judged(simulation(level, 15, 30, 1, faults, {"groups": "subtrees"}))
    assert all(verdict.holds for verdict in verdicts)


SHARED = (type, ModuleType, FunctionType, Overlay, Recorder, Settings, TreeSettings)
"""What does not belong to one member alone."""


def size_of(member: object) -> int:
    """Return the bytes of all that belongs to a member alone; the topology is shared by all."""
    seen: dict[int, object] = {}
    edge = [member]
    while edge:
        found = [other for one in edge for other in gc.get_referents(one) if id(other) not in seen]
        edge = [other for other in found if not isinstance(other, SHARED)]
        seen |= {id(other): other for other in edge}
    return sum(map(sys.getsizeof, seen.values()))


def sizes_at_rest(nodes: int, messages: int) -> tuple[float, int]:
    """Return the mean bytes of an inner node after a run has settled, and of its journal."""
    planned = scenario("causal", nodes, 4, messages, ordered_links=True)
    spec = spec_of("causal")
    cluster = Cluster(planned, spec, Trace(describe(planned, spec)).rows)
    cluster.start()
    ScenarioScheduler(cluster, planned).plan()
    cluster.loop.run(planned.end_at_ns)
    members: list[Any] = [process.member for process in cluster.processes.values()]
    assert all(gauge.value == 0 for member in members for gauge in member.gauges() if gauge.must_drain)
    inner = [cluster.processes[node] for node in range(7, 15)]  # their neighbourhoods are whole in all trees used here
    return sum(size_of(process.member) for process in inner) / len(inner), max(each.disk.size for each in inner)


def test_what_a_node_keeps_is_the_same_after_a_run_ten_times_longer_and_in_a_larger_tree() -> None:
    """Bytes of its objects and of its journal, not what it says of itself."""
    short, short_journal = sizes_at_rest(127, 8)
    long, long_journal = sizes_at_rest(127, 80)
    wide, wide_journal = sizes_at_rest(511, 8)
    assert max(long, wide) <= 1.15 * short
    assert max(short_journal, long_journal, wide_journal) <= 64 << 10


def test_memory_is_flat_and_nothing_is_left_however_long_a_run_is() -> None:
    """Ten times the events: no gauge of any node rises higher than a quarter above."""
    highest = []
    for events in (60, 600):
        trace = run(simulation("causal", 15, events, 1, "none", {})).trace
        notes = list(trace.records("note"))  # type: ignore[arg-type]
        highest.append(max(note["value"] for note in notes if note["reason"] == "records"))
        assert all(note["value"] == 0 for note in notes if note["reason"].endswith("_at_rest"))
    assert highest[1] <= highest[0] * 1.25 + 2
