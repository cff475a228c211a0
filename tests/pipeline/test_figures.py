"""Figures on Spark: the same seed gives the same data and pictures, and what was interrupted goes on where it was."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, stdev

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from whence.cli.app import run as command
from whence.errors import StorageError, UsageError
from whence.pipeline import experiments, sweep
from whence.pipeline.experiments import MEASURED, STUDENT, band_table, planned
from whence.pipeline.sole_writer import CLAIM
from whence.sim import lab
from whence_lab.figures import cluster_recovery
from whence_lab.figures import reproduce as reproducing
from whence_lab.figures.figure import Figure, Finding, Plan, grid
from whence_lab.figures.reproduce import reproduce

SMALL = cluster_recovery.FIGURE._replace(quick=Plan(grid(scheme=["R1"], events_per_round=[1, 2, 4], rounds=[3]), 2))
"""A real figure with runs so short that a test can afford it."""


def jobs(out: Path, figure: Figure) -> list[Path]:
    """Return the finished jobs of a figure's sweep."""
    return sorted(path.parent for path in (out / figure.name).glob("runs-*/results/job-*/_SUCCESS"))


def test_a_band_is_students_interval_of_the_mean_and_one_run_has_none(spark: SparkSession) -> None:
    values = {"many": [1.0, 2.0, 4.0, 8.0], "one": [3.0]}
    rows = [
        (name, at, 0, {"ms": value}, None) for name, each in values.items() for at, value in enumerate(each)
    ]  # fmt: skip
    table = {row["config"]: row for row in band_table(spark.createDataFrame(rows, MEASURED)).collect()}
    many = table["many"]
    half = STUDENT[2] * stdev(values["many"]) / 2
    assert (many["mean"], many["low"], many["high"]) == pytest.approx((mean(values["many"]), 3.75 - half, 3.75 + half))
    assert (many["least"], many["most"], many["runs"]) == (1.0, 8.0, 4)
    assert (table["one"]["low"], table["one"]["high"]) == (3.0, 3.0)


def test_a_run_without_a_result_is_in_no_band(spark: SparkSession) -> None:
    rows = [("c", 0, 0, {"ms": 1.0}, None), ("c", 1, 0, None, "a bug")]
    (row,) = band_table(spark.createDataFrame(rows, MEASURED)).collect()
    assert row["runs"] == 1


def test_seeds_depend_on_the_configuration_its_number_and_the_seed_that_was_given() -> None:
    small, large = planned(grid(n=[1]), 2), planned(grid(n=[1, 2]), 3)
    assert set(small) < set(large)
    assert not {seed for *_, seed in large} & {seed for *_, seed in planned(grid(n=[1, 2]), 3, seed=7)}


def test_two_runs_give_the_same_data_verdicts_and_pictures(spark: SparkSession, tmp_path: Path) -> None:
    first, again = (reproduce(SMALL, tmp_path / name, quick=True) for name in ("first", "again"))
    assert first == again
    assert first.runs == 6
    assert not first.errors
    for name in (*first.files, "data.parquet", "points.parquet", "verdict.json", "verdict.md"):
        one, other = (tmp_path / each / SMALL.name / name for each in ("first", "again"))
        assert one.read_bytes() == other.read_bytes(), name
    other_seed = reproduce(SMALL, tmp_path / "again", quick=True, seed=1)
    assert other_seed.data != first.data


def test_what_was_interrupted_goes_on_and_ends_with_the_same_data(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job whose end was not written does not count, whatever it left behind; the jobs before it are not run again."""
    monkeypatch.setattr(experiments, "RUNS_PER_JOB", 2)
    whole = reproduce(SMALL, tmp_path, quick=True)
    done = jobs(tmp_path, SMALL)
    assert len(done) == 3
    (done[-1] / "_SUCCESS").unlink()
    shutil.rmtree(done[-2])
    kept = {path: path.stat().st_mtime_ns for path in done[0].iterdir()}
    told: list[tuple[int, int]] = []
    assert reproduce(SMALL, tmp_path, quick=True, on_progress=lambda *at: told.append(at)).data == whole.data
    assert (told[0], told[-1]) == ((2, 6), (6, 6))
    assert {path: path.stat().st_mtime_ns for path in done[0].iterdir()} == kept


def test_of_two_commands_on_the_same_runs_one_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def second(done: int, of: int) -> None:
        if not refused:
            with pytest.raises(StorageError) as said:
                reproduce(SMALL, tmp_path, quick=True)
            refused.append(str(said.value))

    assert reproduce(SMALL, tmp_path, quick=True, on_progress=second).runs == 6
    assert f"--out: {tmp_path / SMALL.name} is in use" in refused[0]
    assert not (tmp_path / SMALL.name / CLAIM).exists()


@pytest.mark.parametrize("how", ["cut", "flipped", "removed"])
def test_a_damaged_file_of_runs_is_named_and_set_aside_and_its_runs_are_run_again(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    whole = reproduce(SMALL, tmp_path, quick=True)
    file = next((tmp_path / SMALL.name).glob("runs-*/results/job-00000/part-*.parquet"))
    data = bytearray(file.read_bytes())
    if how == "removed":
        file.unlink()
    else:
        data[len(data) // 2] ^= 0x55
        file.write_bytes(data if how == "flipped" else data[: len(data) // 2])
    said: list[str] = []
    again = reproduce(SMALL, tmp_path, quick=True, on_message=said.append)
    assert (again, len(said)) == (whole, how != "removed")
    assert all(str(file) in sentence and "damaged" in sentence for sentence in said)
    assert reproduce(SMALL, tmp_path, quick=True, on_message=said.append) == whole
    assert len(said) == (how != "removed"), "it is told once"


def test_runs_that_are_stored_twice_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    reproduce(SMALL, tmp_path, quick=True)
    files = (tmp_path / SMALL.name).glob("runs-*/results/job-00000/part-*.parquet")
    file = max(files, key=lambda each: parquet.read_metadata(each).num_rows)  # a task may have had no run
    shutil.copy(file, file.with_name("part-again.parquet"))
    with pytest.raises(StorageError, match=r"more than once.* remove that directory"):
        reproduce(SMALL, tmp_path, quick=True)


def test_a_run_without_a_result_leaves_sentences_unjudged_and_the_figure_undone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A scheme that is none makes its runs fail; whatever is judged by all runs is not judged."""
    plan = Plan(grid(scheme=["R1", "none such"], events_per_round=[1], rounds=[3]), 2)
    check = SMALL.checks[0]._replace(
        judge=lambda data: Finding(all(band.most >= 0 for _, band in data.curve("events_per_round", "lost")), "")
    )
    result = reproduce(SMALL._replace(quick=plan, checks=[check]), tmp_path, quick=True)
    assert (result.runs, result.planned, len(result.errors)) == (4, 4, 1)
    assert [(each.outcome, each.has_data) for each in result.sentences] == [("not judged", False)]
    assert "2 runs" in result.sentences[0].seen
    assert not result.as_documented


def test_an_interrupted_command_says_in_one_line_how_to_go_on(tmp_path: Path) -> None:
    """The interrupt goes to all processes, as from a terminal; what was whole by then stays."""
    words = ["reproduce", "merge-counter", "--quick", "--out", str(tmp_path), "--master", "local[2]"]
    said = tmp_path / "said"
    with said.open("wb") as stream:
        command = subprocess.Popen([sys.executable, "-m", "whence", *words], start_new_session=True, stderr=stream)
        while not list(tmp_path.glob("merge-counter/runs-*/results/job-00000/_SUCCESS")):
            assert command.poll() is None
            time.sleep(0.05)
        os.killpg(command.pid, signal.SIGINT)
        assert command.wait() == 130
    lines = said.read_text().splitlines()
    assert lines[-1] == "whence: interrupted; the same command goes on with what is missing"
    assert all(line.startswith("whence: merge-counter: ") for line in lines[:-1])
    assert list(tmp_path.glob("merge-counter/runs-*/results/job-00000/_SUCCESS"))


def test_a_full_disk_is_told_with_what_goes_on_here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sweep, "results_table", full)
    with pytest.raises(UsageError, match=r"No space left on device; .* the same command goes on") as said:
        reproduce(SMALL, tmp_path, quick=True)
    assert "--resume" not in str(said.value)
    monkeypatch.undo()
    monkeypatch.setattr(reproducing, "draw", full)
    with pytest.raises(StorageError, match="No space left on device"):
        reproduce(SMALL, tmp_path, quick=True)
    assert not (tmp_path / SMALL.name / "verdict.json").exists()


def test_figures_that_measure_with_the_same_function_share_their_runs(spark: SparkSession, tmp_path: Path) -> None:
    reproduce(SMALL, tmp_path, quick=True)
    kept = {path: path.stat().st_mtime_ns for path in jobs(tmp_path, SMALL)}
    other = SMALL._replace(name="other", quick=Plan(grid(scheme=["R1"], events_per_round=[2, 4, 8], rounds=[3]), 2))
    told: list[tuple[int, int]] = []
    assert reproduce(other, tmp_path, quick=True, on_progress=lambda *at: told.append(at)).runs == 6
    assert told[0] == (4, 6)
    assert set(kept) < set(jobs(tmp_path, SMALL))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_the_command_lists_figures_and_names_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command(["reproduce", "--list", "--json"]) == 0
    assert cluster_recovery.FIGURE.name in json.loads(capsys.readouterr().out)["figures"]
    assert command(["reproduce", "nothing"]) == 2
    assert cluster_recovery.FIGURE.name in capsys.readouterr().err
    monkeypatch.setattr(lab, "installed", lambda: None)
    assert command(["reproduce", "all"]) == 2
    assert "pip install whence-lab" in capsys.readouterr().err


def test_the_command_shows_every_sentence_with_its_verdict(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So short runs need not keep the paper's sentences: then the exit code is 1, and the table says which."""
    monkeypatch.setitem(lab.figures().FIGURES, SMALL.name, SMALL)
    code = command(["reproduce", SMALL.name, "--quick", "--out", str(tmp_path), "--json"])
    (result,) = json.loads(capsys.readouterr().out)["figures"]
    outcomes = [sentence["outcome"] for sentence in result["sentences"]]
    assert len(outcomes) == len(SMALL.checks)
    assert code == (1 if "fails" in outcomes else 0)
    assert command(["reproduce", SMALL.name, "--quick", "--out", str(tmp_path)]) == code
    shown = " ".join(capsys.readouterr().out.split())
    assert "verdict.json" in shown
    rows = (tmp_path / SMALL.name / "verdict.md").read_text().splitlines()[4:]
    assert [row.split("|")[-2].strip(" *") for row in rows] == outcomes
    assert "holds" in shown or "fails" in shown


@pytest.mark.long
def test_a_command_that_is_killed_goes_on_where_it_was_when_it_is_started_again(tmp_path: Path) -> None:
    """Killed with all its workers as soon as its first job is whole: the second start runs only what is missing."""

    def begin(out: str) -> "subprocess.Popen[bytes]":
        words = ["reproduce", "merge-counter", "--quick", "--out", str(tmp_path / out), "--master", "local[2]"]
        return subprocess.Popen([sys.executable, "-m", "whence", *words], start_new_session=True)

    killed = begin("killed")
    first = tmp_path / "killed" / "merge-counter"
    while not list(first.glob("runs-*/results/job-00000/_SUCCESS")):
        assert killed.poll() is None
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert not (first / "verdict.json").exists()
    (kept,) = first.glob("runs-*/results/job-00000/_SUCCESS")
    before = kept.stat().st_mtime_ns
    assert begin("killed").wait() == 0
    assert kept.stat().st_mtime_ns == before
    assert begin("whole").wait() == 0
    for name in ("data.parquet", "verdict.json", "merge-counter.png"):
        assert (first / name).read_bytes() == (tmp_path / "whole" / "merge-counter" / name).read_bytes()
