"""What a running node tells of itself: one dictionary, as JSON on a local socket and as metrics over HTTP.

Nothing tells of payloads or keys, and nothing changes the node but an operator's word that another process is dead,
which only the local socket takes. That socket is open to its owner alone.
"""

import asyncio
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec

from whence.core.levels.causal.mesh.member import Direct
from whence.core.levels.causal.tree.member import Localized
from whence.core.levels.optimistic.member import named
from whence.core.levels.optimistic.tickets.joining import Status
from whence.core.ready import Metric
from whence.errors import JoinError, UsageError, WhenceError
from whence.limits import BOOT_MAX, PEER_ID_MAX
from whence.net.clock import steady_ns
from whence.net.driver import Driver
from whence.net.node import LiveNode
from whence.net.peer import Peer
from whence.types import Process

STATUS = b"status\n"
"""The request for the status; any other is JSON."""

REQUEST_S = 5.0
"""How long a request may take to arrive."""


class Served:
    """Something that answers until it is closed."""

    def __init__(self, server: asyncio.Server, path: Path | None = None) -> None:
        self._server, self._path = server, path

    def close(self) -> None:
        """Answer no more, and leave no socket behind."""
        self._server.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def status(live: LiveNode) -> dict[str, Any]:
    """Return everything worth knowing of a node now."""
    switch = live.switch
    return {
        "pid": live.me.pid,
        "boot": live.me.boot,
        "cluster": live.settings.cluster,
        "address": list(switch.endpoint),
        "uptime_s": round((steady_ns() - live.started_ns) / 1e9, 3),
        "counts": dict(sorted(switch.counts.items())),
        "peers": [_peer(live, peer) for _, peer in sorted(switch.peers.items())],
        "groups": [_group(driver) for _, driver in sorted(live.drivers.items())],
    }


def _peer(live: LiveNode, peer: Peer) -> dict[str, Any]:
    address = live.switch.book.find(peer.pid)
    rtt_ns = live.switch.detector.rtt_ns(peer.pid)
    return {
        "pid": peer.pid,
        "connected": peer.link is not None,
        "boot": peer.link.peer.boot if peer.link is not None and peer.link.peer is not None else None,
        "address": f"{address.host}:{address.port}" if address is not None else None,
        "rtt_ms": round(rtt_ns / 1e6, 3) if rtt_ns is not None else None,
        "waiting_bytes": peer.waiting_bytes(),
        "dropped_frames": peer.dropped,
    }


def _group(driver: Driver) -> dict[str, Any]:
    return {
        "name": driver.group,
        "level": driver.role.level,
        "member": driver.joined,
        "members": list(driver.others()),
        "delivered": driver.position,
        "published": driver.published,
        "settled": driver.settling.settled(),
        "skipped": driver.counts["skipped"],
        "late": driver.counts["late"],
        "counts": dict(sorted(driver.counts.items())),
        "gauges": {gauge.name: [gauge.value, gauge.bound] for gauge in driver.gauges()},
        "ticket": _ticket(driver.ticket()),
        "metrics": _by_name(driver.metrics()),
        "overlay": _overlay(driver),
        "credit": [driver.flow.credit.away_bytes, driver.flow.credit.limit_bytes()],
    }


def _overlay(driver: Driver) -> dict[str, Any] | None:
    """Return whom a member has around it, and whom it sends to at present where some are suspected."""
    member = driver.member
    if isinstance(member, Direct):
        names, neighbours = None, list(member.outbox.peers)
    elif isinstance(member, Localized):
        place = member.state.place
        names, neighbours = place.overlay.processes, place.overlay.neighbours(place.me)
    else:
        return None
    outbox = member.outbox
    told = {"neighbours": neighbours, "active": list(outbox.active), "suspected": list(outbox.suspects.now)}
    return told if names is None else {key: [names[place] for place in places] for key, places in told.items()}


def _ticket(told: Status | None) -> dict[str, Any] | None:
    """Return how a process stands in its cluster; processes as pid:boot."""
    if told is None:
        return None
    fields: dict[str, Any] = msgspec.structs.asdict(told)
    owners = [
        msgspec.structs.asdict(owned) | {"owner": f"{owned.owner.pid}:{owned.owner.boot}"} for owned in told.owners
    ]
    return fields | {"waits_for": [f"{pid}:{boot}" for pid, boot in told.waits_for], "owners": owners}


def _by_name(metrics: list[Metric]) -> dict[str, Any]:
    """Return metrics as name to value, or to values by label."""
    told: dict[str, Any] = {}
    for metric in metrics:
        if metric.label:
            told.setdefault(metric.name, {})[metric.of] = metric.value
        else:
            told[metric.name] = metric.value
    return told


def metrics(live: LiveNode) -> str:
    """Return the same as text that Prometheus reads."""
    told = status(live)
    lines = [
        "# TYPE whence_uptime_seconds gauge", f"whence_uptime_seconds {told['uptime_s']}",
        "# TYPE whence_peers_connected gauge", f"whence_peers_connected {sum(p['connected'] for p in told['peers'])}",
        "# TYPE whence_link_events_total counter",
    ]  # fmt: skip
    lines += [f'whence_link_events_total{{kind="{_safe(name)}"}} {count}' for name, count in told["counts"].items()]
    for name, key, kind in (
        ("whence_peer_waiting_bytes", "waiting_bytes", "gauge"),
        ("whence_peer_dropped_frames_total", "dropped_frames", "counter"),
        ("whence_peer_rtt_milliseconds", "rtt_ms", "gauge"),
    ):
        lines.append(f"# TYPE {name} {kind}")
        lines += [f'{name}{{peer="{p["pid"]}"}} {p[key]}' for p in told["peers"] if p[key] is not None]
    for key in ("delivered", "published", "skipped", "late"):
        lines.append(f"# TYPE whence_{key}_events_total counter")
        lines += [f"whence_{key}_events_total{_of(group)} {group[key]}" for group in told["groups"]]
    lines.append("# TYPE whence_buffer gauge")
    for group in told["groups"]:
        for name, (value, bound) in group["gauges"].items():
            lines.append(f"whence_buffer{_of(group, buffer=name)} {value}")
            lines.append(f"whence_buffer_bound{_of(group, buffer=name)} {bound}")
    lines += _ticket_lines(told["groups"])
    lines += _level_lines(live)
    lines.append("# TYPE whence_member_events_total counter")
    for group in told["groups"]:
        lines += [f"whence_member_events_total{_of(group, kind=k)} {count}" for k, count in group["counts"].items()]
    return "\n".join(lines) + "\n"


def _ticket_lines(groups: list[dict[str, Any]]) -> list[str]:
    """Return who holds which ticket, with which epoch and for how long yet."""
    lines = []
    for name, key, scale in (
        ("whence_ticket_lease_left_seconds", "lease_left_ns", 1e9),
        ("whence_ticket_epoch", "epoch", 1),
        ("whence_tickets_coordinated", "coordinates", 1),
    ):
        lines.append(f"# TYPE {name} gauge")
        for group in groups:
            ticket = group["ticket"]
            if ticket is not None:
                number = "none" if ticket["ticket"] is None else str(ticket["ticket"])
                labels = _of(group, ticket=number, standing=ticket["standing"])
                lines.append(f"{name}{labels} {(ticket[key] or 0) / scale:g}")
    return lines


def _level_lines(live: LiveNode) -> list[str]:
    """Return what levels count and measure of themselves."""
    by_name: dict[str, list[str]] = {}
    for _, driver in sorted(live.drivers.items()):
        group = {"name": driver.group, "level": driver.role.level}
        for metric in driver.metrics():
            labels = _of(group, **{metric.label: metric.of}) if metric.label else _of(group)
            by_name.setdefault(f"whence_{metric.name}", []).append(f"whence_{metric.name}{labels} {metric.value}")
    lines = []
    for name, values in by_name.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        if name.endswith("_bucket"):
            lines.append(f"# TYPE {name.removesuffix('_bucket')} histogram")
        elif not name.endswith(("_sum", "_count")):
            lines.append(f"# TYPE {name} {kind}")
        lines += values
    return lines


def _of(group: dict[str, Any], **more: str) -> str:
    labels = {"group": group["name"], "level": group["level"], **more}
    return "{" + ",".join(f'{name}="{_safe(value)}"' for name, value in labels.items()) + "}"


def _safe(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def status_directory() -> Path:
    """Return where status sockets are unless told otherwise. Raises UsageError where that is not safe."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given) if given else _own_directory()


def _own_directory() -> Path:
    """Return the directory for sockets where the system gives none: anybody may have made it first.

    Raises UsageError unless it is this user's, and nobody else's.
    """
    path = Path(tempfile.gettempdir()) / f"whence-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise UsageError(f"{path} cannot hold the status socket: {error.strerror or error}; name another") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise UsageError(
            f"{path} is no directory of this user alone, and another could listen there: remove it, set "
            "XDG_RUNTIME_DIR, or name the socket (--status of a node, --socket of other commands)"
        )
    path.chmod(0o700)
    return path


def status_path(pid: int) -> Path:
    """Return where a node's status socket is unless told otherwise. Raises UsageError."""
    return status_directory() / f"whence-{pid}.sock"


def the_node(pid: int | None, at: Path | None) -> Path:
    """Return the socket given, that of a process, or that of the only one that runs here. Raises UsageError."""
    if at is not None or pid is not None:
        return at or status_path(pid or 0)
    here = [path for path in sorted(status_directory().glob("whence-*.sock")) if _is_answered(path)]
    if len(here) == 1:
        return here[0]
    found = ", ".join(path.stem.removeprefix("whence-") for path in here[:20])
    why = f"processes {found} run here; give --pid" if here else f"none has a socket in {status_directory()}"
    raise UsageError(f"which node? {why}, or --socket if it is elsewhere")


async def serve_status(live: LiveNode, path: Path) -> Served:
    """Answer every line on a local socket with a line of JSON: the status, or what became of a request.

    Raises JoinError, also where another process that runs has that socket.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(msgspec.json.encode(status(live) if line == STATUS else _obey(live, line)) + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_answered(path):
            raise JoinError(f"the status socket {path} is that of another process that runs; give another path")
        path.unlink(missing_ok=True)
        return Served(await asyncio.start_unix_server(answer, sock=_bound(path)), path)
    except OSError as error:
        raise JoinError(f"the status socket {path} cannot be made: {error.strerror or error}") from error


def _bound(path: Path) -> socket.socket:
    """Return a socket there that only its owner can open; nothing else happens while files are made so."""
    bound = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        bound.bind(str(path))
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(before)
    return bound


def _is_answered(path: Path) -> bool:
    """Tell whether a process that runs listens there; sockets of those that were killed remain."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(REQUEST_S)
        return caller.connect_ex(str(path)) == 0


async def serve_metrics(live: LiveNode, host: str, port: int) -> Served:
    """Answer GET /metrics. Raises JoinError."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                request = await reader.readuntil(b"\r\n\r\n")
            found = request.startswith((b"GET /metrics ", b"GET / "))
            body = metrics(live).encode() if found else b"only /metrics is here\n"
            head = f"HTTP/1.1 {'200 OK' if found else '404 Not Found'}\r\nContent-Length: {len(body)}\r\n"
            writer.write(
                (head + "Content-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n").encode() + body
            )
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    try:
        return Served(await asyncio.start_server(answer, host, port, limit=1 << 14))
    except OSError as error:
        raise JoinError(f"metrics cannot be served at {host}:{port}: {error.strerror or error}") from error


class DeclareDead(msgspec.Struct, frozen=True):
    """An operator's word: this life of a peer is over for good."""

    group: str
    pid: Annotated[int, msgspec.Meta(ge=0, le=PEER_ID_MAX)]
    boot: Annotated[int, msgspec.Meta(ge=0, le=BOOT_MAX)]


def _obey(live: LiveNode, line: bytes) -> dict[str, Any]:
    """Do what an operator asks for; return {} or the sentence that says why not."""
    try:
        word = msgspec.json.decode(line, type=DeclareDead)
        driver = live.drivers.get(word.group)
        if driver is None:
            raise UsageError(f"this node is in no group {word.group!r}")
        if driver.ticket() is None:
            raise UsageError(f"group {word.group!r} runs at level {driver.role.level}, which has no tickets")
        driver.act("declare_dead", named(Process(word.pid, word.boot)))
    except msgspec.DecodeError as error:
        return {"error": f"this is no request: {error}"}
    except WhenceError as refusal:
        return {"error": str(refusal)}
    return {}


async def declare_dead(path: Path, word: DeclareDead) -> None:
    """Tell the node behind a local socket that a process is dead. Raises JoinError, UsageError."""
    told = await ask(path, msgspec.json.encode(word) + b"\n")
    if "error" in told:
        raise UsageError(told["error"])


async def ask(path: Path, request: bytes = STATUS) -> dict[str, Any]:
    """Return the status of the node behind a local socket, or its answer to another request. Raises JoinError."""
    try:
        async with asyncio.timeout(REQUEST_S):
            reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
            writer.write(request)
            line = await reader.readline()
            writer.close()
    except (OSError, TimeoutError) as error:
        raise JoinError(f"no node answers at {path}: {str(error) or 'it took too long'}") from None
    try:
        told: dict[str, Any] = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise JoinError(f"what answers at {path} is no node: {error}") from None
    return told
