"""Sweeps: every run once, seeds that depend on nothing else, errors kept in their rows, and nothing run twice."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from whence.cli.app import run as command
from whence.cli.output import Paced
from whence.errors import StorageError, UsageError
from whence.pipeline import sweep
from whence.pipeline.experiments import measuring
from whence.pipeline.sweep import read_plan, run_sweep, seed_of, summary_table
from whence.sim.lab import spec_of
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.sim.summary import summarize

PLAN = """
repeat = 2
[grid]
level = ["eventual", "fifo"]
nodes = [4]
events = [5]
fanout = [3, 99999]
"""
GOOD = PLAN.replace(", 99999", "")


def test_a_sweep_runs_what_is_missing_and_keeps_errors(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the plan fails where it is run; it is told so row by row. Then the plan grows, and only the new runs are
    run."""
    monkeypatch.setattr(sweep, "_scenario_of", lambda *_, **__: None)  # here, and not in the workers
    (tmp_path / "plan.toml").write_text(PLAN)
    assert command(["sweep", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out"), "--json"]) == 1
    summed = json.loads(capsys.readouterr().out)
    assert {"fanout" in (row["error"] or "fanout") for row in summed["configurations"]} == {True}
    assert summed["runs"] == 8
    assert sorted((row["runs"], row["errors"]) for row in summed["configurations"]) == [(0, 2), (0, 2), (2, 0), (2, 0)]
    assert command(["sweep", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out")]) == 2
    (tmp_path / "plan.toml").write_text(PLAN.replace("repeat = 2", "repeat = 3"))
    plan = read_plan(tmp_path / "plan.toml")
    monkeypatch.setattr(sweep, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(sweep, "RUNS_IN_FIRST_JOB", 8)
    before = len(list((tmp_path / "out" / "results").glob("job-*")))
    told: list[tuple[int, int]] = []
    done = run_sweep(spark, plan, tmp_path / "out", resume=True, on_progress=lambda *at: told.append(at))
    assert (told[0], told[-1]) == ((8, 12), (12, 12))
    assert told == sorted(told)
    assert {runs for runs, _ in told} & {9, 10, 11}, "the progress of a small sweep shows before its end"
    rows = done.collect()
    assert sorted((row["config"], row["number"]) for row in rows) == sorted(each[:2] for each in plan)
    assert spark.read.parquet(str(tmp_path / "out" / "results" / f"job-{before:05d}")).count() == 4
    one = next(row for row in rows if row["error"] is None and row["level"] == "fifo")
    again = summarize(run(simulation("fifo", 4, 5, one["seed"], "none", {"fanout": 3}), spec_of("fifo", None)).trace)
    assert (one["delivered"], one["latency_ms_p99"]) == (again["delivered"], again["latency_ms"].p99)
    summary = summary_table(done).collect()
    assert all(row["broken_low"] is None or row["broken_low"] <= 0 < row["broken_high"] < 1 for row in summary)


def test_jobs_grow_while_they_are_short_and_shrink_when_they_are_long() -> None:
    assert sweep.next_size(4, 1.0, 1, 500) == 8
    assert sweep.next_size(4, 1.0, 1, 6) == 6
    assert sweep.next_size(8, 10.0, 1, 500) == 8
    assert sweep.next_size(8, 60.0, 1, 500) == 4
    assert sweep.next_size(1, 60.0, 1, 500) == 1


def test_a_job_of_long_runs_has_one_for_each_core() -> None:
    assert sweep.next_size(8, 60.0, 6, 500) == 6
    assert sweep.next_size(6, 600.0, 6, 500) == 6


def test_each_task_has_as_many_runs_as_any_other(spark: SparkSession) -> None:
    def where_it_ran(config: dict[str, object], seed: int) -> dict[str, float]:
        here = TaskContext.get()
        return {"task": here.partitionId() if here is not None else -1}

    plan = sweep.plan_table(spark, [("{}", number, number) for number in range(8)])
    rows = sweep.results_table(plan, 4, measuring(where_it_ran)).collect()
    assert Counter(row["measures"]["task"] for row in rows) == dict.fromkeys(range(4), 2)


def test_of_two_sweeps_into_one_directory_one_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(GOOD)
    plan, refused = read_plan(tmp_path / "plan.toml"), list[str]()

    def second(done: int, of: int) -> None:
        if not refused:
            with pytest.raises(StorageError) as said:
                run_sweep(spark, plan, tmp_path / "out", resume=True)
            refused.append(str(said.value))

    assert run_sweep(spark, plan, tmp_path / "out", resume=False, on_progress=second).count() == len(plan)
    assert "is in use" in refused[0]


def test_progress_is_told_in_lines_where_nobody_watches_and_not_too_often(capsys: pytest.CaptureFixture[str]) -> None:
    seldom, often = Paced("a", 3600), Paced("b", 0)
    for done in (0, 1, 1, 2, 4, 4):
        seldom(done, 4)
        often(done, 4)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if " a: " in line] == ["whence: a: 0 of 4 runs", "whence: a: 4 of 4 runs"]
    assert len(lines) == 2 + 4


def test_runs_of_other_plans_stay_and_are_not_summed_up(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out"), "--resume", "--json"]
    for nodes, others in ((4, 0), (5, 4), (4, 4)):
        (tmp_path / "plan.toml").write_text(GOOD.replace("nodes = [4]", f"nodes = [{nodes}]"))
        assert command(words) == 0
        summed = json.loads(capsys.readouterr().out)
        assert (summed["runs"], summed["other_runs"]) == (4, others)
        assert {json.loads(row["config"])["nodes"] for row in summed["configurations"]} == {nodes}
        assert [row["runs"] for row in summed["configurations"]] == [2, 2]


def test_seeds_depend_on_the_configuration_alone(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(GOOD)
    small = read_plan(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_text(GOOD.replace("nodes = [4]", "nodes = [3, 4]"))
    assert set(small) < set(read_plan(tmp_path / "plan.toml"))
    assert len({seed for _, _, seed in small}) == len(small)
    assert seed_of("{}", 0) == seed_of("{}", 0) != seed_of("{}", 1)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("[grid", "TOML"),
        ("repeat = 0\n[grid]", "repeat"),
        ("[grid]\nlevel = 3", "list"),
        ("[grid]\nlevel = ['x']", "nodes"),
        ("repeat = -1\n[grid]", "from 1 on, not -1"),
        ("repeat = true\n[grid]", "whole number"),
        ("seeds = 4\n[grid]", "seeds is unknown"),
        ("faults = 3\n[grid]", "faults must be"),
        ("[grid]\nlevel = ['fifo']\nnodes = [true]", "nodes"),
        (PLAN, "fanout 99999, .*cannot run: .*fanout"),
        (GOOD.replace("fifo", "nonsense"), "nonsense.* cannot run: .*unknown; there are"),
        (GOOD.replace("fanout", "banana"), "cannot run: .*banana"),
        ("faults = 'swarmm'" + GOOD, "cannot run: .*swarmm"),
        ("faults = 'swarm'" + GOOD.replace("fifo", "cbcast").replace("fanout = [3]", ""), "survives no faults"),
        (GOOD.replace("nodes = [4]", "nodes = [1]"), "nodes 1.*must be from 2"),
        (GOOD.replace("events = [5]", "events = [0]"), "must be from 1"),
    ],
)
def test_a_plan_that_is_none_is_refused_in_one_sentence(tmp_path: Path, plan: str, words: str) -> None:
    (tmp_path / "plan.toml").write_text(plan)
    with pytest.raises(UsageError, match=words):
        read_plan(tmp_path / "plan.toml")
