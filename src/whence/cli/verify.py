"""whence verify: the promises of any number of runs judged as tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from whence.check.verdict import Outcome
from whence.cli.check import BROKEN, UNREADABLE
from whence.cli.output import (
    VIOLATIONS_SHOWN,
    print_json,
    print_message,
    progress,
    stdout,
    verdict_table,
    verdicts_by_name,
    witnesses,
)
from whence.cli.spark import need_engine, placed, starting

if TYPE_CHECKING:
    from whence.pipeline.events import SetAside
    from whence.pipeline.stories import BrokenPromise
    from whence.pipeline.verify import Verified

Traces = Annotated[
    list[str],
    typer.Argument(metavar="TRACE...", help="Directories of runs, or directories that hold some: paths or URIs."),
]
Master = Annotated[
    str | None, typer.Option(help="Where Spark runs: local[*] (default), spark://HOST:PORT or sc://HOST:PORT.")
]
EngineName = Annotated[
    Literal["auto", "local", "spark"],
    typer.Option(
        "--engine",
        help="What does the work: DuckDB inside this command (local), Spark, or the one that suits the input (auto).",
    ),
]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark.")]


def verify(
    traces: Traces,
    promise: Annotated[
        list[str] | None, typer.Option(help="Judge only this promise; may be given again. Default: each run's own.")
    ] = None,
    engine: EngineName = "auto",
    master: Master = None,
    conf: Conf = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Judge traces as tables: does every promise of every run hold?

    The answers are those of `whence check`, from independent code, for any number of runs of any size. Exit
    code 0: nothing is broken. 1: a promise is broken. 2: something could not be read; it is named on standard error.
    """
    need_engine(engine, master, conf)
    from whence.pipeline import events
    from whence.pipeline import verify as judging
    from whence.pipeline.stories import broken_promises

    with progress(quiet=json) as bar:
        task = bar.add_task("judging", total=None)
        judging.check_promises(promise)
        start = starting(master, conf, engine)
        places = [placed(trace, start) for trace in traces]
        found = events.find_input(places)
        done = start.run(
            lambda session: judging.verify(session, places, promise or None, found=found),
            found.bytes, places, bar, task,
        )  # fmt: skip
    print_set_aside(done.set_aside)
    if json:
        by_run = {judged.run.run_id: verdicts_by_name(judged.verdicts) for judged in done.runs}
        every = [{"run": each.run.run_id, **witness} for each in done.runs for witness in witnesses(each.verdicts)]
        print_json(
            done.runs[0].run.seed, runs=by_run, verdicts=_worst(by_run), violations=every[:VIOLATIONS_SHOWN],
            set_aside=set_aside_as_json(done.set_aside),
        )  # fmt: skip
    else:
        for judged in done.runs:
            stdout().print(verdict_table(judged.verdicts, judged.run.run_id))
        _print_stories(done, broken_promises(found, done))
    if done.broken:
        raise typer.Exit(BROKEN)
    if any(each.is_unreadable for each in done.set_aside):
        raise typer.Exit(UNREADABLE)


def print_set_aside(what: "Sequence[SetAside]") -> None:
    """Print what could not be used, and why."""
    for each in what:
        print_message(each.sentence())


def set_aside_as_json(what: "Sequence[SetAside]") -> list[dict[str, Any]]:
    """Return what could not be used, as in JSON."""
    return [{"path": each.path, "reason": each.reason, "rows": each.rows} for each in what]


def _print_stories(done: "Verified", stories: "list[BrokenPromise]") -> None:
    """Print how each promise broke, in a few steps."""
    from whence.pipeline.stories import promises_left_out

    console = stdout()
    for each in stories:
        console.print(f"\n[bold red]{each.promise}[/] of {escape(each.run_id)}:")
        for sentence in each.sentences:
            console.print(f"  {escape(sentence)}")
        if each.steps:
            console.print("  the first of them, step by step:" if len(each.sentences) > 1 else "  step by step:")
        for place, step in enumerate(each.steps, start=1):
            console.print(f"    {place}. {escape(step)}")
        if each.more:
            console.print(f"  {each.more}")
    if left := promises_left_out(done, stories):
        console.print(f"\n{left}")


def _worst(by_run: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the worst outcome of every promise over all runs."""
    order = [Outcome.VACUOUS.value, Outcome.HOLDS.value, Outcome.UNKNOWN.value, Outcome.BROKEN.value]
    worst: dict[str, str] = {}
    for verdicts in by_run.values():
        for promise, outcome in verdicts.items():
            worst[promise] = max(worst.get(promise, order[0]), outcome, key=order.index)
    return worst
