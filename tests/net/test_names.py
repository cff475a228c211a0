"""Who goes by which pid: one that answers is not replaced, one that was lost is followed only by a later one."""

from whence.core.links.greeting import Refused, Why
from whence.net.names import ANSWERED_NS, REMEMBERED_NS, Names
from whence.types import Process

S = 1_000_000_000


def connected() -> Names:
    names = Names()
    names.connected(Process(2, 5), b"one")
    return names


def test_a_second_connection_of_the_same_process_is_no_other_one() -> None:
    names = connected()
    assert names.refusal(Process(2, 5), b"one", S) is None
    assert names.refusal(Process(2, 5), b"", S) is None, "one that does not tell cannot be told apart"
    assert names.refusal(Process(3, 5), b"two", S) is None


def test_another_one_waits_until_the_first_has_answered_a_question_asked_after_it_came() -> None:
    names = connected()
    for boot in (5, 6):
        assert names.refusal(Process(2, boot), b"two", 10 * S) == Refused(Why.CALL_AGAIN, 5)
    names.answered(2, 9 * S, 11 * S)
    assert names.refusal(Process(2, 6), b"two", 11 * S) == Refused(Why.CALL_AGAIN, 5), "it may have died since"
    names.answered(2, 10 * S, 12 * S)
    assert names.refusal(Process(2, 6), b"two", 12 * S) == Refused(Why.TAKEN, 5)
    later = 12 * S + ANSWERED_NS + 1
    assert names.refusal(Process(2, 6), b"two", later) == Refused(Why.CALL_AGAIN, 5), "it is asked again"


def test_one_that_was_lost_is_followed_only_by_a_later_one() -> None:
    names = connected()
    names.lost(2, 10 * S)
    assert names.refusal(Process(2, 6), b"two", 11 * S) is None
    assert names.refusal(Process(2, 5), b"one", 11 * S) is None, "it is connected again"
    assert names.refusal(Process(2, 5), b"two", 11 * S) == Refused(Why.REUSED, 5)
    assert names.refusal(Process(2, 4), b"two", 11 * S) == Refused(Why.SUPERSEDED, 5)
    assert names.refusal(Process(2, 4), b"two", 11 * S + REMEMBERED_NS) is None
    names.connected(Process(3, 1), b"x")
    names.lost(3, 12 * S + REMEMBERED_NS)
    assert list(names._known) == [3], "what is old is forgotten"


def test_an_answer_before_it_was_lost_says_nothing_of_the_next_life() -> None:
    names = connected()
    names.refusal(Process(2, 6), b"two", 10 * S)
    names.answered(2, 10 * S, 10 * S)
    names.lost(2, 10 * S)
    assert names.refusal(Process(2, 6), b"two", 10 * S) is None
    names.connected(Process(2, 6), b"two")
    assert names.refusal(Process(2, 5), b"one", 11 * S) == Refused(Why.SUPERSEDED, 6)
