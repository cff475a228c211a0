"""Force over sockets, groups of one name, and members that were removed while they were away."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from tests.net.live import DEADLINE_S, within
from tests.net.test_living import BOTH, CAUSAL, GROUP, cluster, quiet
from whence.api.node import join
from whence.cli.app import run as command
from whence.errors import JoinError, OutcomeUnknownError, RemovedError, UsageError
from whence.net.status_server import serve_status


@BOTH
@pytest.mark.parametrize("durable", [False, True], ids=["volatile", "durable"])
def test_a_survivor_goes_on_without_a_quorum_and_others_join_it(
    kind: dict[str, str], durable: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=durable) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            await two.kill()
            await three.kill()
            await one.group.force([1], DEADLINE_S)
            await one.sees(1)
            view = one.group.view()
            assert view is not None
            assert (view.generation, view.epoch) == (1, 1)
            (four,) = await made.start(4)
            await four.open()
            await one.sees(1, 4)

    within(main())


def test_who_is_not_named_and_runs_is_out_and_does_not_learn_what_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            await one.group.force([1, 2], DEADLINE_S)
            await two.sees(1, 2)
            with pytest.raises(RemovedError, match="no longer known") as told:
                await three.group.next(DEADLINE_S)
            assert not told.value.is_known
            await three.kill()

    within(main())


def test_a_survivor_that_does_not_answer_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            one, two, three = await made.found(1, 2, 3)
            await two.kill()
            await three.kill()
            with pytest.raises(OutcomeUnknownError, match="waits for 2: name only"):
                await one.group.force([1, 2], 1.0)
            with pytest.raises(UsageError, match="survivor itself"):
                await one.group.force([2], 1.0)
            with pytest.raises(UsageError, match="no process named 'one' was met"):
                await one.group.force(["one"], 1.0)

    within(main())


def test_an_operator_is_told_the_risk_before_a_group_is_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "s")

    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, two, three = await made.found(1, 2, 3)
            served = await serve_status(one.node.live, tmp_path / "s")
            await two.kill()
            await three.kill()
            asked = ["force", GROUP, "--survivors", "1", "--socket", path]
            assert await asyncio.to_thread(command, asked) == 2
            assert "Nothing is promised across this" in capsys.readouterr().err
            assert await asyncio.to_thread(command, [*asked, "--yes"]) == 0
            assert await asyncio.to_thread(command, ["members", GROUP, "--json", "--socket", path]) == 0
            assert await asyncio.to_thread(command, ["force", GROUP, "--survivors", "one", "--socket", path]) == 2
            served.close()

    within(main())
    listed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert listed["generation"] == 1
    assert [member["pid"] for member in listed["members"]] == [1]


def test_groups_of_one_name_that_were_begun_separately_never_mix(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with join(1, status=False) as one, join(2, status=False) as two:
            here = await one.open(GROUP, **CAUSAL, create=True)
            there = await two.open(GROUP, **CAUSAL, create=True)
            async with join(3, contacts=[one.address, two.address], status=False) as three:
                while not all(three.live.peers.is_connected(pid) for pid in (1, 2)):
                    await asyncio.sleep(0.01)
                with pytest.raises(JoinError, match=r"two groups named 'alps'.*choose which is to stay"):
                    await three.open(GROUP, **CAUSAL, timeout_s=DEADLINE_S)
                for group, member in ((here, one), (there, two)):
                    await group.publish(b"here")
                    delivery = await group.next(DEADLINE_S)
                    assert delivery.event.pid == member.pid
                    view = group.view()
                    assert view is not None
                    assert [each.pid for each in view.members] == [member.pid]

    with caplog.at_level(logging.ERROR):
        within(main())


@BOTH
def test_who_was_removed_while_it_was_away_does_not_open_in_its_old_view(kind: dict[str, str], tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            await three.kill()
            await one.group.remove(3, DEADLINE_S)
            (three,) = await made.start(3)
            await three.open()
            assert isinstance(three.group.removed_while_away, RemovedError)
            await one.sees(1, 2, 3)
            view = three.group.view()
            assert view is not None
            assert [member.joined for member in view.members] == [0, 0, view.epoch]

    within(main())
