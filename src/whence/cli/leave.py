"""whence leave: an operator's wish that a running node leave a living group for good."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from whence.api.arguments import check_timeout
from whence.cli.live import NodeName
from whence.cli.members import LOOK_S, change_in_words, opened_in
from whence.cli.output import print_json, print_message
from whence.errors import JoinError, OutcomeUnknownError, UsageError
from whence.net.status_client import Leave, ask, send_request, the_node


def leave(
    group: Annotated[str, typer.Argument(help="A living group that the node is in.")],
    name: NodeName = None,
    pid: Annotated[int | None, typer.Option(help="The node on this machine that is to leave it.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until it is out.")] = 30.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Let a running node leave a living group for good, and wait until it is out.

    It publishes nothing more, what it published is settled first, and the others decide a view without it. To stop a
    node that has a data directory is not to leave: it stays a member that is away. A whence node that has no other
    group ends when it has left.
    Example: whence leave alps --name billing-3
    Exit code 0: it is out. 2: it goes on leaving and is not out yet, or no such node runs here.
    """
    check_timeout(timeout, "--timeout")
    path = the_node(pid, socket, name)
    asyncio.run(_leave(path, group, timeout))
    if json:
        print_json(0, group=group)
    else:
        print_message(f"the node has left group {group!r}")


async def _leave(path: Path, group: str, timeout_s: float) -> None:
    opened_in(await ask(path), group)
    await send_request(path, Leave(group, "for good"))
    change = ""
    try:
        async with asyncio.timeout(timeout_s):
            while (view := await _view(path, group)) is not None:
                change = change_in_words(view)
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise OutcomeUnknownError(
            f"the node is still a member of group {group!r} after {timeout_s:g} s, and goes on leaving: {change}; "
            "remove those that are gone for good (whence remove), or bring enough back for a quorum"
        ) from None


async def _view(path: Path, group: str) -> dict[str, object] | None:
    """Return the view of a member that is leaving; None once it is out, or its node has ended for want of groups."""
    try:
        status = await ask(path)
    except JoinError:
        return None
    found = next((each for each in status["groups"] if each["name"] == group and each["member"]), None)
    if found is not None and "view" not in found:
        raise UsageError(f"the members of group {group!r} do not change by views: stop the node instead")
    view: dict[str, object] | None = None if found is None else found["view"]
    return view
