"""whence force: an operator goes on with the members that are left, where a living group has lost its quorum."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from whence.api.arguments import check_timeout
from whence.cli.live import NodeName
from whence.cli.members import LOOK_S, in_words, view_of
from whence.cli.output import print_json, print_message
from whence.errors import OutcomeUnknownError, UsageError
from whence.net.membership import why_no_survivors, why_not_forced
from whence.net.status_client import Force, ask, pid_of, send_request, the_node

RISKS = (
    "Nothing is promised across this. What only the others have is lost, also what was acknowledged. If the others "
    "still run, the group is split until they meet the survivors; then they are out, and what they published meanwhile "
    "counts for nobody else. Bring them back instead if you can."
)


def force(
    group: Annotated[str, typer.Argument(help="A living group that the node is in.")],
    survivors: Annotated[
        str, typer.Option(metavar="NAME,NAME,…", help="The members that go on, by name or pid. This node must be one.")
    ],
    name: NodeName = None,
    pid: Annotated[int | None, typer.Option(help="The node on this machine to tell, if it has no name.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: the risk is understood.")] = False,
    despite_quorum: Annotated[
        bool, typer.Option("--despite-quorum", help="Force although a quorum answers: it splits the group.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until the survivors go on.")] = 30.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Go on with the named members where a living group has lost its quorum: they become another generation of it.

    Nothing is promised across it, so it asks first. Where a quorum answers it is refused: whence remove is for that,
    and stops nobody. Whoever is not named and runs is out as soon as it meets a
    survivor, and may join anew. Every survivor must run and be reached.
    Example: whence force alps --survivors billing-1,billing-2 --name billing-1
    Exit code 0: they go on. 2: refused, not done in time, or no such node runs here.
    """
    check_timeout(timeout, "--timeout")
    path = the_node(pid, socket, name)
    status = asyncio.run(ask(path))
    chosen = list(dict.fromkeys(pid_of(status, each) for each in survivors.split(",")))
    view = asyncio.run(view_of(path, group))
    members = [each["pid"] for each in view["members"]]
    if wrong := why_no_survivors(members, status["pid"], chosen, lambda pid: in_words(view, [pid])):
        raise UsageError(wrong)
    gone = [each["pid"] for each in view["members"] if each["pid"] not in chosen]
    if view["has_quorum"] and not despite_quorum:
        answering = [each["pid"] for each in view["members"] if each["voter"] and not each["suspected"]]
        raise UsageError(why_not_forced(group, in_words(view, answering)))
    if not yes:
        _confirm(group, in_words(view, chosen), in_words(view, gone) or "nobody")
    generation = asyncio.run(_force(path, Force(group, chosen, despite_quorum), view["generation"], timeout))
    if json:
        print_json(0, group=group, survivors=chosen, generation=generation)
    else:
        print_message(f"group {group!r} goes on with {in_words(view, chosen)}, as generation {generation}")


def _confirm(group: str, survivors: str, gone: str) -> None:
    """Ask whether it is meant. Raises UsageError if it is not, or where nobody can be asked."""
    if not sys.stdin.isatty():
        raise UsageError(f"whence force asks before it acts, and there is no terminal; {RISKS} If it is meant: --yes")
    print_message(f"group {group!r} would go on with {survivors}, without {gone}. {RISKS}")
    if typer.prompt("Type the name of the group to do it", default="", show_default=False) != group:
        raise UsageError("nothing was forced")


async def _force(path: Path, asked: Force, before: int, timeout_s: float) -> int:
    """Force; return the generation that came of it. Raises OutcomeUnknownError, JoinError, UsageError."""
    group = asked.group
    await send_request(path, asked)
    try:
        async with asyncio.timeout(timeout_s):
            while (generation := (await view_of(path, group))["generation"]) <= before:
                await asyncio.sleep(LOOK_S)
            return int(generation)
    except TimeoutError:
        status = await ask(path)
        view = next((each.get("view") for each in status["groups"] if each["name"] == group), None) or {}
        waits = ", ".join(map(str, view.get("waits_for", ()))) or "a view to be entered"
        raise OutcomeUnknownError(
            f"group {group!r} was not forced within {timeout_s:g} s; it waits for {waits}: name only members that run "
            "and can be reached"
        ) from None
