"""The doors of living groups: what is wrong is named as it was given, what takes long says what it waits for and what
to do, and defaults do not get in each other's way."""

import asyncio
import inspect
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.net.live import DEADLINE_S, within
from tests.net.test_living import BOTH, CAUSAL, GROUP, STRICT, cluster, quiet
from whence import blocking
from whence.api.node import Node, join
from whence.cli.app import run as command
from whence.cli.top import status_page
from whence.core.views import leader
from whence.core.views.settings import LIVE_VIEWS, REMOVE_AFTER_NS
from whence.errors import (
    ClosedError,
    EventsLostError,
    JoinTimeoutError,
    LeaveTimeoutError,
    NotMemberError,
    RemovedError,
    UsageError,
    WhenceError,
)
from whence.net import living_opening
from whence.net.membership import View
from whence.net.peers import PeerTable
from whence.net.status import status
from whence.net.status_client import Leave, send_request
from whence.net.status_server import serve_status

NEVER_REMOVED: dict[str, Any] = {"remove_after_s": float("inf")}


def test_a_dead_member_is_removed_long_before_those_who_wait_for_it_give_up() -> None:
    patience = inspect.signature(Node.open).parameters
    noticed_and_removed_s = (REMOVE_AFTER_NS + LIVE_VIEWS["suspect_ns"]) / 1e9
    for name in ("publish_wait_s", "timeout_s"):
        assert 2 * noticed_and_removed_s < patience[name].default, name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"level": "fifo", "membership": "living"},
            "membership is a setting of .*causal.* at level fifo: leave it out",
        ),
        ({"level": "fifo", "remove_after_s": 5}, "remove_after_s is a setting of .*causal.* at level fifo"),
        ({"level": "fifo", "order": "strict"}, "'?order'? is"),
        ({"level": "fifo", "create": True}, "create is for groups whose members change by views"),
        ({"level": "eventual", "create": True}, "create is for groups whose members change by views"),
        ({**CAUSAL, "remove_after_s": 0}, "remove_after_s is a number of seconds above 0, or inf for never, not 0"),
        ({**CAUSAL, "remove_after_s": True}, "remove_after_s is a number of seconds .*, not True"),
        ({**CAUSAL, "remove_after_s": "5"}, "remove_after_s is a number of seconds .*, not the text '5'"),
        ({**STRICT, "lag_max_s": "5"}, "lag_max_s is a number of seconds .*, not the text '5'"),
        ({**CAUSAL, "remove_after_s": 1e-9}, "remove_after_s is at least a microsecond .*, not 1e-09"),
        ({**CAUSAL, "settings": {"lag_max_s": "1e-9"}}, "lag_max_s is at least a microsecond .*, not '1e-9'"),
        ({**CAUSAL, "remove_after_s": -1}, "remove_after_s is a number of seconds .*, not -1"),
        ({**CAUSAL, "remove_after_s": float("nan")}, "remove_after_s is a number of seconds .*, not nan"),
        ({**CAUSAL, "remove_after_s": 10**5000}, "remove_after_s is a number of seconds .*, not more than 10"),
        ({**STRICT, "remove_after_s": "soon"}, "remove_after_s is a number of seconds .*, not the text 'soon'"),
        ({**CAUSAL, "settings": {"remove_after": 5}}, "no setting is called 'remove_after'; did you mean remove_after"),
        ({**CAUSAL, "settings": {"keeps": "all"}}, "no setting is called 'keeps'; did you mean keep"),
        ({**CAUSAL, "timeout_s": True}, "timeout_s is a number of seconds"),
        ({**CAUSAL, "flush_s": 1e9}, "flush_s is a number of seconds from 0 to 60, not 1000000000.0"),
        ({**CAUSAL, "inbox_events_max": True}, "inbox_events_max is a whole number from 1 on, not True"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_given_in_one_sentence(given: dict[str, Any], words: str) -> None:
    async def main() -> None:
        async with join(1, status=False) as node:
            with pytest.raises(UsageError, match=words) as refused:
                await node.open(GROUP, **given)
            assert len(str(refused.value)) < 200, "no list of everything else"
            assert "_ns" not in str(refused.value) or "did you mean" in str(refused.value)

    within(main())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"certificate": 5, "key": 5, "authority": 5}, "certificate is the path of a file, as text .*, not 5"),
        ({"trace": __file__}, "trace is a directory, and .* is none"),
        ({"data": __file__}, "data is a directory, and .* is none"),
        ({"data": 7}, "data is a directory, as text .*, not 7"),
    ],
)
def test_a_wrong_path_is_refused_before_anything_starts(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        join(1, **given)


def test_without_a_directory_for_its_status_socket_a_node_runs_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a container whose file systems are all read-only."""

    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory")

    async def main() -> None:
        async with join(1) as node:
            await node.open(GROUP, level="fifo")

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with caplog.at_level("WARNING"):
        within(main())
    assert "whence top cannot look at this process" in caplog.text


@pytest.mark.parametrize("name", ["\x00", "a\nb", "\x1b[31m", "\u202e", "\ud800"])
def test_the_name_of_a_group_can_be_printed(name: str) -> None:
    async def main() -> None:
        async with join(1, status=False) as node:
            with pytest.raises(UsageError, match="a group's name is text"):
                await node.open(name)
            await node.open("les Alpes, été 🏔")

    within(main())


def test_times_may_be_given_in_seconds_wherever_settings_are(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, two, three = await made.found(1, 2, 3, settings={"remove_after_s": "0.5"})
            await three.kill()
            await one.sees(1, 2)
            await two.sees(1, 2)

    within(main())


@BOTH
def test_a_call_that_means_nothing_here_is_refused_in_one_sentence(
    kind: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would wait for ever, or blame something else."""

    async def main() -> None:
        async with join(1, status=tmp_path / "s") as node:
            group = await node.open(GROUP, **kind, create=True)
            with pytest.raises(UsageError, match="no event of group 'alps' is ever late: only order=\"timed\""):
                group.late()
            with pytest.raises(UsageError, match=f"level {kind['level']} has no tickets"):
                group.declare_dead("nobody", 1)
            with pytest.raises(UsageError, match="count is a whole number from 1 on, not True"):
                await group.gathered(True)
            declared = ["declare-dead", "nobody:1", "--group", GROUP, "--socket", str(tmp_path / "s")]
            assert await asyncio.to_thread(command, declared) == 2

    within(main())
    assert f"runs at level {kind['level']}, which has no tickets" in capsys.readouterr().err


# --- leaving ---


def test_leaving_that_takes_long_says_whom_it_waits_for_goes_on_and_is_finished_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            await three.kill()
            await one.group.publish(b"not taken by three")
            with pytest.raises(LeaveTimeoutError, match=r"goes on leaving, .*waits for 3 to take what was published"):
                await one.group.leave(1.0)
            view = one.group.view()
            assert view is not None
            assert view.leaving
            with pytest.raises(NotMemberError, match="leaving group"):
                await one.group.publish(b"too late")
            await two.group.publish(b"still for one")
            await one.has(b"still for one")
            await two.group.remove(3, DEADLINE_S)
            await one.group.leave(DEADLINE_S)
            await two.sees(2)
            await one.open()
            await two.sees(2, 1)

    within(main())


@pytest.mark.parametrize("how", ["Group.leave", "whence leave"])
@BOTH
def test_who_is_leaving_is_refused_at_once_whichever_way_it_publishes(
    kind: dict[str, Any], how: str, tmp_path: Path
) -> None:
    """A receipt for what cannot be published any more would be a promise that nobody keeps."""

    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True, heals=False) as made:
            one, two = await made.found(1, 2)
            served = await serve_status(one.node.live, tmp_path / "s")
            await two.kill()  # so that it goes on leaving
            accepted = await one.group.publish(b"in time")
            leaving: asyncio.Future[None] = asyncio.ensure_future(asyncio.sleep(0))
            if how == "Group.leave":
                leaving = asyncio.ensure_future(one.group.leave(0.2))
                await asyncio.sleep(0)
            else:
                await send_request(tmp_path / "s", Leave(GROUP, "for good"))
            with pytest.raises(NotMemberError, match="this member is leaving group 'alps'"):
                one.group.publish_nowait(b"too late")
            for publishing in (one.group.publish(b"too late"), one.group.publish_many([b"too late"])):
                with pytest.raises(NotMemberError, match="this member is leaving group 'alps'"):
                    await publishing
            await accepted.accepted()
            await asyncio.wait([leaving])
            assert isinstance(leaving.exception(), LeaveTimeoutError | None)
            assert one.group.lost == 0
            served.close()

    within(main())


def test_who_leaves_beside_a_dead_member_is_told_to_remove_that_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True, heals=False) as made:
            one, two = await made.found(1, 2)
            served = await serve_status(one.node.live, tmp_path / "s")
            await two.kill()
            await one.misses(2)
            words = ["leave", GROUP, "--socket", str(tmp_path / "s"), "--timeout", "0.3"]
            assert await asyncio.to_thread(command, words) == 2
            with pytest.raises(LeaveTimeoutError, match="waits for 2, silent at present, to come back or be removed"):
                await one.group.leave(0.1)
            served.close()

    within(main())
    told = capsys.readouterr().err
    assert "let go of 1; this process is leaving; waits for 2; remove those that are gone for good" in told


def test_a_group_that_is_closed_instead_of_left_says_so_to_whoever_waits(tmp_path: Path) -> None:
    """With a data directory a closed member is still one; nobody may take that for having left."""

    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True, heals=False) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            await three.kill()
            await one.group.publish(b"not taken by three")
            leaving = asyncio.create_task(one.group.leave(DEADLINE_S))
            while not ((view := one.group.view()) is not None and view.leaving):
                await asyncio.sleep(0.01)
            await one.group.close()
            with pytest.raises(ClosedError, match="was closed here, not left"):
                await leaving
            closing = asyncio.create_task(two.group.close())
            await asyncio.sleep(0)
            with pytest.raises(ClosedError, match="was closed here, not left"):
                await two.group.leave(DEADLINE_S)
            await closing

    within(main())


def test_a_member_that_cannot_leave_may_be_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            one, two, three = await made.found(1, 2, 3, **NEVER_REMOVED)
            await two.kill()
            await three.kill()
            for _ in range(2):
                with pytest.raises(TimeoutError) as told:
                    await one.group.leave(0.3)
                assert isinstance(told.value, WhenceError)
            await one.group.close()
            assert GROUP not in one.node.groups

    within(main())


# --- closing and opening again ---


@BOTH
def test_a_durable_member_that_was_closed_opens_again_in_the_same_process(kind: dict[str, Any], tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            for number in range(3):
                await three.group.close()
                assert three.reader is not None
                await three.reader
                await one.group.publish(b"meanwhile %d" % number)
                await three.open()
                await three.has(b"meanwhile %d" % number)
                await three.group.publish(b"back again %d" % number)
                await two.has(b"back again %d" % number)
            assert len(three.taken) == len(set(three.taken)), "nothing comes twice"
            view = three.group.view()
            assert view is not None
            assert [member.joined for member in view.members] == [0, 0, 0], "it is the same member"

    within(main())


def test_what_was_not_taken_before_closing_comes_when_the_group_is_opened_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1, data=tmp_path, status=False) as node:
            group = await node.open(GROUP, **CAUSAL, create=True, ack="manual")
            await group.publish_many([b"a", b"b"])
            first = await group.next(DEADLINE_S)
            group.ack(first)
            await group.next(DEADLINE_S)
            await group.close()
            again = await node.open(GROUP, **CAUSAL, ack="manual")
            assert (await again.next(DEADLINE_S)).payload == b"b"
            with pytest.raises(WhenceError):
                group.ack()

    within(main())


# --- missing voters ---


def test_who_cannot_be_added_is_told_which_voters_are_missing_and_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            _, two, three = await made.found(1, 2, 3, **NEVER_REMOVED)
            await two.kill()
            await three.kill()
            (four,) = await made.start(4)
            with pytest.raises(JoinTimeoutError, match=r"the voters 2, 3, which do not answer .*another name"):
                await four.open(timeout_s=6)

    within(main())


# --- a full group ---


def test_who_finds_a_full_group_is_told_so_even_if_it_has_met_one_member_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(living_opening, "MESH_MEMBERS_MAX", 3)
    met = PeerTable.members

    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            _, _, three = await made.found(1, 2, 3)
            (four,) = await made.start(4)
            monkeypatch.setattr(PeerTable, "members", lambda peers, group: met(peers, group)[:1])
            full = r"group 'alps' is full: it has 3 members, .*at most 3; one must leave or be removed .*whence remove"
            with pytest.raises(UsageError, match=full):
                await four.open()
            await four.kill()
            await three.kill()
            (again,) = await made.start(3)
            await again.open()  # a process that takes its own place needs no other

    within(main())


def test_of_two_that_want_the_last_place_one_gets_it_and_the_other_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (living_opening, leader):
        monkeypatch.setattr(module, "MESH_MEMBERS_MAX", 3)

    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            await made.found(1, 2)
            some = await made.start(3, 4)
            came = await asyncio.gather(*[process.open() for process in some], return_exceptions=True)
            assert sorted(type(each).__name__ for each in came) == ["Group", "UsageError"]
            assert "is full" in str(next(each for each in came if isinstance(each, UsageError)))

    within(main())


# --- removed without having published ---


def test_who_was_removed_and_published_nothing_hears_nothing_of_its_events(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL) as made:
            one, _, three = await made.found(1, 2, 3)
            await one.group.remove(3, DEADLINE_S)
            with pytest.raises(RemovedError, match=r"^this member was removed by view 1; open the group again"):
                await three.group.next(DEADLINE_S)
            await three.kill()

    within(main())


def test_what_a_receipt_is_about_can_be_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1, status=False) as node:
            group = await node.open(GROUP, **CAUSAL, create=True)
            one = await group.publish(b"a")
            assert repr(one) == "Receipt(of 1 event, without a number yet)"
            event = await one.accepted()
            assert repr(one) == f"Receipt(of 1 event, {tuple(event)})"
            many = await group.publish_many([b"b", b"c"])
            await many.accepted()
            assert repr(many) == f"Receipt(of 2 events, {(1, event.incarnation, 2)} to 3)"
            group.publish_nowait(b"d")
            late = group.publish_nowait(b"e")
            group._driver.leave()
            with pytest.raises(WhenceError):
                await late.accepted()
            assert repr(late).startswith("Receipt(of 1 event, refused: ")
            with pytest.raises(EventsLostError):
                await group.close()

    within(main())


# --- scripts and operators ---


def test_scripts_see_views_leave_and_remove() -> None:
    given: dict[str, Any] = {"status": False}
    with blocking.join(1, **given) as one, blocking.join(2, contacts=[one.address], **given) as two:
        here = one.open(GROUP, **CAUSAL, create=True)
        there = two.open(GROUP, **CAUSAL)
        here.publish(b"x")
        seen = []
        for event in there.events():
            seen.append(event)
            if not isinstance(event, View):
                break
        assert isinstance(seen[0], View)
        assert seen[0].members == (1, 2)
        assert there.members() == (1,)
        there.leave(DEADLINE_S)
        view = here.view()
        assert view is not None
        assert [member.pid for member in view.members] == [1]
        again = two.open(GROUP, **CAUSAL)
        here.remove(2, DEADLINE_S)
        with pytest.raises(RemovedError):
            list(again)


def test_members_says_of_a_process_that_waits_what_it_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with join(1, status=False) as node:
            served = await serve_status(node.live, tmp_path / "s")
            opening = asyncio.create_task(node.open(GROUP, **CAUSAL, founders=[1, 2], timeout_s=None))
            while GROUP not in node.live.drivers or not node.live.opening_waits_for(GROUP):
                await asyncio.sleep(0.01)
            assert await asyncio.to_thread(command, ["members", GROUP, "--socket", str(tmp_path / "s")]) == 2
            assert await asyncio.to_thread(command, ["top", "--once", "--socket", str(tmp_path / "s")]) == 0
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            served.close()

    within(main())
    told = capsys.readouterr()
    assert "group 'alps' is not open at process 1 yet: it waits for its founders 2" in told.err
    assert "not open here yet; waits for its founders 2" in " ".join(told.out.split())


def test_members_leave_and_top_name_founders_that_nobody_has_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with join("a", status=False) as node:
            served = await serve_status(node.live, tmp_path / "s")
            opening = asyncio.create_task(node.open(GROUP, **CAUSAL, founders=["a", "b", "c"], timeout_s=None))
            while not node.live.unmet_founders:
                await asyncio.sleep(0.01)
            for words in ("members", GROUP), ("leave", GROUP), ("members", "other"), ("leave", "other"):
                assert await asyncio.to_thread(command, [*words, "--socket", str(tmp_path / "s")]) == 2
            assert await asyncio.to_thread(command, ["top", "--once", "--socket", str(tmp_path / "s")]) == 0
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            assert not node.live.unmet_founders
            served.close()

    within(main())
    told = capsys.readouterr()
    assert told.err.count("yet: it waits for its founders b, c") == 2
    assert told.err.count("is in no group 'other'") == 2
    assert "not open here yet; waits for its founders b, c" in " ".join(told.out.split())


def test_top_shows_the_view_who_leads_who_is_suspected_and_who_is_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            one, two, three = await made.found(1, 2, 3, **NEVER_REMOVED)
            await quiet([one, two, three])
            await three.kill()
            await two.kill()
            await (await one.group.publish(b"for nobody")).accepted()
            removing = asyncio.create_task(one.group.remove(3, DEADLINE_S))
            while not (view := one.group.view()) or not (view.change and all(m.suspected for m in view.members[1:])):
                await asyncio.sleep(0.01)
            page = io.StringIO()
            Console(width=200, file=page).print(status_page(status(one.node.live), {}, 1.0))
            shown = page.getvalue()
            rows = [
                [cell.strip() for cell in line.strip("│┃").split("│")] for line in shown.splitlines() if "alps" in line
            ]
            assert [GROUP, "0", "1", "remove 3: there is no quorum", "2, 3"] in rows
            assert [GROUP, "1", "0", "yes", "yes", ""] in [row[:6] for row in rows]
            assert [row for row in rows if row[:6] == [GROUP, "3", "0", "yes", "", "yes"] and int(row[6]) > 0]
            removing.cancel()
            await asyncio.gather(removing, return_exceptions=True)

    within(main())


@pytest.mark.parametrize("every", ["-1", "0", "nan", "inf"])
def test_a_pause_between_two_looks_is_a_length_of_time(every: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["top", "--name", "nobody-here", "--every", every, "--once"]) == 2
    assert "--every is a number of seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["remove", "alps", "b"], ["leave", "alps"], ["force", "alps", "--survivors", "b"]])
@pytest.mark.parametrize("timeout", ["nan", "-1", "inf"])
def test_what_is_no_length_of_time_is_refused_before_anything_is_asked_for(
    words: list[str], timeout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*words, "--name", "nobody-here", "--timeout", timeout]) == 2
    assert "--timeout is a number of seconds" in capsys.readouterr().err


@pytest.mark.parametrize("command_words", [("members", "g"), ("leave", "g"), ("top", "--once")])
def test_a_name_and_a_pid_that_may_be_two_nodes_are_refused(
    command_words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*command_words, "--name", "billing-1", "--pid", "3"]) == 2
    assert "--name billing-1 and --pid 3 may be two nodes: give one of them" in capsys.readouterr().err


@pytest.mark.parametrize("durable", [True, False], ids=["data", "no data"])
def test_who_closes_a_group_while_it_is_left_is_told_what_that_means(durable: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=durable, heals=False) as made:
            one, two = await made.found(1, 2)
            left, closed = await asyncio.gather(two.group.leave(DEADLINE_S), two.group.close(), return_exceptions=True)
            assert closed is None
            words = (
                "is still a member; open the group and leave it" if durable else "without a data directory leaves it"
            )
            assert isinstance(left, ClosedError)
            assert words in str(left)
            assert ("data directory this process is still" in str(left)) is durable
            await one.sees(*([1, 2] if durable else [1]))

    within(main())


def test_more_members_than_a_living_group_can_have_are_not_waited_for() -> None:
    async def main() -> None:
        async with join(1, status=False) as node:
            group = await node.open(GROUP, **CAUSAL)
            with pytest.raises(
                UsageError, match=r"at most 16 members, and group 'alps' is one: 17 will never be there"
            ):
                await group.gathered(17, timeout_s=None)

    within(main())


def test_a_process_that_is_none_of_the_founders_it_names_says_so_and_joins_once_they_have_begun(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with join("a", status=False) as one, join("x", status=False, contacts=[one.address]) as other:
            joining = asyncio.create_task(other.open(GROUP, **CAUSAL, founders=["a", "b", 7], timeout_s=None))
            while not other.live.unmet_founders:
                await asyncio.sleep(0.01)
            assert other.live.unmet_founders[GROUP] == ["b", "7"], "also those given by their pids"
            founding = [asyncio.create_task(one.open(GROUP, **CAUSAL, founders=["a", "b", 7], timeout_s=None))]
            contacts = [one.address, other.address]
            async with (
                join("b", status=False, contacts=contacts) as two,
                join(7, status=False, contacts=contacts) as three,
            ):
                for founder in (two, three):
                    opening = founder.open(GROUP, **CAUSAL, founders=["a", "b", 7], timeout_s=None)
                    founding.append(asyncio.create_task(opening))
                await asyncio.gather(*founding)
                await (await joining).gathered(4, timeout_s=None)

    with caplog.at_level("INFO", "whence.net"):
        within(main())
    assert ") is not one of the founders a, b, 7 that it names: it joins group 'alps' once they have" in caplog.text
    assert caplog.text.count("is not one of the founders") == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"level": "causal", "settings": {"spread": "tree"}}, "is not one of the founders b, c, .*it began with"),
        ({"level": "causal", "founders": ["b", *range(17)]}, "is not one of the founders b, 0, 1, .*it began with"),
        ({"level": "total", "founders": ["x", "b", *range(17)]}, "at most 16 members, and 19 founders are named"),
        ({"level": "causal", "settings": {"windw": 3}}, "did you mean window"),
    ],
)
def test_founders_that_can_begin_no_such_group_are_refused_before_they_are_waited_for(
    given: dict[str, Any], words: str
) -> None:
    async def main() -> None:
        async with join("x", status=False) as node:
            with pytest.raises(UsageError, match=words):
                await node.open(GROUP, **{"founders": ["b", "c"], **given}, timeout_s=None)

    within(main())
