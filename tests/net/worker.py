"""A live process for tests that kill it: publishes numbers, says which are acknowledged, takes every delivery.

python tests/net/worker.py PID PORT DIRECTORY LEVEL CONTACT...
"""

import asyncio
import signal
import sys
from pathlib import Path

from whence.group import Group, join
from whence.net.run import run
from whence.net.settings import NetSettings

PAUSE_S = 0.004


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def publish(group: Group, stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        receipt = await group.publish(b"%d" % number, until="stored")
        say(f"stored {receipt.event.pid} {receipt.event.boot} {receipt.event.seq}")
        number += 1
        await asyncio.sleep(PAUSE_S)


async def take(group: Group) -> None:
    async for _ in group.batches():
        pass


async def main(pid: int, port: int, directory: Path, level: str, contacts: list[str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    quiet = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, quiet.set)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    node = join(
        pid, listen=f"127.0.0.1:{port}", contacts=contacts, data=directory / f"data-{pid}", trace=directory / "trace",
        settings=NetSettings(call_ns=10_000_000_000),
    )  # fmt: skip
    async with node:
        if level == "causal":
            group = await node.open("alps", level, durable=True, founders=[0, 1, 2])
        else:
            group = await node.open("alps", level, durable=True, settings={"round_ns": 20_000_000})
        say("joined")
        tasks = [asyncio.create_task(publish(group, quiet)), asyncio.create_task(take(group))]
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    run(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5:]))
