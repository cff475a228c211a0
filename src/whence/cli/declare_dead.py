"""whence declare-dead: an operator declares that a process has ended for good."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from whence.cli.live import NodeName, parse_incarnation
from whence.cli.output import print_json, print_message
from whence.errors import UsageError
from whence.net.status_client import DeclareDead, ask, pid_of, send_request, the_node


def declare_dead(
    process: Annotated[str, typer.Argument(metavar="NAME:INCARNATION", help="The process, by its name or its pid.")],
    group: Annotated[str, typer.Option(help="The group, at level optimistic.")],
    name: NodeName = None,
    pid: Annotated[int | None, typer.Option(help="The node on this machine to tell, if it has no name.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Declare to a running node that a process has ended for good: this counts as the process's own fence.

    For clusters in which more than k witnesses of one coordinator are gone, so that its tickets would stay closed:
    whence top shows who waits for whom, and every node that waits must get the declaration. Make sure that the process
    has ended: else two may act for one ticket. So they may if it comes back with its data directory: erase that first.
    Example: whence declare-dead billing-2:17 --group alps --name billing-1
    Exit code 0: accepted. 2: the node refuses, or none runs here.
    """
    who, incarnation = parse_incarnation(process)
    path = the_node(pid, socket, name)
    dead = _pid_of(asyncio.run(ask(path)), group, who)
    asyncio.run(send_request(path, DeclareDead(group, dead, incarnation)))
    if json:
        print_json(0, group=group, pid=dead, incarnation=incarnation)
    else:
        print_message(f"process {who}, incarnation {incarnation}, counts as dead in group {group!r}")


def _pid_of(status: dict[str, Any], group: str, who: int | str) -> int:
    """Return the pid of a process, as a node knows it. Raises UsageError, before it looks for a name, where the level
    has no tickets."""
    level = next((each["level"] for each in status["groups"] if each["name"] == group and each["ticket"] is None), None)
    if level is not None:
        raise UsageError(f"group {group!r} runs at level {level}, which has no tickets")
    return pid_of(status, who) if isinstance(who, str) else who
