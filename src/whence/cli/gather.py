"""whence gather: put the spools of live nodes together into a trace."""

from pathlib import Path
from typing import Annotated

import typer

from whence import __version__
from whence.cli.output import complain, directory, print_json
from whence.errors import UsageError
from whence.sim.scenario import SECOND_NS
from whence.trace.memory import Phases, Trace
from whence.trace.schema import INC, NODE, REASON, T_TRUE, WHO, Kind
from whence.trace.spool import NO_TRACE, ROWS_LOST
from whence.trace.spool import gather as gathered

INCOMPLETE = {NO_TRACE: "published, and left no trace here: give its directory too", ROWS_LOST: "lost rows"}


def gather(
    spools: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories that nodes wrote traces to.")],
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
            "published since is owed to every member.",
        ),
    ] = None,
    deadline_s: Annotated[float, typer.Option(min=0, help="With --healed-s: within how many seconds it is.")] = 10.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Put what live nodes wrote down together into one trace that whence check and whence verify judge.

    Example: whence gather traces/ --group alps --out out/live && whence check out/live
    """
    from whence.trace.writer import write_trace

    if healed_s is not None and not one_clock:
        raise UsageError("--healed-s needs --one-clock: without true time nobody can tell what was published since")
    trace = gathered(spools, group, run_id, __version__, one_clock=one_clock)
    if healed_s is not None:
        trace.run.phases = _phases(trace, int(healed_s * SECOND_NS), int(deadline_s * SECOND_NS))
    path = write_trace(directory(out, "--out"), trace)
    for note in trace.records(Kind.NOTE):
        if (why := INCOMPLETE.get(note[REASON])) is not None:
            complain(f"process {note[NODE]}, life {note[INC]}, {why}; what rests on that will be unknown")
    if json:
        print_json(0, trace=str(path), rows=trace.count(), nodes=trace.run.nodes, level=trace.run.level)
    else:
        complain(f"{trace.count():,} rows of {len(trace.run.nodes)} processes: {path}")


def _phases(trace: Trace, healed_ns: int, deadline_ns: int) -> Phases:
    """Return the phase whose events are owed: from healing until a deadline before the last row. Raises UsageError."""
    at = WHO.index(T_TRUE)
    times = [row[at] for rows in trace.rows.values() for row in rows]
    healed, until = min(times, default=0) + healed_ns, max(times, default=0) - deadline_ns
    if until <= healed:
        raise UsageError("the run ends before anything is owed: give a smaller --healed-s or --deadline-s")
    return Phases(healed, healed, until, deadline_ns)
