"""Processes with names: numbers follow from them, no two run with one name, and everything that takes a pid takes a
name."""

import asyncio
import json
import logging
from collections.abc import Callable
from itertools import combinations, count
from pathlib import Path

import pytest

from tests.net.live import QUICK, fast, open_all, take, within
from whence import blocking
from whence.api.node import Node, join
from whence.cli.app import run as command
from whence.cli.node import config_from
from whence.core.links.process_names import candidate
from whence.errors import JoinError, JoinTimeoutError, NameTakenError, UsageError
from whence.net.certs import make_authority, make_member
from whence.net.membership import View
from whence.net.status import status
from whence.net.status_server import serve_status
from whence.net.tls import Safety
from whence.store.directory import identity_of
from whence.trace.gathering import gather


def with_one_number() -> tuple[str, str]:
    """Return two names whose first candidate is the same number."""
    known: dict[int, str] = {}
    for name in (f"p{number}" for number in count()):
        other = known.setdefault(candidate(name, 0), name)
        if other != name:
            return other, name
    raise AssertionError


ONE, OTHER = with_one_number()
NUMBER = candidate(ONE, 0)
MOVED = candidate(OTHER, 1)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_a_name_is_a_process_and_its_number_follows_from_it() -> None:
    async def main() -> None:
        async with join("billing-1") as one, join("billing-2", contacts=[one.address]) as two:
            assert (one.name, one.pid) == ("billing-1", candidate("billing-1", 0))
            groups = await open_all([one, two])
            await groups[0].publish(b"x")
            [delivery] = await take(groups[1], 1)
            assert str(groups[1].member(delivery.sender)) == f"billing-1 ({one.pid})"

    within(main())


def test_pids_work_as_before_alone_and_with_a_name() -> None:
    async def main() -> None:
        async with join(3) as three, join(pid=4, contacts=[three.address]) as four:
            assert [(node.pid, node.name) for node in (three, four)] == [(3, ""), (4, "")]
            async with join("five", pid=5, contacts=[three.address]) as five:
                assert (five.pid, five.name) == (5, "five")
                groups = await open_all([three, four, five])
                assert [str(member) for member in groups[0].members()] == ["4", "five (5)"]

    within(main())


@pytest.mark.parametrize("name", ["", "17", "a b", "-a", "\u00e9", "x" * 64])
def test_what_is_no_name_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(UsageError, match="the name of a process has 1 to 63 letters"):
        join(name)


def test_a_process_needs_a_name_or_a_pid_and_not_two_pids() -> None:
    with pytest.raises(UsageError, match="needs a name"):
        join()
    with pytest.raises(UsageError, match="one pid"):
        join(3, pid=4)


# --- two names with one number ---


def test_a_name_whose_number_is_another_names_takes_the_next_before_any_group_is_open() -> None:
    async def main() -> None:
        async with join(ONE) as one, join("third", contacts=[one.address]) as third:
            for contact in (one, third):
                async with join(OTHER, contacts=[contact.address], settings=fast()) as other:
                    assert (one.pid, other.pid) == (NUMBER, MOVED)
                    groups = await open_all([one, other])
                    await groups[1].publish(b"x")
                    assert [each.payload for each in await take(groups[0], 1)] == [b"x"]
                    for group in groups:
                        await group.close()

    within(main())


def test_a_number_is_kept_for_a_name_that_is_away() -> None:
    async def main() -> None:
        async with join("third") as third:
            async with join(ONE, contacts=[third.address]):
                pass
            await until(lambda: not third.live.peers.connected())
            async with (
                join(OTHER, contacts=[third.address], settings=fast()) as other,
                join(ONE, contacts=[third.address], settings=fast()) as one,
            ):
                assert (one.pid, other.pid) == (NUMBER, MOVED)

    within(main())


def test_a_data_directory_keeps_the_numbers_of_others_for_the_next_life(tmp_path: Path) -> None:
    async def main() -> None:
        async with join("third", data=tmp_path) as third, join(ONE, contacts=[third.address]):
            pass
        async with (
            join("third", data=tmp_path) as third,
            join(OTHER, contacts=[third.address], settings=fast()) as other,
        ):
            assert other.pid == MOVED

    within(main())


def test_a_process_that_has_no_group_open_takes_another_number_when_it_meets_the_owner_late() -> None:
    """Neither had a contact when it started; the one that has no group open yields, though it came first."""

    async def main() -> None:
        async with join(ONE) as early, join(OTHER) as late:
            group = await late.open("alps", settings=QUICK)
            assert early.pid == late.pid == NUMBER
            before = early.live
            await _call(late, early)
            await until(lambda: early.live is not before and early._moving is None)
            assert (early.pid, late.pid) == (candidate(ONE, 1), NUMBER)
            await early.live.connections.call(*late.live.connections.endpoint)
            other = await early.open("alps", settings=QUICK)
            await group.publish(b"x")
            assert len(await take(other, 1)) == 1

    within(main())


def test_two_names_with_one_number_and_open_groups_are_kept_apart_and_the_later_is_told_what_to_do() -> None:
    async def main() -> None:
        async with join(ONE) as early, join(OTHER) as late:
            groups = [await node.open("alps", settings=QUICK) for node in (early, late)]
            await asyncio.sleep(0)
            with pytest.raises(NameTakenError, match=f"knows number {NUMBER}.*as {ONE} at 127.* start this one again"):
                await late.live.connections.call(*early.live.connections.endpoint)
            with pytest.raises(NameTakenError, match="start this one again while a contact is up"):
                await groups[1].publish(b"x")
            await groups[0].publish(b"x")

    within(main())


def test_a_number_that_groups_know_is_not_given_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(OTHER, data=tmp_path) as other:
            await other.open("alps", settings=QUICK)
        async with join(ONE) as one:
            await one.open("andes", settings=QUICK)
            with pytest.raises(NameTakenError, match="another name and another directory"):
                async with join(OTHER, data=tmp_path, contacts=[one.address], settings=fast()):
                    pass

    within(main())


async def _call(caller: Node, called: Node) -> None:
    with pytest.raises(JoinError):
        await caller.live.connections.call(*called.live.connections.endpoint)


# --- one name, two processes ---


def test_the_second_process_of_a_name_is_refused_with_the_address_of_the_first() -> None:
    async def main() -> None:
        async with join("billing-1") as one, join("third", contacts=[one.address]) as third:
            for contact in (one, third):
                with pytest.raises(NameTakenError, match=f"another process named billing-1 runs at {one.address}"):
                    async with join("billing-1", contacts=[contact.address], settings=fast(call_ns=20_000_000_000)):
                        pass
            assert third.live.peers.connected_pids() == [one.pid]

    within(main(), 120)


def test_the_second_process_of_a_name_is_refused_under_another_number_too() -> None:
    async def main() -> None:
        async with join("billing-1") as one, join("third", contacts=[one.address]) as third:
            with pytest.raises(NameTakenError, match=f"another process named billing-1 runs at {one.address}"):
                async with join("billing-1", pid=7, contacts=[third.address], settings=fast(call_ns=20_000_000_000)):
                    pass

    within(main(), 120)


def test_a_process_that_is_started_again_is_no_second_one() -> None:
    async def main() -> None:
        async with join("third") as third:
            for _ in range(3):
                async with join("billing-1", contacts=[third.address]) as one:
                    assert one.pid == candidate("billing-1", 0)

    within(main())


# --- the data directory ---


def test_a_data_directory_keeps_the_name_and_the_number(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(ONE) as one, join(OTHER, contacts=[one.address], data=tmp_path, settings=fast()) as other:
            await other.open("alps", settings=QUICK)
        async with join(OTHER, data=tmp_path) as other:
            assert other.pid == MOVED, "though its first candidate is free now"
        found = identity_of(tmp_path)
        assert found is not None
        assert (found.name, found.pid, found.names[ONE]) == (OTHER, MOVED, NUMBER)
        async with join(MOVED, data=tmp_path) as again:
            assert again.name == OTHER, "the directory says so"
        with pytest.raises(UsageError, match=rf"is that of {OTHER} \({MOVED}\), not of third"):
            async with join("third", data=tmp_path):
                pass

    within(main())


def test_a_process_that_had_a_number_alone_gets_a_name_and_keeps_the_number(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(3, data=tmp_path) as node:
            await node.open("alps", settings=QUICK)
        async with join("billing-1", data=tmp_path) as node:
            assert (node.pid, node.name) == (3, "billing-1")

    within(main())


# --- founders, permits, members ---


def test_founders_are_given_by_name_and_waited_for(tmp_path: Path) -> None:
    names = ["a", "b", "c"]

    async def main() -> None:
        async with join("a", data=tmp_path / "a") as a:
            with pytest.raises(JoinTimeoutError, match="no process named b or c was met"):
                await a.open("board", "causal", founders=names, timeout_s=0.3)
        for life in (b"one", b"two"):
            async with (
                join("a", data=tmp_path / "a") as a,
                join("b", data=tmp_path / "b", contacts=[a.address]) as b,
                join("c", data=tmp_path / "c", contacts=[b.address]) as c,
            ):
                opening = [node.open("board", "causal", founders=names) for node in (a, b, c)]
                groups = await asyncio.gather(*opening)
                await groups[0].publish(life)
                for group in groups:
                    assert [each.payload for each in await take(group, 1)] == [life]
                assert {member.name for member in groups[0].members()} == {"b", "c"}
        async with join("a", data=tmp_path / "a") as a:
            assert a.live.peers.names.number("c") == candidate("c", 0), "known before it is met again"

    within(main())


def test_a_process_that_has_a_name_has_the_rights_of_its_name_and_none_of_its_number() -> None:
    rights = {"alps": {"writer": "rw", "reader": "r", 7: "rw"}}

    async def main() -> None:
        async with (
            join("writer", permits=rights) as writer,
            join("reader", contacts=[writer.address], permits=rights) as reader,
            join("mallory", pid=7, contacts=[writer.address], permits=rights) as mallory,
        ):
            groups = await open_all([writer, reader])
            await groups[0].publish(b"x")
            assert len(await take(groups[1], 1)) == 1
            with pytest.raises(UsageError, match=r"reader \(\d+\) may not publish"):
                await groups[1].publish(b"x")
            with pytest.raises(UsageError, match=r"mallory \(7\) has no permission to read"):
                await mallory.open("alps", settings=QUICK)

    within(main())


def test_members_are_numbers_that_tell_names_addresses_and_whether_they_are_suspected() -> None:
    async def main() -> None:
        async with join("a") as a, join("b", contacts=[a.address]) as b:
            groups = await open_all([a, b])
            [member] = groups[0].members()
            assert member == b.pid
            assert groups[0].members() == (b.pid,)
            assert (member.name, member.address, member.connected, member.suspected, member.lag) == (
                "b", b.address, True, False, None,
            )  # fmt: skip
            assert groups[0].member("b") == groups[0].member(b.pid) == b.pid
            with pytest.raises(UsageError, match="no process named 'zoe' was met"):
                groups[0].member("zoe")

    within(main())


@pytest.mark.parametrize("kind", [("causal", {"membership": "living"}), ("total", {"order": "strict"})], ids=str)
def test_views_tell_names_and_a_member_is_removed_by_its_name(
    kind: tuple[str, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level, how = kind

    async def main() -> None:
        nodes = [join("a"), join("b"), join("c"), join("d")]
        async with nodes[0] as a:
            for node in nodes[1:]:
                node._contacts = [a.live.connections.endpoint]
            async with nodes[1] as b, nodes[2] as c, nodes[3] as d:
                names = ["a", "b", "c", "d"]
                groups = await asyncio.gather(
                    *[node.open("alps", level, founders=names, **how) for node in (a, b, c, d)]  # type: ignore[arg-type]
                )
                event = await anext(aiter(groups[0].events()))
                assert isinstance(event, View)
                assert sorted(str(member).partition(" ")[0] for member in event.members) == names
                view = groups[0].view()
                assert view is not None
                told = {each.name: (each.address, each.suspected) for each in view.members}
                assert told["b"] == (b.address, False)
                lags = [member.lag for member in groups[0].members()]
                assert all(isinstance(lag, int) for lag in lags)
                await groups[0].remove("d")
                assert d.pid not in groups[0].members()
                served = await serve_status(a.live, tmp_path / "a.sock")
                removing = ["remove", "alps", "c", "--socket", str(tmp_path / "a.sock"), "--json"]
                listing = ["members", "alps", "--socket", str(tmp_path / "a.sock")]
                assert await asyncio.to_thread(command, [*listing, "--json"]) == 0
                shown = json.loads(capsys.readouterr().out)
                assert sorted(each["name"] for each in shown["members"]) == ["a", "b", "c"]
                assert await asyncio.to_thread(command, removing) == 0
                assert json.loads(capsys.readouterr().out)["pid"] == c.pid
                assert await asyncio.to_thread(command, ["remove", "alps", "zoe", *removing[3:]]) == 2
                assert "knows no process 'zoe'" in capsys.readouterr().err
                served.close()

    within(main())


def test_logs_status_and_traces_say_the_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with join("a", trace=tmp_path) as a:
            async with join("b", contacts=[a.address]) as b:
                await open_all([a, b])
                told = status(a.live)
                assert (told["name"], [peer["name"] for peer in told["peers"]]) == ("a", ["b"])
                assert told["names"] == {"a": a.pid, "b": b.pid}
                number = b.pid
            await until(lambda: not a.live.peers.connected())
            assert f"lost the connection to b ({number})" in caplog.text
        assert gather([tmp_path], "alps", "run", "test").run.names == {candidate("a", 0): "a"}

    with caplog.at_level(logging.INFO, "whence.net"):
        within(main())


# --- certificates ---


def secured(safe: Path, name: str | int, as_name: str | int | None = None, **options: object) -> Node:
    stem = safe / f"member-{as_name if as_name is not None else name}"
    return join(
        name, certificate=stem.with_suffix(".pem"), key=stem.with_suffix(".key"), authority=safe / "ca.pem",
        settings=fast(), **options,  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_certificate_lets_exactly_its_name_in_and_one_of_a_pid_exactly_its_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_authority(tmp_path, "test")
    for who in ("billing-1", "billing-2", 3):
        make_member(tmp_path, who)

    async def main() -> None:
        async with secured(tmp_path, "billing-1") as one:
            async with (
                secured(tmp_path, "billing-2", contacts=[one.address]) as two,
                secured(tmp_path, 3, contacts=[one.address]) as three,
            ):
                groups = await open_all([one, two, three])
                assert {str(member) for member in groups[0].members()} == {f"billing-2 ({two.pid})", "3"}
            contacts = [one.address]
            impostors = {
                "names whence:name:billing-2, and it is billing-3": secured(
                    tmp_path, "billing-3", "billing-2", contacts=contacts
                ),
                "names whence:name:billing-2, and it is 3": secured(tmp_path, 3, "billing-2", contacts=contacts),
                "names whence:pid:3, and it is billing-2": secured(tmp_path, "billing-2", 3, contacts=contacts),
                "names whence:pid:3, and it is 4": secured(tmp_path, 4, 3, contacts=contacts),
            }
            for reason, impostor in impostors.items():
                with pytest.raises(UsageError, match=reason):
                    async with impostor:
                        pass
            monkeypatch.setattr(Safety, "doubts", lambda *_: "")  # one that starts all the same gets no further
            for impostor in impostors.values():
                with pytest.raises(JoinError, match=r"no contact lets this process in: .* does not greet"):
                    async with impostor:
                        pass

    within(main())


def test_certificates_are_made_for_names_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["certs", "ca", "--dir", str(tmp_path)]) == 0
    assert command(["certs", "member", "billing-1", "3", "--dir", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.glob("member-*.pem")) == ["member-3.pem", "member-billing-1.pem"]
    assert command(["certs", "member", "../x", "--dir", str(tmp_path)]) == 2
    assert "neither a name" in capsys.readouterr().err


# --- commands, files, the blocking API ---


def test_a_file_gives_names_to_the_node_its_founders_and_its_permits() -> None:
    found = config_from(
        {
            "name": "billing-1",
            "groups": {"board": {"level": "causal", "founders": ["billing-1", "billing-2", 3]}},
            "permits": {"board": {"billing-1": "rwa", "3": "r"}},
        },
        "test",
    )
    assert (found.name, found.permits) == ("billing-1", {"board": {"billing-1": "rwa", "3": "r"}})


def test_a_node_without_a_name_is_told_to_give_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["node", "--group", "alps=fifo"]) == 2
    assert "give --name, such as --name billing-1" in capsys.readouterr().err


def test_programs_without_a_loop_have_names_too() -> None:
    with blocking.join("a") as a, blocking.join("b", contacts=[a.address]) as b:
        groups = [a.open("alps", settings=QUICK), b.open("alps", settings=QUICK)]
        groups[0].gathered(2)
        assert (a.name, [member.name for member in groups[0].members()]) == ("a", ["b"])
        assert groups[0].members() == (b.pid,)


def test_any_two_names_of_a_small_cluster_hardly_ever_have_one_number() -> None:
    names = [f"{role}-{number}" for role in ("billing", "web", "db") for number in range(5)]
    assert all(candidate(one, 0) != candidate(two, 0) for one, two in combinations(names, 2))
