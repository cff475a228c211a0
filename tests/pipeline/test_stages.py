"""Whoever waits for Spark sees the stage it is at, how many of its tasks are done, and where its own page is."""

import io
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress

from whence.cli import stages
from whence.cli.stages import Stages, active_stages, stages_shown
from whence.pipeline.local.session import local_session

DEADLINE_S = 120


class Tracker:
    """What Spark tells of its stages; one of them ends while it is asked."""

    def __init__(self, **numbers: tuple[int, int]) -> None:
        self._told = {int(name.removeprefix("stage")): tasks for name, tasks in numbers.items()}

    def getActiveStageIds(self) -> list[int]:
        return [99, *self._told]

    def getStageInfo(self, number: int) -> Any:
        if number not in self._told:
            return None
        done, tasks = self._told[number]
        return SimpleNamespace(stageId=number, numCompletedTasks=done, numTasks=tasks)


def test_the_tasks_of_all_stages_that_run_are_counted_together() -> None:
    assert active_stages(Tracker()) is None
    found = active_stages(Tracker(stage7=(3, 8), stage5=(1, 2)))
    assert found == Stages((5, 7), 4, 10)
    assert found.described(None) == "stages 5, 7"
    assert Stages((5,), 0, 1).described("http://localhost:4040") == "stage 5, see http://localhost:4040"


def test_a_job_on_spark_shows_its_stage_while_it_runs_and_not_afterwards(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "EVERY_S", 0.01)
    seen = tmp_path / "seen"

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        until = monotonic() + DEADLINE_S
        while not seen.exists() and monotonic() < until:
            sleep(0.01)
        yield from batches

    bar = Progress(console=Console(file=io.StringIO(), force_terminal=True))
    task = bar.add_task("judging", total=None)
    job = Thread(target=lambda: spark.range(3).mapInArrow(wait, "id long").count())
    with stages_shown(spark, bar, task):
        job.start()
        until = monotonic() + DEADLINE_S
        while "stage" not in bar.tasks[task].description and monotonic() < until:
            sleep(0.01)
        line = bar.tasks[task].description
        seen.touch()
        job.join()
    assert line.startswith("judging: stage")
    assert bar.tasks[task].description == "judging"


def test_the_local_engine_has_no_stages() -> None:
    bar = Progress(console=Console(file=io.StringIO(), force_terminal=True))
    task = bar.add_task("judging", total=None)
    with local_session() as local, stages_shown(local, bar, task):
        assert bar.tasks[task].description == "judging"
