"""Proxies in front of processes, to partition them on purpose: for demonstrations and tests of what a broken network
does.

Each process has a proxy in front of it and asks the others to call it there (`advertise`). The proxy reads the caller
from the first frame, so that any two processes can be separated: their connections are reset and refused, or accepted
and starved. Not for TLS: an encrypted greeting cannot be read.
"""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterable
from itertools import count, islice

from whence.errors import JoinError, RemoteProtocolError
from whence.net.link import GREETING_BYTES_MAX
from whence.wire.codec import decode
from whence.wire.frame import HEADER_BYTES, announced

PIECE = 1 << 16

Way = tuple[int, int]
"""The direction from one process to another."""


FIRST_PORT, LAST_PORT = 10_240, 32_767
"""Systems give ports above these to outgoing connections: such a port may be taken before its process listens there."""

PORTS_EACH = 64
"""Every process begins at another port, so that two that search at the same time do not find the same."""

_asked = count()


def free_port() -> int:
    """Return a free port on loopback, a different one each time. Raises JoinError."""
    for number in islice(_asked, LAST_PORT - FIRST_PORT):
        port = FIRST_PORT + (os.getpid() * PORTS_EACH + number) % (LAST_PORT - FIRST_PORT + 1)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise JoinError(f"no port from {FIRST_PORT} to {LAST_PORT} is free on loopback")


class Proxies:
    """One proxy in front of each process, in a thread of their own."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._behind = {pid: free_port() for pid in pids}
        self._front: dict[int, int] = {}
        self._refused: set[Way] = set()
        self._starved: set[Way] = set()
        self._ends: dict[Way, list[asyncio.StreamWriter]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    def listen(self, pid: int) -> str:
        """Return the address on which a process must listen."""
        return f"127.0.0.1:{self._behind[pid]}"

    def advertise(self, pid: int) -> str:
        """Return the address that others should call."""
        return f"127.0.0.1:{self._front[pid]}"

    def starve(self, ways: Iterable[Way]) -> None:
        """Let nothing pass in these directions; connections stay."""
        self._loop.call_soon_threadsafe(self._starved.update, set(ways))

    def reset(self, ways: Iterable[Way]) -> None:
        """Reset the connections in these directions, and refuse new ones."""
        self._loop.call_soon_threadsafe(self._break, set(ways))

    def mend(self) -> None:
        """Undo everything."""
        self._loop.call_soon_threadsafe(self._refused.clear)
        self._loop.call_soon_threadsafe(self._starved.clear)

    def close(self) -> None:
        """End all proxies."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self._servers = [
            await asyncio.start_server(lambda r, w, pid=pid: self._serve(pid, r, w), "127.0.0.1", 0)  # type: ignore[misc]
            for pid in self._behind
        ]
        self._front = {
            pid: server.sockets[0].getsockname()[1] for pid, server in zip(self._behind, self._servers, strict=True)
        }

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _break(self, ways: set[Way]) -> None:
        self._refused |= ways
        for way in ways:
            for end in self._ends.pop(way, []):
                end.transport.abort()

    async def _serve(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond: asyncio.StreamWriter | None = None
        try:
            head = await reader.readexactly(HEADER_BYTES)
            head += await reader.readexactly(min(announced(head), GREETING_BYTES_MAX))
            caller = decode(head).pid
            if (caller, pid) in self._refused:
                return
            back, beyond = await asyncio.open_connection("127.0.0.1", self._behind[pid])
            beyond.write(head)
            for way in ((caller, pid), (pid, caller)):
                self._ends.setdefault(way, []).extend((writer, beyond))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass(reader, beyond, (caller, pid)))
                tasks.create_task(self._pass(back, writer, (pid, caller)))
        except (OSError, EOFError, RemoteProtocolError, ExceptionGroup, asyncio.CancelledError):
            pass  # either end is gone, or these proxies are
        finally:
            for end in (writer, beyond):
                if end is not None:
                    end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        while data := await reader.read(PIECE):
            while way in self._starved:
                await asyncio.sleep(0.01)
            writer.write(data)
            await writer.drain()
        raise EOFError


def between(some: Iterable[int], others: Iterable[int]) -> set[Way]:
    """Return every pair of processes from two sets, in both directions."""
    others = list(others)
    return {way for one in some for other in others for way in ((one, other), (other, one))}
