"""The servers that answer questions about a running node: a local socket with JSON, and metrics over HTTP.

The only requests that change the node are an operator's: that another process is dead or is to be removed from a
group, that this one is to leave it, or that a group goes on with some members only. Only the local socket accepts them.
That socket is open to its owner alone.
"""

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import Any

import msgspec

from whence.core.ticket_status import dead_argument
from whence.errors import JoinError, UsageError, WhenceError
from whence.net.membership import begin_force, begin_removal, check_may_leave, is_out
from whence.net.metrics import metrics
from whence.net.node import LiveNode
from whence.net.status import status
from whence.net.status_client import REQUEST_S, STATUS, DeclareDead, Force, Leave, OperatorRequest, Remove, is_answered
from whence.types import Process


class Served:
    """A server that answers until it is closed."""

    def __init__(self, server: asyncio.Server, path: Path | None = None) -> None:
        self._server, self._path = server, path

    def close(self) -> None:
        """Stop answering, and leave no socket behind."""
        self._server.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


async def serve_status(live: LiveNode, path: Path) -> Served:
    """Answer every line on a local socket with a line of JSON: the status, or what became of a request.

    Raises JoinError, also where another running process has that socket.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(msgspec.json.encode(status(live) if line == STATUS else _obey(live, line)) + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.CancelledError):
            pass  # when the node ends, too: Python 3.11 logs a traceback for a handler that was cancelled
        finally:
            writer.close()

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_answered(path):
            raise JoinError(f"the status socket {path} is that of another process that runs; give another path")
        path.unlink(missing_ok=True)
        return Served(await asyncio.start_unix_server(answer, sock=_bound(path)), path)
    except OSError as error:
        raise JoinError(f"the status socket {path} cannot be made: {error.strerror or error}") from error


def _bound(path: Path) -> socket.socket:
    """Return a socket there that only its owner can open; no other file is made while the umask is changed."""
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
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    try:
        return Served(await asyncio.start_server(answer, host, port, limit=1 << 14))
    except OSError as error:
        raise JoinError(f"metrics cannot be served at {host}:{port}: {error.strerror or error}") from error


def _obey(live: LiveNode, line: bytes) -> dict[str, Any]:
    """Carry out an operator's request; return {} or a sentence that says why not."""
    try:
        request = _request(line)
        driver = live.drivers.get(request.group)
        if driver is None:
            raise UsageError(f"this node is in no group {request.group!r}")
        if isinstance(request, Remove):
            if is_out(driver, request.remove):
                return {"out": True}
            begin_removal(driver, request.remove)
            return {}
        if isinstance(request, Force):
            begin_force(driver, request.survivors, despite_quorum=request.despite_quorum)
            return {}
        if isinstance(request, Leave):
            check_may_leave(driver)
            driver.on_leave()
            return {}
        if driver.ticket() is None:
            raise UsageError(f"group {request.group!r} runs at level {driver.context.level}, which has no tickets")
        driver.act("declare_dead", dead_argument(Process(request.pid, request.incarnation)))
    except msgspec.DecodeError as error:
        return {"error": f"this is no request: {error}"}
    except WhenceError as refusal:
        return {"error": str(refusal)}
    return {}


def _request(line: bytes) -> OperatorRequest:
    """Return an operator's request. Raises DecodeError."""
    kinds: tuple[type[OperatorRequest], ...] = (Remove, Leave, Force)
    for kind in kinds:
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.json.decode(line, type=kind)
    return msgspec.json.decode(line, type=DeclareDead)
