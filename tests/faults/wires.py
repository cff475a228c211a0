"""What lies between the processes, and how it is cut: proxies on loopback, or a bridge and network namespaces.

A proxy stands before every process and knows who calls, so any two processes can be parted: their connections are
reset and refused, or taken and starved. With namespaces (as root) every process has an interface of its own, which is
taken down and up again: connections stay, and nothing passes.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Protocol

from whence.wire.codec import decode
from whence.wire.frame import HEADER_BYTES

PIECE = 1 << 16


class Wires(Protocol):
    """The network of one run."""

    def listen(self, pid: int) -> str:
        """Return where a process listens."""

    def advertise(self, pid: int) -> str:
        """Return where others call it, if that differs."""

    def contact(self, pid: int) -> str:
        """Return what to give others as its address."""

    def command(self, pid: int) -> list[str]:
        """Return what comes before the command of a process."""

    def cut(self, random: Random, pids: list[int]) -> str:
        """Part some processes; return what was done."""

    def mend(self) -> None:
        """Undo every cut."""


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# --- proxies ---


class Proxies:
    """One proxy before each process, in a thread."""

    def __init__(self, pids: list[int]) -> None:
        self._behind = {pid: free_port() for pid in pids}
        self._front = {pid: free_port() for pid in pids}
        self._reset: set[tuple[int, int]] = set()
        self._starved: set[tuple[int, int]] = set()
        self._pairs: dict[tuple[int, int], list[asyncio.StreamWriter]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    async def _start(self) -> None:
        self._servers = [
            await asyncio.start_server(lambda r, w, pid=pid: self._serve(pid, r, w), "127.0.0.1", port)  # type: ignore[misc]
            for pid, port in self._front.items()
        ]

    def listen(self, pid: int) -> str:
        """Return where a process listens."""
        return f"127.0.0.1:{self._behind[pid]}"

    def advertise(self, pid: int) -> str:
        """Return its proxy's address."""
        return f"127.0.0.1:{self._front[pid]}"

    contact = advertise

    def command(self, pid: int) -> list[str]:
        """Return nothing."""
        return []

    def cut(self, random: Random, pids: list[int]) -> str:
        """Part one pair, or one process from all, by resetting or by starving, in both directions or in one."""
        one = random.choice(pids)
        others = [pid for pid in pids if pid != one]
        chosen = others if random.random() < 0.4 else [random.choice(others)]
        kind = random.choice(("reset", "starve", "starve one way"))
        ways = {(one, other) for other in chosen}
        if kind != "starve one way":
            ways |= {(other, one) for other in chosen}
        self._loop.call_soon_threadsafe(self._part, kind, ways)
        return f"{kind} {one} from {chosen}"

    def part(self, some: list[int], others: list[int]) -> None:
        """Let nothing pass between two sets of processes, either way, until it is mended."""
        ways = {(one, other) for one in some for other in others} | {(other, one) for one in some for other in others}
        self._loop.call_soon_threadsafe(self._part, "starve", ways)

    def _part(self, kind: str, ways: set[tuple[int, int]]) -> None:
        if kind != "reset":
            self._starved |= ways
            return
        self._reset |= ways
        for way in ways:
            for writer in self._pairs.pop(way, []):
                writer.transport.abort()

    def mend(self) -> None:
        """Undo every cut."""
        self._loop.call_soon_threadsafe(self._reset.clear)
        self._loop.call_soon_threadsafe(self._starved.clear)

    def close(self) -> None:
        """End all proxies."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond: asyncio.StreamWriter | None = None
        try:
            head = await reader.readexactly(HEADER_BYTES)
            head += await reader.readexactly(int.from_bytes(head[:4], "little"))
            caller = decode(head).pid
            if (caller, pid) in self._reset:
                return
            back, beyond = await asyncio.open_connection("127.0.0.1", self._behind[pid])
            beyond.write(head)
            for way in ((caller, pid), (pid, caller)):
                self._pairs.setdefault(way, []).extend((writer, beyond))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass(reader, beyond, (caller, pid)))
                tasks.create_task(self._pass(back, writer, (pid, caller)))
        except (OSError, EOFError, ExceptionGroup, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, beyond):
                if end is not None:
                    end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: tuple[int, int]) -> None:
        while data := await reader.read(PIECE):
            while way in self._starved:
                await asyncio.sleep(0.01)
            writer.write(data)
            await writer.drain()
        raise EOFError


# --- namespaces ---


def can_have_namespaces() -> bool:
    """Tell whether this process may make interfaces and namespaces."""
    if os.geteuid() or shutil.which("ip") is None:
        return False
    name = f"wq{os.getpid()}"
    made = subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"], capture_output=True)
    subprocess.run(["ip", "link", "del", name], capture_output=True)
    return made.returncode == 0


class Namespaces:
    """A bridge, and a namespace with one interface for each process."""

    PORT = 4000

    def __init__(self, pids: list[int]) -> None:
        self._name = f"w{os.getpid() % 100_000}"
        self._net = f"10.{77 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self._pids = pids
        self._down: list[int] = []
        ip("link", "add", self._name, "type", "bridge")
        ip("link", "set", self._name, "up")
        for pid in pids:
            space, wire = self._space(pid), self._wire(pid)
            ip("netns", "add", space)
            ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", wire, "master", self._name, "up")
            ip("-n", space, "addr", "add", f"{self._host(pid)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def _space(self, pid: int) -> str:
        return f"{self._name}-{pid}"

    def _wire(self, pid: int) -> str:
        return f"{self._name}v{pid}"

    def _host(self, pid: int) -> str:
        return f"{self._net}.{pid + 1}"

    def listen(self, pid: int) -> str:
        """Return where a process listens."""
        return f"{self._host(pid)}:{self.PORT}"

    contact = listen

    def advertise(self, pid: int) -> str:
        """Return nothing: others call it where it listens."""
        return ""

    def command(self, pid: int) -> list[str]:
        """Return what runs a command in the process's namespace; it takes the place of that command."""
        return ["ip", "netns", "exec", self._space(pid)]

    def cut(self, random: Random, pids: list[int]) -> str:
        """Take one interface down."""
        one = random.choice(pids)
        ip("link", "set", self._wire(one), "down")
        self._down.append(one)
        return f"interface of {one} down"

    def mend(self) -> None:
        """Bring all interfaces up."""
        for pid in self._down:
            ip("link", "set", self._wire(pid), "up")
        self._down.clear()

    def close(self) -> None:
        """Remove everything that was made."""
        for pid in self._pids:
            subprocess.run(["ip", "link", "del", self._wire(pid)], capture_output=True)
            subprocess.run(["ip", "netns", "del", self._space(pid)], capture_output=True)
        subprocess.run(["ip", "link", "del", self._name], capture_output=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def wires(kind: str, pids: list[int]) -> Iterator[Wires]:
    """Lay wires of a kind, `proxies` or `namespaces`, and take them away at the end."""
    laid = Namespaces(pids) if kind == "namespaces" else Proxies(pids)
    try:
        yield laid
    finally:
        laid.close()
