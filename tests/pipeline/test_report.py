"""Measured on Spark: the numbers are the simulator's own, and the page shows them to a person."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.test_verify import tickets_kept
from whence.cli.app import run as command
from whence.mutants import recipe_with
from whence.pipeline.charts import Bar, Line, Span, bar_chart, line_chart, timeline
from whence.pipeline.report import measure
from whence.sim.run import run
from whence.sim.summary import summarize
from whence.sim.workload import simulation
from whence.trace.memory import Trace
from whence.trace.writer import write_trace

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1200,2600",
)  # fmt: skip


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Trace]]:
    """Three runs in one directory: two levels under faults, and one that is all about tickets."""
    directory = tmp_path_factory.mktemp("measured")
    made = {
        level: run(simulation(level, 12, 60, 3, "swarm"), recipe_with(level, None)).trace
        for level in ("eventual", "fifo")
    }
    tickets = tickets_kept()
    tickets.run.run_id = "tickets"
    for trace in (*made.values(), tickets):
        write_trace(directory, trace)
    return directory, made


def test_the_numbers_are_those_of_the_simulator(spark: SparkSession, traces: tuple[Path, dict[str, Trace]]) -> None:
    directory, made = traces
    measured = measure(spark, [directory])
    rows = {row["level"]: row for row in measured.runs}
    for level, trace in made.items():
        want, row = summarize(trace), rows[level]
        for name in (
            "published",
            "delivered",
            "deliveries_expected",
            "skipped",
            "late",
            "duplicates_dropped",
            "packets",
        ):
            assert (level, name, row[name]) == (level, name, want[name])
        assert row["metadata_bytes_max"] == want["metadata_bytes_max"]
        assert row["metadata_bytes_mean"] == pytest.approx(want["metadata_bytes_mean"], abs=0.06)
        assert row["latency_ms_max"] == pytest.approx(want["latency_ms"].max, abs=0.001)
        assert row["latency_ms_p50"] == pytest.approx(want["latency_ms"].p50, rel=0.05)
        windows = [window for window in measured.windows if window["run_id"] == row["run_id"]]
        assert sum(window["delivered"] for window in windows) == row["delivered"]
    assert {row["run_id"] for row in measured.holds} == {"tickets"}


def test_the_page_needs_nothing_else_and_a_browser_shows_it(
    spark: SparkSession, traces: tuple[Path, dict[str, Trace]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every section is there, nothing is loaded from elsewhere, and headless chromium draws more than an empty page."""
    page = tmp_path / "report.html"
    assert command(["report", str(traces[0]), "--out", str(page), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["runs"] == 3
    text = page.read_text(encoding="utf-8")
    for words in ("Verdicts", "Numbers", "Latency, cumulative", "Events delivered", "What order costs", "ticket 001"):
        assert words in text
    assert "<script" not in text
    assert "src=" not in text
    if CHROMIUM is None:
        pytest.skip("no chromium here")
    picture = tmp_path / "report.png"
    subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}", page.as_uri()],
        capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    assert picture.stat().st_size > 50_000


def test_the_tables_are_written_as_parquet(
    spark: SparkSession, traces: tuple[Path, dict[str, Trace]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["metrics", str(traces[0]), "--out", str(tmp_path), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert len(tables) == 4
    assert {"loss", "latency_ms_p99", "hold_ms_p99"} <= set(spark.read.parquet(tables[0]).columns)


def test_charts_draw_what_they_are_given() -> None:
    assert line_chart("t", "x", "y", [Line("a", [(0.0, 1.0), (1.0, 2.0)])]).count("<line") > 1
    assert "nothing to show" in line_chart("t", "x", "y", [Line("a", [(0.0, 1.0)])], log_x=True)
    assert "12 B" in bar_chart("t", "bytes", [Bar("fifo", 12.0, "12 B")])
    assert "p1" in timeline("t", "s", [Span("ticket 1", 0.0, 5.0, "p1")])
