"""Faults happen when the scenario says, count when they did something, and end when the run heals."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.sim.stage import gaps_in_numbers
from tests.sim.world import ONE_MS, SECOND
from whence.sim.network import NetworkModel
from whence.sim.run import Outcome, run
from whence.sim.scenario import Act, Clocks, Fault, Publish, Scenario
from whence.trace.schema import Kind

QUIET = {"rounds": 5, "idle_rounds": 1, "view": "full"}


def outcome_of(*faults: Fault, publishes: Iterable[Publish] = (), **scenario: Any) -> Outcome:
    """Run five members for ten seconds, healed after six."""
    given: dict[str, Any] = {"level": "fifo", "seed": 1, "nodes": 5, "settings": QUIET, "heal_at_ns": 6 * SECOND}
    network = NetworkModel(latency=ONE_MS)
    outcome = run(Scenario(**given | {"network": network} | scenario, faults=list(faults), publishes=list(publishes)))
    assert gaps_in_numbers(outcome.trace.rows) == []
    return outcome


def fault(kind: Any, at: float, until: float = 0, nodes: Iterable[int] = (), **more: Any) -> Fault:
    return Fault(kind=kind, at_ns=int(at * SECOND), until_ns=int(until * SECOND), nodes=list(nodes), **more)


def times(outcome: Outcome, kind: Kind, node: int | None = None) -> list[float]:
    return [
        row["t_true"] / SECOND for row in outcome.trace.records(kind) if node is None or row["node"] == node
    ]  # fmt: skip


@pytest.mark.parametrize("disk", ["lost", "torn", "wiped"])
def test_a_crashed_process_is_silent_from_its_crash_to_its_restart_and_then_joins_again(disk: Any) -> None:
    outcome = outcome_of(fault("crash", 1, 3, [2], disk=disk))
    assert times(outcome, Kind.CRASH) == [1]
    assert times(outcome, Kind.RESTART) == [3]
    assert not any(1 < time < 3 for time in times(outcome, Kind.SEND, 2) + times(outcome, Kind.RECV, 2))
    assert any(time > 3 for time in times(outcome, Kind.JOIN, 2))
    assert (outcome.effective[f"crash_{disk}"], outcome.effective["restart"]) == (1, 1)


def test_a_crash_without_end_is_for_good() -> None:
    outcome = outcome_of(fault("crash", 1, nodes=[2]))
    assert times(outcome, Kind.RESTART) == []
    assert max(times(outcome, Kind.SEND, 2)) <= 1


def test_a_crash_that_should_end_after_healing_ends_when_the_run_heals() -> None:
    assert times(outcome_of(fault("crash", 1, 9, [2])), Kind.RESTART) == [6]


def test_a_crash_of_what_is_down_is_no_fault() -> None:
    outcome = outcome_of(fault("crash", 1, 4, [2]), fault("crash", 2, 3, [2]))
    assert outcome.effective["crash_lost"] == 1
    assert times(outcome, Kind.RESTART) == [4]


def test_a_crash_for_good_is_not_undone_by_the_end_of_an_earlier_one() -> None:
    outcome = outcome_of(
        fault("pause", 0.5, 2, [2]), fault("crash", 1, 4, [2], between_effects=True), fault("crash", 1.5, nodes=[2])
    )
    assert times(outcome, Kind.CRASH) == [1.5]
    assert times(outcome, Kind.RESTART) == []


def test_a_crash_between_effects_that_found_none_before_its_end_never_happens() -> None:
    """A paused process does nothing, so its doom does not strike; when it runs again the fault is long over."""
    outcome = outcome_of(fault("pause", 1, 4, [2]), fault("crash", 2, 3, [2], between_effects=True))
    assert times(outcome, Kind.CRASH) == []
    assert outcome.effective["crash_between_effects"] == 0


def test_nothing_crashes_because_of_healing() -> None:
    outcome = outcome_of(fault("pause", 1, 9, [2]), fault("crash", 2, nodes=[2], between_effects=True))
    assert times(outcome, Kind.CRASH) == []
    assert any(time > 6 for time in times(outcome, Kind.SEND, 2))


def test_no_fault_begins_once_the_run_is_healed() -> None:
    outcome = outcome_of(
        fault("crash", 7, 8, [1]), fault("partition", 7, 8, [2]), fault("pause", 7, 8, [3]), fault("join", 7, nodes=[9])
    )
    assert outcome.effective == {}


def test_a_paused_process_does_nothing_and_then_goes_on_in_the_same_life() -> None:
    outcome = outcome_of(fault("pause", 1, 3, [2]))
    assert not any(1 < time < 3 for time in times(outcome, Kind.SEND, 2) + times(outcome, Kind.RECV, 2))
    assert any(time >= 3 for time in times(outcome, Kind.SEND, 2))
    assert {row["inc"] for row in outcome.trace.records(Kind.SEND)} == {1}
    assert outcome.effective["pause"] == 1


def test_a_newcomer_joins_once() -> None:
    outcome = outcome_of(fault("join", 1, nodes=[7]), fault("join", 2, nodes=[7]))
    assert len(times(outcome, Kind.JOIN, 7)) == 1
    assert outcome.effective["join"] == 1


def test_a_member_that_leaves_says_so_and_is_silent_afterwards() -> None:
    outcome = outcome_of(fault("leave", 1, nodes=[2]), fault("leave", 5, nodes=[2]))
    (left,) = times(outcome, Kind.LEAVE)
    assert 1 < left < 5
    assert max(times(outcome, Kind.SEND, 2)) <= left
    assert outcome.effective["leave"] == 1


def test_a_clock_that_jumps_shows_in_the_rows_from_then_on() -> None:
    outcome = outcome_of(fault("clock_jump", 2, nodes=[1], amount=-5e9))
    ahead = {
        (row["t_true"] >= 2 * SECOND, row["t_clk"] - row["t_true"])
        for row in outcome.trace.records(Kind.SEND)
        if row["node"] == 1
    }
    assert ahead == {(False, 0), (True, -5 * SECOND)}
    assert outcome.effective["clock_jump"] == 1


def test_clocks_are_drawn_within_what_the_scenario_allows() -> None:
    outcome = outcome_of(nodes=20, clocks=Clocks(offset_ns=1000, drift_ppm=50))
    at_the_start = {row["node"]: row["t_clk"] for row in outcome.trace.records(Kind.JOIN)}
    assert all(abs(offset) <= 1000 for offset in at_the_start.values())
    assert len(dict.fromkeys(at_the_start.values())) > 10
    drifts = [
        abs(row["t_clk"] - row["t_true"] - at_the_start[row["node"]]) / row["t_true"]
        for row in outcome.trace.records(Kind.SEND)
    ]
    assert 10e-6 < max(drifts) <= 51e-6


@pytest.mark.parametrize(
    "trouble",
    [
        fault("cut", 1, 3, [0], others=[1, 2, 3, 4]),
        fault("partition", 1, 3, [0]),
        fault("burst", 1, 3, amount=1.0),
        fault("slow", 1, 3, [0], amount=100.0),
    ],
    ids=lambda trouble: str(trouble.kind),
)
def test_a_fault_of_the_network_lasts_from_its_beginning_to_its_end(trouble: Fault) -> None:
    """Member 0 publishes before, in and after it; only what it publishes in it is late at the others."""
    publishes = [Publish(at_ns=at * SECOND // 10, node=0) for at in (2, 13, 45)]
    outcome = outcome_of(trouble, publishes=publishes, level="eventual")
    took = {
        (row["m_seq"]): row["t_true"] - publishes[row["m_seq"] - 1].at_ns
        for row in outcome.trace.records(Kind.DELIVER)
        if row["node"] == 1
    }
    usual = SECOND // 2
    assert took[1] < usual
    assert took[3] < usual
    assert 2 not in took or took[2] > took[1]
    assert outcome.effective[trouble.kind] > 0


def test_what_nobody_can_publish_is_counted_and_not_published() -> None:
    publishes = [Publish(at_ns=2 * SECOND, node=2), Publish(at_ns=2 * SECOND, node=3), Publish(at_ns=2, node=99)]
    outcome = outcome_of(fault("crash", 1, 4, [2]), publishes=publishes)
    assert [row["node"] for row in outcome.trace.records(Kind.PUBLISH)] == [3]
    assert outcome.effective["publish_refused"] == 1


def test_published_payloads_have_the_size_the_scenario_says_and_differ() -> None:
    outcome = outcome_of(publishes=[Publish(at_ns=SECOND, node=1, events=5, size=40), Publish(at_ns=2, node=2, size=0)])
    rows = list(outcome.trace.records(Kind.PUBLISH))
    assert sorted(row["payload_bytes"] for row in rows) == [0, 40, 40, 40, 40, 40]
    assert len(dict.fromkeys(row["payload_crc"] for row in rows)) == 6


def test_an_act_no_member_of_the_level_knows_is_refused_in_the_trace_and_nothing_else() -> None:
    outcome = outcome_of(acts=[Act(at_ns=SECOND, node=1, name="fly")])
    assert outcome.effective == {}
    assert len(outcome.trace.rows[Kind.REJECT]) == 1
