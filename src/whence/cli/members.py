"""whence members, whence remove: who is in a living group, and an operator's wish that one of them be removed."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from whence.api.arguments import check_timeout
from whence.cli.live import NodeName
from whence.cli.output import print_json, print_message, stdout
from whence.core.links.process_names import called
from whence.errors import OutcomeUnknownError, UsageError, printable
from whence.net.status_client import Remove, ask, pid_of, send_request, the_node

LOOK_S = 0.1
"""How often a command looks whether a change is decided."""


def members(
    group: Annotated[str, typer.Argument(help="A living group that the node is in.")],
    name: NodeName = None,
    pid: Annotated[int | None, typer.Option(help="The node on this machine to ask, if it has no name.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the members of a living group as a running node sees them, and what a change of them waits for.

    Example: whence members alps --name billing-1
    Exit code 0: listed. 2: the node is in no such group, or none runs here.
    """
    view = asyncio.run(view_of(the_node(pid, socket, name), group))
    if json:
        print_json(0, group=group, **view)
        return
    generation = f" of generation {view['generation']}" if view["generation"] else ""
    title = f"{printable(group)}: view {view['epoch']}{generation}, led by {in_words(view, [view['leader']])}"
    table = Table(title=title, box=None)
    for column in ("process", "address", "since view", "votes", "live", "suspected", "lag"):
        table.add_column(column)
    for each in view["members"]:
        flags = ["yes" if each[name] else "" for name in ("voter", "live", "suspected")]
        table.add_row(in_words(view, [each["pid"]]), each["address"], str(each["joined"]), *flags, str(each["lag"]))
    stdout().print(table)
    if change := change_in_words(view):
        print_message(change)


def change_in_words(view: dict[str, Any]) -> str:
    """Say which change of a view is under way, and whom it waits for; empty if none is."""
    words = [view["change"]] if view["change"] else []
    if view["leaving"]:
        words.append("this process is leaving")
    if view["waits_for"]:
        words.append(f"waits for {in_words(view, view['waits_for'])}")
    return "; ".join(words)


def in_words(view: dict[str, Any], pids: list[int]) -> str:
    """Return processes by their names and numbers, where the view knows the names."""
    names = {each["pid"]: each["name"] for each in view["members"]}
    return ", ".join(called(pid, names.get(pid, "")).removeprefix("process ") for pid in pids)


def remove(
    group: Annotated[str, typer.Argument(help="A living group that the node is in.")],
    process: Annotated[str, typer.Argument(metavar="NAME", help="The member to remove, by its name or its pid.")],
    name: NodeName = None,
    pid: Annotated[int | None, typer.Option(help="The node on this machine to tell, if it has no name.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until it is out.")] = 30.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Remove a member from a living group, and wait until it is out.

    Those that stay must contain a quorum of the voters. What the removed has not shared yet never takes effect; should
    it run, it learns that, and may join as a new member. Example: whence remove alps billing-3 --name billing-1
    Exit code 0: it is out, or was before. 2: refused, not decided in time (it stays wanted), or no such node runs here.
    """
    check_timeout(timeout, "--timeout")
    removed, was_out = asyncio.run(_remove(the_node(pid, socket, name), group, process, timeout))
    if json:
        print_json(0, group=group, pid=removed)
    elif was_out:
        print_message(f"process {process} is no member of group {group!r} any more: it left or was removed before")
    else:
        print_message(f"process {process} is no longer a member of group {group!r}")


async def view_of(path: Path, group: str) -> dict[str, Any]:
    """Return a group's view. Raises JoinError, UsageError."""
    status = await ask(path)
    found, who = opened_in(status, group), called(status["pid"], status["name"])
    if "view" not in found:
        raise UsageError(f"the members of group {group!r} do not change by views; whence top shows whom it knows")
    view: dict[str, Any] | None = found["view"]
    if view is None or not found["member"]:
        raise UsageError(f"{who} is not a member of group {group!r} yet, or no longer")
    return view


def opened_in(status: dict[str, Any], group: str) -> dict[str, Any]:
    """Return what a node's status says of a group. Raises UsageError where it is not open at that node."""
    found: dict[str, Any] | None = next((each for each in status["groups"] if each["name"] == group), None)
    who = called(status["pid"], status["name"])
    waits = status["unopened"].get(group, "") if found is None else found["waits_for"]
    if found is not None and found.get("failure"):  # a node of an earlier version does not say
        waiting = f"; it waits for {waits}" if waits else ""
        raise UsageError(f"{who} is out of group {group!r}: {found['failure']}{waiting}")
    if waits:
        raise UsageError(f"group {group!r} is not open at {who} yet: it waits for {waits}")
    if found is None:
        raise UsageError(f"{who} is in no group {group!r}")
    return found


async def _remove(path: Path, group: str, who: str, timeout_s: float) -> tuple[int, bool]:
    """Remove a member, and wait until it is out; return its pid, and whether it was out before. Raises JoinError,
    UsageError, OutcomeUnknownError."""
    process = pid_of(await ask(path), who)
    first = await view_of(path, group)
    before = _joined(first, process)
    if (await send_request(path, Remove(group, process))).get("out"):
        return process, True
    try:
        async with asyncio.timeout(timeout_s):
            while _joined(view := await view_of(path, group), process) == before:
                if view["epoch"] == view["adopted"] != first["epoch"] and not view["change"]:
                    raise UsageError(
                        f"process {who} cannot be removed from group {group!r} any more: its view has changed, and "
                        "those that would stay are no quorum"
                    )
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        view = await view_of(path, group)
        silent = [each["pid"] for each in view["members"] if each["suspected"] and each["pid"] != process]
        waits = in_words(view, view["waits_for"] or silent) or f"{in_words(view, [view['leader']])}, which leads"
        raise OutcomeUnknownError(
            f"process {who} is still a member after {timeout_s:g} s; its removal stays wanted and waits for {waits}"
        ) from None
    return process, False


def _joined(view: dict[str, Any], pid: int) -> int | None:
    """Return the epoch in which a member was added; None if it is none."""
    return next((each["joined"] for each in view["members"] if each["pid"] == pid), None)
