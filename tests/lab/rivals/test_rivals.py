"""The rivals on the tree: what they promise, what they cost, and what they refuse."""

from collections import Counter
from typing import Any

import pytest

from tests.core.levels.causal.tree.grove import Grove
from whence.core.ready import Item
from whence.errors import LimitError, NotMemberError, SettingError, UsageError
from whence.sim.lab import spec_of
from whence.types import Process, packed
from whence_lab.rivals.member import TreeCopy
from whence_lab.rivals.neighbourhood import NearAck
from whence_lab.rivals.streams import NearCopy

RIVALS = ("cbcast", "barriers", "neighbourhood", "vcube")


class RivalGrove(Grove):
    def __init__(self, level: str, **settings: Any) -> None:
        spec: Any = spec_of(level)
        self.spec = spec
        self.settings = spec.settings_from(settings)
        self.now = 0
        self.incarnations, self.members, self.journals = {}, {}, {}
        self.flying, self.delivered, self.returned, self.notes = [], {}, {}, []
        self.steps, self.rewritten = Counter(), Counter()
        self.taken, self.untaken, self.asleep = {}, {}, set()


@pytest.mark.parametrize("level", RIVALS)
def test_every_member_delivers_every_message_once_in_its_publishers_order(level: str) -> None:
    grove = RivalGrove(level, tree="binary", tree_nodes=7, groups="subtrees").start(*range(7))
    events = [grove.publish(node, group) for node in (0, 3, 3, 6) for group in (0, 1)]
    grove.settle(3)
    for node in range(7):
        mine = [event for event in events if event in grove.delivered.get(node, [])]
        assert len(grove.delivered[node]) == len(mine)
        for pid in range(7):
            seqs = [event.seq for event in grove.delivered[node] if event.pid == pid]
            assert seqs == sorted(seqs)
    assert grove.at_rest() == []
    assert level == "vcube" or all(member.cost.copies for member in grove.members.values() if member.me.pid < 3)


@pytest.mark.parametrize("level", ["cbcast", "barriers"])
def test_an_answer_waits_for_what_it_answers_also_across_groups(level: str) -> None:
    """0 tells all; 1 answers to 2 alone by a shorter way; 2 delivers the question first."""
    grove = RivalGrove(level, tree="0,0,1", groups="0 1 2 3;1 3;0 3").start(0, 1, 2, 3)
    question = grove.publish(0)
    grove.pass_on(0, 1)
    answer = grove.publish(1, group=1)
    for copy in reversed([copy for copy in grove.flying if copy[1] == 3]):
        grove.flying.remove(copy)
        grove.arrive(copy)
    assert grove.delivered[3] == [question, answer]


def test_the_neighbourhood_jumps_over_a_suspect_and_recognises_the_second_copy() -> None:
    grove = RivalGrove("neighbourhood", tree="line", tree_nodes=4).start(0, 1, 2, 3)
    grove.apply(0, grove.members[0].act("suspect", 1, 0))
    event = grove.publish(0)
    assert [(target, type(item)) for _, target, item in grove.flying] == [(2, NearCopy)]
    grove.pass_on(0, 2)
    grove.pass_on(2, 3)
    assert [grove.delivered.get(node) for node in range(4)] == [[event], None, [event], [event]]
    grove.apply(0, grove.members[0].act("trust", 1, 0))
    grove.settle(3)
    assert all(grove.delivered[node] == [event] for node in range(4))
    assert grove.notes.count("duplicate") >= 1
    assert grove.at_rest() == []


def test_the_neighbourhood_goes_on_while_a_neighbour_is_down_and_takes_it_back() -> None:
    """What its old incarnation missed is passed on by the new one, and not delivered there."""
    grove = RivalGrove("neighbourhood", tree="line", tree_nodes=5).start(*range(5))
    first = grove.publish(0)
    grove.settle(3)
    grove.crash(2)
    missed = [grove.publish(0), grove.publish(4)]
    grove.settle(6)
    assert all(sorted(grove.delivered[node]) == sorted([first, *missed]) for node in (0, 1, 3, 4))
    grove.incarnations[2] += 1
    grove.members[2] = grove._build(2)
    grove.apply(2, grove.members[2].join([], grove.now))
    grove.settle(6)
    later = grove.publish(0)
    grove.settle(6)
    assert all(grove.delivered[node][-1] == later for node in (0, 1, 3, 4))
    assert grove.delivered[2] == [first, later]
    assert grove.at_rest() == []


def test_the_neighbourhood_knows_forwarders_near_it_and_nothing_of_publishers() -> None:
    """A line of nine nodes, each of which publishes: node 4 knows numbers of at most seven, those within 2f+1 hops."""
    grove = RivalGrove("neighbourhood", tree="line", tree_nodes=9).start(*range(9))
    events = [grove.publish(node) for node in range(9)]
    grove.settle(12)
    assert sorted(grove.delivered[4]) == sorted(events)
    known = next(gauge for gauge in grove.members[4].gauges() if gauge.name == "known_forwarders")
    assert known.value == 6
    assert known.bound == 7


def test_causal_barriers_collect_what_the_matrix_shows_to_be_delivered() -> None:
    """2 heard a message of 0, and its answer to 1 alone shows 1 that 2 has it: 1 no longer names it for 2."""
    grove = RivalGrove("barriers", tree="star", tree_nodes=3, groups="0 1 2;1").start(0, 1, 2)
    grove.publish(0)
    grove.settle(3)
    order: Any = grove.members[1].order
    assert list(order._barrier) == [(0, 1)]
    grove.publish(2, group=1)
    grove.settle(3)
    assert (0, 1) not in order._barrier
    assert order._delivered.has(0, 1, 2)
    assert not order._delivered.has(0, 2, 2)


def test_a_neighbourhood_publisher_has_one_message_under_way() -> None:
    grove = RivalGrove("neighbourhood", tree="line", tree_nodes=3).start(0, 1, 2)
    events = [grove.publish(0) for _ in range(3)]
    assert len(grove.flying) == 1
    grove.settle(6)
    assert grove.delivered[2] == events


@pytest.mark.parametrize("level", RIVALS)
def test_rivals_refuse_what_they_cannot_do(level: str) -> None:
    grove = RivalGrove(level, tree="line", tree_nodes=3)
    grove.incarnations[0] = 1
    member: Any = grove._build(0)
    with pytest.raises(NotMemberError):
        member.publish([b"x"], 0)
    member.found([], 0)
    with pytest.raises(NotMemberError, match="fixed"):
        member.join([1], 0)
    with pytest.raises(NotMemberError, match="fixed"):
        member.leave(0)
    with pytest.raises(UsageError, match="groups"):
        member.publish_to(5, [b"x"], 0)
    with pytest.raises(UsageError, match="no act"):
        member.act("dance", 0, 0)
    for payloads in ([], [b""] * 5000, [b"x" * (1 << 20), b"x"]):
        with pytest.raises(LimitError):
            member.publish(payloads, 0)
    assert member.tick(0).send == []
    assert member.restore([], 0).send == []
    assert member.unreachable(1, 0).send == []
    bundle = packed(Process(1, 1), 1, [b"x"])
    strange: list[Item] = [
        TreeCopy(0, 0, b"\xff", bundle),
        NearCopy(0, 0, False, b"\xff", bundle),
        NearAck(1, 1, 1, 0),
        Item(),
    ]
    for sender in (1, 9):
        for item in strange:
            assert member.receive(Process(sender, 1), item, 0).deliver == []
    assert member.receive(Process(1, 1), TreeCopy(0, 0, b"", bundle), 0).deliver == []


@pytest.mark.parametrize(
    ("level", "name", "accepted"),
    [
        ("neighbourhood", "tree_fanout", "thicket"),
        ("plumtree", "trees", "thicket"),
        ("cbcast", "root_replicas", "scribe"),
        ("thicket", "siblings", "gryphon"),
        ("gryphon", "heartbeat_ns", "scribe"),
        ("vcube", "graft_s", "plumtree"),
    ],
)
def test_a_setting_of_another_rival_is_refused(level: str, name: str, accepted: str) -> None:
    spec_of(accepted).settings_from({name: 2})
    with pytest.raises(SettingError, match=f"no setting is called '{name}'"):
        spec_of(level).settings_from({name: 2})


def test_groups_that_are_none_are_refused_with_all_that_groups_can_be() -> None:
    with pytest.raises(
        SettingError, match=r"all, subtrees, zipf:K, or the processes of each group, as 0 1 2;2 3; not '0,1'"
    ):
        spec_of("cbcast").settings_from({"tree_nodes": 4, "groups": "0,1"})
