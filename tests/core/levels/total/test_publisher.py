"""Publishers: what is sent again, given up, refused; and what they are told of omissions."""

import pytest

from tests.core.levels.total.group import MS, Group, metric
from whence.core.levels.total.items import Ack, Batch, Offer
from whence.core.staged import Lifecycle
from whence.errors import StalledError
from whence.sim.corruption import corrupt_stamps
from whence.types import Process


def test_publications_that_got_lost_are_sent_again_within_delta() -> None:
    group = Group(3)
    group.lost = (Offer,)
    group.publish(2, b"x")
    group.run(3)
    group.lost = ()
    group.run(40)
    assert group.delivered[0] == group.delivered[1] == [b"x"]
    assert not len(group.members[2].outbox)


def test_what_was_not_acknowledged_in_time_is_given_up() -> None:
    group = Group(3)
    group.lost = (Ack,)
    group.publish(2, b"x")
    group.run(30)
    assert not len(group.members[2].outbox)
    assert group.delivered[2] == [b"x"]
    group.run(100)
    assert not group.unheard, "it came in the stream: only the word that it was there got lost"


def test_a_publisher_is_told_of_what_nobody_is_known_to_have() -> None:
    """Accepted and then lost on every way: whoever published it hears of it, once, and of nothing else."""
    group = Group(4)
    group.lost = (Offer, Batch)
    group.publish(2, b"a", b"b")
    group.publish(3, b"c")
    group.publish(0, b"merged here")
    group.run(15)
    assert not group.unheard
    group.run(100)
    assert group.unheard == {2: [b"a", b"b"], 3: [b"c"]}
    group.lost = ()
    group.publish(2, b"d")
    group.run(100)
    assert group.unheard == {2: [b"a", b"b"], 3: [b"c"]}
    assert group.delivered[1] == [b"d"]


def test_a_publisher_is_told_when_the_stream_passes_what_it_published() -> None:
    """What a merger took and then lost, or took too late, was acknowledged all the same."""
    group = Group(4)
    group.publish(2, b"forgotten")
    for pid in (0, 1):
        merger = group.members[pid].roles.merger
        assert merger is not None
        merger.buffer = group.members[pid].roles._new_merger().buffer
    group.lost = (Offer,)
    group.publish(3, b"too late")
    late = next(iter(group.members[3].outbox._pending.values())).item
    group.run(30)
    group.lost = ()
    assert not group.unheard, "nothing has come that follows them"
    group.publish(2, b"next")
    group.run(30)
    assert group.unheard == {2: [b"forgotten"], 3: [b"too late"]}
    for pid in (0, 1):
        group.do(pid, group.members[pid].receive(Process(3, 1), late, group.now))
    assert group.delivered[2] == group.delivered[3] == [b"next"]
    group.run(200)
    assert group.unheard == {2: [b"forgotten"], 3: [b"too late"]}, "and each is told once"


def test_who_leaves_is_told_of_what_nobody_is_known_to_have() -> None:
    group = Group(3)
    group.lost = (Offer,)
    group.publish(2, b"x")
    group.do(2, group.members[2].leave(group.now))
    group.run(40)
    assert group.members[2].lifecycle is Lifecycle.LEFT
    assert group.unheard == {2: [b"x"]}


def test_relays_pass_publications_on_with_their_origins_key_and_copies_count_once() -> None:
    group = Group(7, mergers=2, relays=2, delta=40)
    for at in range(12):
        group.publish(4 + at % 3, b"%d" % at)
        group.run(1)
    group.run(60)
    assert group.delivered[0] == group.delivered[6] == [b"%d" % at for at in range(12)]
    assert [key[3] >> 48 for key in group.keys[0]] == [4 + at % 3 for at in range(12)]
    assert group.notes["drop", "duplicate"] > 0


def test_a_publisher_whose_clock_was_set_back_stalls_until_it_has_caught_up() -> None:
    group = Group(3)
    group.publish(2, b"a")
    member = group.members[2]
    with pytest.raises(StalledError, match=r"retry in \d"):
        member.publish([b"b"], group.now - 100 * MS)
    assert member.publish([b"b"], group.now - 1 * MS)[1].mark is not None


@pytest.mark.parametrize("stamp", ["hlc", "kn"])
def test_a_burst_beyond_what_a_tick_may_have_is_refused_before_it_is_created_and_nothing_of_it_is_lost(
    stamp: str,
) -> None:
    group = Group(3, events_per_tick_max=1, publishers_max=3, stamp=stamp)
    created, refused = 0, []
    for _ in range(100):
        try:
            group.publish(2, b"%d" % created)
            created += 1
        except StalledError as refusal:
            refused.append(str(refusal))
            group.run(1)
    assert 9 < created < 100
    assert all("all the events it may have" in sentence for sentence in refused)
    assert metric(group.members[2], "tick_full_total") == 100 - created
    group.run(60)
    for pid in range(3):
        assert group.delivered[pid] == [b"%d" % number for number in range(created)]
    assert group.notes["reject", "counter"] == group.notes["reset", "stamp"] == 0


def test_what_was_noted_while_a_publication_was_refused_is_told_with_the_next_step() -> None:
    group = Group(3)
    corrupt_stamps(group.members[2].clock.stamps, group.now // MS + 10_000)
    with pytest.raises(StalledError):
        group.publish(2, b"x")
    assert group.notes["reset", "stamp"] == 0
    group.run(1)
    assert group.notes["reset", "stamp"] == 1


@pytest.mark.parametrize(
    ("trouble", "why"),
    [("restart", "began, or was repaired"), ("set back", "was set back"), ("ahead", "behind what this process has")],
)
def test_a_refused_publication_says_why_and_when_to_retry(trouble: str, why: str) -> None:
    """And what it says is true, of a timer that rings up to a tick early too; two ticks before, it is refused."""
    group = Group(3)
    member = group.start(2, 2) if trouble == "restart" else group.members[2]
    if trouble == "restart":
        group.do(2, member.found([], group.now))
    elif trouble == "set back":
        group.now -= 50 * MS
    else:
        member.clock.stamps.observe(group.now // MS, (group.now // MS + 100) << 20)
    with pytest.raises(StalledError, match=why) as refusal:
        member.publish([b"x"], group.now)
    with pytest.raises(StalledError):
        member.publish([b"x"], group.now + refusal.value.retry_ns - 2 * MS)
    member.publish([b"x"], group.now + refusal.value.retry_ns - MS + 1)  # by a timer that rings early
