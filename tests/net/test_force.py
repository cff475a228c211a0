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
from whence.errors import EventsLostError, JoinError, LeaveTimeoutError, OutcomeUnknownError, RemovedError, UsageError
from whence.net.membership import Removed
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
            await one.misses(2, 3)
            await one.group.force([1], DEADLINE_S)
            await one.sees(1)
            view = one.group.view()
            assert view is not None
            assert (view.generation, view.epoch) == (1, 1)
            (four,) = await made.start(4)
            await four.open()
            await one.sees(1, 4)

    within(main())


def test_who_is_not_named_and_runs_is_told_of_the_generation_and_not_what_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, two, three, four = await made.found(1, 2, 3, 4)
            await quiet([one, two, three, four])
            await one.group.force([1, 2], DEADLINE_S, despite_quorum=True)
            await two.sees(1, 2)
            for out in (three, four):
                assert out.reader is not None
                await out.reader
                told = out.events[-1]
                assert isinstance(told, Removed)
                assert (told.epoch, told.cut, told.is_known, told.generation) == (1, None, False, 1)
                forced = (
                    r"an operator forced the group .* generation 1, view 1: .* no longer known; open the group again"
                )
                with pytest.raises((RemovedError, EventsLostError), match=forced):  # it may not know what is settled
                    await out.group.publish(b"to nobody")
                await out.kill()

    within(main())


WRONG_SURVIVORS = {
    (): "this process, 1, must be a survivor itself",
    (2,): "this process, 1, must be a survivor itself",
    (1, 9): "process 9 is no member; these are: 1, 2, 3",
    (1, 2, 3): "nothing to force",
}
"""Mistakes that are told even where the group would not be forced anyway."""


def test_a_group_with_a_quorum_is_not_forced_unless_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, two, three = await made.found(1, 2, 3)
            served = await serve_status(one.node.live, tmp_path / "s")
            await three.kill()
            await one.misses(3)
            with pytest.raises(UsageError, match=r"has a quorum, because the voters 1, 2 answer.*whence remove"):
                await one.group.force([1], DEADLINE_S)
            asked = ["force", GROUP, "--survivors", "1,2", "--socket", str(tmp_path / "s"), "--yes"]
            assert await asyncio.to_thread(command, asked) == 2
            assert "has a quorum, because the voters 1, 2 answer" in capsys.readouterr().err
            for survivors, wrong in WRONG_SURVIVORS.items():
                with pytest.raises(UsageError, match=wrong):
                    await one.group.force(survivors, DEADLINE_S)
                listed = ",".join(map(str, survivors)) or "2"
                asked_wrong = ["force", GROUP, "--survivors", listed, "--socket", str(tmp_path / "s"), "--yes"]
                assert await asyncio.to_thread(command, asked_wrong) == 2
                assert wrong in capsys.readouterr().err
            view = one.group.view()
            assert view is not None
            assert view.generation == 0
            assert await asyncio.to_thread(command, [*asked, "--despite-quorum"]) == 0
            await two.sees(1, 2)
            served.close()

    within(main())


@pytest.mark.parametrize("first", ["force", "leave"])
def test_force_and_leave_never_go_on_together_at_one_member(first: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            one, two, three = await made.found(1, 2, 3, remove_after_s=float("inf"))
            await two.kill()
            await three.kill()
            await one.misses(2, 3)
            if first == "force":
                with pytest.raises(OutcomeUnknownError, match="waits for 2"):
                    await one.group.force([1, 2], 0.1)
                with pytest.raises(UsageError, match="is being forced by this process, which must stay"):
                    await one.group.leave(DEADLINE_S)
            else:
                with pytest.raises(LeaveTimeoutError):
                    await one.group.leave(0.1)
                with pytest.raises(UsageError, match=r"is leaving group 'alps'.*at a member that stays"):
                    await one.group.force([1], DEADLINE_S)
            view = one.group.view()
            assert view is not None
            assert (view.generation, len(view.members), view.leaving) == (0, 3, first == "leave")

    within(main())


def test_a_survivor_that_does_not_answer_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            one, two, three = await made.found(1, 2, 3)
            await two.kill()
            await three.kill()
            await one.misses(2, 3)
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
            await one.misses(2, 3)
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
            assert [member.joined for member in view.members] == [0, 0, 2], "view 1 is the one without it"

    within(main())
