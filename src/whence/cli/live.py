"""What the commands of the live system share: options, logs, a node that runs until a signal stops it."""

import asyncio
import contextlib
import logging
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from whence.api.node import Node, join
from whence.cli.output import parse_settings, print_message
from whence.core.links.process_names import is_name
from whence.errors import NameTakenError, UsageError, printable
from whence.limits import INCARNATION_MAX, MERGED_PEER_ID_MAX
from whence.net.settings import net_settings_from
from whence.store.directory import owner_of

Contacts = Annotated[
    list[str] | None,
    typer.Option(
        "--contact",
        metavar="HOST:PORT",
        help="A member to join through; a host name may have several addresses. May be repeated.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option(help="This process's lasting name, such as billing-1: no other that runs may have it."),
]
NodeName = Annotated[str | None, typer.Option("--name", help="The node on this machine to ask, by its name.")]
Pid = Annotated[
    int | None, typer.Option(help="This process's number, 0 to 32767. Default: from its name, or drawn above 4095.")
]
Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where others reach this process; port 0 picks one.")]
Cluster = Annotated[str, typer.Option(help="Only processes of the same cluster talk to each other.")]
Certs = Annotated[
    Path | None, typer.Option(help="Directory with ca.pem, member-NAME.pem and .key, as whence certs makes it.")
]
Insecure = Annotated[bool, typer.Option(help="Allow addresses beyond loopback without certificates.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the group's level.")
]
Net = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Change how this process talks to others and watches them, such as udp=true or heartbeat_ns=200000000; "
        "a wrong name lists all. May be repeated.",
    ),
]
Founders = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,…",
        help="The names (or pids) of the processes that begin the group together, the same list at each of them. "
        "Level optimistic needs at least three; elsewhere, without any, the first process that comes begins the "
        "group.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="What must outlive this process is kept here: at causal and total it comes back as the same member."
    ),
]
Create = Annotated[
    bool | None,
    typer.Option(
        "--create/--no-create",
        help="At causal and total, without founders: begin the group if nobody is in it, whatever contacts do not "
        "answer; or never begin it. Default: begin it once every contact has answered.",
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(help="Write a trace here, for whence gather and whence check; they need every process's."),
]
Payloads = Annotated[
    bool,
    typer.Option("--payloads", help="With --trace: the trace has payloads too, not only their sizes and checksums."),
]
Log = Annotated[str, typer.Option(help="Logs on standard error: off, text or json.")]

Result = TypeVar("Result")

GUEST_PIDS = range(4_096, 32_768)
"""Pids drawn for pub and sub: above those that people choose, and as many as the merge key has room for. Of 200 guests
two may draw the same, and the second draws again."""

DRAWS_MAX = 8
"""How often a guest draws a pid before it gives up: with half of them taken, one in 256 has to."""


class TextLines(logging.Formatter):
    """Logs as text, for a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return one line without control characters, whatever it quotes of peers."""
        record.message = printable(record.message)
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """Logs as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; never a payload or a key, because none is ever logged."""
        fields = {
            "t": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


def set_up_logs(kind: str) -> None:
    """Send logs to standard error in the form asked for. Raises UsageError."""
    if kind not in ("off", "text", "json"):
        raise UsageError(f"--log is off, text or json, not {kind!r}")
    if kind == "off":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if kind == "json" else TextLines("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("whence").addHandler(handler)
    logging.getLogger("whence").setLevel(logging.INFO)


def guest_pid(pid: int | None, data: Path | None = None) -> int:
    """Return the pid given, or that of the data directory, or draw one. Raises StorageError."""
    if pid is None and data is not None:
        pid = owner_of(data)
    return pid if pid is not None else random.SystemRandom().choice(GUEST_PIDS)


def node_maker(
    listen: str, contacts: list[str] | None, cluster: str, certs: Path | None, insecure: bool, name: str | None,
    net: list[str] | None, *, create: bool | None, payloads: bool = False, **more: Any,
) -> Callable[[int | None], Node]:  # fmt: skip
    """Return a function that makes a node for a pid, from the usual options. Whoever begins a group does not wait for
    contacts. Raises UsageError."""
    given = parse_settings(net or [], "--net") | ({"trace_payloads": "true"} if payloads else {})
    settings = net_settings_from({"alone": bool(create), **given})

    def make(pid: int | None) -> Node:
        return make_node(pid, listen, contacts, cluster, certs, insecure, name, settings=settings, **more)

    return make


@contextlib.asynccontextmanager
async def opened_node(
    pid: int | None, data: Path | None, make: Callable[[int | None], Node], name: str | None = None
) -> AsyncIterator[Node]:
    """Yield a node made for a pid, and close it at the end; without a name or a pid, one is drawn, again if it is
    taken.

    Raises what opening the node raises.
    """
    for tries_left in reversed(range(DRAWS_MAX)):
        node = make(pid if name is not None else guest_pid(pid, data))
        try:
            await node.__aenter__()
            break
        except NameTakenError:
            if name is not None or pid is not None or data is not None or not tries_left:
                raise
    try:
        yield node
    except BaseException as error:
        await node.__aexit__(type(error), error, error.__traceback__)
        raise
    await node.close()


def parse_founders(text: str | None) -> list[int | str]:
    """Return names or pids given with commas between. Raises UsageError."""
    given = text.split(",") if text else []
    if not all(each.isdecimal() or is_name(each) for each in given):
        raise UsageError(
            f"--founders takes names or pids with commas between, such as billing-1,billing-2,billing-3, not {text!r}"
        )
    return [int(each) if each.isdecimal() else each for each in given]


def parse_incarnation(text: str) -> tuple[int | str, int]:
    """Return an incarnation of a process, given as NAME:INCARNATION or PID:INCARNATION. Raises UsageError."""
    who, _, incarnation = text.partition(":")
    is_process = is_name(who) or (who.isdecimal() and int(who) <= MERGED_PEER_ID_MAX)
    if not (is_process and incarnation.isdecimal() and int(incarnation) <= INCARNATION_MAX):
        raise UsageError(
            f"a process is NAME:INCARNATION or PID:INCARNATION, such as billing-1:17 or 5:17, not {text!r}"
        )
    return int(who) if who.isdecimal() else who, int(incarnation)


def make_node(
    pid: int | None, listen: str, contacts: list[str] | None, cluster: str, certs: Path | None, insecure: bool,
    name: str | None = None, **more: Any,
) -> Node:  # fmt: skip
    """Return a node made from the usual options. Raises UsageError."""
    files: dict[str, Any] = {}
    if certs is not None:
        stem = f"member-{name if name is not None else pid}"
        if name is None and not (certs / f"{stem}.pem").exists():
            raise UsageError(
                f"--certs {certs} has no certificate of process {pid}: give --name, whose certificate it has"
            )
        files = {"certificate": certs / f"{stem}.pem", "key": certs / f"{stem}.key", "authority": certs / "ca.pem"}
    return join(
        name, pid=pid, listen=listen, contacts=contacts or [], cluster=cluster, insecure=insecure, **files, **more
    )


def print_unreached(node: Node) -> None:
    """Print a message where no contact has answered yet: what follows waits for one."""
    if why := node.live.contacts.unreached():
        print_message(f"no contact has answered yet, and they are tried again: {why}")


@contextlib.asynccontextmanager
async def until_signalled() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set. A second signal ends the body at once: nothing is waited for."""
    stop, loop, body = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()
    assert body is not None
    at_once = False

    def signalled() -> None:
        nonlocal at_once
        if stop.is_set() and not at_once:
            at_once = True
            body.cancel()
        stop.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, signalled)
    try:
        yield stop
    except asyncio.CancelledError:
        if not at_once:
            raise
        body.uncancel()
        print_message("ended by a second signal, before all groups were left")
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, Result]) -> Result | None:
    """Return the result of a coroutine, or None if `stop` is set first. Raises what the coroutine raises."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            doing.cancel()
            await asyncio.wait([doing])
        return None if doing.cancelled() else doing.result()
    finally:
        doing.cancel()
        stopping.cancel()


@contextlib.asynccontextmanager
async def up(stop: asyncio.Event, made: contextlib.AbstractAsyncContextManager[Node]) -> AsyncIterator[Node | None]:
    """Yield a node that has reached a contact, or has looked long enough; None if `stop` is set first. Close it at the
    end. Raises what opening the node raises."""
    async with contextlib.AsyncExitStack() as entered:
        node = await unless_stopped(stop, entered.enter_async_context(made))
        if node is not None:
            print_unreached(node)
        yield node
