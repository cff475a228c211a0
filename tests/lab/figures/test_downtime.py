"""Downtime is read from the trace: how long nodes were down in all, and at the longest without recovering."""

import pytest

from whence.sim.run import run
from whence.sim.scenario import MS
from whence.trace.memory import Trace
from whence_lab.experiments.downtime import Downtime, crashing, downtime

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
