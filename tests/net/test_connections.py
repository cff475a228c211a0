"""Connections break, peers are slow, gone or closed out: what the connection manager does about it."""

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, QUICK, fast, nodes, open_all, take, within
from whence.api.node import Node, join
from whence.core import credit
from whence.core.levels.optimistic.tickets.items import AcquireTicket
from whence.core.links.addresses import Address, asking
from whence.core.links.detector import DetectorSettings
from whence.core.links.greeting import VERSION, Confirm, Hello
from whence.core.membership.items import Subscribe
from whence.errors import JoinError, NameTakenError, SettingError, StorageError, TraceError, UsageError
from whence.limits import INCARNATION_MAX
from whence.net import clock, incarnations
from whence.net.certs import make_authority, make_member
from whence.net.clock import incarnation_now, steady_ns
from whence.net.link import Link
from whence.net.outboxes import Outbox
from whence.net.permits import Permits
from whence.net.settings import NetSettings, net_settings_from
from whence.trace.schema import Kind
from whence.trace.segments import TraceSegmentWriter
from whence.types import Process
from whence.wire.codec import decode_body, encode
from whence.wire.items import Packet

MS = 1_000_000


def links(node: Node) -> list[int]:
    return sorted(node.live.peers.connected_pids())


async def until(reached: object) -> None:
    assert callable(reached)
    for _ in range(int(DEADLINE_S / 0.01)):
        if reached():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never happened")


def test_a_cut_connection_is_made_again_and_nothing_is_missing() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started)
            for number in range(60):
                await here.publish(b"%d" % number)
                if number % 20 == 10:
                    await asyncio.sleep(0.05)
                    link = started[0].live.peers.by_pid[2].link
                    if link is not None:
                        link.close("cut by the test")
                await asyncio.sleep(0.002)
            taken = await take(there, 60)
            assert [int(d.payload) for d in taken] == list(range(60))
            assert all(not d.gaps for d in taken)

    within(main())


def test_two_that_call_each_other_at_once_keep_one_connection() -> None:
    async def main() -> None:
        settings = fast(linger_ns=50 * MS)
        async with join(1, settings=settings) as one, join(2, settings=settings) as two:
            ports = [int(node.address.rpartition(":")[2]) for node in (one, two)]
            await asyncio.gather(
                one.live.connections.call("127.0.0.1", ports[1]), two.live.connections.call("127.0.0.1", ports[0])
            )
            await until(lambda: links(one) == [2] and links(two) == [1])
            await until(lambda: len(one.live.connections._links) == len(two.live.connections._links) == 1)
            groups = await open_all([one, two])
            await groups[0].publish(b"x")
            assert [d.payload for d in await take(groups[1], 1)] == [b"x"]

    within(main())


def test_a_silent_peer_is_suspected_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "whence.net")

    async def main() -> None:
        quick = {"heartbeat_ns": 20 * MS, "margin_ns": 60 * MS}
        async with nodes(2, settings=fast(**quick)) as started:
            await open_all(started)
            peer = started[0].live.peers.by_pid[2]
            assert peer.link is not None
            started[1].live.connections.pause_reading(pause=True)
            started[1].live.connections._heartbeat.stop()
            started[1].live.drivers["alps"].stop()
            await until(lambda: started[0].live.counts["suspected"] > 0)
            await until(lambda: "lost the connection to process 2: it was silent for too long" in caplog.text)

    within(main())


def test_a_peer_that_takes_nothing_is_cut_and_publishers_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credit, "AWAY_S", 0.5)

    async def main() -> None:
        settings = fast(outbox_high_bytes=1 << 20, outbox_bytes_max=4 << 20, stall_ns=300 * MS)
        async with nodes(2, settings=settings) as started:
            here, _ = await open_all(started, receive=False)
            started[1].live.connections.pause_reading(pause=True)
            started[1].live.connections._heartbeat.is_reading = True  # it will read again on a new connection
            for _ in range(40):
                await here.publish(bytes(500_000))
            counts = started[0].live.counts
            assert counts["stalled"] + counts["outbox_overflow"] + counts["suspected"] > 0
            assert started[0].live.peers.by_pid[2].outbox.bytes <= settings.outbox_bytes_max

    within(main())


def test_a_restarted_peer_is_taken_for_the_new_process_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1) as one:
            here = await one.open("alps", settings=QUICK)
            taken = asyncio.create_task(take(here, 3))
            lives = []
            for life in (1, 2, 3):
                async with join(2, contacts=[one.address], data=tmp_path) as two:
                    lives.append((life, two.live.me.incarnation))
                    there = await two.open("alps", settings=QUICK)
                    drained = asyncio.create_task(take(there, 1))
                    await there.gathered(2)
                    await there.publish(b"%d" % life, until="settled")
                    drained.cancel()
            assert [(int(d.payload), d.event.incarnation) for d in await taken] == lives == sorted(lives)

    within(main())


def test_an_older_life_is_refused_where_a_newer_one_is_connected_and_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock was set back: its events could have the names of others that were published before."""

    async def main() -> None:
        async with join(1, settings=fast()) as one, join(2, contacts=[one.address]) as two:
            monkeypatch.setattr(incarnations, "incarnation_now", lambda pid: two.live.me.incarnation - 5)
            with pytest.raises(NameTakenError, match=r"1 knows incarnation \d+ of process 2 at .*, later than this"):
                async with join(2, contacts=[one.address]):
                    pass
            assert one.live.counts["older_life"] > 0
            assert links(one) == [2]

    within(main())


def test_an_older_life_is_refused_where_a_newer_one_was_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with join(1, settings=fast()) as one:
            async with join(2, contacts=[one.address]) as two:
                incarnation = two.live.me.incarnation
            for earlier, why in ((incarnation - 1, "later than this one"), (incarnation, "with the same incarnation")):
                monkeypatch.setattr(incarnations, "incarnation_now", lambda pid, given=earlier: given)
                with pytest.raises(NameTakenError, match=why):
                    async with join(2, contacts=[one.address]):
                        pass
            monkeypatch.undo()
            async with join(2, contacts=[one.address]):
                assert links(one) == [2]

    within(main())


@pytest.mark.parametrize("stored", [False, True])
def test_the_second_of_two_processes_with_one_number_is_refused_and_the_first_goes_on(
    stored: bool, tmp_path: Path
) -> None:
    """Their events would have the same names, and be dropped as repetitions of each other."""

    async def main() -> None:
        one_more: dict[str, Any] = {"data": tmp_path / "2"} if stored else {}
        other: dict[str, Any] = {"data": tmp_path / "other"} if stored else {}
        async with join(1) as one, join(2, contacts=[one.address], **one_more) as two:
            here, there = await open_all([one, two])
            for contact in (one.address, two.address):
                with pytest.raises(
                    NameTakenError, match=r"another process 2 runs at 127.0.0.1:\d+, .*incarnation \d+.*give this"
                ):
                    async with join(2, contacts=[contact], **other):
                        pass
            assert one.live.counts["name_taken"] > 0
            assert links(one) == [2]
            assert links(two) == [1]
            await there.publish(b"goes on")
            await here.publish(b"is heard")
            assert {d.payload for d in await take(here, 2)} == {b"goes on", b"is heard"}
            assert {d.payload for d in await take(there, 2)} == {b"goes on", b"is heard"}
            await two.live.connections.call(*one.live.connections.endpoint)
            assert links(one) == [2], "a process may be connected twice for a while"

    within(main())


def test_a_node_that_learns_late_that_its_number_is_taken_stops_and_tells_its_applications() -> None:
    async def main() -> None:
        async with join(1) as one, join(2, contacts=[one.address]) as two:
            here, _ = await open_all([one, two])
            async with join(2, contacts=[]) as second:
                lonely = await second.open("andes")
                second.live.peers.book.learn(Address(*one.live.me, *one.live.connections.endpoint))
                for _ in range(100):
                    second.live.outboxes.send("", [1], asking([7]))
                    if second.live.failure is not None:
                        break
                    await asyncio.sleep(0.05)
                with pytest.raises(NameTakenError, match="another process 2 runs"):
                    await lonely.publish(b"x")
                with pytest.raises(NameTakenError, match="another process 2 runs"):
                    await take(lonely, 1)
                with pytest.raises(NameTakenError, match="another process 2 runs"):
                    await second.open("alps")
            assert links(one) == [2]
            await here.publish(b"x")
            assert len(await take(here, 1)) == 1

    within(main())


def test_a_process_that_was_killed_comes_back_though_its_connection_seems_to_last() -> None:
    """Its machine died without a word: the others find out in their own time, and it calls until then."""

    async def main() -> None:
        async with join(1, settings=fast(heartbeat_ns=50 * MS, margin_ns=200 * MS)) as one:
            with socket.create_connection(one.live.connections.endpoint) as gone:
                await asyncio.sleep(0)
                nonce = b"n" * 16
                gone.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(gone, encode("", Process(2, 5), [Hello(VERSION, "whence", nonce, "", 0, b"i")]))
                told = decode_body((await loop.sock_recv(gone, 4096))[8:]).items[0]
                assert isinstance(told, Hello)
                await loop.sock_sendall(gone, encode("", Process(2, 5), [Confirm(told.nonce, *one.live.me)]))
                while links(one) != [2]:
                    await asyncio.sleep(0.01)
                async with join(2, contacts=[one.address], settings=fast(call_ns=20_000 * MS)) as two:
                    assert links(one) == [2]
                    assert one.live.counts["name_asked"] > 0
                    peer = one.live.peers.by_pid[2].link
                    assert peer is not None
                    assert peer.peer == two.live.me

    within(main())


def test_another_cluster_is_another_world() -> None:
    async def main() -> None:
        async with join(1, cluster="here") as one:
            with pytest.raises(JoinError, match="no contact lets this process in"):
                async with join(2, contacts=[one.address], settings=fast(cluster="there")):
                    pass

    within(main())


def test_contacts_that_are_not_up_yet_are_called_on_and_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            late = f"127.0.0.1:{taken.getsockname()[1]}"
        async with join(1, contacts=[late], settings=fast(call_ns=200 * MS)) as early:
            assert late in caplog.text
            assert late in early.live.contacts.unreached()
            async with join(2, listen=late, settings=fast()):
                await until(lambda: links(early) == [2])
                assert early.live.contacts.unreached() == ""

    with caplog.at_level("WARNING", "whence.net"):
        within(main())


def test_an_address_that_is_taken_cannot_be_listened_at() -> None:
    async def main() -> None:
        async with join(1) as one:
            port = one.address.rpartition(":")[2]
            with pytest.raises(JoinError, match="cannot listen"):
                async with join(2, listen=f"127.0.0.1:{port}"):
                    pass

    within(main())


def test_rights_decide_who_reads_and_who_writes() -> None:
    async def main() -> None:
        table = {"alps": {1: "rwa", 2: "r"}}
        async with nodes(3, permits=table) as started:
            with pytest.raises(UsageError, match="no permission"):
                await started[2].open("alps")
            one, two = await open_all(started[:2])
            for publish in (two.publish(b"not allowed"), two.publish_many([b"not allowed"]), two.ready_to_publish()):
                with pytest.raises(UsageError, match="2 may not publish in group 'alps': it has no right to write"):
                    await publish
            two._driver.flow._barred = False  # a process that does not keep to it
            await two.publish(b"not allowed")
            await one.publish(b"allowed")
            assert b"allowed" in [d.payload for d in await take(two, 2)]
            assert [d.payload for d in await take(one, 1)] == [b"allowed"]
            await until(lambda: started[0].live.drivers["alps"].counts["reject:not_permitted"] > 0)

    within(main())


def test_tables_of_rights_are_read_with_care() -> None:
    permits = Permits({"alps": {1: "rw"}})
    assert permits.may(1, "alps", "write")
    assert not permits.may(1, "alps", "administer")
    assert not permits.may(2, "alps", "read")
    assert permits.may(2, "andes", "write"), "a group without an entry is open"
    with pytest.raises(UsageError, match="rights are"):
        Permits({"alps": {1: "x"}})


def test_incarnations_grow_with_the_time_and_never_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_drawn", {})  # other tests had lives before, and others come after these
    drawn = [incarnation_now(5) for _ in range(3)]
    assert sorted(set(drawn)) == drawn
    now_s = 1_796_000_000
    later = []
    for years in (1, 10, 30):
        monkeypatch.setattr(time, "time_ns", lambda years=years: (now_s + years * 31_557_600) * 10**9)
        later.append(incarnation_now(5))
    assert sorted(later) == later
    assert drawn[-1] < later[0]
    assert later[-1] <= INCARNATION_MAX
    monkeypatch.setattr(time, "time_ns", lambda: 2_800_000_000 * 10**9)
    with pytest.raises(StorageError, match="set it right"):
        incarnation_now(6)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert incarnation_now(7) == 1, "a clock that was never set; peers that know a later life say so"
    assert steady_ns() <= steady_ns()


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(SettingError, match="stall_ns"):
        NetSettings(stall_ns=0)
    with pytest.raises(SettingError, match="outbox_high_bytes"):
        NetSettings(outbox_high_bytes=1 << 30)
    with pytest.raises(SettingError, match="cluster"):
        NetSettings(cluster="")


def test_settings_of_the_wrong_type_are_refused_where_they_are_made() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"stall_ns": "x"}, "stall_ns is a whole number, not 'x'"), ({"links_max": 1.5}, "links_max is a whole number"),
        ({"links_max": True}, "links_max is a whole number"), ({"udp": 1}, "udp is True or False, not 1"),
        ({"cluster": 5}, "cluster is a text, not 5"), ({"heartbeat_ns": None}, "heartbeat_ns is a whole number"),
        ({"detector": 5}, "detector is whence.DetectorSettings"),
    ]  # fmt: skip
    for given, said in wrong:
        with pytest.raises(SettingError, match=said):
            NetSettings(**given)


def test_the_detectors_settings_have_the_same_names_in_a_file_and_in_a_program() -> None:
    flat = NetSettings(heartbeat_ns=20 * MS, margin_ns=60 * MS)
    assert net_settings_from({"heartbeat_ns": 20 * MS, "margin_ns": "60000000"}) == flat
    assert NetSettings(detector=DetectorSettings(heartbeat_ns=20 * MS, margin_ns=60 * MS)) == flat


def test_gossip_can_travel_as_datagrams_and_strangers_datagrams_are_dropped() -> None:
    async def main() -> None:
        async with nodes(3, settings=fast(udp=True)) as started:
            groups = await open_all(started, settings={**QUICK, "spread": "gossip"})
            for number in range(10):
                await groups[0].publish(b"%d" % number)
            for group in groups[1:]:
                assert sorted(int(d.payload) for d in await take(group, 10)) == list(range(10))
            counts = started[1].live.counts
            assert counts["datagrams_taken"] > 0
            port = int(started[1].address.rpartition(":")[2])
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.sendto(b"garbage", ("127.0.0.1", port))
                stranger.sendto(encode("alps", Process(66, 1), [Subscribe(joining=False)]), ("127.0.0.1", port))
            await until(lambda: counts["datagram_refused"] >= 2)

    within(main())


def test_datagrams_and_certificates_exclude_each_other(tmp_path: Path) -> None:
    make_authority(tmp_path, "test")
    certificate, key = make_member(tmp_path, 1)
    node = join(1, certificate=certificate, key=key, authority=tmp_path / "ca.pem", settings=fast(udp=True))

    async def main() -> None:
        with pytest.raises(UsageError, match="not encrypted"):
            async with node:
                pass

    within(main())


def test_tickets_need_the_right_to_write_and_an_operators_word_the_right_to_administer() -> None:
    permits = Permits({"alps": {1: "rw", 2: "ra"}})
    permits.check_act(1, "alps", "acquire_ticket")
    permits.check_act(2, "alps", "declare_dead")
    permits.check_act(2, "alps", "release_ticket")
    permits.check_act(3, "andes", "declare_dead")
    with pytest.raises(UsageError, match="no right to write"):
        permits.check_act(2, "alps", "acquire_ticket")
    with pytest.raises(UsageError, match="no right to administer"):
        permits.check_act(1, "alps", "declare_dead")
    asking = Packet("alps", 2, 1, 0, [AcquireTicket(7)])
    assert not permits.admits(asking), "whoever may not write is given no ticket"
    assert permits.admits(Packet("alps", 1, 1, 0, [AcquireTicket(7)]))


def test_an_act_without_its_right_is_refused_in_a_sentence() -> None:
    async def main() -> None:
        async with join(1, permits={"alps": {1: "r"}}) as node:
            group = await node.open("alps", "optimistic", founders=[1], settings={"allow_unsafe_liveness": True})
            with pytest.raises(UsageError, match="may not acquire_ticket"):
                await group.acquire_ticket()
            with pytest.raises(UsageError, match="may not declare_dead"):
                group.declare_dead(9, 4)

    within(main())


def test_rows_of_what_is_sent_are_on_file_before_its_bytes_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed while it writes has told of every copy that went out (decision 0007)."""
    add, flush_rows, flush = TraceSegmentWriter.add, TraceSegmentWriter.flush, Outbox.flush
    taken: list[Kind] = []
    on_file = written = 0

    def count_row(spool: TraceSegmentWriter, kind: Kind, row: Any) -> None:
        taken.append(kind)
        add(spool, kind, row)

    def count_rows(spool: TraceSegmentWriter) -> None:
        nonlocal on_file
        flush_rows(spool)
        on_file += taken.count(Kind.SEND)
        taken.clear()

    def count_frames(outbox: Outbox, link: Link | None) -> None:
        nonlocal written
        written += sum(b"cause" in piece for frame in outbox.frames for piece in frame)
        assert written <= on_file
        flush(outbox, link)

    async def story() -> None:
        async with join(1, trace=tmp_path) as one, join(2, contacts=[one.address]) as two:
            groups = await open_all([one, two])
            monkeypatch.setattr(TraceSegmentWriter, "add", count_row)
            monkeypatch.setattr(TraceSegmentWriter, "flush", count_rows)
            monkeypatch.setattr(Outbox, "flush", count_frames)
            for _ in range(20):
                await groups[0].publish_many([b"cause"])
                await asyncio.sleep(0.002)
            await take(groups[1], 20)

    within(story())
    assert written >= 20


def test_a_disk_that_takes_no_rows_does_not_stop_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A trace tells of a group; where it cannot be written, that is counted and said once, and events go on."""

    def full(spool: TraceSegmentWriter, *_: object) -> int:
        raise TraceError("the disk is full")

    async def story() -> None:
        async with join(1, trace=tmp_path) as one, join(2, contacts=[one.address]) as two:
            groups = await open_all([one, two])
            monkeypatch.setattr(TraceSegmentWriter, "_put", full)
            for number in range(20):
                await groups[0].publish(bytes([number]))
                await groups[1].publish(bytes([number]))
            assert len(await take(groups[1], 40)) == len(await take(groups[0], 40)) == 40
            while one.live.counts["trace_rows_lost"] <= 40:  # what is taken is told a moment later
                await asyncio.sleep(0.01)

    within(story())
    assert caplog.text.count("the trace is incomplete from now on") == 1


@pytest.mark.parametrize("pid", [1.5, True, -1, 1 << 40])
def test_a_pid_that_is_none_is_refused_at_the_door(pid: Any) -> None:
    with pytest.raises(UsageError, match="or a pid, a whole number from 0 to 32767, not"):
        join(pid)
    with pytest.raises(UsageError, match="or a pid, a whole number from 0 to 32767, not"):
        join("billing-1", pid=pid)


@pytest.mark.parametrize("name", ["", "x" * 65, "漢" * 42, "\ud800", 7])
def test_a_group_whose_name_cannot_be_kept_is_refused_in_a_sentence(name: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with join(1, data=tmp_path, settings=fast()) as node:
            with pytest.raises(UsageError, match="a group's name"):
                await node.open(name, "total")
            await node.open("漢" * 33, "total")

    within(main())
