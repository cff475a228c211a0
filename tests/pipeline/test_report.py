"""Measured on Spark: the numbers are the simulator's own, and the page shows them to a person."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.check.trace_builder import TraceBuilder
from tests.pipeline.test_verify import tickets_kept
from whence.cli.app import run as command
from whence.pipeline.charts import Bar, Line, Span, bar_chart, line_chart, timeline
from whence.pipeline.columns import AFTER_ALL
from whence.pipeline.report import (
    ROWS_SHOWN,
    RUNS_PLOTTED,
    Measured,
    _costs,
    _curve,
    _rates,
    _tickets,
    measure,
    report_page,
)
from whence.pipeline.verify import Verified
from whence.sim.lab import spec_of
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.sim.summary import summarize
from whence.trace.memory import Trace
from whence.trace.schema import Kind
from whence.trace.writer import write_trace
from whence.types import EventId

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1200,2600",
)  # fmt: skip


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Trace]]:
    """Six runs in one directory: two levels under faults, one with groups, one about tickets, and two live ones."""
    directory = tmp_path_factory.mktemp("measured")
    made = {
        level: run(simulation(level, 12, 60, 3, "swarm"), spec_of(level, None)).trace for level in ("eventual", "fifo")
    }
    subtrees = simulation("causal", 12, 24, 3, "none", {"groups": "subtrees"})
    made["causal"] = run(subtrees, spec_of("causal", None)).trace
    by_hand = {"tickets": tickets_kept(), "live": live_trace(), "half-told": live_trace((0, 1), asks=True)}
    for run_id, trace in by_hand.items():
        trace.run.run_id = run_id
    for trace in (*made.values(), *by_hand.values()):
        write_trace(directory, trace)
    return directory, made


def live_trace(joins_told: Sequence[int] = (0, 1, 2), *, asks: bool = False) -> Trace:
    """Three processes without true time that join one by one; the third misses an event, and leaves.

    It also delivers what was published before it came, the first waits for an event, and the second asks for one of two
    that it misses.
    """
    builder = TraceBuilder(founders=(), level="optimistic")

    def turn(kind: Kind, node: int) -> None:
        builder.row(kind, node, t_true=None) if node in joins_told else builder.row(Kind.NOTE, node, t_true=None)

    def told(node: int, *receivers: int, dests: Sequence[int] | None = None) -> EventId:
        event = builder.publish(node, dests, t_true=None)
        for receiver in receivers:
            builder.deliver(receiver, event, t_true=None, hold_ns=5 if receiver == 0 else 0)
        return event

    turn(Kind.JOIN, 0)
    turn(Kind.JOIN, 1)
    first = told(0, 0, 1)
    turn(Kind.JOIN, 2)
    builder.deliver(2, first, t_true=None)
    told(1, 0, 1, 2)
    told(0, 0, 1)
    turn(Kind.LEAVE, 2)
    told(1, 0, 1)
    told(0, 0, dests=(0,))
    if asks:
        builder.row(Kind.NOTE, 1, t_true=None, reason="recovered", value=3)
        builder.gap(1, EventId(0, 1, 90))
    return builder.trace


@pytest.fixture(scope="module")
def measured(spark: SparkSession, traces: tuple[Path, dict[str, Trace]]) -> Measured:
    return measure(spark, [traces[0]])


def test_the_numbers_are_those_of_the_simulator(measured: Measured, traces: tuple[Path, dict[str, Trace]]) -> None:
    made = traces[1]
    rows = {row["level"]: row for row in measured.runs}
    counts = ("published", "delivered", "deliveries_expected", "skipped", "late", "duplicates_dropped", "packets")
    for level, trace in made.items():
        want, row = summarize(trace), rows[level]
        for name in counts:
            assert (level, name, row[name]) == (level, name, want[name])
        assert row["metadata_bytes_max"] == want["metadata_bytes_max"]
        assert row["metadata_bytes_mean"] == pytest.approx(want["metadata_bytes_mean"], abs=0.06)
        assert row["latency_ms_max"] == pytest.approx(want["latency_ms"].max, abs=0.001)
        assert row["latency_ms_p50"] == pytest.approx(want["latency_ms"].p50, rel=0.05)
        windows = [window for window in measured.windows if window["run_id"] == row["run_id"]]
        assert sum(window["delivered"] for window in windows) == row["delivered"]
    assert {row["run_id"] for row in measured.holds} == {"tickets"}


def test_loss_is_of_what_was_owed_and_unknown_where_nobody_can_say(
    measured: Measured,
) -> None:
    """Events for some are owed to these alone; without true time the clocks say who was a member when."""
    (causal,) = (row for row in measured.runs if row["level"] == "causal")
    assert causal["delivered"] == causal["deliveries_expected"] < 12 * causal["published"]
    assert causal["loss"] == 0
    (live,) = (row for row in measured.runs if row["run_id"] == "live")
    assert (live["delivered"], live["deliveries_expected"], live["owed_delivered"]) == (11, 11, 10)
    assert live["loss"] == pytest.approx(1 / 11)
    (half_told,) = (row for row in measured.runs if row["run_id"] == "half-told")
    assert (half_told["deliveries_expected"], half_told["loss"]) == (None, None)


def test_what_only_waited_was_not_recovered(measured: Measured) -> None:
    """Recovered is what was missed, asked for and came, as a part of that and of what was given up."""
    rows = {row["run_id"]: row for row in measured.runs}
    assert (rows["live"]["held"], rows["live"]["recovered"]) == (5, None)
    assert (rows["half-told"]["recoveries"], rows["half-told"]["skipped"]) == (3, 1)
    assert rows["half-told"]["recovered"] == 0.75


def test_no_run_has_more_owed_deliveries_than_are_expected(
    measured: Measured, traces: tuple[Path, dict[str, Trace]]
) -> None:
    rows = {row["level"]: row for row in measured.runs if row["run_id"] not in ("live", "half-told", "tickets")}
    for level, trace in traces[1].items():
        want = summarize(trace)
        assert rows[level]["owed_delivered"] == want["owed_delivered"] <= want["deliveries_expected"]


def row_of(**columns: Any) -> Row:
    return Row(**columns)


def test_costs_of_simulated_and_of_live_runs_are_shown_apart() -> None:
    names = ("latency_ms_p50", "latency_ms_p99", "hold_ms_p99", "metadata_bytes_mean")
    runs = [
        row_of(run_id=name, level="fifo", **dict.fromkeys(names, value)) for name, value in (("s", 90.0), ("l", 1.0))
    ]
    text = "".join(_costs(Measured(runs, [], [], [], frozenset({"s"}))))
    assert "fifo, simulated" in text
    assert "fifo, live" in text
    assert "45.5" not in text


def test_every_run_is_drawn_or_the_page_says_how_many_are_not() -> None:
    def curves(runs: int) -> str:
        points = [row_of(run_id=f"run-{at:02d}", percent=p, latency_ms=p / 10) for at in range(runs) for p in (0, 50)]
        return _curve(Measured([], [], points, []))

    assert all(f"run-{at:02d}" in curves(10) for at in range(10))
    assert "more runs are not drawn" not in curves(10)
    assert f"{3} more runs are not drawn" in curves(RUNS_PLOTTED + 3)


def test_rates_of_a_run_are_over_all_its_groups() -> None:
    rows = [row_of(run_id="a", window=at, window_ns=10**9, published=2, delivered=3) for at in (0, 0, 10**9, 10**9)]
    published, delivered = _rates(Measured([], rows, [], []))
    assert published.count('stroke-width="2"') == delivered.count('stroke-width="2"') == 1


def test_tickets_are_drawn_from_the_first_moment_of_their_run_and_for_every_run() -> None:
    began = 1_790_000_000 * 10**9
    holds = [row_of(run_id=run_id, ticket=1, node=2, epoch=3, since=None, until=None, since_clk=began + since,
                    until_clk=AFTER_ALL if since else began + 4 * 10**9)
             for run_id in ("a", "b") for since in (0, 5 * 10**9)]  # fmt: skip
    text = _tickets(Measured([], [], [], holds))
    assert "Tickets of a" in text
    assert "Tickets of b" in text
    assert "5 seconds" in text
    assert " M " not in text


def test_the_table_of_numbers_names_groups_and_says_what_it_leaves_out(measured: Measured) -> None:
    live = [row for row in measured.runs if row["run_id"] in ("live", "half-told")]
    many = measured._replace(runs=live * ROWS_SHOWN)
    text = report_page(Verified([], []), many).split("Numbers", 1)[1]
    assert "<th>group</th>" in text
    assert "<td>g</td>" in text
    assert "<td class='n'>unknown</td>" in text
    assert f"and {ROWS_SHOWN} more" in text


def test_the_page_needs_nothing_else_and_a_browser_shows_it(
    spark: SparkSession, traces: tuple[Path, dict[str, Trace]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every section is there, nothing is loaded from elsewhere, and headless chromium draws more than an empty page."""
    page = tmp_path / "report.html"
    assert command(["report", str(traces[0]), "--out", str(page), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["runs"] == 6
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
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what is there already is replaced only if that is asked for."""
    traces, out = str(write_trace(tmp_path / "traces", live_trace())), tmp_path / "out"
    assert command(["metrics", traces, "--out", str(out), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert len(tables) == 4
    assert {"loss", "latency_ms_p99", "hold_ms_p99"} <= set(spark.read.parquet(tables[0]).columns)
    before = sorted(out.rglob("*.parquet"))
    assert command(["metrics", traces, "--out", str(out)]) == 2
    assert "holds run_metrics, window_metrics, latency_cdf, ticket_holds already" in capsys.readouterr().err
    assert sorted(out.rglob("*.parquet")) == before
    assert command(["metrics", traces, "--out", str(out), "--overwrite", "--json"]) == 0
    assert sorted(out.rglob("*.parquet")) != before


def test_charts_draw_what_they_are_given() -> None:
    assert line_chart("t", "x", "y", [Line("a", [(0.0, 1.0), (1.0, 2.0)])]).count("<line") > 1
    assert "nothing to show" in line_chart("t", "x", "y", [Line("a", [(0.0, 1.0)])], log_x=True)
    assert "12 B" in bar_chart("t", "bytes", [Bar("fifo", 12.0, "12 B")])
    assert "p1" in timeline("t", "s", [Span("ticket 1", 0.0, 5.0, "p1")])
