"""What others notice while a living group changes: latency under a steady load during joins, leaves and removals.

All members publish at a fixed rate. One process more joins, leaves, joins again, publishes too, and is removed by a
member while it still answers; all of that several times, with a pause after each. *While it lasts* is from the request
until the newcomer is live, or until every member has entered the view without it. Events that were under way in that
time are compared with those in the pauses, at the members that stay. Who is removed is alive: where somebody has died,
the others of a strict group wait for as long as nobody removes it, by right.
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from _live_kinds import Whence, contender

CHANGES = ("join", "leave", "remove")
SIZE = 32
STAMP_BYTES = 8


class Member:
    """One process: a founder, or the one that comes and goes."""

    def __init__(self, kind: str, index: int, nodes: int, rate: float) -> None:
        self.index, self.nodes, self.rate = index, nodes, rate
        self.is_founder = index < nodes
        self.samples: list[tuple[int, int]] = []
        """When an event was published and when it was handed out here, in ns of the machine's clock."""
        contended = contender(kind, saturated=False)
        assert isinstance(contended, Whence)
        self.member = contended
        self.publishing: asyncio.Task[None] | None = None

    def take(self, payloads: Sequence[bytes]) -> None:
        """Note when an event came."""
        self.samples.append((int.from_bytes(payloads[-1][:STAMP_BYTES], "little"), time.monotonic_ns()))

    async def run(self) -> None:
        """Do what the parent says, a line at a time."""
        member = self.member
        await member.begin(self.index)
        print(json.dumps({"port": member.port}), flush=True)
        ports = json.loads(await _read())
        await member.connect(self.index, ports)
        if self.is_founder:
            await member.open(list(range(self.nodes)), self.take)
            await member.group.gathered(self.nodes, 90)
        print(json.dumps({"up": True}), flush=True)
        while (line := (await _read()).split()) and line[0] != "end":
            since = time.monotonic_ns()
            await self.obey(*line)
            print(json.dumps([since, time.monotonic_ns()]), flush=True)
        await self.stop_publishing()
        print(json.dumps(self.samples), flush=True)
        await _read()
        await member.close()

    async def obey(self, word: str, argument: str = "0") -> None:
        """Do one thing, and return when it is done."""
        if word == "publish":
            self.publishing = asyncio.create_task(self.publish())
        elif word == "join":
            await self.member.open([], self.take)
            self.publishing = asyncio.create_task(self.publish())
        elif word == "leave":
            await self.stop_publishing()
            await self.member.group.leave()
        elif word == "remove":
            await self.member.group.remove(int(argument))
        elif word == "without":
            driver = self.member.group._driver
            await driver.until(lambda: int(argument) not in driver.view_pids)
        elif word == "removed":
            await self.stop_publishing()
            with contextlib.suppress(Exception):  # it is out already
                await self.member.group.close()

    async def publish(self) -> None:
        """Publish at the rate until told to stop, or removed."""
        from whence.errors import WhenceError

        begin, sent, filler = time.monotonic(), 0, bytes(SIZE - STAMP_BYTES)
        pause = max(0.001, min(0.01, 1 / self.rate))
        with contextlib.suppress(WhenceError):
            while True:
                due = int((time.monotonic() - begin) * self.rate) - sent
                if due > 0:
                    sent += due
                    stamp = time.monotonic_ns().to_bytes(STAMP_BYTES, "little")
                    await self.member.group.publish_many([stamp + filler] * min(due, 64))
                await asyncio.sleep(pause)

    async def stop_publishing(self) -> None:
        """Publish no more."""
        if self.publishing is not None:
            self.publishing.cancel()
            await asyncio.gather(self.publishing, return_exceptions=True)


async def _read() -> str:
    return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


# --- the parent ---


class Process:
    """A child and the lines to and from it."""

    def __init__(self, words: list[str]) -> None:
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, line: str) -> None:
        """Say something to it."""
        assert self.child.stdin is not None
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def heard(self) -> Any:
        """Return its next line."""
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit("a process of the changes ended early")
        return json.loads(line)

    def does(self, line: str) -> tuple[int, int]:
        """Let it do something; return from when to when that was."""
        self.tell(line)
        since, until = self.heard()
        return since, until


def once(kind: str, nodes: int, rate: float, times: int, pause_s: float) -> dict[str, list[float]]:
    """Change the view of a group some times; return the latencies in ms, in pauses and during each kind of change."""
    words = [sys.executable, __file__, kind]
    everybody = [Process([*words, str(index), str(nodes), str(rate / nodes)]) for index in range(nodes + 1)]
    members, guest = everybody[:nodes], everybody[nodes]
    lasting: dict[str, list[tuple[int, int]]] = {name: [] for name in ("steady", *CHANGES)}

    def pause() -> None:
        time.sleep(pause_s / 2)  # what the change before left behind
        since = time.monotonic_ns()
        time.sleep(pause_s)
        lasting["steady"].append((since, time.monotonic_ns()))

    def change(name: str, who: Process, line: str, *, gone: bool) -> None:
        since, until = who.does(line)
        if gone:
            until = max([until, *[member.does(f"without {nodes}")[1] for member in members]])
        lasting[name].append((since, until))
        pause()

    try:
        ports = json.dumps([each.heard()["port"] for each in everybody])
        for each in everybody:
            each.tell(ports)
        for each in everybody:
            each.heard()
        for member in members:
            member.does("publish")
        pause()
        for _ in range(times):
            change("join", guest, "join", gone=False)
            change("leave", guest, "leave", gone=True)
            change("join", guest, "join", gone=False)
            change("remove", members[0], f"remove {nodes}", gone=True)
            guest.does("removed")
        for each in everybody:
            each.tell("end")
        samples = [tuple(sample) for each in members for sample in each.heard()]
        guest.heard()
        for each in everybody:
            each.tell("end")
        for each in everybody:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.child.wait(10)
    finally:
        for each in everybody:
            each.child.kill()
    found = {
        name: [
            (came - sent) / 1e6
            for since, until in windows
            for sent, came in samples
            if sent <= until and came >= since
        ]
        for name, windows in lasting.items()
    }  # fmt: skip
    return found | {f"{name} lasts": [(until - since) / 1e6 for since, until in lasting[name]] for name in CHANGES}


def measured(kinds: list[str], nodes: int, rate: float, rounds: int, times: int, pause_s: float) -> dict[str, Any]:
    """Return for every kind the p99 of steady load, and that of each change as a ratio to it."""
    runs: dict[str, list[dict[str, list[float]]]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind, told in runs.items():
            told.append(once(kind, nodes, rate, times, pause_s))
            p99 = {name: round(at(told[-1][name], 0.99), 2) for name in ("steady", *CHANGES)}
            print(f"{nodes}⇄{nodes}, changes, round {number + 1}, {kind}, p99 in ms: {p99}", file=sys.stderr)
    return {kind: summary(told) for kind, told in runs.items()}


def summary(runs: list[dict[str, list[float]]]) -> dict[str, Any]:
    """Return the medians of some runs of one kind."""

    def median(name: str, part: float) -> float:
        return statistics.median(at(run[name], part) for run in runs)

    return {
        name: {
            "p50_ms": round(median(name, 0.5), 3),
            "p99_ms": round(median(name, 0.99), 3),
            "lasts_ms": round(median(f"{name} lasts", 0.5), 1) if name in CHANGES else None,
            "p99_of_steady": round(statistics.median(at(run[name], 0.99) / at(run["steady"], 0.99) for run in runs), 2),
        }
        for name in ("steady", *CHANGES)
    }  # fmt: skip


def at(samples: list[float], part: float) -> float:
    """Return the sample at a part of their number."""
    ranked = sorted(samples)
    return ranked[min(len(ranked) - 1, int(part * len(ranked)))] if ranked else float("nan")


def main() -> None:
    """Be one process."""
    from whence.net.run import run

    kind, index, nodes, rate = sys.argv[1:]
    run(Member(kind, int(index), int(nodes), float(rate)).run())


if __name__ == "__main__":
    main()
