"""whence demo: the main job, end to end: groups under churn and loss, their traces judged, a planted bug caught."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, TaskID
from rich.table import Table

from whence.check.diagram import diagram
from whence.check.explain import story
from whence.check.history import History
from whence.check.judge import judge_history
from whence.check.spread import spread_diagram
from whence.check.verdict import Outcome, Verdict
from whence.cli.check import BROKEN
from whence.cli.output import directory, print_json, progress, stdout, verdict_table, verdicts_by_name
from whence.cli.page import Section, write_page
from whence.mutants import CANARY, recipe_with
from whence.sim.explore import judged
from whence.sim.run import run
from whence.sim.shrink import shrink
from whence.sim.summary import summarize
from whence.sim.swarm import draw
from whence.sim.workload import churning
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.schema import Kind
from whence.trace.writer import write_trace
from whence.types import EventId

LEVELS_SHOWN = ("eventual", "fifo")
SLICES = 100


def demo(
    out: Annotated[Path, typer.Option(help="Where traces, pictures and the report go.")] = Path("out/demo"),
    nodes: Annotated[int, typer.Option(min=20, help="Members each group is founded with.")] = 125,
    events: Annotated[int, typer.Option(min=30, help="Events published in each group.")] = 240,
    seed: Annotated[int, typer.Option(help="Same seed, same demo.")] = 7,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Watch simulated groups communicate under churn and loss, and see every promise judged.

    Each level runs a group in which members crash, come back, join, leave, stall and are cut off; its trace is written,
    read back and judged; one event's way through the group is drawn. Then a bug is planted, and must be caught.
    """
    into = directory(out, "--out")
    results: dict[str, tuple[dict[str, Any], list[Verdict]]] = {}
    sections = []
    with progress(quiet=json) as bar:
        for level in LEVELS_SHOWN:
            task = bar.add_task(f"{level}: {nodes} members under churn and loss", total=SLICES + 20)
            scenario = churning(level, nodes, events, seed)
            outcome = run(scenario, on_slice=partial(_advance, bar, task))
            kept = write_trace(into, outcome.trace)
            trace = read_trace(kept)
            bar.update(task, completed=SLICES + 10, description=f"{level}: judging {trace.count():,} rows")
            verdicts = judge_history(History(trace))
            picture = into / f"spread-{level}.svg"
            picture.write_text(spread_diagram(trace, _well_travelled(trace)), encoding="utf-8")
            facts = summarize(trace) | {"faults": dict(sorted(outcome.effective.items())), "trace": str(kept)}
            results[level] = facts, verdicts
            sections.append(Section(level, facts, verdicts, picture))
            bar.update(task, completed=SLICES + 20)
        task = bar.add_task("planting a bug", total=None)
        sections.append(canary := _catch_the_canary(into, seed))
    page = write_page(into / "report.html", sections, nodes, seed)
    held = all(verdict.holds for _, verdicts in results.values() for verdict in verdicts)
    caught = any(verdict.outcome is Outcome.BROKEN for verdict in canary.verdicts)
    if json:
        print_json(
            seed, report=str(page), canary_caught=caught,
            levels={level: facts | {"verdicts": verdicts_by_name(verdicts)}
                    for level, (facts, verdicts) in results.items()},
        )  # fmt: skip
    else:
        _print(results, canary, page)
    if not (held and caught):
        raise typer.Exit(BROKEN)


def _advance(bar: Progress, task: TaskID, _: Trace, done: float) -> None:
    bar.update(task, completed=SLICES * done)


def _catch_the_canary(into: Path, seed: int) -> Section:
    """Run a level that is wrong on purpose, shrink what it did wrong, and draw it."""
    scenario = draw(CANARY, seed)
    broken = [verdict.promise for verdict in judged(scenario)[1] if verdict.outcome is Outcome.BROKEN]
    if broken:
        scenario = shrink(
            scenario, lambda smaller: any(v.promise == broken[0] and not v.holds for v in judged(smaller)[1]), 150
        )
    outcome = run(scenario, recipe_with(CANARY, None))
    history = History(outcome.trace)
    verdicts = judge_history(history, broken[:1])
    picture = into / "planted-bug.svg"
    for verdict in verdicts:
        picture.write_text(diagram(story(history, verdict.violations[0])), encoding="utf-8")
    return Section("a planted bug", summarize(outcome.trace), verdicts, picture)


def _well_travelled(trace: Trace) -> EventId:
    """Return an event of the troubled phase that reached many members."""
    heal_at = trace.run.phases.heal_at if trace.run.phases is not None else 0
    reached: dict[EventId, int] = {}
    for row in trace.records(Kind.DELIVER):
        event = EventId(row["m_pid"], row["m_inc"], row["m_seq"])
        reached[event] = reached.get(event, 0) + (row["t_true"] < heal_at)
    return max(reached, key=lambda event: reached[event])


def _print(results: dict[str, tuple[dict[str, Any], list[Verdict]]], canary: Section, page: Path) -> None:
    console = stdout()
    table = Table("level", "events", "delivered", "of all", "skipped", "p50 ms", "p99 ms", "stamp B")
    for level, (facts, _) in results.items():
        part = facts["delivered"] / facts["deliveries_expected"]
        latency = facts["latency_ms"]
        table.add_row(
            level, f"{facts['published']:,}", f"{facts['delivered']:,}", f"{part:.2%}", f"{facts['skipped']:,}",
            f"{latency.p50:.0f}", f"{latency.p99:.0f}", f"{facts['metadata_bytes_mean']:.0f}",
        )  # fmt: skip
    console.print(table)
    for level, (_, verdicts) in results.items():
        console.print(verdict_table(verdicts, f"{level}: every promise, judged from the trace"))
    console.print(verdict_table(canary.verdicts, "a planted bug, caught"))
    console.print(f"report: {page}")
