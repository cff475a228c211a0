"""Causal order, agreement, opening, receipts and verdicts over views: the smallest traces that keep and break them."""

from typing import Any

import pytest

from tests.check.living.living_builder import LivingBuilder
from tests.check.worlds import with_columns
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.trace.schema import Kind

HOLDS, BROKEN, UNKNOWN, VACUOUS = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN, Outcome.VACUOUS


def untimed(builder: LivingBuilder) -> LivingBuilder:
    for kind, rows in builder.trace.rows.items():
        builder.trace.rows[kind] = [with_columns(row, kind, t_true=None) for row in rows]
    return builder


def churned(**parameters: Any) -> LivingBuilder:
    """A good run: three founders, one joins, one is removed and told so, one leaves and comes back."""
    builder = LivingBuilder(**parameters)
    builder.receipt("settled", builder.tell_all(0))
    builder.change(add=[3])
    builder.tell_all(3)
    last = builder.tell_all(2)
    builder.receipt("majority", last)
    builder.out(2, builder.change(remove=[2]), last)
    builder.tell_all(1)
    last = builder.tell_all(1)
    builder.out(1, builder.change(remove=[1]), last, reason="left")
    builder.crash(1)
    builder.restart(1)
    builder.change(add=[1])
    builder.tell_all(1)
    builder.tell_all(0)
    return builder


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_a_run_in_which_members_come_and_go_keeps_every_promise(durable: bool, strict: bool) -> None:
    builder = churned(durable=durable, strict=strict, uniform=strict)
    builder.phases()
    builder.tell_all(1)
    verdicts = {verdict.promise: verdict.outcome for verdict in judge(builder.trace)}
    assert verdicts.pop("bounds") is VACUOUS
    assert set(verdicts.values()) == {HOLDS}
    assert ("strict_total" in verdicts) == ("uniform" in verdicts) == strict


def test_what_needs_no_time_is_judged_without_it() -> None:
    """A live trace has no true time: epochs and happened-before say most of it."""
    told = {verdict.promise: verdict.outcome for verdict in judge(untimed(churned()).trace)}
    assert {promise for promise, outcome in told.items() if outcome is UNKNOWN} == {"liveness", "open"}
    assert BROKEN not in told.values()


# --- causal ---


def test_who_is_handed_an_answer_has_been_handed_its_question() -> None:
    for order, expected in (((0, 1), HOLDS), ((1, 0), BROKEN), ((1,), BROKEN)):
        builder = LivingBuilder()
        question = builder.tell(0, 0, 1)
        events = question, builder.tell(1, 1, 0)
        for place in order:
            builder.hand(events[place], 2)
        assert builder.outcome("causal") is expected


def test_a_joiner_is_not_owed_causes_from_views_before_its_own() -> None:
    builder = LivingBuilder()
    builder.tell_all(0)
    builder.change(add=[3])
    builder.tell_all(1)
    assert builder.outcome("causal") is HOLDS


def test_a_joiner_is_owed_causes_of_views_it_is_in_before_it_is_live() -> None:
    """Trap T11: an effect without its cause."""
    builder = LivingBuilder()
    builder.decide(add=[3])
    for pid in (0, 1, 2, 3):
        builder.enter(pid)
    builder.tell(0, 0, 1, 2)
    builder.tell_all(1)
    assert "process 3 delivered event 1 of process 1 although" in builder.verdict("causal").sentence


def test_an_event_of_a_later_view_does_not_overtake_what_the_removed_left_behind() -> None:
    """Trap T22: a member enters the next view before it has all of the removed one's events."""
    builder = LivingBuilder([0, 1, 2, 3])
    last = builder.tell(3, 0, 1)
    builder.change(remove=[3])
    later = builder.tell(0, 0, 1)
    builder.hand(later, 2)
    builder.hand(last, 2)
    assert "which comes before it and came only later" in builder.verdict("causal").sentence


def test_what_a_process_published_as_a_removed_member_is_no_past_of_its_next_membership() -> None:
    builder = LivingBuilder()
    kept = builder.tell_all(2)
    builder.tell(2, 2)  # beyond the cut: it never took effect
    builder.out(2, builder.change(remove=[2]), kept)
    builder.change(add=[2])
    builder.tell_all(2)
    assert builder.broken() == []


# --- agreement ---


@pytest.mark.parametrize("handed", [(), (0,), (0, 1), (0, 1, 2)])
def test_those_who_stay_are_handed_the_same_of_a_removed_member(handed: tuple[int, ...]) -> None:
    """Traps T1 to T4, T6, T9, T19 to T21: whichever way it comes about, somebody has what the others lack."""
    builder = LivingBuilder([0, 1, 2, 3])
    builder.tell_all(0)
    event = builder.tell(3, 3)
    builder.crash(3)
    builder.change(remove=[3])
    builder.hand(event, *handed)
    verdict = builder.verdict("agreement")
    assert verdict.outcome is (HOLDS if len(handed) in (0, 3) else BROKEN)
    assert verdict.count == (3 - len(handed)) % 3


def test_what_only_removed_members_had_is_owed_to_nobody() -> None:
    builder = LivingBuilder([0, 1, 2, 3, 4])
    builder.tell_all(0)
    builder.tell(3, 3, 4)
    builder.change(remove=[3, 4])
    assert builder.outcome("agreement") is HOLDS


def test_what_a_member_that_stays_published_is_handed_to_all_who_stay() -> None:
    """Trap T14: a message that is never ready anywhere."""
    builder = LivingBuilder()
    builder.tell(0, 0)
    assert builder.verdict("agreement").count == 2


def test_a_member_with_a_journal_is_owed_what_it_missed_while_it_was_down() -> None:
    """Trap T7: everybody dropped it once it was received, and it was not yet taken."""
    builder = LivingBuilder(durable=True)
    builder.crash(2)
    event = builder.tell(0, 0, 1)
    assert builder.outcome("agreement") is HOLDS  # it is down
    builder.restart(2)
    assert builder.outcome("agreement") is BROKEN
    builder.hand(event, 2)
    assert builder.outcome("agreement") is HOLDS


def test_from_the_later_of_their_joins_on() -> None:
    builder = LivingBuilder()
    builder.tell_all(0)
    builder.change(add=[3])
    builder.tell_all(0)
    assert builder.outcome("agreement") is HOLDS
    builder.tell(1, 0, 1, 2)
    assert [violation.node for violation in builder.verdict("agreement").violations] == [3]


def test_a_run_that_just_stops_shows_nothing_by_what_is_missing() -> None:
    builder = LivingBuilder(agreement=None)
    builder.tell(0, 0)
    verdict = builder.verdict("agreement")
    assert verdict.outcome is UNKNOWN
    assert "2 cases cannot be judged: the run does not say by when" in verdict.sentence
    builder.phases()
    assert builder.outcome("agreement") is BROKEN


def test_a_group_without_a_quorum_may_stand_still() -> None:
    """Trap T18: what a quorum kept may die with it, so a minority changes nothing."""
    for dead, expected in (([1, 2], UNKNOWN), ([2], BROKEN)):
        builder = LivingBuilder([0, 1, 2])
        builder.tell(0, 0)
        for pid in dead:
            builder.crash(pid)
        if len(dead) > 1:
            builder.tell(0)  # nobody is left to be handed it
        assert builder.outcome("agreement") is expected
    assert "group 'g' is blocked" in builder_with_dead_voters().verdict("agreement").sentence


def builder_with_dead_voters() -> LivingBuilder:
    """Five members of which three vote; two of these are dead."""
    builder = LivingBuilder([0, 1, 2, 3, 4])
    builder.decide()
    for pid in range(5):
        builder.enter(pid, value=0b00111)
    builder.crash(0)
    builder.crash(1)
    builder.tell(2, 2)
    return builder


def test_a_group_that_waits_for_an_operator_is_not_accused() -> None:
    """Trap T26: with keep=own, what was taken and lost in a crash nobody can supply. With keep=all that cannot be."""
    for keep, expected in (("own", UNKNOWN), ("all", BROKEN)):
        builder = LivingBuilder(durable=True, keep=keep)
        builder.tell(0, 0, 1)
        builder.row(Kind.NOTE, 1, reason="unsuppliable")
        assert builder.outcome("agreement") is expected


# --- open ---


def test_what_is_published_after_a_joiner_is_live_is_for_it() -> None:
    """Trap T8: somebody still publishes in the view before, although `open()` has returned at the joiner."""
    for is_late, expected in ((False, HOLDS), (True, BROKEN)):
        builder = LivingBuilder()
        builder.decide(add=[3])
        for pid in (0, 1, 3) if is_late else (0, 1, 2, 3):
            builder.enter(pid)
        builder.live(3)
        builder.tell_all(2)
        assert builder.outcome("open") is expected
    assert "published in view 0, and was published later" in builder.verdict("open").sentence


def test_what_follows_anything_a_joiner_was_handed_is_for_it_even_before_it_is_live() -> None:
    """Trap T10: somebody answers a joiner while it is still in the view before; the joiner never gets the answer."""
    builder = LivingBuilder()
    builder.decide(add=[3])
    for pid in (0, 1, 3):
        builder.enter(pid)
    builder.tell(3, 3, 0, 1, 2)
    builder.tell(2, 0, 1, 2)
    verdict = builder.verdict("open")
    assert "follows what it was handed" in verdict.sentence
    assert untimed(builder).outcome("open") is BROKEN


def test_a_joiner_that_stays_is_handed_what_came_after_its_opening() -> None:
    """Trap T34: at a strict group it skips what lies below its start, and `open()` returned too early."""
    for strict in (False, True):
        builder = LivingBuilder(strict=strict)
        builder.change(add=[3])
        builder.tell(0, 0, 1, 2)
        builder.tell_all(0)
        assert "process 3 was never handed event 1 of process 0" in builder.verdict("open").sentence


def test_what_an_ousted_member_still_publishes_is_not_held_against_the_joiner() -> None:
    """It does not know yet that it is out; none of that takes effect."""
    builder = LivingBuilder()
    epoch = builder.decide(add=[3], remove=[2])
    for pid in (0, 1, 3):
        builder.enter(pid, epoch)
    builder.live(3)
    builder.tell(2, 2)
    builder.tell_all(0)
    assert builder.outcome("open") is HOLDS


def test_nothing_is_at_stake_where_nobody_joined() -> None:
    builder = LivingBuilder()
    builder.tell_all(0)
    assert builder.outcome("open") is VACUOUS


# --- receipts ---


@pytest.mark.parametrize("level", ["majority", "settled"])
def test_what_was_acknowledged_survives_its_publisher(level: str) -> None:
    """Traps T5, T18, T23 to T25: it was acknowledged, and died with those who had it."""
    for handed, expected in (((0, 1, 2, 3), HOLDS), ((3,), BROKEN)):
        builder = LivingBuilder([0, 1, 2, 3])
        event = builder.tell(3, *handed)
        builder.receipt(level, event)
        builder.crash(3)
        builder.change(remove=[3])
        assert builder.outcome("receipts") is expected
        assert builder.outcome("agreement") is (HOLDS if expected is HOLDS else VACUOUS)


def test_what_was_stored_is_only_safe_with_its_publisher() -> None:
    for stays, expected in ((True, BROKEN), (False, VACUOUS)):
        builder = LivingBuilder([0, 1, 2, 3], durable=True)
        builder.receipt("stored", builder.tell(3, 3))
        if not stays:
            builder.crash(3)
            builder.change(remove=[3])
        assert builder.outcome("receipts") is expected


def test_a_receipt_speaks_of_all_earlier_own_events() -> None:
    builder = LivingBuilder([0, 1, 2, 3])
    builder.tell(3, 3)
    builder.receipt("majority", builder.tell_all(3))
    builder.crash(3)
    builder.change(remove=[3])
    assert builder.verdict("receipts").count == 3


def test_settled_says_that_every_application_has_it_by_then() -> None:
    builder = LivingBuilder(durable=True)
    event = builder.tell(0, 0, 1)
    builder.receipt("settled", event)
    builder.hand(event, 2)
    assert "is settled before process 2 was handed it" in builder.verdict("receipts").sentence
    assert untimed(builder).outcome("receipts") is HOLDS


def test_settled_says_that_every_other_member_has_it_where_nobody_remembers() -> None:
    builder = LivingBuilder()
    event = builder.tell(0, 0, 1)
    builder.receipt("settled", event)
    builder.hand(event, 2)
    assert builder.outcome("receipts") is HOLDS


def test_nobody_is_told_of_events_of_others() -> None:
    builder = LivingBuilder()
    builder.receipt("majority", builder.tell_all(0), pid=1)
    assert "did not publish it" in builder.verdict("receipts").sentence


def test_a_joiner_is_not_owed_what_was_acknowledged_before_its_view() -> None:
    builder = LivingBuilder()
    builder.receipt("majority", builder.tell_all(0))
    builder.change(add=[3])
    assert builder.outcome("receipts") is HOLDS


# --- verdict ---


def test_the_removed_learn_exactly_which_of_their_events_took_effect() -> None:
    """Traps T1, T2, T12 and T20: the cut that it is told is not what the others have."""
    for cut, expected in ((0, BROKEN), (1, BROKEN), (2, HOLDS), (3, BROKEN)):
        builder = LivingBuilder([0, 1, 2, 3])
        events = [builder.tell_all(3), builder.tell_all(3), builder.tell(3, 3)]
        epoch = builder.change(remove=[3])
        builder.out(3, epoch, events[cut - 1] if cut else None)
        assert builder.outcome("verdict") is expected
        assert builder.outcome("agreement") is HOLDS


def test_nothing_beyond_the_cut_is_handed_even_to_members_removed_later() -> None:
    """Trap T12: it returns from a partition, and somebody takes its next event."""
    builder = LivingBuilder([0, 1, 2, 3])
    kept = builder.tell_all(3)
    beyond = builder.tell(3, 3)
    builder.out(3, builder.change(remove=[3]), kept)
    builder.hand(beyond, 2)
    builder.out(2, builder.change(remove=[2]), None)
    assert "process 2 was handed event 2 of process 3" in builder.verdict("verdict").sentence
    assert builder.outcome("agreement") is HOLDS  # nobody who stays has it


def test_who_was_removed_by_the_same_view_may_have_been_handed_more() -> None:
    builder = LivingBuilder([0, 1, 2, 3, 4])
    kept = builder.tell_all(3)
    builder.tell(3, 3, 4)
    epoch = builder.change(remove=[3, 4])
    builder.out(3, epoch, kept)
    builder.out(4, epoch, None)
    assert builder.outcome("verdict") is HOLDS


def test_a_verdict_names_a_view_without_the_member_and_an_event_of_its_own() -> None:
    still_in, not_its_own = LivingBuilder(), LivingBuilder()
    still_in.tell_all(2)
    still_in.out(2, 0, None)
    assert "is in that view" in still_in.verdict("verdict").violations[0].sentence
    event = not_its_own.tell_all(0)
    not_its_own.out(2, not_its_own.change(remove=[2]), event)
    assert "which it did not publish" in not_its_own.verdict("verdict").sentence


def test_an_unknown_verdict_is_no_verdict() -> None:
    builder = LivingBuilder()
    builder.tell_all(2)
    builder.out(2, builder.change(remove=[2]), None, reason="removed_unknown")
    assert builder.outcome("verdict") is VACUOUS
