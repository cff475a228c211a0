"""whence gather: collect the trace segments of live nodes into one trace."""

from pathlib import Path
from typing import Annotated

import typer

from whence import __version__
from whence.cli.output import directory, print_json, print_message
from whence.errors import TraceError, UsageError
from whence.sim.scenario import SECOND_NS
from whence.trace.gathering import Gathering
from whence.trace.memory import Phases, Run, Trace
from whence.trace.segments import FORMER_MISSING, NO_TRACE, ROWS_LOST

INCOMPLETE = {
    NO_TRACE: "took part, and left no trace here: give its directory too",
    ROWS_LOST: "lost rows",
    FORMER_MISSING: "goes on from an earlier one that left no trace here: give its directory too",
}

DRAIN_ROWS = 1 << 16
"""Rows that are read before full chunks are written."""


def gather(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories that nodes wrote traces to.")
    ],
    out: Annotated[Path, typer.Option(help="Write the trace below this directory, for whence check.")],
    group: Annotated[str, typer.Option(help="The group.")],
    run_id: Annotated[str, typer.Option(help="What to call the run.")] = "live",
    one_clock: Annotated[
        bool, typer.Option(help="All nodes ran on one machine: take its clock for true time, and judge by it.")
    ] = False,
    healed_s: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="With --one-clock: seconds from the first row to the last fault, 0 if there was none. What was "
            "published since must reach every member.",
        ),
    ] = None,
    deadline_s: Annotated[float, typer.Option(min=0, help="With --healed-s: within how many seconds.")] = 10.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Collect what live nodes recorded into one trace that whence check and whence verify judge.

    Example: whence gather traces/ --group alps --out out/live && whence check out/live
    """
    if healed_s is not None and not one_clock:
        raise UsageError("--healed-s needs --one-clock: without true time it is unknown what was published since")
    for place in directories:
        if not place.exists():
            raise UsageError(f"{place} does not exist; give the directories that live nodes wrote traces to")
    found = Gathering(directories, group, run_id, __version__, one_clock=one_clock)
    if healed_s is not None:
        found.run.phases = _phases(found, int(healed_s * SECOND_NS), int(deadline_s * SECOND_NS))
    _check_free(directory(out, "--out"), found.run)
    path, rows = write_gathered(out, found)
    missing = [f"process {node}, incarnation {inc}, {INCOMPLETE[why]}" for node, inc, why in found.incomplete]
    for sentence in missing:
        print_message(f"{sentence}; verdicts that need it will be unknown")
    run = found.run
    if json:
        print_json(
            0, trace=str(path), rows=rows, nodes=run.nodes, level=run.level, durable=run.durable, incomplete=missing
        )
    else:
        print_message(f"{rows:,} rows of {len(run.nodes)} processes: {path}")


def _check_free(out: Path, run: Run) -> None:
    """Raise UsageError where another group's run has this name: gathering again replaces only the same run."""
    from whence.trace.reader import read_run

    try:
        before = read_run(out / f"run_id={run.run_id}")
    except TraceError:
        return
    if before.groups.keys() != run.groups.keys() or before.level != run.level:
        names = ", ".join(sorted(before.groups))
        raise UsageError(f"{out} has a run {run.run_id!r} of group {names} already; give another --run-id or --out")


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


def _phases(found: Gathering, healed_ns: int, deadline_ns: int) -> Phases:
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
