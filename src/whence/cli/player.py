"""One process of the live part of the demo: a member of a group at every level, publishing until it is told to stop.

python -m whence.cli.player JSON; it reads words from standard input: `quiet` ends publishing, end of file ends it.
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

PAUSE_S = 0.05
QUICK: dict[str, object] = {"round_ns": 100_000_000}
UNHURRIED: dict[str, object] = {"delta": 500}
"""Eight processes may share few cores with other work: what takes longer than δ is late."""
SETTINGS: dict[str, dict[str, object]] = {
    "eventual": QUICK, "fifo": QUICK, "optimistic": QUICK, "total": UNHURRIED,
}  # fmt: skip


class Part(msgspec.Struct):
    """Who this process is."""

    pid: int
    listen: str
    advertise: str
    contacts: list[str]
    directory: str
    founders: list[int]
    writers: dict[str, list[int]]
    """Level to those who publish in its group."""


async def publish(group: Group, quiet: asyncio.Event) -> None:
    """Publish small events, and pass over refusals: a ticket may be on its way, a peer behind."""
    number = 0
    if group.level == "optimistic":
        with contextlib.suppress(WhenceError):
            await group.ready_to_publish(timeout_s=5)
    while not quiet.is_set():
        with contextlib.suppress(WhenceError):
            receipt = await group.publish(b"%d from %d" % (number, group.pid))
            await receipt.accepted()
            number += 1
        await asyncio.sleep(PAUSE_S)


async def take(group: Group) -> None:
    """Take everything."""
    async for _ in group.batches():
        pass


async def listen(quiet: asyncio.Event) -> None:
    """Follow the words of the parent."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        quiet.set()


async def play(part: Part) -> None:
    """Be one process from beginning to end."""
    quiet, directory = asyncio.Event(), Path(part.directory)
    node = join(
        part.pid, listen=part.listen, advertise=part.advertise, contacts=part.contacts,
        data=directory / f"data-{part.pid}", trace=directory / "spools",
        settings=NetSettings(call_ns=20_000_000_000, retry_ns_max=500_000_000),
    )  # fmt: skip
    async with node:
        groups = await asyncio.gather(
            *[
                node.open(level, level, founders=part.founders, settings=SETTINGS.get(level), timeout_s=60)
                for level in part.writers
            ]
        )
        os.write(1, b"joined\n")
        tasks = [asyncio.create_task(take(group)) for group in groups]
        tasks += [
            asyncio.create_task(publish(group, quiet)) for group in groups if part.pid in part.writers[group.level]
        ]
        await listen(quiet)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    run(play(msgspec.json.decode(sys.argv[1], type=Part)))
