"""Stored means stored: acknowledged after the disk, refused when the disk refuses, offered again by the next life."""

import asyncio
import gc
import os
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import QUICK, fill_disk, take, within
from whence.api.group import Group
from whence.api.node import Node, join
from whence.errors import EventsLostError, JoinError, StorageError
from whence.net import compaction
from whence.store.consumer_offsets import ConsumerOffsets
from whence.store.log import DiskFile, Log


def test_a_full_disk_refuses_clearly_and_nothing_is_acknowledged_or_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1, data=tmp_path) as one, join(2, contacts=[one.address]) as two:
            here = await one.open("alps", durable=True, settings=QUICK)
            there = await two.open("alps", settings=QUICK)
            await here.gathered(2)
            await there.gathered(2)
            await here.publish(b"safe", until="stored")
            fill_disk(one)
            with pytest.raises(StorageError, match="No space left"):
                await here.publish(b"lost", until="stored")
            with pytest.raises(EventsLostError, match="No space left") as told:
                await here.publish(b"after")
            assert told.value.payloads == [b"lost"]
            with pytest.raises(StorageError, match="No space left"):
                await here.publish(b"after")
            with pytest.raises(StorageError, match="No space left"):
                await take(here, 2)
            await there.publish(b"mine")
            assert [d.payload for d in await take(there, 2)] == [b"safe", b"mine"], "the refused event never left"

    within(main())


def test_events_stored_while_nobody_listened_are_offered_by_the_next_life(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1, data=tmp_path) as alone:
            group = await alone.open("alps", durable=True, settings=QUICK)
            for number in range(5):
                await group.publish(b"%d" % number, until="stored")
            first = alone.live.me.incarnation
            await alone.live.connections.close()  # dies without a word
        async with join(2) as two:
            there = await two.open("alps", settings=QUICK)
            async with join(1, data=tmp_path, contacts=[two.address]) as again:
                await again.open("alps", durable=True, settings=QUICK)
                taken = await take(there, 5)
        assert [(int(d.payload), d.event.incarnation) for d in taken] == [(number, first) for number in range(5)]

    within(main())


def test_the_journal_forgets_what_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "COMPACT_BYTES", 10_000)

    async def main() -> None:
        async with join(1, data=tmp_path) as one, join(2, contacts=[one.address]) as two:
            here = await one.open("alps", durable=True, settings=QUICK, receive=False)
            there = await two.open("alps", settings=QUICK, receive=False)
            await here.gathered(2)
            await there.gathered(2)
            for _ in range(20):
                await here.publish(b"x" * 2000, until="stored")
            await here.publish(b"last", until="settled")
            while one.live.files.storage["alps"].commit.log.size >= 20 * 2000:
                await asyncio.sleep(0.02)
            assert here._driver.counts["compactions"] > 0

    within(main())
    assert len(Log(tmp_path / "groups" / f"{b'alps'.hex()}.journal").records) < 21


def test_many_publishers_share_one_sync(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1, data=tmp_path) as one:
            group = await one.open("alps", durable=True, receive=False)
            for _ in range(5):
                await asyncio.gather(*[group.publish(b"x", until="stored") for _ in range(100)])
            assert one.live.files.storage["alps"].commit.log.syncs <= 15

    within(main())


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_what_the_application_did_not_take_is_handed_out_by_the_next_life(spread: str, tmp_path: Path) -> None:
    """Delivered is what the application has taken: the rest of an inbox dies with its process, and comes again."""

    async def life(count: int, *, is_first: bool = False) -> list[bytes]:
        async with join(0, data=tmp_path) as node:
            group = await node.open("alps", "causal", founders=[0], settings={"spread": spread})
            if is_first:
                for number in range(6):
                    receipt = await group.publish(b"%d" % number, until="stored")
                    await receipt.stored()
            return [delivery.payload for delivery in await take(group, count)]

    async def main() -> None:
        assert await life(2, is_first=True) == [b"0", b"1"]
        assert await life(3) == [b"2", b"3", b"4"]
        assert await life(1) == [b"5"]

    within(main())


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_a_causal_journal_is_rewritten_and_the_next_life_goes_on_where_it_was(
    spread: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is handed out twice, nothing is left out, and what was published before is not numbered anew."""
    monkeypatch.setattr(compaction, "COMPACT_BYTES", 4_000)

    async def main() -> None:
        async with join(1, data=tmp_path / "1") as other:
            opening = asyncio.create_task(other.open("alps", "causal", founders=[0, 1], settings={"spread": spread}))
            expected = []
            for life in range(3):
                async with join(0, data=tmp_path / "0", contacts=[other.address]) as node:
                    here = await node.open("alps", "causal", founders=[0, 1], settings={"spread": spread})
                    there = await opening
                    for number in range(30):
                        payload = b"%d %d" % (life, number) + b"x" * 200
                        await here.publish(payload, until="stored")
                        expected.append(payload)
                    assert [each.payload for each in await take(here, 30)] == expected[-30:]
                    assert [each.payload for each in await take(there, 30)] == expected[-30:]
                    while not here._driver.counts["compactions"]:
                        await asyncio.sleep(0.02)

    within(main())


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_a_journal_shrinks_under_load_and_nothing_untaken_is_lost(
    spread: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is rewritten between two syncs: what waits for the disk and what the application has not taken is in it."""
    monkeypatch.setattr(compaction, "COMPACT_BYTES", 20_000)
    total = 400

    async def some(group: Group, count: int) -> list[int]:
        taken: list[int] = []
        async for batch in group.batches():
            taken += map(int, batch.payloads())
            if len(taken) >= count:
                break
        return taken

    async def main() -> None:
        async with join(0, data=tmp_path) as node:
            group = await node.open("alps", "causal", founders=[0], settings={"spread": spread})
            taking = asyncio.create_task(some(group, 3 * total // 4))
            waits = []
            for number in range(total):
                waits.append(asyncio.create_task(group.publish(b"%d" % number + b" " * 500, until="stored")))
                if number % 5 == 0:
                    await asyncio.sleep(0.001)
                if number % 50 == 49:  # however slow the disk is, there are some syncs to be between
                    await asyncio.gather(*waits)
            first = await taking
            assert group._driver.counts["compactions"] > 0
            assert len(first) < total
        async with join(0, data=tmp_path) as node:
            group = await node.open("alps", "causal", founders=[0], settings={"spread": spread})
            assert first + await some(group, total - len(first)) == list(range(total))

    within(main())


def test_what_a_member_of_others_did_not_take_comes_again_from_those_who_published_it(tmp_path: Path) -> None:
    """Its journal has only its own events, so a life that ends before the application took something fetches it."""

    async def main() -> None:
        async with join(1, data=tmp_path / "1") as other:
            opening = asyncio.create_task(other.open("alps", "causal", founders=[0, 1]))
            async with join(0, data=tmp_path / "0", contacts=[other.address]) as node:
                here = await node.open("alps", "causal", founders=[0, 1])
                there = await opening
                for number in range(6):
                    receipt = await there.publish(b"%d" % number * 100, until="stored")
                await take(there, 6)
                there.ack()
                while here.position < 6:  # they are in the inbox here too, and the application does not look
                    await asyncio.sleep(0.01)
            async with join(0, data=tmp_path / "0", contacts=[other.address]) as node:
                here = await node.open("alps", "causal", founders=[0, 1])
                assert [each.payload for each in await take(here, 6)] == [b"%d" % number * 100 for number in range(6)]
                here.ack()
                async with asyncio.timeout(10):
                    await receipt.settled()
            size = (tmp_path / "0" / "groups" / f"{b'alps'.hex()}.journal").stat().st_size
            async with join(0, data=tmp_path / "0", contacts=[other.address]) as node:
                here = await node.open("alps", "causal", founders=[0, 1])
                await there.publish(b"later")
                assert [each.payload for each in await take(here, 1)] == [b"later"]
        assert size < 600, "no payloads of others"

    within(main())


def test_groups_that_are_closed_give_back_their_files_and_threads(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1, data=tmp_path / "data", trace=tmp_path / "trace") as node:
            before = used()
            for number in range(20):
                group = await node.open(f"group {number}", durable=True, settings=QUICK)
                await group.publish(b"x", until="stored")
                await group.close()
                with pytest.raises(JoinError):
                    await node.open(f"other {number}", "causal", founders=[1, 2], timeout_s=0.001)
            del group
            gc.collect()
            while used() > before:  # threads end a moment later
                await asyncio.sleep(0.01)

    def used() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    within(main())


def test_what_is_taken_after_a_group_was_closed_is_told_and_counted(tmp_path: Path) -> None:
    async def life(count: int) -> list[bytes]:
        async with join(0, data=tmp_path / "data", trace=tmp_path / "trace") as node:
            group = await node.open("alps", "causal", founders=[0])
            if count == 3:
                for number in range(6):
                    await group.publish(b"%d" % number, until="stored")
            while group.position < count:
                await asyncio.sleep(0.01)
            await group.close()
            return [delivery.payload for delivery in await take(group, count)]

    async def main() -> None:
        assert await life(3) == [b"0", b"1", b"2"]
        rest = await life(2)
        assert rest in ([b"3", b"4"], [b"2", b"3"]), "one that was handed out and not asked beyond may come again"

    within(main())


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_an_older_copy_of_a_journal_is_found_out_before_its_numbers_are_used_again(tmp_path: Path, spread: str) -> None:
    """Even by who publishes at once: opening waits for the word of those who can be reached."""
    pids = [2, 40, 700]

    @asynccontextmanager
    async def opened(*who: int) -> AsyncIterator[list[Group]]:
        async with AsyncExitStack() as stack:
            started: list[Node] = []
            for pid in who:
                contacts = [node.address for node in started]
                node = join(pid, contacts=contacts, data=tmp_path / str(pid), status=False)
                started.append(await stack.enter_async_context(node))
            options: dict[str, Any] = {"founders": pids, "durable": True, "settings": {"spread": spread}}
            yield list(await asyncio.gather(*[node.open("alps", "causal", **options) for node in started]))

    async def all_publish(payload: bytes) -> None:
        async with opened(*pids) as groups:
            receipts = [await group.publish(payload, until="stored") for group in groups]
            for group in groups:
                await take(group, 3)
            for receipt in receipts:
                await receipt.settled(timeout_s=20)

    async def main() -> None:
        await all_publish(b"first")
        shutil.copytree(tmp_path / "700", tmp_path / "older")
        await all_publish(b"second")
        shutil.rmtree(tmp_path / "700")
        (tmp_path / "older").rename(tmp_path / "700")
        with pytest.raises(StorageError, match="its journal does not know of them: an older data directory"):
            async with opened(*pids) as groups:
                await groups[2].publish(b"third", until="stored")

    within(main())


@pytest.mark.parametrize("level", ["causal", "total"])
def test_an_older_copy_of_a_readers_directory_is_found_out_when_it_waits_for_what_nobody_retains(
    tmp_path: Path, level: str
) -> None:
    """It had acknowledged it, so the publisher dropped it; and whoever reads is told, rather than left waiting."""

    async def news(writer: Group, reader: Group) -> None:
        receipt = await writer.publish(b"news")
        await take(reader, 1)
        await take(writer, 1)
        await receipt.settled(timeout_s=20)

    async def main() -> None:
        async with join("writer", data=tmp_path / "writer", status=False) as node:
            writer = await node.open("alps", level)

            @asynccontextmanager
            async def reading() -> AsyncIterator[Group]:
                async with join("reader", contacts=[node.address], data=tmp_path / "reader", status=False) as other:
                    yield await other.open("alps", level)

            async with reading() as reader:
                await news(writer, reader)
            shutil.copytree(tmp_path / "reader", tmp_path / "older")
            async with reading() as reader:
                await news(writer, reader)
            shutil.rmtree(tmp_path / "reader")
            (tmp_path / "older").rename(tmp_path / "reader")
            async with reading() as reader:
                await writer.publish(b"more news")
                with pytest.raises(StorageError, match="'alps' that its data directory does not know of"):
                    await take(reader, 2)

    within(main())


@pytest.mark.parametrize("end", [".journal", ".steps"])
@pytest.mark.parametrize("level", ["causal", "total", "fifo"])
def test_a_group_does_not_open_with_a_file_of_another_members_data_directory(
    level: str, end: str, tmp_path: Path
) -> None:
    """Its own identity is beside it, and only the file itself can say whose it is: with another's promises two would
    act as one member."""
    name = f"{b'alps'.hex()}{end}"

    async def main() -> None:
        for pid in (1, 2):
            async with join(pid, data=tmp_path / f"{pid}", status=False) as node:
                group = await node.open("alps", level)
                await group.publish(b"mine", until="accepted")
        shutil.copy(tmp_path / "1" / "groups" / name, tmp_path / "2" / "groups" / name)
        async with join(2, data=tmp_path / "2", status=False) as node:
            with pytest.raises(StorageError, match=f"{name} is that of process 1, .*restore the whole data directory"):
                await node.open("alps", level)

    within(main())


@pytest.mark.parametrize("end", [".journal", ".steps"])
@pytest.mark.parametrize("level", ["causal", "total", "fifo"])
def test_a_group_does_not_open_with_an_older_file_of_its_own_data_directory(
    level: str, end: str, tmp_path: Path
) -> None:
    """Older counters would give the application again what it has taken, unmarked; an older journal has forgotten
    promises."""
    file, older, newer = tmp_path / "data" / "groups" / f"{b'alps'.hex()}{end}", tmp_path / "older", tmp_path / "newer"

    async def life(payload: bytes) -> None:
        async with join(1, data=tmp_path / "data", status=False) as node:
            group = await node.open("alps", level, durable=True)
            await group.publish(payload, until="stored")
            if level != "fifo":
                await take(group, 1)

    async def main() -> None:
        await life(b"first")
        shutil.copy(file, older)
        await life(b"second")
        shutil.copy(file, newer)
        shutil.copy(older, file)
        for _ in range(2):
            with pytest.raises(StorageError, match=f"{file.name} of group 'alps' is older than .*restore the whole"):
                await life(b"refused")
            assert file.read_bytes() == older.read_bytes()
        shutil.copy(newer, file)
        await life(b"third")

    within(main())


def test_a_group_opens_wherever_its_opening_was_cut_short(tmp_path: Path) -> None:
    """A copy of the directory, from before and after every write of an opening, is what a crash there leaves."""
    data, images = tmp_path / "data", tmp_path / "images"
    one_at_a_time = threading.RLock()

    def watched(where: type, name: str) -> None:
        original = getattr(where, name)

        def replaced(*given: Any, **named: Any) -> Any:
            with one_at_a_time:
                shutil.copytree(data, images / f"{len(list(images.iterdir()))} before {name}")
                result = original(*given, **named)
                shutil.copytree(data, images / f"{len(list(images.iterdir()))} after {name}")
            return result

        watching.setattr(where, name, replaced)

    watching = pytest.MonkeyPatch()

    async def life(directory: Path) -> None:
        async with join(1, data=directory, status=False) as node:
            await node.open("alps", "causal")

    async def main() -> None:
        images.mkdir()
        for where, name in (
            (ConsumerOffsets, "note_opened"),
            (DiskFile, "write"),
            (DiskFile, "sync"),
            (DiskFile, "overwrite"),
            (Path, "replace"),
        ):
            watched(where, name)
        try:
            for _ in range(3):
                await life(data)
        finally:
            watching.undo()
        assert len(list(images.iterdir())) > 40
        for image in images.iterdir():
            for _ in range(2):
                await life(image)

    within(main())
