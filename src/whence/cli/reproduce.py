"""whence reproduce: the papers' figures, run here and judged."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import to_builtins
from rich.markup import escape
from rich.progress import Progress, TaskID
from rich.table import Table

from whence.cli.output import (
    Paced,
    directory,
    parse_settings,
    print_json,
    print_message,
    progress,
    stdout,
)
from whence.cli.spark import going_on
from whence.cli.verify import Conf, Master
from whence.sim import lab

NOT_AS_DOCUMENTED = 1

_COLOURS = {"holds": "green", "fails": "bold red", "refuted": "yellow", "not judged": "cyan", "not decided": "magenta"}


def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="FIGURE...", help="Names of figures, or all; --list shows them.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where data, pictures and verdicts go, a directory each.")] = Path(
        "out/figures"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and seeds: a minute or two each.")] = False,
    seed: Annotated[
        int,
        typer.Option(
            help="Other seeds, other runs, beside the others; picture, data and verdict replace the last ones."
        ),
    ] = 0,
    listing: Annotated[bool, typer.Option("--list", help="List the figures and run nothing.")] = False,
    master: Master = None,
    conf: Conf = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Run a paper's experiment, draw its figure, and judge what the paper says of it, sentence by sentence.

    What was run already is not run again: start an interrupted command again, and it goes on. Exit code 0: every
    sentence came out as documented, those included that we know and explain to be wrong, and those about larger systems
    than --quick runs, which are not judged. 1: one did not, or a run failed or is missing.
    """
    reproducing = lab.figures()
    if listing:
        _show_list(reproducing.FIGURES, json=json)
        return
    from whence.pipeline.session import end_on_interrupt

    end_on_interrupt()
    results = []
    spark: dict[str, Any] = {"master": master, "conf": parse_settings(conf or [], "--conf")}
    for figure in reproducing.chosen(figures or []):
        with progress(quiet=json) as bar:
            tell = partial(_tell, bar, bar.add_task(figure.name, total=None), Paced(figure.name))
            into = directory(out, "--out")
            with going_on("the same command goes on with what is missing"):
                result = reproducing.reproduce(
                    figure, into, quick=quick, seed=seed, on_progress=tell, on_message=print_message, **spark
                )
        results.append(result)
        if not json:
            _show(results[-1], out)
    if json:
        print_json(seed, quick=quick, out=str(out), figures=to_builtins(results))
    if not all(result.as_documented for result in results):
        raise typer.Exit(NOT_AS_DOCUMENTED)


def _tell(bar: Progress, task: TaskID, paced: Paced, done: int, of: int) -> None:
    bar.update(task, completed=done, total=of)
    paced(done, of)


def _show_list(figures: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json(0, figures={name: each.title for name, each in figures.items()})
        return
    table = Table("figure", "of", "shows", "runs, quick", "runs, full")
    for name, each in figures.items():
        runs = (f"{len(plan.configs) * plan.seeds:,}" for plan in (each.quick, each.full))
        table.add_row(name, each.source, each.title, *runs)
    stdout().print(table)


def _runs(result: Any) -> str:
    """Return how many runs there are, and of how many, where some are missing."""
    short = "" if result.runs == result.planned else f" of {result.planned:,}"
    return f"{result.runs:,}{short} runs"


def _show(result: Any, out: Path) -> None:
    console = stdout()
    table = Table("the paper says", "must be seen", "seen here", "verdict", title_justify="left", show_lines=True,
                  title=f"{result.name}: {result.title} ({result.source}), {_runs(result)}")  # fmt: skip
    for each in result.sentences:
        verdict = f"[{_COLOURS[each.outcome]}]{each.outcome}[/]"
        seen = f"{each.seen}. {each.because}" if each.because else each.seen
        table.add_row(f"{escape(each.says)} ({each.where})", escape(each.threshold), escape(seen), verdict)
    console.print(table)
    for error in result.errors:
        console.print(f"a run failed: {error}", style="red", markup=False)
    files = ", ".join((*result.files, "data.parquet", "points.parquet", "verdict.json", "verdict.md"))
    console.print(f"{out / result.name}: {files}")
