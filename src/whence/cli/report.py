"""whence report: one page with the verdicts, numbers and plots of any number of runs."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from whence.check.verdict import Outcome
from whence.cli.check import BROKEN, UNREADABLE
from whence.cli.metrics import Json
from whence.cli.output import print_json, progress, stdout
from whence.cli.spark import need_engine, placed, starting
from whence.cli.verify import Conf, EngineName, Master, Traces, print_set_aside, set_aside_as_json

if TYPE_CHECKING:
    from whence.pipeline.verify import Verified


def report(
    traces: Traces,
    out: Annotated[str, typer.Option(help="The page to write: a path or URI.")],
    engine: EngineName = "auto",
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Judge and measure traces and write one page with verdicts, numbers and plots.

    Exit code 0: nothing is broken. 1: a promise is. 2: something could not be read; it is named on standard error, and
    the page is about the rest.
    """
    need_engine(engine, master, conf)
    from whence.pipeline import events
    from whence.pipeline import report as reporting

    with progress(quiet=json) as bar:
        task = bar.add_task("judging and measuring", total=None)
        start = starting(master, conf, engine)
        places = [placed(trace, start) for trace in traces]
        page = placed(out, start)
        found = events.find_input(places)
        judged = start.run(
            lambda session: reporting.write_report(session, places, page, found),
            found.bytes, [*places, page], bar, task,
        )  # fmt: skip
    print_set_aside(judged.set_aside)
    if json:
        print_json(
            0, runs=len(judged.runs), report=str(out), broken=judged.broken,
            set_aside=set_aside_as_json(judged.set_aside),
        )  # fmt: skip
    else:
        stdout().print(_by_run(judged))
        stdout().print(f"report: {out}")
    if judged.broken:
        raise typer.Exit(BROKEN)
    if any(each.is_unreadable for each in judged.set_aside):
        raise typer.Exit(UNREADABLE)


def _by_run(judged: "Verified") -> Table:
    """Return a table of the verdicts by run."""
    table = Table("run", "level", "holds", "vacuous", "unknown", "broken", title="judged from the traces alone")
    for each in judged.runs:
        by_outcome = {outcome: [v.promise for v in each.verdicts if v.outcome is outcome] for outcome in Outcome}
        broken = ", ".join(by_outcome[Outcome.BROKEN])
        table.add_row(
            each.run.run_id, each.run.level, f"[green]{len(by_outcome[Outcome.HOLDS])}[/]",
            f"[bright_black]{len(by_outcome[Outcome.VACUOUS])}[/]", ", ".join(by_outcome[Outcome.UNKNOWN]),
            f"[bold red]{broken}[/]" if broken else "",
        )  # fmt: skip
    return table
