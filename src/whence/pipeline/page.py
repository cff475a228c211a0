"""The page of a report: verdicts as a matrix, the stories of what broke, numbers and plots.

It needs nothing else: no other file, no network. What it says can be read without its script, which only hides what is
not of the run or the promise that one asks for. Colours follow the reader's light or dark setting, and every level has
one wherever it appears.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple
from urllib.parse import quote

from whence import __version__
from whence.check.diagrams.svg import colour_of_level
from whence.check.verdict import Outcome, Verdict
from whence.pipeline.charts import Bar, Line, Span, bar_chart, line_chart, timeline
from whence.pipeline.columns import AFTER_ALL, BEFORE_ALL, RUN_ID
from whence.pipeline.frames import Row
from whence.pipeline.page_style import MARKS, SCRIPT, STYLE
from whence.pipeline.stories import BrokenPromise, promises_left_out
from whence.pipeline.verify import Verified

RUNS_PLOTTED = 24
"""Lines in one plot, distinct by colour and dash; where there are more, the page says so, and the tables show all."""
TICKETS_SHOWN = 24
TIMELINES_SHOWN = 6
"""Runs whose tickets are drawn."""
_LEAST_MS = 0.001
"""What takes less is drawn there: a logarithm has no place for 0."""
ROWS_SHOWN = 200

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


def report_page(judged: Verified, measured: Measured, broken: Sequence[BrokenPromise] = ()) -> str:
    """Return the page as text."""
    outcomes = [verdict.outcome for run in judged.runs for verdict in run.verdicts]
    tally = {outcome: outcomes.count(outcome) for outcome in Outcome}
    lead = f"{len(judged.runs):,} runs, {len(outcomes):,} verdicts: {tally[Outcome.HOLDS]:,} hold, "
    lead += f"{tally[Outcome.BROKEN]:,} broken, {tally[Outcome.UNKNOWN]:,} unknown, {tally[Outcome.VACUOUS]:,} vacuous."
    parts = [
        f"<h1>Whence report</h1><p class='lead'>{lead}</p><p class='soft'>version {escape(__version__)}</p>",
        _filters(judged),
        _section(
            "Verdicts",
            "Every promise of every run, judged from its trace alone; vacuous where nothing was at stake. "
            "A mark leads to its reason, or to the story of how the promise broke.",
            _matrix(judged, broken),
        ),
        _section("Broken promises", "How they broke, step by step.", _stories(judged, broken)) if judged.broken else "",
        _section("Reasons", "Why each verdict is what it is; broken promises first.", _reasons(judged)),
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
        f"<title>Whence report</title><style>{STYLE}</style>{''.join(parts)}<script>{SCRIPT}</script></html>\n"
    )


def _section(title: str, words: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2><p class='soft'>{escape(words)}</p>{body}"


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>"


def _filters(judged: Verified) -> str:
    """Return the two fields that the script shows and reads."""
    runs = [each.run.run_id for each in judged.runs]
    fields = (("run", runs), ("promise", _promises(judged)))
    selects = "".join(
        f"<label>{name} <select id='of-{name}'><option value=''>all</option>"
        + "".join(f"<option>{escape(value)}</option>" for value in values)
        + "</select></label>"
        for name, values in fields
    )
    return f"<form id='filters' hidden>{selects}</form>"


def _promises(judged: Verified) -> list[str]:
    """Return every promise that any run is judged by, in the order of the first run that has it."""
    return list(dict.fromkeys(verdict.promise for each in judged.runs for verdict in each.verdicts))


def _matrix(judged: Verified, broken: Sequence[BrokenPromise]) -> str:
    """Return a row per run and a column per promise; runs with something broken come first."""
    promises, told = _promises(judged), {(each.run_id, each.promise) for each in broken}
    reasons = {_key(run_id, verdict) for run_id, verdict in _ranked(judged)[:ROWS_SHOWN]}
    heads = "".join(
        f"<th data-promise='{escape(name, quote=True)}'><span>{escape(name)}</span></th>" for name in promises
    )
    by_trouble = sorted(judged.runs, key=lambda each: min((_ORDER[v.outcome] for v in each.verdicts), default=9))
    lines = []
    for each in by_trouble[:ROWS_SHOWN]:
        run_id, verdicts = each.run.run_id, {verdict.promise: verdict for verdict in each.verdicts}
        cells = "".join(_cell(run_id, name, verdicts.get(name), told, reasons) for name in promises)
        lines.append(
            f"<tr data-run='{escape(run_id, quote=True)}'><td>{escape(run_id)}</td><td>{_level(each.run.level)}</td>"
            f"{cells}</tr>"
        )
    marks = ", ".join(f"<span class='{outcome}'>{MARKS[outcome]}</span> {outcome}" for outcome in _ORDER)
    table = f"<table><tr><th>run</th><th>level</th>{heads}</tr>{''.join(lines)}</table>"
    return f"<div class='matrix' id='verdicts'>{table}</div><p class='soft'>{marks}</p>{_more(len(judged.runs))}"


def _cell(
    run_id: str, promise: str, verdict: Verdict | None, told: set[tuple[str, str]], reasons: set[tuple[str, str]]
) -> str:
    of = f"data-promise='{escape(promise, quote=True)}'"
    if verdict is None:
        return f"<td {of}></td>"
    mark, words = MARKS[verdict.outcome], escape(f"{verdict.outcome}: {verdict.sentence}", quote=True)
    place = (run_id, promise)
    to = _anchor("story", *place) if place in told else _anchor("why", *place) if place in reasons else ""
    shown = f"<a href='#{to}' title='{words}'>{mark}</a>" if to else f"<span title='{words}'>{mark}</span>"
    return f"<td {of} class='{verdict.outcome}'>{shown}</td>"


def _level(level: str) -> str:
    """Return a level's name beside its colour."""
    colour = colour_of_level(level)
    dot = (
        f"<svg class='dot' viewBox='0 0 10 10' aria-hidden='true'><circle cx='5' cy='5' r='5' fill=\"{colour}\"/></svg>"
    )
    return f"<span class='level'>{dot}{escape(level)}</span>"


def _anchor(kind: str, run_id: str, promise: str) -> str:
    """Return the name of a place on the page."""
    return quote(f"{kind}-{run_id}-{promise}", safe="")


_ORDER: Final = {Outcome.BROKEN: 0, Outcome.UNKNOWN: 1, Outcome.HOLDS: 2, Outcome.VACUOUS: 3}
"""What a reader looks for first."""


def _ranked(judged: Verified) -> list[tuple[str, Verdict]]:
    rows = [(each.run.run_id, verdict) for each in judged.runs for verdict in each.verdicts]
    return sorted(rows, key=lambda row: _ORDER[row[1].outcome])


def _key(run_id: str, verdict: Verdict) -> tuple[str, str]:
    return run_id, verdict.promise


def _reasons(judged: Verified) -> str:
    rows = _ranked(judged)
    lines = "".join(
        f"<tr id='{_anchor('why', run_id, verdict.promise)}' {_of(run_id, verdict.promise)}><td>{escape(run_id)}</td>"
        f"<td>{escape(verdict.promise)}</td>"
        f"<td class='{verdict.outcome}'>{verdict.outcome}</td><td>{escape(verdict.sentence)}</td></tr>"
        for run_id, verdict in rows[:ROWS_SHOWN]
    )
    heads = "<th>run</th><th>promise</th><th>verdict</th><th>because</th>"
    return f"<table><tr>{heads}</tr>{lines}</table>{_more(len(rows))}"


def _of(run_id: str, promise: str = "") -> str:
    """Return what the script reads: whose this is."""
    about = f"data-run='{escape(run_id, quote=True)}'"
    return about + (f" data-promise='{escape(promise, quote=True)}'" if promise else "")


def _stories(judged: Verified, broken: Sequence[BrokenPromise]) -> str:
    parts = []
    for each in broken:
        steps = "".join(f"<li>{escape(step)}</li>" for step in each.steps)
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in each.sentences)
        title = f"{escape(each.run_id)}: <span class='broken'>{escape(each.promise)}</span>"
        place = f"id='{_anchor('story', each.run_id, each.promise)}' {_of(each.run_id, each.promise)}"
        back = "<p class='soft'><a href='#verdicts'>all verdicts</a></p>"
        parts.append(f"<div {place}><h3>{title}</h3>{words}<ol>{steps}</ol>{_paragraph(each.more)}{back}</div>")
    return "".join(parts) + _paragraph(promises_left_out(judged, broken))


def _paragraph(words: str) -> str:
    return f"<p class='soft'>{escape(words)}</p>" if words else ""


def _more(rows: int) -> str:
    """Return how many rows a table leaves out, if any."""
    return _paragraph(f"and {rows - ROWS_SHOWN:,} more" if rows > ROWS_SHOWN else "")


def _numbers(runs: list[Row]) -> str:
    # What was measured of no run has no column.
    measured = [each for each in _NUMBERS if not runs or any(_shown(row, each[0], each[2]) for row in runs)]
    head = "".join(f"<th class='n'>{escape(title)}</th>" for _, title, _ in measured)
    lines = "".join(
        f"<tr {_of(row[RUN_ID])}>"
        + "".join(f"<td>{escape(row[name])}</td>" for name in (RUN_ID, "grp"))
        + f"<td>{_level(row['level'])}</td>"
        + "".join(f"<td class='n'>{_shown(row, name, digits)}</td>" for name, _, digits in measured)
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
    levels = _levels(measured)
    for row in measured.curve:
        lines.setdefault(row[RUN_ID], []).append((max(row["latency_ms"], _LEAST_MS), row["percent"]))
    drawn = {run_id: Line(run_id, points, levels.get(run_id, "")) for run_id, points in lines.items()}
    return _lines_of("Latency, cumulative", "ms (logarithmic)", "% of deliveries", drawn, log_x=True)


def _rates(measured: Measured) -> list[str]:
    charts, levels = [], _levels(measured)
    first = {row[RUN_ID]: row["window"] for row in reversed(measured.windows)}
    steps = {row[RUN_ID]: row["window_ns"] / 1e9 for row in measured.windows}
    for name, words in (("published", "Events published"), ("delivered", "Events delivered")):
        sums: dict[str, dict[float, float]] = {}
        for row in measured.windows:
            at = (row["window"] - first[row[RUN_ID]]) / 1e9
            of_run = sums.setdefault(row[RUN_ID], {})  # over all its groups
            of_run[at] = of_run.get(at, 0) + row[name] / (row["window_ns"] / 1e9)
        lines = {
            run_id: Line(run_id, sorted(points.items()), levels.get(run_id, ""), steps[run_id] * 1.5)
            for run_id, points in sums.items()
        }
        charts.append(_lines_of(words, "seconds", "per second", lines))
    return charts


def _levels(measured: Measured) -> dict[str, str]:
    """Return the level of every run."""
    return {row[RUN_ID]: row["level"] for row in measured.runs}


def _lines_of(title: str, x: str, y: str, lines: Mapping[str, Line], *, log_x: bool = False) -> str:
    """Draw a line for each run, and say which are left out."""
    shown = list(lines.values())[:RUNS_PLOTTED]
    left = len(lines) - len(shown)
    more = f"{left:,} more runs are not drawn; the tables have them." if left else ""
    return _figure(line_chart(title, x, y, shown, log_x=log_x)) + _paragraph(more)


def _costs(measured: Measured) -> list[str]:
    """Each level by the mean of its runs; a simulated network and a real one are no two samples of one thing."""
    levels: dict[tuple[str, str], list[Row]] = {}
    for row in measured.runs:
        kind = "simulated" if row[RUN_ID] in measured.simulated else "live"
        levels.setdefault((row["level"], kind), []).append(row)
    charts = []
    for column, title, unit in (
        ("latency_ms_p50", "Latency, half of the deliveries", "ms, mean over runs"),
        ("latency_ms_p99", "Latency, 99 of 100 deliveries", "ms, mean over runs"),
        ("hold_ms_p99", "Time pending before delivery, 99 of 100 that waited", "ms, mean over runs"),
        ("metadata_bytes_mean", "Metadata of a packet", "bytes, mean over runs"),
    ):
        bars = []
        for (level, kind), rows in levels.items():
            values = [row[column] for row in rows if row[column] is not None]
            if values:
                mean = sum(values) / len(values)
                bars.append(Bar(f"{level}, {kind}", mean, f"{mean:,.1f}", level))
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
    return f"<div {_of(run_id)}>{_figure(picture)}{_paragraph(more)}</div>"


def _first_known(*moments: int | None) -> int | None:
    """Return the first moment that is one: not unknown, nor before or after everything."""
    return next((at for at in moments if at is not None and BEFORE_ALL < at < AFTER_ALL), None)
