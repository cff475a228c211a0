"""Gathering on Spark gives the trace that gathering in one process gives, from wherever the segments lie."""

import json
from pathlib import Path
from random import Random

import pytest
from msgspec import structs
from pyspark.sql import SparkSession

from tests.pipeline.conftest import mount_option
from tests.pipeline.kills import command_of, finished, killed
from tests.pipeline.segments import GROUP, LiveNode, live_world
from whence.check.judge import judge
from whence.errors import TraceError, UsageError
from whence.pipeline.gather import SparkGathering, gather_on_spark
from whence.pipeline.storage import UriPath
from whence.trace.gathering import GatheredRun, Gathering, gather
from whence.trace.memory import Row, Trace
from whence.trace.reader import read_trace
from whence.trace.schema import Kind


def rows_of(trace: Trace) -> dict[Kind, list[Row]]:
    return {kind: sorted(rows, key=lambda row: row[:3]) for kind, rows in trace.rows.items()}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_spark_gathers_what_one_process_gathers(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, seed: int
) -> None:
    """Restarts, events handed out twice, lost segments and torn ends; every row once, and the same ones."""
    live_world(tmp_path / "behind" / "nodes", seed)
    one_clock = bool(seed % 2)
    here = gather([tmp_path / "behind" / "nodes"], GROUP, "run", "1", one_clock=one_clock)
    found, where, rows = gather_on_spark(
        spark, [mounted / "nodes"], mounted / "traces", GROUP, "run", "1", one_clock=one_clock
    )
    assert str(where) == f"{mounted}/traces/run_id=run"
    there = read_trace(tmp_path / "behind" / "traces" / "run_id=run")
    assert rows_of(there) == rows_of(here)
    assert rows == here.count()
    assert there.run == structs.replace(here.run, rows=rows), "only a trace that was written says how long it is"
    local = Gathering([tmp_path / "behind" / "nodes"], GROUP, "run", "1", one_clock=one_clock)
    assert (found.incomplete, found.span) == (local.incomplete, local.span)
    assert {v.promise: v.outcome for v in judge(there)} == {v.promise: v.outcome for v in judge(here)}


def test_a_segment_that_grows_is_gathered_as_far_as_it_was_looked_at(
    spark: SparkSession, tmp_path: Path, mounted: UriPath
) -> None:
    """What its process writes between both readings belongs to the next gathering; a run gathered again is replaced."""
    node = LiveNode(tmp_path / "behind" / "nodes", 0)
    node.publish(1)
    place = mounted / "nodes", mounted / "traces"
    for seq in (2, 3):

        def writes(_: GatheredRun, seq: int = seq) -> None:
            node.publish(seq)

        found, _, rows = gather_on_spark(spark, [place[0]], place[1], GROUP, "run", "1", prepare=writes)
        trace = read_trace(tmp_path / "behind" / "traces")
        assert [row["m_seq"] for row in trace.records(Kind.PUBLISH)] == list(range(1, seq))
        assert rows == trace.count()
        assert found.run.nodes == [0, 1, 2], "founders without a trace are missed"
    node.close()


def test_what_cannot_be_gathered_is_told_in_a_sentence(spark: SparkSession, mounted: UriPath, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give the directories that live nodes wrote traces to"):
        gather_on_spark(spark, [mounted / "nowhere"], mounted / "traces", GROUP, "run", "1")
    LiveNode(tmp_path / "behind" / "nodes", 0).close()
    with pytest.raises(TraceError, match="no trace of group 'other' was found"):
        gather_on_spark(spark, [mounted / "nodes"], mounted / "traces", "other", "run", "1")
    (tmp_path / "behind" / "bad").mkdir()
    (tmp_path / "behind" / "bad" / f"spool-{GROUP.encode().hex()}-0-1-000000.rows").write_bytes(b"no segment")
    with pytest.raises(TraceError, match="is no trace segment"):
        gather_on_spark(spark, [mounted / "bad"], mounted / "traces", GROUP, "run", "1")
    assert not (mounted / "traces").exists()


def test_a_segment_that_is_removed_while_it_is_gathered_is_told_in_a_sentence(
    spark: SparkSession, mounted: UriPath, tmp_path: Path
) -> None:
    LiveNode(tmp_path / "behind" / "nodes", 0).close()
    gathering = SparkGathering(spark, [mounted / "nodes"], GROUP)
    next((tmp_path / "behind" / "nodes").iterdir()).unlink()
    with pytest.raises(TraceError, match="a segment was removed while it was gathered"):
        gathering.look("run", "1")
    gathering.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_a_gathering_killed_at_any_moment_leaves_no_run_or_a_whole_one(tmp_path: Path, seed: int) -> None:
    """Five kills each, on a file system without local paths. What is there afterwards is a run with all rows, or none
    that a reader takes for one; started again, it has every row once."""
    live_world(tmp_path / "behind" / "nodes", seed, events=200)
    here = gather([tmp_path / "behind" / "nodes"], GROUP, "live", "1")
    name, behind = mount_option("killed", tmp_path / "behind")
    place = "viewfs://killed/data"
    command = command_of(
        "gather", f"{place}/nodes", "--out", f"{place}/traces", "--group", GROUP,
        settings={f"spark.hadoop.{name}": behind},
    )  # fmt: skip
    rng, run = Random(seed), tmp_path / "behind" / "traces" / "run_id=live"
    kills = 0
    while kills < 5:
        before = {path.name for path in run.glob("*")}
        kills += killed(command, lambda before=before: {path.name for path in run.glob("*")} != before, rng, 4.0)  # type: ignore[misc]
        if (run / "run.json").exists():
            assert rows_of(read_trace(run)) == rows_of(here)
    assert json.loads(finished(command))["rows"] == here.count()
    assert rows_of(read_trace(run)) == rows_of(here)
