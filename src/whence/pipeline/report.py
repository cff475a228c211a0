"""The report: one HTML page that needs nothing else, with verdicts, numbers and plots of any number of runs."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from pyspark.sql import Row, SparkSession

from whence import __version__
from whence.check.verdict import Outcome, Verdict
from whence.errors import UsageError
from whence.pipeline.charts import Bar, Line, Span, bar_chart, line_chart, timeline
from whence.pipeline.columns import AFTER_ALL, BEFORE_ALL, RUN_ID
from whence.pipeline.events import Input, find_input
from whence.pipeline.metrics import latency_cdf, measures, run_metrics, ticket_timeline, window_metrics
from whence.pipeline.storage import AnyPath, UriPath, put
from whence.pipeline.stories import BrokenPromise, broken_promises, promises_left_out
from whence.pipeline.verify import Verified, verify

RUNS_PLOTTED = 24
"""Lines in one plot, distinct by colour and dash; where there are more, the page says so, and the tables show all."""
TICKETS_SHOWN = 24
TIMELINES_SHOWN = 6
"""Runs whose tickets are drawn."""
_LEAST_MS = 0.001
"""What takes less is drawn there: a logarithm has no place for 0."""
ROWS_SHOWN = 200

_STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #616e7c; --line: #d9e2ec; --good: #18794e; --bad: #c81e2f; }
body { font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); margin: 0 auto; max-width: 70rem;
       padding: 2.5rem 1.5rem 5rem; background: #fff; }
h1 { font-size: 2rem; margin: 0 0 .25rem; } h2 { margin: 2.5rem 0 .5rem; border-top: 1px solid var(--line);
     padding-top: 1.5rem; } .soft { color: var(--soft); } .lead { font-size: 1.15rem; }
table { border-collapse: collapse; margin: 1rem 0 1.5rem; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; }
.holds { color: var(--good); font-weight: 600; } .broken { color: var(--bad); font-weight: 700; }
.unknown { color: #946200; font-weight: 600; } .vacuous { color: var(--soft); } figure { margin: 1.2rem 0; }
figure svg { max-width: 100%; height: auto; } .wide { overflow-x: auto; } .wide table { font-size: .8rem; }
.wide td, .wide th { padding-right: .5rem; } .wide td:first-child { min-width: 8rem; overflow-wrap: anywhere; }
"""

_NUMBERS = (
    ("published", "published", 0), ("delivered", "deliveries", 0), ("deliveries_expected", "expected", 0),
    ("owed_delivered", "of these delivered", 0), ("loss", "lost", 4),
    ("skipped", "skipped", 0), ("late", "late", 0), ("views", "views", 0),
    ("recovered", "recovered", 3), ("latency_ms_p50", "p50 ms", 1),
    ("latency_ms_p99", "p99 ms", 1), ("hold_ms_p99", "pending p99 ms", 1), ("metadata_bytes_mean", "metadata B", 1),
    ("deliveries_per_second", "per second", 0),
)  # fmt: skip


class Measured(NamedTuple):
    """What the page shows, as rows."""

    runs: list[Row]
    windows: list[Row]
    curve: list[Row]
    holds: list[Row]
    simulated: frozenset[str] = frozenset()
    """The runs that were; the others were live."""


def measure(spark: SparkSession, paths: Sequence[AnyPath], found: Input | None = None) -> Measured:
    """Bring the numbers of all runs below the paths to the report. Raises TraceError."""
    found = find_input(paths) if found is None else found
    simulated = frozenset(run_id for run_id, run in found.runs.items() if "network" in run.parameters)
    with measures(spark, found) as tables:
        return Measured(
            run_metrics(tables).orderBy("level", RUN_ID, "grp").collect(),
            window_metrics(tables).orderBy(RUN_ID, "window").collect(),
            latency_cdf(tables).orderBy(RUN_ID, "percent").collect(),
            ticket_timeline(tables).orderBy(RUN_ID, "ticket", "since").collect(),
            simulated,
        )


def write_report(spark: SparkSession, paths: Sequence[AnyPath], out: AnyPath, found: Input | None = None) -> Verified:
    """Judge and measure all runs and write the page; return the verdicts. Raises TraceError and UsageError."""
    found = find_input(paths) if found is None else found
    judged = verify(spark, paths, found=found)
    write_page(out, report_page(judged, measure(spark, paths, found), broken_promises(found, judged)))
    return judged


def write_page(out: AnyPath, page: str) -> None:
    """Write a page whole or not at all. Raises UsageError and StorageError."""
    if isinstance(out, UriPath):
        put(out, page.encode())
        return
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(page, encoding="utf-8")
        unfinished.replace(out)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UsageError(f"--out: {out} cannot be written: {error.strerror}") from None


def report_page(judged: Verified, measured: Measured, broken: Sequence[BrokenPromise] = ()) -> str:
    """Return the page as text."""
    outcomes = [verdict.outcome for run in judged.runs for verdict in run.verdicts]
    tally = {outcome: outcomes.count(outcome) for outcome in Outcome}
    lead = f"{len(judged.runs):,} runs, {len(outcomes):,} verdicts: {tally[Outcome.HOLDS]:,} hold, "
    lead += f"{tally[Outcome.BROKEN]:,} broken, {tally[Outcome.UNKNOWN]:,} unknown, {tally[Outcome.VACUOUS]:,} vacuous."
    parts = [
        f"<h1>Whence report</h1><p class='lead'>{lead}</p><p class='soft'>version {escape(__version__)}</p>",
        _section(
            "Verdicts",
            "Every promise of every run, judged from its trace alone; vacuous where nothing was at stake.",
            _verdicts(judged),
        ),
        _section("Broken promises", "How they broke, step by step.", _stories(judged, broken)) if judged.broken else "",
        _section("Numbers", "One row per run and group.", _numbers(measured.runs)),
        _section("How long events take", "From publication to delivery at other members.", _curve(measured)),
        _section("Over time", "What the groups published and delivered.", "".join(_rates(measured))),
        _section("What order costs", "Waiting and metadata, level by level.", "".join(map(_figure, _costs(measured)))),
    ]
    if measured.holds:
        parts.append(_section("Tickets", "Who held which ticket when.", _tickets(measured)))
    if judged.set_aside:
        rows = "".join(
            f"<tr><td>{escape(each.path)}</td><td class='n'>{'' if each.rows is None else f'{each.rows:,}'}</td>"
            f"<td>{escape(each.reason)}</td></tr>"
            for each in judged.set_aside
        )
        table = f"<table><tr><th>what</th><th>rows</th><th>why</th></tr>{rows}</table>"
        parts.append(_section("Set aside", "What could not be used.", table))
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>Whence report</title><style>{_STYLE}</style>{''.join(parts)}</html>\n"
    )


def _section(title: str, words: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2><p class='soft'>{escape(words)}</p>{body}"


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>"


def _verdicts(judged: Verified) -> str:
    """Broken promises first."""
    order = {Outcome.BROKEN: 0, Outcome.UNKNOWN: 1, Outcome.HOLDS: 2, Outcome.VACUOUS: 3}
    rows: list[tuple[str, Verdict]] = [(each.run.run_id, verdict) for each in judged.runs for verdict in each.verdicts]
    rows.sort(key=lambda row: order[row[1].outcome])
    lines = "".join(
        f"<tr><td>{escape(run_id)}</td><td>{escape(verdict.promise)}</td>"
        f"<td class='{verdict.outcome}'>{verdict.outcome}</td><td>{escape(verdict.sentence)}</td></tr>"
        for run_id, verdict in rows[:ROWS_SHOWN]
    )
    heads = "<th>run</th><th>promise</th><th>verdict</th><th>because</th>"
    return f"<table><tr>{heads}</tr>{lines}</table>{_more(len(rows))}"


def _stories(judged: Verified, broken: Sequence[BrokenPromise]) -> str:
    parts = []
    for each in broken:
        steps = "".join(f"<li>{escape(step)}</li>" for step in each.steps)
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in each.sentences)
        title = f"{escape(each.run_id)}: <span class='broken'>{escape(each.promise)}</span>"
        parts.append(f"<h3>{title}</h3>{words}<ol>{steps}</ol>{_paragraph(each.more)}")
    return "".join(parts) + _paragraph(promises_left_out(judged, broken))


def _paragraph(words: str) -> str:
    return f"<p class='soft'>{escape(words)}</p>" if words else ""


def _more(rows: int) -> str:
    """Return how many rows a table leaves out, if any."""
    return _paragraph(f"and {rows - ROWS_SHOWN:,} more" if rows > ROWS_SHOWN else "")


def _numbers(runs: list[Row]) -> str:
    head = "".join(f"<th class='n'>{escape(title)}</th>" for _, title, _ in _NUMBERS)
    lines = "".join(
        "<tr>"
        + "".join(f"<td>{escape(row[name])}</td>" for name in (RUN_ID, "grp", "level"))
        + "".join(f"<td class='n'>{_shown(row, name, digits)}</td>" for name, _, digits in _NUMBERS)
        + "</tr>"
        for row in runs[:ROWS_SHOWN]
    )
    heads = f"<th>run</th><th>group</th><th>level</th>{head}"
    return f"<div class='wide'><table><tr>{heads}</tr>{lines}</table></div>{_more(len(runs))}"


def _shown(row: Row, name: str, digits: int) -> str:
    if name in ("deliveries_expected", "owed_delivered", "loss") and row["deliveries_expected"] is None:
        return "unknown"
    return "" if row[name] is None else f"{row[name]:,.{digits}f}"


def _curve(measured: Measured) -> str:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in measured.curve:
        lines.setdefault(row[RUN_ID], []).append((max(row["latency_ms"], _LEAST_MS), row["percent"]))
    return _lines_of("Latency, cumulative", "ms (logarithmic)", "% of deliveries", lines, log_x=True)


def _rates(measured: Measured) -> list[str]:
    charts = []
    first = {row[RUN_ID]: row["window"] for row in reversed(measured.windows)}
    for name, words in (("published", "Events published"), ("delivered", "Events delivered")):
        sums: dict[str, dict[float, float]] = {}
        for row in measured.windows:
            at = (row["window"] - first[row[RUN_ID]]) / 1e9
            of_run = sums.setdefault(row[RUN_ID], {})  # over all its groups
            of_run[at] = of_run.get(at, 0) + row[name] / (row["window_ns"] / 1e9)
        lines = {run_id: sorted(points.items()) for run_id, points in sums.items()}
        charts.append(_lines_of(words, "seconds", "per second", lines))
    return charts


def _lines_of(
    title: str, x: str, y: str, lines: Mapping[str, Sequence[tuple[float, float]]], *, log_x: bool = False
) -> str:
    """Draw a line for each run, and say which are left out."""
    shown = [Line(name, points) for name, points in list(lines.items())[:RUNS_PLOTTED]]
    left = len(lines) - len(shown)
    more = f"{left:,} more runs are not drawn; the tables have them." if left else ""
    return _figure(line_chart(title, x, y, shown, log_x=log_x)) + _paragraph(more)


def _costs(measured: Measured) -> list[str]:
    """Each level by the mean of its runs; a simulated network and a real one are no two samples of one thing."""
    levels: dict[str, list[Row]] = {}
    for row in measured.runs:
        kind = "simulated" if row[RUN_ID] in measured.simulated else "live"
        levels.setdefault(f"{row['level']}, {kind}", []).append(row)
    charts = []
    for column, title, unit in (
        ("latency_ms_p50", "Latency, half of the deliveries", "ms, mean over runs"),
        ("latency_ms_p99", "Latency, 99 of 100 deliveries", "ms, mean over runs"),
        ("hold_ms_p99", "Time pending before delivery, 99 of 100 that waited", "ms, mean over runs"),
        ("metadata_bytes_mean", "Metadata of a packet", "bytes, mean over runs"),
    ):
        bars = []
        for level, rows in levels.items():
            values = [row[column] for row in rows if row[column] is not None]
            if values:
                mean = sum(values) / len(values)
                bars.append(Bar(level, mean, f"{mean:,.1f}"))
        if bars:
            charts.append(bar_chart(title, unit, bars))
    return charts


def _tickets(measured: Measured) -> str:
    """Draw the tickets of each run, and say what is left out."""
    by_run: dict[str, list[Row]] = {}
    for row in measured.holds:
        by_run.setdefault(row[RUN_ID], []).append(row)
    drawn = list(by_run.items())[:TIMELINES_SHOWN]
    left = len(by_run) - len(drawn)
    more = f"{left:,} more runs with tickets are not drawn." if left else ""
    return "".join(_tickets_of(run_id, rows) for run_id, rows in drawn) + _paragraph(more)


def _tickets_of(run_id: str, rows: Sequence[Row]) -> str:
    """Draw who held which ticket of a run when, from its first moment on."""
    since = {at: _first_known(row["since"], row["since_clk"]) for at, row in enumerate(rows)}
    until = {at: _first_known(row["until"], row["until_clk"]) for at, row in enumerate(rows)}
    moments = [at for at in (*since.values(), *until.values()) if at is not None]
    first, last = min(moments, default=0), max(moments, default=0) + 1
    spans = [
        Span(f"ticket {row['ticket']:03d}", ((since[at] or first) - first) / 1e9, ((until[at] or last) - first) / 1e9,
             f"p{row['node']} e{row['epoch']}")
        for at, row in enumerate(rows)
    ]  # fmt: skip
    names = sorted({span.row for span in spans})
    left = len(names) - TICKETS_SHOWN
    more = f"{left:,} more tickets are not drawn." if left > 0 else ""
    picture = timeline(f"Tickets of {run_id}", "seconds", [span for span in spans if span.row in names[:TICKETS_SHOWN]])
    return _figure(picture) + _paragraph(more)


def _first_known(*moments: int | None) -> int | None:
    """Return the first moment that is one: not unknown, nor before or after everything."""
    return next((at for at in moments if at is not None and BEFORE_ALL < at < AFTER_ALL), None)
