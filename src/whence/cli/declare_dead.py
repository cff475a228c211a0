"""whence declare-dead: an operator declares that a process has ended for good."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from whence.cli.live import parse_process
from whence.cli.output import print_json, print_message
from whence.net.status_client import DeclareDead, send_request, the_node


def declare_dead(
    process: Annotated[str, typer.Argument(metavar="PID:INCARNATION", help="The process, as whence top names it.")],
    group: Annotated[str, typer.Option(help="The group, at level optimistic.")],
    pid: Annotated[int | None, typer.Option(help="The node on this machine to tell.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Declare to a running node that a process has ended for good: this counts as the process's own fence.

    For clusters in which more than k witnesses of one coordinator are gone, so that its tickets would stay closed:
    whence top shows who waits for whom, and every node that waits must get the declaration. Make sure that the process
    has ended: else two may act for one ticket. So they may if it comes back with its data directory: erase that first.
    Example: whence declare-dead 5:17 --group alps --pid 1
    Exit code 0: accepted. 2: the node refuses, or none runs here.
    """
    dead, incarnation = parse_process(process)
    path = the_node(pid, socket)
    asyncio.run(send_request(path, DeclareDead(group, dead, incarnation)))
    if json:
        print_json(0, group=group, pid=dead, incarnation=incarnation)
    else:
        print_message(f"process {dead}, incarnation {incarnation}, counts as dead in group {group!r}")
