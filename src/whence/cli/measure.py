"""whence metrics and whence report: any number of runs in numbers and plots."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from whence.check.verdict import Outcome
from whence.cli.check import BROKEN
from whence.cli.output import directory, parse_settings, print_json, progress, stdout
from whence.cli.verify import Conf, Master, Traces
from whence.places import local

if TYPE_CHECKING:
    from whence.pipeline.verify import Verified

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a sentence.")]


def metrics(
    traces: Traces,
    out: Annotated[Path, typer.Option(help="Where the tables go, one directory of Parquet each.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the tables of an earlier measurement.")
    ] = False,
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Measure traces: throughput, latency, hold time, loss, recovery and metadata per run, group and window of time."""
    from whence.pipeline import events, session
    from whence.pipeline import metrics as measuring

    with progress(quiet=json) as bar:
        bar.add_task("measuring on Spark", total=None)
        found = events.find_input(traces)
        into = measuring.check_free(directory(out, "--out"), overwrite=overwrite)
        spark = session.session(master, parse_settings(conf or [], "--conf"))
        with measuring.measures(spark, found) as tables:
            written = measuring.write_metrics(tables, into, overwrite=overwrite)
    if json:
        print_json(0, runs=len(found.runs), tables=[str(path) for path in written])
    else:
        stdout().print(f"{len(found.runs):,} runs measured: " + ", ".join(map(str, written)))


def report(
    traces: Traces,
    out: Annotated[Path, typer.Option(help="The page to write.")],
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Judge and measure traces and write one page with verdicts, numbers and plots.

    Exit code 0: nothing is broken. 1: a promise is.
    """
    from whence.pipeline import events, session
    from whence.pipeline import report as reporting

    local(out, "--out")
    with progress(quiet=json) as bar:
        bar.add_task("judging and measuring on Spark", total=None)
        found = events.find_input(traces)
        spark = session.session(master, parse_settings(conf or [], "--conf"))
        judged = reporting.write_report(spark, traces, out, found)
    if json:
        print_json(0, runs=len(judged.runs), report=str(out), broken=judged.broken)
    else:
        stdout().print(_by_run(judged))
        stdout().print(f"report: {out}")
    if judged.broken:
        raise typer.Exit(BROKEN)


def _by_run(judged: "Verified") -> Table:
    """Lay out what became of the promises of each run."""
    table = Table(
        "run", "level", "holds", "vacuous", "unknown", "broken", title="judged on Spark, from the traces alone"
    )
    for each in judged.runs:
        told = {outcome: [v.promise for v in each.verdicts if v.outcome is outcome] for outcome in Outcome}
        broken = ", ".join(told[Outcome.BROKEN])
        table.add_row(
            each.run.run_id, each.run.level, f"[green]{len(told[Outcome.HOLDS])}[/]",
            f"[bright_black]{len(told[Outcome.VACUOUS])}[/]", ", ".join(told[Outcome.UNKNOWN]),
            f"[bold red]{broken}[/]" if broken else "",
        )  # fmt: skip
    return table
