"""A live process that is treated badly: publishes at a rate, says what is acknowledged and what it is handed.

python -m tests.faults.worker JSON

It reads words from standard input: `quiet` ends publishing, `publish COUNT` publishes a bundle, `die POINT` arms a
point of tests/faults/points.py. At rate 0 it publishes only when told.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from random import Random

import msgspec

from tests.faults import points
from whence.api.group import Delivery, Group, Receipt
from whence.api.node import join
from whence.errors import EventsLostError, LimitError, NotMemberError, StalledError
from whence.net import compaction
from whence.net.run import run
from whence.net.settings import NetSettings

COUNTS = (1, 1, 1, 3, 20)
"""Events that are published together."""

COMPACT_BYTES = 24_000
"""Journals are rewritten all the time, so that kills meet it."""


class Task(msgspec.Struct):
    """Who this process is."""

    pid: int
    listen: str
    advertise: str
    contacts: list[str]
    directory: str
    level: str
    founders: list[int]
    rate: float
    settings: dict[str, object]
    durable: bool = True
    die_at_start: str = ""


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")  # in one piece: the process may end at any moment


async def acknowledge(receipt: Receipt, count: int, durable: bool) -> None:
    pid, incarnation, first = await (receipt.stored() if durable else receipt.accepted())
    for seq in range(first, first + count):
        say(f"stored {pid} {incarnation} {seq}")


async def publish(group: Group, rate: float, durable: bool, quiet: asyncio.Event) -> None:
    loop, number, waiting = asyncio.get_running_loop(), 0, set[asyncio.Task[None]]()
    due, rng = loop.time(), Random(group.pid)
    if not rate:
        await quiet.wait()
    while not quiet.is_set():
        count = rng.choice(COUNTS)
        due += count / rate
        await asyncio.sleep(max(0.0, due - loop.time()))
        try:
            receipt = await group.publish_many([b"%d" % (number + each) for each in range(count)])
            await receipt.accepted()
        except (LimitError, NotMemberError, StalledError):
            due = loop.time() + 0.05  # refused: too much is under way, or a ticket or clock is not there yet
            continue
        except EventsLostError:
            if durable:
                raise
            continue  # of earlier ones, at a level that tells what came too late; this call has published nothing
        number += count
        task = asyncio.create_task(acknowledge(receipt, count, durable))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    say("quiet")


async def publish_once(group: Group, count: int, durable: bool) -> None:
    """Publish one bundle, unless that is refused for now, and say what of it is stored."""
    with contextlib.suppress(NotMemberError, StalledError):
        receipt = await group.publish_many([b"%d" % number for number in range(count)])
        pid, incarnation, first = await (receipt.stored() if durable else receipt.accepted())
        for seq in range(first, first + count):
            say(f"stored {pid} {incarnation} {seq}")


async def listen(group: Group, durable: bool, quiet: asyncio.Event) -> None:
    told = set[asyncio.Task[None]]()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().strip():
        word, _, rest = line.partition(" ")
        if word == "quiet":
            quiet.set()
        elif word == "publish":
            told.add(asyncio.create_task(publish_once(group, int(rest), durable)))
        elif word == "die":
            points.arm(rest)


def took(delivery: Delivery) -> None:
    say(f"handed {' '.join(map(str, delivery.event))} {int(delivery.redelivered)}")


async def take(group: Group) -> None:
    """Take in every manner there is, one after the other: events, batches, breaking off, giving up waits."""
    rng = Random(group.pid)
    while True:
        manner, left = rng.choice(("events", "events", "batches", "timeouts", "cancelled")), rng.randint(1, 50)
        if manner == "events":
            async for delivery in group:
                took(delivery)
                left -= 1
                if not left:
                    break
                await asyncio.sleep(0 if left % 8 else 0.001)
        elif manner == "batches":
            async for batch in group.batches():
                for delivery in batch:
                    took(delivery)
                break
        elif manner == "timeouts":
            with contextlib.suppress(TimeoutError):
                took(await group.next(timeout=0.002))
        else:
            waiting = asyncio.create_task(group.next())
            await asyncio.sleep(0.001)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                took(await waiting)


async def main(task: Task) -> None:
    stop, quiet = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    compaction.COMPACT_BYTES = COMPACT_BYTES
    directory = Path(task.directory)
    node = join(
        task.pid, listen=task.listen, advertise=task.advertise or None, contacts=task.contacts,
        data=directory / f"data-{task.pid}", trace=directory / "trace", insecure=True,
        settings=NetSettings(
            call_ns=20_000_000_000, retry_ns_max=500_000_000, stall_ns=3_000_000_000,
            heartbeat_ns=200_000_000,
        ),
    )  # fmt: skip
    async with node:
        group = await node.open(
            "alps",
            task.level,
            durable=task.durable,
            founders=task.founders,
            settings=task.settings,
            timeout_s=60,
            write=True,
        )
        say("joined")
        tasks = [
            asyncio.create_task(publish(group, task.rate, task.durable, quiet)),
            asyncio.create_task(take(group)),
            asyncio.create_task(listen(group, task.durable, quiet)),
            asyncio.create_task(stop.wait()),
        ]
        done, rest = await asyncio.wait(tasks[1:], return_when=asyncio.FIRST_COMPLETED)
        for each in (tasks[0], *rest):
            each.cancel()
        await asyncio.gather(tasks[0], *rest, return_exceptions=True)
        for each in done:
            each.result()


if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=Task)
    if given.die_at_start:
        points.arm(given.die_at_start)
    run(main(given))
