"""corosync's closed process groups as a rival: total order, in C; one daemon on loopback, clients in Python by ctypes.

Process 0 runs the daemon, which needs root and the host to itself: its clients find it by a fixed name.
"""

import asyncio
import ctypes
import ctypes.util
import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OK, TRY_AGAIN = 1, 6
DISPATCH_ALL, AGREED = 2, 2
START_S = 20.0
PAUSE_S = 0.0005
"""Between two attempts to send while the daemon's queue is full."""

CONFIG = """
totem {{
    version: 2
    cluster_name: bench
    transport: udpu
    interface {{
        ringnumber: 0
        bindnetaddr: 127.0.0.1
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
    node {{
        nodeid: 1
        ring0_addr: 127.0.0.1
    }}
}}
"""


class _Name(ctypes.Structure):
    """A group's name, as the library has it."""

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
    """Whom the library calls."""

    _fields_ = (("deliver", _DELIVER), ("configured", _CONFIGURED))


def lacks() -> str | None:
    """Return what is needed to run it and not here."""
    if shutil.which("corosync") is None:
        return "program corosync"
    if ctypes.util.find_library("cpg") is None:
        return "library libcpg"
    return "the rights of root" if os.geteuid() != 0 else None


class Corosync:
    """One member of a closed process group: agreed delivery, the same sequence everywhere."""

    async def start(self, index: int, nodes: int, ports: Any, take: Any) -> None:
        """Join; what comes is taken whenever the descriptor is readable."""
        self.daemon = await _run() if index == 0 else None
        await ports(index + 1)
        self.take = take
        self.came: list[bytes] = []
        self.library = ctypes.CDLL(ctypes.util.find_library("cpg"))
        self.handle = ctypes.c_uint64()
        self.callbacks = _Callbacks(_DELIVER(self._delivered), _CONFIGURED(lambda *_: None))
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
        await asyncio.sleep(0.5)

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
            process, directory = self.daemon
            process.terminate()
            await process.wait()
            shutil.rmtree(directory, ignore_errors=True)


async def _run() -> tuple[asyncio.subprocess.Process, str]:
    """Start the daemon and wait until it answers."""
    directory = tempfile.mkdtemp(prefix="whence-corosync-")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file = Path(directory) / "corosync.conf"
    file.write_text(CONFIG.format(port=port, directory=directory))
    quiet = asyncio.subprocess.DEVNULL
    daemon = await asyncio.create_subprocess_exec("corosync", "-f", "-c", str(file), stdout=quiet, stderr=quiet)
    library, handle, none = ctypes.CDLL(ctypes.util.find_library("cpg")), ctypes.c_uint64(), _Callbacks()
    for _ in range(int(START_S / 0.1)):
        await asyncio.sleep(0.1)
        if daemon.returncode is not None:
            raise SystemExit(f"corosync ended with {daemon.returncode}: does another one run here?")
        if library.cpg_initialize(ctypes.byref(handle), ctypes.byref(none)) == OK:
            library.cpg_finalize(handle)
            return daemon, directory
    raise SystemExit(f"corosync does not answer after {START_S:g} s")
