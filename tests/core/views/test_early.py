"""Members enter a view one after another: what is said in it before its decree came waits here, and nobody asks for it
again (views 5.2, 5.5)."""

import pytest

from tests.core.views.group import Group, Packet, Which, both, of
from whence.core.ready import Item
from whence.core.views.early import Early
from whence.core.views.items import Beat, Decree, Fetch, ViewMark
from whence.core.views.settings import MS, ViewSettings
from whence.types import Process

KINDS = ("causal-living", "total-strict")


def to(pid: int, *kinds: type[Item]) -> Which:
    """Choose packets by what is in them and to whom they go."""
    return both(of(*kinds), lambda packet: packet.to == pid)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_before_the_decree_is_taken_when_it_comes_and_nobody_is_asked(kind: str) -> None:
    group = Group(kind, None, ViewSettings(journal=False), founders=4)
    late, asked = to(3, Decree), list[Packet]()

    def fetches(packet: Packet) -> bool:
        if isinstance(packet.item, Fetch):
            asked.append(packet)
        return False

    group.remove(0, 2)
    group.wait(20 * MS, hold=late)
    assert [group.pids(pid) for pid in (0, 1, 3)] == [[0, 1, 3], [0, 1, 3], [0, 1, 2, 3]]
    published = [group.publish(pid) for pid in (0, 1, 0)]
    group.flow(hold=late)
    assert not set(published) & set(group.log[3])
    assert len(group.members[3].early) > 0
    group.arrive(late)
    group.flow(lose=fetches)
    assert group.pids(3) == [0, 1, 3]
    assert len(group.members[3].early) == 0
    if kind == "causal-living":
        assert group.log[3] == published
    group.wait(1_000 * MS, lose=fetches)
    assert sorted(group.log[3]) == sorted(group.log[0]) == sorted(group.log[1]) == sorted(published)
    assert asked == []
    assert group.broken() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_newcomer_that_hears_of_its_view_last_is_live_as_soon_as_it_does(kind: str) -> None:
    group = Group(kind, None, ViewSettings(journal=False))
    late = to(7, Decree)
    group.join(7, 0)
    group.wait(100 * MS, hold=late)
    assert group.pids(0) == [0, 1, 2, 7]
    assert not group.is_live(7)
    group.wait(40 * MS)
    assert group.is_live(7)
    assert group.broken() == {}


def test_messages_that_are_put_aside_are_bounded_and_the_oldest_go_first() -> None:
    early, sender = Early(3), Process(1, 1)
    for epoch in range(1, 6):
        early.put(sender, ViewMark(0, epoch, [0], 0, 0))
    assert len(early) == 3
    assert [item.epoch for _, item in early.upto(4) if isinstance(item, ViewMark)] == [3, 4]
    assert len(early) == 1
    early.clear()
    assert len(early) == 0


def test_of_what_says_how_far_a_member_is_the_latest_is_put_aside() -> None:
    """In a strict group beats are as many as messages, and must not push these out."""
    early = Early(3)
    early.put(Process(1, 1), ViewMark(0, 2, [0], 0, 0))
    for number in range(10):
        for pid in range(1, 6):
            early.put(Process(pid, 1), Beat(2, number, number))
    assert len(early) == 1 + 3
    ripe = early.upto(2)
    assert isinstance(ripe[0][1], ViewMark)
    assert [(sender.pid, item.number) for sender, item in ripe if isinstance(item, Beat)] == [(1, 9), (2, 9), (3, 9)]
