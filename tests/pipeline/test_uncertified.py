"""Runs that no certificate settles are judged as `check` does: more publishers than one pass keeps, several groups,
members that come late."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.check.worlds import any_world, causal_world, copy, swapped
from tests.pipeline.damage import change, value
from tests.pipeline.engines import verify
from tests.pipeline.test_agreement import cells
from whence.check.judge import judge
from whence.pipeline import certificate
from whence.pipeline.certificate import fault_free_runs
from whence.pipeline.events import find_input, read_events
from whence.pipeline.local.session import local_session
from whence.pipeline.promise_tables import PROMISES
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.schema import Kind
from whence.trace.writer import write_trace

PUBLISHERS_MAX = 32


def in_groups(trace: Trace, count: int) -> Trace:
    """Spread what is published over some groups by its publisher; all are members of each."""
    other = copy(trace)
    other.run.groups = {f"g{number}": list(trace.run.nodes) for number in range(count)}
    for kind in (Kind.PUBLISH, Kind.DELIVER):
        for place, row in enumerate(other.rows[kind]):
            change(other, kind, place, grp=f"g{value(kind, row, 'm_pid') % count}")
    return other


def test_many_publishers_groups_and_late_members_are_judged_without_a_certificate(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where 32 publishers are the most that a certificate takes, so that small runs have more."""
    monkeypatch.setattr(certificate, "PUBLISHERS_MAX", PUBLISHERS_MAX)
    many = causal_world(1, PUBLISHERS_MAX + 8, 900)
    made = {"many": many, "groups": in_groups(causal_world(2, 5, 150), 5), "both": in_groups(many, 9)}
    made |= {f"late-{seed}": any_world(seed, 5, 80) for seed in range(3)}
    made |= {f"{name}-swapped": swapped(trace, Random(3)) for name, trace in made.items()}
    assert len({row[6] for row in many.rows[Kind.PUBLISH]}) > PUBLISHERS_MAX
    for name, trace in made.items():
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    with local_session() as local:
        events = read_events(local, find_input([tmp_path]))
        assert not fault_free_runs(events)
    told = {judged.run.run_id: cells(judged.verdicts) for judged in verify(spark, [tmp_path], list(PROMISES)).runs}
    asked = {judged.run.run_id: judged for judged in verify(spark, [tmp_path], list(PROMISES), certify=True).runs}
    for name in made:
        checked = cells(judge(read_trace(tmp_path / f"run_id={name}"), list(PROMISES)))
        assert checked == told[name] == cells(asked[name].verdicts), name
    assert {told[name]["causal"][0] for name in ("many", "groups", "both")} == {"holds"}
    assert "broken" in {told[f"{name}-swapped"]["causal"][0] for name in ("many", "groups", "both")}
