"""whence verify: the promises of any number of runs judged on Spark."""

from pathlib import Path
from typing import Annotated

import typer

from whence.check.verdict import Outcome
from whence.cli.check import BROKEN
from whence.cli.output import (
    complain,
    parse_settings,
    print_json,
    progress,
    stdout,
    verdict_table,
    verdicts_by_name,
    witnesses,
)

UNREADABLE = 2

Traces = Annotated[
    list[Path], typer.Argument(metavar="TRACE...", help="Directories of runs, or directories that hold some.")
]
Master = Annotated[
    str | None, typer.Option(help="Where Spark runs: local[*] (default), spark://HOST:PORT or sc://HOST:PORT.")
]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark.")]


def verify(
    traces: Traces,
    promise: Annotated[
        list[str] | None, typer.Option(help="Judge only this promise; may be given again. Default: each run's own.")
    ] = None,
    master: Master = None,
    conf: Conf = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Judge traces on Spark: does every promise of every run hold?

    The answers are those of `whence check`, from code written apart from it, for any number of runs of any size. Exit
    code 0: nothing is broken. 1: a promise is broken. 2: something could not be read; it is named on standard error.
    """
    from whence.pipeline import session as sessions
    from whence.pipeline import verify as judging

    with progress(quiet=json) as bar:
        bar.add_task("judging on Spark", total=None)
        spark = sessions.session(master, parse_settings(conf or []))
        done = judging.verify(spark, traces, promise or None)
    for each in done.set_aside:
        rows = "" if each.rows is None else f" ({each.rows:,} rows)"
        complain(f"set aside: {each.path}{rows}: {each.reason}")
    if json:
        by_run = {judged.run.run_id: verdicts_by_name(judged.verdicts) for judged in done.runs}
        found = [verdict for judged in done.runs for verdict in judged.verdicts]
        print_json(
            done.runs[0].run.seed, runs=by_run, verdicts=_worst(by_run), violations=witnesses(found),
            set_aside=[{"path": each.path, "reason": each.reason, "rows": each.rows} for each in done.set_aside],
        )  # fmt: skip
    else:
        for judged in done.runs:
            stdout().print(verdict_table(judged.verdicts, judged.run.run_id))
    if done.broken:
        raise typer.Exit(BROKEN)
    if any(each.rows is None for each in done.set_aside):
        raise typer.Exit(UNREADABLE)


def _worst(by_run: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return, for every promise, the worst that any run says of it."""
    order = [Outcome.HOLDS.value, Outcome.UNKNOWN.value, Outcome.BROKEN.value]
    worst: dict[str, str] = {}
    for verdicts in by_run.values():
        for promise, outcome in verdicts.items():
            worst[promise] = max(worst.get(promise, order[0]), outcome, key=order.index)
    return worst
