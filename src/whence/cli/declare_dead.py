"""whence declare-dead: an operator's word that a process will never speak again."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from whence.cli.live import parse_process
from whence.cli.output import complain, print_json
from whence.net.status_client import DeclareDead, the_node
from whence.net.status_client import declare_dead as tell


def declare_dead(
    process: Annotated[str, typer.Argument(metavar="PID:BOOT", help="The process, as whence top names it.")],
    group: Annotated[str, typer.Option(help="The group, at level optimistic.")],
    pid: Annotated[int | None, typer.Option(help="The node on this machine to tell.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell a running node that a process is dead for good: from now on that counts as the process's own word.

    For clusters in which more than k witnesses of one coordinator are gone, so that its tickets would stay closed:
    whence top shows who waits for whom, and every node that waits must be told. Make sure that the process has ended.
    Told wrongly, two may act for one ticket. Example: whence declare-dead 5:17 --group alps --pid 1
    Exit code 0: told. 2: the node refuses, or none runs here.
    """
    dead, boot = parse_process(process)
    path = the_node(pid, socket)
    asyncio.run(tell(path, DeclareDead(group, dead, boot)))
    if json:
        print_json(0, group=group, pid=dead, boot=boot)
    else:
        complain(f"process {dead}, life {boot}, counts as dead in group {group!r}")
