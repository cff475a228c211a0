"""A run in numbers: the same numbers that a dumb recount of the rows gives, in however many slices they come."""

from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.stage import gaps_in_numbers
from whence.check.history import History
from whence.check.judge import judge
from whence.sim.run import run
from whence.sim.scenario import Scenario
from whence.sim.scenarios import simulation
from whence.sim.scenarios.gossip import churn
from whence.sim.summary import Summary, summarize
from whence.sim.swarm import draw
from whence.trace.memory import Trace
from whence.trace.schema import Kind

SCENARIOS = [*(draw("fifo", seed) for seed in range(6)), *(draw("eventual", seed) for seed in range(6, 12)),
             simulation("fifo", 8, 12, 1), churn("fifo", 20, 30, 1)]  # fmt: skip


@cache
def trace_of(seed: int) -> Trace:
    return run(draw("fifo", seed)).trace


def recounted(trace: Trace) -> dict[str, Any]:
    """Count everything one by one, as slowly as it takes."""
    published = {(row["m_pid"], row["m_inc"], row["m_seq"]): row["t_true"] for row in trace.records(Kind.PUBLISH)}
    delivers = list(trace.records(Kind.DELIVER))
    latencies = sorted(
        (row["t_true"] - published[row["m_pid"], row["m_inc"], row["m_seq"]]) / 1e6
        for row in delivers
        if row["node"] != row["m_pid"]
    )
    sizes = [row["stamp_bytes"] for row in trace.records(Kind.SEND)]
    stays = History(trace).stays
    owed = [
        (process, event)
        for event, at in published.items()
        for process, each in stays.items()
        if any(stay.since <= at < stay.until for stay in each)
    ]
    met = {(row["node"], (row["m_pid"], row["m_inc"], row["m_seq"])) for row in delivers}
    phases = trace.run.phases
    late = [(process, event) for process, event in owed if phases is None or published[event] >= phases.live_from]
    return {
        "published": len(published),
        "delivered": len(delivers),
        "deliveries_expected": len(owed),
        "owed_delivered": len({(process[0], event) for process, event in owed} & met),
        "healed_expected": len(late),
        "healed_delivered": len({(process[0], event) for process, event in late} & met),
        "late": len(list(trace.records(Kind.LATE))),
        "skipped": sum(len(row["ids"]) for row in trace.records(Kind.GAP)),
        "duplicates_dropped": sum(row["reason"] == "duplicate" for row in trace.records(Kind.DROP)),
        "metadata_bytes_mean": round(sum(sizes) / len(sizes), 1),
        "metadata_bytes_max": max(sizes),
        "packets": len(sizes),
        "rows": sum(len(rows) for rows in trace.rows.values()),
        "latency_max": round(latencies[-1], 3),
        "latency_p50": round(latencies[len(latencies) // 2], 3),
        "latency_p99": round(latencies[len(latencies) * 99 // 100], 3),
    }


@pytest.mark.no_cover
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.level}-{scenario.seed}")
def test_a_summary_has_the_numbers_of_a_dumb_recount(scenario: Scenario) -> None:
    trace = run(scenario).trace
    summary = summarize(trace)
    latency = summary.pop("latency_ms")
    flat = {"latency_max": latency.max, "latency_p50": latency.p50, "latency_p99": latency.p99}
    assert summary | flat == recounted(trace)
    assert gaps_in_numbers(trace.rows) == []


@given(st.integers(0, 3), st.lists(st.integers(1, 2**40), max_size=4))
def test_a_trace_summed_up_in_slices_of_time_has_the_numbers_of_the_whole(seed: int, cuts: list[int]) -> None:
    trace = trace_of(seed)
    edges = [0, *sorted(cuts), 2**62]
    summary = Summary(trace.run)
    for since, until in pairwise(edges):
        part = Trace(trace.run)
        for kind, rows in trace.rows.items():
            part.rows[kind] = [row for row in rows if since <= row[4] < until]
        summary.add(part)
    assert summary.result() == summarize(trace)


def test_a_run_in_which_nothing_happens_has_a_summary_too() -> None:
    summary = summarize(run(Scenario(level="fifo", seed=1, nodes=2, end_at_ns=1)).trace)
    assert (summary["published"], summary["delivered"], summary["metadata_bytes_mean"]) == (0, 0, 0.0)
    assert summary["latency_ms"].max is None


@pytest.mark.parametrize(("level", "nodes", "events", "seed"), [("scribe", 13, 60, 42), ("eventual", 20, 90, 5)])
def test_what_is_expected_after_healing_is_what_agreement_judges(
    level: str, nodes: int, events: int, seed: int
) -> None:
    """Scribe loses some of what it is owed in all, and nothing of what it promises: the summary tells both."""
    trace = run(simulation(level, nodes, events, seed, "swarm")).trace
    (verdict,) = judge(trace, ["agreement"])
    facts = summarize(trace)
    told = f"{facts['healed_delivered']:,} of {facts['healed_expected']:,} expected deliveries were made"
    assert verdict.sentence.startswith(told), verdict.sentence
    assert facts["healed_expected"] < facts["deliveries_expected"]
    assert facts["owed_delivered"] <= facts["deliveries_expected"]
