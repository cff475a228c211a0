"""Live messaging on loopback: every level against our own floor and rivals, as ratios measured side by side.

Throughput: all processes publish to all (8⇄8), or one to eight others (1→8), as fast as each kind lets them, and
deliveries per second are summed over the receivers. Every kind is used in two ways, and compared within each.
*Batched*: a publish call carries up to 64 KiB of events; rivals get them as one message that both ends pack and unpack
with msgpack. *One by one*: a publish call and a turn of the receiver's loop for every event (`publish`, `async for`).
Latency: publishers send at a fixed rate (8⇄8 and 3⇄3), and at half of what the kind reached in this very run (8⇄8); the
time from the publish call to the application, on one clock. Changes: what the members of a living group notice while
others join, leave and are removed (_changes.py). Kinds take turns, and medians of the rounds are compared, so that a
busy machine slows all alike. CPU per delivery is printed beside, because it does not depend on who else is running.

A kind with @ is a kind of an earlier commit, as its own benchmark runs it: `causal@3f34418`.

Goals, 8⇄8: batched, of the floor's deliveries `fifo` 0.6, the levels above it 0.4, with both sizes; with 32 bytes, one
by one, `causal` more than NATS and pyzmq under asyncio; batched, at 4,000 messages a second a lower p50 than NATS and
corosync, and at half load at most 1.2 times the p50 and 2 times the p99 of `eventual`; `total` at 4,000 at most 8 times
the p50 of `causal`, and 3⇄3 at 1,500 at most 3 times, with nothing late or left out; with a journal half of the same
level without; 0.95 of the same kind at an earlier commit; during changes at most twice the p99. Raw pyzmq, emptied in a
callback, is measured and no goal: it orders nothing and may drop.

corosync runs three times: one daemon with all processes as its clients, over its leaner transport (the goals are about
that) and over the one it takes by itself, and a daemon for each process, as in a cluster. They need root.

libp2p may have a Python of its own, whose protobuf is not ours: LIBP2P_PYTHON=/path/to/python.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _changes
from _common import arguments, checked_out, finish
from _live_kinds import contender, interpreter, lacking

BUNDLE_BYTES = 64 << 10
WARM_S = 0.5
KINDS = (
    "floor,eventual,fifo,optimistic,causal,total,total-timed,fifo+stored,causal+stored,"
    "zmq,zmq-asyncio,nats,redis,corosync,corosync-knet,corosync-ring,libp2p"
)
SINGLY_KINDS = "eventual,fifo,optimistic,causal,total,total-timed,zmq,zmq-asyncio,nats,redis,corosync"
CHANGES_KINDS = "causal,total"
RATES = {"8⇄8": 4000.0, "3⇄3": 1500.0}
"""Messages a second at which latency is measured, by shape."""
OF_FLOOR = {"fifo": 0.6, "optimistic": 0.4, "causal": 0.4, "total": 0.4, "total-timed": 0.4}
BEATEN_SINGLY = ("nats", "zmq-asyncio")
OF_ITSELF_STORED = 0.5
OF_ITSELF_EARLIER = 0.95
P50_OF_CAUSAL_MAX = {"8⇄8": 8.0, "3⇄3": 3.0}
P99_OF_STEADY_MAX = 2.0
LEFT_OUT = ("skipped", "late", "lost")
P50_OF_EVENTUAL_MAX, P99_OF_EVENTUAL_MAX = 1.2, 2.0
STAMP_BYTES = 8
SAMPLES_MAX = 200_000
TREES: dict[str, Path] = {}
"""The earlier commits that are checked out."""


def processes_of(shape: str) -> tuple[int, range]:
    """Return how many processes a shape has, and which of them publish: all of 8⇄8, and in 1→8 one to eight others."""
    if "⇄" in shape:
        nodes = int(shape.partition("⇄")[0])
        return nodes, range(nodes)
    publishers, _, receivers = shape.partition("→")
    return int(publishers) + int(receivers), range(int(publishers))


def batch_of(size: int) -> list[bytes]:
    """Return what one publish call carries."""
    return [bytes([number & 255]) * size for number in range(min(2048, max(1, BUNDLE_BYTES // size)))]


# --- one process ---


class Child:
    """Runs one process of a kind and reports to the parent what it saw."""

    def __init__(self, kind: str, index: int, nodes: int, publishers: int, size: int, seconds: float, rate: float,
                 singly: bool):  # fmt: skip
        self.index, self.nodes, self.size, self.seconds, self.rate = index, nodes, size, seconds, rate
        self.publishes = index < publishers
        self.receives = publishers > 1 or not self.publishes
        self.member = contender(kind, saturated=not rate, singly=singly)
        self.count = 0
        self.latencies: list[int] = []
        self.measuring = False

    def take(self, payloads: Sequence[bytes]) -> None:
        """Count what came; with a rate, read the stamp of an arbitrary one: events of a bundle differ in age."""
        self.count += len(payloads)
        if self.rate and self.measuring and len(self.latencies) < SAMPLES_MAX:
            stamp = payloads[self.count % len(payloads)][:STAMP_BYTES]
            self.latencies.append(time.monotonic_ns() - int.from_bytes(stamp, "little"))

    async def ports(self, port: int) -> list[int]:
        """Announce the port; return everybody's."""
        print(json.dumps({"port": port}), flush=True)
        heard: list[int] = json.loads(await self.line())
        return heard

    async def line(self) -> str:
        """Read a line from the parent without stopping the loop."""
        return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

    async def run(self) -> None:
        """Be one process from beginning to end."""
        await self.member.start(self.index, self.nodes, self.ports, self.take)
        print(json.dumps({"up": True}), flush=True)
        await self.line()
        begin = time.monotonic()
        until = begin + WARM_S + self.seconds
        work = asyncio.create_task(self.publish(until) if self.publishes else asyncio.sleep(until - begin))
        await asyncio.sleep(WARM_S)
        before, cpu, start, self.measuring = self.count, _cpu(), time.monotonic(), True
        await asyncio.wait(
            [work, asyncio.create_task(asyncio.sleep(self.seconds))], return_when=asyncio.FIRST_COMPLETED
        )
        if work.done():
            work.result()  # it may have failed
        deliveries = (self.count - before) if self.receives else 0
        told = {"deliveries": deliveries, "seconds": time.monotonic() - start, "cpu": _cpu() - cpu}
        self.measuring = False
        print(json.dumps(told | self.member.facts() | {"latencies": sorted(self.latencies)[:: _thin(self.latencies)]}),
              flush=True)  # fmt: skip
        await self.line()  # nobody leaves before all are done: a process that is gone acknowledges nothing
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await self.member.close()

    async def publish(self, until: float) -> None:
        """Publish as fast as possible, or at the rate."""
        if not self.rate:
            batch = batch_of(self.size)
            while time.monotonic() < until:
                await self.member.publish(batch)
            return
        begin, sent, filler = time.monotonic(), 0, bytes(self.size - STAMP_BYTES)
        pause = max(0.001, min(0.01, 1 / self.rate))
        while (now := time.monotonic()) < until:
            due = min(2048, int((now - begin) * self.rate) - sent)
            if due > 0:
                sent += due
                await self.member.publish([time.monotonic_ns().to_bytes(STAMP_BYTES, "little") + filler] * due)
            await asyncio.sleep(pause)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _thin(samples: list[int]) -> int:
    return max(1, len(samples) // 2000)


# --- all of them ---


def program(kind: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a kind's processes: those of an earlier commit run its own code."""
    kind, _, commit = kind.partition("@")
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    script = __file__
    if commit:
        tree = TREES[commit]
        script = str(tree / "bench" / "live.py")
        environment["PYTHONPATH"] = os.pathsep.join((str(tree / "src"), str(tree / "bench")))
    return [interpreter(kind), script, "--child", kind], environment


def once(
    kind: str, shape: str, size: int, seconds: float, rate: float = 0.0, *, singly: bool = False
) -> dict[str, float]:
    """Run all processes of one kind; return deliveries per second, CPU per delivery and, at a rate, latency."""
    nodes, publishing = processes_of(shape)
    each_rate = rate / len(publishing)
    command, environment = program(kind)
    children = [
        subprocess.Popen(
            [*command, *map(str, (index, nodes, len(publishing), size, seconds, each_rate, int(singly)))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
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
            _tell(each, "end")
        for each in children:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it has reported; some linger over unsent data
                each.wait(10)
    finally:
        for each in children:
            each.kill()
    deliveries = sum(one["deliveries"] for one in told)
    result = {
        "rate": sum(one["deliveries"] / one["seconds"] for one in told),
        "cpu_us": 1e6 * sum(one["cpu"] for one in told) / max(1, deliveries),
    }
    if "+" in kind:
        result["syncs_per_s"] = sum(one["syncs"] for one in told) / seconds
    result |= {name: total for name in LEFT_OUT if (total := sum(one.get(name, 0) for one in told))}
    if rate:
        samples = sorted(sample for one in told for sample in one["latencies"])
        result |= {"p50_ms": _at(samples, 0.5), "p99_ms": _at(samples, 0.99)}
    return result


def _at(samples: list[int], part: float) -> float:
    return round(samples[min(len(samples) - 1, int(part * len(samples)))] / 1e6, 3) if samples else float("nan")


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


def throughput(
    kinds: list[str], shape: str, size: int, rounds: int, seconds: float, *, singly: bool = False
) -> dict[str, Any]:
    """Measure how fast each kind is, in turns."""
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind, told in runs.items():
            told.append(once(kind, shape, size, seconds, singly=singly))
            way = "one by one" if singly else "batched"
            print(f"{shape}, {size} B, {way}, round {number + 1}, {kind}: {told[-1]}", file=sys.stderr)
    rates = _medians(runs, "rate")
    cpu = _medians(runs, "cpu_us")
    result: dict[str, Any] = {
        "deliveries_per_s": {kind: round(rate) for kind, rate in rates.items()},
        "cpu_us_per_delivery": {kind: round(value, 3) for kind, value in cpu.items()},
    }
    for base in ("floor", "eventual", "zmq"):
        if base in rates:
            result[f"of_{base}"] = {kind: round(rate / rates[base], 3) for kind, rate in rates.items()}
            result[f"cpu_of_{base}"] = {kind: round(cpu[base] / value, 3) for kind, value in cpu.items()}
    stored = {
        kind: rates[kind] / rates[level]
        for kind in kinds
        if (level := kind.partition("+")[0]) != kind and level in rates
    }
    result["of_itself_without_journal"] = {kind: round(ratio, 3) for kind, ratio in stored.items()}
    earlier = {
        kind: rates[level] / rates[kind]
        for kind in kinds
        if (level := kind.partition("@")[0]) != kind and level in rates
    }
    result["of_itself_earlier"] = {kind: round(ratio, 3) for kind, ratio in earlier.items()}
    result["cpu_of_itself_earlier"] = {kind: round(cpu[kind] / cpu[kind.partition("@")[0]], 3) for kind in earlier}
    result["syncs_per_s"] = {
        kind: round(statistics.median(one["syncs_per_s"] for one in told)) for kind, told in runs.items() if "+" in kind
    }
    return result


def latency(
    kinds: list[str], shape: str, size: int, rounds: int, seconds: float, rates: dict[str, float] | None = None
) -> dict[str, Any]:
    """Measure latency at the shape's rate, and where `rates` says what each kind reached, at half of that, in turns."""
    nodes, _ = processes_of(shape)
    fixed = RATES[shape]
    half = {kind: max(fixed, rates[kind] / nodes / 2) for kind in kinds} if rates is not None else {}
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind, told in runs.items():
            loads = {f"at_{fixed:.0f}": fixed} | ({"at_half": half[kind]} if half else {})
            seen: dict[str, float] = {}
            for load, rate in loads.items():
                one = once(kind, shape, size, seconds, rate)
                left_out = sum(one.get(name, 0) for name in LEFT_OUT)
                seen |= {f"{load} {name}": one[name] for name in ("p50_ms", "p99_ms", "cpu_us")}
                seen[f"{load} left_out"] = left_out
            told.append(seen)
            print(f"{shape}, {size} B, latency, round {number + 1}, {kind}: {seen}", file=sys.stderr)
    medians = {name: _medians(runs, name) for name in runs[kinds[0]][0] if "left_out" not in name}
    table: dict[str, Any] = {kind: {name: of[kind] for name, of in medians.items()} for kind in kinds}
    for kind, told in runs.items():
        table[kind] |= {name: max(one[name] for one in told) for name in told[0] if "left_out" in name}
        if half:
            table[kind]["messages_per_s at half"] = round(half[kind])
        if "causal" in kinds:
            name = f"at_{fixed:.0f} p50_ms"
            table[kind][f"{name} of causal"] = round(table[kind][name] / table["causal"][name], 2)
    return table


def latency_goals(shape: str, table: dict[str, Any]) -> dict[str, bool]:
    """Return whether `total` is as quick as it should be beside `causal`, and leaves nothing out."""
    if not {"causal", "total"} <= table.keys():
        return {}
    most, rate = P50_OF_CAUSAL_MAX[shape], f"{RATES[shape]:.0f}"
    return {
        f"total, {shape} at {rate}: p50 at most {most} times causal's": table["total"][f"at_{rate} p50_ms of causal"]
        <= most,
        f"total, {shape} at {rate}: nothing late or left out": not table["total"][f"at_{rate} left_out"],
    }


def changes_goals(changes: dict[str, Any]) -> dict[str, bool]:
    """Return whether others hardly notice that members come and go."""
    return {
        f"{kind}: p99 at most {P99_OF_STEADY_MAX} times during a {name}": of[name]["p99_of_steady"] <= P99_OF_STEADY_MAX
        for kind, of in changes.items()
        for name in _changes.CHANGES
    }


def goals_of(sizes: dict[int, dict[str, Any]], singly: dict[int, dict[str, Any]]) -> dict[str, bool]:
    """Return which goals were met among those whose kinds were measured; sizes are those of 8⇄8, both ways."""
    goals: dict[str, bool] = {}
    for size, told in sizes.items():
        of_floor = told.get("of_floor", {})
        for kind in OF_FLOOR.keys() & of_floor.keys():
            goals[f"{kind}, {size} B: {OF_FLOOR[kind]} of the floor"] = of_floor[kind] >= OF_FLOOR[kind]
        for kind, ratio in told["of_itself_without_journal"].items():
            goals[f"{kind}, {size} B: {OF_ITSELF_STORED} of itself without"] = ratio >= OF_ITSELF_STORED
        for kind, ratio in told["of_itself_earlier"].items():
            goals[f"{OF_ITSELF_EARLIER} of {kind}, {size} B"] = ratio >= OF_ITSELF_EARLIER
    for size, told in singly.items():
        for kind, ratio in told["of_itself_earlier"].items():
            goals[f"{OF_ITSELF_EARLIER} of {kind}, {size} B, one by one"] = ratio >= OF_ITSELF_EARLIER
    small = sizes.get(32, {})
    rates, latencies = singly.get(32, {}).get("deliveries_per_s", {}), small.get("latency", {})
    for kind in BEATEN_SINGLY:
        if "causal" in rates and kind in rates:
            goals[f"causal, one by one: more than {kind}"] = rates["causal"] > rates[kind]
    goals |= latency_goals("8⇄8", latencies)
    if "causal" in latencies:
        ours = latencies["causal"]
        for kind in ("nats", "corosync"):
            if kind in latencies:
                goals[f"causal: p50 below {kind} at 4,000"] = ours["at_4000 p50_ms"] < latencies[kind]["at_4000 p50_ms"]
        if "eventual" in latencies:
            bare = latencies["eventual"]
            for name, most in (("p50", P50_OF_EVENTUAL_MAX), ("p99", P99_OF_EVENTUAL_MAX)):
                met = ours[f"at_half {name}_ms"] <= most * bare[f"at_half {name}_ms"]
                goals[f"causal: {name} at most {most} times eventual at half load"] = met
    return dict(sorted(goals.items()))


def _medians(runs: dict[str, list[dict[str, float]]], name: str) -> dict[str, float]:
    return {kind: statistics.median(one[name] for one in told) for kind, told in runs.items()}


def main() -> None:
    """Measure and print one JSON line; exit with status 1 if a goal was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--child", nargs=8, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help="how long each kind is measured (default 2)")
    parser.add_argument("--kinds", default=KINDS, help=f"what is measured (default {KINDS})")
    parser.add_argument(
        "--singly", default=SINGLY_KINDS, help=f"what is also measured one by one, none for nothing ({SINGLY_KINDS})"
    )
    parser.add_argument("--sizes", default="32,1024", help="bytes of a payload (default 32,1024)")
    parser.add_argument("--shapes", default="8⇄8,1→8", help="who publishes to whom, none for nobody (8⇄8,1→8)")
    parser.add_argument("--latency", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--changes", default=CHANGES_KINDS, help=f"whose members come and go meanwhile, none for none ({CHANGES_KINDS})"
    )
    parser.add_argument("--rate", type=float, help="measure only latency and CPU, at this many messages a second")
    given = parser.parse_args()
    if given.child:
        kind, *numbers, seconds, rate, one_by_one = given.child
        index, nodes, publishers, size = map(int, numbers)
        alone = bool(int(one_by_one))
        child = Child(kind, index, nodes, publishers, size, float(seconds), float(rate), alone).run()
        if kind == "libp2p":  # its Python need not know whence
            asyncio.run(child)
            return
        from whence.net.run import run

        run(child)
        return
    with contextlib.ExitStack() as trees:
        for commit in {kind.partition("@")[2] for kind in f"{given.kinds},{given.singly}".split(",") if "@" in kind}:
            TREES[commit] = trees.enter_context(checked_out(commit))
        told, goals = measure(given)
    finish("live", told, goals, quick=given.quick)


def measure(given: argparse.Namespace) -> tuple[dict[str, Any], dict[str, bool]]:
    """Measure what is asked for; return the numbers and the goals."""
    asked, singly = given.kinds.split(","), given.singly.split(",") if given.singly != "none" else []
    skipped = {kind: reason for kind in [*asked, *singly] if (reason := lacking(kind)) is not None}
    kinds, singly = ([kind for kind in each if kind not in skipped] for each in (asked, singly))
    rounds, seconds = given.repeat or (1 if given.quick else 3), given.seconds or (0.5 if given.quick else 2.0)
    shapes = given.shapes.split(",") if given.shapes != "none" else []
    sizes_asked = [int(size) for size in given.sizes.split(",")]
    if given.rate:
        at_rate = {f"{kind}, {shape}, {size} B": [once(kind, shape, size, seconds, given.rate) for _ in range(rounds)]
                   for shape in shapes for size in sizes_asked for kind in kinds}  # fmt: skip
        return {"messages_per_s": given.rate, "rounds": at_rate, "left_out": skipped}, {}
    measured: dict[str, dict[int, dict[str, Any]]] = {}
    for shape in shapes:
        sizes = measured[shape] = {}
        for size in sizes_asked:
            sizes[size] = throughput(kinds, shape, size, rounds, seconds)
            if given.latency and shape == "8⇄8" and size == 32:
                rates = sizes[size]["deliveries_per_s"]
                sizes[size]["latency"] = latency(kinds, shape, size, rounds, seconds, rates)
    one_by_one = {
        shape: {size: throughput(singly, shape, size, rounds, seconds, singly=True) for size in sizes_asked}
        for shape in shapes
        if singly and "⇄" in shape
    }
    goals = goals_of(measured.get("8⇄8", {}), one_by_one.get("8⇄8", {}))
    told: dict[str, Any] = {"batched": measured, "one_by_one": one_by_one, "left_out": skipped}
    if given.latency:
        others = [shape for shape in RATES if 32 not in measured.get(shape, {})]
        told["latency"] = {shape: latency(kinds, shape, 32, rounds, seconds) for shape in others if kinds}
        for shape, table in told["latency"].items():
            goals |= latency_goals(shape, table)
    if given.changes != "none":
        times, pause_s = (1, 0.5) if given.quick else (3, 1.0)
        told["changes"] = _changes.measured(given.changes.split(","), 8, RATES["8⇄8"], rounds, times, pause_s)
        goals |= changes_goals(told["changes"])
    return told, dict(sorted(goals.items()))


if __name__ == "__main__":
    main()
