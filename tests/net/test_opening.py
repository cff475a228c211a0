"""How groups begin: once, however many start together and whoever does not answer; parts that meet become one."""

import asyncio
import logging
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import QUICK, fast, nodes, open_all, take, within
from tests.net.test_connections import until
from whence.api.group import Group
from whence.api.node import Node, join
from whence.errors import JoinError, JoinTimeoutError, UsageError
from whence.limits import VIEW_MAX
from whence.net.settings import NetSettings

ALONE: dict[str, Any] = {"call_ns": 300_000_000, "greeting_ns": 300_000_000, "retry_ns": 10_000_000, "alone": True}

PATIENT = NetSettings(
    call_ns=60_000_000_000, greeting_ns=60_000_000_000, heartbeat_ns=5_000_000_000, margin_ns=30_000_000_000,
)  # fmt: skip
"""For many nodes in one loop: nothing rests on the speed of the machine."""


async def gathered(groups: list[Group]) -> None:
    for group in groups:
        await group.gathered(len(groups), timeout_s=60)


async def deliver_to_each_other(groups: list[Group]) -> None:
    """Check that what anybody publishes now comes to everybody."""
    for group in groups:
        await group.publish(b"from %d" % group.pid)
    wanted = {b"from %d" % group.pid for group in groups}
    for group in groups:
        had: set[bytes] = set()
        async for delivery in group:
            had.add(delivery.payload)
            if had >= wanted:
                break


def deaf() -> socket.socket:
    """Return a port that takes connections and never says a word, as a stopped process does."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    return listening


@pytest.mark.parametrize("level", ["eventual", "fifo"])
def test_no_group_begins_while_a_contact_takes_calls_and_does_not_answer(
    level: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        with deaf() as stopped:
            contact = f"127.0.0.1:{stopped.getsockname()[1]}"
            async with join(1, contacts=[contact], settings=NetSettings(**ALONE)) as one:
                with pytest.raises(JoinError, match=rf"it waits for contact {contact}"):
                    await one.open("alps", level, settings=QUICK, timeout_s=1.0)

    with caplog.at_level(logging.INFO, "whence.net"):
        within(main())
    assert "group 'alps' waits for contact 127.0.0.1" in caplog.text


def test_a_node_whose_contact_comes_later_than_itself_joins_it_instead_of_beginning_a_group_of_its_own() -> None:
    async def main() -> None:
        with deaf() as free:
            where = f"127.0.0.1:{free.getsockname()[1]}"
        async with join(1, contacts=[where], settings=NetSettings(**ALONE)) as one:
            opening = asyncio.create_task(one.open("alps", settings=QUICK))
            await asyncio.sleep(0.6)
            assert not opening.done()
            async with join(2, listen=where) as two:
                groups = [await two.open("alps", settings=QUICK), await opening]
                await gathered(groups)
                await deliver_to_each_other(groups)

    within(main())


def test_a_contact_that_was_connected_and_fell_silent_is_waited_for() -> None:
    """It was stopped for a while: its connection is cut, and it is a member all the same."""

    async def main() -> None:
        quick = {"heartbeat_ns": 20_000_000, "margin_ns": 60_000_000}
        settings = fast(**quick, call_ns=200_000_000, greeting_ns=200_000_000)
        async with join(1, settings=settings) as one, join(2, contacts=[one.address], settings=settings) as two:
            member = await one.open("alps", settings=QUICK)
            listener = one.live.connections._listener
            assert listener is not None
            listener.close()  # nobody is let in meanwhile
            one.live.connections.pause_reading(pause=True)
            one.live.connections._heartbeat.stop()
            await until(lambda: not two.live.peers.is_connected(1))
            opening = asyncio.create_task(two.open("alps", settings=QUICK))
            await asyncio.sleep(0.6)
            assert not opening.done(), "it would have begun a group of its own"
            host, _, port = one.address.rpartition(":")
            one.live.connections.pause_reading(pause=False)
            await one.live.connections.start(host, int(port))
            groups = [member, await opening]
            await gathered(groups)
            await deliver_to_each_other(groups)

    within(main())


@pytest.mark.parametrize("level", ["eventual", "fifo"])
@pytest.mark.parametrize("spread", ["direct", "gossip"])
def test_parts_of_a_group_that_began_apart_become_one_where_they_meet(level: str, spread: str) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"settings": {**QUICK, "spread": spread}}
        async with nodes(2, first=1) as some, nodes(2, first=3) as others:
            parts = [await open_all(part, level=level, **options) for part in (some, others)]
            for part in parts:
                await part[0].publish(b"before")
                assert [delivery.payload for delivery in await take(part[1], 1)] == [b"before"]
            host, _, port = others[0].address.rpartition(":")
            await some[0].live.connections.call(host, int(port))
            groups = parts[0] + parts[1]
            await gathered(groups)
            await deliver_to_each_other(groups)

    within(main())


def test_a_node_that_is_given_its_own_address_as_a_contact_begins_all_the_same() -> None:
    async def main() -> None:
        with deaf() as free:
            where = f"127.0.0.1:{free.getsockname()[1]}"
        async with join(1, listen=where, contacts=[where]) as one, join(2, contacts=[where]) as two:
            groups = [await one.open("alps", settings=QUICK), await two.open("alps", settings=QUICK)]
            await gathered(groups)

    within(main())


def test_nodes_that_open_a_group_at_the_same_moment_begin_it_once() -> None:
    async def main() -> None:
        for _ in range(5):
            async with nodes(6) as started:
                groups = await asyncio.gather(*[node.open("alps", settings=QUICK) for node in started])
                begun = [group for group in groups if not group._driver.counts["drop:duplicate"] and _began(group)]
                assert len(begun) == 1
                await gathered(groups)

    within(main())


def _began(group: Group) -> bool:
    """Tell whether the member founded: who was let in asked for it."""
    member: Any = group._driver.member
    return bool(member._members._search._asked == 0)


def test_more_than_64_members_gather_and_deliver_and_no_exception_is_left_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Half of them together, half one after another; in one loop, patiently: connections grow with the square."""
    count = 66

    async def start(pid: int, contact: str, stack: AsyncExitStack) -> Group:
        await asyncio.sleep(max(0, pid - count // 2) / 20)
        node = await stack.enter_async_context(join(pid, contacts=[contact], settings=PATIENT))
        return await node.open("alps", timeout_s=None)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(join(0, settings=PATIENT))
            opening = [start(pid, first.address, stack) for pid in range(1, count)]
            groups = [await first.open("alps"), *await asyncio.gather(*opening)]
            for group in groups:
                await group.gathered(count, timeout_s=None)
                assert len(group.members()) == count - 1
            await groups[-1].publish(b"to all")
            assert [(await take(group, 1))[0].payload for group in groups] == [b"to all"] * count

    within(main(), deadline_s=240)
    assert "never retrieved" not in caplog.text


def test_who_would_be_one_too_many_for_direct_spread_is_refused_with_words() -> None:
    async def main() -> None:
        async with nodes(4) as started:
            small = {**QUICK, "view_size": 2, "fanout": 1}
            groups = await open_all(started[:3], settings=small)
            with pytest.raises(UsageError, match=r"has 3 members, .*=2 .* no more than 2 others.*spread=gossip"):
                await started[3].open("alps", settings=small)
            with pytest.raises(UsageError, match="view_size=2 a member knows no more than 2 others, and 3 were asked"):
                await groups[0].gathered(4)
            other = await started[3].open("andes")
            with pytest.raises(UsageError, match=f"no more than {VIEW_MAX} others"):
                await other.gathered(VIEW_MAX + 2)

    within(main())


@pytest.mark.parametrize("level", ["eventual", "fifo"])
@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        ({}, {"spread": "gossip"}, "spread=direct at process 1, and with spread=gossip here"),
        ({"spread": "gossip"}, {}, "spread=gossip at process 1, and with spread=direct here"),
        (
            {"spread": "gossip", "fanout": 3}, {"spread": "gossip", "fanout": 5},
            "fanout=3 at process 1, and with fanout=5 here",
        ),
        (
            {"spread": "gossip", "rounds": 5}, {"spread": "gossip", "rounds": 6},
            "rounds=5 at process 1, and with rounds=6 here",
        ),
    ],
)  # fmt: skip
def test_settings_that_must_agree_are_refused_at_the_door_with_both_values(
    level: str, here: dict[str, Any], there: dict[str, Any], said: str
) -> None:
    async def main() -> None:
        async with nodes(2) as started:
            await started[0].open("alps", level, settings=here | QUICK)
            with pytest.raises(UsageError, match=said):
                await started[1].open("alps", level, settings=there | QUICK)

    within(main())


def test_parts_that_run_a_group_otherwise_do_not_mix_when_they_meet(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with join(1) as one, join(2) as two:
            here = await one.open("alps", settings=QUICK)
            there = await two.open("alps", settings={**QUICK, "spread": "gossip"})
            host, _, port = two.address.rpartition(":")
            await one.live.connections.call(host, int(port))
            await until(lambda: caplog.text.count("nothing is sent to it") >= 2)
            assert here.members() == there.members() == ()

    within(main())
    assert "spread=gossip at process 2, and with spread=direct here" in caplog.text


def test_groups_that_others_have_are_not_remembered_and_yet_found_when_they_are_opened() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            one, two = started
            for number in range(8):
                await (await one.open(f"group {number}", settings=QUICK)).close()
            assert not two.live.peers.by_pid[1].presence
            mine = await one.open("alps", settings=QUICK)
            groups = [mine, await two.open("alps", settings=QUICK)]
            await gathered(groups)
            await deliver_to_each_other(groups)

    within(main())


def test_a_group_that_is_closed_and_opened_again_is_joined_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(2) as started:
            groups = await open_all(started)
            await groups[1].close()
            await until(lambda: groups[0].members() == ())
            again = await started[1].open("alps", settings=QUICK)
            await gathered([groups[0], again])
            await deliver_to_each_other([groups[0], again])

    within(main())


def test_addresses_of_other_nodes_spread_though_each_knows_only_the_one_before_it() -> None:
    async def main() -> None:
        async with nodes(8) as started:

            def all_know(node: Node) -> bool:
                return len(node.live.peers.book.all()) == 8

            await until(lambda: all(map(all_know, started)))

    within(main())


def test_opening_ends_in_time_also_if_something_is_heard_in_that_very_moment() -> None:
    async def main() -> None:
        async with join(1, status=False) as node:
            loop = asyncio.get_running_loop()
            opening = asyncio.create_task(node.open("alps", "causal", create=False, timeout_s=0.5))
            for _ in range(8):  # announcements come right when time is up, in the same turn of the loop
                loop.call_later(0.5, node.live._presence.changed)
            with pytest.raises(JoinTimeoutError):
                await opening

    within(main(), 10)
