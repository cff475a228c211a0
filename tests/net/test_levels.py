"""Every level that is built runs live, on the same driver, and keeps its promises by the same oracles."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import QUICK, nodes, open_all, take, within
from whence.api.group import Group
from whence.api.node import Node, join
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.core.registry import LEVELS as LEVELS_BUILT
from whence.core.settings import by_name
from whence.errors import JoinError, SettingError, UsageError
from whence.net.settings import NetSettings, settings_of
from whence.trace.gathering import gather

LEVELS = ["eventual", "fifo", "optimistic", "causal", "total"]
EVENTS = 20


async def ready_to_publish(group: Group) -> None:
    """At level optimistic only owners of a ticket publish: ask for one and wait until it is there."""
    if group.level == "optimistic":
        await group.acquire_ticket()


@pytest.mark.parametrize("level", LEVELS)
def test_a_live_group_keeps_the_promises_of_its_level(level: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            join(0, data=tmp_path / "0", trace=tmp_path / "t") as a,
            join(1, data=tmp_path / "1", trace=tmp_path / "t", contacts=[a.address]) as b,
            join(2, data=tmp_path / "2", trace=tmp_path / "t", contacts=[a.address]) as c,
        ):
            settings = QUICK if level in ("eventual", "fifo") else {}
            groups = await asyncio.gather(
                *[node.open("alps", level, founders=[0, 1, 2], settings=settings) for node in (a, b, c)]
            )
            if level in ("eventual", "fifo", "optimistic"):
                for group in groups:
                    await group.gathered(3)
            await asyncio.gather(*map(ready_to_publish, groups))
            for number in range(EVENTS):
                for group in groups:
                    receipt = await group.publish(b"%d" % number)
                    await receipt.accepted()
            taken = [await take(group, 3 * EVENTS) for group in groups]
            if level == "total":
                assert [d.event for d in taken[0]] == [d.event for d in taken[1]] == [d.event for d in taken[2]]

    within(main())
    trace = gather([tmp_path / "t"], "alps", "live", "test")
    remembers = level in ("causal", "total")
    assert (trace.run.durable, trace.run.groups) == (remembers, {"alps": [0, 1, 2] if remembers else []})
    assert trace.run.parameters == by_name(LEVELS_BUILT[level].settings_from(settings_given(level)))
    verdicts = judge(trace)
    assert [(v.promise, v.sentence) for v in verdicts if v.outcome is Outcome.BROKEN] == []
    assert {v.promise for v in verdicts if v.holds} >= {"integrity", "no_duplicates", *CERTAIN.get(level, ())}


CERTAIN = {
    "causal": ("one_chain", "fifo", "causal", "agreement"), "total": ("one_chain", "strict_total", "agreement"),
    "fifo": ("fifo",),
}  # fmt: skip
"""What needs no true time: who is in a view is told."""


def settings_given(level: str) -> dict[str, Any]:
    return settings_of(level, [0, 1, 2], QUICK if level in ("eventual", "fifo") else {}, data=True)


def test_the_timed_merge_without_a_data_directory_says_what_it_needs() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            with pytest.raises(UsageError, match="counts the incarnations"):
                await node.open("alps", "total", order="timed")
            with pytest.raises(SettingError, match=r"delta is a setting of the timed merge, .* give order=timed"):
                await node.open("alps", "total", settings={"delta": 50})
            with pytest.raises(SettingError, match="at most 16 members, and 17 founders"):
                await node.open("alps", "total", founders=range(17))

    within(main())


def test_causal_groups_of_few_founders_or_none_are_living_unless_a_tree_is_asked_for() -> None:
    """Decision 0031."""
    for founders in (range(8), [70, 5, 900], []):
        few = settings_of("causal", founders, {})
        assert (few["spread"], few["membership"]) == ("mesh", "living")
    assert settings_of("causal", [70, 5, 900], {"f": 2})["processes"] == "5 70 900", "in the same order everywhere"
    for founders, given in ((range(17), {}), (range(8), {"f": 2}), (range(8), {"spread": "tree"})):
        settings = LEVELS_BUILT["causal"].settings_from(settings_of("causal", founders, given))
        assert (settings.variant.spread, settings.living.membership) == ("tree", "fixed")
    for given, complaint in (
        (
            {"membership": "fixed"},
            "members of a mesh join, leave and are removed; leave membership out, or take spread",
        ),
        ({"membership": "living", "spread": "tree"}, "a living group is a mesh of at most 16 members"),
    ):
        with pytest.raises(SettingError, match=complaint):
            settings_of("causal", range(8), given)


@pytest.mark.parametrize(
    ("level", "settings", "complaint"),
    [
        ("cbcast", {}, "level 'cbcast' is unknown; there are: eventual, .*causal"),
        ("barriers", {}, "level 'barriers' is unknown"),
        ("neighbourhood", {}, "level 'neighbourhood' is unknown"),
        ("fifo", {"view": "full"}, "view=full: only a simulator .* leave view out"),
        ("eventual", {"view": "full"}, "view=full: only a simulator"),
        ("optimistic", {"view": "full"}, "view=full: only a simulator"),
        ("optimistic", {"seeds": "", "allow_unsafe_liveness": True}, "seeds must name at least one peer"),
        ("causal", {"groups": "10 20;20 30"}, "groups=10 20;20 30: a live group is one group of all its founders"),
        ("causal", {"processes": "1 2 3"}, "processes=1 2 3: who the members are is said by founders"),
        ("causal", {"tree": "0,0,0"}, "the tree has 4 nodes, and 3 processes are listed|4 nodes, and tree_nodes is 3"),
    ],
)
def test_what_opens_live_works_live_and_the_rest_is_refused_at_the_door(
    level: str, settings: dict[str, object], complaint: str
) -> None:
    async def main() -> None:
        async with join(10) as node:
            with pytest.raises(UsageError, match=complaint):
                await node.open("alps", level, founders=[10, 20, 30], settings=settings)

    within(main())


@pytest.mark.parametrize("level", ["eventual", "fifo"])
def test_a_node_that_is_set_to_use_udp_gossips(level: str) -> None:
    async def main() -> None:
        async with nodes(3, settings=NetSettings(udp=True)) as started:
            groups = await open_all(started, level=level)
            await groups[0].publish(b"word")
            for group in groups:
                assert [each.payload for each in await take(group, 1)] == [b"word"]
            assert sum(node.live.counts["datagrams_sent"] for node in started) > 0
            with pytest.raises(SettingError, match="spread: this node is set to send over UDP, and only gossip goes"):
                await started[0].open("andes", level, settings={"spread": "direct"})
            causal = await started[0].open("board", "causal", founders=[1])
            await causal.publish(b"alone")

    within(main())


def test_who_runs_a_causal_group_otherwise_is_refused() -> None:
    async def main() -> None:
        async with join(0) as one:
            async with join(1, contacts=[one.address]) as two:
                await asyncio.gather(*[node.open("alps", "causal", founders=[0, 1]) for node in (one, two)])
            async with join(1, contacts=[one.address]) as two:
                with pytest.raises(UsageError, match="runs with spread=mesh at process 0, and with spread=tree here"):
                    await two.open("alps", "causal", founders=[0, 1], settings={"spread": "tree"})
            async with join(2, contacts=[one.address]) as three:
                with pytest.raises(SettingError, match="not one of the founders"):
                    await three.open("alps", "causal", founders=[0, 1], settings={"spread": "tree"})
                joined = await three.open("alps", "causal", founders=[0, 1])
                assert joined.members() == (0,), "who left is not there"

    within(main())


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_a_causal_member_that_is_closed_stays_one_and_comes_back_with_its_data(spread: str, tmp_path: Path) -> None:
    """What its application has taken is known to the others by then: nobody waits for its word."""

    async def main() -> None:
        async def opened(node: Node) -> Group:
            return await node.open("alps", "causal", founders=[0, 1], settings={"spread": spread})

        async with join(0, data=tmp_path / "0") as one:
            async with join(1, data=tmp_path / "1", contacts=[one.address]) as two:
                here, there = await asyncio.gather(opened(one), opened(two))
                receipt = await here.publish(b"before")
                assert [each.payload for each in await take(there, 1)] == [b"before"]
                await there.close()
                assert [each.payload for each in await take(here, 1)] == [b"before"]
                await asyncio.sleep(0.1)  # that it is away is known, and what it has taken still is
                await receipt.settled()
                there = await opened(two)
                assert there.position == 1, "it goes on where it was"
                await there.close()
            await here.publish(b"meanwhile")
            if spread == "tree":
                async with join(1, contacts=[one.address]) as stranger:
                    with pytest.raises(JoinError, match=r"its members are fixed; .* the data directory it had"):
                        await opened(stranger)
            async with join(1, data=tmp_path / "1", contacts=[one.address]) as two:
                there = await opened(two)
                await there.publish(b"after")
                assert {each.payload for each in await take(there, 2)} == {b"after", b"meanwhile"}
                assert [each.payload for each in await take(here, 2)] == [b"meanwhile", b"after"]

    within(main())


@pytest.mark.parametrize("level", ["eventual", "causal", "total"])
def test_members_can_be_waited_for_at_every_level(level: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with join(0, data=tmp_path / "0") as one, join(1, data=tmp_path / "1", contacts=[one.address]) as two:
            groups = await asyncio.gather(*[node.open("alps", level, founders=[0, 1]) for node in (one, two)])
            for group in groups:
                await group.gathered(2)
            assert [group.members() for group in groups] == [(1,), (0,)]
            with pytest.raises(JoinError, match="has 2 members"):
                await groups[0].gathered(3, timeout_s=0.1)

    within(main())
