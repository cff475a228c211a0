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
from whence.cli.output import parse_settings, print_json, print_message
from whence.core.level import ByViews
from whence.core.links.process_names import called
from whence.core.registry import LEVELS, stores_events
from whence.errors import UsageError
from whence.net.run import run
from whence.net.settings import net_settings_from, settings_of


class GroupConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of one group; a file may give its level alone instead."""

    level: str
    founders: list[int | str] | None = None
    settings: dict[str, Any] | None = None
    create: bool | None = None


class NodeConfig(Struct, frozen=True, kw_only=True):
    """The configuration of a node, from a file and the flags."""

    name: str | None = None
    pid: int | None = None
    listen: str = "127.0.0.1:0"
    advertise: str | None = None
    contacts: list[str] = []
    groups: dict[str, str | GroupConfig] = {}
    founders: list[int | str] = []
    create: bool | None = None
    settings: dict[str, Any] = {}
    net: dict[str, Any] = {}
    data: str | None = None
    durable: bool = False
    trace: str | None = None
    payloads: bool = False
    cluster: str = "whence"
    certs: str | None = None
    insecure: bool = False
    permits: dict[str, dict[str, str]] = {}
    status: str | None = None
    metrics: str | None = None
    log: str = "text"


def node(
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with the same names; flags override what it says.")
    ] = None,
    name: live.Name = None,
    pid: Annotated[
        int | None, typer.Option(help="This process's number, 0 to 32767. Default: one that follows from its name.")
    ] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where others reach it.")] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where others are chosen to call, if not where it listens.")
    ] = None,
    contact: live.Contacts = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LEVEL", help="A group to be a member of; may be repeated.")
    ] = None,
    founders: live.Founders = None,
    create: live.Create = None,
    data: Annotated[Path | None, typer.Option(help="What must survive a crash is kept here.")] = None,
    durable: Annotated[
        bool, typer.Option(help="Groups store what is published here, at the levels that can; needs --data.")
    ] = False,
    trace: live.Trace = None,
    payloads: live.Payloads = False,
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
    """Run a member until SIGINT or SIGTERM: it relays, repairs, traces and stores what its groups need.

    Example: whence node --name billing-1 --listen 127.0.0.1:4000 --group alps=fifo
    With founders it waits until all of them are here: whence node --name a --group board=causal --founders a,b,c
    With --data, a member at causal or total that is stopped is away and comes back; without, it leaves, and waits until
    the others have let it go. A second signal ends it at once.
    Exit code 0: stopped by a signal. 2: it could not start, or its disk failed.
    """
    flags: dict[str, Any] = {
        "name": name, "pid": pid, "listen": listen, "contacts": contact, "data": data and str(data),
        "trace": trace and str(trace), "payloads": payloads or None,
        "cluster": cluster, "certs": certs and str(certs), "insecure": insecure or None, "metrics": metrics, "log": log,
        "status": status and str(status), "durable": durable or None, "advertise": advertise, "create": create,
        "groups": _groups(group) if group else None, "settings": parse_settings(settings) if settings else None,
        "founders": live.parse_founders(founders) or None, "net": parse_settings(net, "--net") if net else None,
    }  # fmt: skip
    chosen = structs.replace(_read(config), **{name: value for name, value in flags.items() if value is not None})
    if chosen.name is None and chosen.pid is None:
        raise UsageError("a node needs a name: give --name, such as --name billing-1")
    live.set_up_logs(chosen.log)
    run(_run(chosen, json))


def _groups(pairs: list[str]) -> dict[str, str]:
    groups: dict[str, str] = {}
    for pair in pairs:
        name, _, level = pair.rpartition("=")  # a name may have one of its own, a level has none
        if not name or not level:
            raise UsageError(f"--group takes NAME=LEVEL, such as alps=fifo, not {pair!r}")
        if groups.get(name, level) != level:
            raise UsageError(f"--group gives {name!r} two levels, {groups[name]} and {level}: a group has one level")
        groups[name] = level
    return groups


def _read(path: Path | None) -> NodeConfig:
    if path is None:
        return NodeConfig()
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--config {path} cannot be read: {error}") from None
    unknown = [name for name in found if name not in NodeConfig.__struct_fields__]
    if unknown:
        raise UsageError(f"--config {path} says {unknown[0]!r}; known are {', '.join(NodeConfig.__struct_fields__)}")
    if empty := [name for name, value in found.items() if value == ""]:
        raise UsageError(f"--config {path}: {empty[0]} is empty; give a value, or leave it out")
    return config_from(found, f"--config {path}")


def config_from(found: dict[str, Any], where: str) -> NodeConfig:
    """Return the configuration in a file. Raises UsageError that names the place of a wrong value."""
    try:
        return msgspec.convert(found, NodeConfig, str_keys=True)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None


def group_options(config: NodeConfig) -> list[dict[str, Any]]:
    """Return the options that each group is opened with: its own, or those for all groups. Raises UsageError,
    SettingError."""
    options = []
    for name, level in config.groups.items():
        part = GroupConfig(level) if isinstance(level, str) else level
        founders = part.founders if part.founders is not None else config.founders
        option: dict[str, Any] = {
            "name": name, "level": part.level, "founders": founders, "overflow": "drop",
            "settings": part.settings if part.settings is not None else config.settings,
        }  # fmt: skip
        spec = LEVELS.get(part.level)
        if spec is not None:
            numbers = range(len(founders))  # whoever they are: their numbers may not be known yet
            given = spec.settings_from(settings_of(part.level, numbers, option["settings"] or {}, data=True))
            option["durable"] = config.durable and stores_events(part.level, given)
            is_begun_by_one = isinstance(spec, ByViews) and spec.has_views(given) and not founders
            option["create"] = config.create if part.create is None and is_begun_by_one else part.create
        options.append(option | ({"timeout_s": None} if founders else {}))
    if config.create is not None and options and all(option.get("create") is None for option in options):
        raise UsageError(
            "--create and --no-create (create in a file) are for groups at causal or total without founders, and there "
            "is none here: leave them out, or leave out the founders"
        )
    return options


async def _run(config: NodeConfig, json: bool) -> None:
    options = group_options(config)
    me = [config.name, config.pid]
    founds = bool(options) and all(
        option.get("create") or any(each in me for each in option["founders"]) for option in options
    )
    made = live.make_node(
        config.pid, config.listen, config.contacts, config.cluster, Path(config.certs) if config.certs else None,
        config.insecure, config.name, data=config.data, trace=config.trace, permits=config.permits,
        advertise=config.advertise,
        settings=net_settings_from({"alone": founds, "trace_payloads": config.payloads} | config.net),
        status=config.status or True, metrics=config.metrics,
    )  # fmt: skip
    async with live.until_signalled() as stop, live.up(stop, made) as running:
        groups = await live.unless_stopped(stop, _open(running, options)) if running is not None else None
        if running is not None and groups is not None:
            who = called(running.pid, running.name)
            if json:
                print_json(
                    0,
                    pid=running.pid,
                    name=running.name,
                    address=running.address,
                    groups=[group.name for group in groups],
                )
            else:
                print_message(f"{who} is up at {running.address}; stop it with ctrl-c")
            await _serve(groups, stop, who)
            if groups and not stop.is_set():
                print_message(f"{who} is in no group any more, and ends")


async def _open(running: Node, options: list[dict[str, Any]]) -> list[Group]:
    """Open all groups at once: founders of several may open them in any order."""
    opening = [asyncio.ensure_future(running.open(**each)) for each in options]
    try:
        return list(await asyncio.gather(*opening))
    finally:
        for task in opening:
            task.cancel()


async def _serve(groups: list[Group], stop: asyncio.Event, who: str) -> None:
    """Take deliveries until stopped, until a group fails, or until every group was left; `who` is how messages call
    this process. Raises what a group failed with."""

    async def drain(group: Group) -> None:
        async for _ in group.batches():
            pass
        print_message(f"{who} has left group {group.name!r}")

    stopping = asyncio.create_task(stop.wait())
    draining = {asyncio.create_task(drain(group)) for group in groups}
    try:
        while draining and not stop.is_set():
            done, _ = await asyncio.wait([stopping, *draining], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            draining -= done
        if not groups:
            await stopping
    finally:
        for task in (stopping, *draining):
            task.cancel()
    await asyncio.gather(*[group.close() for group in groups])
