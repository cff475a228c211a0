"""whence pub: publish lines from standard input."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from whence.api.group import Group
from whence.api.node import Node
from whence.api.receipts import Durability, Receipt
from whence.cli import live, staying
from whence.cli.output import Interrupted, parse_settings, print_json, print_message
from whence.errors import UsageError
from whence.net.run import run

Result = TypeVar("Result")

LINES_AT_ONCE = 512

MESSAGE_INTERVAL_S = 3.0
"""How long to wait for members between two messages about it."""


Dead = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME:INCARNATION",
        help="At level optimistic: declare that this incarnation of a process has ended, where a ticket waits for it. "
        "If it has not, two may act for one ticket. May be repeated.",
    ),
]


def pub(
    group: Annotated[str, typer.Argument(help="The group to publish in.")],
    contact: live.Contacts = None,
    level: Annotated[str, typer.Option(help="The group's level.")] = "fifo",
    founders: live.Founders = None,
    create: live.Create = None,
    ndjson: Annotated[bool, typer.Option(help="Each line must be JSON; others are refused.")] = False,
    until: Annotated[
        str,
        typer.Option(
            help="Wait until all is accepted, stored (it survives a crash of this process; needs --data), majority (a "
            "quorum of the voters has it) or settled (every other member has it)."
        ),
    ] = "settled",
    timeout: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds to wait for that; then print what is missing and exit with 2."),
    ] = None,
    members: Annotated[
        int, typer.Option(min=1, help="Wait until the group has this many members, this one included.")
    ] = 2,
    dead: Dead = None,
    name: live.Name = None,
    pid: live.Pid = None,
    listen: live.Listen = "127.0.0.1:0",
    cluster: live.Cluster = "whence",
    data: live.Data = None,
    leave: staying.Leave = False,
    trace: live.Trace = None,
    payloads: live.Payloads = False,
    certs: live.Certs = None,
    insecure: live.Insecure = False,
    settings: live.Settings = None,
    net: live.Net = None,
    log: live.Log = "off",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Publish each line of standard input as an event, then leave. At level optimistic a ticket is obtained first.

    With --data, this process stays a member at causal and total when it ends, and the others wait for it until it is
    started again or removed: give --leave to leave for good.
    Example: seq 100 | whence pub alps --contact 127.0.0.1:4000
    Ctrl-c ends it in order: nothing more is read, what was published goes out, and the group is closed, or left. A
    second one ends it at once.
    Exit code 0: everything reached what --until says. 2: it did not, or with --leave the group was not left in time.
    130: ended by ctrl-c.
    """
    _check_until(until, data)
    ended = [live.parse_incarnation(text) for text in dead or []]
    live.set_up_logs(log)
    make = live.node_maker(
        listen, contact, cluster, certs, insecure, name, net, create=create, data=data, trace=trace, payloads=payloads
    )
    given: dict[str, Any] = {
        "founders": live.parse_founders(founders), "settings": parse_settings(settings or []), "create": create,
        "durable": until == Durability.STORED,
    }  # fmt: skip
    if until == Durability.MAJORITY:
        given["settings"]["majority"] = True
    lines = Lines(ndjson=ndjson)

    async def publish(joined: Group) -> bool:
        await _get_ready(joined, ended, members)
        receipt = await _publish_lines(joined, lines)
        if receipt is not None:
            await _wait_until(receipt, until, timeout)
        return True

    made = live.opened_node(pid, data, make, name)
    is_done, stays = run(_take_part(made, group, level, given, publish, lines, leave=leave))
    published = f"published {lines.published} events in group {group!r}"
    if is_done and json:
        print_json(0, group=group, published=lines.published, until=until)
    elif is_done:
        print_message(f"{published}, {until}")
    if stays:
        print_message(stays)
    if not is_done:
        raise Interrupted(f"{published}, and waited neither for more nor until all are {until}")


def _check_until(until: str, data: Path | None) -> None:
    if until not in Durability.__members__.values():
        raise UsageError(f"--until is accepted, stored, majority or settled, not {until!r}")
    if until == Durability.STORED and data is None:
        raise UsageError("--until stored needs --data, a directory that lasts: there it is stored")


async def _get_ready(group: Group, ended: list[tuple[int | str, int]], members: int) -> None:
    """Wait until publishing is possible and there are so many members."""
    for who, incarnation in ended:
        group.declare_dead(who, incarnation)
    await group.ready_to_publish()
    if len(group.members()) + 1 < members:
        print_message(f"waiting until group {group.name!r} has {members} members (--members)")
    await group.gathered(members)


async def _take_part(
    made: AbstractAsyncContextManager[Node], group: str, level: str, given: dict[str, Any],
    publish: Callable[[Group], Coroutine[Any, Any, bool]], lines: "Lines", *, leave: bool,
) -> tuple[bool, str]:  # fmt: skip
    """Publish as a member of a group, and close it, also after a signal; return whether all was done, and what to say
    of a process that stays a member."""
    is_done, stays = False, ""
    async with live.until_signalled() as stop, live.up(stop, made) as node:
        opening = node.open(group, level, **given, receive=False) if node is not None else None
        joined = await live.unless_stopped(stop, opening) if opening is not None else None
        if node is None or joined is None:
            return False, ""
        with staying.said(joined, who := node.name or str(node.pid)):
            staying.check_leave(joined, leave)
            is_done = await live.unless_stopped(stop, publish(joined)) is not None
            if leave:
                await staying.leave(joined, who, f"{lines.published} events are published")
        stays = staying.sentence(joined, who)
        await joined.close()
    return is_done, stays


async def _publish_lines(group: Group, lines: "Lines") -> Receipt | None:
    """Publish all lines; return the receipt of the last ones."""
    receipt = None
    while some := await _aside(lines.some):
        receipt = await group.publish_many(some)
        lines.published += len(some)
    return receipt


def _aside(read: Callable[[], Result]) -> asyncio.Future[Result]:
    """Return what comes of a call that may wait for ever, made in a thread that no ending process waits for."""
    done: Future[Result] = Future()
    done.set_running_or_notify_cancel()

    def call() -> None:
        try:
            done.set_result(read())
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            done.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return asyncio.wrap_future(done)


async def _wait_until(receipt: Receipt, until: str, timeout_s: float | None) -> None:
    """Wait until the events are what was asked for; print who is missing where settled takes long."""
    await receipt.accepted()
    if until == Durability.STORED:
        await receipt.stored(timeout_s)
    elif until == Durability.MAJORITY:
        await receipt.majority(timeout_s)
    if until != Durability.SETTLED:
        return
    waiting = asyncio.ensure_future(receipt.settled(timeout_s))
    while not (await asyncio.wait([waiting], timeout=MESSAGE_INTERVAL_S))[0]:
        missing = ", ".join(map(str, receipt.missing()))
        print_message(f"all is published; waiting until {missing} have it (ctrl-c ends that, not the events)")
    await waiting


class Lines:
    """Standard input as lines, as many at a time as are there."""

    def __init__(self, *, ndjson: bool) -> None:
        self.published = 0
        self._ndjson = ndjson
        self._ready: list[bytes] = []
        self._rest = b""
        self._ended = False

    def some(self) -> list[bytes]:
        """Return at least a line, or nothing at the end. Raises UsageError for a line that is not JSON."""
        while not self._ready and not self._ended:
            data = os.read(sys.stdin.fileno(), 1 << 16)
            *self._ready, self._rest = (self._rest + data).split(b"\n")
            if not data:
                self._ended = True
                self._ready = [self._rest] if self._rest else []
        taken, self._ready = self._ready[:LINES_AT_ONCE], self._ready[LINES_AT_ONCE:]
        return [self._checked(line.rstrip(b"\r")) for line in taken]

    def _checked(self, line: bytes) -> bytes:
        if self._ndjson:
            try:
                msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise UsageError(f"with --ndjson every line is JSON, and {line[:40]!r} is not: {error}") from None
        return line
