"""A publisher may have so much under way that members it waits for have not taken; publishers share that."""

from whence.core.credit import AWAY_S, PAUSE_S, Credit
from whence.limits import MergeLimits

NOW = 1_000.0


def test_who_publishes_alone_gets_more_once_everything_from_before_was_taken() -> None:
    held = MergeLimits().buffer_bytes_max
    credit = Credit(0, held)
    credit.published(1, 100, NOW)
    credit.share(members=10, publishers=1, now=NOW)
    begins = credit.limit_bytes()
    assert begins * 10 <= held
    for _ in range(3):  # nobody has taken anything
        credit.share(members=10, publishers=1, now=NOW)
        assert credit.limit_bytes() == begins
    for last in range(2, 9):
        credit.published(last, 100, NOW)
        credit.reached(0, last)
        credit.share(members=10, publishers=1, now=NOW)
    assert begins < credit.limit_bytes() <= held - 9 * begins, "others may begin beside it, and all is held"
    credit.share(members=10, publishers=4, now=NOW)
    assert credit.limit_bytes() * 4 <= held, "it shrinks at once"


def test_a_pause_ends_what_was_granted_to_one_alone() -> None:
    credit = Credit(0, MergeLimits().buffer_bytes_max)
    credit.share(members=10, publishers=1, now=NOW)
    begins = credit.limit_bytes()
    credit.share(members=10, publishers=1, now=NOW)
    assert credit.limit_bytes() == 2 * begins
    credit.share(members=10, publishers=1, now=NOW + PAUSE_S + 0.1)
    assert credit.limit_bytes() == begins


def test_who_took_nothing_is_not_waited_for_again_because_it_connects_again() -> None:
    credit = Credit(0)
    credit.expect(1)
    credit.published(1, 8 << 20, NOW)
    credit.reached(0, 1)
    assert credit.is_used_up(NOW)
    later = NOW + AWAY_S + 0.1
    assert not credit.is_used_up(later)
    credit.forget(1)
    credit.expect(1)
    credit.published(2, 8 << 20, later)
    credit.reached(0, 2)
    assert not credit.is_used_up(later), "it is still stuck"
    credit.reached(1, 1)
    assert not credit.is_used_up(later), "it is owed what comes from now on"
    credit.published(3, 8 << 20, later)
    credit.reached(0, 3)
    assert credit.is_used_up(later), "it takes again, and is waited for"
