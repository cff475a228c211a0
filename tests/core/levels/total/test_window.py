"""How much a publisher of a merged group may have on its way follows from how long acknowledgements take."""

from tests.core.levels.total.group import MS, Group
from whence.core.levels.total.items import Ack
from whence.core.levels.total.window import WINDOW_BYTES, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, PublishWindow

DELTA = 100 * MS


def test_slow_acknowledgements_shrink_the_window_and_fast_ones_let_it_grow() -> None:
    window, now = PublishWindow(DELTA), 1_000 * MS
    for _ in range(50):
        now += DELTA // 2
        window.acknowledged(now - DELTA // 2, now, window.bytes_max)
    assert window.bytes_max == WINDOW_BYTES_MIN
    for _ in range(50):
        now += DELTA // 10
        window.acknowledged(now - DELTA // 10, now, window.bytes_max)
    assert window.bytes_max == WINDOW_BYTES_MAX


def test_a_window_that_is_hardly_used_does_not_grow() -> None:
    window = PublishWindow(DELTA)
    for at in range(50):
        window.acknowledged(at * DELTA, at * DELTA + MS, window.bytes_max // 4)
    assert window.bytes_max == WINDOW_BYTES


def test_what_was_sent_before_a_change_does_not_change_the_window_again() -> None:
    window = PublishWindow(DELTA)
    for after in range(10):
        window.acknowledged(1_000 * MS, 1_050 * MS + after, window.bytes_max)
    assert window.bytes_max == WINDOW_BYTES * 3 // 4


def test_copies_wait_longer_while_acknowledgements_are_slow_and_still_come_within_delta() -> None:
    window = PublishWindow(DELTA)
    assert window.resend_ns(30 * MS) == 30 * MS
    for at in range(100):
        window.acknowledged(at * DELTA, at * DELTA + 25 * MS, 0)
    assert 45 * MS < window.resend_ns(30 * MS) <= 50 * MS
    for at in range(100, 200):
        window.acknowledged(at * DELTA, at * DELTA + 5 * DELTA, 0)
    assert window.resend_ns(30 * MS) == 2 * DELTA // 3
    assert window.resend_ns(DELTA) == DELTA, "without resends there is no copy"


def test_a_clock_that_was_set_back_does_not_freeze_the_window() -> None:
    window = PublishWindow(DELTA)
    window.acknowledged(0, 10_000 * DELTA, 0)
    for at in range(1, 20):
        window.acknowledged(at * DELTA, at * DELTA + MS, window.bytes_max)
    assert window.bytes_max > WINDOW_BYTES


def test_publishers_wait_for_mergers_to_acknowledge_and_not_for_what_waits_there_for_its_time() -> None:
    group = Group(4)
    publisher = group.members[3]
    piece = bytes(WINDOW_BYTES // 4)
    for _ in range(8):
        group.do(3, publisher.publish([piece], group.now)[1])
        assert not publisher.held_back(), "acknowledged at once, though released only after δ"
    group.lost = (Ack,)
    published = 0
    while not publisher.held_back():
        group.do(3, publisher.publish([piece], group.now)[1])
        published += 1
    assert published > 4
    group.lost = ()
    group.run(40)
    assert not publisher.held_back(), "what is given up is no longer on its way"
