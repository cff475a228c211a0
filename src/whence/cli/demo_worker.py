"""A worker process of the live demo: a member of a group at every level, publishing until it is told to stop.

python -m whence.cli.demo_worker JSON. A line on standard input says what to do: `stop` publishing, or `remove` a
process from every group that has views, which is answered by a line. End of file ends the process.
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import msgspec

from whence.api.group import Group
from whence.api.node import join
from whence.errors import WhenceError
from whence.net.run import run
from whence.net.settings import NetSettings

PUBLISH_INTERVAL_S = 0.05
FAST_ROUNDS: dict[str, object] = {"round_ns": 100_000_000}
SETTINGS: dict[str, dict[str, object]] = dict.fromkeys(("eventual", "fifo", "optimistic"), FAST_ROUNDS)


class WorkerConfig(msgspec.Struct):
    """The configuration of one worker."""

    pid: int
    listen: str
    advertise: str
    contacts: list[str]
    directory: str
    founders: list[int]
    publishers: dict[str, list[int]]
    """By level, the pids of those who publish in its group."""


def data_of(directory: str, pid: int) -> Path:
    """Return the data directory of a worker."""
    return Path(directory) / f"data-{pid}"


async def publish(group: Group, stopped: asyncio.Event) -> None:
    """Publish small events, and ignore refusals: a ticket may be under way, or a peer slow."""
    number = 0
    with contextlib.suppress(WhenceError):
        await group.ready_to_publish(timeout_s=5)
    while not stopped.is_set():
        with contextlib.suppress(WhenceError):
            receipt = await group.publish(b"%d from %d" % (number, group.pid))
            await receipt.accepted()
            number += 1
        await asyncio.sleep(PUBLISH_INTERVAL_S)


async def take(group: Group) -> None:
    """Take every delivery."""
    async for _ in group.batches():
        pass


async def obey(groups: list[Group], stopped: asyncio.Event) -> None:
    """Do what the parent says, line by line; return at the end of file."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command, *pids = line.split()
        if command == b"remove":
            living = [group for group in groups if group.view() is not None]
            await asyncio.gather(*[group.remove(int(pid)) for group in living for pid in pids])
            os.write(1, b"removed\n")
        else:
            stopped.set()


async def work(config: WorkerConfig) -> None:
    """Run one worker from start to end."""
    stopped, directory = asyncio.Event(), Path(config.directory)
    node = join(
        config.pid, listen=config.listen, advertise=config.advertise, contacts=config.contacts,
        data=data_of(config.directory, config.pid), trace=directory / "spools",
        settings=NetSettings(call_ns=20_000_000_000, retry_ns_max=500_000_000),
    )  # fmt: skip
    async with node:
        groups = await asyncio.gather(
            *[
                node.open(level, level, founders=config.founders, settings=SETTINGS.get(level), timeout_s=60)
                for level in config.publishers
            ]
        )
        os.write(1, b"joined\n")
        tasks = [asyncio.create_task(take(group)) for group in groups]
        tasks += [
            asyncio.create_task(publish(group, stopped))
            for group in groups
            if config.pid in config.publishers[group.level]
        ]
        await obey(groups, stopped)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    run(work(msgspec.json.decode(sys.argv[1], type=WorkerConfig)))
