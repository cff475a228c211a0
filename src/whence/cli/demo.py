"""whence demo: the main job, end to end: groups under churn and loss, their traces judged, a planted bug caught."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import typer
from rich.progress import Progress, TaskID
from rich.table import Table

from whence.check.diagrams.dissemination import dissemination_diagram
from whence.check.diagrams.merged_streams import delivery_sequences, merged_streams_diagram
from whence.check.diagrams.space_time import space_time_diagram
from whence.check.diagrams.tickets import ticket_diagram
from whence.check.diagrams.tree import tree_diagram
from whence.check.explain import story
from whence.check.history import History
from whence.check.judge import judge_history
from whence.check.verdict import Outcome, Verdict
from whence.cli.check import BROKEN
from whence.cli.demo_replacement import FELT, LOST_MACHINE
from whence.cli.demo_report import Section, write_demo_report
from whence.cli.live_demo import LiveResult, run_live_demo
from whence.cli.output import directory, print_json, progress, stdout, verdict_table, verdicts_by_name
from whence.core.levels.causal.tree.topology import parents_of
from whence.sim.canary import CANARY
from whence.sim.explore import judged
from whence.sim.run import Outcome as RunOutcome
from whence.sim.run import run
from whence.sim.scenario import Scenario
from whence.sim.scenarios.gossip import churn
from whence.sim.scenarios.merge import merger_killed
from whence.sim.scenarios.tickets import coordinator_killed
from whence.sim.scenarios.tree import crash_recovery
from whence.sim.shrink import shrink
from whence.sim.summary import summarize
from whence.sim.swarm import draw
from whence.trace.memory import Trace
from whence.trace.schema import Kind
from whence.types import EventId

SLICES = 100

CHURN = (
    "Members crash and come back, join, leave, stall and are cut off, on a network that loses, doubles, delays and "
    "garbles; then everything heals. What is published after that must reach every member that stays."
)
SPREAD = (
    "How one event spread: a line per member, in the order of delivery; an arrow from whoever forwarded it; thick "
    "where it was pending until an earlier one arrived."
)
TREE = (
    "Causal multicast on a tree of 31 nodes; every subtree is a group. Nodes crash, at most one of any three on a path "
    "at a time, lose what was not yet on disk, come back and get all they missed, in order and once."
)
TREE_PICTURE = "Events delivered at each node, who crashed how often, and the detours that copies took meanwhile."
CLUSTER = (
    "A cluster at level optimistic: only coordinators publish, each under its ticket. One is killed: its ticket is "
    "fenced, waited out and given to a newcomer under a higher epoch. Two members are cut off, and report what they "
    "skip."
)
TICKETS = (
    "Who owned each ticket when, and who could give it away; a cross where a process crashed, a triangle at a gap."
)
MERGED = (
    "Twelve members at level total, two of them mergers, on a network that loses and doubles. One merger is killed; "
    "its followers turn to the other and resume after their last key. Every sequence is the same."
)
STREAMS = "A line per member, a mark per delivery, coloured by the merger it came from; a cross where one was killed."
BUG = (
    "The fifo level with a bug on purpose: it delivers whatever comes first. The schedule that showed it was cut to "
    "the smallest that still does."
)
STORY = "The smallest story that breaks the promise: time runs to the right, a line per process."

LIVE = (
    "Eight real processes on loopback, a proxy before each. A coordinator and one more are killed and started again; "
    "a machine dies for good with its disk, is removed, and an empty one takes its place; three are cut off from the "
    "rest. One machine has one clock, so that promises about true time are judged too."
)

VIEWS = (
    "A line per process: the bars are as high as it was handed much, in the colour of the view it was in; a triangle "
    "where it entered a view, a cross where it was killed."
)

CANARY_SCHEDULES_MAX = 50
"""Two schedules in three show the planted bug, so that these certainly do."""


def demo(
    out: Annotated[Path, typer.Option(help="Where traces, pictures and the report go.")] = Path("out/demo"),
    nodes: Annotated[int, typer.Option(min=20, help="Members each group is founded with.")] = 125,
    events: Annotated[int, typer.Option(min=30, help="Events published in each group.")] = 240,
    seed: Annotated[int, typer.Option(help="Same seed, same demo.")] = 7,
    live: Annotated[bool, typer.Option(help="Run eight real processes on loopback too.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Watch groups communicate under faults, simulated and live, and see every promise judged.

    Each level runs a group in which members crash, come back, join, leave, stall and are cut off; its trace is written,
    read back and judged; one event's way through the group is drawn. Then a bug is planted, and must be caught. At last
    eight real processes run a group at every level; two are killed, a machine is lost and replaced, the network
    is partitioned, and the oracles judge what they recorded.
    """
    into = directory(out, "--out")
    results: dict[str, tuple[dict[str, Any], list[Verdict]]] = {}
    sections = []
    shown: dict[str, Section] = {}
    with progress(quiet=json) as bar:
        for level, (description, show) in DEMOS.items():
            task = bar.add_task(f"{level}: {description}", total=SLICES)
            section = show(into, level, Size(nodes, events, seed), partial(_advance, bar, task))
            results[level] = section.facts, section.verdicts
            sections.append(section)
        bar.add_task("planting a bug", total=None)
        sections.append(canary := _catch_the_canary(into, seed))
        if live:
            task = bar.add_task("live: eight processes start", total=1.0)
            ran = run_live_demo(into, lambda done, what: bar.update(task, completed=done, description=f"live: {what}"))
            bar.update(task, completed=1.0)
            shown = {level: _live_section(level, result) for level, result in ran.items()}
            sections += shown.values()
    page = write_demo_report(into / "report.html", sections, nodes, seed)
    all_fine = all(verdict.is_fine for _, verdicts in results.values() for verdict in verdicts)
    all_fine &= not any(verdict.outcome is Outcome.BROKEN for section in shown.values() for verdict in section.verdicts)
    caught = any(verdict.outcome is Outcome.BROKEN for verdict in canary.verdicts)
    if json:
        print_json(
            seed, report=str(page), canary_caught=caught,
            live={level: section.facts | {"verdicts": verdicts_by_name(section.verdicts)}
                  for level, section in shown.items()},
            levels={level: facts | {"verdicts": verdicts_by_name(verdicts)}
                    for level, (facts, verdicts) in results.items()},
        )  # fmt: skip
    else:
        _print(results, canary, shown, page)
    if not (all_fine and caught):
        raise typer.Exit(BROKEN)


def _written(into: Path, trace: Trace) -> tuple[Path, Trace]:
    """Write a trace; return its directory and the trace as read back from there."""
    from whence.trace.reader import read_trace
    from whence.trace.writer import write_trace

    path = write_trace(into, trace)
    return path, read_trace(path)


def _advance(bar: Progress, task: TaskID, _: Trace, done: float) -> None:
    bar.update(task, completed=SLICES * done)


class Size(NamedTuple):
    """How large the demo's groups are where a level leaves it open, and the seed."""

    nodes: int
    events: int
    seed: int


OnSlice: TypeAlias = Callable[[Trace, float], None]


def _churn(into: Path, level: str, size: Size, on_slice: OnSlice) -> Section:
    """Run a group under churn and loss, and draw how one event spread."""
    outcome = run(churn(level, *size), on_slice=on_slice)
    path, trace = _written(into, outcome.trace)
    picture = into / f"spread-{level}.svg"
    picture.write_text(dissemination_diagram(trace, _widely_delivered(trace)), encoding="utf-8")
    return Section(level, CHURN, SPREAD, _facts(outcome, trace, path), judge_history(History(trace)), picture)


def _tree_crashes(into: Path, level: str, size: Size, on_slice: OnSlice) -> Section:
    """Run causal multicast on a tree of groups whose nodes crash within f and come back, and draw the tree."""
    scenario = crash_recovery(size.seed)
    outcome = run(scenario, on_slice=on_slice)
    path, trace = _written(into, outcome.trace)
    picture = into / f"tree-{level}.svg"
    parents = parents_of(scenario.settings["tree"], scenario.settings["tree_nodes"])
    picture.write_text(tree_diagram(trace, parents), encoding="utf-8")
    return Section(level, TREE, TREE_PICTURE, _facts(outcome, trace, path), judge_history(History(trace)), picture)


def _coordinator_killed(into: Path, level: str, size: Size, on_slice: OnSlice) -> Section:
    """Run a cluster with churn in which a ticket is fenced and reused, and draw who held which ticket when."""
    outcome = run(coordinator_killed(20, 200, size.seed), on_slice=on_slice)
    path, trace = _written(into, outcome.trace)
    picture = into / f"tickets-{level}.svg"
    picture.write_text(ticket_diagram(trace), encoding="utf-8")
    facts = _facts(outcome, trace, path, gaps=len(trace.rows[Kind.GAP]))
    return Section(level, CLUSTER, TICKETS, facts, judge_history(History(trace)), picture)


def _merger_killed(into: Path, level: str, size: Size, on_slice: OnSlice) -> Section:
    """Run a group with two mergers, kill one, and draw how its followers go on with the other's stream."""
    outcome = run(merger_killed(12, 300, size.seed), on_slice=on_slice)
    path, trace = _written(into, outcome.trace)
    picture = into / f"streams-{level}.svg"
    picture.write_text(merged_streams_diagram(trace), encoding="utf-8")
    lines = delivery_sequences(trace)
    longest = max(lines.values(), key=len)
    same = sum(line == longest for line in lines.values())
    identical = (
        f"{same} of {len(lines)}; the killed merger's is the beginning of them: "
        f"{all(line == longest[: len(line)] for line in lines.values())}"
    )
    facts = _facts(outcome, trace, path, **{"identical sequences": identical})
    return Section(level, MERGED, STREAMS, facts, judge_history(History(trace)), picture)


DEMOS: dict[str, tuple[str, Callable[[Path, str, Size, OnSlice], Section]]] = {
    "eventual": ("a group under churn and loss", _churn),
    "fifo": ("a group under churn and loss", _churn),
    "causal": ("a tree of 31 nodes, some crash and come back", _tree_crashes),
    "optimistic": ("a cluster whose coordinator is killed", _coordinator_killed),
    "total": ("two mergers, one of which is killed", _merger_killed),
}
"""What the demo shows of each level."""


def _facts(outcome: RunOutcome, trace: Trace, path: Path, **more: Any) -> dict[str, Any]:
    """Return the numbers of a run."""
    return summarize(trace) | more | {"faults": dict(sorted(outcome.effective.items())), "trace": str(path)}


def _catch_the_canary(into: Path, seed: int) -> Section:
    """Run a level that is wrong on purpose until a promise breaks, shrink what went wrong, and draw it."""
    scenario, broken = draw(CANARY, seed), list[str]()
    for at in range(CANARY_SCHEDULES_MAX):
        scenario = draw(CANARY, seed + at)
        if broken := _broken_in(scenario):
            scenario = shrink(scenario, lambda smaller: broken[0] in _broken_in(smaller), 150)
            break
    outcome = run(scenario)
    history = History(outcome.trace)
    verdicts = judge_history(history, broken[:1])
    picture = into / "planted-bug.svg"
    for verdict in verdicts:
        picture.write_text(space_time_diagram(story(history, verdict.violations[0])), encoding="utf-8")
    return Section("a planted bug", BUG, STORY, summarize(outcome.trace), verdicts, picture)


def _live_section(level: str, result: LiveResult) -> Section:
    """Return the section of a live group."""
    trace, path = result.trace, result.path
    facts = result.facts | {
        "processes": len(trace.run.nodes), "published": len(trace.rows[Kind.PUBLISH]),
        "delivered": len(trace.rows[Kind.DELIVER]), "crashes": len(trace.rows[Kind.CRASH]), "rows": trace.count(),
        "trace": path,
    }  # fmt: skip
    picture = result.picture or Path(path) / "no picture"
    return Section(f"{level}, live", LIVE, VIEWS if result.picture else "", facts, result.verdicts, picture)


def _broken_in(scenario: Scenario) -> list[str]:
    return [verdict.promise for verdict in judged(scenario)[1] if verdict.outcome is Outcome.BROKEN]


def _widely_delivered(trace: Trace) -> EventId:
    """Return an event published while faults acted that reached many members."""
    heal_at = trace.run.phases.heal_at if trace.run.phases is not None else 0
    reached: dict[EventId, int] = {}
    for row in trace.records(Kind.DELIVER):
        event = EventId(row["m_pid"], row["m_inc"], row["m_seq"])
        reached[event] = reached.get(event, 0) + (row["t_true"] < heal_at)
    return max(reached, key=lambda event: reached[event])


def _print(
    results: dict[str, tuple[dict[str, Any], list[Verdict]]], canary: Section, shown: dict[str, Section], page: Path
) -> None:
    console = stdout()
    table = Table("level", "events", "deliveries", "of those expected", "skipped", "p50 ms", "p99 ms", "stamp B")
    for level, (facts, _) in results.items():
        part = facts["owed_delivered"] / facts["deliveries_expected"]
        latency = facts["latency_ms"]
        table.add_row(
            level, f"{facts['published']:,}", f"{facts['delivered']:,}", f"{part:.2%}", f"{facts['skipped']:,}",
            f"{latency.p50:.0f}", f"{latency.p99:.0f}", f"{facts['metadata_bytes_mean']:.0f}",
        )  # fmt: skip
    console.print(table)
    for level, (_, verdicts) in results.items():
        console.print(verdict_table(verdicts, f"{level}: every promise, judged from the trace"))
    console.print(verdict_table(canary.verdicts, "a planted bug, caught" if canary.verdicts else "a planted bug"))
    for section in shown.values():
        counts = f"{section.facts['published']:,} events, {section.facts['delivered']:,} deliveries"
        console.print(verdict_table(section.verdicts, f"{section.title}: {counts}, judged from the processes' traces"))
        for name in (LOST_MACHINE, FELT):
            if name in section.facts:
                console.print(f"{name}: {section.facts[name]}", highlight=False)
    console.print(f"report: {page}")
