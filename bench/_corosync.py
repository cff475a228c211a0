"""corosync's closed process groups as a rival: total order, in C; Python clients reach the daemons by ctypes.

Either one daemon has all processes as its clients, which then need no network; or, as in a cluster, each process has a
daemon, and a token circulates. A daemon needs root and the host to itself: clients find it by a fixed name. Each daemon
of a ring has a network namespace, with a bridge in between. The transport is the leaner one; `KNET` is corosync's
default.
"""

import asyncio
import ctypes
import ctypes.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OK, TRY_AGAIN = 1, 6
DISPATCH_ALL, AGREED = 2, 2
START_S = 40.0
PAUSE_S = 0.0005
"""The pause between two attempts to send while the daemon's queue is full."""

UDPU, KNET = "udpu", "knet"

CONFIG = """
totem {{
    version: 2
    cluster_name: bench
    transport: {transport}
    interface {{
        linknumber: 0
        mcastport: {port}
    }}
}}
system {{
    state_dir: {directory}
}}
logging {{
    to_stderr: no
    to_logfile: no
    to_syslog: no
}}
nodelist {{
{nodes}
}}
"""

NODE = """
    node {{
        nodeid: {number}
        name: node{number}
        ring0_addr: {host}
    }}"""

BRIDGE, SPACE, NET, PORT = "whcoro", "whcoro-{}", "10.231.77.{}", 5405
"""The network of a ring; the bridge has no address, so nothing else is reached from there."""

CLONE_NEWNET = 0x40000000


class _Name(ctypes.Structure):
    """A group's name, as the library defines it."""

    _fields_ = (("length", ctypes.c_uint32), ("value", ctypes.c_char * 128))


class _Piece(ctypes.Structure):
    """A piece of a message."""

    _fields_ = (("base", ctypes.c_char_p), ("size", ctypes.c_size_t))


_DELIVER = ctypes.CFUNCTYPE(
    None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t
)
_CONFIGURED = ctypes.CFUNCTYPE(
    None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
    ctypes.c_void_p, ctypes.c_size_t,
)  # fmt: skip


class _Callbacks(ctypes.Structure):
    """The functions that the library calls."""

    _fields_ = (("deliver", _DELIVER), ("configured", _CONFIGURED))


def lacks(*, ring: bool) -> str | None:
    """Return what is needed to run it and missing; None if nothing is."""
    for program in ("corosync", "ip", "unshare") if ring else ("corosync",):
        if shutil.which(program) is None:
            return f"program {program}"
    if ctypes.util.find_library("cpg") is None:
        return "library libcpg"
    return "the rights of root" if os.geteuid() != 0 else None


class Corosync:
    """One member of a closed process group: agreed delivery, the same sequence everywhere. Process 0 has the daemon."""

    def __init__(self, transport: str = UDPU) -> None:
        self.transport = transport
        self.daemon: Daemon | None = None

    async def serve(self, index: int, nodes: int, ports: Any) -> None:
        """Bring up the daemon this process is a client of."""
        if index == 0:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            self.daemon = await Daemon.run(["127.0.0.1"], port, self.transport, ())
        await ports(index + 1)

    async def start(self, index: int, nodes: int, ports: Any, take: Any) -> None:
        """Join, and wait until all have joined; take what comes whenever the descriptor is readable."""
        await self.serve(index, nodes, ports)
        self.take = take
        self.came: list[bytes] = []
        self.members = 0
        self.library = ctypes.CDLL(ctypes.util.find_library("cpg"))
        self.handle = ctypes.c_uint64()
        self.callbacks = _Callbacks(_DELIVER(self._delivered), _CONFIGURED(self._configured))
        self.send = self.library.cpg_mcast_joined
        self.send.argtypes = (ctypes.c_uint64, ctypes.c_int, ctypes.POINTER(_Piece), ctypes.c_uint)
        self._call("cpg_initialize", ctypes.byref(self.handle), ctypes.byref(self.callbacks))
        name = _Name(5, b"bench")
        while (code := self.library.cpg_join(self.handle, ctypes.byref(name))) == TRY_AGAIN:
            await asyncio.sleep(0.05)
        if code != OK:
            raise SystemExit(f"cpg_join failed with {code}")
        descriptor = ctypes.c_int()
        self._call("cpg_fd_get", self.handle, ctypes.byref(descriptor))
        self.descriptor = descriptor.value
        asyncio.get_running_loop().add_reader(self.descriptor, self._readable)
        for _ in range(int(START_S / 0.1)):
            if self.members == nodes:
                break
            await asyncio.sleep(0.1)
        else:
            raise SystemExit(f"corosync has {self.members} members of {nodes} after {START_S:g} s")
        await asyncio.sleep(0.5)

    def _configured(self, _handle: int, _name: int, _members: int, count: int, *_changes: int) -> None:
        self.members = count

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code != OK:
            raise SystemExit(f"{name} failed with {code}: does another corosync run here?")

    def _delivered(self, _handle: int, _name: int, _node: int, _pid: int, message: int, size: int) -> None:
        self.came.append(ctypes.string_at(message, size))

    def _readable(self) -> None:
        self.library.cpg_dispatch(self.handle, DISPATCH_ALL)
        came, self.came = self.came, []
        if came:
            self.take(came)

    async def publish(self, batch: Sequence[bytes]) -> None:
        """Send one by one; while the daemon's queue is full, let others have their turn."""
        piece = _Piece()
        for number, payload in enumerate(batch):
            piece.base, piece.size = payload, len(payload)
            while (code := self.send(self.handle, AGREED, ctypes.byref(piece), 1)) == TRY_AGAIN:
                await asyncio.sleep(PAUSE_S)
            if code != OK:
                raise SystemExit(f"cpg_mcast_joined failed with {code}")
            if number % 64 == 63:
                await asyncio.sleep(0)

    def facts(self) -> dict[str, float]:
        """Return nothing."""
        return {}

    async def close(self) -> None:
        """End."""
        asyncio.get_running_loop().remove_reader(self.descriptor)
        self.library.cpg_finalize(self.handle)
        if self.daemon is not None:
            await asyncio.sleep(0.5)  # the others end first
            await self.daemon.end()


class Ring(Corosync):
    """The same, with a daemon for every process, on a network of their own. Process 0 creates and removes it."""

    async def serve(self, index: int, nodes: int, ports: Any) -> None:
        """Bring up a daemon in a namespace, and stay there."""
        self.lays, self.nodes = index == 0, nodes
        if self.lays:
            _remove(nodes)  # a run that was killed leaves it behind
            _lay(nodes)
        await ports(index + 1)
        space = os.open(f"/run/netns/{SPACE.format(index)}", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(space, CLONE_NEWNET):
            raise SystemExit(f"setns failed with {ctypes.get_errno()}")
        os.close(space)
        apart = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh")  # its lock is in /run
        self.daemon = await Daemon.run([_host(number) for number in range(nodes)], PORT, self.transport, apart)

    async def close(self) -> None:
        """End."""
        await super().close()
        if self.lays:
            await asyncio.sleep(0.5)
            _remove(self.nodes)


class Daemon:
    """A corosync daemon that this process runs."""

    def __init__(self, process: asyncio.subprocess.Process, directory: str) -> None:
        self._process, self._directory = process, directory

    @classmethod
    async def run(cls, hosts: list[str], port: int, transport: str, before: tuple[str, ...]) -> "Daemon":
        """Start it as one of these hosts, its command behind the prefix `before`, and wait until it answers."""
        directory = tempfile.mkdtemp(prefix="whence-corosync-")
        nodes = "".join(NODE.format(number=number, host=host) for number, host in enumerate(hosts, 1))
        file = Path(directory) / "corosync.conf"
        file.write_text(CONFIG.format(port=port, directory=directory, transport=transport, nodes=nodes))
        command, quiet = (*before, "corosync", "-f", "-c", str(file)), asyncio.subprocess.DEVNULL
        daemon = cls(await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet), directory)
        library, handle, none = ctypes.CDLL(ctypes.util.find_library("cpg")), ctypes.c_uint64(), _Callbacks()
        for _ in range(int(START_S / 0.1)):
            await asyncio.sleep(0.1)
            if daemon._process.returncode is not None:
                raise SystemExit(f"corosync ended with {daemon._process.returncode}: does another one run here?")
            if library.cpg_initialize(ctypes.byref(handle), ctypes.byref(none)) == OK:
                library.cpg_finalize(handle)
                return daemon
        await daemon.end()
        raise SystemExit(f"corosync does not answer after {START_S:g} s")

    async def end(self) -> None:
        """End it, and leave nothing behind."""
        self._process.terminate()
        await self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


# --- the network of a ring ---


def _host(number: int) -> str:
    return NET.format(number + 1)


def _lay(nodes: int) -> None:
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("link", "set", BRIDGE, "up")
    for number in range(nodes):
        space, wire = SPACE.format(number), f"{BRIDGE}v{number}"
        _ip("netns", "add", space)
        _ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", wire, "master", BRIDGE, "up")
        _ip("-n", space, "addr", "add", f"{_host(number)}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "link", "set", "lo", "up")


def _remove(nodes: int) -> None:
    for number in range(nodes):
        _ip("netns", "del", SPACE.format(number), check=False)
    _ip("link", "del", BRIDGE, check=False)


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True)
