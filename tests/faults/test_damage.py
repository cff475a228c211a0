"""Damaged and wiped disks: nothing acknowledged is lost or repeated without a word.

Each flipped bit is either refused at the start, with the file and what to do, or loses nothing. A process whose data
directory was wiped is refused, or is taken for the new one that it is: what it publishes is delivered.
"""

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, QUICK, take
from whence.api.group import Group
from whence.api.node import Node, join
from whence.errors import JoinError, StorageError
from whence.net.run import run

FLIPS, FLIPS_LONG = 40, 300
WIPES, WIPES_LONG = 3, 50
EVENTS = 40

WAYS: dict[str, dict[str, Any]] = {
    "eventual": {"level": "eventual", "durable": True, "settings": QUICK},
    "fifo": {"level": "fifo", "durable": True, "settings": QUICK},
    "causal": {"level": "causal", "settings": {"spread": "direct"}},
    "causal-tree": {"level": "causal", "settings": {"spread": "tree"}},
    "total": {"level": "total"},
    "total-timed": {"level": "total", "order": "timed", "settings": {"mergers": 1}, "write": True},
    "optimistic": {"level": "optimistic", "settings": {**QUICK, "rounds": 3, "answer_ns": 20_000_000}},
}
"""Every level with a journal."""
STORED = ("eventual", "fifo", "causal", "causal-tree", "total")
"""Those at which a publication is in it."""


def bounded(main: Any, factor: int = 1) -> None:
    run(asyncio.wait_for(main, factor * DEADLINE_S))


async def opened(node: Node, way: str, founders: list[int]) -> Group:
    fixed: dict[str, Any] = {"founders": founders} if way not in ("eventual", "fifo", "total-timed") else {}
    return await node.open("alps", **WAYS[way], **fixed)


# --- flipped bits ---


async def stored(way: str, data: Path) -> None:
    """Let a process store events that nobody takes, in several syncs, and end without a word."""
    async with join(0, data=data) as node:
        group = await opened(node, way, [0])
        for number in range(EVENTS):
            await group.publish(b"%d" % number, until="stored")
        await node.live.connections.close()


async def read_back(way: str, data: Path) -> list[int]:
    """Return what another, or at levels with a memory this one's application, gets from the next life."""
    if way not in ("eventual", "fifo"):
        async with join(0, data=data) as node:
            return [int(each.payload) for each in await take(await opened(node, way, [0]), EVENTS)]
    async with join(1) as other:
        there = await opened_without_data(other, way)
        async with join(0, data=data, contacts=[other.address]) as node:
            await opened(node, way, [0])
            return [int(each.payload) for each in await take(there, EVENTS)]


async def opened_without_data(node: Node, way: str) -> Group:
    return await node.open("alps", WAYS[way]["level"], settings=QUICK)


def flipped(data: Path, random: Random) -> str:
    """Flip a bit in one of the files that say what was acknowledged and by whom; return where."""
    files = sorted([data / "identity", *data.glob("groups/*")])
    file = random.choices(files, [each.stat().st_size for each in files])[0]
    content = bytearray(file.read_bytes())
    bit = random.randrange(8 * len(content))
    content[bit >> 3] ^= 1 << (bit & 7)
    file.write_bytes(content)
    return f"{file.name}, bit {bit}"


@pytest.mark.parametrize("way", STORED)
def test_a_flipped_bit_is_refused_with_words_or_loses_nothing(way: str, tmp_path: Path, long_mode: bool) -> None:
    random = Random(way)
    outcomes: Counter[str] = Counter()

    async def main() -> None:
        await stored(way, tmp_path / "whole")
        for _ in range(FLIPS_LONG if long_mode else FLIPS):
            shutil.rmtree(tmp_path / "data", ignore_errors=True)
            shutil.copytree(tmp_path / "whole", tmp_path / "data")
            where = flipped(tmp_path / "data", random)
            try:
                got = await read_back(way, tmp_path / "data")
            except StorageError as refusal:
                assert str(tmp_path / "data") in str(refusal), where  # noqa: PT017 - either is right
                assert "restore the whole data directory" in str(refusal), where  # noqa: PT017
                outcomes["refused"] += 1
            else:
                assert sorted(got) == list(range(EVENTS)), where
                outcomes["nothing lost"] += 1
        shutil.copytree(tmp_path / "whole", tmp_path / "intact")
        assert sorted(await read_back(way, tmp_path / "intact")) == list(range(EVENTS))

    bounded(main(), 10)
    assert outcomes["refused"] > outcomes.total() // 2


def test_a_directory_cut_short_anywhere_is_refused_with_words_or_loses_nothing(tmp_path: Path) -> None:
    """Files shorter than they were, empty, full of zeros or gone."""
    random = Random(1)

    async def main() -> None:
        await stored("fifo", tmp_path / "whole")
        for damage in ("cut", "cut", "cut", "empty", "zeros", "gone"):
            shutil.rmtree(tmp_path / "data", ignore_errors=True)
            shutil.copytree(tmp_path / "whole", tmp_path / "data")
            [file] = (tmp_path / "data").glob("groups/*.journal")
            content = file.read_bytes()
            if damage == "gone":
                file.unlink()
            else:
                left = content[: random.randrange(len(content))] if damage == "cut" else b""
                file.write_bytes(bytes(len(content)) if damage == "zeros" else left)
            with pytest.raises(StorageError, match="restore the whole data directory"):
                await read_back("fifo", tmp_path / "data")

    bounded(main())


# --- wiped directories ---


@pytest.mark.parametrize("way", [way for way in WAYS if way != "optimistic"])
def test_a_process_whose_directory_was_wiped_is_refused_or_heard(way: str, tmp_path: Path, long_mode: bool) -> None:
    fixed = way == "causal-tree"

    async def main() -> None:
        for number in range(WIPES_LONG if long_mode else WIPES):
            data = tmp_path / str(number)
            async with join(0, data=data / "0") as one:
                opening = asyncio.create_task(opened(one, way, [0, 1]))
                async with join(1, data=data / "1", contacts=[one.address]) as two:
                    there = await opened(two, way, [0, 1])
                    here = await opening
                    await there.gathered(2)
                    await there.publish(b"first life")
                    assert [each.payload for each in await take(here, 1)] == [b"first life"]
                shutil.rmtree(data / "1")
                async with join(1, data=data / "1", contacts=[one.address]) as two:
                    if fixed:
                        with pytest.raises(JoinError, match="its members are fixed"):
                            await opened(two, way, [0, 1])
                        continue
                    there = await opened(two, way, [0, 1])
                    await there.gathered(2)
                    await there.publish(b"second life")
                    assert [each.payload for each in await take(here, 1)] == [b"second life"]

    bounded(main(), 10)


def test_a_coordinator_whose_directory_was_wiped_gets_another_epoch_and_is_heard(
    tmp_path: Path, long_mode: bool
) -> None:
    async def main() -> None:
        founders = [0, 1, 2]
        async with join(0, data=tmp_path / "0") as one, join(1, data=tmp_path / "1", contacts=[one.address]) as two:
            begun = [asyncio.create_task(opened(node, "optimistic", founders)) for node in (one, two)]
            async with join(2, data=tmp_path / "2", contacts=[one.address]) as third:
                await opened(third, "optimistic", founders)
                here, _ = await asyncio.gather(*begun)
                epochs: set[tuple[int | None, int | None]] = set()
                for number in range(WIPES_LONG if long_mode else WIPES):
                    shutil.rmtree(tmp_path / "9", ignore_errors=True)
                    async with join(9, data=tmp_path / "9", contacts=[one.address]) as guest:
                        there = await opened(guest, "optimistic", founders)
                        await there.acquire_ticket(timeout_s=DEADLINE_S)
                        await there.publish(b"%d" % number)
                        [delivery] = await take(here, 1)
                        assert delivery.payload == b"%d" % number
                        assert (delivery.ticket, delivery.epoch) not in epochs
                        epochs.add((delivery.ticket, delivery.epoch))

    bounded(main(), 10)
