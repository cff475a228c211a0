"""`majority`: a publisher is told when a quorum of the voters has its events, and those survive it."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, within
from tests.net.test_living import BOTH, CAUSAL, cluster, quiet
from whence.api.node import join
from whence.errors import OutcomeUnknownError, RemovedError, UsageError
from whence.store.log import Log

ASKED: dict[str, Any] = {"settings": {"majority": True}}


def test_two_of_three_are_a_majority_and_without_them_it_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True) as made:
            one, two, three = await made.found(1, 2, 3, **ASKED)
            await quiet([one, two, three])
            await three.kill()
            receipt = await one.group.publish(b"two have it", until="majority", timeout_s=DEADLINE_S)
            with pytest.raises(OutcomeUnknownError):
                await receipt.settled(0.2)
            await two.kill()
            alone = await one.group.publish(b"one has it")
            with pytest.raises(OutcomeUnknownError, match=r"no quorum of the voters .*: processes 2, 3 are not"):
                await alone.majority(0.5)
            two, three = await made.start(2, 3)
            await two.open(**ASKED)
            assert await alone.majority(DEADLINE_S) == alone.event
            await three.open(**ASKED)
            await three.has(b"two have it", b"one has it")

    within(main())


@BOTH
def test_what_a_majority_has_survives_the_removal_of_its_publisher(kind: dict[str, Any], tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind) as made:
            one, two, three, four = await made.found(1, 2, 3, 4, **ASKED)
            receipts = [await four.group.publish(b"%d" % number) for number in range(20)]
            last = await receipts[-1].majority(DEADLINE_S)
            await one.group.remove(4, DEADLINE_S)
            assert four.reader is not None
            await four.reader
            for process in (one, two, three):
                await process.has(*[b"%d" % number for number in range(20)])
            with pytest.raises(RemovedError) as verdict:
                await four.group.next(DEADLINE_S)
            assert verdict.value.covers(last)
            assert await receipts[0].majority() == receipts[0].event
            await four.kill()

    within(main())


def test_who_is_a_quorum_alone_has_a_majority_once_its_own_disk_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash before that loses the event, and nobody else has it."""
    may_sync, sync = threading.Event(), Log.sync

    def held_back(log: Log) -> None:
        may_sync.wait()
        sync(log)

    async def main() -> None:
        async with join("alone", data=tmp_path, status=False) as node:
            group = await node.open("alps", "total", settings={"majority": True})
            monkeypatch.setattr(Log, "sync", held_back)
            receipt = await group.publish(b"x")
            try:
                with pytest.raises(OutcomeUnknownError):
                    await receipt.majority(timeout_s=0.3)
            finally:
                may_sync.set()
            await receipt.majority(timeout_s=20)

    within(main())


def test_who_does_not_ask_for_it_is_told_how(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            (one,) = await made.found(1)
            with pytest.raises(UsageError, match=r"settings=\{'majority': True\}"):
                await one.group.publish(b"x", until="majority")
        async with join(9, status=False) as node:
            group = await node.open("huts", "fifo")
            with pytest.raises(UsageError, match="no voters"):
                await (await group.publish(b"x")).majority()

    within(main())
