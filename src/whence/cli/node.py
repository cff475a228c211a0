"""whence node: a long-running member, from flags or a TOML file."""

import asyncio
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct, structs

from whence.api.group import Group
from whence.api.node import Node
from whence.cli import live
from whence.cli.output import complain, parse_settings, print_json
from whence.core.registry import stores_events
from whence.errors import UsageError
from whence.net.run import run
from whence.net.settings import net_settings_from


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    """What a file may say of one group, instead of its level alone."""

    level: str
    founders: list[int] | None = None
    settings: dict[str, Any] | None = None


class Told(Struct, frozen=True, kw_only=True):
    """What a file and the flags say of a node."""

    pid: int | None = None
    listen: str = "127.0.0.1:0"
    advertise: str | None = None
    contacts: list[str] = []
    groups: dict[str, str | Part] = {}
    founders: list[int] = []
    settings: dict[str, Any] = {}
    net: dict[str, Any] = {}
    data: str | None = None
    durable: bool = False
    trace: str | None = None
    cluster: str = "whence"
    certs: str | None = None
    insecure: bool = False
    permits: dict[str, dict[int, str]] = {}
    status: str | None = None
    metrics: str | None = None
    log: str = "text"


def node(
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with the same names; flags override what it says.")
    ] = None,
    pid: Annotated[int | None, typer.Option(help="This process's name, 0 to 32767.")] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where others reach it.")] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where others are told to call, if not where it listens.")
    ] = None,
    contact: live.Contacts = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LEVEL", help="A group to be a member of; may be repeated.")
    ] = None,
    founders: live.Founders = None,
    data: Annotated[Path | None, typer.Option(help="What must survive a crash is kept here.")] = None,
    durable: Annotated[
        bool, typer.Option(help="Groups store what is published here, at the levels that can; needs --data.")
    ] = False,
    trace: live.Trace = None,
    cluster: Annotated[str | None, typer.Option(help="Only processes of the same cluster talk to each other.")] = None,
    certs: live.Certs = None,
    insecure: live.Insecure = False,
    settings: live.Settings = None,
    net: live.Net = None,
    status: Annotated[Path | None, typer.Option(help="Local socket for whence top.")] = None,
    metrics: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Serve metrics for Prometheus.")] = None,
    log: Annotated[str | None, typer.Option(help="Logs on standard error: off, text or json.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object when the node is up.")] = False,
) -> None:
    """Run a member until SIGINT or SIGTERM: it relays, mends, traces and keeps what its groups need.

    Example: whence node --pid 1 --listen 127.0.0.1:4000 --group alps=fifo
    With founders it waits until all of them are here: whence node --pid 0 --group board=causal --founders 0,1,2
    Exit code 0: stopped as told. 2: it could not start, or its disk failed.
    """
    flags: dict[str, Any] = {
        "pid": pid, "listen": listen, "contacts": contact, "data": data and str(data), "trace": trace and str(trace),
        "cluster": cluster, "certs": certs and str(certs), "insecure": insecure or None, "metrics": metrics, "log": log,
        "status": status and str(status), "durable": durable or None, "advertise": advertise,
        "groups": _groups(group) if group else None, "settings": parse_settings(settings) if settings else None,
        "founders": live.parse_founders(founders) or None, "net": parse_settings(net, "--net") if net else None,
    }  # fmt: skip
    told = structs.replace(_read(config), **{name: value for name, value in flags.items() if value is not None})
    if told.pid is None:
        raise UsageError("a node needs a name: give --pid, a number from 0 to 32767")
    live.set_up_logs(told.log)
    run(_run(told, told.pid, json))


def _groups(pairs: list[str]) -> dict[str, str]:
    groups = {}
    for pair in pairs:
        name, equals, level = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--group takes NAME=LEVEL, such as alps=fifo, not {pair!r}")
        groups[name] = level
    return groups


def _read(path: Path | None) -> Told:
    if path is None:
        return Told()
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--config {path} cannot be read: {error}") from None
    unknown = [name for name in found if name not in Told.__struct_fields__]
    if unknown:
        raise UsageError(f"--config {path} says {unknown[0]!r}; known are {', '.join(Told.__struct_fields__)}")
    return understood(found, f"--config {path}")


def understood(found: dict[str, Any], where: str) -> Told:
    """Return what a file says. Raises UsageError that names the place of what cannot be."""
    try:
        return msgspec.convert(found, Told, str_keys=True)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None


def openings_of(told: Told) -> list[dict[str, Any]]:
    """Return how each group is opened: as it says itself, or as is said for all."""
    openings = []
    for name, said in told.groups.items():
        part = Part(said) if isinstance(said, str) else said
        founders = part.founders if part.founders is not None else told.founders
        opening: dict[str, Any] = {
            "name": name, "level": part.level, "founders": founders, "overflow": "drop",
            "settings": part.settings if part.settings is not None else told.settings,
            "durable": told.durable and stores_events(part.level),
        }  # fmt: skip
        openings.append(opening | ({"timeout_s": None} if founders else {}))
    return openings


async def _run(told: Told, pid: int, json: bool) -> None:
    openings = openings_of(told)
    founds = bool(openings) and all(pid in each["founders"] for each in openings)
    made = live.node_of(
        pid, told.listen, told.contacts, told.cluster, Path(told.certs) if told.certs else None, told.insecure,
        data=told.data, trace=told.trace, permits=told.permits, advertise=told.advertise,
        settings=net_settings_from({"alone": founds} | told.net), status=told.status or True, metrics=told.metrics,
    )  # fmt: skip
    async with live.until_told() as stop, made as running:
        live.tell_unreached(running)
        groups = await live.unless_told(stop, _open(running, openings))
        if groups is not None:
            if json:
                print_json(0, pid=running.pid, address=running.address, groups=[group.name for group in groups])
            else:
                complain(f"process {running.pid} is up at {running.address}; stop it with ctrl-c")
            await _serve(groups, stop)


async def _open(running: Node, openings: list[dict[str, Any]]) -> list[Group]:
    """Open all groups at once: founders of several may have them in any order."""
    opening = [asyncio.ensure_future(running.open(**each)) for each in openings]
    try:
        return list(await asyncio.gather(*opening))
    finally:
        for task in opening:
            task.cancel()


async def _serve(groups: list[Group], stop: asyncio.Event) -> None:
    """Take deliveries until told to stop, or until a group fails. Raises what it failed with."""

    async def drain(group: Group) -> None:
        async for _ in group.batches():
            pass

    stopping = asyncio.create_task(stop.wait())
    draining = [asyncio.create_task(drain(group)) for group in groups]
    done, _ = await asyncio.wait([stopping, *draining], return_when=asyncio.FIRST_COMPLETED)
    for task in (stopping, *draining):
        task.cancel()
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    for group in groups:
        await group.close()
