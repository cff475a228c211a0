"""The door: open, publish, iterate, close, on real sockets."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.net.live import DEADLINE_S, QUICK, nodes, open_all, take, within
from whence import join
from whence.api.group import Batch, Group
from whence.api.node import endpoint
from whence.api.publisher import FLUSH_BYTES
from whence.core.dissemination.direct import Push
from whence.core.registry import stores_events
from whence.errors import (
    BackPressureError,
    ClosedError,
    JoinError,
    LimitError,
    SettingError,
    SlowConsumerError,
    UsageError,
    WhenceError,
)
from whence.limits import BUNDLE_BYTES_MAX, BUNDLE_EVENTS_MAX, MERGED_PEER_ID_MAX
from whence.types import ANY_INCARNATION, Process, packed
from whence.wire.items import Packet


@pytest.mark.parametrize("level", ["eventual", "fifo"])
def test_every_member_delivers_every_event_in_its_publishers_order(level: str) -> None:
    async def main() -> None:
        async with nodes(3) as started:
            groups = await open_all(started, level=level)
            for number in range(50):
                for group in groups:
                    await group.publish(b"%d" % number)
            for group in groups:
                taken = await take(group, 150)
                assert [delivery.position for delivery in taken] == list(range(150))
                assert {delivery.level for delivery in taken} == {level}
                for pid in (1, 2, 3):
                    mine = [delivery for delivery in taken if delivery.sender == pid]
                    assert [int(delivery.payload) for delivery in mine] == list(range(50))
                    assert [delivery.event.seq for delivery in mine] == list(range(1, 51))

    within(main())


def test_publishes_of_one_turn_travel_as_one_bundle() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started)
            for number in range(10):
                await here.publish(b"%d" % number)
            batches = there.batches()
            batch = await anext(batches)
            assert len(batch) == 10
            assert batch.payloads() == [b"%d" % number for number in range(10)]
            assert batch.sender == 1

    within(main())


def test_what_is_published_together_goes_out_at_once_but_never_before_what_was_published_first() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started)
            here._driver.flow.pacer.alone_at = -math.inf  # long ago
            together = await here.publish_many([b"0", b"1"])
            assert together.full, "it has gone out before the turn ended"
            single = await here.publish(b"2")
            after = await here.publish_many([b"3", b"4"])
            assert (single.full, after.full, after.place) == (False, False, 1)
            batches = there.batches()
            assert [(await anext(batches)).payloads() for _ in range(2)] == [[b"0", b"1"], [b"2", b"3", b"4"]]

    within(main())


def test_bundles_that_follow_soon_on_one_that_went_out_at_once_travel_as_one() -> None:
    """However they are published: they are gathered until the end of the turn."""

    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started)
            here._driver.flow.pacer.alone_at = math.inf  # just now, however slow the machine is
            await asyncio.gather(*[here.publish_many([b"%d" % number]) for number in range(100)])
            assert len(await anext(there.batches())) == 100

    within(main())


def test_a_deadline_for_flushing_gathers_several_turns_and_size_ends_it_early() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started, flush_s=2.0)
            for number in range(5):
                await here.publish(b"%d" % number)
                await asyncio.sleep(0)
            batches = there.batches()
            assert len(await anext(batches)) == 5
            await here.publish(b"x" * (BUNDLE_BYTES_MAX // 2))
            assert len(await anext(batches)) == 1

    within(main())


def test_who_asks_to_be_called_gets_every_batch_in_its_turn_and_cannot_iterate_as_well() -> None:
    async def main() -> None:
        came: list[Batch] = []
        async with nodes(2) as started:
            here, there = await open_all(started, on_batch=came.append)
            for number in range(3):
                await here.publish_many([b"%d" % number, b"and"], until="settled")
            mine = [batch for batch in came if batch.position % 2 == 0]
            assert len(came) == 6
            assert sorted(batch.position for batch in mine) == [0, 0, 2, 2, 4, 4]
            assert [batch.payloads()[0] for batch in came[::2]] == [b"0", b"1", b"2"]
            with pytest.raises(UsageError, match="on_batch"):
                there.batches()
            with pytest.raises(UsageError, match="on_batch"):
                await started[0].open("deaf", receive=False, on_batch=came.append)

    within(main())


def test_what_an_application_raises_when_it_is_called_is_told_and_ends_nothing() -> None:
    async def main() -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        came: list[bytes] = []

        def fail(batch: Batch) -> None:
            came.extend(batch.payloads())
            raise ValueError("the application's own")

        async with nodes(2) as started:
            _, there = await open_all(started, on_batch=fail)
            for payload in (b"a", b"b"):
                await there.publish(payload, until="settled")
            assert came == [b"a", b"a", b"b", b"b"]
            assert [str(context["exception"]) for context in told] == ["the application's own"] * 4

    within(main())


def test_what_an_application_publishes_while_it_is_called_comes_after_all_that_was_ready_before() -> None:
    async def main() -> None:
        came: list[bytes] = []
        async with nodes(1) as started:

            def reply(batch: Batch) -> None:
                came.extend(payload[:8] for payload in batch.payloads())
                if batch.sender == stranger.pid and len(came) == 1:
                    group.publish_nowait(b"my reply" + bytes(FLUSH_BYTES))  # too much to wait for the turn to end

            stranger = Process(9, 1)
            (group,) = await open_all(started, on_batch=reply)
            pushed = Push([packed(stranger, 1, [b"question"]), packed(stranger, 2, [b"addition"])])
            packet = Packet(group.name, *stranger, ANY_INCARNATION, [pushed])
            group._driver.packet(packet, stranger, 100)
            assert came == [b"question", b"addition", b"my reply"]

    within(main())


def test_a_receipt_names_the_event_and_what_is_certain_of_it() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, _ = await open_all(started)
            receipt = await here.publish_many([b"a", b"b"])
            first = await receipt.accepted()
            assert (first.pid, first.seq) == (1, 1)
            assert receipt.event == first
            second = await here.publish(b"c", until="settled")
            assert second.event.seq == 3
            with pytest.raises(UsageError, match="durable"):
                await here.publish(b"d", until="stored")
            with pytest.raises(UsageError, match="until is"):
                await here.publish(b"e", until="forever")

    within(main())


def test_what_cannot_be_published_is_refused_with_its_limit() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            group = await node.open("alps")
            with pytest.raises(LimitError, match="BUNDLE_BYTES_MAX"):
                await group.publish(bytes(BUNDLE_BYTES_MAX + 1))
            with pytest.raises(LimitError, match="BUNDLE_EVENTS_MAX"):
                await group.publish_many([b""] * (BUNDLE_EVENTS_MAX + 1))
            with pytest.raises(LimitError, match="least"):
                await group.publish_many([])

    within(main())


def test_several_groups_and_levels_share_one_connection() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            alps = await open_all(started, "alps", "fifo")
            andes = await open_all(started, "andes", "eventual")
            await alps[0].publish(b"alp")
            await andes[0].publish(b"ande")
            assert [d.payload for d in await take(alps[1], 1)] == [b"alp"]
            assert [d.payload for d in await take(andes[1], 1)] == [b"ande"]
            assert sum(peer.link is not None for peer in started[0].live.peers.by_pid.values()) == 1

    within(main())


@pytest.mark.parametrize("data", [False, True])
def test_who_opens_a_group_again_is_another_process_in_it(data: bool, tmp_path: Path) -> None:
    """Its numbers begin again, and its promises are forgotten: under the old name its events would pass for copies."""

    async def main() -> None:
        here: dict[str, Any] = {"data": tmp_path} if data else {}
        async with join(1) as a, join(2, contacts=[a.address], **here) as b:
            alps, back = await open_all([a, b])
            names = []
            for _ in range(3):
                await back.publish(b"x")
                names.append((await take(alps, 1))[0].event)
                await back.close()
                (back,) = await open_all([b])
            assert [name.seq for name in names] == [1, 1, 1]
            assert len({name.incarnation for name in names}) == 3
            incarnation = b.live.me.incarnation
        async with join(2, **here) as b:
            assert b.live.me.incarnation > max([incarnation, *(name.incarnation for name in names)]) or not data

    within(main())


def test_a_newcomer_that_knows_one_member_reaches_all() -> None:
    async def main() -> None:
        async with nodes(3) as started:
            groups = await open_all(started)
            async with join(9, contacts=[started[2].address]) as late:
                newcomer = await late.open("alps", settings=QUICK)
                for group in (*groups, newcomer):
                    await group.gathered(4, DEADLINE_S)
                await groups[0].publish(b"welcome")
                await newcomer.publish(b"thanks")
                assert b"welcome" in [d.payload for d in await take(newcomer, 2)]
                assert [d.payload for d in await take(groups[1], 2)]

    within(main())


def test_iterators_end_when_the_group_is_closed_and_publishing_is_refused() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started)
            await there.publish(b"last")
            assert [d.payload for d in await take(here, 1)] == [b"last"]
            reader = asyncio.create_task(take(here, 100))
            late = asyncio.create_task(anext(here._inbox.late_events, None))
            await asyncio.sleep(0)  # both wait
            await here.close()
            assert await reader == []
            assert await late is None
            with pytest.raises(ClosedError):
                await here.publish(b"too late")
            assert started[0].groups == {}
        with pytest.raises(ClosedError):
            await started[0].open("alps")

    within(main())


def test_a_cancelled_reader_loses_nothing_and_another_goes_on() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started)
            reader = asyncio.create_task(take(here, 1))
            await asyncio.sleep(0)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            await there.publish(b"kept")
            assert [d.payload for d in await take(here, 1)] == [b"kept"]

    within(main())


def test_a_publisher_waits_for_a_slow_consumer_and_at_last_gives_up() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            group = await node.open("alps", inbox_events_max=10, publish_wait_s=0.05)
            for number in range(10):
                await group.publish(b"%d" % number)
                await asyncio.sleep(0)
            with pytest.raises(BackPressureError, match="inbox_events_max is 10"):
                await group.publish(b"10")
            with pytest.raises(BackPressureError):
                group.publish_nowait(b"x")
            taken = await take(group, 10)
            assert [int(d.payload) for d in taken] == list(range(10)), "nothing that was accepted is lost"
            await group.publish(b"again")

    within(main())


def test_a_publisher_that_waits_goes_on_when_the_consumer_does() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            group = await node.open("alps", inbox_events_max=10)

            async def publish() -> None:
                for number in range(200):
                    await group.publish(b"%d" % number)

            publisher = asyncio.create_task(publish())
            assert [int(d.payload) for d in await take(group, 200)] == list(range(200))
            await publisher

    within(main())


async def overflowing(overflow: str) -> Group:
    async with nodes(1) as (node,):
        group = await node.open("alps", inbox_events_max=5, overflow=overflow)
        for number in range(200):
            receipt = await group.publish(b"%d" % number)
            await receipt.accepted()  # each in a bundle of its own, however slow the machine is
        return group


def test_an_inbox_set_to_drop_keeps_the_newest_and_tells_of_the_gap() -> None:
    async def main() -> None:
        group = await overflowing("drop")
        taken = await take(group, 5)
        assert [int(d.payload) for d in taken] == [195, 196, 197, 198, 199]
        assert [(span.first, span.last) for span in taken[0].gaps] == [(1, 195)], "all of it, as one"
        assert taken[1].gaps == ()
        assert group.skipped == 195

    within(main())


def test_an_inbox_set_to_close_raises_at_its_limit() -> None:
    async def main() -> None:
        group = await overflowing("close")
        with pytest.raises(SlowConsumerError, match="inbox_events_max is 5"):
            await take(group, 20)

    within(main())


def test_a_group_that_only_publishes_keeps_nothing() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            group = await node.open("alps", receive=False, inbox_events_max=5)
            for number in range(100):
                await group.publish(b"%d" % number)
            await asyncio.sleep(0)
            assert group.position == 100

    within(main())


class Move(Struct):
    """What a typed group carries in this test."""

    who: str
    to: int


def test_typed_groups_carry_values_and_name_what_is_none() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started)
            for wrong in (5, "Move"):
                with pytest.raises(UsageError, match="takes a type that msgspec can decode"):
                    here.typed(wrong)  # type: ignore[arg-type]
            await here.typed(Move).publish(Move("ada", 3))
            reader = aiter(there.typed(Move))
            value, delivery = await anext(reader)
            assert value == Move("ada", 3)
            assert delivery.sender == 1
            await here.publish(b"\xc1")
            with pytest.raises(UsageError, match="no value of this type"):
                await anext(reader)

    within(main())


def test_what_cannot_be_opened_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(2) as started, join(3, data=tmp_path) as stored:
            await open_all(started[:1])
            with pytest.raises(UsageError, match="runs at level fifo at process 1, not eventual"):
                await started[1].open("alps", "eventual")
            with pytest.raises(UsageError, match="open already"):
                await started[0].open("alps")
            with pytest.raises(UsageError, match="is unknown; there are"):
                await started[0].open("andes", "psychic")
            assert not stores_events("psychic")
            with pytest.raises(SettingError, match="no setting"):
                await started[0].open("andes", settings={"speed": 9})
            with pytest.raises(UsageError, match="data directory"):
                await started[0].open("andes", durable=True)
            for level, order in (("optimistic", None), ("total", "timed")):
                with pytest.raises(UsageError, match=f"level {level} stores no events.*or at level causal"):
                    await stored.open("andes", level, founders=[0, 1, 2], order=order, durable=True)
            with pytest.raises(SettingError, match=r"three at least .* \(founders=\[0, 1, 2\], --founders 0,1,2\)"):
                await started[0].open("andes", "optimistic", write=True)
            for founders in ([0, 0], [-1], [1 << 15], "12", 3, [0, "1"]):
                with pytest.raises(UsageError, match="founders are different names, or pids from 0 to 32767"):
                    await started[0].open("andes", founders=founders)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="characters"):
                await started[0].open("")
            with pytest.raises(UsageError, match="overflow"):
                await started[0].open("andes", overflow="explode")

    within(main())


def test_arguments_of_the_wrong_kind_get_a_sentence() -> None:
    """At the door, before anything has happened: not a TypeError from within, and not a wait that never ends."""

    async def main() -> None:
        async with nodes(1) as (node,):
            wrong: dict[str, Any] = {
                "timeout_s": "x", "flush_s": -1, "publish_wait_s": math.inf, "inbox_events_max": 1.5, "on_batch": 3,
                "on_lost": "x", "settings": "view_size", "write": "x", "receive": 1, "durable": "yes",
            }  # fmt: skip
            for name, value in wrong.items():
                with pytest.raises(UsageError, match=f"^{name} "):
                    await node.open("andes", **{name: value})
            group = await node.open("alps", settings=QUICK)
            for wait in (math.nan, math.inf, -1, "1", 10**400, 10**5000):
                with pytest.raises(UsageError, match="timeout is a number of seconds"):
                    await group.next(wait)  # type: ignore[arg-type]
            for count in ("x", 0, 2.5):
                with pytest.raises(UsageError, match="count is a whole number from 1"):
                    await group.gathered(count)  # type: ignore[arg-type]
            for process in (("1", 1), (1.0, 1), (MERGED_PEER_ID_MAX + 1, 1), (1, None)):
                with pytest.raises(UsageError, match=r"^level fifo has no tickets$"):
                    group.declare_dead(*process)
            for ask in (group.acquire_ticket, group.release_ticket):
                with pytest.raises(UsageError, match=r"^level fifo has no tickets$"):
                    await ask()
            with pytest.raises(UsageError, match=r"^level fifo has no tickets$"):
                group.declare_dead(1, 1)
            with pytest.raises(UsageError, match="timeout_s is a number of seconds"):
                await group.publish(b"x", timeout_s=-1)
            await group.close()
            assert group.members() == ()
            with pytest.raises(ClosedError, match="knows nobody"):
                await group.gathered(1)
            with pytest.raises(ClosedError, match="noted no ticket_acquire"):
                await group.noted("ticket_acquire")

    within(main())
    for contacts in ("127.0.0.1:4000", [5], 7, b"127.0.0.1:4000"):
        with pytest.raises(UsageError, match="contacts are a list of texts"):
            join(0, contacts=contacts)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="an address is host:port"):
        join(0, listen=4000)  # type: ignore[arg-type]
    badly: list[tuple[dict[str, Any], str]] = [
        ({"data": 5}, "data is a directory"), ({"data": ""}, "data is a directory"),
        ({"data": "a\0b"}, "data is a directory"),
        ({"status": 5}, "status is the path of a socket, True or False"),
        ({"status": "nowhere/at/all"}, "a directory that exists, and nowhere/at does not"),
        ({"insecure": "no"}, "insecure is True or False"),
        ({"trace": 5}, "trace is a directory"), ({"settings": {}}, "settings are whence.NetSettings"),
        ({"permits": {"g": "rw"}}, "permits are a table"), ({"permits": {"g": {"-five": "r"}}}, "permits are a table"),
    ]  # fmt: skip
    for wrong_too, said in badly:
        with pytest.raises(WhenceError, match=said):
            join(0, **wrong_too)


def test_a_group_is_closed_once_and_again_without_harm() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            group = await node.open("alps", settings=QUICK)
            await group.close()
            await group.close()
            again = await node.open("alps", settings=QUICK)
            await group.close()  # which is another one
            await again.publish(b"x")

    within(main())


@pytest.mark.parametrize("level", ["fifo", "optimistic", "causal", "tree"])
def test_named_founders_found_one_group_together_in_whatever_order_they_are_named(level: str) -> None:
    async def main() -> None:
        async with nodes(3) as started:
            settings = QUICK if level == "fifo" else {"spread": "tree"} if level == "tree" else {}
            real = "causal" if level == "tree" else level
            orders = ([1, 2, 3], [3, 1, 2], [2, 3, 1])
            opening = [node.open("alps", real, founders=order, settings=settings)
                       for node, order in zip(started, orders, strict=True)]  # fmt: skip
            groups = await asyncio.gather(*opening)
            for group in groups:
                await group.gathered(3, DEADLINE_S)
            await groups[2].ready_to_publish()
            await groups[2].publish(b"x")
            assert [d.payload for d in await take(groups[0], 1)] == [b"x"]

    within(main())


def test_nobody_waits_for_founders_that_never_come() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            with pytest.raises(JoinError, match=r"within 0.1 s; it waits for its founders 2, 3"):
                await node.open("alps", founders=[1, 2, 3], timeout_s=0.1)
            assert node.live.drivers == {}

    within(main())


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:70000"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        endpoint(text)


def test_addresses_are_split_at_the_last_colon() -> None:
    assert endpoint("127.0.0.1:4000") == ("127.0.0.1", 4000)
    assert endpoint("[::1]:4000") == ("::1", 4000)
    assert endpoint(":4000") == ("0.0.0.0", 4000)


def test_a_node_must_be_entered_before_it_is_used() -> None:
    node = join(1)
    with pytest.raises(ClosedError):
        _ = node.pid
