"""Downtime is read from the trace: how long nodes were down in all, and at the longest without recovering."""

import pytest

from whence.sim.run import run
from whence.sim.scenario import MS
from whence.trace.memory import Trace
from whence.trace.schema import Kind
from whence_lab.experiments.downtime import (
    _AT,
    _EVENT,
    _NODE,
    Downtime,
    crashing,
    delays,
    downtime,
    planned_ms,
)
from whence_lab.figures.tree_downtime import late

pytestmark = pytest.mark.no_cover

CALM = crashing("causal", 7, 20, 0, 1)


def test_where_nobody_crashes_nobody_was_down() -> None:
    assert downtime(run(CALM).trace, CALM.end_at_ns) == Downtime(0, 0, 0, 0)


def test_downtime_is_what_the_plan_of_crashes_has_up_to_the_moment_of_each() -> None:
    """A crash between two effects comes a little later than planned."""
    planned = crashing("causal", 7, 60, 2, 1)
    spells = [fault.until_ns - fault.at_ns for fault in planned.faults]
    seen = downtime(run(planned).trace, planned.end_at_ns)
    assert seen.crashes == len(spells) == 2
    assert seen.total_ms == pytest.approx(sum(spells) / MS, abs=60)
    assert seen.longest_ms == pytest.approx(max(spells) / MS, abs=60)
    assert seen.longest_ms <= seen.busiest_ms <= seen.total_ms


def test_who_does_not_come_back_is_down_until_the_end() -> None:
    whole = run(crashing("causal", 7, 60, 2, 1)).trace
    trace = Trace(whole.run)
    trace.rows = {kind: rows if kind == "crash" else [] for kind, rows in whole.rows.items()}
    assert downtime(trace, 10_000 * MS).total_ms > downtime(whole, 10_000 * MS).total_ms


def test_what_never_came_counts_with_the_time_to_the_end() -> None:
    whole = run(CALM).trace
    calm = delays(whole, CALM.end_at_ns)
    assert calm.never == 0
    assert calm.around_p50 <= calm.everybody_p99 < 30
    assert calm.around_p99 == calm.everybody_p99
    lost = Trace(whole.run)
    lost.rows = {**whole.rows, Kind.DELIVER: [row for row in whole.rows[Kind.DELIVER] if row[0] != 6]}
    seen = delays(lost, CALM.end_at_ns)
    assert seen.never == pytest.approx(1 / 7, abs=0.05)
    assert seen.around_p50 < 30
    assert seen.everybody_p99 > 19_000


def test_nodes_that_crashed_are_left_out_of_what_goes_around_them() -> None:
    planned = crashing("causal", 15, 60, 3, 1)
    seen = delays(run(planned).trace, planned.end_at_ns)
    assert seen.never == 0
    assert seen.around_p99 < seen.everybody_p99
    assert planned_ms(planned) == sum(fault.until_ns - fault.at_ns for fault in planned.faults) / MS


def test_what_a_node_gave_one_branch_only_before_it_crashed_goes_around_it_where_messages_are_retained() -> None:
    """3.2: a holder names the message with all its numbers, and who asked names it to those further on (4.6)."""
    planned = crashing("causal", 31, 100, 8, 1, retain=True)
    calm, seen = (
        delays(run(each).trace, each.end_at_ns) for each in (crashing("causal", 31, 100, 0, 1, retain=True), planned)
    )
    assert seen.around_p99 <= 2 * calm.around_p99


@pytest.mark.parametrize("leaf", [17, 18])
def test_leaves_whose_parent_and_then_its_parent_crashed_do_not_wait_until_these_are_back(leaf: int) -> None:
    """8 was down until 1,105 ms and 3, to which it is a child, from 1,240 to 2,000 ms: no path has two at a time."""
    planned = crashing("causal", 31, 100, 8, 1, retain=True)
    trace = run(planned).trace
    (back,) = (fault.until_ns for fault in planned.faults if fault.nodes == [3])
    published = {row[_EVENT : _EVENT + 3]: row[_AT] for row in trace.rows[Kind.PUBLISH]}
    came = {row[_EVENT : _EVENT + 3]: row[_AT] for row in trace.rows[Kind.DELIVER] if row[_NODE] == leaf}
    assert came.keys() == published.keys()
    assert max(at - published[event] for event, at in came.items()) < 100 * MS < back - 1_300 * MS


def test_a_delivery_is_late_beyond_the_limit_and_so_is_one_that_never_came() -> None:
    whole = run(CALM).trace
    slowest = delays(whole, CALM.end_at_ns).around_p99
    assert late(whole, CALM.end_at_ns, slowest) == 0
    assert 0 < late(whole, CALM.end_at_ns, slowest - 1) < 1
    lost = Trace(whole.run)
    lost.rows = {**whole.rows, Kind.DELIVER: [row for row in whole.rows[Kind.DELIVER] if row[0] != 6]}
    assert late(lost, CALM.end_at_ns, slowest) == pytest.approx(1 / 7, abs=0.05)
