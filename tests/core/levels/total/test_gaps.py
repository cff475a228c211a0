"""What a stream left out is told before what comes next."""

from tests.core.levels.total.group import Group, metric
from whence.core.clocks.stamp import last_key_of
from whence.core.levels.total.gaps import GAP_EVENTS_MAX, GapDetector
from whence.core.levels.total.items import Offer
from whence.types import Process, Span, packed


def test_what_a_merger_never_got_is_told_to_its_application_and_to_its_followers_before_what_comes_next() -> None:
    group = Group(5)
    group.publish(2, b"1")
    group.run(30)
    group.cut = [(2, 0)]
    for number in range(2, 8):
        group.publish(2, b"%d" % number, b"and")
        group.run(30)
    group.cut = []
    group.publish(2, b"last")
    group.run(40)
    assert group.delivered[1] == group.delivered[3], "these have merger 1"
    assert 1 not in group.gaps
    assert 3 not in group.gaps
    for pid in (0, 4):
        assert group.delivered[pid] == [b"1", b"last"], "these have merger 0"
        assert group.gaps[pid] == [Span(2, 1, 2, 13)]
        assert metric(group.members[pid], "skipped_total") == 12


def test_what_came_too_late_is_a_gap_in_the_stream_too() -> None:
    group = Group(3)
    group.cut = [(2, 0)]
    group.publish(2, b"1")
    group.run(5)
    held = group.members[2].outbox._pending
    late = next(iter(held.values())).item
    group.publish(1, b"other")
    group.run(40)
    group.cut = []
    group.do(0, group.members[0].receive(Process(2, 1), late, group.now))
    group.publish(2, b"2")
    group.run(40)
    assert group.late[0] == [b"1"]
    assert group.gaps[0] == [Span(2, 1, 1, 1)]


def test_a_newcomer_is_told_of_no_gap_before_what_it_first_sees_but_of_every_one_after() -> None:
    gaps = GapDetector()
    assert gaps.before(packed(Process(1, 1), 5, [b"x"])) is None
    assert gaps.before(packed(Process(1, 1), 7, [b"x", b"y"])) == Span(1, 1, 6, 6)
    assert gaps.before(packed(Process(1, 1), 9, [b"x"])) is None
    assert gaps.before(packed(Process(1, 2), 3, [b"x"])) == Span(1, 2, 1, 2), "a later life begins with 1"
    assert gaps.before(packed(Process(1, 1), 4, [b"x"])) is None
    gaps.from_the_start = True
    assert gaps.before(packed(Process(2, 1), 3, [b"x"])) == Span(2, 1, 1, 2)


def test_a_gap_that_nobody_can_have_made_is_told_without_its_names() -> None:
    group = Group(3)
    group.publish(2, b"1")
    member = group.members[2]
    member.publisher.published = 1 << 30
    group.publish(2, b"far")
    group.run(40)
    assert group.delivered[0] == [b"1", b"far"]
    assert group.notes["reset", "gap"] == 3
    assert [span.last - span.first + 1 for span in group.gaps[0]] == [GAP_EVENTS_MAX]


def test_what_was_left_out_at_the_end_is_told_when_its_publisher_pauses() -> None:
    group = Group(5)
    group.publish(2, b"1")
    group.run(30)
    group.cut = [(2, 0)]
    group.publish(2, b"2", b"3")
    group.run(25)
    group.cut = []
    group.run(60)
    assert group.delivered[1] == group.delivered[3] == [b"1", b"2", b"3"]
    assert 1 not in group.gaps
    for pid in (0, 4):
        assert group.delivered[pid] == [b"1"], "these have merger 0"
        assert group.gaps[pid] == [Span(2, 1, 2, 3)], "told, though nothing follows"
    group.publish(2, b"4")
    group.run(60)
    assert group.gaps[0] == [Span(2, 1, 2, 3)], "and told once"


def test_what_was_told_as_a_gap_is_not_delivered_by_another_merger_afterwards() -> None:
    group = Group(5)
    group.cut = [(2, 0)]
    group.publish(2, b"1")
    group.run(25)
    group.cut = []
    group.run(60)
    assert group.gaps[4] == [Span(2, 1, 1, 1)]
    group.act(4, "switch", 1)
    group.publish(3, b"x")
    group.run(60)
    assert group.delivered[4] == [b"x"]


def test_a_pause_is_told_once_however_often_it_is_reported() -> None:
    group = Group(3)
    group.publish(2, b"1")
    group.run(100)
    server = group.server(0)
    assert server is not None
    assert server.log.end == 2, "the event, and the pause"
    assert not group.gaps


def test_who_leaves_says_with_which_number_it_would_have_gone_on() -> None:
    group = Group(5)
    group.publish(2, b"1")
    group.run(30)
    group.cut = [(2, 0)]
    group.publish(2, b"2")
    group.run(1)
    group.cut = []
    group.do(2, group.members[2].leave(group.now))
    group.members[2].outbox._pending.clear()
    group.run(80)
    assert group.delivered[0] == [b"1"]
    assert group.gaps[0] == [Span(2, 1, 2, 2)]


def test_a_publisher_learns_that_every_merger_found_its_event_late() -> None:
    group = Group(4)
    group.lost = (Offer,)
    group.publish(3, b"late")
    (pending,) = group.members[3].outbox._pending.values()
    group.lost = ()
    for merger in (0, 1):
        group.buffer(merger).last = last_key_of(group.members[merger].clock.rt, 0)
    group.do(0, group.members[0].receive(Process(3, 1), pending.item, group.now))
    assert not group.unheard[3], "the other may have it in time"
    group.do(1, group.members[1].receive(Process(3, 1), pending.item, group.now))
    assert group.unheard[3] == [b"late"]
    group.run(60)
    assert group.unheard[3] == [b"late"], "once"
