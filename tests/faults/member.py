"""A member of a living group that is treated badly: publishes at a rate, and says everything it is told and handed.

python -m tests.faults.member JSON

It reads words from standard input: `quiet` ends publishing, `remove PID` removes another member, `leave` leaves for
good, `end` stops without a word to anybody, `how` tells its state on standard error, `die POINT` arms a point of
tests/faults/points.py. What it says, a line each, with times of the clock that all processes of a machine share:

    joined EPOCH TIME                   it is live, as the member that this view added
    view EPOCH LATEST MEMBERS VOTERS    it is in this view, and knows a latest one
    accepted PID INC SEQ COUNT TIME     it published this; the call began at that time
    majority, settled PID INC SEQ COUNT what it was told of them since
    handed PID INC SEQ AGAIN            its application has this event, for the first time or again
    removed EPOCH KNOWN PID INC SEQ     it was removed, and its events count up to this one
    out PID; refused PID WHY            how a removal that it was asked for went
    left; quiet                         it left for good; it publishes no more, and knows what it will be told
"""

import asyncio
import contextlib
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.faults import points
from tests.faults.worker import COMPACT_BYTES, COUNTS, say
from whence.api.group import Delivery, Group, Receipt
from whence.api.node import Node, join
from whence.core.views.member import ViewMember
from whence.errors import ClosedError, EventsLostError, LimitError, NotMemberError, RemovedError, WhenceError
from whence.net import compaction
from whence.net.membership import Removed
from whence.net.run import run
from whence.net.settings import NetSettings
from whence.types import EventId

GROUP = "alps"
LOOK_S = 0.02
REMOVAL_S = 60.0
BACKLOG = 200
"""Events that wait for the application here. More: nothing is published, because the machine is too busy for the
rate."""
REMOVED = 3
"""The exit code of a process that was removed."""


class Task(msgspec.Struct, frozen=True):
    """Who this process is, and what it does."""

    pid: int
    listen: str
    advertise: str
    contacts: list[str]
    directory: str
    kind: dict[str, Any]
    """What the group is opened with."""
    founders: list[int]
    rate: float
    durable: bool
    die_at_start: str = ""


SILENT, LEFT = "silent", "left"


class Ended(Exception):
    """The process ends because it was asked to: without a word to the others, or after it left."""


# --- publishing ---


async def tell(receipt: Receipt, event: EventId, count: int, level: str) -> None:
    """Wait for what a receipt may say, and say it."""
    named = f"{event.pid} {event.incarnation} {event.seq} {count}"
    with contextlib.suppress(WhenceError):
        await (receipt.majority() if level == "majority" else receipt.settled())
        say(f"{level} {named}")


async def publish(group: Group, rate: float, quiet: asyncio.Event) -> None:
    """Publish at a rate until it shall be quiet; whatever is refused is tried again."""
    loop, number, waiting = asyncio.get_running_loop(), 0, set[asyncio.Task[None]]()
    due, rng = loop.time(), Random(group.pid)
    while not quiet.is_set():
        count = rng.choice(COUNTS)
        due += count / rate
        await asyncio.sleep(max(0.0, due - loop.time()))
        if group._inbox.events > BACKLOG:
            due = loop.time() + 0.05
            continue
        begun = time.monotonic_ns()
        try:
            receipt = await group.publish_many([b"%d" % (number + each) for each in range(count)])
            event = await receipt.accepted()
        except RemovedError:
            break
        except (LimitError, NotMemberError, EventsLostError):
            due = loop.time() + 0.05
            continue
        number += count
        say(f"accepted {event.pid} {event.incarnation} {event.seq} {count} {begun}")
        for level in ("majority", "settled"):
            task = asyncio.create_task(tell(receipt, event, count, level))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    say("quiet")


# --- taking ---


def took(delivery: Delivery) -> None:
    say(f"handed {' '.join(map(str, delivery.event))} {int(delivery.redelivered)}")


async def take(group: Group) -> None:
    """Take events and batches in turn, breaking off in between. Raises RemovedError."""
    rng = Random(group.pid)
    while True:
        left = rng.randint(1, 60)
        if rng.random() < 0.7:
            async for event in group.events():
                if isinstance(event, Delivery):
                    took(event)
                elif isinstance(event, Removed):
                    break
                left -= 1
                if not left:
                    break
                await asyncio.sleep(0 if left % 8 else 0.001)
        else:
            async for batch in group.batches():
                for delivery in batch:
                    took(delivery)
                break
        try:
            group._driver.check()
        except ClosedError:
            await asyncio.Event().wait()  # this process closes or leaves the group, and ends when that is done


async def watch(group: Group) -> None:
    """Say which view it is in, whenever that changes."""
    seen: object = None
    while True:
        view = group.view()
        if view is not None and (view.epoch, view.adopted) != seen:
            seen = (view.epoch, view.adopted)
            members = ",".join(f"{each.pid}:{each.joined}" for each in view.members)
            voters = ",".join(str(each.pid) for each in view.members if each.voter)
            say(f"view {view.epoch} {view.adopted} {members} {voters or '-'}")
        await asyncio.sleep(LOOK_S)


# --- what it is asked ---


async def remove(group: Group, pid: int) -> None:
    try:
        await group.remove(pid, REMOVAL_S)
        say(f"out {pid}")
    except WhenceError as why:
        say(f"refused {pid} {why}")


async def listen(group: Group, quiet: asyncio.Event) -> None:
    """Do what standard input says. Raises Ended."""
    doing = set[asyncio.Task[None]]()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().strip():
        word, _, rest = line.partition(" ")
        if word == "quiet":
            quiet.set()
        elif word == "remove":
            doing.add(asyncio.create_task(remove(group, int(rest))))
        elif word == "leave":
            quiet.set()
            await group.leave(None)
            say("left")
            raise Ended(LEFT)
        elif word == "end":
            raise Ended(SILENT)
        elif word == "how":
            how(group)
        elif word == "die":
            points.arm(rest)


def how(group: Group) -> None:
    """Write to standard error how the member is, for whoever looks at a failed run."""
    member = group._driver.member
    if isinstance(member, ViewMember):
        streams = {str(each): (stream.base, stream.got, stream.handed, stream.taken, list(stream.retained)[:3],
                               list(stream.held)[:3]) for each, stream in member.state.streams.items()}  # fmt: skip
        peers = {pid: (peer.entered, peer.adopted, peer.got, peer.taken, peer.removed) for pid, peer in
                 member.links.peers.items()}  # fmt: skip
        sys.stderr.write(f"{time.monotonic_ns()} {group.view()}\n  streams (base, got, handed, taken, retained, held): "
                         f"{streams}\n  peers (entered, adopted, got, taken, removed): {peers}\n"
                         f"  closed {member.state.closed} leads {member.wishes.leads()} refused "
                         f"{group._flow.refused}\n")  # fmt: skip
        sys.stderr.flush()


def told_removed(verdict: RemovedError) -> None:
    cut = " ".join(map(str, verdict.cut)) if verdict.cut is not None else "0 0 0"
    say(f"removed {verdict.epoch} {int(verdict.is_known)} {cut}")


async def opened(node: Node, task: Task) -> Group:
    """Open the group; a process whose earlier member was removed while it was down hears so, and joins anew."""
    while True:
        try:
            group = await node.open(GROUP, founders=task.founders, timeout_s=None, **task.kind)
        except RemovedError as verdict:
            told_removed(verdict)
            continue
        if group.removed_while_away is not None:
            told_removed(group.removed_while_away)
        return group


async def act(node: Node, group: Group, task: Task) -> int:
    """Publish, take and listen until one of them ends; return an exit code."""
    stop, quiet = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    publishing = asyncio.create_task(publish(group, task.rate, quiet))
    tasks = [
        asyncio.create_task(take(group)), asyncio.create_task(listen(group, quiet)), asyncio.create_task(stop.wait()),
        asyncio.create_task(watch(group)),
    ]  # fmt: skip
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for each in (publishing, *rest):
        each.cancel()
    await asyncio.gather(publishing, *rest, return_exceptions=True)
    try:
        for each in done:
            each.result()
    except RemovedError as verdict:
        told_removed(verdict)
        return REMOVED
    except Ended as ended:
        if ended.args == (SILENT,):
            live, node._live = node.live, None
            node.groups.clear()
            await live.close()
    return 0


async def main(task: Task) -> int:
    compaction.COMPACT_BYTES = COMPACT_BYTES
    directory, code = Path(task.directory), 0
    node = join(
        task.pid, listen=task.listen, advertise=task.advertise or None, contacts=task.contacts,
        data=directory / f"data-{task.pid}" if task.durable else None, trace=directory / "trace", insecure=True,
        status=False,
        settings=NetSettings(
            call_ns=20_000_000_000, retry_ns_max=500_000_000, stall_ns=3_000_000_000, heartbeat_ns=200_000_000,
            alone=True,
        ),
    )  # fmt: skip
    with contextlib.suppress(EventsLostError):  # of what was accepted last, and never acknowledged
        async with node:
            group = await opened(node, task)
            view = group.view()
            if view is not None:
                mine = next(each.joined for each in view.members if each.pid == task.pid)
                say(f"joined {mine} {time.monotonic_ns()}")
            code = await act(node, group, task)
    return code


if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=Task)
    if given.die_at_start:
        points.arm(given.die_at_start)
    sys.exit(run(main(given)))
