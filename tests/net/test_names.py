"""Who goes by which pid: one that answers is not replaced, one that was lost is followed only by a later one."""

from tests.net.test_peers import connected
from whence.core.links.greeting import Refused, Why
from whence.net.names import ANSWERED_NS, REMEMBERED_NS, answered, refusal
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
