"""Live messaging on loopback: every level against our own floor and pyzmq, as ratios measured side by side.

The floor is what Python can do at all: uvloop, one buffer per connection, the same framing (length and checksum),
arrays of events in a frame, no promise but TCP's. Eight processes all publish to all (8⇄8), as fast as back-pressure
lets them; deliveries per second are summed over the receivers. Kinds take turns, and medians of the rounds are
compared, so that a busy machine slows all alike.

    python bench/live.py [--rounds 3] [--seconds 2] [--nodes 8] [--kinds floor,fifo,...] [--sizes 32,1024]
"""

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from struct import Struct as Layout
from typing import Any
from zlib import crc32

import msgspec

BUNDLE_BYTES = 64 << 10
WARM_S = 0.5
_HEADER = Layout("<II")


def batch_of(size: int) -> list[bytes]:
    """Return what one publish call carries."""
    return [bytes([number & 255]) * size for number in range(min(2048, max(1, BUNDLE_BYTES // size)))]


# --- the floor ---


class FloorLink(asyncio.BufferedProtocol):
    """A connection that carries arrays of byte strings and counts what comes."""

    def __init__(self, counter: list[int]) -> None:
        self.buffer = bytearray(1 << 19)
        self.view = memoryview(self.buffer)
        self.end = 0
        self.counter = counter
        self.decode = msgspec.msgpack.Decoder(list[bytes]).decode
        self.writable = asyncio.Event()
        self.writable.set()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport
        self.transport.set_write_buffer_limits(high=1 << 20)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self.view[self.end :]

    def buffer_updated(self, size: int) -> None:
        """Decode every whole frame."""
        self.end += size
        start, view, count = 0, self.view, 0
        while self.end - start >= 8:
            length, checksum = _HEADER.unpack_from(view, start)
            if self.end - start - 8 < length:
                break
            body = view[start + 8 : start + 8 + length]
            if crc32(body) != checksum:
                raise RuntimeError("the frame's checksum does not match its body")
            count += len(self.decode(body))
            start += 8 + length
        self.counter[0] += count
        rest = self.end - start
        if start:
            view[:rest] = view[start : self.end]
        self.end = rest

    def pause_writing(self) -> None:
        """Wait."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self.writable.set()


async def floor_node(index: int, nodes: int, size: int, seconds: float, talk: "Talk") -> dict[str, float]:
    """Publish to and receive from all others without any protocol."""
    loop, counter = asyncio.get_running_loop(), [0]
    accepted: list[FloorLink] = []

    def accept() -> FloorLink:
        accepted.append(FloorLink(counter))
        return accepted[-1]

    server = await loop.create_server(accept, "127.0.0.1", 0)
    ports = await talk.ready(server.sockets[0].getsockname()[1])
    links = []
    for other in range(index):
        _, link = await loop.create_connection(lambda: FloorLink(counter), "127.0.0.1", ports[other])
        links.append(link)
    while len(links) + len(accepted) < nodes - 1:
        await asyncio.sleep(0.01)
    links += accepted
    encode = msgspec.msgpack.Encoder().encode
    batch = batch_of(size)

    async def publish(until: float) -> None:
        while time.monotonic() < until:
            body = encode(batch)
            frame = _HEADER.pack(len(body), crc32(body)) + body
            counter[0] += len(batch)  # one's own events are delivered too
            for link in links:
                if not link.transport.is_closing():
                    link.transport.write(frame)
            await asyncio.sleep(0)
            for link in links:
                await link.writable.wait()

    told = await timed(publish, lambda: counter[0], seconds, talk)
    await asyncio.sleep(1.0)  # the others may not be done
    return told


# --- whence ---


async def whence_node(
    level: str, index: int, nodes: int, size: int, seconds: float, talk: "Talk", durable: bool = False
) -> dict[str, float]:
    """Publish in a group of a level, and take batches."""
    import tempfile

    from whence.group import join

    data = tempfile.mkdtemp(prefix="whence-bench-") if durable or level == "total" else None
    first = join(index, listen="127.0.0.1:0", data=data)
    async with first as node:
        ports = await talk.ready(int(node.address.rpartition(":")[2]))
        for other in range(index):
            await node.live.switch.call("127.0.0.1", ports[other])
        founders = list(range(nodes)) if level in ("causal", "optimistic", "total") else []
        group = await node.open("bench", level, durable=durable, founders=founders)
        if level == "optimistic":
            await group.act("cjoin")
            await group.noted("ticket_acquire", 60)
        if group.members() is not None:
            await group.gathered(nodes, 60)
        else:
            await asyncio.sleep(1)
        taken = [0]

        async def take() -> None:
            async for batch in group.batches():
                taken[0] += len(batch.payloads())

        taking = asyncio.create_task(take())
        batch = batch_of(size)

        async def publish(until: float) -> None:
            while time.monotonic() < until:
                receipt = await group.publish_many(batch)
                if durable:
                    await receipt.stored()

        try:
            told = await timed(publish, lambda: taken[0], seconds, talk)
            kept = node.live._kept.get("bench")
            told["syncs"] = kept.commit.log.syncs if kept is not None else 0
            told["skipped"] = group.skipped
            await asyncio.sleep(1.0)
            return told
        finally:
            taking.cancel()
            if data is not None:
                shutil.rmtree(data, ignore_errors=True)  # the journal stays open until the node is closed


# --- pyzmq ---


def zmq_node(index: int, nodes: int, size: int, seconds: float, talk: "Talk") -> dict[str, float]:
    """Publish on a PUB socket and subscribe to all others."""
    import zmq

    context = zmq.Context()
    pub, sub = context.socket(zmq.PUB), context.socket(zmq.SUB)
    pub.sndhwm = sub.rcvhwm = 20_000
    port = pub.bind_to_random_port("tcp://127.0.0.1")
    ports = asyncio.run(talk.ready(port))
    for other, address in enumerate(ports):
        if other != index:
            sub.connect(f"tcp://127.0.0.1:{address}")
    sub.setsockopt(zmq.SUBSCRIBE, b"")
    batch, count = batch_of(size)[:64], 0
    time.sleep(0.5)
    talk.go()
    begin, cpu = time.monotonic(), 0.0
    at_warm = 0
    warm = True
    while (now := time.monotonic()) < begin + WARM_S + seconds:
        if warm and now >= begin + WARM_S:
            warm, at_warm, cpu = False, count, _cpu()
        for payload in batch:
            pub.send(payload)
        count += len(batch)
        try:
            for _ in range(64 * nodes):
                sub.recv(zmq.NOBLOCK)
                count += 1
        except zmq.Again:
            pass
    told = {"deliveries": count - at_warm, "seconds": seconds, "cpu": _cpu() - cpu}
    context.destroy(linger=0)
    return told


# --- running them ---


class Talk:
    """What a node says to the parent and hears from it, a line of JSON at a time."""

    async def ready(self, port: int) -> list[int]:
        """Say the port; hear everybody's."""
        print(json.dumps({"port": port}), flush=True)
        ports: list[int] = json.loads(sys.stdin.readline())
        return ports

    def go(self) -> None:
        """Say that all is connected; wait for the start."""
        print(json.dumps({"up": True}), flush=True)
        sys.stdin.readline()


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def timed(publish: Any, count: Any, seconds: float, talk: Talk) -> dict[str, float]:
    """Publish for a while, counting after the start has settled."""
    await asyncio.get_running_loop().run_in_executor(None, talk.go)
    begin = time.monotonic()
    publishing = asyncio.create_task(publish(begin + WARM_S + seconds))
    await asyncio.sleep(WARM_S)
    before, cpu, start = count(), _cpu(), time.monotonic()
    await publishing
    return {"deliveries": count() - before, "seconds": time.monotonic() - start, "cpu": _cpu() - cpu}


def child(kind: str, index: int, nodes: int, size: int, seconds: float) -> None:
    """Be one node."""
    talk = Talk()
    if kind == "zmq":
        told = zmq_node(index, nodes, size, seconds, talk)
    else:
        from whence.net.run import run

        level, _, stored = kind.partition("+")
        told = run(
            floor_node(index, nodes, size, seconds, talk)
            if kind == "floor"
            else whence_node(level, index, nodes, size, seconds, talk, durable=bool(stored))
        )
    print(json.dumps(told), flush=True)


def once(kind: str, nodes: int, size: int, seconds: float) -> dict[str, float]:
    """Run all nodes of one kind; return deliveries per second and CPU per delivery."""
    command = [sys.executable, __file__, "--child", kind]
    children = [
        subprocess.Popen(
            [*command, str(index), str(nodes), str(size), str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        for index in range(nodes)
    ]  # fmt: skip
    try:
        ports = [_line(each)["port"] for each in children]
        for each in children:
            _tell(each, json.dumps(ports))
        for each in children:
            _line(each)
        for each in children:
            _tell(each, "go")
        told = [_line(each) for each in children]
        for each in children:
            each.wait(30)
    finally:
        for each in children:
            each.kill()
    deliveries = sum(one["deliveries"] for one in told)
    rate = sum(one["deliveries"] / one["seconds"] for one in told)
    result = {"rate": rate, "cpu_us": 1e6 * sum(one["cpu"] for one in told) / max(1, deliveries)}
    if "+" in kind:
        result["syncs_per_s"] = sum(one["syncs"] for one in told) / seconds
    if any(one.get("skipped") for one in told):
        result["skipped"] = sum(one["skipped"] for one in told)
    return result


def _line(each: "subprocess.Popen[str]") -> dict[str, Any]:
    assert each.stdout is not None
    line = each.stdout.readline()
    if not line:
        raise SystemExit("a node of the benchmark ended early")
    told: dict[str, Any] = json.loads(line)
    return told


def _tell(each: "subprocess.Popen[str]", line: str) -> None:
    assert each.stdin is not None
    each.stdin.write(line + "\n")
    each.stdin.flush()


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--kinds", default="floor,eventual,fifo,fifo+stored,zmq")
    parser.add_argument("--sizes", default="32,1024")
    given = parser.parse_args()
    if given.child:
        kind, index, nodes, size, seconds = given.child
        child(kind, int(index), int(nodes), int(size), float(seconds))
        return
    result: dict[str, Any] = {"bench": "live", "nodes": given.nodes, "shape": "8⇄8", "sizes": {}}
    for size in map(int, given.sizes.split(",")):
        runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in given.kinds.split(",")}
        for number in range(given.rounds):
            for kind, told in runs.items():
                told.append(once(kind, given.nodes, size, given.seconds))
                print(f"{size} B, round {number + 1}, {kind}: {told[-1]}", file=sys.stderr)
        medians = {kind: statistics.median(one["rate"] for one in told) for kind, told in runs.items()}
        result["sizes"][size] = {
            "deliveries_per_s": {kind: round(rate) for kind, rate in medians.items()},
            "cpu_us_per_delivery": {
                kind: round(statistics.median(one["cpu_us"] for one in told), 3) for kind, told in runs.items()
            },
            "of_floor": {k: round(rate / medians["floor"], 3) for k, rate in medians.items() if "floor" in medians},
            "syncs_per_s": {
                kind: round(statistics.median(one["syncs_per_s"] for one in told))
                for kind, told in runs.items()
                if "+" in kind
            },
        }
    print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()
