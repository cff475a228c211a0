"""Followers: streams in order, switching between mergers, topics, late events and gaps."""

import pytest
from msgspec import structs

from tests.core.levels.total.group import MS, Group
from whence.core.levels.total.items import Follow, Offer, Opened, Stream
from whence.core.ready import Ready
from whence.core.staged import Lifecycle
from whence.errors import StalledError
from whence.types import Process


def test_a_follower_turns_to_another_merger_and_misses_nothing() -> None:
    group = Group(4)
    for at in range(60):
        group.publish(2, b"%d" % at)
        if at == 20:
            group.down = [1]
        group.run(1)
    group.run(80)
    assert group.subscription(3).merger == 0
    assert group.delivered[3] == [b"%d" % at for at in range(60)]


@pytest.mark.parametrize("to", [-1, 0])
def test_a_switch_in_the_middle_neither_repeats_nor_leaves_out(to: int) -> None:
    group = Group(4)
    for at in range(40):
        group.publish(2, b"%d" % at)
        group.run(1)
        if at % 7 == 3:
            group.act(3, "switch", to)
    group.run(40)
    assert group.delivered[3] == [b"%d" % at for at in range(40)]


def test_pieces_of_the_stream_that_got_lost_are_asked_for_again() -> None:
    group = Group(3)
    group.publish(0, b"first")
    group.lost = (Stream,)
    group.run(25)
    group.lost = ()
    group.publish(0, b"second")
    group.run(60)
    assert group.delivered[2] == [b"first", b"second"]


def test_a_late_event_comes_beside_the_stream_at_the_merger_and_its_followers() -> None:
    group = Group(4)
    group.lost = (Offer,)
    group.publish(2, b"late")
    item = next(iter(group.members[2].outbox._pending.values())).item
    group.lost = ()
    group.down = [2]
    group.run(2)
    group.publish(3, b"on time")
    group.run(25)
    group.down = []
    group.do(1, group.members[1].receive(Process(2, 1), item, group.now))
    assert group.late[1] == group.late[3] == [b"late"]
    assert group.late[0] == []
    assert group.delivered[3] == group.delivered[1] == [b"on time"]


def test_topics_are_filtered_after_ordering_and_keep_the_order_of_all() -> None:
    group = Group(5)
    group.act(3, "subscribe", 0b010)
    group.act(4, "subscribe", 0b101)
    for at in range(24):
        group.act(2, "topic", at % 3)
        group.publish(2, b"%d" % at)
        group.run(1)
    group.run(60)
    assert group.delivered[2] == [b"%d" % at for at in range(24)]
    assert group.delivered[3] == [b"%d" % at for at in range(24) if at % 3 == 1]
    assert group.delivered[4] == [b"%d" % at for at in range(24) if at % 3 != 1]


def test_a_newcomer_hears_what_comes_after_it_and_a_new_life_waits_epsilon_ticks() -> None:
    group = Group(3)
    group.publish(0, b"before")
    group.run(30)
    group.start(3, 2)
    group.do(3, group.members[3].join([0, 1], group.now))
    assert group.members[3].lifecycle is Lifecycle.MEMBER
    with pytest.raises(StalledError, match=r"retry in \d"):
        group.members[3].publish([b"too early"], group.now)
    group.run(2)
    with pytest.raises(StalledError, match=r"retry in \d"):
        group.members[3].publish([b"too early"], group.now)
    group.run(1)
    group.publish(3, b"after")
    group.run(30)
    assert group.delivered[3] == [b"after"]
    assert group.delivered[0] == [b"before", b"after"]


def test_a_newcomer_that_switches_before_it_has_delivered_anything_misses_nothing() -> None:
    group = Group(3)
    group.publish(0, b"before")
    group.run(30)
    group.start(3, 1)
    group.do(3, group.members[3].join([0, 1], group.now))
    group.publish(0, b"after")
    group.down = [3]
    group.run(24)
    group.down = []
    group.act(3, "switch", 0)
    group.run(30)
    assert group.delivered[3] == [b"after"]


def test_a_follower_whose_clock_is_behind_delivers_and_publishes_only_after_what_it_saw() -> None:
    group = Group(3)
    slow = group.start(2, 1)
    behind = group.now - 200 * MS
    slow.clock.ticks.rt = slow.clock.rt = 0
    group.do(2, slow.found([Process(0, 1), Process(1, 1)], behind))
    group.publish(0, b"ahead")
    group.run(0)
    group.now += 30 * MS
    group.do(0, group.members[0].tick(group.now))
    server = group.server(0)
    assert server is not None
    bundle = server.log._entries[0][-1]
    assert slow.roles.follower is not None
    slow.clock.rt = slow.clock.ticks.read(behind)
    slow.roles.follower._deliver(bundle, Ready())
    with pytest.raises(StalledError):
        slow.publish([b"effect"], behind)
    _, ready = slow.publish([b"effect"], behind + 250 * MS)
    assert ready.mark is not None
    assert ready.mark.key is not None
    assert ready.mark.key[1:] > group.keys[0][0][1:]


def test_a_log_that_no_longer_reaches_back_says_so_and_the_follower_asks_elsewhere_first() -> None:
    group = Group(4, log_bundles_max=3, patience_beats=100)
    group.lost = (Stream,)
    for at in range(12):
        group.publish(0, b"%d" % at)
        group.run(1)
    group.run(30)
    group.lost = ()
    group.run(30)
    group.publish(0, b"last")
    group.run(400)
    assert group.delivered[3][-1] == b"last"
    assert group.notes["reset", "gap"] > 0
    assert group.delivered[3] == sorted(group.delivered[3], key=lambda each: (each == b"last", len(each), each))


def test_a_log_keeps_its_bytes_and_its_time() -> None:
    group = Group(3, log_bytes_max=30, log_ticks=40)
    for at in range(9):
        group.publish(0, b"%010d" % at)
        group.run(1)
    group.run(30)
    server = group.server(0)
    assert server is not None
    assert all(gauge.value <= gauge.bound for gauge in server.gauges())
    assert server.log.start == 6
    group.run(60)
    assert server.log.start == 9


def test_whoever_cannot_be_reached_is_left() -> None:
    group = Group(4)
    group.run(30)
    group.do(3, group.members[3].unreachable(1, group.now))
    assert group.subscription(3).merger == 0
    server = group.server(1)
    assert server is not None
    group.do(1, group.members[1].unreachable(3, group.now))
    assert 3 not in server.followers()


def test_who_asks_again_because_the_answer_is_slow_is_told_again_and_not_sent_the_stream_again() -> None:
    """Where links are slow because they are loaded, sending everything with every answer makes them slower."""
    group = Group(4)
    for number in range(5):
        group.publish(2, b"%d" % number)
        group.run(30)
    server = group.server(0)
    assert server is not None
    asked = Follow(99, bytes(24), (1 << 63) - 1, 0, 0)
    first, again, anew = Ready(), Ready(), Ready()
    server.follow(Process(3, 1), asked, (0, 0, 0), group.now, first)
    server.follow(Process(3, 1), asked, (0, 0, 0), group.now, again)
    server.follow(Process(3, 1), structs.replace(asked, session=100), (0, 0, 0), group.now, anew)
    assert [type(send.item) for send in first.send] == [Opened, Stream]
    assert [send.item for send in again.send] == [first.send[0].item]
    assert [type(send.item) for send in anew.send] == [Opened, Stream], "another session begins"
