"""Incarnations of one real process, which takes its own events at level causal until it ends or is killed."""

import signal
import subprocess
import sys
from pathlib import Path

LIFE = """
import asyncio, os, sys
from pathlib import Path
from whence.core.registry import LEVELS
from whence.sim.lab import spec_of
from whence.api.node import join

if sys.argv[7]:
    LEVELS["causal"] = spec_of("causal", sys.argv[7])
spread, directory, how, count, first = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]

async def main():
    async with join(0, data=directory / "data", trace=directory / "trace") as node:
        group = await node.open("alps", "causal", founders=[0], settings={"spread": spread}, ack=sys.argv[6])
        if first == "publish":
            for start in range(0, 90, 30):
                await group.publish_many([b"%d" % n for n in range(start, start + 30)], until="stored")
        taken = []
        def took(delivery):
            taken.append(delivery)
            os.write(1, b"%s %d %d\\n" % (delivery.payload, delivery.position, delivery.redelivered))
        if how == "batch":
            async for batch in group.batches():
                for delivery in batch:
                    took(delivery)
                    if len(taken) == count:
                        os.kill(os.getpid(), 9)
        while len(taken) < count:
            took(await group.next())
        if how == "kill":
            os.kill(os.getpid(), 9)
        if how == "ack":
            group.ack(taken[count // 2])
            os.kill(os.getpid(), 9)
        if how == "error":
            raise RuntimeError("the application fails")

asyncio.run(main())
"""

Taken = list[tuple[int, int, int]]


def life(
    spread: str, directory: Path, how: str, count: int, first: str = "", ack: str = "next", bug: str = ""
) -> Taken:
    """Run one life of a process; return what it was handed: the events, their positions, whether they came again."""
    command = [sys.executable, "-c", LIFE, spread, str(directory), how, str(count), first, ack, bug]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 1, -signal.SIGKILL), done.stderr
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]  # type: ignore[misc]
