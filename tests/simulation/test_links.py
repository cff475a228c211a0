"""What was asked of links decides how long a run goes on: no level is blamed for what is still under way at the end."""

import pytest
from msgspec import structs

from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.sim.summary import summarize
from whence.sim.workload import Workload
from whence.trace.schema import Kind


@pytest.mark.parametrize(
    ("level", "nodes", "events", "workload"),
    [
        ("vcube", 13, 60, Workload(latency_ms=150)),
        ("neighbourhood", 13, 60, Workload(latency_ms=150)),
        ("cbcast", 7, 20, Workload(bandwidth=2_000, payload=100)),
        ("gryphon", 7, 20, Workload(loss=0.6)),
        ("causal", 7, 20, Workload(latency_ms=150)),
    ],
)
def test_a_run_over_slow_links_goes_on_until_everything_has_come(
    level: str, nodes: int, events: int, workload: Workload
) -> None:
    outcome = run(simulation(level, nodes, events, 3, workload=workload))
    summary = summarize(outcome.trace)
    assert summary["delivered"] == summary["deliveries_expected"]
    assert Outcome.BROKEN not in [verdict.outcome for verdict in judge(outcome.trace)]


@pytest.mark.parametrize(
    "workload",
    [Workload(latency_ms=120), Workload(latency_ms=500), Workload(rate=300, payload=1000, bandwidth=500_000)],
)
def test_a_merge_over_links_slower_than_delta_is_not_blamed_for_what_it_leaves_out(workload: Workload) -> None:
    """It promises that everything comes where delays are within δ. What it skips, it tells."""
    outcome = run(simulation("total", 5, 20, 3, workload=workload))
    verdicts = {verdict.promise: verdict.outcome for verdict in judge(outcome.trace)}
    assert verdicts["agreement"] is verdicts["liveness"] is Outcome.UNKNOWN
    assert Outcome.BROKEN not in verdicts.values()
    summary = summarize(outcome.trace)
    assert summary["delivered"] < summary["deliveries_expected"]
    assert summary["delivered"] + summary["skipped"] == summary["deliveries_expected"]


def test_usual_links_change_nothing() -> None:
    usual = simulation("causal", 7, 20, 3)
    assert (
        simulation("causal", 7, 20, 3, workload=Workload(latency_ms=20, bandwidth=10**9)).end_at_ns == usual.end_at_ns
    )
    merge = simulation("total", 7, 20, 3, workload=Workload(latency_ms=99))
    assert merge.live_until_ns == simulation("total", 7, 20, 3).live_until_ns > 0


def test_nobody_has_a_latency_where_nobody_else_got_anything() -> None:
    outcome = run(simulation("eventual", 3, 5, 3, workload=Workload(loss=1.0)))
    assert outcome.trace.rows[Kind.DELIVER]
    assert set(structs.astuple(summarize(outcome.trace)["latency_ms"])) == {None}
