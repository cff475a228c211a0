"""The contenders of bench/live.py: our floor, every level, and rivals. Each is a member that publishes and takes.

The floor is the most that Python can do: uvloop, one buffer per connection, the same framing (length and checksum),
arrays of events in a frame, no promise but TCP's. A rival that is not installed is reported and left out.
"""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from struct import Struct as Layout
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import msgspec
from _corosync import KNET, Corosync, Ring
from _corosync import lacks as corosync_lacks

_HEADER = Layout("<II")


class LevelKind(NamedTuple):
    """A level as it is used here."""

    level: str
    founded: bool = False
    """The processes are named as founders."""
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    needs_data: bool = False
    saturated: dict[str, object] = {}  # noqa: RUF012 - nobody changes it
    """Settings for a machine that is saturated on purpose."""


LEVELS = {
    "eventual": LevelKind("eventual"),
    "fifo": LevelKind("fifo"),
    "optimistic": LevelKind("optimistic", founded=True),
    "causal": LevelKind("causal", founded=True, options={"membership": "living"}),
    "total": LevelKind("total", founded=True, options={"order": "strict"}),
    "total-timed": LevelKind(
        "total", founded=True, options={"order": "timed"}, needs_data=True, saturated={"delta": 200}
    ),
}
"""Our levels by kind. A saturated machine queues for longer than the 100 ms that the timed merge waits otherwise."""

Take = Callable[[Sequence[bytes]], None]
Ports = Callable[[int], Awaitable[list[int]]]
"""Announces the caller's port and returns everybody's."""


class Contender(Protocol):
    """One process of a kind."""

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Connect to everybody and hand what comes to `take`."""

    async def publish(self, batch: list[bytes]) -> None:
        """Publish some events; wait where the kind requires it."""

    def facts(self) -> dict[str, float]:
        """Return what else is worth knowing."""

    async def close(self) -> None:
        """End."""


class FloorLink(asyncio.BufferedProtocol):
    """A connection that carries arrays of byte strings."""

    def __init__(self, take: Take) -> None:
        self.buffer = bytearray(1 << 19)
        self.view = memoryview(self.buffer)
        self.end = 0
        self.take = take
        self.decode = msgspec.msgpack.Decoder(list[bytes]).decode
        self.writable = asyncio.Event()
        self.writable.set()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self.transport = transport
        self.transport.set_write_buffer_limits(high=1 << 20)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self.view[self.end :]

    def buffer_updated(self, size: int) -> None:
        """Decode every whole frame."""
        self.end += size
        start, view = 0, self.view
        while self.end - start >= 8:
            length, checksum = _HEADER.unpack_from(view, start)
            if self.end - start - 8 < length:
                break
            body = view[start + 8 : start + 8 + length]
            if crc32(body) != checksum:
                raise RuntimeError("the frame's checksum does not match its body")
            self.take(self.decode(body))
            start += 8 + length
        rest = self.end - start
        if start:
            view[:rest] = view[start : self.end]
        self.end = rest

    def pause_writing(self) -> None:
        """Wait."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """Continue."""
        self.writable.set()


class Floor:
    """No protocol at all."""

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Connect every two processes once."""
        loop = asyncio.get_running_loop()
        self.take = take
        self.links: list[FloorLink] = []
        self.encode = msgspec.msgpack.Encoder().encode
        accepted: list[FloorLink] = []

        def accept() -> FloorLink:
            accepted.append(FloorLink(take))
            return accepted[-1]

        server = await loop.create_server(accept, "127.0.0.1", 0)
        known = await ports(server.sockets[0].getsockname()[1])
        for other in range(index):
            _, link = await loop.create_connection(lambda: FloorLink(take), "127.0.0.1", known[other])
            self.links.append(link)
        while len(self.links) + len(accepted) < nodes - 1:
            await asyncio.sleep(0.01)
        self.links += accepted

    async def publish(self, batch: list[bytes]) -> None:
        """Send one frame to everybody; wait while a transport is full."""
        body = self.encode(batch)
        frame = _HEADER.pack(len(body), crc32(body)) + body
        self.take(batch)  # one's own events are delivered too
        for link in self.links:
            if not link.transport.is_closing():
                link.transport.write(frame)
        await asyncio.sleep(0)
        for link in self.links:
            await link.writable.wait()

    def facts(self) -> dict[str, float]:
        """Return nothing."""
        return {}

    async def close(self) -> None:
        """End."""
        for link in self.links:
            link.transport.abort()


UNSTORED_MAX = 16
"""Publish calls of one process that wait for the disk: what is published meanwhile shares a sync."""


class Whence:
    """A group at a level."""

    def __init__(self, kind: LevelKind, *, stored: bool, saturated: bool) -> None:
        self.kind, self.stored = kind, stored
        self.unstored: deque[Any] = deque()
        self.settings = kind.saturated if saturated else {}

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Found a group of all."""
        await self.begin(index)
        await self.connect(index, await ports(self.port))
        await self.open(list(range(nodes)) if self.kind.founded else [], take)
        await self.group.gathered(nodes, 90)
        if self.kind.founded:
            await asyncio.sleep(1)

    async def begin(self, index: int) -> None:
        """Begin to listen."""
        from whence.api.node import join

        self.data = tempfile.mkdtemp(prefix="whence-bench-") if self.stored or self.kind.needs_data else None
        self.node = await join(index, listen="127.0.0.1:0", data=self.data).__aenter__()
        self.port = int(self.node.address.rpartition(":")[2])

    async def connect(self, index: int, ports: list[int]) -> None:
        """Call everybody with a lower number."""
        for other in range(index):
            await self.node.live.connections.call("127.0.0.1", ports[other])

    async def open(self, founders: list[int], take: Take) -> None:
        """Open the group: found it, or get into it."""
        self.group = await self.node.open(
            "bench", self.kind.level, durable=self.stored, founders=founders, settings=self.settings, timeout_s=90,
            publish_wait_s=90, write=True, **self.kind.options, **self.receiving(take),
        )  # fmt: skip

    def receiving(self, take: Take) -> dict[str, Any]:
        """Receive by being called with every batch."""
        return {"on_batch": lambda batch: take(batch.payloads())}

    async def publish(self, batch: list[bytes]) -> None:
        """Publish at once; where events are stored, continue while few calls wait for the disk. Await every receipt."""
        receipt = await self.unless_lost(lambda: self.group.publish_many(batch))
        if self.stored:
            await self.hear_of(receipt)

    async def unless_lost(self, publish: Callable[[], Awaitable[Any]]) -> Any:
        """Publish; go on where events are reported as lost, on a machine that is saturated on purpose."""
        from whence.errors import EventsLostError

        while True:
            try:
                return await publish()
            except EventsLostError:  # about earlier events: this call has published nothing yet
                continue

    async def hear_of(self, receipt: Any) -> None:
        """Wait for the disk if many calls already do."""
        self.unstored.append(receipt)
        if len(self.unstored) > UNSTORED_MAX:
            await self.unstored.popleft().stored()

    def facts(self) -> dict[str, float]:
        """Return the number of syncs, and of events that did not arrive in their place."""
        kept = self.node.live.files.storage.get("bench")
        late = self.group._driver.counts["late"]
        syncs = kept.commit.log.syncs if kept is not None else 0
        return {"syncs": syncs, "skipped": self.group.skipped, "late": late, "lost": self.group.lost}

    async def close(self) -> None:
        """Leave without a farewell: everybody does."""
        await self.node.close()
        if self.data is not None:
            shutil.rmtree(self.data, ignore_errors=True)


class OneByOne(Whence):
    """A group at a level, used the plain way: a call for each event, and a loop over single deliveries."""

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Found a group of all, and iterate over what comes."""
        await super().start(index, nodes, ports, take)

        async def listen() -> None:
            async for delivery in self.group:
                take((delivery.payload,))

        self.listening = asyncio.create_task(listen())

    def receiving(self, take: Take) -> dict[str, Any]:
        """Receive by iterating."""
        return {}

    async def publish(self, batch: list[bytes]) -> None:
        """Publish one event per call."""
        from whence.errors import EventsLostError

        publish = self.group.publish
        for payload in batch:
            try:
                receipt = await publish(payload)
            except EventsLostError:
                receipt = await self.unless_lost(partial(publish, payload))
        if self.stored:
            await self.hear_of(receipt)

    async def close(self) -> None:
        """End the loop, and leave."""
        self.listening.cancel()
        await asyncio.gather(self.listening, return_exceptions=True)
        await super().close()


class Packed:
    """Any kind, used for batches: a message carries all events of a publish call, as bundles of ours do."""

    def __init__(self, inner: Contender) -> None:
        self.inner = inner
        self.encode = msgspec.msgpack.Encoder().encode

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Connect, and unpack what comes."""
        decode = msgspec.msgpack.Decoder(list[bytes]).decode

        def unpack(messages: Sequence[bytes]) -> None:
            for message in messages:
                take(decode(message))

        await self.inner.start(index, nodes, ports, unpack)

    async def publish(self, batch: list[bytes]) -> None:
        """Publish the batch as one message."""
        await self.inner.publish([self.encode(batch)])

    def facts(self) -> dict[str, float]:
        """Return the facts of the kind itself."""
        return self.inner.facts()

    async def close(self) -> None:
        """End."""
        await self.inner.close()


class Zmq:
    """pyzmq PUB/SUB: every process has a PUB socket and subscribes to all others. Unordered, may drop."""

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Connect; the SUB socket is emptied whenever it is readable."""
        import zmq

        self.zmq, self.take, self.closed = zmq, take, False
        self.context = zmq.Context()
        self.pub, self.sub = self.context.socket(zmq.PUB), self.context.socket(zmq.SUB)
        self.pub.sndhwm = self.sub.rcvhwm = 20_000
        known = await ports(self.pub.bind_to_random_port("tcp://127.0.0.1"))
        for other, port in enumerate(known):
            if other != index:
                self.sub.connect(f"tcp://127.0.0.1:{port}")
        self.sub.setsockopt(zmq.SUBSCRIBE, b"")
        asyncio.get_running_loop().add_reader(int(self.sub.getsockopt(zmq.FD)), self._readable)
        await asyncio.sleep(0.5)

    def _readable(self) -> None:
        """Take a bounded number of messages, and come again if there may be more: the descriptor signals only once."""
        came: list[bytes] = []
        if self.closed:
            return
        with contextlib.suppress(self.zmq.Again):
            came.extend(self.sub.recv(self.zmq.NOBLOCK) for _ in range(2048))
        if came:
            self.take(came)
            asyncio.get_running_loop().call_soon(self._readable)

    async def publish(self, batch: list[bytes]) -> None:
        """Send one by one, and read in between: a PUB socket drops what a slow reader does not take."""
        send = self.pub.send
        for at in range(0, len(batch), 64):
            for payload in batch[at : at + 64]:
                send(payload)
            self._readable()
            await asyncio.sleep(0)
        self.take(batch)

    def facts(self) -> dict[str, float]:
        """Return nothing."""
        return {}

    async def close(self) -> None:
        """End."""
        self.closed = True
        asyncio.get_running_loop().remove_reader(int(self.sub.getsockopt(self.zmq.FD)))
        self.context.destroy(linger=0)


class ZmqAsyncio:
    """pyzmq as its documentation shows it for asyncio: a call to send, a call to receive, each awaited."""

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Connect everybody to everybody."""
        import zmq
        import zmq.asyncio

        self.context = zmq.asyncio.Context()
        self.pub, self.sub = self.context.socket(zmq.PUB), self.context.socket(zmq.SUB)
        self.pub.sndhwm = self.sub.rcvhwm = 20_000
        self.take = take
        known = await ports(self.pub.bind_to_random_port("tcp://127.0.0.1"))
        for other, port in enumerate(known):
            if other != index:
                self.sub.connect(f"tcp://127.0.0.1:{port}")
        self.sub.setsockopt(zmq.SUBSCRIBE, b"")

        async def listen() -> None:
            while True:
                take((await self.sub.recv(),))

        self.listening = asyncio.create_task(listen())
        await asyncio.sleep(0.5)

    async def publish(self, batch: list[bytes]) -> None:
        """Send one by one."""
        for payload in batch:
            await self.pub.send(payload)
            self.take((payload,))
            await asyncio.sleep(0)

    def facts(self) -> dict[str, float]:
        """Return nothing."""
        return {}

    async def close(self) -> None:
        """End."""
        self.listening.cancel()
        await asyncio.gather(self.listening, return_exceptions=True)
        self.context.destroy(linger=0)


class Nats:
    """A NATS server and nats-py clients: at most once."""

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Process 0 runs the server; everybody subscribes."""
        import nats

        port = free_port() if index == 0 else 0
        self.server = await _serve("nats-server", "-a", "127.0.0.1", "-p", str(port)) if index == 0 else None
        known = await ports(port)
        address = f"nats://127.0.0.1:{known[0]}"
        self.client = await nats.connect(address, pending_size=64 << 20, error_cb=_quietly, allow_reconnect=False)

        async def came(message: Any) -> None:
            take((message.data,))

        await self.client.subscribe("bench", cb=came, pending_msgs_limit=1 << 20, pending_bytes_limit=1 << 28)
        await self.client.flush(timeout=60)

    async def publish(self, batch: list[bytes]) -> None:
        """Publish one by one; the client gathers them. A flush now and then keeps publishers from outrunning it."""
        for payload in batch:
            await self.client.publish("bench", payload)
        await self.client.flush(timeout=60)

    def facts(self) -> dict[str, float]:
        """Return nothing."""
        return {}

    async def close(self) -> None:
        """End."""
        await self.client.close()
        if self.server is not None:
            self.server.terminate()
            await self.server.wait()


class Redis:
    """A Redis server and redis-py clients: pub/sub, pipelined."""

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Process 0 runs the server; everybody subscribes."""
        import redis.asyncio as redis

        port = free_port() if index == 0 else 0
        options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                   "--client-output-buffer-limit", "pubsub 0 0 0")  # fmt: skip
        self.server = await _serve("redis-server", *options) if index == 0 else None
        known = await ports(port)
        self.client = redis.Redis(host="127.0.0.1", port=known[0])
        self.channel = self.client.pubsub(ignore_subscribe_messages=True)
        await self.channel.subscribe("bench")

        async def listen() -> None:
            async for message in self.channel.listen():
                take((message["data"],))

        self.listening = asyncio.create_task(listen())
        await asyncio.sleep(0.2)

    async def publish(self, batch: list[bytes]) -> None:
        """Publish through a pipeline."""
        pipe = self.client.pipeline(transaction=False)
        for payload in batch[:256]:
            pipe.publish("bench", payload)
        await pipe.execute()

    def facts(self) -> dict[str, float]:
        """Return nothing."""
        return {}

    async def close(self) -> None:
        """End."""
        self.listening.cancel()
        await asyncio.gather(self.listening, return_exceptions=True)
        await self.client.aclose()
        if self.server is not None:
            self.server.terminate()
            await self.server.wait()


RIVALS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "zmq": (("zmq",), None),
    "zmq-asyncio": (("zmq",), None),
    "nats": (("nats",), "nats-server"),
    "redis": (("redis",), "redis-server"),
    "libp2p": (("libp2p",), None),
}
"""What each rival needs: modules and a program."""


def lacking(kind: str) -> str | None:
    """Return what a kind needs and this machine does not have; None if it can run."""
    if kind.startswith("corosync"):
        return corosync_lacks(ring=kind == "corosync-ring")
    if kind == "libp2p" and interpreter(kind) != sys.executable:
        return None
    modules, program = RIVALS.get(kind, ((), None))
    for module in modules:
        if importlib.util.find_spec(module) is None:
            return f"module {module}"
    return f"program {program}" if program is not None and shutil.which(program) is None else None


def interpreter(kind: str) -> str:
    """Return the Python that runs a kind."""
    return os.environ.get("LIBP2P_PYTHON", sys.executable) if kind == "libp2p" else sys.executable


def contender(kind: str, *, saturated: bool, singly: bool = False) -> Contender:
    """Return a process of a kind; rivals carry a batch as one message, unless events are published singly."""
    level, _, stored = kind.partition("+")
    if level in LEVELS:
        return (OneByOne if singly else Whence)(LEVELS[level], stored=bool(stored), saturated=saturated)
    rival = _rival(kind)
    return rival if singly or kind == "floor" else Packed(rival)


def _rival(kind: str) -> Contender:
    if kind == "libp2p":
        from _libp2p import Libp2p

        return Libp2p()
    rivals: dict[str, Callable[[], Contender]] = {
        "floor": Floor, "zmq": Zmq, "zmq-asyncio": ZmqAsyncio, "nats": Nats, "redis": Redis,
        "corosync": Corosync, "corosync-knet": lambda: Corosync(KNET), "corosync-ring": Ring,
    }  # fmt: skip
    if kind not in rivals:
        raise SystemExit(f"no kind is called {kind!r}; there are: {', '.join((*LEVELS, *rivals, 'libp2p'))}")
    return rivals[kind]()


def free_port() -> int:
    """Return a port on which nobody listens."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _quietly(error: Exception) -> None:
    """Say nothing: the server ends before its clients."""


async def _serve(program: str, *options: str) -> asyncio.subprocess.Process:
    """Start a server and wait until it listens."""
    quiet = asyncio.subprocess.DEVNULL
    started = await asyncio.create_subprocess_exec(program, *options, stdout=quiet, stderr=quiet)
    port, deadline = int(options[options.index("-p" if "-p" in options else "--port") + 1]), time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
            continue
        writer.close()
        return started
    raise SystemExit(f"{program} does not listen at port {port}")
