"""What waits to be sent: bounded while a peer is not connected, and sent in the name the process has in a group."""

import asyncio
from collections import Counter

import pytest

from whence.core.links.detector import Ping
from whence.net.outboxes import NODE, Outboxes
from whence.net.peers import Peer, PeerTable
from whence.net.settings import NetSettings
from whence.types import Process
from whence.wire.codec import decode

ME = Process(1, 5)
SETTINGS = NetSettings(pending_bytes_max=1 << 10)


def outboxes(names: dict[str, Process] | None = None) -> tuple[Outboxes, PeerTable]:
    table = PeerTable(ME, SETTINGS)
    return Outboxes(ME, table, SETTINGS, Counter(), {} if names is None else names), table


def test_for_a_peer_that_is_not_connected_the_latest_frames_wait_and_it_is_called() -> None:
    async def main() -> None:
        sending, table = outboxes()
        called: list[Peer] = []
        sending.on_unconnected = called.append
        for number in range(200):
            sending.send("alps", [2], Ping(number))
        outbox = table.by_pid[2].outbox
        assert called == [table.by_pid[2]] * 200
        assert outbox.dropped > 0
        assert outbox.dropped + len(outbox.frames) == 200
        assert outbox.bytes == sum(len(piece) for frame in outbox.frames for piece in frame)
        assert outbox.bytes <= SETTINGS.pending_bytes_max
        assert decode(b"".join(outbox.frames[-1])).items == [Ping(199)]
        assert outbox.drop() == ["alps"]
        assert (len(outbox.frames), outbox.bytes, outbox.dropped) == (0, 0, 200)

    asyncio.run(main())


def test_nothing_is_sent_to_oneself() -> None:
    async def main() -> None:
        sending, table = outboxes()
        assert sending.send(NODE, [1], Ping(0)) > 0
        assert not table.by_pid

    asyncio.run(main())


@pytest.mark.parametrize(("group", "incarnation"), [("alps", 9), ("andes", 5), (NODE, 5)])
def test_a_frame_has_the_name_that_the_process_has_in_its_group_when_it_is_sent(group: str, incarnation: int) -> None:
    async def main() -> None:
        names: dict[str, Process] = {}
        sending, table = outboxes(names)
        names["alps"] = Process(1, 9)  # the group was opened again
        sending.send(group, [2], Ping(0), 7)
        packet = decode(b"".join(table.by_pid[2].outbox.frames[0]))
        assert (packet.group, packet.pid, packet.incarnation, packet.to_incarnation) == (group, 1, incarnation, 7)

    asyncio.run(main())


def test_what_is_sent_together_waits_for_one_flush() -> None:
    async def main() -> None:
        sending, table = outboxes()
        flushed: list[int] = []
        sending.on_flush = lambda: flushed.append(len(table.by_pid[2].outbox.frames))

        def work() -> None:
            sending.send("alps", [2], Ping(1))
            sending.send("alps", [2], Ping(2))

        sending.at_once(work)
        assert flushed == [2]

    asyncio.run(main())
