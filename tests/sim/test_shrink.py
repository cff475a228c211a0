"""Shrinking: what comes out still breaks, is no larger, cost no more runs than allowed, and cannot be cut further."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from whence.check.verdict import Outcome
from whence.cli.explore import breaks_the_same
from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.topology import OverlaySettings, overlay_of
from whence.sim.explore import hunt, judged
from whence.sim.scenario import Act, Publish, Scenario
from whence.sim.shrink import shrink, size_of
from whence.sim.shrink_living import without_founder
from whence.sim.shrink_tree import without_node
from whence.sim.swarm import draw
from whence_lab.mutants import find

seeds = st.integers(0, 10_000)


class Symptom:
    """A bug by decree: so many faults of a kind and so many events of one member; counts how often it is asked."""

    def __init__(self, kind: str, faults: int, events: int) -> None:
        self.needs = kind, faults, events
        self.asked = 0

    def __call__(self, scenario: Scenario) -> bool:
        self.asked += 1
        return self.shows_in(scenario)

    def shows_in(self, scenario: Scenario) -> bool:
        kind, faults, events = self.needs
        published: Counter[int] = Counter()
        for publish in scenario.publishes:
            published[publish.node] += publish.events
        enough = any(count >= events for count in published.values())
        return enough and sum(fault.kind == kind for fault in scenario.faults) >= faults


def symptom_of(scenario: Scenario) -> Symptom:
    """Return one that the scenario shows: some of its first kind of faults, and some events of its busiest member."""
    kinds = Counter(fault.kind for fault in scenario.faults)
    kind, faults = kinds.most_common(1)[0] if kinds else ("crash", 0)
    published: Counter[int] = Counter()
    for publish in scenario.publishes:
        published[publish.node] += publish.events
    return Symptom(kind, faults, max(1, max(published.values()) // 2))


@given(seeds, st.integers(0, 400))
def test_a_shrunk_scenario_still_breaks_is_no_larger_and_the_budget_is_kept(seed: int, budget: int) -> None:
    scenario = draw("fifo", seed)
    symptom = symptom_of(scenario)
    smallest = shrink(scenario, symptom, budget)
    assert symptom.shows_in(smallest)
    assert size_of(smallest) <= size_of(scenario)
    assert symptom.asked <= budget


@given(seeds)
def test_with_time_enough_nothing_can_be_left_out_of_what_remains(seed: int) -> None:
    scenario = draw("fifo", seed)
    symptom = symptom_of(scenario)
    smallest = shrink(scenario, symptom, 100_000)
    for name in ("faults", "publishes"):
        things = getattr(smallest, name)
        for at in range(len(things)):
            less = structs.replace(smallest, **{name: things[:at] + things[at + 1 :]})
            assert not symptom.shows_in(less)
    assert smallest.nodes == 2
    assert smallest.network.is_calm()
    assert not smallest.clocks.drift_ppm


@given(seeds)
def test_members_that_remain_keep_their_own_faults_and_events_under_new_numbers(seed: int) -> None:
    """Of a member that must stay everything stays: only its number may change."""
    scenario = draw("fifo", seed)
    marked = Publish(at_ns=1, node=scenario.nodes - 1, events=3, size=33)
    scenario = structs.replace(scenario, publishes=[*scenario.publishes, marked])
    smallest = shrink(scenario, lambda smaller: any(p.size == 33 for p in smaller.publishes), 100_000)
    (publish,) = smallest.publishes
    assert (publish.at_ns, publish.events, publish.size) == (1, 1, 33)
    assert 0 <= publish.node < smallest.nodes
    assert smallest.faults == []


def test_a_scenario_that_breaks_however_small_shrinks_to_almost_nothing() -> None:
    smallest = shrink(draw("fifo", 3), lambda _: True)
    assert (smallest.nodes, smallest.faults, smallest.publishes) == (2, [], [])


def test_without_a_budget_nothing_changes() -> None:
    scenario = draw("fifo", 3)
    assert shrink(scenario, lambda _: True, 0) == scenario


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_schedule_that_breaks_the_canary_shrinks_to_one_a_person_can_follow(seed: int) -> None:
    """Two or three members, hardly a fault and a handful of events are enough to overtake somebody."""
    scenario = draw("canary", seed)
    assert breaks_fifo(scenario)
    smallest = shrink(scenario, breaks_fifo, 300)
    assert breaks_fifo(smallest)
    assert size_of(smallest) < size_of(scenario) / 3


@pytest.mark.parametrize("level", ["canary", "optimistic", "causal"])
def test_a_run_that_is_cut_short_is_not_judged_by_what_should_have_come_later(level: str) -> None:
    """Its faults have not stopped, nobody had the time to learn of everybody, and events are still on their way."""
    scenario = draw(level, 1)
    for part in (2, 4, 8):
        shorter = structs.replace(scenario, end_at_ns=scenario.end_at_ns // part)
        outcomes = {verdict.promise: verdict.outcome for verdict in judged(shorter)[1]}
        for promise in outcomes.keys() & {"views", "liveness", "ticket_coverage"}:
            assert outcomes[promise] in (Outcome.UNKNOWN, Outcome.VACUOUS), (part, promise)


def test_a_run_that_is_cut_short_does_not_stand_for_one_in_which_an_event_never_came() -> None:
    scenario = draw("causal", 1)
    shorter = structs.replace(scenario, end_at_ns=scenario.end_at_ns // 8)
    outcome, verdicts = judged(shorter)
    (broken,) = [verdict for verdict in verdicts if verdict.promise == "agreement"]
    assert broken.outcome is Outcome.BROKEN, "nobody told the run that it is over"
    whole, _ = judged(scenario)
    assert breaks_the_same(broken, outcome, None)(shorter)
    assert not breaks_the_same(broken, whole, None)(shorter)


def breaks_fifo(scenario: Scenario) -> bool:
    return any(v.promise == "fifo" and v.outcome is Outcome.BROKEN for v in judged(scenario)[1])


# --- trees ---


def overlay_in(scenario: Scenario) -> Overlay:
    return overlay_of(OverlaySettings(tree=scenario.settings["tree"], groups=scenario.settings["groups"]))


@given(seeds, st.integers(0, 8))
def test_a_tree_without_a_node_is_a_tree_whose_paths_lose_it_or_lead_over_its_heir(seed: int, which: int) -> None:
    scenario = draw("causal", seed)
    gone = which % scenario.nodes
    before, smaller = overlay_in(scenario), without_node(scenario, gone)
    after = overlay_in(smaller)
    assert after.size == smaller.nodes == scenario.nodes - 1
    old = [node for node in range(scenario.nodes) if node != gone]
    heir = before.neighbours(gone)[0]
    for place, node in enumerate(old):
        for other_place, other in enumerate(old):
            way = [step for step in before.path(node, other) if step != gone]
            closed = [old[step] for step in after.path(place, other_place)]
            assert [step for step in closed if step in way] == way
            assert set(closed) <= {*way, heir}
    kept = [publish for publish in scenario.publishes if publish.node != gone]
    assert len(smaller.publishes) <= len(kept)
    for publish in smaller.publishes:
        assert 0 <= publish.node < smaller.nodes
        assert publish.group is not None
        assert publish.group < after.group_count


def test_a_broken_schedule_on_a_tree_is_shrunk_to_a_few_nodes() -> None:
    """A planted bug that four nodes in a line show is not told with nine."""
    mutant = find("causal", "waits_for_nothing")
    seed = hunt("causal", mutant.name, mutant.law, seed=1).seed
    assert seed is not None
    scenario = draw("causal", seed)

    def breaks(smaller: Scenario) -> bool:
        verdicts = judged(smaller, mutant.name)[1]
        return any(verdict.promise == mutant.law and verdict.outcome is Outcome.BROKEN for verdict in verdicts)

    smallest = shrink(scenario, breaks, 150)
    assert breaks(smallest)
    assert smallest.nodes < scenario.nodes
    assert size_of(smallest) < size_of(scenario) // 2


def survivors(act: Act, was: Callable[[int], int] = lambda node: node) -> list[int]:
    """Return the processes that a forced generation names, by bits."""
    return [was(pid) for pid in range(act.argument.bit_length()) if act.argument >> pid & 1]


@given(seeds, st.sampled_from(("causal-living", "total-strict")), st.integers(0, 4))
def test_without_a_founder_nothing_in_a_living_group_names_it_and_the_rest_stay_what_they_were(
    seed: int, kind: str, gone: int
) -> None:
    scenario = draw(kind, seed)
    if gone >= scenario.nodes:
        return
    smaller = without_founder(scenario, gone)
    left = [node for node in range(scenario.nodes) if node != gone]

    def was(node: int) -> int:
        return left[node] if node < smaller.nodes else node

    assert smaller.nodes == scenario.nodes - 1
    assert smaller.settings.get("processes", "").split() == [str(node) for node in range(smaller.nodes)] or (
        "processes" not in scenario.settings
    )
    assert [(was(act.node), act.name, was(act.argument)) for act in smaller.acts if act.name != "force"] == [
        (act.node, act.name, act.argument)
        for act in scenario.acts
        if act.name != "force" and gone not in (act.node, act.argument)
    ]
    assert [(was(act.node), survivors(act, was)) for act in smaller.acts if act.name == "force"] == [
        (act.node, [pid for pid in survivors(act) if pid != gone])
        for act in scenario.acts
        if act.name == "force" and act.node != gone
    ]
    assert [was(publish.node) for publish in smaller.publishes] == [
        publish.node for publish in scenario.publishes if publish.node != gone
    ]
    assert [[was(node) for node in fault.nodes] for fault in smaller.faults] == [
        [node for node in fault.nodes if node != gone] for fault in scenario.faults
    ]
