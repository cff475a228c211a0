"""The cost of order: the same workload for everybody, and numbers that mean what they say."""

import pytest

from whence.sim.run import run
from whence.trace.schema import COLUMNS_OF, M_PID, NODE, T_TRUE, Kind
from whence_lab.experiments.ordering_cost import GROWTH, OURS, RATE, SYSTEMS, costs, measured, scenario

MEMBERS, EVENTS = 9, 12


def test_every_system_publishes_the_same_events_at_the_same_moments() -> None:
    told = []
    for name in SYSTEMS:
        publishes = scenario(name, "calm", MEMBERS, EVENTS, 1).publishes[-EVENTS:]
        told.append([(publish.at_ns - publishes[0].at_ns, publish.node, publish.size) for publish in publishes])
    assert all(each == told[0] for each in told)
    assert len(told[0]) == EVENTS


@pytest.mark.parametrize("name", SYSTEMS)
def test_on_a_calm_network_no_small_run_loses_anything(name: str) -> None:
    seen = measured(name, "calm", MEMBERS, EVENTS, 1)
    assert seen["lost_percent"] == 0
    assert seen["latency_ms"] >= 1
    assert seen["latency_p99_ms"] >= seen["latency_ms"]
    assert seen["metadata_bytes"] > 0


def test_what_is_lost_is_counted_and_what_is_held_was_waited_for() -> None:
    name = "total, strict"
    trace = run(scenario(name, "calm", MEMBERS, EVENTS, 1)).trace
    whole = costs(trace, MEMBERS, EVENTS)
    assert whole["latency_ms"] > whole["hold_ms"] > 0
    del trace.rows[Kind.DELIVER][::2]
    assert 40 < costs(trace, MEMBERS, EVENTS)["lost_percent"] < 60


def test_what_is_published_while_trees_grow_does_not_count() -> None:
    planned = scenario("Plumtree", "calm", MEMBERS, EVENTS, 1)
    assert len(planned.publishes) == GROWTH + EVENTS
    trace = run(planned).trace
    counted = {(publish.at_ns, publish.node) for publish in planned.publishes[-EVENTS:]}
    at, node = (COLUMNS_OF[Kind.PUBLISH].index(name) for name in (T_TRUE, NODE))
    whole = costs(trace, MEMBERS, EVENTS)
    event = COLUMNS_OF[Kind.DELIVER].index(M_PID)
    published = {row[event : event + 3] for row in trace.rows[Kind.PUBLISH] if (row[at], row[node]) in counted}
    trace.rows[Kind.DELIVER][:] = [row for row in trace.rows[Kind.DELIVER] if row[event : event + 3] in published]
    assert costs(trace, MEMBERS, EVENTS) == whole


def test_our_levels_are_all_there_and_the_rate_is_that_of_all_publishers() -> None:
    assert {system.level for system in OURS.values()} == {"eventual", "fifo", "optimistic", "causal", "total"}
    publishes = scenario("fifo, direct", "calm", MEMBERS, 10 * RATE, 1).publishes
    assert publishes[-1].at_ns - publishes[0].at_ns == pytest.approx(10e9, rel=0.01)
