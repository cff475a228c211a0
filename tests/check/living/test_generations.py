"""Generations that an operator forces, and views that only those who are out know, as oracles see them."""

import pytest

from tests.check.living.living_builder import (
    LivingBuilder,
    ahead,
    closed_without,
    decided_alone,
    ended_alone,
    forced_out,
    named_and_gone,
    only_known_outside,
    orphaned,
)
from whence.check.living.members import MemberId
from whence.check.verdict import Outcome
from whence.epochs import first_epoch, forced_epoch
from whence.trace.schema import Kind

FORCED = forced_epoch(0, 7)


def forced_group() -> LivingBuilder:
    """Return a group of three that was split: an operator went on with the first, and the others removed that one."""
    builder = LivingBuilder()
    builder.tell_all(0)
    builder.enter(0, FORCED, [MemberId(0, 1, 0)])
    builder.change(remove=[0])
    return builder


def test_each_generation_is_a_chain_of_its_own() -> None:
    builder = forced_group()
    assert builder.outcome("one_chain") is Outcome.HOLDS
    builder.enter(1, FORCED, [MemberId(0, 1, 0), MemberId(1, 1, 0)])
    assert builder.outcome("one_chain") is Outcome.BROKEN


def test_nothing_is_owed_across_generations() -> None:
    builder = forced_group()
    here = builder.publish(0, epoch=FORCED)
    builder.hand(here, 0, epoch=FORCED)
    builder.tell(1, 1, 2)
    assert builder.broken() == []


def test_what_is_published_in_a_generation_is_owed_to_its_members() -> None:
    builder = LivingBuilder()
    survivors = [MemberId(0, 1, 0), MemberId(1, 1, 0)]
    for pid in (0, 1):
        builder.enter(pid, FORCED, survivors)
    event = builder.publish(0, epoch=FORCED)
    builder.hand(event, 0, epoch=FORCED)
    assert "agreement" in builder.broken()
    builder.hand(event, 1, epoch=FORCED)
    assert builder.broken() == []


def test_survivors_are_no_joiners_and_want_to_be_live_in_their_generation() -> None:
    builder = forced_group()
    builder.out(1, FORCED, None, "removed_unknown")
    builder.out(2, FORCED, None, "removed_unknown")
    builder.phases()
    event = builder.publish(0, epoch=FORCED)
    builder.hand(event, 0, epoch=FORCED)
    assert builder.outcome("liveness") is Outcome.HOLDS


def test_groups_of_one_name_are_judged_each_by_itself() -> None:
    builder = LivingBuilder((0, 1))
    builder.tell_all(0)
    other = first_epoch(3)
    builder.enter(5, other, [MemberId(5, 1, other)])
    event = builder.publish(5, epoch=other)
    builder.hand(event, 5, epoch=other)
    assert builder.broken() == []
    assert builder.outcome("one_chain") is Outcome.HOLDS


@pytest.mark.parametrize(("told", "outcome"), [(True, Outcome.UNKNOWN), (False, Outcome.BROKEN)])
def test_a_group_stands_still_if_only_one_that_is_out_knows_its_latest_view(told: bool, outcome: Outcome) -> None:
    assert only_known_outside(told=told).outcome("liveness") is outcome


@pytest.mark.parametrize(("heard", "outcome"), [(False, Outcome.UNKNOWN), (True, Outcome.BROKEN)])
def test_a_group_stands_still_if_its_latest_view_died_with_the_only_one_that_could_decide(
    heard: bool, outcome: Outcome
) -> None:
    """The others are a quorum of that view, and have never heard of it. Of the view they know they are none."""
    assert decided_alone(heard=heard).outcome("liveness") is outcome


def test_nobody_need_be_let_into_a_group_that_its_last_member_closed() -> None:
    assert closed_without(1).outcome("liveness") is Outcome.UNKNOWN


def test_a_verdict_may_name_an_event_of_the_generation_before_and_then_none_of_this_one_took_effect() -> None:
    builder = LivingBuilder()
    before = builder.tell(1, 0, 1, 2)
    survivors = [MemberId(0, 1, 0), MemberId(1, 1, 0)]
    for pid in (0, 1):
        builder.enter(pid, FORCED, survivors)
    after = builder.publish(1, epoch=FORCED)
    builder.hand(after, 1, epoch=FORCED)
    builder.enter(0, FORCED + 1, [MemberId(0, 1, 0)])
    builder.out(1, FORCED + 1, before, "removed")
    assert builder.outcome("verdict") is Outcome.HOLDS
    builder.hand(after, 0, epoch=FORCED)
    assert builder.outcome("verdict") is Outcome.BROKEN


def test_what_is_left_with_one_that_was_removed_just_before_the_group_was_closed_counts_for_nothing() -> None:
    builder = LivingBuilder((0, 1))
    builder.row(Kind.NOTE, 1, reason="retained_at_rest", value=3, bound=0)
    assert builder.outcome("bounds") is Outcome.BROKEN
    builder.change(remove=[1])
    builder.out(0, 1, None, "left")
    assert builder.outcome("bounds") is not Outcome.BROKEN


@pytest.mark.parametrize(("gone", "outcome"), [(True, Outcome.UNKNOWN), (False, Outcome.BROKEN)])
def test_a_group_with_journals_waits_for_one_that_was_forced_out_and_is_gone(gone: bool, outcome: Outcome) -> None:
    """It is a member of their latest view, tells them nothing, and cannot be told: only an operator can remove it."""
    verdict = forced_out(gone=gone).verdict("agreement")
    assert verdict.outcome is outcome
    assert ("waits for process 0, which was forced out of it and is gone" in verdict.sentence) is gone


@pytest.mark.parametrize("forced", [True, False])
def test_what_those_left_out_published_is_lost_where_no_survivor_has_it(forced: bool) -> None:
    """The second was handed it, published after, and lost it in a crash; the third never had it (views 5.10)."""
    builder = orphaned(forced=forced)
    assert ("causal" in builder.broken()) is not forced


@pytest.mark.parametrize("forced", [True, False])
def test_who_an_operator_goes_on_with_need_not_have_the_sequence_of_those_left_out(forced: bool) -> None:
    """What is left of the generation before is handed out as the survivors have it (views 5.10)."""
    assert ("uniform" in ahead(forced=forced).broken()) is not forced


def test_what_a_survivor_was_handed_before_an_operator_went_on_with_it_is_of_the_one_sequence() -> None:
    assert "uniform" in ahead(forced=True, before=True).broken()
    assert "uniform" not in ahead(forced=True, at_once=True).broken()


@pytest.mark.parametrize(("speaks", "outcome"), [(True, Outcome.BROKEN), (False, Outcome.UNKNOWN)])
def test_a_member_that_says_nothing_after_a_restart_had_ended_and_lets_nobody_in(
    speaks: bool, outcome: Outcome
) -> None:
    assert ended_alone(speaks=speaks).outcome("liveness") is outcome


@pytest.mark.parametrize(
    ("how", "outcome"),
    [("", Outcome.BROKEN), ("wrong", Outcome.BROKEN), ("removed", Outcome.UNKNOWN), ("passed", Outcome.UNKNOWN)],
)
def test_a_forced_generation_waits_for_a_member_that_it_names_and_that_had_gone_on_without_it(
    how: str, outcome: Outcome
) -> None:
    assert named_and_gone(how=how).outcome("liveness") is outcome
