"""The table of peers: a record outlives connections, and what a peer says of groups does not."""

from typing import Any, cast

from whence.core.links.greeting import Greeting
from whence.core.links.presence import Place, presence
from whence.net.link import Link
from whence.net.peers import Peer, PeerTable
from whence.net.settings import NetSettings
from whence.types import Process

ME = Process(1, 1)
SETTINGS = NetSettings()
PATIENCE_NS = SETTINGS.heartbeat_ns + SETTINGS.margin_ns


def connected(process: Process, instance: bytes = b"", peer: Peer | None = None, now: int = 0) -> Peer:
    """Return the record of a peer that has just greeted."""
    peer = peer or Peer(process.pid, SETTINGS)
    link = Link(cast(Any, None), Greeting(ME, "whence", bytes(16), None, "", 0, b""), dialed=True)
    peer.attach(link, process, instance, now)
    return peer


def suspected(peer: Peer, now: int) -> Peer:
    assert peer.detector.suspects(now)
    peer.detach(now)
    return peer


def test_a_peer_that_was_suspected_wrongly_is_given_more_time_when_it_is_back_in_the_same_life() -> None:
    peer = suspected(connected(Process(2, 7)), PATIENCE_NS + 1)
    connected(Process(2, 7), peer=peer, now=PATIENCE_NS + 2)
    assert peer.detector.patience_ns() == PATIENCE_NS + SETTINGS.margin_ns


def test_a_peer_that_was_suspected_rightly_begins_anew_in_its_next_life() -> None:
    peer = suspected(connected(Process(2, 7)), PATIENCE_NS + 1)
    connected(Process(2, 8), peer=peer, now=PATIENCE_NS + 2)
    assert peer.detector.patience_ns() == PATIENCE_NS


def test_round_trips_are_told_only_of_peers_that_are_connected() -> None:
    table = PeerTable(ME, SETTINGS)
    assert table.rtt_ns(2) is None, "nobody knows it"
    peer = connected(Process(2, 7), peer=table.add(2))
    peer.detector.answered(0, 5)
    assert table.rtt_ns(2) == 5
    assert suspected(peer, 2 * PATIENCE_NS).detector.rtt_ns == 5, "it counts again should it come back"
    assert table.rtt_ns(2) is None


def test_who_is_connected_is_what_the_records_say() -> None:
    table = PeerTable(ME, SETTINGS)
    peers = [connected(Process(pid, 1), peer=table.add(pid)) for pid in (2, 3)]
    table.add(4)
    assert table.connected() == peers
    peers[0].detach(1)
    assert table.connected_pids() == [3]
    assert [table.is_connected(pid) for pid in (2, 3, 4, 5)] == [False, True, False, False]


def test_members_and_those_who_want_to_be_are_told_apart_by_group() -> None:
    table = PeerTable(ME, SETTINGS)
    assert table.hear("alps", Process(2, 7), presence("fifo", Place.WANTS))
    assert not table.hear("alps", Process(2, 7), presence("fifo", Place.MEMBER)), "it has said so before"
    table.hear("alps", Process(3, 8), presence("fifo", Place.WANTS))
    table.hear("andes", Process(3, 9), presence("fifo", Place.MEMBER))
    assert [said.process for said in table.members("alps")] == [Process(2, 7)]
    assert table.wanting("alps") == [3]
    assert table.member("alps", 3) is None
    assert table.member("andes", 3) == Process(3, 9), "a group opened again is a later life of its own"


def test_what_a_peer_said_of_groups_is_forgotten_with_its_connection() -> None:
    table = PeerTable(ME, SETTINGS)
    peer = connected(Process(2, 7), peer=table.add(2))
    table.hear("alps", Process(2, 7), presence("fifo", Place.MEMBER))
    peer.detach(1)
    assert table.members("alps") == []


def test_a_group_that_is_closed_here_is_forgotten_of_everybody_and_a_peer_that_leaves_of_itself() -> None:
    table = PeerTable(ME, SETTINGS)
    for pid in (2, 3):
        for group in ("alps", "andes"):
            table.hear(group, Process(pid, 1), presence("fifo", Place.MEMBER))
    table.forget("alps", [2, 9])
    assert [said.process.pid for said in table.members("alps")] == [3]
    table.forget("alps")
    assert table.members("alps") == []
    assert len(table.members("andes")) == 2
