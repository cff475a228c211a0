"""Level total with processes of any numbers, and with mergers that go."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from rich.console import Console

from tests.net.live import take, within
from whence.api.group import Group
from whence.api.node import Node, join
from whence.cli.delta import delta_sentence
from whence.cli.top import status_page
from whence.core.levels.total.items import Batch, Offer
from whence.core.levels.total.member import TotalMember
from whence.core.levels.total.roles import Roles
from whence.errors import EventsLostError
from whence.net.status import status

QUICK = {"order": "timed", "beat_ns": 20_000_000, "patience_beats": 10, "delta": 200}


@asynccontextmanager
async def members(tmp_path: Path, pids: list[int], founders: list[int]) -> AsyncIterator[list[tuple[Node, Group]]]:
    """Start processes and open a group at each; without founders, one after the other."""
    async with AsyncExitStack() as stack:
        started: list[Node] = []
        for pid in pids:
            contacts = [node.address for node in started[:1]]
            node = join(pid, contacts=contacts, data=tmp_path / str(pid))
            started.append(await stack.enter_async_context(node))
        opening = [node.open("alps", "total", founders=founders, settings=QUICK) for node in started]
        groups = await asyncio.gather(*opening) if founders else [await each for each in opening]
        for group in groups:
            await group.gathered(len(pids))
        yield list(zip(started, groups, strict=True))


def roles_of(group: Group) -> Roles:
    member = group._driver.member
    assert isinstance(member, TotalMember)
    return member.roles


def serves(group: Group) -> bool:
    merger = roles_of(group).merger
    return merger is not None and merger.server is not None


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("pids", [[5, 6, 7], [32_000, 1000, 4]])
def test_members_of_any_numbers_deliver_one_sequence(pids: list[int], named: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with members(tmp_path, pids, pids if named else []) as opened:
            groups = [group for _, group in opened]
            for group in groups:
                await group.ready_to_publish()
            readers = [asyncio.create_task(take(group, 3)) for group in groups]
            for group in groups:
                await group.publish(b"of %d" % group.pid, until="accepted")
                await asyncio.sleep(0.02)
            lines = [[delivery.payload for delivery in await reader] for reader in readers]
            assert lines[0] == lines[1] == lines[2]
            assert sorted(lines[0]) == sorted(b"of %d" % pid for pid in pids)

    within(main())


def test_a_group_goes_on_when_its_founder_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with members(tmp_path, [5, 6, 7, 8], []) as opened:
            groups = [group for _, group in opened]
            roles = roles_of(groups[3])
            while len(roles.exchange.table.mergers) < 2 or not serves(groups[1]):
                await asyncio.sleep(0.02)
            await opened[0][0].close()
            while 5 in roles.exchange.table.mergers:
                await asyncio.sleep(0.02)
            readers = [asyncio.create_task(take(group, 1)) for group in groups[1:]]
            await groups[3].ready_to_publish()
            await groups[3].publish(b"x")
            assert [[delivery.payload for delivery in await reader] for reader in readers] == [[b"x"]] * 3

    within(main())


def test_a_publisher_hears_that_no_merger_has_its_events(tmp_path: Path) -> None:
    """At its next call and at once in `on_lost`; what is published after that goes its way."""

    async def main() -> None:
        async with members(tmp_path, [5, 6, 7], [5, 6, 7]) as opened:
            groups = [group for _, group in opened]
            here = groups[2]
            await here.ready_to_publish()
            assert not serves(here)
            ports, send = here._driver.ports, here._driver.ports.send
            ports.send = lambda to, item, incarnation: (
                0 if isinstance(item, Offer | Batch) else send(to, item, incarnation)
            )  # fmt: skip
            heard: list[EventsLostError] = []
            here.publisher.lost.on_lost = heard.append
            await here.publish(b"x")
            while not heard:
                await asyncio.sleep(0.02)
            assert heard[0].payloads == [b"x"]
            with pytest.raises(EventsLostError, match=r"no merger said within delta that it has event 1"):
                await here.publish(b"y")
            ports.send = send
            reader = asyncio.create_task(take(groups[0], 1))
            while not reader.done():  # on a busy machine this one may be too late as well, and is told to be lost
                with contextlib.suppress(EventsLostError):
                    await here.publish(b"z")
                await asyncio.wait([reader], timeout=0.5)
            assert [delivery.payload for delivery in await reader] == [b"z"]

    within(main())


def test_a_group_goes_on_when_both_its_mergers_leave_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with members(tmp_path, [5, 6, 7, 8], [5, 6, 7, 8]) as opened:
            groups = [group for _, group in opened]
            roles = roles_of(groups[3])
            while not roles.exchange.table.deputies:
                await asyncio.sleep(0.02)
            await asyncio.gather(opened[0][0].close(), opened[1][0].close())
            while set(roles.exchange.table.mergers) & {5, 6} or not any(map(serves, groups[2:])):
                await asyncio.sleep(0.02)
            readers = [asyncio.create_task(take(group, 1)) for group in groups[2:]]
            await groups[3].ready_to_publish()
            await groups[3].publish(b"x")
            assert [[delivery.payload for delivery in await reader] for reader in readers] == [[b"x"]] * 2

    within(main())


def test_a_running_merger_proposes_the_delta_that_it_saw_to_be_needed(tmp_path: Path) -> None:
    async def main() -> None:
        async with members(tmp_path, [5, 6, 7], [5, 6, 7]) as opened:
            node, here = opened[0][0], opened[2][1]
            await here.ready_to_publish()
            await here.publish(b"x")
            while "delta_proposed_ticks" not in (metrics := status(node.live)["groups"][0]["metrics"]):
                await asyncio.sleep(0.02)
            assert metrics["delta_ticks"] == 200
            assert "δ is 200 ticks; proposed" in delta_sentence(metrics)
            assert "at most 1 in 10,000 late of 1 seen" in delta_sentence(metrics)
            out = io.StringIO()
            Console(file=out, width=250).print(status_page(status(node.live), {}, 1.0))
            assert "merges; δ is 200 ticks; proposed" in out.getvalue()

    within(main())
