"""What lies between the processes, and how it is cut: proxies on loopback, or a bridge and network namespaces.

A proxy stands before every process and knows who calls, so any two processes can be parted: their connections are
reset and refused, or taken and starved. With namespaces (as root) every process has an interface of its own, which is
taken down and up again: connections stay, and nothing passes.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Protocol

from whence.net.proxy import Proxies, between


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


# --- proxies ---


class Parted(Proxies):
    """Proxies whose cuts are drawn."""

    contact = Proxies.advertise

    def command(self, pid: int) -> list[str]:
        """Return nothing."""
        return []

    def cut(self, random: Random, pids: list[int]) -> str:
        """Part one pair, or one process from all, by resetting or by starving, in both directions or in one."""
        one = random.choice(pids)
        others = [pid for pid in pids if pid != one]
        chosen = others if random.random() < 0.4 else [random.choice(others)]
        kind = random.choice(("reset", "starve", "starve one way"))
        if kind == "reset":
            self.reset(between([one], chosen))
        else:
            self.starve(between([one], chosen) if kind == "starve" else {(one, other) for other in chosen})
        return f"{kind} {one} from {chosen}"


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
    laid = Namespaces(pids) if kind == "namespaces" else Parted(pids)
    try:
        yield laid
    finally:
        laid.close()
