"""whence explore: many schedules under a swarm of faults, judged; a violation is shown, shrunk and drawn."""

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from whence.check import agreement
from whence.check.explain import story
from whence.check.judge import history_of
from whence.check.verdict import Outcome as Verdicts
from whence.check.verdict import Verdict
from whence.cli.check import BROKEN, draw_stories
from whence.cli.output import (
    colour_of,
    directory,
    print_json,
    progress,
    stderr,
    stdout,
    verdict_table,
    verdicts_by_name,
    witnesses,
)
from whence.errors import UsageError
from whence.sim.explore import Batch, Caught, broken_verdicts, hunt_all, judged, replayed
from whence.sim.explore import explore as explore_schedules
from whence.sim.lab import mutants_of, spec_of
from whence.sim.run import Outcome
from whence.sim.scenario import Scenario
from whence.sim.shrink import shrink, size_of
from whence.sim.swarm import draw


def explore(
    level: Annotated[
        str,
        typer.Option(
            help="Which level, or kind of group on views: causal-living, total-strict. "
            "canary is wrong on purpose and must be caught."
        ),
    ],
    schedules: Annotated[int, typer.Option(min=1, help="How many schedules to run.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the first schedule; the next has the next number.")] = 1,
    replay: Annotated[int | None, typer.Option(help="Run only the schedule of this seed again, and tell it.")] = None,
    mutant: Annotated[
        str | None, typer.Option(help="Plant a bug, or 'all' of the level's bugs one after another.")
    ] = None,
    shrinking: Annotated[
        bool, typer.Option("--shrink/--no-shrink", help="Cut a schedule that breaks a promise to a small one.")
    ] = True,
    workers: Annotated[int, typer.Option(min=1, help="Processes to use.")] = os.cpu_count() or 1,
    out: Annotated[Path, typer.Option(help="Where the trace, the scenario and the picture of a violation go.")] = Path(
        "out/explore"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Look for a schedule that breaks a promise.

    Each schedule draws a group, a network and a swarm of faults from its seed, runs them, heals, and is judged. The
    search stops at a violation; --replay SEED shows it again. Exit code 0: none broken. 1: a promise is broken.
    """
    if replay is not None:
        if mutant == "all":
            raise UsageError("--mutant all: a schedule is replayed with one bug; name it, or leave --replay out")
        _replay(level, replay, mutant, shrinking, out, json=json)
    elif mutant is not None:
        _hunt(level, mutant, seed, schedules, workers, json=json)
    else:
        _explore(level, schedules, seed, shrinking, workers, out, json=json)


def _explore(level: str, schedules: int, seed: int, shrinking: bool, workers: int, out: Path, *, json: bool) -> None:
    began = perf_counter()
    with progress(quiet=json) as bar:
        task = bar.add_task(f"exploring {level}", total=schedules)
        total = explore_schedules(
            level, schedules, seed, workers, on_progress=lambda so_far: bar.update(task, completed=so_far.schedules)
        )
    seconds = perf_counter() - began
    broken = total.broken
    verdicts = broken.verdicts if broken is not None else []
    if json:
        print_json(
            seed, level=level, schedules=total.schedules, published=total.published, delivered=total.delivered,
            unknown=total.unknown, vacuous=total.of(Verdicts.VACUOUS), outcomes=_outcomes(total),
            wall_seconds=round(seconds, 1), broken=None if broken is None else broken.seed,
            verdicts=verdicts_by_name(verdicts), violations=witnesses(verdicts),
            faults=dict(sorted(total.effective.items())), coverage=_coverage(total),
        )  # fmt: skip
    else:
        console = stdout()
        console.print(_fault_table(total))
        console.print(_coverage_table(total))
        console.print(_outcome_table(total))
        console.print(
            f"{total.schedules:,} schedules, {total.published:,} events, {total.delivered:,} deliveries, "
            f"{total.steps:,} steps in {seconds:.0f} s"
        )
        if broken is None:
            console.print(
                f"[green]no promise broken[/] ({total.unknown} verdicts unknown, "
                f"{total.of(Verdicts.VACUOUS):,} vacuous)"
            )
        else:
            console.print(f"[bold red]seed {broken.seed} breaks a promise[/]; again: "
                          f"whence explore --level {level} --replay {broken.seed}")  # fmt: skip
            _replay_and_show(console, level, broken.seed, None, shrinking, out)
    if broken is not None:
        raise typer.Exit(BROKEN)


def _replay(level: str, seed: int, mutant: str | None, shrinking: bool, out: Path, *, json: bool) -> None:
    if json:
        _, verdicts = replayed(draw(level, seed), mutant)
        print_json(seed, level=level, verdicts=verdicts_by_name(verdicts), violations=witnesses(verdicts))
    else:
        verdicts = _replay_and_show(stdout(), level, seed, mutant, shrinking, out)
    if broken_verdicts(verdicts):
        raise typer.Exit(BROKEN)


def _replay_and_show(
    console: Console, level: str, seed: int, mutant: str | None, shrinking: bool, out: Path
) -> list[Verdict]:
    """Run a schedule again, print what it broke, and write the smallest one that still does; return the verdicts."""
    from whence.trace.writer import write_trace

    scenario = draw(level, seed)
    outcome, verdicts = replayed(scenario, mutant)
    console.print(verdict_table(verdicts, f"{level}, seed {seed}" + (f", planted bug {mutant}" if mutant else "")))
    if not (broken := broken_verdicts(verdicts)):
        return verdicts
    if shrinking and broken[0].violations:
        stderr().print(f"shrinking the schedule of {size_of(scenario)} members, faults and events …", style="dim")
        scenario = shrink(scenario, breaks_the_same(broken[0], outcome, mutant))
        console.print(f"shrunk to {size_of(scenario)}: {scenario.nodes} members, {len(scenario.faults)} faults, "
                      f"{sum(publish.events for publish in scenario.publishes)} events")  # fmt: skip
    outcome, smallest = replayed(scenario, mutant)
    folder = directory(out / f"{level}-{seed}", "--out")
    (folder / "scenario.json").write_bytes(msgspec.json.format(msgspec.json.encode(scenario)))
    drawn = _print_story(console, outcome, broken_verdicts(smallest), folder)
    for path in (write_trace(folder, outcome.trace), *drawn):
        console.print(f"kept: {path}")
    return verdicts


def _print_story(console: Console, outcome: Outcome, broken: list[Verdict], into: Path) -> list[Path]:
    """Print how the promise broke and return its pictures; only a sentence where the trace makes no history."""
    try:
        history = history_of(outcome.trace)
    except Exception:
        if outcome.crash is None:
            raise
        console.print(f"  {broken[0].sentence}")
        return []
    for violation in broken[0].violations[:1]:
        for line in story(history, violation).lines():
            console.print(f"  {line}")
    return draw_stories(history, broken, into)


def _hunt(level: str, mutant: str, seed: int, schedules: int, workers: int, *, json: bool) -> None:
    spec_of(level, None if mutant == "all" else mutant)
    bugs = {bug.name: bug.bug for bug in mutants_of(level)}
    names = None if mutant == "all" else [mutant]
    with progress(quiet=json) as bar:
        task = bar.add_task(f"planting bugs in {level}", total=None)
        found = hunt_all(level, seed, workers, names, schedules, lambda *_: bar.advance(task))
    if json:
        print_json(seed, level=level, mutants={name: _as_json(caught) for name, caught in found.items()})
    else:
        table = Table("planted bug", "breaks", "caught", "schedules", "seed", "failed", "what it does wrong")
        for name, caught in found.items():
            mark = "[green]yes[/]" if caught.caught else "[bold red]no[/]"
            failed = f"{caught.crashes:,}, first in {caught.crash_seed}" if caught.crashes else ""
            seed_shown = "" if caught.seed is None else str(caught.seed)
            table.add_row(name, caught.law, mark, f"{caught.schedules:,}", seed_shown, failed, bugs[name])
        stdout().print(table)
    if not all(caught.caught for caught in found.values()):
        raise typer.Exit(BROKEN)


def _as_json(caught: Caught) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(caught)
    return fields


def breaks_the_same(broken: Verdict, outcome: Outcome, mutant: str | None) -> Callable[[Scenario], bool]:
    """Return a function that tells whether a smaller scenario breaks a promise in the same way.

    A promise can be broken in several ways, and some smaller scenarios break it because too little is left of them.
    """
    crash = outcome.crash.kind if outcome.crash is not None else None
    kinds = {violation.kind for violation in broken.violations}
    phased = outcome.trace.run.phases is not None

    def breaks(smaller: Scenario) -> bool:
        try:
            outcome, verdicts = judged(smaller, mutant)
        except UsageError:
            return False  # too little is left of it to be a group
        if crash is not None:
            return outcome.crash is not None and outcome.crash.kind == crash
        if broken.promise == agreement.PROMISE and phased and outcome.trace.run.phases is None:
            return False  # it ends too early for everything to arrive
        found = [violation for verdict in broken_verdicts(verdicts) for violation in verdict.violations]
        return any(violation.promise == broken.promise and violation.kind in kinds for violation in found)

    return breaks


def _outcomes(total: Batch) -> dict[str, dict[str, int]]:
    by_promise: dict[str, dict[str, int]] = {}
    for (promise, outcome), schedules in sorted(total.outcomes.items()):
        by_promise.setdefault(promise, {})[outcome] = schedules
    return by_promise


def _outcome_table(total: Batch) -> Table:
    table = Table("promise", *(outcome.value for outcome in Verdicts), title="schedules by verdict")
    table.title_justify = "left"
    for promise, counts in _outcomes(total).items():
        shown = ((colour_of(outcome), counts.get(outcome.value, 0)) for outcome in Verdicts)
        table.add_row(promise, *(f"[{colour}]{schedules:,}[/]" if schedules else "" for colour, schedules in shown))
    return table


def _coverage(total: Batch) -> dict[str, dict[str, int]]:
    dimensions: dict[str, dict[str, int]] = {}
    for (dimension, value), schedules in sorted(total.coverage.items()):
        dimensions.setdefault(dimension, {})[value] = schedules
    return dimensions


def _fault_table(total: Batch) -> Table:
    table = Table("fault", "times it did something", "in schedules", title="faults", title_justify="left")
    for kind, times in sorted(total.effective.items()):
        table.add_row(kind, f"{times:,}", f"{total.kinds[kind]:,}")
    return table


def _coverage_table(total: Batch) -> Table:
    table = Table("drawn", "schedules", title="what the generator drew", title_justify="left")
    for dimension, values in _coverage(total).items():
        table.add_row(dimension, ", ".join(f"{value}: {schedules:,}" for value, schedules in values.items()))
    return table
