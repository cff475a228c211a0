"""Living groups over sockets: members join under load, leave, die, are removed and replaced, and no promise is lost."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, fill_disk, within
from whence.api.group import Group
from whence.api.node import Node, join
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.cli.app import run as command
from whence.errors import (
    EventsLostError,
    JoinTimeoutError,
    OutcomeUnknownError,
    QuorumError,
    RemovedError,
    SettingError,
    StorageError,
    UsageError,
)
from whence.net import living_opening, wait_log
from whence.net.membership import Removed, View
from whence.net.settings import NetSettings
from whence.net.status import status
from whence.net.status_server import serve_status
from whence.trace.gathering import gather

CAUSAL: dict[str, Any] = {"level": "causal"}
STRICT: dict[str, Any] = {"level": "total"}
BOTH = pytest.mark.parametrize("kind", [CAUSAL, STRICT], ids=["causal", "total"])

GROUP = "alps"

ROUNDS = count()


class Process:
    """A process of a test: a node, its group, and an application that takes everything."""

    def __init__(self, cluster: "Cluster", pid: int) -> None:
        self.cluster, self.pid = cluster, pid
        self.taken: list[bytes] = []
        self.events: list[View | Removed] = []
        self.took = asyncio.Event()
        self.node: Node
        self.group: Group
        self.reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the node; it knows any other."""
        contacts = [other.node.address for other in self.cluster.up.values()][:1]
        data = self.cluster.data_of(self.pid) if self.cluster.durable else None
        self.node = join(
            self.pid, contacts=contacts, data=data, trace=self.cluster.traces / str(self.pid), status=False
        )
        await self.node.__aenter__()
        self.cluster.up[self.pid] = self

    async def open(self, **options: Any) -> Group:
        """Open the group and begin to take what it delivers."""
        self.group = await self.node.open(GROUP, **{"timeout_s": DEADLINE_S, **self.cluster.kind, **options})
        self.reader = asyncio.create_task(self._take())
        return self.group

    async def _take(self) -> None:
        async for event in self.group.events():
            if isinstance(event, View | Removed):
                self.events.append(event)
            else:
                self.taken.append(event.payload)
            self.took.set()

    async def has(self, *payloads: bytes) -> None:
        """Wait until the application has all of these."""
        while not all(payload in self.taken for payload in payloads):
            self.took.clear()
            await self.took.wait()

    async def sees(self, *pids: int) -> None:
        """Wait until the member is in a view of exactly these."""
        await self.group._driver.until(lambda: self.group._driver.view_pids == pids)

    async def misses(self, *pids: int) -> None:
        """Wait until the member suspects all of these."""

        def suspected() -> list[int]:
            view = self.group.view()
            return [] if view is None else [member.pid for member in view.members if member.suspected]

        await self.group._driver.until(lambda: all(pid in suspected() for pid in pids))

    async def kill(self) -> None:
        """Stop without a word to anybody."""
        live, self.node._live = self.node.live, None
        self.node.groups.clear()
        del self.cluster.up[self.pid]
        if self.reader is not None:
            self.reader.cancel()
        await live.close()

    async def stop(self) -> None:
        """Close the node as an application does, once everything that was handed out is taken."""
        del self.cluster.up[self.pid]
        self.group.take_in_hand()
        await self.node.close()
        if self.reader is not None:
            await asyncio.gather(self.reader, return_exceptions=True)


class Cluster:
    """The processes of a test, in one loop."""

    def __init__(self, tmp: Path, kind: dict[str, Any], *, durable: bool) -> None:
        self.tmp, self.kind, self.durable = tmp, kind, durable
        self.traces = tmp / "traces"
        self.up: dict[int, Process] = {}

    def data_of(self, pid: int) -> Path:
        return self.tmp / "data" / str(pid)

    async def start(self, *pids: int) -> list[Process]:
        """Start processes."""
        started = [Process(self, pid) for pid in pids]
        for process in started:
            await process.start()
        return started

    async def found(self, *pids: int, **options: Any) -> list[Process]:
        """Start processes that begin the group together."""
        started = await self.start(*pids)
        await asyncio.gather(*[process.open(founders=pids, **options) for process in started])
        return started

    async def come_back(self, *pids: int) -> list[Process]:
        """Start processes that were members before, and name nobody."""
        started = await self.start(*pids)
        await asyncio.gather(*[process.open() for process in started])
        return started

    def judge(self) -> None:
        """Gather the traces of all, and find that every promise holds."""
        directories = sorted(self.traces.iterdir())
        trace = gather(directories, GROUP, "run", "0", one_clock=True)
        assert trace.run.parameters["membership"] == "living"
        verdicts = {verdict.promise: verdict for verdict in judge(trace)}
        broken = [verdict for verdict in verdicts.values() if verdict.outcome is Outcome.BROKEN]
        assert not broken, broken
        for promise in ("one_chain", "causal", "agreement", "no_duplicates"):
            assert verdicts[promise].outcome is Outcome.HOLDS, verdicts[promise]


@asynccontextmanager
async def cluster(
    tmp: Path, kind: dict[str, Any], *, durable: bool = False, heals: bool = True
) -> AsyncIterator[Cluster]:
    """Make a cluster; at the end, if its group still works, it is quiet, ends without a word, and is judged."""
    made = Cluster(tmp, kind, durable=durable)
    try:
        yield made
        if heals:
            await quiet(list(made.up.values()))
    finally:
        for process in list(made.up.values()):
            await process.kill()
    if heals:
        made.judge()


async def quiet(processes: Sequence[Process]) -> None:
    """Wait until everybody has what anybody published, and what was published after that."""
    for _ in range(2):
        number = next(ROUNDS)
        for process in processes:
            await process.group.publish(b"round %d of %d" % (number, process.pid))
        for process in processes:
            await process.has(*[b"round %d of %d" % (number, other.pid) for other in processes])


class Load:
    """Publishes at some processes until it is told to stop."""

    def __init__(self, *processes: Process) -> None:
        self._tasks = [asyncio.create_task(self._publish(process)) for process in processes]

    async def _publish(self, process: Process) -> None:
        for number in range(1_000_000):
            await process.group.publish(b"%d of %d" % (number, process.pid))
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        """Stop; raise what went wrong."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        wrong = [each for each in results if isinstance(each, Exception)]
        assert not wrong, wrong


@BOTH
@pytest.mark.parametrize("durable", [False, True], ids=["volatile", "durable"])
def test_a_newcomer_joins_under_load_and_a_member_leaves_and_nobody_stops(
    kind: dict[str, Any], durable: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=durable) as made:
            one, two, three = await made.found(1, 2, 3)
            load = Load(one, two)
            (four,) = await made.start(4)
            await four.open()
            await one.group.publish(b"after four was live")
            await four.has(b"after four was live")
            await three.group.leave(DEADLINE_S)
            await one.sees(1, 2, 4)
            await load.stop()
            seen = [event for event in three.events if isinstance(event, View)]
            assert seen[1] == View(1, (1, 2, 3, 4), (4,), ())
            assert all(3 in view.members for view in seen), "who leaves sees no view without itself"
            await three.kill()
            await four.sees(1, 2, 4)
            views = [event for event in four.events if isinstance(event, View)]
            assert [view.epoch for view in views] == list(range(1, 1 + len(views))), (
                "views with new voters may lie between"
            )
            assert (views[-1].members, [view.removed for view in views if view.removed]) == ((1, 2, 4), [(3,)])

    within(main())


@BOTH
def test_a_dead_member_is_removed_by_hand_and_comes_again_under_its_number(
    kind: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind) as made:
            one, two, three = await made.found(1, 2, 3)
            load = Load(one, two)
            await three.kill()
            await one.group.remove(3, DEADLINE_S)
            await two.sees(1, 2)
            (again,) = await made.start(3)
            await again.open()
            await one.sees(1, 2, 3)
            await load.stop()

    within(main())


@BOTH
def test_a_process_that_comes_again_without_a_journal_replaces_its_earlier_life_by_itself(
    kind: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind) as made:
            one, two, three = await made.found(1, 2, 3)
            await one.group.publish(b"before")
            await three.has(b"before")
            await three.kill()
            (again,) = await made.start(3)
            await again.open(founders=[1, 2, 3])
            view = one.group.view()
            assert view is not None
            assert {member.pid: member.joined for member in view.members} == {1: 0, 2: 0, 3: view.epoch}
            await two.sees(1, 2, 3)

    within(main())


def test_a_silent_member_without_a_journal_is_removed_after_a_while(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, two, three = await made.found(1, 2, 3, remove_after_s=1)
            await three.kill()
            await one.sees(1, 2)
            await two.sees(1, 2)

    within(main())


def test_a_member_whose_disk_is_full_says_so_and_is_removed_while_its_process_runs_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At `total` everybody waits for it: its connections are open, and nobody but it knows."""

    async def main() -> None:
        async with cluster(tmp_path, STRICT, durable=True) as made:
            one, two, three = await made.found(1, 2, 3, remove_after_s=1)
            served = await serve_status(three.node.live, tmp_path / "s")
            fill_disk(three.node, GROUP)
            with pytest.raises(StorageError, match="No space left"):
                await three.group.publish(b"lost", until="stored")
            assert await asyncio.to_thread(command, ["members", GROUP, "--socket", str(tmp_path / "s")]) == 2
            assert await asyncio.to_thread(command, ["top", "--once", "--socket", str(tmp_path / "s")]) == 0
            await one.sees(1, 2)
            await two.sees(1, 2)
            await one.group.publish(b"on")
            await two.has(b"on")
            served.close()
            await three.kill()

    within(main())
    printed = capsys.readouterr()
    assert "process 3 is out of group 'alps'" in printed.err
    assert "No space left" in printed.err
    assert "ended:" in printed.out


@BOTH
def test_after_a_restart_of_all_the_group_goes_on_by_itself(kind: dict[str, Any], tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            (four,) = await made.start(4)
            await four.open()
            await quiet([one, two, three, four])
            for process in (one, two, three, four):
                await process.kill()
            one, two, three, four = await made.come_back(1, 2, 3, 4)
            await one.group.publish(b"again")
            for process in (one, two, three, four):
                await process.has(b"again")

    within(main())


@BOTH
def test_one_member_is_away_and_gets_everything_when_it_comes_back(kind: dict[str, Any], tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            await three.stop()
            await one.group.publish(b"meanwhile")
            (three,) = await made.come_back(3)
            await three.has(b"meanwhile")
            view = three.group.view()
            assert view is not None
            assert [member.joined for member in view.members] == [0, 0, 0], "it is the same member"

    within(main())


@BOTH
def test_a_wiped_directory_joins_anew_and_replaces_the_member_it_was(kind: dict[str, Any], tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            await three.kill()
            shutil.rmtree(made.data_of(3))
            (three,) = await made.start(3)
            await three.open(founders=[1, 2, 3])
            view = three.group.view()
            assert view is not None
            assert [member.joined for member in view.members[:2]] == [0, 0]
            assert view.members[2].joined > 0

    within(main())


def test_machines_may_be_wiped_one_after_another_each_once_the_one_before_is_in(tmp_path: Path) -> None:
    """A newcomer is in when it votes: else two voters were left, of which the first must not be wiped next."""

    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True) as made:
            await quiet(await made.found(1, 2, 3))
            for pid in (1, 2, 3):
                await made.up[pid].kill()
                shutil.rmtree(made.data_of(pid))
                (again,) = await made.start(pid)
                await again.open()
                view = again.group.view()
                assert view is not None
                assert not view.will_vote
                assert [member.voter for member in view.members] == [True] * 3

    within(main())


def test_a_newcomer_that_cannot_vote_yet_is_in_all_the_same_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(living_opening, "VOTE_S", 0.1)

    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True) as made:
            one, _, three = await made.found(1, 2, 3)
            three.group.take_in_hand()
            assert three.reader is not None
            three.reader.cancel()
            await one.group.publish(b"not taken yet")
            await one.has(b"not taken yet")
            (four,) = await made.start(4)
            await four.open()
            view = four.group.view()
            assert view is not None
            assert view.will_vote
            assert "does not vote yet" in caplog.text
            three.reader = asyncio.create_task(three._take())
            await three.has(b"not taken yet")

    within(main())


def test_who_left_may_join_again_with_the_same_directory(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            await three.group.leave(DEADLINE_S)
            await one.group.publish(b"not for three")
            await three.open()
            await one.group.publish(b"for three again")
            await three.has(b"for three again")
            assert b"not for three" not in three.taken
            await three.kill()
            (three,) = await made.come_back(3)
            view = three.group.view()
            assert view is not None
            assert [member.joined for member in view.members] == [0, 0, 2]

    within(main())


def test_the_removed_learn_the_verdict_and_publish_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, two, three = await made.found(1, 2, 3)
            receipt = await three.group.publish(b"in time")
            event = await receipt.settled(DEADLINE_S)
            await one.group.remove(3, DEADLINE_S)
            assert three.reader is not None
            await three.reader
            assert three.events[-1] == Removed(1, event)
            with pytest.raises((RemovedError, EventsLostError)):
                await three.group.publish(b"too late")
            with pytest.raises(RemovedError, match="removed by view 1") as told:
                await three.group.next(DEADLINE_S)
            assert told.value.covers(event)
            assert await receipt.settled() == event
            await two.group.publish(b"goes on")
            await three.kill()

    within(main())


def test_of_two_members_the_second_cannot_remove_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            one, two = await made.found(1, 2)
            await one.kill()
            with pytest.raises(QuorumError, match="without the voters 1") as refused:
                await two.group.remove(1, DEADLINE_S)
            assert refused.value.missing == (1,)
            with pytest.raises(UsageError, match="process 7 is no member of group"):
                await two.group.remove(7)
            with pytest.raises(UsageError, match=r"does not remove itself .* leave it"):
                await two.group.remove(2)
            with pytest.raises(UsageError, match="no process named 'nobody' was met here"):
                await two.group.remove("nobody")
            with pytest.raises(UsageError, match="survivors are different names"):
                await two.group.force("two")

    within(main())


def test_a_removal_that_cannot_be_decided_says_who_is_missing(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            one, two, three = await made.found(1, 2, 3)
            await three.kill()
            await two.kill()
            with pytest.raises((QuorumError, OutcomeUnknownError), match="2"):
                await one.group.remove(3, 2.0)

    within(main())


@BOTH
def test_without_founders_the_first_that_comes_begins_the_group_and_others_join(
    kind: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind) as made:
            one, two, three = await made.start(1, 2, 3)
            await asyncio.gather(one.open(), two.open(), three.open(create=True))
            for process in (one, two, three):  # in the order in which they were added
                driver = process.group._driver
                await driver.until(lambda driver=driver: sorted(driver.view_pids) == [1, 2, 3])  # type: ignore[misc]

    within(main())


def test_who_is_told_not_to_begin_the_group_waits_for_a_member_and_holds_nobody_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, two = await made.start(1, 2)
            with pytest.raises(JoinTimeoutError, match="told not to begin it"):
                await one.open(timeout_s=0.5, create=False)
            await asyncio.gather(one.open(create=False), two.open())
            view = one.group.view()
            assert view is not None
            joined = {member.pid: member.joined for member in view.members}
            assert joined.keys() == {1, 2}
            assert joined[2] == 0 < joined[1]

    within(main())


def test_a_contact_that_does_not_answer_is_waited_for_unless_the_group_is_to_be_begun_anyway() -> None:
    async def main() -> None:
        async with join(7) as gone:
            address = gone.address
        async with join(1, contacts=[address], status=False, settings=NetSettings(alone=True)) as node:
            with pytest.raises(JoinTimeoutError, match="it waits for contact"):
                await node.open(GROUP, "causal", timeout_s=0.5)
            group = await node.open(GROUP, "causal", create=True)
            assert group.members() == ()

    within(main())


@BOTH
def test_a_process_that_began_the_group_alone_comes_back_to_it(kind: dict[str, Any], tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            for words in ((b"first",), (b"first", b"second")):
                (one,) = await made.start(1)
                await one.open()
                await one.group.publish(words[-1], until="stored")
                await one.has(words[-1])
                assert one.group.position == len(words)
                await one.stop()
            await made.come_back(1)

    within(main())


def test_opening_that_takes_too_long_names_whose_word_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wait_log, "LONG_WAIT_S", 0.5)

    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            await three.kill()
            (four,) = await made.start(4)
            with pytest.raises(JoinTimeoutError, match="3, which must answer before anybody is added"):
                await four.open(timeout_s=2)
            assert f"group {GROUP!r} waits for 3, which must answer before anybody is added" in caplog.text
            await four.node.close()
            del made.up[4]
            await made.come_back(3)
            (four,) = await made.start(4)
            await four.open()

    within(main())


def test_an_operator_lists_the_members_and_removes_a_dead_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, two, three = await made.found(1, 2, 3)
            served = await serve_status(one.node.live, tmp_path / "s")
            await three.kill()
            assert await asyncio.to_thread(command, ["remove", GROUP, "3", "--socket", str(tmp_path / "s")]) == 0
            await two.sees(1, 2)
            assert await asyncio.to_thread(command, ["members", GROUP, "--json", "--socket", str(tmp_path / "s")]) == 0
            assert await asyncio.to_thread(command, ["remove", GROUP, "3", "--socket", str(tmp_path / "s")]) == 0
            assert await asyncio.to_thread(command, ["remove", GROUP, "9", "--socket", str(tmp_path / "s")]) == 2
            assert await asyncio.to_thread(command, ["members", "andes", "--socket", str(tmp_path / "s")]) == 2
            served.close()

    within(main())
    said = capsys.readouterr()
    listed = json.loads(said.out.splitlines()[-1])
    assert [member["pid"] for member in listed["members"]] == [1, 2]
    assert "process 3 is no member of group 'alps' any more: it left or was removed before" in said.err
    assert "process 9 is no member of group 'alps'; these are: 1, 2" in said.err


def test_a_node_that_was_removed_tells_its_operator_so_although_it_may_not_join_anew_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It had shown the view of before, in which nobody answers."""

    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True, heals=False) as made:
            one, two, three, four = await made.found(1, 2, 3, 4)
            await quiet([one, two, three, four])
            await four.kill()
            await one.group.remove(4, DEADLINE_S)
            for process in (two, three):
                await process.kill()
            (four,) = await made.start(4)
            opening = asyncio.create_task(four.open())
            while not any(group["failure"] and group["waits_for"] for group in status(four.node.live)["groups"]):
                await asyncio.sleep(0.05)
            served = await serve_status(four.node.live, tmp_path / "s")
            for order in (
                ["members", GROUP],
                ["leave", GROUP],
                ["remove", GROUP, "2"],
                ["force", GROUP, "--survivors", "4", "--yes"],
                ["top", "--once"],
            ):
                shows = 0 if order[0] == "top" else 2
                assert await asyncio.to_thread(command, [*order, "--socket", str(tmp_path / "s")]) == shows, order
            served.close()
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)

    within(main())
    said = capsys.readouterr()
    assert said.err.count("is out of group 'alps': this member was removed by view 1") == 4
    assert said.err.count("; it waits for enough of the voters 2, 3") == 4
    assert "ended: this member" in " ".join(said.out.split())


def test_all_may_leave_at_once_and_the_group_ends(tmp_path: Path) -> None:
    async def main() -> None:
        made = Cluster(tmp_path, CAUSAL, durable=False)
        started = await made.found(1, 2, 3)
        await asyncio.gather(*[process.group.leave(DEADLINE_S) for process in started])
        for process in started:
            await process.kill()

    within(main())


@pytest.mark.parametrize("pid", [9.0, "2", None, -1, True])
def test_a_member_is_removed_by_its_name_or_number_and_nothing_else(pid: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=False) as made:
            one, _ = await made.found(1, 2)
            with pytest.raises(UsageError, match=r"given by its name or its pid|no process named '2'"):
                await one.group.remove(pid)

    within(main())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"level": "causal", "membership": "Living"}, "membership must be fixed or living"),
        ({"level": "causal", "membership": "fixed"}, "the members of a mesh join, leave and are removed"),
        ({"level": "total", "order": "loose"}, "order must be timed or strict"),
        ({"level": "total", "order": 7}, "order must be timed or strict"),
    ],
)
def test_what_is_neither_is_named_when_the_group_opens(given: dict[str, Any], words: str) -> None:
    async def main() -> None:
        async with join(1) as node:
            with pytest.raises(SettingError, match=words):
                await node.open("wrong", **given)

    within(main())
