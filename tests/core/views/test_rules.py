"""Rules of living groups that no trap is about: receipts of refused calls, and who goes along with the removed, how
members leave together."""

import pytest

from tests.core.views.group import Group, between, both, of, touching
from whence.core.views.items import Decree, ViewMark
from whence.core.views.settings import AS_THE_GROUP, MS, REMOVE_AFTER_NS, ViewSettings
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


@pytest.mark.parametrize(("founders", "leaver"), [(2, 0), (3, 0), (3, 1)])
def test_who_leaves_waits_for_the_dead_and_not_for_itself(founders: int, leaver: int) -> None:
    """Everybody that stays must report, and of two the first has nobody that would let it go."""
    group = Group("causal-living", None, ViewSettings(journal=True), founders=founders)
    dead = founders - 1
    group.crash(dead)
    for pid in range(dead):
        group.unreachable(pid, dead)
    group.leave(leaver)
    for _ in range(8):
        group.wait(100 * MS)
        status = group.members[leaver].view_status()
        assert status is not None
        assert status.change.startswith(f"let go of {leaver}")
        assert status.waits_for == (dead,)


def test_who_leaves_waits_for_those_that_have_not_taken_what_it_published() -> None:
    group = Group("causal-living", None, ViewSettings(journal=True))
    group.slow = {2}
    group.publish(0)
    group.wait(SECOND)
    group.leave(0)
    group.wait(100 * MS)
    status = group.members[0].view_status()
    assert status is not None
    assert (status.change, status.waits_for) == ("let go of 0", (2,))


@pytest.mark.parametrize(("dead", "has_quorum"), [((), True), ((1,), True), ((0,), True), ((1, 2), False)])
def test_a_member_says_whether_those_that_answer_are_a_quorum(dead: tuple[int, ...], has_quorum: bool) -> None:
    group = Group("causal-living", None, ViewSettings(journal=True))
    asked = 2 if 0 in dead else 0
    for pid in dead:
        group.crash(pid)
        group.unreachable(asked, pid)
    status = group.members[asked].view_status()
    assert status is not None
    assert status.has_quorum is has_quorum


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


@pytest.mark.parametrize("kind", ["causal-living", "total-strict"])
def test_who_asks_to_go_after_the_others_went_on_without_it_was_removed_and_did_not_leave(kind: str) -> None:
    """It stood still meanwhile, and what it publishes before it hears of that never takes effect. Then all close the
    group: who left by itself is judged as if it stayed, and a newcomer was never handed that event."""
    group = Group(kind, None, ViewSettings(journal=False))
    group.publish(0)
    group.wait(SECOND)
    apart = touching(2)
    group.remove(0, 2)
    group.wait(2 * SECOND, lose=apart)
    group.join(3, 0)
    group.wait(2 * SECOND, lose=apart)
    assert group.is_live(3)
    late = group.publish(2)
    group.leave(2)
    group.wait(2 * SECOND)
    assert not group.told(2, "left")
    (verdict,) = group.told(2, "removed")
    assert verdict.event is None or verdict.event < late
    for pid in (0, 1, 3):
        group.leave(pid)
    assert group.broken() == {}


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


@pytest.mark.parametrize("leavers", [(0,), (1,), (0, 1)])
def test_who_leaves_while_another_is_dead_gets_out_once_that_one_is_removed(leavers: tuple[int, ...]) -> None:
    """With two of three gone at once the last one would have no quorum."""
    group = Group("causal-living", None, ViewSettings(journal=False, remove_after_ns=4 * SECOND))
    group.wait(SECOND)
    group.crash(2)
    for pid in leavers:
        group.leave(pid)
    group.wait(8 * SECOND)
    assert all(group.told(pid, "left") for pid in leavers)
    assert all(group.pids(pid) == [pid] for pid in {0, 1} - set(leavers))


def test_two_that_leave_and_lead_against_each_other_agree_on_who_goes_last() -> None:
    """The third is dead, and each of the two has reported to a change in which the other removes it."""
    settings = ViewSettings(journal=False, remove_after_ns=2 * SECOND, retry_ns=SECOND, suspect_ns=3 * SECOND)
    group = Group("causal-living", None, settings)
    group.crash(2)
    group.leave(0)
    group.unreachable(1, 2)
    group.wait_slowly(20 * MS)
    group.unreachable(0, 2)
    group.wait_slowly(40 * MS)
    group.leave(1)
    group.wait_slowly(200 * MS)
    assert [dict(group.members[pid].state.frozen) for pid in (0, 1)] == [{0: None, 1: None}] * 2
    group.wait_slowly(6 * SECOND)
    assert group.told(0, "left")
    assert group.told(1, "left")


def test_the_last_member_ends_once_those_that_left_with_it_have_heard_that_it_knows() -> None:
    group = Group("causal-living", None, ViewSettings(journal=False), founders=3)
    for pid in range(3):
        group.leave(pid)
    asks = of(Decree)
    group.wait(2 * SECOND, hold=lambda packet: packet.to == 0 and asks(packet))
    assert not any(group.told(pid, "left") for pid in range(3))
    group.wait(2 * SECOND)
    assert all(group.told(pid, "left") for pid in range(3))


def test_nobody_waits_for_the_question_of_one_that_is_gone() -> None:
    group = Group("causal-living", None, ViewSettings(journal=False), founders=2)
    for pid in range(2):
        group.leave(pid)
    group.flow(hold=between((0,), (1,)))
    group.wait(SECOND, hold=lambda packet: packet.to == 1 and of(Decree)(packet))
    group.crash(1)
    assert not group.told(0, "left")
    group.unreachable(0, 1)
    group.wait(SECOND)
    assert group.told(0, "left")


def test_who_was_let_go_need_not_tell_a_member_that_has_gone_itself() -> None:
    """Without journals: with one, it would come back and know nothing of the view."""
    for journal in (False, True):
        group = Group("causal-living", None, ViewSettings(journal=journal), founders=2)
        group.wait(SECOND)
        group.leave(1)
        group.wait(SECOND, lose=lambda packet: packet.to == 0 and of(Decree)(packet))
        assert not group.told(1, "left")
        group.parted(1, 0)
        assert bool(group.told(1, "left")) is not journal


def test_who_leaves_without_a_journal_holds_up_nobody_with_what_its_application_did_not_take() -> None:
    group = Group("causal-living", None, ViewSettings(journal=False, lag_max_ns=3600 * SECOND), founders=2)
    group.slow = {0, 1}
    group.publish(0)
    group.publish(1)
    group.wait(SECOND)
    group.leave(0)
    group.leave(1)
    group.wait(8 * SECOND)
    assert group.told(0, "left")
    assert group.told(1, "left")


def test_a_newcomer_of_whom_nothing_was_said_removes_the_silent_as_the_group_does() -> None:
    """A guest without a journal does not have members removed that come back."""
    guest = Group("causal-living", None, ViewSettings(journal=False, remove_after_ns=AS_THE_GROUP)).members[0]
    assert guest.remove_after_ns == REMOVE_AFTER_NS
    guest.agree(0)
    assert (guest.remove_after_ns, guest.silence_ns_max) == (0, 0)
    told = Group("causal-living", None, ViewSettings(journal=False, remove_after_ns=2 * SECOND)).members[0]
    told.agree(0)
    assert told.remove_after_ns == 2 * SECOND
    assert Group("causal-living", None, ViewSettings(remove_after_ns=AS_THE_GROUP)).members[0].remove_after_ns == 0


def test_a_member_that_published_nothing_has_no_verdict_to_tell_even_if_the_one_it_was_before_had() -> None:
    """The verdict on the former was another one's: its events may have taken effect."""
    group = Group("causal-living", None)
    group.publish(2)
    group.flow()
    assert group.members[2].has_published
    group.remove(0, 2)
    group.wait(2_000 * MS)
    assert group.told(2, "removed")
    assert group.members[2].has_published
    group.crash(2)
    group.restart(2)
    group.join(2, 0)
    group.wait(2_000 * MS)
    assert group.is_live(2)
    assert not group.members[2].has_published


def test_a_removal_that_another_change_made_impossible_is_not_wished_any_more() -> None:
    """Of two the second may not remove the first: it does not do so either once a third one has joined."""
    group = Group("causal-living", None)
    group.remove(0, 1)
    group.remove(2, 0)
    group.wait(3 * SECOND)
    assert group.pids(0) == group.pids(2) == [0, 2]
    group.crash(1)
    group.join(1, 0)
    group.wait(8 * SECOND)
    assert group.pids(0) == group.pids(2) == [0, 2, 1]


def test_who_comes_back_when_all_it_knows_are_gone_asks_any_member_that_it_meets() -> None:
    """It was removed while it was down, and those that know it have left: the newcomers have never heard of it."""
    group = Group("causal-living", None, ViewSettings(journal=True))
    group.crash(2)
    group.remove(0, 2)
    group.wait(SECOND)
    for pid in (8, 9):
        group.join(pid, 0)
    group.wait(2 * SECOND)
    for pid in (0, 1):
        group.leave(pid)
        group.wait(2 * SECOND)
        assert group.told(pid, "left")
        group.crash(pid)
    group.restart(2)
    group.wait(SECOND)
    assert group.pids(2) == [0, 1, 2]
    group._carry_out(2, group.members[2].meet(group.members[8].me, group.now))
    group.wait(SECOND)
    assert group.told(2, "removed_unknown") or group.told(2, "removed")
