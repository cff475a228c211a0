"""Views and members: one chain, who is who across incarnations, and what a member may publish and be handed."""

import pytest

from tests.check.living.living_builder import LivingBuilder
from whence.check.levels import LIVING, STRICT
from whence.check.living.members import Living, MemberId, View
from whence.check.verdict import Outcome
from whence.trace.schema import Kind

HOLDS, BROKEN, UNKNOWN, VACUOUS = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN, Outcome.VACUOUS


# --- one chain ---


def test_a_group_whose_views_everybody_enters_alike_has_one_chain() -> None:
    builder = LivingBuilder()
    builder.change(add=[3])
    builder.change(remove=[1])
    builder.change(add=[1])
    assert builder.outcome("one_chain") is HOLDS
    assert builder.verdict("one_chain").sentence == "4 views, one per epoch, whoever entered it"


def test_a_view_that_one_member_alone_entered_proves_nothing() -> None:
    assert LivingBuilder([0]).outcome("one_chain") is VACUOUS


def test_two_halves_that_each_remove_the_other_break_the_chain() -> None:
    """Traps T15, T16 and T17: two views of one epoch, whichever way they came about."""
    builder = LivingBuilder([0, 1, 2, 3])
    for half in ([0, 1], [2, 3]):
        for pid in half:
            builder.enter(pid, 1, [MemberId(each, 1, 0) for each in half])
    verdict = builder.verdict("one_chain")
    assert (verdict.outcome, verdict.count) == (BROKEN, 2)
    assert "entered another view 1 than others did: 2 since 0, 3 since 0, not 0 since 0, 1 since 0" in verdict.sentence


@pytest.mark.parametrize(
    "other",
    [
        [MemberId(1, 1, 0), MemberId(0, 1, 0)],  # another order: the first has the casting vote
        [MemberId(0, 1, 0), MemberId(1, 2, 0)],  # asked for by another incarnation
        [MemberId(0, 1, 0), MemberId(1, 1, 1)],  # another member of the same process
    ],
)
def test_a_view_is_its_members_in_order_with_who_asked_and_since_when(other: list[MemberId]) -> None:
    builder = LivingBuilder([0, 1])
    builder.decide()
    builder.enter(0)
    builder.enter(1, 1, other)
    assert builder.outcome("one_chain") is BROKEN


def test_where_rows_name_the_voters_they_name_the_same() -> None:
    for second, expected in ((0b11, HOLDS), (None, HOLDS), (0b01, BROKEN)):
        builder = LivingBuilder([0, 1])
        builder.decide()
        builder.enter(0, value=0b11)
        builder.enter(1, value=second)
        assert builder.outcome("one_chain") is expected


def test_nobody_enters_a_view_that_it_is_not_in() -> None:
    builder = LivingBuilder()
    builder.decide(remove=[2])
    for pid in range(3):
        builder.enter(pid)
    assert "entered view 1, which it is not in" in builder.verdict("one_chain").sentence


def test_who_is_in_a_view_was_in_the_one_before_or_was_added_by_it() -> None:
    builder = LivingBuilder()
    builder.change(remove=[2])
    builder.views.append([*builder.views[-1], MemberId(2, 1, 0)])
    builder.enter(0)
    assert "process 2 is in view 2 as a member since 0" in builder.verdict("one_chain").sentence


def test_views_are_entered_one_by_one_and_only_a_crash_swallows_a_row() -> None:
    for crashes, expected in ((False, BROKEN), (True, HOLDS)):
        builder = LivingBuilder(durable=True)
        builder.decide(add=[3])
        builder.decide(add=[4])
        if crashes:
            builder.crash(1)
            builder.restart(1)
        builder.enter(0)
        builder.enter(0)
        builder.enter(1, 2)
        assert builder.outcome("one_chain") is expected


def test_nobody_goes_back_to_an_earlier_view() -> None:
    builder = LivingBuilder(durable=True)
    builder.change(add=[3])
    builder.crash(1)
    builder.restart(1)
    builder.enter(1, 1)  # it says again where it is
    assert builder.outcome("one_chain") is HOLDS
    builder.enter(1, 0)
    assert "went back from view 1 to view 0" in builder.verdict("one_chain").sentence


def test_without_a_journal_only_the_incarnation_that_asked_acts_as_the_member() -> None:
    """Trap T36: the view names the process only, and its next incarnation takes the place."""
    builder = LivingBuilder()
    epoch = builder.decide(add=[3])
    for pid in range(3):
        builder.enter(pid)
    builder.row(Kind.NOTE, 3, reason="asked")
    builder.crash(3)
    builder.restart(3)
    builder.enter(3, epoch)
    assert "acts for the member that its incarnation 1 asked for" in builder.verdict("one_chain").sentence


def test_a_member_with_a_journal_goes_on_through_restarts_until_its_disk_is_wiped() -> None:
    """An acceptor must not answer from an empty journal under its old name (views 5.9)."""
    for wiped, expected in ((False, HOLDS), (True, BROKEN)):
        builder = LivingBuilder(durable=True)
        if wiped:
            builder.wipe(1)
        else:
            builder.crash(1)
        builder.restart(1)
        builder.decide(add=[3])
        builder.enter(0)
        builder.enter(1)
        assert builder.outcome("one_chain") is expected


@pytest.mark.parametrize(("restarted", "expected"), [(1, HOLDS), (2, BROKEN)])
def test_members_with_and_without_a_journal_are_judged_each_by_its_own(restarted: int, expected: Outcome) -> None:
    """One that has no data directory does not go on through a restart, whatever the others do."""
    builder = LivingBuilder(durable=True, forgetful=[2])
    builder.crash(restarted)
    builder.restart(restarted)
    builder.enter(restarted, 0)
    assert builder.outcome("one_chain") is expected


def test_nobody_waits_for_a_member_that_cannot_return() -> None:
    """What the others lack is excused by a member that is down only if that one has a journal."""
    for dead, expected in ((1, UNKNOWN), (2, BROKEN)):
        builder = LivingBuilder([0, 1, 2, 3, 4], durable=True, forgetful=[2], strict=True)
        builder.crash(dead)
        builder.tell(0, 0)
        assert builder.outcome("agreement") is expected


def test_after_a_wiped_disk_the_process_is_another_member() -> None:
    builder = LivingBuilder(durable=True)
    event = builder.tell_all(0)
    builder.wipe(1)
    builder.restart(1)
    builder.change(add=[1])
    builder.tell_all(1)
    living = Living(builder.trace)
    assert [each.joined for each in living.memberships.values() if each.pid == 1] == [0, 1]
    assert builder.broken() == []
    builder.deliver(1, event, epoch=0)
    assert "of view 0, which it is not in" in builder.verdict("integrity").sentence
    assert builder.outcome("no_duplicates") is HOLDS  # another member was handed it


# --- quorums ---


def test_a_quorum_is_more_than_half_and_of_two_the_first_decides_alone() -> None:
    def quorum(members: int, up: list[int], voters: int | None = None) -> bool:
        return View("g", 0, tuple(MemberId(pid, 1, 0) for pid in range(members)), voters).is_quorum(up)

    assert quorum(3, [0, 1])
    assert not quorum(3, [2])
    assert quorum(2, [0])
    assert not quorum(2, [1])
    assert quorum(4, [0, 3])
    assert not quorum(4, [2, 3])
    assert not quorum(5, [2, 3, 4], voters=0b111)
    assert quorum(16, [0, 1, 2, 3])  # at most seven vote


# --- integrity ---


def test_members_publish_and_are_handed_events_of_views_that_they_are_in() -> None:
    builder = LivingBuilder()
    builder.tell_all(0)
    builder.change(add=[3])
    builder.tell_all(3)
    assert builder.outcome("integrity") is HOLDS


def test_a_joiner_is_not_handed_what_is_older_than_itself() -> None:
    """Trap T11: the publisher sends to its newest view, and the receiver takes what comes."""
    builder = LivingBuilder()
    early = builder.tell_all(0)
    builder.change(add=[3])
    builder.hand(early, 3)
    sentence = builder.verdict("integrity").sentence
    assert "process 3 delivered event 1 of process 0 of view 0, which it is not in" in sentence


def test_nobody_publishes_behind_the_view_it_entered_or_in_one_it_is_not_in() -> None:
    behind = LivingBuilder()
    behind.change(add=[3])
    behind.publish(0, epoch=0)
    assert "in view 0, after it had entered view 1" in behind.verdict("integrity").sentence
    outside = LivingBuilder()
    outside.change(remove=[2])
    outside.publish(2, epoch=1)
    assert "in view 1, which it is not in" in outside.verdict("integrity").sentence


def test_who_learnt_that_it_is_out_neither_publishes_nor_is_handed_anything() -> None:
    for deed in ("publish", "deliver"):
        builder = LivingBuilder()
        event = builder.tell_all(0)
        builder.change(remove=[2])
        builder.out(2, 1, None)
        assert builder.outcome("integrity") is HOLDS
        if deed == "publish":
            builder.publish(2, epoch=0)
        else:
            builder.hand(event, 2)
        assert builder.outcome("integrity") is BROKEN


def test_what_a_process_finds_in_its_journal_may_be_older_than_the_view_it_is_in() -> None:
    builder = LivingBuilder(durable=True)
    builder.change(add=[3])
    builder.crash(0)
    builder.restart(0)
    builder.enter(0, 1)
    builder.publish(0, epoch=0)
    assert builder.outcome("integrity") is VACUOUS
    builder.decide(add=[4])
    builder.enter(0)
    builder.publish(0, epoch=1)
    assert builder.outcome("integrity") is BROKEN


def test_a_delivery_names_the_epoch_of_the_publication() -> None:
    builder = LivingBuilder()
    event = builder.tell(0)
    builder.change(add=[3])
    builder.hand(event, 1, epoch=1)
    assert "as one of view 1, and it is of view 0" in builder.verdict("integrity").sentence


def test_a_view_that_nobody_recorded_leaves_a_doubt() -> None:
    builder = LivingBuilder()
    event = builder.publish(0, epoch=7)
    builder.hand(event, 1)
    assert builder.outcome("integrity") is UNKNOWN
    assert builder.outcome("agreement") is UNKNOWN


# --- duplicates and fifo ---


def test_a_member_with_a_journal_is_handed_nothing_twice_across_restarts() -> None:
    for durable, expected in ((True, BROKEN), (False, HOLDS)):
        builder = LivingBuilder(durable=durable)
        event = builder.tell_all(0)
        builder.crash(1)
        builder.restart(1)
        builder.hand(event, 1)
        assert builder.outcome("no_duplicates") is expected


def test_a_publishers_events_come_in_order_and_none_that_is_for_the_member_is_skipped() -> None:
    for order, wrong in (((0, 1), None), ((1, 0), "after event 2 of the same"), ((1,), "skipped event 1 of process 0")):
        builder = LivingBuilder()
        events = [builder.tell(0), builder.tell(0)]
        for place in order:
            builder.hand(events[place], 1)
        verdict = builder.verdict("fifo")
        assert verdict.outcome is (BROKEN if wrong else HOLDS)
        assert (wrong or "in order") in verdict.sentence


def test_a_joiner_begins_with_the_first_event_of_its_view() -> None:
    for strict, expected in ((False, BROKEN), (True, HOLDS)):
        builder = LivingBuilder(strict=strict)
        builder.tell_all(0)
        builder.change(add=[3])
        for receivers in ((0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3)):
            builder.tell(0, *receivers)
        assert builder.outcome("fifo") is expected  # a strict joiner begins at a place of the one sequence


def test_a_restarted_publisher_with_a_journal_goes_on_and_another_member_begins_anew() -> None:
    builder = LivingBuilder(durable=True)
    builder.tell_all(0)
    builder.crash(0)
    builder.restart(0)
    builder.tell(0)
    builder.tell_all(0)
    assert builder.outcome("fifo") is BROKEN
    anew = LivingBuilder(durable=True)
    anew.tell(0)  # reached nobody, and its disk is gone
    anew.wipe(0)
    anew.restart(0)
    anew.change(add=[0])
    anew.tell_all(0)
    anew.tell_all(0)
    assert anew.outcome("fifo") is HOLDS


# --- which promises are asked ---


def test_an_empty_living_run_holds_nothing() -> None:
    """What was not checked is vacuous, or unknown where the run does not say enough."""
    builder = LivingBuilder(strict=True, uniform=True)
    told = {verdict.promise: verdict.outcome for verdict in map(builder.verdict, (*LIVING, *STRICT))}
    assert told.pop("one_chain") is HOLDS
    assert told.pop("liveness") is UNKNOWN
    assert set(told.values()) == {VACUOUS}
