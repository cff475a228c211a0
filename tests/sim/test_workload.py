"""What a run is asked to carry is what it carries."""

from pathlib import Path
from typing import Any

import pytest

from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.errors import UsageError
from whence.sim.lab import REPAIRING, RIVALS, spec_of
from whence.sim.network import Latency
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.sim.workload import Workload, workload_from
from whence.trace.schema import Kind

LEVELS = ("eventual", "fifo", "optimistic", "causal", "total", "cbcast")


def scenario(level: str, workload: Workload, **more: Any) -> Any:
    return simulation(level, 12, 40, 77, more.get("faults", "none"), more.get("settings", {}), workload)


@pytest.mark.parametrize("level", LEVELS)
def test_rate_payload_publishers_and_bandwidth_are_as_asked_for(level: str) -> None:
    made = scenario(level, Workload(rate=200.0, payload=99, publishers=2, bandwidth=10_000_000))
    times = [publish.at_ns for publish in made.publishes]
    assert len(times) == 40
    assert max(times) - min(times) <= 40 * 5_000_000
    assert max(times) - min(times) >= 30 * 5_000_000
    assert {publish.size for publish in made.publishes} == {99}
    assert len({publish.node for publish in made.publishes}) == 2
    assert made.network.bandwidth_bps == 10_000_000


@pytest.mark.parametrize("level", LEVELS)
def test_without_a_load_a_run_is_what_it_always_was(level: str) -> None:
    assert scenario(level, Workload()) == simulation(level, 12, 40, 77)


def test_the_workload_says_how_many_coordinators_ask_for_tickets() -> None:
    assert len({act.node for act in scenario("optimistic", Workload(coordinators=3)).acts}) == 3
    with pytest.raises(UsageError, match="has none"):
        scenario("fifo", Workload(coordinators=3))
    with pytest.raises(UsageError, match="12 at most"):
        scenario("optimistic", Workload(coordinators=13))
    with pytest.raises(UsageError, match="12 members"):
        scenario("fifo", Workload(publishers=13))


@pytest.mark.parametrize("given", [{"rate": "0"}, {"rate": "x"}, {"payload": -1}, {"publishers": 0}, {"loud": 1}])
def test_a_load_that_cannot_be_is_named(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(given))):
        workload_from(given)


def test_with_recovery_none_nothing_is_asked_for_again() -> None:
    """J section 6: the curve without recovery."""
    asked = {}
    for recovery in ("none", "R1"):
        made = simulation("optimistic", 12, 200, 77, "swarm", {"recovery": recovery, "rounds": 3}, Workload(rate=100.0))
        notes = run(made, spec_of("optimistic", None)).trace.records(Kind.NOTE)
        asked[recovery] = sum(note["reason"] == "recovery_asked" for note in notes)
    assert asked["none"] == 0 < asked["R1"]


def test_links_take_the_latency_and_lose_the_part_that_was_asked_for() -> None:
    asked = simulation("fifo", 5, 10, 1, workload=Workload(latency_ms=1.5, loss=0.25))
    assert asked.network.latency == Latency(shape="constant", low_ns=1_500_000, high_ns=1_500_000)
    assert asked.network.loss == 0.25
    usual = simulation("fifo", 5, 10, 1)
    assert usual.publishes == asked.publishes
    with pytest.raises(UsageError, match="loss"):
        workload_from({"loss": "2"})


@pytest.mark.parametrize("level", [level for level in RIVALS if level != "gryphon"])
def test_a_rival_that_assumes_that_nothing_is_lost_is_not_run_where_something_is(level: str, tmp_path: Path) -> None:
    said = f"{level} promises nothing where links lose copies; .* gryphon"
    with pytest.raises(UsageError, match=f"--loss: {said}"):
        simulation(level, 9, 10, 1, workload=Workload(loss=0.02))
    simulation(level, 9, 10, 1, workload=Workload(loss=0.0))
    if level in REPAIRING:
        for loses in ("[network]\nloss = 0.1", '[[faults]]\nkind = "burst"\nat_ns = 1\nuntil_ns = 9\namount = 0.5'):
            (tmp_path / "faults.toml").write_text(loses)
            with pytest.raises(UsageError, match=f"--faults: .* loses copies, and {said}"):
                simulation(level, 9, 10, 1, str(tmp_path / "faults.toml"))


def test_gryphon_keeps_its_promises_where_copies_are_lost() -> None:
    trace = run(simulation("gryphon", 9, 60, 1, workload=Workload(loss=0.1))).trace
    assert {verdict.outcome for verdict in judge(trace)} <= {Outcome.HOLDS, Outcome.VACUOUS}
