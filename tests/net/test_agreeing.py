"""What is refused at the door of a living group: settings that do not agree, options that say two things, addresses
that nobody can call; and who is told what instead."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, within
from tests.net.test_living import BOTH, CAUSAL, GROUP, STRICT, Cluster, cluster, quiet
from whence.api.node import Node, join
from whence.cli.app import run as command
from whence.cli.members import change_in_words, view_of
from whence.cli.node import NodeConfig, group_options
from whence.core.views.settings import REMOVE_AFTER_NS
from whence.errors import JoinError, JoinTimeoutError, RemovedError, UsageError, WhenceError
from whence.net.settings import NetSettings
from whence.net.status_client import status_path, the_node

# --- settings that members share ---


@pytest.mark.parametrize(
    ("kind", "group", "newcomer", "words"),
    [
        (
            CAUSAL,
            {"remove_after_s": 3},
            {"remove_after_s": 4},
            "remove_after_s=3 at process 1, .*remove_after_s=4 here",
        ),
        (CAUSAL, {}, {"remove_after_s": 4}, "remove_after_s=10 at process 1, .*remove_after_s=4 here"),
        (STRICT, {}, {"remove_after_s": float("inf")}, "remove_after_s=10 at process 1, .*remove_after_s=inf here"),
        (CAUSAL, {"lag_max_s": 5}, {}, "lag_max_s=5 at process 1, .*lag_max_s=inf here"),
        (STRICT, {}, {"settings": {"uniform": True}}, "uniform=False at process 1, .*uniform=True here"),
    ],
)
def test_a_newcomer_that_would_run_the_group_otherwise_is_told_what_differs(
    kind: dict[str, Any], group: dict[str, Any], newcomer: dict[str, Any], words: str
) -> None:
    async def main() -> None:
        async with join(1, status=False) as one, join(2, contacts=[one.address], status=False) as two:
            await one.open(GROUP, **kind, **group)
            with pytest.raises(UsageError, match=words):
                await two.open(GROUP, **kind, **newcomer)

    within(main())


def test_members_with_journals_keep_the_same_of_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            join(1, data=tmp_path / "1", status=False) as one,
            join(2, data=tmp_path / "2", contacts=[one.address], status=False) as two,
            join(3, contacts=[one.address], status=False) as guest,
        ):
            await one.open(GROUP, **CAUSAL, settings={"keep": "all"})
            with pytest.raises(UsageError, match="keep=all at process 1, and with keep=own here"):
                await two.open(GROUP, **CAUSAL)
            await guest.open(GROUP, **CAUSAL)  # it has no journal to keep anything in

    within(main())


@pytest.mark.parametrize("said", [{}, {"remove_after_s": 2}])
def test_a_newcomer_that_says_nothing_removes_the_silent_as_the_group_does(
    said: dict[str, Any], tmp_path: Path
) -> None:
    """Members with data directories are away for long; a guest without one does not have them removed for it."""

    async def main() -> None:
        async with (
            join(1, data=tmp_path / "1", status=False) as one,
            join(2, contacts=[one.address], status=False) as guest,
            join(3, contacts=[guest.address], status=False) as another,
        ):
            groups = [await one.open(GROUP, **CAUSAL, **said)]
            groups += [await node.open(GROUP, **CAUSAL) for node in (guest, another)]
            after = [group._driver.member.remove_after_ns for group in groups]  # type: ignore[attr-defined]
            assert after == [int(said.get("remove_after_s", 0) * 1e9)] * 3

    within(main())


def test_who_comes_back_and_says_nothing_does_as_the_group_does_and_nobody_is_warned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True) as made:
            _, two = await made.found(1, 2, remove_after_s=60)
            (three,) = await made.start(3)
            await three.open()
            for process in (three, two):
                await process.stop()
                (back,) = await made.start(process.pid)
                await back.open()
                driver = back.group._driver
                await driver.until(lambda driver=driver: driver.member.remove_after_ns == 60 * 10**9)  # type: ignore[misc]
            (four,) = await made.start(4)
            with pytest.raises(UsageError, match="remove_after_s=60 at process"):
                await four.open(remove_after_s=4)
            await four.kill()

    with caplog.at_level(logging.ERROR, "whence.net"):
        within(main())
    assert "remove_after_s" not in caplog.text


def test_after_a_full_stop_a_group_of_which_nothing_was_said_removes_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True) as made:
            for process in await made.found(1, 2, 3):
                await process.stop()
            await made.come_back(1, 2, 3)
            (four,) = await made.start(4)
            with pytest.raises(UsageError, match="remove_after_s=inf at process"):
                await four.open(remove_after_s=4)
            await four.kill()

    within(main())


def test_who_begins_a_group_removes_the_silent_only_if_they_cannot_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        for data, after_ns in ((None, REMOVE_AFTER_NS), (tmp_path / "1", 0)):
            async with join(1, data=data, status=False) as one:
                group = await one.open(GROUP, **CAUSAL)
                assert group._driver.member.remove_after_ns == after_ns  # type: ignore[attr-defined]

    within(main())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"settings": {"remove_after_s": 3}, "remove_after_s": 4}, "remove_after_s is given twice, as 4 and .* as 3"),
        (
            {"settings": {"remove_after_ns": 3, "remove_after_s": 3}},
            "remove_after_s and remove_after_ns are one setting",
        ),
        (
            {"settings": {"remove_after_ns": 3}, "remove_after_s": 3},
            "remove_after_s and remove_after_ns are one setting",
        ),
        ({"settings": {"remove_after_ns": -3}}, "remove_after_ns must be at least 0"),
        ({"settings": {"order": "timed"}, "order": "strict", "level": "total"}, "order is given twice"),
        ({"create": True, "founders": [1]}, "begun by its founders together, .*leave create out, or the founders"),
        ({"create": False, "founders": ["not-here"]}, "begun by its founders together, .*leave create out, or the"),
        ({"create": False, "founders": [1]}, "begun by its founders together"),
    ],
)
def test_options_that_say_two_things_are_refused(given: dict[str, Any], words: str) -> None:
    async def main() -> None:
        async with join(1, status=False) as node:
            with pytest.raises(UsageError, match=words):
                await node.open(GROUP, **{**CAUSAL, **given})
            await node.open(GROUP, **CAUSAL, settings={"remove_after_s": 3}, remove_after_s=3)

    within(main())


@pytest.mark.parametrize(
    "config",
    [
        NodeConfig(groups={"g": "fifo"}, create=True),
        NodeConfig(groups={"g": "causal"}, create=False, founders=["a", "b", "c"]),
        NodeConfig(groups={"g": "fifo", "h": "optimistic"}, create=True, founders=[1, 2, 3]),
    ],
)
def test_a_node_that_is_told_to_begin_groups_that_nobody_begins_alone_is_refused(config: NodeConfig) -> None:
    with pytest.raises(UsageError, match=r"--create .*for groups at causal or total without founders.*leave them out"):
        group_options(config)


def test_a_node_begins_those_of_its_groups_that_one_process_can_begin() -> None:
    options = group_options(NodeConfig(groups={"g": "fifo", "h": "causal"}, create=True))
    assert [option["create"] for option in options] == [None, True]


# --- addresses and empty arguments ---


@pytest.mark.parametrize("address", [":4000", "localhost:0", "[]:4000", "127.0.0.1:0"])
@pytest.mark.parametrize("option", ["contacts", "advertise"])
def test_an_address_that_nobody_can_call_is_refused(address: str, option: str) -> None:
    given: Any = [address] if option == "contacts" else address
    with pytest.raises(UsageError, match=r"host:port, such as 127.0.0.1:4000, with a host and a port from 1 on"):
        join(1, **{option: given})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["node", "--name", "a", "--data", ""], "--data is empty"),
        (["node", "--name", "a", "--data="], "--data is empty"),
        (["sub", "alps", "--data", " "], "--data is empty"),
        (["pub", "alps", "--trace", ""], "--trace is empty"),
        (["check", ""], "an argument is empty"),
        (["gather", "traces", "--group", "alps", "--out", ""], "--out is empty"),
    ],
)
def test_an_empty_argument_is_not_the_working_directory(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(arguments) == 2
    assert f"{words}: give a value, or leave it out" in capsys.readouterr().err


def test_an_empty_path_in_a_file_is_not_the_working_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.toml"
    file.write_text('name = "a"\ncerts = ""\n')
    assert command(["node", "--config", str(file)]) == 2
    assert "certs is empty" in capsys.readouterr().err


# --- who is called how, and found how ---


def test_a_node_with_a_name_is_found_by_its_number_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    async def main() -> None:
        async with join("p3", pid=3) as node, join("other") as other:
            await node.open(GROUP, **CAUSAL)
            await other.open(GROUP, **CAUSAL)
            assert await asyncio.to_thread(command, ["members", GROUP, "--pid", "3"]) == 0
            assert await asyncio.to_thread(the_node, 3, None) == status_path("p3")
            assert await asyncio.to_thread(the_node, 4, None) == status_path(4)

    within(main())
    assert "led by p3 (3)" in capsys.readouterr().out


def test_sentences_call_processes_by_their_names(tmp_path: Path) -> None:
    async def main() -> None:
        names = ["ann", "bob", "cid"]
        options: dict[str, Any] = {**CAUSAL, "founders": names, "remove_after_s": float("inf")}
        async with join("ann", status=tmp_path / "s") as ann:
            others = [join(name, contacts=[ann.address], status=False) for name in names[1:]]
            for node in others:
                await node.__aenter__()
            here, *_ = await asyncio.gather(*[node.open(GROUP, **options) for node in (ann, *others)])
            called = [f"{node.name} ({node.pid})" for node in (ann, *others)]
            for node in others:
                live, node._live = node.live, None
                await live.close()
            while not (view := here.view()) or not all(each.suspected for each in view.members if each.name != "ann"):
                await asyncio.sleep(0.01)
            assert {each.name: each.live for each in view.members} == {"ann": True, "bob": False, "cid": False}
            here._driver.act("remove", here.member("cid"))
            view = here.view()
            assert view is not None
            assert view.change == f"remove {called[2]}: there is no quorum"
            assert [str(view.leader), *sorted(map(str, view.waits_for))] == [called[0], *sorted(called[1:])]
            said = change_in_words(await view_of(tmp_path / "s", GROUP))
            assert all(each in said for each in called[1:])

    within(main())


def test_who_waits_for_a_contact_says_so_in_a_sentence() -> None:
    async def main() -> None:
        async with join(7) as gone:
            address = gone.address
        async with join(1, contacts=[address], status=False, settings=NetSettings(alone=True)) as node:
            words = f"it waits for contact {address} to answer, which cannot be reached: "
            with pytest.raises(JoinTimeoutError, match=words):
                await node.open(GROUP, **CAUSAL, timeout_s=0.5)

    within(main())


@pytest.mark.parametrize(
    ("level", "durable", "words"),
    [
        ("causal", False, r"it has no data directory: join with data=… \(--data\); or wait for settled"),
        ("total", False, r"it has no data directory: join with data=… \(--data\); or wait for settled"),
        ("fifo", False, r"it has no data directory: join with data=… \(--data\), and durable=True"),
        ("fifo", True, "open it with durable=True"),
    ],
)
def test_who_wants_events_stored_is_told_what_that_needs(level: str, durable: bool, words: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1, data=tmp_path if durable else None, status=False) as node:
            group = await node.open(GROUP, level)
            with pytest.raises(UsageError, match=words):
                await group.publish(b"x", until="stored")

    within(main())


# --- removed while away ---


@BOTH
def test_a_member_that_was_removed_while_it_was_away_comes_back_with_one_open_and_hears_its_verdict(
    kind: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            receipt = await three.group.publish(b"the last", until="settled", timeout_s=DEADLINE_S)
            assert three.group.removed_while_away is None
            await three.kill()
            await one.group.remove(3, DEADLINE_S)
            (three,) = await made.come_back(3)
            verdict = three.group.removed_while_away
            assert verdict is not None
            assert verdict.cut == receipt.event
            await one.sees(1, 2, 3)
            await quiet([one, two, three])

    with caplog.at_level(logging.WARNING, "whence.net"):
        within(main())
    assert f"3 was removed from group '{GROUP}' while it was away, and joins anew" in caplog.text


@BOTH
def test_who_was_removed_joins_anew_only_once_enough_know_it_and_is_told_whom_it_waits_for(
    kind: dict[str, Any], tmp_path: Path
) -> None:
    """Whoever comes back as the member it was finds, at the only one that is up, that it is none any more."""

    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three, four = await made.found(1, 2, 3, 4)
            await quiet([one, two, three, four])
            await four.kill()
            await one.group.remove(4, DEADLINE_S)
            await two.kill()
            await three.kill()
            (four,) = await made.start(4)
            with pytest.raises(JoinTimeoutError, match="enough of the voters 2, 3 to learn that this process"):
                await four.open(timeout_s=2)
            await made.come_back(2)
            await made.come_back(3)
            await four.open()
            assert isinstance(four.group.removed_while_away, RemovedError)

    within(main())


@BOTH
def test_a_verdict_that_nobody_may_have_read_is_told_again_by_the_next_open(
    kind: dict[str, Any], tmp_path: Path
) -> None:
    """The member is told while it runs, and ends before its application asks."""

    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            receipt = await three.group.publish(b"the last", until="settled", timeout_s=DEADLINE_S)
            await one.group.remove(3, DEADLINE_S)
            await three.kill()
            (three,) = await made.come_back(3)
            verdict = three.group.removed_while_away
            assert verdict is not None
            assert verdict.cut == receipt.event
            assert "open the group again" not in str(verdict), "it is back already"
            await one.sees(1, 2, 3)
            await three.kill()
            (three,) = await made.come_back(3)
            assert three.group.removed_while_away is None

    within(main())


# --- two processes of one name ---


def test_two_processes_of_one_name_that_meet_through_a_group_are_not_both_members(tmp_path: Path) -> None:
    """Each knows another member. The second is refused, with the address of the first."""

    async def main() -> None:
        made = Cluster(tmp_path, CAUSAL, durable=False)
        one, two = await made.found(1, 2)
        first = join("twin", contacts=[one.node.address], status=False)
        async with first as twin:
            await twin.open(GROUP, **CAUSAL)
            await one.group.gathered(3)
            await two.group.gathered(3)
            second: Node = join("twin", contacts=[two.node.address], status=False)
            with pytest.raises(JoinError, match=f"named twin runs at {twin.address}"):
                await second.__aenter__()
            assert sorted(member.name for member in one.group.members()) == ["", "twin"]
        await asyncio.gather(one.stop(), two.stop())

    within(main())


def test_of_two_processes_of_one_name_that_meet_in_a_group_whoever_is_out_was_told_why(tmp_path: Path) -> None:
    """Each was connected to another member before either of them opened the group."""

    async def enter(twin: Node) -> str:
        try:
            await (await twin.open(GROUP, **CAUSAL)).gathered(4)  # there is no fourth: it ends when the member is out
        except WhenceError as error:
            return str(error)
        raise AssertionError("there were four members")

    async def main() -> None:
        made = Cluster(tmp_path, CAUSAL, durable=False)
        one, two = await made.found(1, 2)
        twins = [join("twin", contacts=[process.node.address], status=False) for process in (one, two)]
        came = await asyncio.gather(*[twin.__aenter__() for twin in twins], return_exceptions=True)
        up = [twin for twin, result in zip(twins, came, strict=True) if not isinstance(result, BaseException)]
        told = [str(result) for result in came if isinstance(result, BaseException)]
        if not told:
            entering = [asyncio.create_task(enter(twin)) for twin in up]
            done, _ = await asyncio.wait(entering, return_when=asyncio.FIRST_COMPLETED)
            told = [task.result() for task in done]
            for task in entering:
                task.cancel()
        assert all("named twin" in why or "of its name" in why for why in told), told
        await asyncio.gather(*[twin.__aexit__(KeyboardInterrupt, None, None) for twin in up])
        for process in (one, two):
            await process.kill()

    within(main())
