"""whence gather: collect the trace segments of live nodes into one trace."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence import __version__
from whence.cli.output import directory, print_json, print_message
from whence.cli.spark import need_spark, placed, starting
from whence.cli.verify import Conf
from whence.errors import TraceError, UsageError
from whence.sim.scenario import SECOND_NS
from whence.store.lock import locked_while
from whence.trace.gathering import GatheredRun, Gathering
from whence.trace.layout import claim_name
from whence.trace.memory import Phases, Run, Trace
from whence.trace.segments import FORMER_MISSING, NO_TRACE, ROWS_LOST, groups_of

if TYPE_CHECKING:
    from whence.pipeline.storage import AnyPath, Start

INCOMPLETE = {
    NO_TRACE: "took part, and left no trace here: give its directory too",
    ROWS_LOST: "lost rows",
    FORMER_MISSING: "goes on from an earlier one that left no trace here: give its directory too",
}

DRAIN_ROWS = 1 << 16
"""Rows that are read before full chunks are written."""


def gather(
    directories: Annotated[
        list[str], typer.Argument(metavar="DIR...", help="Directories that nodes wrote traces to: paths or URIs.")
    ],
    out: Annotated[str, typer.Option(help="Write the trace below this directory, a path or URI, for whence check.")],
    group: Annotated[
        str | None, typer.Option(help="The group. It may be left out where the directories have traces of one only.")
    ] = None,
    run_id: Annotated[str, typer.Option(help="What to call the run.")] = "live",
    one_clock: Annotated[
        bool, typer.Option(help="All nodes ran on one machine: take its clock for true time, and judge by it.")
    ] = False,
    healed_s: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="With --one-clock: seconds from the first row to the last fault, 0 if there was none. What was "
            "published since must reach every member that was there by then and stays until its deadline passed.",
        ),
    ] = None,
    deadline_s: Annotated[float, typer.Option(min=0, help="With --healed-s: within how many seconds.")] = 10.0,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="On Spark: read on as the nodes write, and say what they lost; rows go to OUT/rows, step by step.",
        ),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="With --follow: read what is new, and stop.")] = False,
    every_s: Annotated[float, typer.Option(min=0.1, help="With --follow: seconds between two steps.")] = 10.0,
    master: Annotated[
        str | None,
        typer.Option(help="Gather on Spark, which runs there: local[*] or spark://HOST:PORT. URIs need Spark anyway."),
    ] = None,
    conf: Conf = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Collect what live nodes recorded into one trace that whence check and whence verify judge.

    A run of this name, group and level that is there already is replaced: nodes go on, and are gathered again.
    Large traces are gathered on Spark, with --master; the rows are the same. With --follow the rows of a running group
    go to a table as they are written, each once, even if the command is killed; OUT/manifests has what counts.
    Example: whence gather traces/ --group alps --out out/live && whence check out/live
    """
    if healed_s is not None and not one_clock:
        raise UsageError("--healed-s needs --one-clock: without true time it is unknown what was published since")
    start = starting(master, conf)
    places, target = [placed(each, start) for each in directories], placed(out, start)
    _check_there(places)
    group = group or _only_group(places)
    if follow:
        _follow(places, target, group, start, once=once, every_s=every_s, json=json)
        return

    def prepare(found: GatheredRun) -> None:
        if healed_s is not None:
            found.run.phases = _phases(found, int(healed_s * SECOND_NS), int(deadline_s * SECOND_NS))
        _check_free(target, found.run)

    here = [place for place in places if isinstance(place, Path)]
    if master is not None or conf or len(here) < len(places) or not isinstance(target, Path):
        need_spark("--master" if master is not None else "--conf" if conf else "a URI")
        from whence.pipeline.gather import gather_on_spark

        found, path, rows = gather_on_spark(
            start(), places, target, group, run_id, __version__, one_clock=one_clock, prepare=prepare
        )
    else:
        directory(target, "--out")
        with locked_while(target / claim_name(run_id), "--out:", "one command at a time writes a run there"):
            found = local = Gathering(here, group, run_id, __version__, one_clock=one_clock)
            prepare(found)
            path, rows = write_gathered(target, local)
    _tell(found, str(path), rows, json=json)


def _tell(found: GatheredRun, path: str, rows: int, *, json: bool) -> None:
    """Print what was gathered, and what is not there."""
    missing = [f"process {node}, incarnation {inc}, {INCOMPLETE[why]}" for node, inc, why in found.incomplete]
    killed = [f"process {node}, incarnation {inc}" for node, inc in found.killed]
    for sentence in missing:
        print_message(f"{sentence}; verdicts that need it will be unknown")
    for who in killed:
        print_message(
            f"{who}, was killed or still runs: the last events that its application was handed may not be on file"
        )
    run = found.run
    if json:
        print_json(
            0, trace=path, rows=rows, nodes=run.nodes, level=run.level, durable=run.durable, incomplete=missing,
            killed=killed,
        )  # fmt: skip
    else:
        print_message(f"{rows:,} rows of {len(run.nodes)} processes: {path}")


def _follow(
    places: "Sequence[AnyPath]", out: "AnyPath", group: str, start: "Start", *, once: bool, every_s: float, json: bool
) -> None:
    """Read on as nodes write; print every step, and what was lost."""
    need_spark("--follow")
    from whence.pipeline import follow as following

    def told(step: following.Step) -> None:
        print_message(f"step {step.number}: {step.rows:,} rows")
        for lost in step.lost:
            print_message(lost.sentence())

    last = following.follow(start(), places, group, out, once=once, every_seconds=every_s, on_step=told)
    rows = sum(each.rows for each in last.incarnations.values())
    if json:
        print_json(0, out=str(out), steps=last.number + 1, rows=rows, missing=last.missing)
    else:
        print_message(f"{last.number + 1:,} steps: {rows:,} rows, {last.missing:,} lost; {out}")


def _only_group(places: "Sequence[AnyPath]") -> str:
    """Return the group of which there are traces. Raises UsageError where it must be named."""
    found = groups_of(name for place in places for name in _file_names(place))
    if len(found) == 1:
        return found[0]
    if not found:
        named = ", ".join(map(str, places))
        raise UsageError(f"{named}: no trace of a live node is there; give the directories that nodes wrote traces to "
                         "(trace=…, --trace)")  # fmt: skip
    raise UsageError(f"there are traces of the groups {', '.join(found)}: give one of them (--group)")


def _file_names(place: "AnyPath") -> list[str]:
    """Return the names of the files below a place."""
    if isinstance(place, Path):
        return [file.name for file in place.rglob("*")]
    from whence.pipeline.storage import files_below

    return [file.name for file in files_below(place)]


def _check_there(places: "Sequence[AnyPath]") -> None:
    for place in places:
        if not place.exists():
            raise UsageError(f"{place} does not exist; give the directories that live nodes wrote traces to")


def _check_free(out: "AnyPath", run: Run) -> None:
    """Say that a run is gathered again, which replaces it. Raises UsageError where another group's run has its name."""
    from whence.trace.reader import parse_run

    file = out / f"run_id={run.run_id}" / "run.json"
    try:
        before = parse_run(file.read_bytes(), file)
    except (TraceError, OSError):
        return
    if before.groups.keys() != run.groups.keys() or before.level != run.level:
        names = ", ".join(sorted(before.groups))
        raise UsageError(f"{out} has a run {run.run_id!r} of group {names} already; give another --run-id or --out")
    rows = "" if before.rows is None else f" ({before.rows:,} rows)"
    print_message(f"{file.parent} was gathered before{rows}, and is replaced; give another --run-id to keep both")


def write_gathered(out: Path, found: Gathering) -> tuple[Path, int]:
    """Write the trace as it is read, never more than a chunk of it in memory; return where, and how many rows."""
    from whence.trace.writer import TraceWriter

    writer, trace = TraceWriter(out, found.run), Trace(found.run)
    for number, (kind, row) in enumerate(found.rows(), start=1):
        trace.rows[kind].append(row)
        if number % DRAIN_ROWS == 0:
            writer.drain(trace)
    rows = writer.rows + trace.count()
    writer.close(trace)
    return writer.path, rows


def _phases(found: GatheredRun, healed_ns: int, deadline_ns: int) -> Phases:
    """Return the liveness phase: from healing until a deadline before the last row. Raises UsageError."""
    first, last = found.span
    healed, until = first + healed_ns, last - deadline_ns
    if until <= healed:
        left_s = (last - healed) / SECOND_NS
        if left_s <= 0:
            raise UsageError(
                f"--healed-s {healed_ns / SECOND_NS:g}: the run ends {-left_s:.3g} s before that; give less"
            )
        raise UsageError(
            f"--deadline-s {deadline_ns / SECOND_NS:g}: the run ends {left_s:.3g} s after the last fault (--healed-s), "
            f"before any delivery is expected; give less than {left_s:.3g}"
        )
    return Phases(healed, healed, until, deadline_ns)
