"""whence gather: put the spools of live nodes together into a trace."""

from pathlib import Path
from typing import Annotated

import typer

from whence import __version__
from whence.cli.output import complain, directory, print_json
from whence.trace.spool import gather as gathered
from whence.trace.writer import write_trace


def gather(
    spools: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories that nodes wrote traces to.")],
    out: Annotated[Path, typer.Option(help="Write the trace below this directory, for whence check.")],
    group: Annotated[str, typer.Option(help="The group.")],
    run_id: Annotated[str, typer.Option(help="What to call the run.")] = "live",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Put what live nodes wrote down together into one trace that whence check and whence verify judge.

    Example: whence gather traces/ --group alps --out out/live && whence check out/live
    """
    trace = gathered(spools, group, run_id, __version__)
    path = write_trace(directory(out, "--out"), trace)
    if json:
        print_json(0, trace=str(path), rows=trace.count(), nodes=trace.run.nodes, level=trace.run.level)
    else:
        complain(f"{trace.count():,} rows of {len(trace.run.nodes)} processes: {path}")
