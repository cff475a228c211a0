"""whence check: judge a trace with the in-process oracles."""

from pathlib import Path
from typing import Annotated

import typer

from whence.check.diagrams.space_time import space_time_diagram
from whence.check.explain import story
from whence.check.history import History
from whence.check.judge import history_of, judge_history
from whence.check.verdict import Outcome, Verdict
from whence.cli.output import directory, print_json, print_message, stdout, verdict_table, verdicts_by_name, witnesses

BROKEN, UNREADABLE = 1, 2


def check(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A run's directory, or its parent if it holds one.")],
    promise: Annotated[
        list[str] | None, typer.Option(help="Judge only this promise; may be given again. Default: the level's own.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Draw a space-time diagram of each broken promise into this directory.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Judge a trace: does every promise of its level hold?

    Happened-before is rebuilt from the order of each process and its deliveries, never from the protocol's own stamps.
    Vacuous: nothing was promised, or nothing happened that could have
    broken it. Exit code 0: nothing is broken. 1: a promise is broken. 2: the trace cannot be read.
    """
    from whence.trace.reader import read_trace

    read = read_trace(trace)
    history = history_of(read)
    verdicts = judge_history(history, promise or None)
    if history.twice:
        print_message(f"{history.twice:,} rows of {read.run.run_id} are there twice and were used once")
    if history.contested:
        print_message(
            f"{history.contested:,} rows of {read.run.run_id} claim numbers that other rows have, and were left out: "
            "it is unknown which are true"
        )
    drawn = draw_stories(history, verdicts, directory(pictures, "--pictures")) if pictures is not None else []
    if json:
        print_json(
            read.run.seed, run_id=read.run.run_id, level=read.run.level, verdicts=verdicts_by_name(verdicts),
            violations=witnesses(verdicts), pictures=[str(path) for path in drawn],
        )  # fmt: skip
    else:
        console = stdout()
        console.print(verdict_table(verdicts, f"{read.run.run_id}: {read.count():,} rows"))
        for verdict in verdicts:
            if verdict.outcome is Outcome.BROKEN:
                console.print(f"\n[bold red]{verdict.promise}[/], the smallest story:")
                for line in story(history, verdict.violations[0]).lines():
                    console.print(f"  {line}")
        for path in drawn:
            console.print(f"drawn: {path}")
    if any(verdict.outcome is Outcome.BROKEN for verdict in verdicts):
        raise typer.Exit(BROKEN)
    if not read.count() and history.incomplete:
        print_message(f"{trace}: none of the rows of {read.run.run_id} is there")
        raise typer.Exit(UNREADABLE)


def draw_stories(history: History, verdicts: list[Verdict], into: Path) -> list[Path]:
    """Draw the first violation of each broken promise."""
    drawn = []
    for verdict in verdicts:
        if verdict.outcome is Outcome.BROKEN and verdict.violations:
            path = into / f"{verdict.promise}.svg"
            path.write_text(space_time_diagram(story(history, verdict.violations[0])), encoding="utf-8")
            drawn.append(path)
    return drawn
