"""How to query a running node: where its local socket is, and which requests it takes."""

import asyncio
import contextlib
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from whence.core.links.process_names import called
from whence.errors import JoinError, UsageError
from whence.limits import INCARNATION_MAX, MERGED_PEER_ID_MAX

STATUS = b"status\n"
"""The request for the status; any other is JSON."""

REQUEST_S = 5.0
"""How long a request may take to arrive."""


class DeclareDead(msgspec.Struct, frozen=True):
    """An operator's statement: this incarnation of a peer is gone for good."""

    group: str
    pid: Annotated[int, msgspec.Meta(ge=0, le=MERGED_PEER_ID_MAX)]
    incarnation: Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]


class Remove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operator's wish: this member of a living group is to be removed."""

    group: str
    remove: Annotated[int, msgspec.Meta(ge=0, le=MERGED_PEER_ID_MAX)]


class Force(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operator's decision: a living group goes on with these members only."""

    group: str
    survivors: list[Annotated[int, msgspec.Meta(ge=0, le=MERGED_PEER_ID_MAX)]]
    despite_quorum: bool = False
    """Whether it does so although a quorum answers."""


class Leave(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operator's wish: this node is to leave a living group for good."""

    group: str
    leave: Literal["for good"]


OperatorRequest = DeclareDead | Remove | Leave | Force
"""Everything that an operator may ask of a node."""


def status_directory() -> Path:
    """Return the default directory of status sockets. Raises UsageError where it is not safe, JoinError where there is
    none."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given) if given else _own_directory()


def _own_directory() -> Path:
    """Return the directory for sockets where the system provides none: any user may have made it first.

    Raises UsageError unless it belongs to this user alone, JoinError where no directory can be written to.
    """
    try:
        path = Path(tempfile.gettempdir()) / f"whence-{os.getuid()}"
    except FileNotFoundError:
        raise JoinError(
            "there is no directory for the status socket, because no temporary one can be written to: set "
            "XDG_RUNTIME_DIR, or name the socket (--status of a node, --socket of other commands)"
        ) from None
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


def status_path(who: int | str) -> Path:
    """Return the default path of the status socket of a name, or of a pid without one. Raises UsageError."""
    return status_directory() / f"whence-{who}.sock"


def the_node(pid: int | None, at: Path | None, name: str | None = None) -> Path:
    """Return the socket given, that of a name or a pid, or that of the only node that runs here. Raises UsageError."""
    if name is not None and pid is not None:
        raise UsageError(f"--name {name} and --pid {pid} may be two nodes: give one of them")
    if at is not None or name is not None:
        return at or status_path(name or "")
    if pid is not None:
        return _socket_of(pid)
    here = _running()
    if len(here) == 1:
        return here[0]
    found = ", ".join(path.stem.removeprefix("whence-") for path in here[:20])
    why = (
        f"processes {found} run here; give --name (or --pid)" if here else f"none has a socket in {status_directory()}"
    )
    raise UsageError(f"which node? {why}, or --socket if it is elsewhere")


def _running() -> list[Path]:
    """Return the sockets of the nodes that run here."""
    return [path for path in sorted(status_directory().glob("whence-*.sock")) if is_answered(path)]


def _socket_of(pid: int) -> Path:
    """Return the socket of the node with a pid: its own or, if the node has a name, that of its name."""
    path = status_path(pid)
    if not path.exists() or not is_answered(path):
        for other in _running():
            with contextlib.suppress(JoinError):
                if asyncio.run(ask(other)).get("pid") == pid:
                    return other
    return path


def is_answered(path: Path) -> bool:
    """Tell whether a running process listens there; sockets of killed processes remain."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(REQUEST_S)
        return caller.connect_ex(str(path)) == 0


def pid_of(status: dict[str, Any], who: str) -> int:
    """Return the pid of a process that is given by its name or pid, as a node knows it. Raises UsageError."""
    if who.isdecimal() and int(who) <= MERGED_PEER_ID_MAX:
        return int(who)
    pid: int | None = status["names"].get(who)
    if pid is None:
        known = ", ".join(sorted(status["names"])[:20]) or "none"
        raise UsageError(f"{called(status['pid'], status['name'])} knows no process {who!r}; it knows {known}")
    return pid


async def send_request(path: Path, request: OperatorRequest) -> dict[str, Any]:
    """Send an operator's request to the node behind a local socket; return its answer, which says `out` where who is to
    be removed is no member any more. Raises JoinError, UsageError."""
    answer = await ask(path, msgspec.json.encode(request) + b"\n")
    if "error" in answer:
        raise UsageError(answer["error"])
    return answer


async def ask(path: Path, request: bytes = STATUS) -> dict[str, Any]:
    """Return the status of the node behind a local socket, or its answer to another request. Raises JoinError."""
    try:
        async with asyncio.timeout(REQUEST_S):
            reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
            try:
                writer.write(request)
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        raise JoinError(f"no node answers at {path}: {str(error) or 'it took too long'}") from None
    try:
        answer: dict[str, Any] = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise JoinError(f"what answers at {path} is no node: {error}") from None
    return answer
