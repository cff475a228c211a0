"""whence node: a long-running member, from flags or a TOML file."""

import asyncio
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from whence.cli import live
from whence.cli.output import complain, parse_settings, print_json
from whence.core.levels import stores_events
from whence.errors import UsageError
from whence.group import Group
from whence.net.run import run
from whence.net.status import serve_metrics, serve_status
from whence.node import Node, endpoint

KEYS = (
    "pid", "listen", "contacts", "cluster", "data", "trace", "certs", "insecure", "groups", "status", "metrics",
    "settings", "durable", "permits", "log", "advertise", "founders",
)  # fmt: skip
"""What a configuration file may say."""

OF_A_GROUP = ("level", "founders", "settings")
"""What it may say of one group, instead of its level alone."""


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
    trace: Annotated[Path | None, typer.Option(help="Write a trace here, for whence gather and whence check.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Only processes of the same cluster talk to each other.")] = None,
    certs: live.Certs = None,
    insecure: live.Insecure = False,
    settings: live.Settings = None,
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
        "pid": pid, "listen": listen, "contacts": contact, "data": data, "trace": trace, "cluster": cluster,
        "certs": certs, "insecure": insecure or None, "status": status, "metrics": metrics, "log": log,
        "durable": durable or None, "advertise": advertise, "groups": _groups(group) if group else None,
        "settings": parse_settings(settings) if settings else None, "founders": live.parse_founders(founders) or None,
    }  # fmt: skip
    told = {**_read(config), **{name: value for name, value in flags.items() if value is not None}}
    if "pid" not in told:
        raise UsageError("a node needs a name: give --pid, a number from 0 to 32767")
    live.set_up_logs(told.get("log", "text"))
    run(_run(told, json))


def _groups(pairs: list[str]) -> dict[str, str]:
    groups = {}
    for pair in pairs:
        name, equals, level = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--group takes NAME=LEVEL, such as alps=fifo, not {pair!r}")
        groups[name] = level
    return groups


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--config {path} cannot be read: {error}") from None
    unknown = [name for name in told if name not in KEYS]
    if unknown:
        raise UsageError(f"--config {path} says {unknown[0]!r}; known are {', '.join(KEYS)}")
    return told


def openings_of(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return how each group is opened: as it says itself, or as is said for all. Raises UsageError."""
    openings, groups = [], told.get("groups", {})
    if not isinstance(groups, dict):
        raise UsageError(f'groups are a table of names and levels, such as alps = "fifo", not {groups!r}')
    for name, said in groups.items():
        own = said if isinstance(said, dict) else {"level": said}
        unknown = [key for key in own if key not in OF_A_GROUP]
        if unknown or "level" not in own:
            wrong = f"says {unknown[0]!r}" if unknown else "does not say its level"
            raise UsageError(f"group {name!r} {wrong}; a group is a level, or a table of {', '.join(OF_A_GROUP)}")
        given = {key: told[key] for key in ("founders", "settings") if key in told} | own
        founders = given.get("founders", [])
        if not isinstance(founders, list) or not all(isinstance(pid, int) for pid in founders):
            raise UsageError(f"founders of group {name!r} are a list of pids, such as [0, 1, 2], not {founders!r}")
        durable = bool(told.get("durable")) and stores_events(given["level"])
        openings.append({"name": name, "overflow": "drop", "durable": durable, **given,
                         **({"timeout_s": None} if founders else {})})  # fmt: skip
    return openings


async def _run(told: dict[str, Any], json: bool) -> None:
    permits = {group: {int(pid): str(rights) for pid, rights in table.items()}
               for group, table in told.get("permits", {}).items()}  # fmt: skip
    certs, openings = told.get("certs"), openings_of(told)
    made = live.node_of(
        told["pid"], told.get("listen", "127.0.0.1:0"), told.get("contacts"), told.get("cluster", "whence"),
        Path(certs) if certs else None, bool(told.get("insecure")), data=told.get("data"), trace=told.get("trace"),
        permits=permits, advertise=told.get("advertise"),
    )  # fmt: skip
    async with live.until_told() as stop, made as running:
        servers = [await serve_status(running.live, Path(told.get("status") or live.status_path(told["pid"])))]
        if "metrics" in told:
            servers.append(await serve_metrics(running.live, *endpoint(told["metrics"])))
        groups = await live.unless_told(stop, _open(running, openings))
        if groups is not None:
            if json:
                print_json(0, pid=running.pid, address=running.address, groups=[group.name for group in groups])
            else:
                complain(f"process {running.pid} is up at {running.address}; stop it with ctrl-c")
            await _serve(groups, stop)
        for server in servers:
            server.close()


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
