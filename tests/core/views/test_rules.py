"""Rules of living groups that no trap is about: receipts of refused calls, and who goes along with the removed."""

import pytest

from tests.core.views.group import Group, both, of, touching
from whence.core.views.items import ViewMark
from whence.core.views.settings import MS, ViewSettings
from whence.errors import LimitError

SECOND = 1_000 * MS


def test_a_refused_publication_does_not_swallow_the_receipt_of_an_earlier_one() -> None:
    group = Group("causal-living", None, ViewSettings(journal=True, retained_bytes_max=400))
    group.slow = {0}
    first = group.publish(0)
    member = group.members[0]
    _, ready = member.publish([b"y" * 60], group.now)
    group._carry_out(0, ready)
    group.wait(SECOND)
    assert not group.told(0, "settled")
    member.taken[member.place_of(0, 1)] += 1
    with pytest.raises(LimitError):
        member.publish([b"z" * 60], group.now)
    group.wait(SECOND)
    assert [note.event for note in group.told(0, "settled")] == [first]


@pytest.mark.parametrize("remove_after_ns", [0, 60 * SECOND])
def test_newcomers_that_died_do_not_hold_up_each_others_removal(remove_after_ns: int) -> None:
    group = Group("causal-living", None, ViewSettings(journal=False, remove_after_ns=remove_after_ns))
    for pid in (7, 8, 9):
        group.join(pid, 0)
    group.wait(100 * MS, lose=both(of(ViewMark), touching(7, 8, 9)))
    assert {7, 8, 9} <= set(group.pids(0))
    for pid in (7, 8, 9):
        group.crash(pid)
    group.wait(SECOND)
    group.remove(0, 8)
    group.wait(2 * SECOND)
    assert group.pids(0) == group.pids(1) == [0, 1, 2]


def test_members_that_are_soon_removed_anyway_go_along_with_one_that_is_removed() -> None:
    group = Group("causal-living", None, ViewSettings(journal=False, remove_after_ns=4 * SECOND), founders=5)
    group.publish(0)
    group.crash(3)
    group.crash(4)
    group.wait(3 * SECOND)
    assert group.pids(0) == [0, 1, 2, 3, 4]
    group.remove(0, 3)
    group.wait(600 * MS)
    assert group.pids(0) == [0, 1, 2]


def test_a_dead_member_that_owes_nothing_is_suspected_when_a_change_waits_for_it() -> None:
    group = Group("causal-living", None, ViewSettings(journal=False, remove_after_ns=2 * SECOND), founders=5)
    group.wait(3 * SECOND)
    group.crash(3)
    group.crash(4)
    group.remove(0, 4)
    group.wait(6 * SECOND)
    assert group.pids(0) == [0, 1, 2]


def test_who_comes_anew_is_replaced_even_if_others_that_are_to_go_must_wait() -> None:
    """Two of five come without their disks, and an operator also wants to remove a third: that one stays for now."""
    group = Group("causal-living", None, ViewSettings(journal=True), founders=5)
    group.wait(SECOND)
    for pid in (3, 4):
        group.crash(pid)
        group.records[pid] = []
    group.remove(1, 2)
    for pid in (3, 4):
        group.join(pid, 0)
    group.wait(6 * SECOND)
    assert {3, 4} <= set(group.pids(0))
    assert group.is_live(3)
    assert group.is_live(4)


@pytest.mark.parametrize("founders", [2, 3, 4])
def test_all_members_may_leave_at_once_and_the_first_ends_the_group(founders: int) -> None:
    group = Group("causal-living", None, ViewSettings(journal=False), founders=founders)
    for pid in range(founders):
        group.publish(pid)
    group.flow()
    for pid in range(founders):
        group.leave(pid)
    group.wait(8 * SECOND)
    assert all(group.told(pid, "left") for pid in range(founders))


def test_no_window_holds_up_a_change() -> None:
    """A strict group hands out nothing while a member is dead, so windows stay full. Whoever is told a target sends its
    own messages up to it: the change needs no timer."""
    group = Group("total-strict", None, ViewSettings(window=4, attempt_ns=SECOND))
    group.crash(2)
    for _ in range(60):
        group.publish(0)
        group.publish(1)
    group.wait(SECOND)
    assert group.members[0].state.got[1] < 60  # the window holds the rest back
    group.remove(0, 2)
    group.wake()
    group.flow()
    assert group.pids(0) == group.pids(1) == [0, 1]
    assert len(group.log[0]) == len(group.log[1]) == 120
