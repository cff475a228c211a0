"""Who goes by which name and pid: one that answers is not replaced, one that was lost is followed only by a later one,
and a number that is a name's is no other's."""

from tests.net.test_peers import ME, SETTINGS, connected
from whence.core.links.addresses import Address
from whence.core.links.greeting import VERSION, Hello, Refused, Why
from whence.net.names import ANSWERED_NS, REMEMBERED_NS, answered, check_claim, refusal
from whence.net.peers import PeerTable
from whence.types import Process

S = 1_000_000_000


def test_a_second_connection_of_the_same_process_is_no_other_one() -> None:
    peer = connected(Process(2, 5), b"one")
    assert refusal(peer, Process(2, 5), b"one", S) is None
    assert refusal(peer, Process(2, 5), b"", S) is None, "one that does not tell cannot be told apart"
    assert refusal(None, Process(3, 5), b"two", S) is None, "nobody is known by that pid"


def test_another_one_waits_until_the_first_has_answered_a_question_asked_after_it_came() -> None:
    peer = connected(Process(2, 5), b"one")
    for incarnation in (5, 6):
        assert refusal(peer, Process(2, incarnation), b"two", 10 * S) == Refused(Why.CALL_AGAIN, 5)
    answered(peer, 9 * S, 11 * S)
    assert refusal(peer, Process(2, 6), b"two", 11 * S) == Refused(Why.CALL_AGAIN, 5), "it may have died since"
    answered(peer, 10 * S, 12 * S)
    assert refusal(peer, Process(2, 6), b"two", 12 * S) == Refused(Why.TAKEN, 5)
    later = 12 * S + ANSWERED_NS + 1
    assert refusal(peer, Process(2, 6), b"two", later) == Refused(Why.CALL_AGAIN, 5), "it is asked again"


def test_one_that_was_lost_is_followed_only_by_a_later_one() -> None:
    peer = connected(Process(2, 5), b"one")
    peer.detach(10 * S)
    assert refusal(peer, Process(2, 6), b"two", 11 * S) is None
    assert refusal(peer, Process(2, 5), b"one", 11 * S) is None, "it is connected again"
    assert refusal(peer, Process(2, 5), b"two", 11 * S) == Refused(Why.REUSED, 5)
    assert refusal(peer, Process(2, 4), b"two", 11 * S) == Refused(Why.SUPERSEDED, 5)
    assert refusal(peer, Process(2, 4), b"two", 11 * S + REMEMBERED_NS) is None


def test_an_answer_before_it_was_lost_says_nothing_of_the_next_life() -> None:
    peer = connected(Process(2, 5), b"one")
    refusal(peer, Process(2, 6), b"two", 10 * S)
    answered(peer, 10 * S, 10 * S)
    peer.detach(10 * S)
    assert refusal(peer, Process(2, 6), b"two", 10 * S) is None
    connected(Process(2, 6), b"two", peer)
    assert refusal(peer, Process(2, 5), b"one", 11 * S) == Refused(Why.SUPERSEDED, 6)


def hello(name: str, instance: bytes = b"two") -> Hello:
    return Hello(VERSION, "whence", bytes(16), "", 4000, instance, name)


def table(process: Process, name: str, known: dict[str, int] | None = None) -> PeerTable:
    """Return a table of peers with one that is connected."""
    peers = PeerTable(ME, SETTINGS, "me", known)
    peer = connected(process, b"one", peers.add(process.pid))
    peer.name = name
    peers.met(process, name)
    return peers


def test_a_number_stays_its_names_also_while_its_process_is_away() -> None:
    peers = table(Process(17, 5), "a")
    assert check_claim(peers, Process(17, 9), hello("b"), S) == (Refused(Why.NUMBER_USED, 5), 17)
    assert check_claim(peers, Process(17, 9), hello(""), S) == (Refused(Why.NUMBER_USED, 5), 17)
    peers.by_pid[17].detach(S)
    assert check_claim(peers, Process(17, 9), hello("b"), 2 * REMEMBERED_NS) == (Refused(Why.NUMBER_USED, 5), 17)
    assert check_claim(peers, Process(17, 9), hello("a"), 2 * S) is None


def test_a_number_that_is_known_from_a_data_directory_or_from_others_is_its_names_too() -> None:
    peers = table(Process(17, 5), "a", {"b": 18})
    peers.rumoured(Address(19, 5, "host", 4000, "c"))
    for number in (18, 19):
        assert check_claim(peers, Process(number, 9), hello("x"), S) == (Refused(Why.NUMBER_USED, 0), number)
    assert check_claim(peers, Process(19, 9), hello("c"), S) is None


def test_others_cannot_rename_a_process_that_was_met() -> None:
    peers = table(Process(17, 5), "")
    peers.rumoured(Address(17, 9, "host", 4000, "writer"))
    assert peers.names.name(17) == ""
    peers = table(Process(17, 5), "a")
    peers.rumoured(Address(17, 9, "host", 4000, "writer"))
    peers.rumoured(Address(18, 9, "host", 4000, "a"))
    assert peers.names.all() == {"me": 1, "a": 17}


def test_one_name_under_another_number_is_refused_while_the_first_answers() -> None:
    peers = table(Process(17, 5), "a")
    second = Process(18, 6)
    assert check_claim(peers, second, hello("a"), 10 * S) == (Refused(Why.CALL_AGAIN, 5), 17)
    answered(peers.by_pid[17], 10 * S, 11 * S)
    assert check_claim(peers, second, hello("a"), 11 * S) == (Refused(Why.TAKEN, 5), 17)
    assert check_claim(peers, Process(18, 4), hello("a"), 11 * S) == (Refused(Why.TAKEN, 5), 17)
    peers.by_pid[17].detach(12 * S)
    assert check_claim(peers, second, hello("a"), 12 * S) is None


def test_a_number_whose_process_moved_to_another_is_free_for_an_older_incarnation_of_another_name() -> None:
    peers = table(Process(17, 9), "a")
    peers.by_pid[17].detach(S)
    peers.met(Process(18, 10), "a")
    assert check_claim(peers, Process(17, 5), hello("b"), 2 * S) is None


def test_a_process_without_a_name_takes_one_when_it_is_started_again() -> None:
    peers = table(Process(3, 5), "")
    assert check_claim(peers, Process(3, 6), hello("a"), S) == (Refused(Why.CALL_AGAIN, 5), 3)
    answered(peers.by_pid[3], S, S)
    assert check_claim(peers, Process(3, 6), hello("a"), S) == (Refused(Why.NUMBER_USED, 5), 3), "it still runs"
    peers.by_pid[3].detach(S)
    assert check_claim(peers, Process(3, 6), hello("a"), 2 * S) is None
