"""What a publish that returned has accepted is delivered, or its publisher hears that it is not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, QUICK, fill_disk, nodes, open_all, take, within
from whence import blocking
from whence.api.group import Group
from whence.api.node import Node, join
from whence.errors import (
    BackPressureError,
    ClosedError,
    EventsLostError,
    InternalError,
    LimitError,
    NotCoordinatorError,
    OutcomeUnknownError,
    PayloadError,
    StorageError,
    UsageError,
)

CRAMPED = {"retained_bytes_max": 4 << 10, "retry_ns": 50_000_000}
"""A causal member that keeps 1 KiB for others, and then takes nothing more."""


@asynccontextmanager
async def half_a_pair(**options: Any) -> AsyncIterator[tuple[Group, Node]]:
    """Begin a causal group of two, whose other half is away and takes nothing; it keeps 1 KiB for others."""
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(TemporaryDirectory()))
        started = await stack.enter_async_context(nodes(2, first=0, data=data))
        opened = [node.open("alps", "causal", founders=[0, 1], settings=CRAMPED, **options) for node in started]
        here, _ = await asyncio.gather(*opened)
        await started[1].close()
        yield here, started[1]


async def fill(group: Group) -> list[bytes]:
    """Publish until a publish has to wait too long; return what was accepted."""
    accepted: list[bytes] = []
    for number in range(1000):
        payload = b"%03d" % number + bytes(97)
        try:
            await group.publish(payload)
        except BackPressureError:
            return accepted
        accepted.append(payload)
    raise AssertionError("nobody ever had to wait")


# --- nothing that was accepted is discarded ---


def test_what_waits_at_a_limit_is_neither_discarded_nor_overtaken() -> None:
    async def main() -> None:
        async with nodes(2, first=0) as started:
            opened = [
                node.open("alps", "causal", founders=[0, 1], settings=CRAMPED, publish_wait_s=0.1) for node in started
            ]
            here, there = await asyncio.gather(*opened)
            there._driver.packet = lambda *_: None  # type: ignore[method-assign]
            receiving = type(there._driver).packet
            accepted = await fill(here)
            await asyncio.sleep(0.5)  # several times as long as a publish waits
            with pytest.raises(BackPressureError, match=r"retained_bytes_max // 4 is 1024.*process 1"):
                await here.publish(b"too much")
            there._driver.packet = receiving.__get__(there._driver)  # type: ignore[method-assign]
            reader = asyncio.create_task(take(here, len(accepted) + 1))
            came = asyncio.create_task(take(there, len(accepted) + 1))
            while True:
                try:
                    await here.publish(b"after")
                    break
                except BackPressureError:
                    await asyncio.sleep(0.05)
            assert [delivery.payload for delivery in await came] == [*accepted, b"after"]
            await reader
            assert here.lost == 0

    within(main())


def test_a_group_closed_while_something_waits_says_what_is_lost() -> None:
    async def main() -> None:
        heard: list[EventsLostError] = []
        async with half_a_pair(publish_wait_s=0.1, on_lost=heard.append) as (here, _):
            await fill(here)
            with pytest.raises(EventsLostError, match="retained_bytes_max // 4") as told:
                await here.close()
            assert ": the group was closed after 0.1 s, before the member could take them: " in str(told.value)
            assert "nothing was published" not in str(told.value), "they were accepted"
            assert told.value.count == len(told.value.payloads) == here.lost > 0
            assert heard == [told.value]
            with pytest.raises(ClosedError):
                await here.publish(b"x")

    within(main())


def test_a_node_closed_while_something_waits_says_what_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(2, first=0, data=tmp_path) as (node, away):
            options: dict[str, Any] = {"founders": [0, 1], "settings": CRAMPED, "publish_wait_s": 0.1}
            here, _ = await asyncio.gather(*[it.open("alps", "causal", **options) for it in (node, away)])
            await away.close()
            await fill(here)
            with pytest.raises(EventsLostError, match="process 1"):
                await node.close()

    within(main())


def test_who_publishes_next_is_told_what_was_lost_and_then_goes_on() -> None:
    async def main() -> None:
        heard: list[EventsLostError] = []
        async with nodes(1) as (node,):
            group = await node.open("alps", on_lost=heard.append)
            refusal = NotCoordinatorError("the lease has ended", None)

            def refuse(*_: object, **__: object) -> None:
                raise refusal

            publish = group._driver.runner.publish
            group._driver.runner.publish = refuse  # type: ignore[assignment, method-assign]
            receipts = [await group.publish(b"1"), await group.publish(b"2")]
            with pytest.raises(NotCoordinatorError):
                await receipts[1].accepted()
            with pytest.raises(NotCoordinatorError):
                receipts[1].missing()
            group._driver.runner.publish = publish  # type: ignore[method-assign]
            with pytest.raises(EventsLostError, match="2 events that were published are lost") as told:
                await group.publish(b"3")
            assert told.value.payloads == [b"1", b"2"]
            assert told.value.why is refusal
            assert heard == [told.value]
            assert group._driver.counts["reject:NotCoordinatorError"] == 1
            await group.publish_many(told.value.payloads)
            await group.publish(b"3")
            assert [delivery.payload for delivery in await take(group, 3)] == [b"1", b"2", b"3"]

    within(main())


def test_events_of_one_turn_never_make_a_bundle_that_the_member_must_refuse() -> None:
    async def main() -> None:
        settings = {**QUICK, "publish_events_max": 3, "publish_bytes_max": 10}
        async with nodes(1) as (node,):
            group = await node.open("alps", settings=settings)
            for number in range(10):
                group.publish_nowait(b"%d" % number)
            group.publish_nowait(bytes(8))
            assert len(await take(group, 11)) == 11
            assert group.lost == 0
            with pytest.raises(LimitError, match="publish_events_max is 3"):
                await group.publish_many([b"x"] * 4)
            with pytest.raises(LimitError, match="publish_bytes_max is 10"):
                await group.publish(bytes(11))

    within(main())


def test_an_event_that_a_member_can_never_keep_is_refused_at_the_door() -> None:
    async def main() -> None:
        async with half_a_pair() as (here, _):
            with pytest.raises(LimitError, match="retained_bytes_max // 4 is 1024"):
                await here.publish(bytes(1025))

    within(main())


def test_back_pressure_names_the_limit_and_who_is_behind() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, _ = await open_all(started, publish_wait_s=2.0)
            reader = asyncio.create_task(take(here, 1000))

            async def publish_on() -> None:
                while True:
                    await here.publish(bytes(256 << 10))
                    await asyncio.sleep(0.01)

            with pytest.raises(BackPressureError, match=r"CREDIT_BYTES is \d+.*process 2"):
                await publish_on()
            reader.cancel()

    within(main())


def test_a_burst_beyond_what_a_tick_may_have_waits_and_is_delivered_whole(tmp_path: Path) -> None:
    """At most K·n·ε = 9 bundles in a tick of 20 ms; and three seconds until one comes too late, on any machine."""

    async def main() -> None:
        settings = {
            "order": "timed", "events_per_tick_max": 1, "publishers_max": 3, "epsilon": 3, "tick_ns": 20_000_000,
            "delta": 150,
        }  # fmt: skip
        async with AsyncExitStack() as stack:
            started: list[Node] = []
            for pid in range(3):
                contacts = [node.address for node in started]
                started.append(await stack.enter_async_context(join(pid, contacts=contacts, data=tmp_path / str(pid))))
            groups = await open_all(started, level="total", settings=settings)
            readers = [asyncio.create_task(take(group, 100)) for group in groups]
            await groups[2].ready_to_publish()
            for number in range(100):
                receipt = await groups[2].publish(b"%d" % number)
                await receipt.accepted()  # each in a bundle of its own
            for reader in readers:
                assert [int(delivery.payload) for delivery in await reader] == list(range(100))
            assert groups[2].lost == 0

    within(main())


def test_nothing_counts_as_stored_at_a_level_that_stores_no_events(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(1, data=tmp_path) as (node,):
            group = await node.open("alps", "total", order="timed")
            await group.ready_to_publish()
            receipt = await group.publish(b"x")
            assert len(await take(group, 1)) == 1, "its merger has written a last key by now"
            no_events = "level total with these settings stores no events; levels that do, with a data directory: event"
            with pytest.raises(UsageError, match=no_events):
                await receipt.stored()
            with pytest.raises(UsageError, match=no_events):
                await group.publish(b"y", until="stored")
            fifo = await node.open("andes", "fifo")
            with pytest.raises(UsageError, match="open it with durable=True"):
                await fifo.publish(b"y", until="stored")

    within(main())


# --- payloads ---


@pytest.mark.parametrize("payload", ["text", 7, None, ["x"], {"a": 1}, 1.5])
def test_only_bytes_are_published(payload: Any) -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            group = await node.open("alps")
            await group.publish(b"before")
            with pytest.raises(PayloadError, match=f"not {type(payload).__name__}"):
                await group.publish(payload)
            with pytest.raises(TypeError, match="payload"):
                group.publish_nowait(payload)
            with pytest.raises(PayloadError):
                await group.publish_many([b"x", payload, b"y"])
            await group.publish(b"after")
            assert [delivery.payload for delivery in await take(group, 2)] == [b"before", b"after"]

    within(main())


def test_a_payload_that_can_change_is_copied() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            group = await node.open("alps")
            changing = bytearray(b"first")
            await group.publish(changing)
            await group.publish(memoryview(changing))
            several = [bytearray(b"several")]
            await group.publish_many(several)
            changing[:], several[0][:] = b"later", b"changed"
            several.append(bytearray(b"more"))
            await group.publish_many(b"%d" % number for number in range(2))
            wide = memoryview(bytes(range(8))).cast("I")
            await group.publish(wide)
            came = [delivery.payload for delivery in await take(group, 6)]
            assert came == [b"first", b"first", b"several", b"0", b"1", bytes(range(8))]

    within(main())


@pytest.mark.parametrize("payloads", [b"one", "one", bytearray(b"one"), memoryview(b"one"), 3, None])
def test_several_payloads_are_not_one(payloads: Any) -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            group = await node.open("alps")
            with pytest.raises(PayloadError, match="takes several payloads"):
                await group.publish_many(payloads)

    within(main())


def test_nothing_is_refused_for_what_follows_it() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            group = await node.open("alps")
            with pytest.raises(LimitError, match="least number"):
                await group.publish_many([])
            with pytest.raises(UsageError, match="until is"):
                await group.publish(b"x", until="forever")
            await group.publish(b"y")
            assert [delivery.payload for delivery in await take(group, 1)] == [b"y"]

    within(main())


def test_scripts_too_publish_only_bytes() -> None:
    with blocking.join(1) as node:
        group = node.open("alps")
        with pytest.raises(PayloadError):
            group.publish("text")  # type: ignore[arg-type]
        with pytest.raises(PayloadError):
            group.publish_many(b"several")  # type: ignore[arg-type]
        group.publish(b"x")
        assert [delivery.payload for delivery in group.take(1)] == [b"x"]


# --- bugs of ours ---


def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError("planted")


@pytest.mark.parametrize("where", ["publish", "send", "deliver", "wake", "report", "turn"])
def test_a_bug_in_a_callback_ends_the_group_and_everybody_hears_it(where: str) -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started)
            reader = asyncio.create_task(take(here, 10))
            waiter = asyncio.create_task(here.noted("never", timeout_s=30))
            await asyncio.sleep(0)
            driver = here._driver
            if where == "publish":
                driver.runner.publish = broken  # type: ignore[assignment, method-assign]
            elif where == "send":
                driver.ports.send = broken
            elif where == "deliver":
                driver.ports.deliver = broken
            elif where == "wake":
                driver.retained.tick = broken  # type: ignore[method-assign]
            elif where == "report":
                driver.acknowledgements._send = broken
            else:
                driver.flow.is_busy = broken  # type: ignore[assignment, method-assign]
            if where == "report":
                await there.publish(b"x")
            else:
                await here.publish(b"x")
            for heard in (reader, waiter):
                with pytest.raises(InternalError, match="planted"):
                    await heard
            with pytest.raises((InternalError, EventsLostError), match="planted"):
                await here.publish(b"y")
            with pytest.raises(InternalError, match="planted"):
                await here.publish(b"z")

    within(main())


def test_what_waits_for_a_member_that_fails_is_told_at_once_and_then_why() -> None:
    async def main() -> None:
        heard: list[EventsLostError] = []
        async with nodes(1) as (node,):
            group = await node.open("alps", on_lost=heard.append)
            receipt = await group.publish(b"1")
            failure = group._driver.fail(ZeroDivisionError("planted"))
            assert [lost.payloads for lost in heard] == [[b"1"]]
            with pytest.raises(InternalError, match="planted"):
                await receipt.accepted()
            with pytest.raises(EventsLostError) as told:
                group.publish_nowait(b"2")
            assert told.value.why is failure
            with pytest.raises(InternalError, match="planted"):
                group.publish_nowait(b"2")

    within(main())


ON_DISK: dict[str, dict[str, Any]] = {
    "fifo": {"level": "fifo", "durable": True}, "causal": {"level": "causal"}, "total": {"level": "total"},
    "tree": {"level": "causal", "settings": {"spread": "tree"}, "founders": [1]},
}  # fmt: skip


@pytest.mark.parametrize("level", ON_DISK)
def test_what_waits_for_a_disk_that_fails_is_told_to_its_publisher(level: str, tmp_path: Path) -> None:
    """Accepted is not stored: nobody was sent it, and the publisher need not have waited for it."""

    async def main() -> None:
        heard: list[EventsLostError] = []
        async with nodes(1, data=tmp_path) as (node,):
            group = await node.open("alps", **ON_DISK[level], on_lost=heard.append)
            await group.publish(b"1", until="stored")
            fill_disk(node)
            receipts = [await group.publish(payload) for payload in (b"2", b"3")]
            for receipt in receipts:
                await receipt.accepted()
            with pytest.raises(StorageError, match="No space left"):
                await receipts[-1].stored()
            assert [payload for lost in heard for payload in lost.payloads] == [b"2", b"3"]
            assert group.lost == 2
            with pytest.raises(EventsLostError, match=r"lost, or may be .*No space left") as told:
                await group.publish(b"4")
            assert told.value.payloads == [b"2", b"3"]
            with pytest.raises(StorageError, match="No space left"):
                await group.publish(b"4")

    within(main())


# --- settled ---


@pytest.mark.parametrize("level", ["eventual", "fifo", "optimistic", "causal", "tree", "total"])
def test_settled_does_not_wait_for_the_publishers_own_application(level: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            started: list[Node] = []
            for pid in range(3):
                contacts = [node.address for node in started]
                node = join(pid, contacts=contacts, data=tmp_path / str(pid))
                started.append(await stack.enter_async_context(node))
            named: dict[str, Any] = {"founders": [0, 1, 2]} if level in ("optimistic", "causal", "tree") else {}
            settings = {"spread": "tree"} if level == "tree" else QUICK if level in ("eventual", "fifo") else {}
            real = "causal" if level == "tree" else level
            groups = await asyncio.gather(*[node.open("alps", real, settings=settings, **named) for node in started])
            for group in groups:
                await group.gathered(3)
            if level == "optimistic":
                await groups[0].ready_to_publish()
            readers = [asyncio.create_task(take(group, 1)) for group in groups[1:]]
            receipt = await groups[0].publish(b"x", until="settled", timeout_s=20)
            assert receipt.missing() == ()
            for reader in readers:
                assert [delivery.payload for delivery in await reader] == [b"x"]

    within(main())


@pytest.mark.parametrize("level", ["causal", "total"])
def test_what_counts_of_a_removed_publisher_is_settled_and_waits_for_nobody(level: str, tmp_path: Path) -> None:
    """Nobody else has taken it, and all hand it out."""

    async def main() -> None:
        async with nodes(3, data=tmp_path) as started:
            groups = await asyncio.gather(*[node.open("alps", level, founders=[1, 2, 3]) for node in started])
            receipt = await groups[0].publish(b"x")
            event = await receipt.stored(DEADLINE_S)
            assert set(receipt.missing()) == {2, 3}
            await groups[1].remove(1, DEADLINE_S)
            if (await asyncio.gather(receipt.settled(DEADLINE_S), return_exceptions=True))[0] == event:
                assert receipt.missing() == ()
                for group in groups[1:]:
                    assert [delivery.payload for delivery in await take(group, 1)] == [b"x"]
            else:  # it was removed before the others had it
                assert set(receipt.missing()) == {2, 3}
                assert groups[0].lost == 1

    within(main())


@pytest.mark.parametrize("spread", ["direct", "tree"])
def test_who_waits_for_settled_can_ask_whom_for_and_stops_waiting_in_time(
    spread: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("whence.net.wait_log.LONG_WAIT_S", 0.05)

    async def main() -> None:
        async with nodes(3, first=0, data=tmp_path) as started:
            settings = {} if spread == "direct" else {"spread": "tree"}
            opened = [node.open("alps", "causal", founders=[0, 1, 2], settings=settings) for node in started]
            here, there, _ = await asyncio.gather(*opened)
            reader = asyncio.create_task(take(there, 1))
            await started[2].close()
            receipt = await here.publish(b"x")
            assert receipt.missing() == (1, 2), "also before it has a number"
            await receipt.accepted()
            await reader
            while receipt.missing() != (2,):
                await asyncio.sleep(0.01)
            with pytest.raises(OutcomeUnknownError, match="process 2 is not known to have"):
                await receipt.settled(timeout_s=0.2)
            assert "process 2 is behind" in caplog.text
            if spread == "direct":
                assert "process 2 is behind; until 2 is back or removed, it stays so" in caplog.text
            with pytest.raises(OutcomeUnknownError, match=r"process.* 2"):
                await here.publish(b"y", until="settled", timeout_s=0.2)

    within(main())


def test_a_wait_that_is_over_names_nobody(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The last acknowledgement may come in the same turn of the loop as the end of the caller's patience."""
    monkeypatch.setattr("whence.net.wait_log.LONG_WAIT_S", 0.01)

    async def main() -> None:
        async with nodes(2, first=0, status=False) as started:
            here, there = await open_all(started, level="causal", settings=None)
            receipt = await here.publish(b"x")
            await receipt.accepted()
            await take(there, 1)
            while receipt.missing():
                await asyncio.sleep(0.01)
            driver = here._driver
            with monkeypatch.context() as patch:
                patch.setattr(driver, "until", lambda _: asyncio.sleep(60))
                patch.setattr(driver.settling, "missing", _once((1,)))
                assert await receipt.settled(timeout_s=0.1) == receipt.event

    within(main())
    assert "waits for settled" not in caplog.text


def _once(first: tuple[int, ...]) -> Callable[[int], tuple[int, ...]]:
    """Return a function that returns this when it is called first, and nobody later."""
    answers = [first]
    return lambda _: answers.pop() if answers else ()


def test_who_waits_for_stored_is_told_what_for_and_stops_waiting_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was accepted may wait for room, and nothing on the disk of this process makes any."""
    monkeypatch.setattr("whence.net.wait_log.LONG_WAIT_S", 0.05)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            one = await stack.enter_async_context(join(0, data=tmp_path / "0"))
            two = await stack.enter_async_context(join(1, data=tmp_path / "1", contacts=[one.address]))
            options: dict[str, Any] = {
                "founders": [0, 1], "settings": CRAMPED, "durable": True, "publish_wait_s": 0.3,
            }  # fmt: skip
            here, _ = await asyncio.gather(*[node.open("alps", "causal", **options) for node in (one, two)])
            await two.close()
            while here._driver.flow.refused is None:
                receipt = await here.publish(bytes(100))
                await asyncio.sleep(0)
            with pytest.raises(OutcomeUnknownError, match=r"wait for room \(retained_bytes_max // 4 is 1024, and proc"):
                await receipt.stored(timeout_s=0.2)
            behind = "process 1 and the application here must take more"
            assert f"waits for room: retained_bytes_max // 4 is 1024, and {behind}" in caplog.text
            with pytest.raises(EventsLostError):
                await here.close()

    within(main())


def test_who_is_alone_waits_for_nobody() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            for level, named in (("fifo", ()), ("causal", (1,)), ("total", ())):
                group = await node.open(level, level, founders=named)
                await group.publish(b"x", until="settled", timeout_s=10)

    within(main())
