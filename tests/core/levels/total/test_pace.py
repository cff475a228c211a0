"""How much a publisher of a merged group may have on its way follows from how long acknowledgements take."""

from tests.core.levels.total.test_member import MS, Group
from whence.core.levels.total.items import Taken
from whence.core.levels.total.pace import WINDOW_BYTES, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, Pace

DELTA = 100 * MS


def test_slow_acknowledgements_shrink_the_window_and_fast_ones_let_it_grow() -> None:
    pace, now = Pace(DELTA), 1_000 * MS
    for _ in range(50):
        now += DELTA // 2
        pace.acknowledged(now - DELTA // 2, now, pace.window)
    assert pace.window == WINDOW_BYTES_MIN
    for _ in range(50):
        now += DELTA // 10
        pace.acknowledged(now - DELTA // 10, now, pace.window)
    assert pace.window == WINDOW_BYTES_MAX


def test_a_window_that_is_hardly_used_does_not_grow() -> None:
    pace = Pace(DELTA)
    for at in range(50):
        pace.acknowledged(at * DELTA, at * DELTA + MS, pace.window // 4)
    assert pace.window == WINDOW_BYTES


def test_what_was_sent_before_a_change_does_not_change_the_window_again() -> None:
    pace = Pace(DELTA)
    for after in range(10):
        pace.acknowledged(1_000 * MS, 1_050 * MS + after, pace.window)
    assert pace.window == WINDOW_BYTES * 3 // 4


def test_copies_wait_longer_while_acknowledgements_are_slow_and_still_come_within_delta() -> None:
    pace = Pace(DELTA)
    assert pace.resend_ns(30 * MS) == 30 * MS
    for at in range(100):
        pace.acknowledged(at * DELTA, at * DELTA + 25 * MS, 0)
    assert 45 * MS < pace.resend_ns(30 * MS) <= 50 * MS
    for at in range(100, 200):
        pace.acknowledged(at * DELTA, at * DELTA + 5 * DELTA, 0)
    assert pace.resend_ns(30 * MS) == 2 * DELTA // 3
    assert pace.resend_ns(DELTA) == DELTA, "without resends there is no copy"


def test_a_clock_that_was_set_back_does_not_freeze_the_window() -> None:
    pace = Pace(DELTA)
    pace.acknowledged(0, 10_000 * DELTA, 0)
    for at in range(1, 20):
        pace.acknowledged(at * DELTA, at * DELTA + MS, pace.window)
    assert pace.window > WINDOW_BYTES


def test_publishers_wait_for_mergers_to_acknowledge_and_not_for_what_waits_there_for_its_time() -> None:
    group = Group(4)
    publisher = group.members[3]
    piece = bytes(WINDOW_BYTES // 4)
    for _ in range(8):
        group.do(3, publisher.publish([piece], group.now)[1])
        assert not publisher.held_back(), "acknowledged at once, though released only after δ"
    group.lost = (Taken,)
    published = 0
    while not publisher.held_back():
        group.do(3, publisher.publish([piece], group.now)[1])
        published += 1
    assert published > 4
    group.lost = ()
    group.run(40)
    assert not publisher.held_back(), "what is given up is no longer on its way"
