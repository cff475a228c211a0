"""whence sub: print deliveries as lines or NDJSON."""

import asyncio
import sys
from base64 import b64encode
from typing import Annotated, Any

import msgspec
import typer

from whence.api.group import Delivery
from whence.cli import live, staying
from whence.cli.output import parse_settings, print_json, print_message
from whence.core.links.process_names import called
from whence.errors import printable
from whence.net.run import run


def sub(
    group: Annotated[str, typer.Argument(help="The group to listen to.")],
    contact: live.Contacts = None,
    level: Annotated[str, typer.Option(help="The group's level.")] = "fifo",
    founders: live.Founders = None,
    create: live.Create = None,
    ndjson: Annotated[bool, typer.Option(help="Print each delivery as a JSON object with all that is known.")] = False,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many deliveries.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds.")] = None,
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
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end and no deliveries.")] = False,
) -> None:
    """Print every event of a group as it is delivered.

    With --data, this process stays a member at causal and total when it ends, and the others wait for it until it is
    started again or removed: give --leave to leave for good.
    Example: whence sub alps --contact 127.0.0.1:4000 | grep error
    Exit code 0: --count reached, --seconds over or stopped by a signal. 1: the group ended before --count. 2: with
    --leave the group was not left in time.
    """
    live.set_up_logs(log)

    make = live.node_maker(
        listen, contact, cluster, certs, insecure, name, net, create=create, data=data, trace=trace, payloads=payloads
    )
    made = live.opened_node(pid, data, make, name)
    given = {"founders": live.parse_founders(founders), "settings": parse_settings(settings or []), "create": create}
    result = run(_listen(made, group, level, given, count, seconds, _printer(ndjson, json), leave=leave))
    if json:
        print_json(0, group=group, **result)
    if count is not None and result["delivered"] < count and not result["stopped"]:
        raise typer.Exit(1)


def _printer(ndjson: bool, quiet: bool) -> Any:
    out = sys.stdout.buffer
    encode = msgspec.json.Encoder().encode
    watched = sys.stdout.isatty()

    def show(delivery: Delivery) -> None:
        if quiet:
            return
        line = encode(as_json(delivery)) if ndjson else delivery.payload
        out.write((for_terminal(line) if watched else line) + b"\n")

    return show


def for_terminal(line: bytes) -> bytes:
    """Return a line without control characters, which a terminal would obey; pipes get it as it is."""
    return printable(line.decode(errors="backslashreplace")).encode()


def as_json(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery as NDJSON shows it: payloads as JSON or text where they are, else as base64."""
    fields: dict[str, Any] = {
        "sender": delivery.sender, "event": list(delivery.event), "position": delivery.position,
        "level": delivery.level, "held_ms": delivery.held_ns / 1e6,
        "latency_ms": delivery.latency_ns / 1e6 if delivery.latency_ns is not None else None,
    }  # fmt: skip
    if delivery.gaps:
        fields["gaps"] = [list(span) for span in delivery.gaps]
    if delivery.ticket is not None:
        fields["ticket"], fields["epoch"] = delivery.ticket, delivery.epoch
    if delivery.key is not None:
        fields["key"] = list(delivery.key)
    if delivery.resets:
        fields["resets"] = list(delivery.resets)
    try:
        return {**fields, "payload": delivery.payload.decode()}
    except UnicodeDecodeError:
        return {**fields, "payload_base64": b64encode(delivery.payload).decode()}


async def _listen(
    made: Any, group: str, level: str, given: dict[str, Any], count: int | None, seconds: float | None, show: Any,
    *, leave: bool,
) -> dict[str, Any]:  # fmt: skip
    delivered, skipped, stopped = 0, 0, True
    async with live.until_signalled() as stop, live.up(stop, made) as node:
        joined = await live.unless_stopped(stop, node.open(group, level, **given)) if node is not None else None
        if node is None or joined is None:
            return {"delivered": 0, "skipped": 0, "stopped": True}
        with staying.said(joined, who := node.name or str(node.pid)):
            staying.check_leave(joined, leave)
            others = len(joined.members())
            print_message(
                f"{called(node.pid, node.name)} is in group {group!r} with {others} others and waits for events; "
                "ctrl-c stops it"
            )

            async def take() -> None:
                nonlocal delivered
                async for delivery in joined:
                    show(delivery)
                    sys.stdout.flush()  # before it counts as taken
                    delivered += 1
                    if delivered == count:
                        return

            taking, stopping = asyncio.create_task(take()), asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait([taking, stopping], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            stopped = taking not in done
            for task in (taking, stopping):
                task.cancel()
            sys.stdout.flush()
            skipped = joined.skipped
            if taking in done:
                taking.result()
            if leave and joined.stays:
                await staying.leave(joined, who, f"{delivered} deliveries were printed")
        stays = staying.sentence(joined, who)
        await joined.close()
    if stays:
        print_message(stays)
    return {"delivered": delivered, "skipped": skipped, "stopped": stopped}
