"""Groups with founders: who may begin one, under which numbers and in which life, and who is refused."""

import asyncio
import shutil
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from tests.net.live import nodes, numbered_nodes, take, within
from whence.api.group import Group
from whence.api.node import Node, join
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.errors import JoinError, SettingError, StorageError
from whence.limits import MERGED_PEER_ID_MAX
from whence.net.status import status
from whence.store.log import Log
from whence.trace.gathering import gather

ANY_NUMBERS = [
    [10, 20, 30],
    [100, 200, 300],
    [1, 2, 16],
    [min(70_000, MERGED_PEER_ID_MAX), 5, 900],
]


async def opened(started: list[Node], founders: list[int], **settings: object) -> list[Group]:
    return list(
        await asyncio.gather(*[node.open("alps", "causal", founders=founders, settings=settings) for node in started])
    )


async def exchanged(groups: list[Group], word: bytes) -> None:
    """Let everybody publish once, and take what all published."""
    for group in groups:
        await group.publish(b"%s of %d" % (word, group._driver.context.me.pid))
    expected = sorted(b"%s of %d" % (word, group._driver.context.me.pid) for group in groups)
    for group in groups:
        assert sorted(each.payload for each in await take(group, len(groups))) == expected


@pytest.mark.parametrize("spread", ["mesh", "tree"])
@pytest.mark.parametrize("founders", ANY_NUMBERS, ids=str)
def test_any_numbers_make_a_causal_group_and_come_back_to_it(founders: list[int], spread: str, tmp_path: Path) -> None:
    """Places come from the list; journals, counters, traces and what a node tells of itself agree with that."""

    async def main() -> None:
        for life in (b"first", b"second"):
            async with numbered_nodes(founders, data=tmp_path / "data", trace=tmp_path / "trace") as started:
                groups = await opened(started, founders, spread=spread)
                await exchanged(groups, life)
                await asyncio.sleep(0.2)  # what was taken is told
                for node, group in zip(started, groups, strict=True):
                    others = sorted(pid for pid in founders if pid != node.pid)
                    assert list(group.members()) == others
                    told = status(node.live)["groups"][0]
                    assert set(told["overlay"]["neighbours"]) <= {*others}
                    assert told["overlay"]["suspected"] == []

    within(main())
    members = {"alps": founders}
    verdicts = judge(gather([tmp_path / "trace"], "alps", "live", "test", durable=True, groups=members))
    assert [(v.promise, v.sentence) for v in verdicts if v.outcome is Outcome.BROKEN] == []
    assert {v.promise for v in verdicts if v.holds} >= {"causal", "agreement", "no_duplicates", "integrity"}


def test_seventeen_founders_that_do_not_begin_at_zero_make_a_tree() -> None:
    async def main() -> None:
        async with nodes(17) as started:
            groups = await opened(started, list(range(1, 18)))
            assert groups[0]._driver.context.settings.variant.spread == "tree"
            await groups[16].publish(b"from the last")
            for group in groups:
                assert [each.payload for each in await take(group, 1)] == [b"from the last"]

    within(main())


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_a_new_group_begins_though_founders_were_restarted_before(spread: str, tmp_path: Path) -> None:
    """In which life a node is says nothing of a group that never began: its journal of that group does."""

    async def main() -> None:
        for _ in range(2):
            async with join(2, data=tmp_path / "data" / "2"), join(1, data=tmp_path / "data" / "1"):
                pass
        async with numbered_nodes([1, 2, 3], data=tmp_path / "data") as started:
            await exchanged(await opened(started, [1, 2, 3], spread=spread), b"word")

    within(main())


def test_a_founder_of_a_tree_whose_data_was_wiped_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    """It would use the numbers of its lost events again, and nobody would take what it publishes."""
    spread = "tree"

    async def main() -> None:
        async with numbered_nodes([1, 2], data=tmp_path) as started:
            async with join(3, data=tmp_path / "3", contacts=[started[0].address]) as third:
                groups = await opened([*started, third], [1, 2, 3], spread=spread)
                await exchanged(groups, b"before")
            shutil.rmtree(tmp_path / "3")
            async with join(3, data=tmp_path / "3", contacts=[started[0].address]) as third:
                with pytest.raises(JoinError, match=r"its members are fixed; .* begin a group of another name"):
                    await opened([third], [1, 2, 3], spread=spread)
            await exchanged(groups[:2], b"after")

    within(main())


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_an_older_data_directory_is_refused_as_soon_as_another_knows_better(spread: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1, data=tmp_path / "1") as one:
            opening = asyncio.create_task(opened([one], [1, 2], spread=spread))
            async with join(2, data=tmp_path / "2", contacts=[one.address]) as two:
                (there,) = await opened([two], [1, 2], spread=spread)
                (here,) = await opening
            shutil.copytree(tmp_path / "2", tmp_path / "old")
            async with join(2, data=tmp_path / "2", contacts=[one.address]) as two:
                (there,) = await opened([two], [1, 2], spread=spread)
                await there.publish(b"lost", until="stored")
                assert [each.payload for each in await take(here, 1)] == [b"lost"]
                await asyncio.sleep(0.2)  # it is durable here, and acknowledged
            async with join(2, data=tmp_path / "old", contacts=[one.address]) as two:
                with pytest.raises(StorageError, match="process 1 has events that this one published"):
                    await opened([two], [1, 2], spread=spread)

    within(main())


DIES_FOUNDING = """
import asyncio, os, sys
from pathlib import Path
from whence.net.opening import GroupOpening
from whence.api.node import join

GroupOpening._begin = lambda *_: os.kill(os.getpid(), 9)

async def main():
    contacts = sys.argv[3:]
    async with join(5656, contacts=contacts, data=Path(sys.argv[1])) as node:
        await node.open("alps", "causal", founders=[1212, 3434, 5656], settings={"spread": sys.argv[2]})

asyncio.run(main())
"""


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_a_founder_that_died_while_the_group_began_comes_back_with_its_data_directory(
    spread: str, tmp_path: Path
) -> None:
    """The others had begun, and it had not written anything down: nor had it said anything. A directory that does not
    know the life that they began with is another's."""
    founders = [1212, 3434, 5656]

    async def main() -> None:
        async with (
            join(1212, data=tmp_path / "1212") as one,
            join(3434, contacts=[one.address], data=tmp_path / "3434") as two,
        ):
            opening = asyncio.create_task(opened([one, two], founders, spread=spread))
            words = [sys.executable, "-c", DIES_FOUNDING, str(tmp_path / "5656"), spread, one.address, two.address]
            dying = await asyncio.create_subprocess_exec(*words)
            assert await dying.wait() == -signal.SIGKILL
            groups = await opening
            await asyncio.sleep(1.1)  # two directories that know nothing of each other have lives by the time alone
            for _ in range(2 if spread == "tree" else 0):  # to a mesh it would be a new member
                async with join(5656, contacts=[one.address], data=tmp_path / "elsewhere") as other:
                    with pytest.raises(JoinError, match="its members are fixed"):
                        await opened([other], founders, spread=spread)
            await asyncio.sleep(1.1)
            for word in (b"first", b"second"):
                async with join(5656, contacts=[one.address, two.address], data=tmp_path / "5656") as back:
                    groups[2:] = await opened([back], founders, spread=spread)
                    await exchanged(groups, word)

    within(main())


def test_a_journal_of_other_founders_or_another_spread_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        for spread in ("tree", "mesh"):
            async with numbered_nodes([1, 2], data=tmp_path / spread) as started:
                await opened(started, [1, 2], spread=spread)
        async with join(1, data=tmp_path / "tree" / "1") as node:
            with pytest.raises(StorageError, match=r"began with the processes 1, 2, and now 1, 2, 3 are named"):
                await opened([node], [1, 2, 3], spread="tree")
        async with join(1, data=tmp_path / "tree" / "1") as node:
            with pytest.raises(StorageError, match=r"began with spread=tree .* give the settings it began with"):
                await opened([node], [1, 2])
        async with join(1, data=tmp_path / "mesh" / "1") as node:
            with pytest.raises(StorageError, match=r"began with spread=mesh, .* now spread=tree"):
                await opened([node], [1, 2], f=1)

    within(main())


def test_the_journal_of_a_mesh_with_fixed_members_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """Earlier versions wrote such journals: a first record that names the founders, and then what they published."""

    async def main() -> None:
        async with join(1, data=tmp_path / "1") as node:
            await node.open("alps", "causal")
            commit = node.live.files.storage["alps"].commit
            path = commit.log.path
        path.unlink()
        log = Log(path)
        first = msgspec.msgpack.encode([32, [1, 2], [[1, 1], [2, 1]], "spread=mesh"])
        log.note_opened(1)  # as this directory's identity says
        log.append([b"M" + first])
        log.sync()
        log.close()
        async with join(1, data=tmp_path / "1") as node:
            with pytest.raises(
                StorageError, match=r"a mesh with fixed members, .* open a group of another name, or move"
            ):
                await node.open("alps", "causal")

    within(main())


def test_a_tree_without_founders_is_refused() -> None:
    async def main() -> None:
        async with join(0) as node:
            with pytest.raises(SettingError, match=r"name them all, .* \(founders=\[0, 1, 2\], --founders 0,1,2\)"):
                await node.open("alps", "causal", settings={"spread": "tree"})

    within(main())
