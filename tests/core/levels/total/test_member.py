"""Members of a group at level `total`: one sequence for all, lives, limits, corruption, any item at any time."""

from random import Random

import pytest

from tests.core.levels.total.group import MS, SMALL, Group, metric
from tests.fuzz import mutate
from whence.core.clocks.stamp import low_key
from whence.core.level import BuildContext
from whence.core.levels.total.items import Alive, Batch, Bye, Follow, LateBundle, Opened, Stream
from whence.core.membership.full_view import Directory
from whence.core.ready import Item, Ready
from whence.core.registry import LEVELS
from whence.core.staged import Lifecycle
from whence.errors import LimitError, NotMemberError, StalledError, UsageError
from whence.types import Process
from whence.wire.codec import decode, encode


def test_everybody_delivers_the_same_sequence_once_with_its_keys() -> None:
    group = Group(4)
    for at in range(30):
        group.publish(at % 4, b"%d" % at)
        group.run(at % 3)
    group.run(40)
    assert len(group.delivered[0]) == 30
    assert all(line == group.delivered[0] for line in group.delivered.values())
    assert group.keys[2] == sorted(group.keys[2])
    key = group.keys[3][0]
    assert key[3] == low_key(0, 1, 1)
    assert key[0] == 1_000


def test_a_bundle_of_many_events_has_one_stamp_and_stays_together() -> None:
    group = Group(3)
    group.publish(2, b"a", b"b", b"c")
    group.run(30)
    assert group.delivered[1] == [b"a", b"b", b"c"]


def test_nothing_is_delivered_before_its_time_and_nothing_after() -> None:
    group = Group(3)
    group.publish(2, b"x")
    group.run(22)
    assert group.delivered[0] == group.delivered[2] == []
    group.run(1)
    assert group.delivered[0] == group.delivered[2] == [b"x"]


def test_who_merges_again_in_the_same_life_goes_on_counting() -> None:
    """A piece of its first stream that comes late must not fill a place of the second: followers ask by position."""
    group = Group(3)
    for number in range(5):
        group.publish(2, b"%d" % number)
    group.run(40)
    roles = group.members[0].roles
    assert roles.merger is not None
    assert roles.merger.server is not None
    end = roles.merger.server.log.end
    assert end == 5
    roles._resign(roles.merger, group.now, Ready())
    assert roles._serve().log.start == end


def test_a_named_merger_that_comes_back_goes_on_after_its_last_key_and_says_that_it_knows_no_past() -> None:
    group = Group(4, merger_pids="0,1")
    group.publish(2, b"before")
    group.run(30)
    group.down = [0]
    group.publish(2, b"meanwhile")
    group.run(60)
    records = group.persisted[0]
    member = group.start(0, 2)
    group.down = []
    group.do(0, member.restore([*records, b"torn"], group.now))
    group.do(0, member.join([1], group.now))
    group.act(2, "switch", 0)
    group.run(5)
    group.publish(3, b"after")
    group.run(60)
    assert group.delivered[2] == [b"before", b"meanwhile", b"after"]
    assert group.delivered[0] == [b"after"]


@pytest.mark.parametrize("kind", range(8))
@pytest.mark.parametrize("victim", [0, 3])
def test_a_corrupted_member_repairs_itself_and_the_group_goes_on(kind: int, victim: int) -> None:
    """Measured: what is published 2δ + 6ε ticks after the fault is delivered by all, in one order."""
    group = Group(4, release="frontier" if kind % 2 else "paper")
    for at in range(10):
        group.publish(2, b"%d" % at)
        group.run(1)
    group.corrupt(victim, kind)
    group.run(2 * 20 + 6 * 3)
    for at in range(10):
        for pid in range(4):
            group.publish(pid, b"after %d %d" % (pid, at))
        group.run(1)
    group.run(60)
    lines = [[each for each in line if each.startswith(b"after")] for line in group.delivered.values()]
    assert all(line == lines[0] and len(line) == 40 for line in lines)
    assert not any(b"garbage" in line for line in group.delivered.values())
    assert group.notes["reset", "stamp"] + sum(group.notes.values()) > 0


def test_limits_names_and_lives_are_kept() -> None:
    group = Group(3)
    with pytest.raises(NotMemberError):
        group.members[0].found([], group.now)
    with pytest.raises(LimitError, match="least number"):
        group.members[0].publish([], group.now)
    with pytest.raises(LimitError, match="publish_events_max"):
        group.members[0].publish([b""] * 5000, group.now)
    with pytest.raises(LimitError, match="publish_bytes_max"):
        group.members[0].publish([bytes(2 << 20)], group.now)
    for name, argument in (("switch", 7), ("topic", 63), ("subscribe", 0), ("dance", 1), ("corrupt_state", 0)):
        with pytest.raises(UsageError):
            group.members[2].act(name, argument, group.now)
    with pytest.raises(UsageError):
        group.members[0].act("switch", 1, group.now)
    outside = group.start(5, 1)
    with pytest.raises(NotMemberError, match="join first"):
        outside.publish([b"x"], group.now)
    assert outside.tick(group.now).wake_at is None
    assert outside.receive(Process(0, 1), Bye(), group.now).notes[0].reason == "not_member"


def test_who_leaves_first_sends_what_is_on_its_way_and_followers_move_on() -> None:
    group = Group(4)
    group.publish(1, b"last words")
    group.do(1, group.members[1].leave(group.now))
    group.run(80)
    assert group.members[1].lifecycle is Lifecycle.LEFT
    group.down = [1]
    assert group.delivered[3] == group.delivered[0] == [b"last words"]
    joining = group.start(5, 1)
    group.lost = (Follow,)
    group.do(5, joining.join([0], group.now))
    group.do(5, joining.leave(group.now))
    assert joining.lifecycle is Lifecycle.LEFT


def test_bytes_that_are_no_stamp_are_rejected_wherever_they_come() -> None:
    group = Group(4)
    broken = mutate.some_bundle(Random(3), Process(2, 1), 1)
    broken = type(broken)(2, 1, 1, broken.sizes, broken.body, b"no stamp at all")
    me = Process(2, 1)
    group.do(0, group.members[0].receive(me, Batch(broken, 0), group.now))
    group.do(0, group.members[0].receive(me, Alive(b"no", 1), group.now))
    group.do(3, group.members[3].receive(me, LateBundle(broken, 1), group.now))
    group.do(3, group.members[3].receive(me, Batch(broken, 0), group.now))
    group.do(3, group.members[3].receive(Process(1, 1), Stream((1 << 63) - 1, 0, 1, [broken]), group.now))
    assert group.notes["reject", "stamp"] == 5
    assert metric(group.members[0], "rejected_total", "stamp") == 1


def test_a_merger_that_returns_says_that_it_missed_what_came_between_its_lives() -> None:
    group = Group(3)
    group.publish(2, b"x")
    group.run(30)
    member = group.start(0, 2)
    group.do(0, member.restore(group.persisted[0], group.now))
    group.do(0, member.join([1], group.now))
    assert group.notes["reset", "gap"] == 1
    assert group.buffer(0).position == 1, "and goes on after its last key"


def test_a_checkpoint_of_the_journal_is_as_good_as_the_whole() -> None:
    group = Group(3)
    for _ in range(4):
        group.publish(2, b"x")
        group.run(30)
    assert len(group.persisted[0]) == 6, "who merges, who would take over, and four times a last key"
    checkpoint = group.members[0].checkpoint()
    (whole, short) = (group.start(0, 2) for _ in range(2))
    whole.restore(group.persisted[0], group.now)
    short.restore(checkpoint, group.now)
    buffers = [member.roles.merger.buffer for member in (whole, short) if member.roles.merger is not None]
    assert len(buffers) == 2
    assert buffers[0].last == buffers[1].last
    assert buffers[0].position == buffers[1].position
    assert len(group.members[2].checkpoint()) == 1, "a follower keeps who merges"


@pytest.mark.parametrize("pid", [0, 2, 4], ids=["merger", "relay", "follower"])
@pytest.mark.parametrize("release", ["paper", "frontier"])
def test_a_member_takes_any_item_from_anyone_at_any_time(pid: int, release: str, long_mode: bool) -> None:
    """It never raises, keeps its bounds, and what it sends can be read."""
    for number in range(1_000 if long_mode else 40):
        random = Random(f"{pid} {release} {number}")
        tight = {"buffer_bundles_max": 4, "remembered_max": 6, "log_bundles_max": 4, "followers_max": 2}
        settings = LEVELS["total"].settings_from(
            SMALL | {"mergers": 2, "relays": 1, "release": release, "outbox_bundles_max": 3} | tight
        )
        now = 1_000 * MS
        me = Process(pid, 1)
        member = LEVELS["total"].build(me, settings, BuildContext(random.random, now, Directory()))
        if number % 3:
            member.found([], now)
        else:
            member.join([0], now)
        for _ in range(80):
            now += random.choice((0, 1, MS, 30 * MS, -20 * MS))
            draw = random.random()
            try:
                if draw < 0.7:
                    sender = Process(random.randrange(6), random.choice((1, 1, 2, 300)))
                    item = near(random, now // MS) if random.random() < 0.7 else mutate.some_item(random)
                    ready = member.receive(sender, decode(encode("g", sender, [item])).items[0], now)
                elif draw < 0.9:
                    ready = member.tick(now)
                elif draw < 0.95:
                    ready = member.publish([b"x"], now)[1]
                else:
                    ready = member.unreachable(random.randrange(5), now)
            except (NotMemberError, StalledError):
                continue
            for send in ready.send:
                assert decode(encode("g", me, [send.item], send.incarnation)).items == [send.item]
            member.tick(now)
            assert all(gauge.value <= gauge.bound for gauge in member.gauges()), member.gauges()


def near(random: Random, tick: int) -> Item:
    """Draw an item that has to do with the group: a stamp of about now, positions and sessions that may be open."""
    stamp = (tick + random.choice((-90, -30, -3, 0, 2, 9))).to_bytes(6, "big")
    bundles = [mutate.some_bundle(random, Process(random.randrange(5), 1), random.randint(1, 9)) for _ in range(3)]
    bundles = [type(each)(each.pid, each.incarnation, each.first, each.sizes, each.body, stamp) for each in bundles]
    start = random.randrange(6)
    return random.choice(
        (
            Batch(bundles[0], random.randrange(63)),
            LateBundle(bundles[0], 5),
            Alive(stamp, random.randint(1, 9)),
            Opened(random.randint(1, 3), start, random.random() < 0.5, bytes(24)),
            Stream((1 << 63) - 1, start, start + random.randint(3, 5), bundles),
            Follow(random.randint(1, 3), random.choice((b"", bytes(24))), 1, random.choice((0, 0, start)), start),
            Bye(),
        )
    )
