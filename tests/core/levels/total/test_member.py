"""Members of a merged group: publishing, merging, following, switching, topics, relays, restarts, guards."""

from collections import Counter, defaultdict
from random import Random

import pytest
from msgspec.structs import replace

from tests.fuzz import mutate
from whence.core.clocks.kn import KnStamp
from whence.core.clocks.stamp import low_key
from whence.core.level import Surroundings
from whence.core.levels.total.holes import HOLE_EVENTS_MAX, Holes
from whence.core.levels.total.items import Alive, Aside, Batch, Bye, Follow, Offer, Opened, Stream, Taken
from whence.core.levels.total.member import MergeMember
from whence.core.levels.total.settings import TotalSettings
from whence.core.membership.full_view import Directory
from whence.core.ready import Delivery, Gap, Item, Late, Ready, Unheard
from whence.core.registry import LEVELS
from whence.core.staged import Life
from whence.errors import LimitError, NotMemberError, StalledError, UsageError
from whence.types import Process, Span, packed
from whence.wire.codec import decode, encode

MS = 1_000_000
SMALL = {"epsilon": 3, "delta": 20, "stall_max": 500, "beat_ns": 10 * MS, "patience_beats": 4}


class Group:
    """Members that hear each other at once, through the codec; some items can be made to get lost."""

    def __init__(self, size: int | tuple[int, ...], **settings: object) -> None:
        pids = size if isinstance(size, tuple) else tuple(range(size))
        self.now = 1_000 * MS
        self.settings = LEVELS["total"].settings_from(SMALL | settings)
        assert isinstance(self.settings, TotalSettings)
        self.members: dict[int, MergeMember] = {}
        self.delivered: dict[int, list[bytes]] = {}
        self.keys: dict[int, list[tuple[int, ...]]] = {}
        self.late: dict[int, list[bytes]] = {}
        self.persisted: dict[int, list[bytes]] = {}
        self.notes: Counter[tuple[str, str | None]] = Counter()
        self.lost: tuple[type[Item], ...] = ()
        self.down: list[int] = []
        self.cut: list[tuple[int, int]] = []
        """Ways that nothing passes: from, to."""
        self.gaps: dict[int, list[Span]] = {}
        self.unheard: dict[int, list[bytes]] = defaultdict(list)
        for pid in pids:
            self.start(pid, 1)
        for pid in pids:
            self.do(pid, self.members[pid].found([Process(other, 1) for other in pids], self.now))

    def start(self, pid: int, boot: int) -> MergeMember:
        around = Surroundings(Random(1).random, self.now, Directory())
        member = LEVELS["total"].build(Process(pid, boot), self.settings, around)
        assert isinstance(member, MergeMember)
        self.members[pid] = member
        self.delivered[pid], self.keys[pid], self.late[pid] = [], [], []
        return member

    def do(self, pid: int, ready: Ready) -> None:
        """Carry out a Ready."""
        self.persisted.setdefault(pid, []).extend(ready.persist)
        for step in ready.deliver:
            if isinstance(step, Delivery):
                self.delivered[pid] += step.bundle.payloads()
                assert step.mark is not None
                assert step.mark.key is not None
                self.keys[pid].append(step.mark.key)
            elif isinstance(step, Late):
                self.late[pid] += step.bundle.payloads()
            elif isinstance(step, Unheard):
                self.unheard[pid] += step.bundle.payloads()
            elif isinstance(step, Gap):
                self.gaps.setdefault(pid, []).extend(step.spans)
        for note in ready.notes:
            self.notes[note.kind, note.reason] += 1
        me = self.members[pid].me
        for send in ready.send:
            for target in send.to:
                if target in self.down or (pid, target) in self.cut or isinstance(send.item, self.lost):
                    continue
                packet = decode(encode("g", me, [send.item], send.boot))
                if send.boot in (0, self.members[target].me.boot):
                    self.do(target, self.members[target].receive(me, packet.items[0], self.now))

    def publish(self, pid: int, *payloads: bytes) -> None:
        self.do(pid, self.members[pid].publish(payloads, self.now)[1])

    def act(self, pid: int, name: str, argument: int) -> None:
        self.do(pid, self.members[pid].act(name, argument, self.now))

    def run(self, ticks: int) -> None:
        """Let time pass, a tick at a time."""
        for _ in range(ticks):
            self.now += MS
            for pid in sorted(self.members):
                if pid not in self.down:
                    self.do(pid, self.members[pid].tick(self.now))


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


def test_a_follower_turns_to_another_merger_and_misses_nothing() -> None:
    group = Group(4)
    for at in range(60):
        group.publish(2, b"%d" % at)
        if at == 20:
            group.down = [1]
        group.run(1)
    group.run(80)
    assert group.members[3]._following is not None
    assert group.members[3]._following.merger == 0
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


def test_who_merges_again_in_the_same_life_goes_on_counting() -> None:
    """A piece of its first stream that comes late must not fill a place of the second: followers ask by position."""
    group = Group(3)
    for number in range(5):
        group.publish(2, b"%d" % number)
    group.run(40)
    merger = group.members[0]
    assert merger._desk is not None
    end = merger._desk.log.end
    assert end == 5
    merger._resign(group.now, Ready())
    assert merger._merge().log.start == end


def test_publications_that_got_lost_are_sent_again_within_delta() -> None:
    group = Group(3)
    group.lost = (Offer,)
    group.publish(2, b"x")
    group.run(3)
    group.lost = ()
    group.run(40)
    assert group.delivered[0] == group.delivered[1] == [b"x"]
    assert not len(group.members[2]._outbox)


def test_what_was_not_acknowledged_in_time_is_given_up() -> None:
    group = Group(3)
    group.lost = (Taken,)
    group.publish(2, b"x")
    group.run(30)
    assert not len(group.members[2]._outbox)
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
        group.members[pid]._merger = group.members[pid]._new_merger()
    group.lost = (Offer,)
    group.publish(3, b"too late")
    late = next(iter(group.members[3]._outbox._parcels.values())).item
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
    assert group.members[2].life is Life.LEFT
    assert group.unheard == {2: [b"x"]}


def test_a_late_event_comes_beside_the_stream_at_the_merger_and_its_followers() -> None:
    group = Group(4)
    group.lost = (Offer,)
    group.publish(2, b"late")
    item = next(iter(group.members[2]._outbox._parcels.values())).item
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


def test_relays_pass_publications_on_with_their_origins_key_and_copies_count_once() -> None:
    group = Group(7, mergers=2, relays=2, delta=40)
    for at in range(12):
        group.publish(4 + at % 3, b"%d" % at)
        group.run(1)
    group.run(60)
    assert group.delivered[0] == group.delivered[6] == [b"%d" % at for at in range(12)]
    assert [key[3] >> 48 for key in group.keys[0]] == [4 + at % 3 for at in range(12)]
    assert group.notes["drop", "duplicate"] > 0


def test_a_newcomer_hears_what_comes_after_it_and_a_new_life_waits_epsilon_ticks() -> None:
    group = Group(3)
    group.publish(0, b"before")
    group.run(30)
    group.start(3, 2)
    group.do(3, group.members[3].join([0, 1], group.now))
    assert group.members[3].life is Life.MEMBER
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


def test_a_publisher_whose_clock_was_set_back_stalls_until_it_has_caught_up() -> None:
    group = Group(3)
    group.publish(2, b"a")
    member = group.members[2]
    with pytest.raises(StalledError, match=r"retry in \d"):
        member.publish([b"b"], group.now - 100 * MS)
    assert member.publish([b"b"], group.now - 1 * MS)[1].mark is not None


def test_a_follower_whose_clock_is_behind_delivers_and_publishes_only_after_what_it_saw() -> None:
    group = Group(3)
    slow = group.start(2, 1)
    behind = group.now - 200 * MS
    slow._ticks.rt = slow._rt = 0
    group.do(2, slow.found([Process(0, 1), Process(1, 1)], behind))
    group.publish(0, b"ahead")
    group.run(0)
    group.now += 30 * MS
    group.do(0, group.members[0].tick(group.now))
    bundle = group.members[0]._desk.log._entries[0][-1]  # type: ignore[union-attr]
    assert slow._following is not None
    slow._rt = slow._ticks.read(behind)
    slow._follow_up(slow._following, bundle, behind, Ready())
    with pytest.raises(StalledError):
        slow.publish([b"effect"], behind)
    _, ready = slow.publish([b"effect"], behind + 250 * MS)
    assert ready.mark is not None
    assert ready.mark.key is not None
    assert ready.mark.key[1:] > group.keys[0][0][1:]


@pytest.mark.parametrize("kind", range(8))
@pytest.mark.parametrize("victim", [0, 3])
def test_a_corrupted_member_repairs_itself_and_the_group_goes_on(kind: int, victim: int) -> None:
    """Measured: what is published 2δ + 6ε ticks after the fault is delivered by all, in one order."""
    group = Group(4, release="frontier" if kind % 2 else "paper")
    for at in range(10):
        group.publish(2, b"%d" % at)
        group.run(1)
    group.act(victim, "corrupt_state", kind)
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
    for name, argument in (("switch", 7), ("topic", 63), ("subscribe", 0), ("dance", 1)):
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
    group.run(60)
    assert group.members[1].life is Life.LEFT
    group.down = [1]
    assert group.delivered[3] == group.delivered[0] == [b"last words"]
    joining = group.start(5, 1)
    group.lost = (Follow,)
    group.do(5, joining.join([0], group.now))
    group.do(5, joining.leave(group.now))
    assert joining.life is Life.LEFT


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
    desk = group.members[0]._desk
    assert desk is not None
    assert all(gauge.value <= gauge.bound for gauge in desk.gauges())
    assert desk.log.start == 6
    group.run(60)
    assert desk.log.start == 9


def test_whoever_cannot_be_reached_is_left() -> None:
    group = Group(4)
    group.run(30)
    group.do(3, group.members[3].unreachable(1, group.now))
    assert group.members[3]._following is not None
    assert group.members[3]._following.merger == 0
    desk = group.members[1]._desk
    assert desk is not None
    group.do(1, group.members[1].unreachable(3, group.now))
    assert 3 not in desk.followers()


def test_bytes_that_are_no_stamp_are_rejected_wherever_they_come() -> None:
    group = Group(4)
    broken = mutate.some_bundle(Random(3), Process(2, 1), 1)
    broken = type(broken)(2, 1, 1, broken.sizes, broken.body, b"no stamp at all")
    me = Process(2, 1)
    group.do(0, group.members[0].receive(me, Batch(broken, 0), group.now))
    group.do(0, group.members[0].receive(me, Alive(b"no", 1), group.now))
    group.do(3, group.members[3].receive(me, Aside(broken, 1), group.now))
    group.do(3, group.members[3].receive(me, Batch(broken, 0), group.now))
    group.do(3, group.members[3].receive(Process(1, 1), Stream((1 << 63) - 1, 0, 1, [broken]), group.now))
    assert group.notes["reject", "stamp"] == 5
    assert metric(group.members[0], "rejected_total", "stamp") == 1


def metric(member: MergeMember, name: str, of: str = "") -> int:
    """Return a member's metric by name and the value of its label."""
    (value,) = [each.value for each in member.metrics() if (each.name, each.of) == (name, of)]
    return value


def test_metrics_tell_what_happened() -> None:
    group = Group(4)
    group.publish(2, b"x")
    group.publish(2, b"y")
    group.run(30)
    merger, follower = group.members[0], group.members[2]
    assert metric(merger, "position") == 2
    assert metric(merger, "buffer_len") == metric(merger, "late_total") == metric(merger, "duplicate_total") == 0
    assert metric(merger, "observed_delay_ticks_bucket", "0") == metric(merger, "observed_delay_ticks_count") == 2
    assert metric(merger, "buffer_ticks", "0.5") == metric(merger, "buffer_ticks", "1") == 20 + 3
    assert metric(merger, "release_lag_ticks") == 0
    assert metric(merger, "k_max") == 2, "its publisher's start and two events in one tick"
    assert metric(merger, "lead_ticks") <= 0
    assert metric(follower, "switches_total") == metric(follower, "stalled") == 0
    names = {each.name for each in merger.metrics()}
    assert names >= {"rejected_total", "g2_violation_total", "reset_total", "stall_ticks", "tick_full_total"}
    assert merger.view() is None


def test_metrics_count_what_goes_wrong() -> None:
    group = Group(4)
    group.lost = (Taken,)
    group.publish(3, b"x")
    group.run(15)
    assert metric(group.members[0], "duplicate_total") > 0
    group.lost = (Offer, Batch)
    group.publish(3, b"late")
    bundle = group.members[3]._outbox._parcels[3, 1, 2].item
    group.lost = ()
    group.run(60)
    group.do(0, group.members[0].receive(Process(3, 1), bundle, group.now))
    assert metric(group.members[0], "g2_violation_total") == 1
    assert metric(group.members[0], "observed_delay_ticks_bucket", "+Inf") == metric(
        group.members[0], "observed_delay_ticks_count"
    )
    group.act(3, "corrupt_state", 0)
    group.run(1)
    assert metric(group.members[3], "reset_total", "stamp") == 1
    group.run(10)
    assert metric(group.members[3], "stall_ticks") == 3, "a repaired process is silent for ε ticks"


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
    held = group.members[2]._outbox._parcels
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
    holes = Holes()
    assert holes.before(packed(Process(1, 1), 5, [b"x"])) is None
    assert holes.before(packed(Process(1, 1), 7, [b"x", b"y"])) == Span(1, 1, 6, 6)
    assert holes.before(packed(Process(1, 1), 9, [b"x"])) is None
    assert holes.before(packed(Process(1, 2), 3, [b"x"])) == Span(1, 2, 1, 2), "a later life begins with 1"
    assert holes.before(packed(Process(1, 1), 4, [b"x"])) is None
    holes.from_the_start = True
    assert holes.before(packed(Process(2, 1), 3, [b"x"])) == Span(2, 1, 1, 2)


def test_a_hole_that_nobody_can_have_made_is_told_without_its_names() -> None:
    group = Group(3)
    group.publish(2, b"1")
    member = group.members[2]
    member._published = 1 << 30
    group.publish(2, b"far")
    group.run(40)
    assert group.delivered[0] == [b"1", b"far"]
    assert group.notes["reset", "gap"] == 3
    assert [span.last - span.first + 1 for span in group.gaps[0]] == [HOLE_EVENTS_MAX]


def test_what_was_noted_while_a_publication_was_refused_is_told_with_the_next_step() -> None:
    group = Group(3)
    group.members[2]._clock.spoil(group.now // MS + 10_000)
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
        member._clock.observe(group.now // MS, (group.now // MS + 100) << 20)
    with pytest.raises(StalledError, match=why) as refusal:
        member.publish([b"x"], group.now)
    with pytest.raises(StalledError):
        member.publish([b"x"], group.now + refusal.value.retry_ns - 2 * MS)
    member.publish([b"x"], group.now + refusal.value.retry_ns - MS + 1)  # by a timer that rings early


def test_a_merger_that_returns_says_that_it_missed_what_came_between_its_lives() -> None:
    group = Group(3)
    group.publish(2, b"x")
    group.run(30)
    member = group.start(0, 2)
    group.do(0, member.restore(group.persisted[0], group.now))
    group.do(0, member.join([1], group.now))
    assert group.notes["reset", "gap"] == 1
    assert member._merger is not None
    assert member._merger.position == 1, "and goes on after its last key"


def test_a_checkpoint_of_the_journal_is_as_good_as_the_whole() -> None:
    group = Group(3)
    for _ in range(4):
        group.publish(2, b"x")
        group.run(30)
    assert len(group.persisted[0]) == 5, "who merges, and four times a last key"
    checkpoint = group.members[0].checkpoint()
    (whole, short) = (group.start(0, 2) for _ in range(2))
    whole.restore(group.persisted[0], group.now)
    short.restore(checkpoint, group.now)
    assert whole._merger is not None
    assert short._merger is not None
    assert (whole._merger.last, whole._merger.position) == (short._merger.last, short._merger.position)
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
        member = LEVELS["total"].build(me, settings, Surroundings(random.random, now, Directory()))
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
                assert decode(encode("g", me, [send.item], send.boot)).items == [send.item]
            member.tick(now)
            assert all(gauge.value <= gauge.bound for gauge in member.gauges()), member.gauges()


def near(random: Random, tick: int) -> Item:
    """Draw an item that has to do with the group: a stamp of about now, positions and sessions that may be open."""
    stamp = (tick + random.choice((-90, -30, -3, 0, 2, 9))).to_bytes(6, "big")
    bundles = [mutate.some_bundle(random, Process(random.randrange(5), 1), random.randint(1, 9)) for _ in range(3)]
    bundles = [type(each)(each.pid, each.boot, each.first, each.sizes, each.body, stamp) for each in bundles]
    start = random.randrange(6)
    return random.choice(
        (
            Batch(bundles[0], random.randrange(63)),
            Aside(bundles[0], 5),
            Alive(stamp, random.randint(1, 9)),
            Opened(random.randint(1, 3), start, random.random() < 0.5, bytes(24)),
            Stream((1 << 63) - 1, start, start + random.randint(3, 5), bundles),
            Follow(random.randint(1, 3), random.choice((b"", bytes(24))), 1, random.choice((0, 0, start)), start),
            Bye(),
        )
    )


def test_how_long_an_event_took_is_counted_from_when_it_was_published() -> None:
    """Not from the greatest clock its publisher knew of, which may be ε − 1 ticks ahead and would hide a violation."""
    group = Group(4, stamp="kn")
    group.lost = (Offer, Batch)
    group.publish(3, b"slow")
    offer = group.members[3]._outbox._parcels[3, 1, 1].item
    clock = group.members[0]._clock
    r = group.members[0]._rt
    stamp = clock.write(KnStamp(r, 2, (0, 0, 0, 1, 0, 1)))
    slow = replace(offer, stamp=stamp)
    group.run(23)
    assert group.members[0]._rt - r == 23 > 20 + 2
    group.do(0, group.members[0].receive(Process(3, 1), slow, group.now))
    assert metric(group.members[0], "g2_violation_total") == 1
