"""Tickets live: opening for writing obtains one, and whoever has none, or no lease, is told why and when to retry."""

import asyncio
import contextlib
import json
import re
import shutil
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.net.live import QUICK, nodes, within
from tests.net.test_commands import running, whence
from whence.api.group import Group
from whence.api.node import Node, join
from whence.cli.app import run as command
from whence.cli.top import status_page
from whence.core.levels.total.items import Offer
from whence.errors import (
    ClosedError,
    EventsLostError,
    JoinError,
    LeaseSuspendedError,
    NotCoordinatorError,
    StalledError,
    StorageError,
    UsageError,
)
from whence.net import clock
from whence.net.clock import wall_ns
from whence.net.metrics import metrics
from whence.net.status import status
from whence.net.status_client import DeclareDead, ask, send_request
from whence.net.status_server import serve_status

FAST = {**QUICK, "rounds": 3, "answer_ns": 20_000_000}
"""Ticket rounds of a tenth of a second."""

FOUNDERS = [1, 2, 3]


async def cluster(started: list, **options: object) -> list[Group]:  # type: ignore[type-arg]
    given = {"settings": FAST, "founders": FOUNDERS, **options}
    return list(await asyncio.gather(*[node.open("alps", "optimistic", **given) for node in started]))


def test_opening_for_writing_obtains_a_ticket_and_closing_gives_it_back() -> None:
    async def main() -> None:
        async with nodes(3) as started:
            one, two, three = await cluster(started, write=True)
            standing = [group.ticket() for group in (one, two, three)]
            assert {told.state for told in standing if told is not None} == {"active"}
            assert len({told.ticket for told in standing if told is not None}) == 3
            assert all(told is not None and told.lease_left_ns > 0 and not told.why for told in standing)
            await two.publish(b"x")
            delivery = await anext(aiter(one))
            told = two.ticket()
            assert told is not None
            assert (delivery.ticket, delivery.epoch) == (told.ticket, told.epoch)
            await three.release_ticket()
            after = three.ticket()
            assert after is not None
            assert (after.state, after.ticket) == ("none", None)
            with pytest.raises(NotCoordinatorError, match="call acquire_ticket first"):
                await three.publish(b"y")

    within(main())


def test_a_member_without_a_ticket_receives_and_is_refused_with_the_reason() -> None:
    async def main() -> None:
        async with nodes(3) as started:
            one, two, _ = await cluster(started, settings={**FAST, "tickets": 1})
            with pytest.raises(NotCoordinatorError, match="has not asked for a ticket"):
                await two.publish(b"x")
            with pytest.raises(NotCoordinatorError, match="has not asked for a ticket"):
                two.publish_nowait(b"x")
            await one.acquire_ticket()
            await one.publish(b"x")
            assert (await anext(aiter(two))).payload == b"x"
            with pytest.raises(UsageError, match="already has a ticket"):
                await one.cjoin()  # its older name
            with pytest.raises(NotCoordinatorError, match=r"had none to give; retry in \d+ ms") as refusal:
                await two.acquire_ticket(timeout_s=4)
            assert refusal.value.retry_ns
            with pytest.raises(UsageError, match="last coordinator cannot leave"):
                await one.release_ticket()

    within(main())


def test_a_failed_opening_for_writing_leaves_the_group_again() -> None:
    async def main() -> None:
        async with nodes(1) as (node,):
            nobody = {**FAST, "seeds": "7,8,9"}
            with pytest.raises(NotCoordinatorError, match=r"still asking .* most of the seeds 7, 8, 9 must be up"):
                await node.open("alps", "optimistic", settings=nobody, write=True, timeout_s=1.0)
            assert node.groups == {}

    within(main())


@pytest.mark.parametrize(
    ("level", "mine", "other"),
    [
        ("optimistic", {"k": 0, "seeds": "1,2,3"}, {"k": 1, "seeds": "1,2,3"}),
        ("total", {"order": "timed", "epsilon": 5}, {"order": "timed", "epsilon": 6}),
    ],
)
def test_a_cluster_with_other_tickets_or_clocks_is_another_one(
    level: str, mine: dict[str, object], other: dict[str, object], tmp_path: Path
) -> None:
    """optimistic 5: messages of another configuration are refused, here at the door."""

    async def main() -> None:
        async with join(1, data=tmp_path / "1") as one, join(2, data=tmp_path / "2", contacts=[one.address]) as two:
            await one.open("alps", level, settings=mine)
            name = next(name for name in other if mine.get(name) != other[name])
            with pytest.raises(
                UsageError, match=f"{name}={mine[name]} at process 1, and with {name}={other[name]} here"
            ):
                await two.open("alps", level, settings=other)
            with pytest.raises(UsageError, match=f"runs at level {level} at process 1, not fifo"):
                await two.open("alps", "fifo")
            await two.open("alps", level, settings=mine)

    within(main())


def test_without_its_witnesses_a_coordinator_is_suspended_and_says_whom_it_waits_for() -> None:
    """And an operator's word about those that are gone lets the tickets go on."""

    async def main() -> None:
        async with nodes(1) as (last,):
            one = join(2, contacts=[last.address])
            two = join(3, contacts=[last.address])
            async with one, two:
                groups = await cluster([last, one, two])
                await groups[0].acquire_ticket()
                gone = [(node.pid, node.live.me.incarnation) for node in (one, two)]
            assert groups[0].ticket() is not None
            async with asyncio.timeout(20):
                while (told := groups[0].ticket()) is not None and told.state != "suspended":
                    await asyncio.sleep(0.05)
            assert told is not None
            assert {(process.pid, process.incarnation) for process in told.waits_for} == set(gone)
            assert (told.lease_left_ns, told.why) == (0, "its lease has run out")
            with pytest.raises(LeaseSuspendedError, match=r"lease has run out; retry in \d+ ms"):
                await groups[0].publish(b"x")
            with pytest.raises(UsageError, match="this process is alive"):
                groups[0].declare_dead(last.pid, last.live.me.incarnation)
            with pytest.raises(UsageError, match="a process is a pid"):
                groups[0].declare_dead(1 << 16, 1)
            await asyncio.sleep(0.5)  # four ticket rounds without a word
            for process in gone:
                groups[0].declare_dead(*process)
            async with asyncio.timeout(20):
                while (told := groups[0].ticket()) is not None and told.ticket is not None:
                    await asyncio.sleep(0.05)

    within(main())


@contextlib.asynccontextmanager
async def members(
    data: Path, pids: list[int], group: list[int], settings: dict[str, Any] = FAST
) -> AsyncIterator[list[Group]]:
    """Start some processes with their data directories and let them into a group that others may have begun."""
    async with contextlib.AsyncExitStack() as stack:
        started: list[Node] = []
        for pid in pids:
            contacts = [node.address for node in started[:1]]
            started.append(await stack.enter_async_context(join(pid, data=data / str(pid), contacts=contacts)))
        yield await cluster(started, settings=settings, founders=group)


async def published_under(groups: list[Group]) -> list[int]:
    """Obtain a ticket for each member, publish, and return their epochs."""
    epochs = []
    for group in groups:
        told = await group.acquire_ticket(timeout_s=40)
        await group.publish(b"x")
        epochs.append(told.epoch or 0)
    return epochs


def test_a_cluster_stopped_whole_returns_by_itself(tmp_path: Path) -> None:
    """X6: the witnesses' journals know what was promised, and every lease of before has ended when somebody acts."""
    epochs: list[int] = []

    async def main() -> None:
        for _ in range(3):
            async with members(tmp_path, FOUNDERS, FOUNDERS) as groups:
                epochs.extend(await published_under(groups[:2]))

    within(main())
    assert epochs == sorted(set(epochs)), "X3: an epoch is a token for resources outside, whatever was stopped"


@pytest.mark.parametrize("lost", FOUNDERS)
def test_a_cluster_stopped_whole_returns_though_one_lost_its_data_and_does_not_begin_anew(
    tmp_path: Path, lost: int
) -> None:
    """Whoever lost its journal must not believe that nothing has been: it joins those who know."""
    epochs: list[int] = []

    async def main() -> None:
        for life in (1, 2):
            if life == 2:
                shutil.rmtree(tmp_path / str(lost))
            async with members(tmp_path, FOUNDERS, FOUNDERS) as groups:
                epochs.extend(await published_under(groups[:2]))

    within(main())
    assert epochs == sorted(set(epochs))


def test_a_cluster_stopped_whole_returns_without_a_founder_that_stays_away(tmp_path: Path) -> None:
    """Most of its founders know what was decided."""

    async def main() -> None:
        async with members(tmp_path, FOUNDERS, FOUNDERS) as groups:
            before = await published_under(groups[:1])
        async with members(tmp_path, FOUNDERS[1:], FOUNDERS) as groups:
            assert await published_under(groups) > before

    within(main())


def test_tickets_and_k_change_with_a_full_stop_and_seeds_never(tmp_path: Path) -> None:
    """optimistic 4.9: the next generation has other settings, and closes the last one under the settings that had."""
    epochs: list[int] = []

    async def main() -> None:
        for settings in ({"tickets": 8}, {"tickets": 2, "k": 0}, {"tickets": 40, "lease_rounds": 3.0}):
            async with members(tmp_path, FOUNDERS, FOUNDERS, {**FAST, **settings}) as groups:
                epochs.extend(await published_under(groups[:2]))
        async with members(tmp_path, FOUNDERS, FOUNDERS, {**FAST, "seeds": "1,2,4"}) as groups:
            pass

    with pytest.raises(StorageError, match=r"the seeds of this group were 1, 2, 3 .* and now are 1, 2, 4"):
        within(main())
    assert len(epochs) == 6
    assert epochs == sorted(set(epochs))


def test_a_cluster_that_lost_too_many_witnesses_says_whose_word_it_needs_and_goes_on_with_an_operators(
    tmp_path: Path,
) -> None:
    """optimistic 4.9: only an operator knows that nobody acts on a lease of a witness that nobody remembers."""
    five = [1, 2, 3, 4, 5]
    epochs: list[int] = []

    async def main() -> None:
        async with members(tmp_path, five, five) as groups:
            epochs.extend(await published_under(groups[:1]))
            session = groups[0]._driver.member._tickets.coordinator.session  # type: ignore[attr-defined]
            witnesses = session.authority.record.witnesses
        for pid, _ in witnesses[:2]:
            shutil.rmtree(tmp_path / str(pid))
        async with members(tmp_path, five, five) as groups:
            one = groups[0]
            with pytest.raises(NotCoordinatorError):
                await one.acquire_ticket(timeout_s=0.1)
            async with asyncio.timeout(30):
                while (told := one.ticket()) is None or not set(witnesses[:2]) <= set(told.waits_for):
                    await asyncio.sleep(0.05)
            with pytest.raises(NotCoordinatorError, match=r"witnesses .*\d+:\d+.* must answer or be declared dead"):
                await one.publish(b"x")
            with pytest.raises(UsageError, match="is back with its data directory"):
                one.declare_dead(*witnesses[2])
            for process in witnesses[:2]:
                one.declare_dead(*process)
            await one.ready_to_publish(timeout_s=30)
            epochs.append((await published_under(groups[1:2]))[0])

    within(main())
    assert epochs == sorted(set(epochs))


def test_without_a_data_directory_a_group_begun_anew_counts_epochs_from_the_time() -> None:
    """X3: nothing is remembered, and the clock on the wall stands in."""
    epochs: list[int] = []

    async def main() -> None:
        for _ in range(2):
            async with nodes(3) as started:
                one, *_ = await cluster(started)
                told = await one.acquire_ticket()
                assert told.epoch is not None
                epochs.append(told.epoch)
            await asyncio.sleep(0.3)

    within(main())
    assert epochs[0] < epochs[1]


def test_when_the_clocks_part_no_lease_is_trusted_until_it_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """optimistic 1: a restored snapshot of a machine freezes the steady clock; the one on the wall tells of it."""

    async def main() -> None:
        async with nodes(3) as started:
            one, *_ = await cluster(started)
            before = await one.acquire_ticket()
            slow = wall_ns
            monkeypatch.setattr(clock, "wall_ns", lambda: slow() + 40_000_000)
            receipt = await one.publish(b"clocks may part a little: the wall's is adjusted now and then")
            await receipt.accepted()
            monkeypatch.setattr(clock, "wall_ns", lambda: slow() + 3_600_000_000_000)
            with pytest.raises(LeaseSuspendedError, match="lease has run out"):
                one._driver.runner.publish([b"x"])
            await one.ready_to_publish()
            after = one.ticket()
            assert after is not None
            assert (after.ticket, after.epoch) == (before.ticket, before.epoch), "nobody had fenced it"
            assert one._driver.counts["note:clock_slipped"] == 1

    within(main())


def test_clusters_come_and_go_at_run_time_and_know_nothing_of_each_other() -> None:
    """optimistic 5: many per process, each with tickets of its own; who returns to one is another process there."""

    async def main() -> None:
        async with nodes(3) as started:
            regions: dict[str, list[Group]] = {}
            for name in ("alps", "andes", "atlas"):
                regions[name] = list(
                    await asyncio.gather(
                        *[
                            node.open(name, "optimistic", settings=FAST, founders=FOUNDERS, write=node is started[0])
                            for node in started
                        ]
                    )
                )
            tickets = {name: groups[0].ticket() for name, groups in regions.items()}
            assert all(told is not None and told.coordinates == 32 for told in tickets.values())
            await regions["andes"][2].close()
            with pytest.raises(ClosedError):
                await regions["andes"][2].publish(b"x")
            for name in ("alps", "atlas"):
                await regions[name][0].publish(name.encode())
                assert (await anext(aiter(regions[name][2]))).payload == name.encode()
            again = await started[2].open("andes", "optimistic", settings=FAST, founders=FOUNDERS, write=True)
            await again.publish(b"back")
            delivery = await anext(aiter(regions["andes"][1]))
            assert delivery.event.incarnation > started[2].live.me.incarnation
            told = again.ticket()
            assert told is not None
            assert (delivery.ticket, delivery.epoch) == (told.ticket, told.epoch)
            assert len(status(started[0].live)["groups"]) == 3

    within(main())


def test_the_status_and_the_metrics_tell_of_tickets_and_take_an_operators_word(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(3) as started:
            groups = await cluster(started)
            await groups[0].acquire_ticket()
            told = status(started[0].live)["groups"][0]["ticket"]
            assert (told["state"], told["waits_for"]) == ("active", [])
            assert told["standing"] == "active", "its former name"
            [seen] = status(started[1].live)["groups"][0]["ticket"]["owners"]
            me = started[0].live.drivers["alps"].context.me
            assert (seen["ticket"], seen["epoch"], seen["owner"]) == (
                told["ticket"], told["epoch"], f"{me.pid}:{me.incarnation}",
            )  # fmt: skip
            assert seen["lease_left_ns"] > 0, "it lent the lease, as a witness"
            screen = Console(file=StringIO(), width=200)
            screen.print(status_page(status(started[1].live), {}, 1.0))
            assert f"{me.pid}:{me.incarnation}" in screen.file.getvalue()  # type: ignore[attr-defined]
            text = metrics(started[0].live)
            labels = r'group="alps",level="optimistic",ticket="\d+",state="\w+",standing="\w+"'
            left = re.search(rf"whence_ticket_lease_left_seconds\{{{labels}\}} -?\d", text)
            assert left is not None, "how much it is rests on the machine's speed"
            server = await serve_status(started[0].live, tmp_path / "s")
            await send_request(tmp_path / "s", DeclareDead("alps", 9, 2**31 - 1))
            for word, refusal in (
                (DeclareDead("alps", 1, started[0].live.me.incarnation), "this process is alive"),
                (DeclareDead("alps", 2, started[1].live.me.incarnation), "spoke to this one a moment ago: it is alive"),
                (DeclareDead("andes", 9, 1), "in no group 'andes'"),
            ):
                with pytest.raises(UsageError, match=refusal):
                    await send_request(tmp_path / "s", word)
            assert "no request" in (await ask(tmp_path / "s", b"{}\n"))["error"]
            assert (await ask(tmp_path / "s"))["pid"] == 1
            server.close()

    within(main())


def test_total_tells_of_its_merging_and_refuses_at_once_while_its_clock_is_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(2, first=0, data=tmp_path) as started:
            settings = {"order": "timed", "mergers": 1, "delta": 1000}
            groups = [await node.open("alps", "total", settings=settings, write=True) for node in started]
            await groups[1].publish(b"x")
            delivery = await anext(aiter(groups[0]))
            assert delivery.key is not None
            told = status(started[0].live)["groups"][0]["metrics"]
            assert told["observed_delay_ticks_count"] == told["observed_delay_ticks_bucket"]["+Inf"] == 1
            assert told["buffer_ticks"]["1"] >= 100
            text = metrics(started[0].live)
            assert "# TYPE whence_observed_delay_ticks histogram" in text
            assert 'whence_buffer_ticks{group="alps",level="total",quantile="0.99"}' in text
            assert 'whence_rejected_total{group="alps",level="total",reason="any"} 0' in text
            member = groups[1]._driver.member
            member.clock.stamps.observe(0, (member.clock.rt + 60) << 20)  # type: ignore[attr-defined]
            member.tick(member.clock.rt * 1_000_000)  # type: ignore[attr-defined]
            with pytest.raises(StalledError, match=r"behind what this process has delivered; retry in \d+ ms") as stall:
                await groups[1].publish(b"y")
            await asyncio.sleep(stall.value.retry_ns / 1e9)
            await groups[1].publish(b"y")
            assert (await anext(aiter(groups[0]))).payload == b"y"

    within(main())


def test_a_lone_member_of_total_that_began_again_opens_when_it_may_publish_though_nothing_tells_it(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        for _ in range(2):
            async with join(0, data=tmp_path) as node, asyncio.timeout(15):
                group = await node.open("alps", "total", settings={"order": "timed", "mergers": 1}, write=True)
                await group.publish(b"x")
                assert (await anext(aiter(group))).payload == b"x"

    within(main())


def test_late_events_and_resets_come_to_the_application_beside_and_with_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def main() -> None:
        async with join(0, data=tmp_path / "0") as a, join(1, data=tmp_path / "1", contacts=[a.address]) as b:
            settings = {"order": "timed", "mergers": 1, "delta": 300}
            merger = await a.open("alps", "total", settings=settings)
            other = await b.open("alps", "total", settings=settings)
            await other.publish(b"first")
            assert (await anext(aiter(merger))).payload == b"first"
            ports, sent = other._driver.ports, []
            send = ports.send

            def hold_back(*words: Any) -> int:
                sent.append(words)
                return 0

            ports.send = hold_back
            await (await other.publish(b"stuck")).accepted()
            await asyncio.sleep(0.01)  # what comes next is of a later tick
            await merger.publish(b"second")
            assert (await anext(aiter(merger))).payload == b"second"
            ports.send = send
            send(*next(words for words in sent if isinstance(words[1], Offer)))
            late = await asyncio.wait_for(anext(merger.late()), 10)
            assert (late.payload, late.sender) == (b"stuck", 1)
            assert late.late_ns > 0
            merger._driver._sink.reset("gap")
            await merger.publish(b"third")
            assert (await anext(aiter(merger))).resets == ("gap",)
            while not other.lost:
                await asyncio.sleep(0.02)
            with pytest.raises(EventsLostError, match="stuck"):  # its publisher hears that the stream has passed it
                await other.close()

    within(main())


@pytest.mark.parametrize("level", ["optimistic", "total"])
def test_commands_publish_under_a_ticket_or_key_and_take_an_operators_word(
    level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("k=0", "seeds=0", "round_ns=20000000") if level == "optimistic" else ("order=timed", "mergers=1")
    common = [word for setting in given for word in ("--set", setting)]
    node = ("--pid", 0, "--group", f"alps={level}", "--status", tmp_path / "s", "--data", tmp_path / "0")
    told_dead = ["declare-dead", "9:4", "--group", "alps", "--socket", str(tmp_path / "s")]
    with running(*node, "--log", "off", *common) as (_, told):
        published = json.loads(
            whence("pub", "alps", "--contact", told["address"], "--level", level, "--data", tmp_path / "2", *common,
                   "--json", stdin="one\ntwo\n")
        )  # fmt: skip
        assert (published["published"], published["until"]) == (2, "settled")
        assert command(["top", "--socket", str(tmp_path / "s"), "--once"]) == 0
        assert "alps" in capsys.readouterr().out
        assert command(told_dead) == (0 if level == "optimistic" else 2)
        said = capsys.readouterr().err
        assert ("counts as dead" if level == "optimistic" else "has no tickets") in said


@pytest.mark.parametrize("name", ["9", "9:x", "70000:1", "9:4:1"])
def test_a_process_is_named_by_pid_and_incarnation(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["declare-dead", name, "--group", "alps", "--pid", "0"]) == 2
    assert "or PID:INCARNATION, such as" in capsys.readouterr().err


def test_a_node_that_is_not_there_cannot_be_told(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(JoinError, match="no node answers"):
            await send_request(tmp_path / "none", DeclareDead("alps", 1, 1))

    within(main())
