"""Measured on both engines: the numbers are the simulator's own, and the page shows them to a person."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import Row, SparkSession

from tests.check.trace_builder import TraceBuilder
from tests.pipeline.engines import on_both
from tests.pipeline.test_verify import tickets_kept
from whence.check.diagrams.svg import LEVEL_COLOURS
from whence.check.verdict import Outcome, Verdict
from whence.cli.app import run as command
from whence.pipeline.charts import Bar, Line, Span, bar_chart, line_chart, timeline
from whence.pipeline.columns import AFTER_ALL
from whence.pipeline.page import (
    _NUMBERS,
    ROWS_SHOWN,
    RUNS_PLOTTED,
    Measured,
    _costs,
    _curve,
    _numbers,
    _rates,
    _tickets,
    report_page,
)
from whence.pipeline.page_style import MARKS, NIGHT
from whence.pipeline.report import measure
from whence.pipeline.stories import BrokenPromise
from whence.pipeline.verify import Judged, Verified
from whence.sim.lab import spec_of
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.sim.summary import summarize
from whence.trace.memory import Run, Trace
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
    return on_both(spark, lambda session: measure(session, [traces[0]]), lines_of_numbers)


def lines_of_numbers(measured: Measured) -> list[str]:
    """Return everything that the page is made of, row by row and in the same order."""
    tables = (measured.runs, measured.windows, measured.curve, measured.holds)
    return [str(row.asDict()) for table in tables for row in table]


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


def judged_runs() -> Verified:
    """Two runs: in one a promise is broken, in the other nothing was at stake."""
    wrong = Verdict(promise="fifo", outcome=Outcome.BROKEN, sentence="two came before one", count=1)
    fine = Verdict(promise="no_duplicates", outcome=Outcome.HOLDS, sentence="none came twice")
    none = Verdict(promise="fifo", outcome=Outcome.VACUOUS, sentence="nothing came")
    return Verified([Judged(run_called("b", "causal"), [none]), Judged(run_called("a b", "fifo"), [fine, wrong])], [])


def run_called(run_id: str, level: str) -> Run:
    return msgspec.structs.replace(live_trace().run, run_id=run_id, level=level)


def test_verdicts_are_a_matrix_whose_marks_lead_to_stories_and_reasons() -> None:
    """A row per run, trouble first; a column per promise; every link on the page leads somewhere on it."""
    story = BrokenPromise("a b", "fifo", ["two came before one"], ["one", "two"], "")
    text = report_page(judged_runs(), Measured([], [], [], []), [story])
    matrix = text.split("class='matrix'")[1].split("</table>")[0]
    assert matrix.index("data-run='a b'") < matrix.index("data-run='b'")
    assert matrix.count("<th data-promise=") == 2
    assert [matrix.count(f">{mark}<") for mark in MARKS.values()] == [1, 0, 1, 1]
    assert "href='#story-a%20b-fifo'" in matrix
    assert "href='#why-b-fifo'" in matrix
    links, places = set(re.findall("href='#([^']*)'", text)), set(re.findall("id='([^']*)'", text))
    assert links <= places


def test_one_can_ask_for_a_run_or_a_promise_alone() -> None:
    """What the script hides says whose it is, and each choice is one that the page has."""
    text = report_page(judged_runs(), Measured([], [], [], []))
    assert "<select id='of-run'><option value=''>all</option><option>b</option><option>a b</option>" in text
    assert "<select id='of-promise'><option value=''>all</option><option>fifo</option>" in text
    assert text.count("data-run='a b'") == 1 + 2


def test_plots_say_whose_each_line_is_and_have_round_ticks() -> None:
    points = [row_of(run_id=run_id, percent=at, latency_ms=float(at + 1)) for run_id in ("a", "<b>") for at in (0, 50)]
    drawn = _curve(Measured([], [], points, []))
    assert re.findall('<g data-run="([^"]*)">', drawn) == ["a", "&lt;b&gt;"]
    over_time = line_chart("t", "x", "y", [Line("a", [(3.0, 1.0), (58.2, 2.0)])])
    labels = [float(text) for text in re.findall('text-anchor="middle"[^>]*>([^<]*)<', over_time)]
    assert labels == [10, 20, 30, 40, 50]


def test_what_was_measured_of_no_run_has_no_column() -> None:
    known = {"deliveries_expected": 1, "owed_delivered": 1, "loss": 0.0}
    columns = dict.fromkeys(name for name, _, _ in _NUMBERS) | known
    table = _numbers([row_of(run_id="a", level="fifo", grp="g", **columns)])
    assert re.findall("<th class='n'>([^<]*)", table) == ["expected", "of these delivered", "lost"]


def test_a_level_has_one_colour_everywhere_and_every_colour_its_shade_by_night() -> None:
    runs = [row_of(run_id="a", level="fifo", grp="g", latency_ms_p50=1.0, latency_ms_p99=1.0, hold_ms_p99=1.0,
                   metadata_bytes_mean=1.0)]  # fmt: skip
    points = [row_of(run_id="a", percent=percent, latency_ms=float(percent + 1)) for percent in (0, 50)]
    measured = Measured(runs, [], points, [])
    colour = LEVEL_COLOURS["fifo"]
    assert f'stroke="{colour}"' in _curve(measured)
    assert all(f'fill="{colour}"' in chart for chart in _costs(measured))
    text = report_page(judged_runs(), measured._replace(runs=[]))
    assert f'fill="{colour}"' in text
    drawn = set(re.findall("#[0-9a-f]{6}", "".join([_curve(measured), *_costs(measured)])))
    assert drawn <= set(NIGHT)
    assert all(f'[stroke="{day}"] {{ stroke: {night}; }}' in text for day, night in NIGHT.items())


def test_no_line_is_drawn_where_nothing_was_measured() -> None:
    """Windows 0, 1 and 2, then silence, then 7: a line through three points, and a dot."""
    rows = [row_of(run_id="a", window=at * 10**9, window_ns=10**9, published=2, delivered=3) for at in (0, 1, 2, 7)]
    published, _ = _rates(Measured([], rows, [], []))
    assert published.count("<polyline") == published.count("<circle") == 1
    (points,) = re.findall('points="([^"]*)"', published)
    assert len(points.split()) == 3


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
    assert "src=" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), "nothing is asked of a network"
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
    assert line_chart("t", "x", "y", [Line("a", [(0.0, 1.0), (1.0, 2.0)])]).count("<polyline") == 1
    assert "nothing to show" in line_chart("t", "x", "y", [Line("a", [(0.0, 1.0)])], log_x=True)
    assert "12 B" in bar_chart("t", "bytes", [Bar("fifo", 12.0, "12 B")])
    assert "p1" in timeline("t", "s", [Span("ticket 1", 0.0, 5.0, "p1")])
