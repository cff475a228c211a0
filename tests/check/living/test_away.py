"""Members with a journal that closed the group in order and are members still: away, like those that were killed."""

import pytest

from tests.check.living.living_builder import LivingBuilder, away
from whence.check.living.members import Living
from whence.check.verdict import Outcome
from whence.trace.schema import CLOSED, Kind

HOLDS, BROKEN, UNKNOWN, VACUOUS = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN, Outcome.VACUOUS
PROMISES = ("agreement", "receipts", "open", "verdict")


def test_what_is_published_after_a_member_closed_the_group_is_not_owed_to_it() -> None:
    builder = away()
    assert builder.broken() == []
    assert builder.outcome("agreement") is HOLDS
    assert "5 expected deliveries" in builder.verdict("agreement").sentence
    assert builder.outcome("receipts") is HOLDS


def test_what_was_under_way_when_a_member_closed_the_group_leaves_a_doubt() -> None:
    builder = LivingBuilder(durable=True)
    event = builder.tell(0, 0, 1)
    builder.receipt("majority", event)
    for pid in (2, 1, 0):
        builder.close(pid)
    for promise in ("agreement", "receipts"):
        assert builder.outcome(promise) is UNKNOWN, promise
        assert "the member closed the group, and goes on where it was" in builder.verdict(promise).sentence
    assert Living(builder.trace).away == {}, "nobody published after it"


def test_where_rows_have_no_true_time_what_a_closed_member_lacks_leaves_a_doubt() -> None:
    builder = away(timed=False)
    assert builder.broken() == []
    assert builder.outcome("agreement") is UNKNOWN
    assert list(Living(builder.trace).closings) == [(0, 1), (1, 1), (2, 1)]
    assert list(Living(builder.trace).away) == [(1, 1), (2, 1)], "nobody else published after the first"


def test_what_a_member_that_is_up_lacks_is_missed_though_another_is_away() -> None:
    builder = LivingBuilder(durable=True)
    builder.tell_all(0)
    builder.close(2)
    builder.tell(0, 0)
    assert builder.outcome("agreement") is BROKEN


@pytest.mark.parametrize("strict", [False, True])
def test_a_strict_group_waits_for_who_is_away(strict: bool) -> None:
    builder = LivingBuilder(durable=True, strict=strict)
    builder.tell_all(0)
    builder.close(2)
    builder.tell(0, 0)
    assert builder.outcome("agreement") is (UNKNOWN if strict else BROKEN)
    if strict:
        assert "waits for process 2, which closed it" in builder.verdict("agreement").sentence


def test_a_group_whose_voters_closed_it_stands_still() -> None:
    builder = LivingBuilder(durable=True)
    builder.tell_all(0)
    builder.close(1)
    builder.close(2)
    builder.tell(0, 0)
    builder.tell(0)
    assert builder.outcome("agreement") is UNKNOWN
    assert "no quorum of its latest view" in builder.verdict("agreement").sentence


def test_what_a_member_lacks_that_closed_the_group_and_came_back_is_missed() -> None:
    builder = LivingBuilder(durable=True)
    builder.tell_all(0)
    builder.close(2)
    builder.tell(0, 0, 1)
    builder.restart(2)
    builder.live(2)
    assert builder.outcome("agreement") is BROKEN


def test_a_member_without_a_journal_that_closed_the_group_is_none_that_comes_back() -> None:
    builder = LivingBuilder()
    builder.tell_all(0)
    builder.close(2)
    builder.tell(0, 0, 1)
    assert Living(builder.trace).closings == {}
    assert builder.outcome("agreement") is BROKEN


def test_what_a_closed_member_was_handed_is_owed_to_those_that_are_up() -> None:
    builder = LivingBuilder(durable=True)
    builder.tell(0, 0, 2)
    builder.close(2)
    assert builder.outcome("agreement") is BROKEN


def test_what_had_to_have_come_before_a_member_closed_the_group_is_missed() -> None:
    builder = LivingBuilder(durable=True)
    builder.phases(5_000)
    builder.tell(0, 0, 1)
    builder.now += 10_000
    for pid in (2, 1, 0):
        builder.close(pid)
    assert builder.outcome("agreement") is BROKEN
    builder.phases(50_000)
    assert builder.outcome("agreement") is UNKNOWN


@pytest.mark.parametrize("closed_first", [False, True])
def test_what_was_settled_and_a_closed_member_lacks_is_missed(closed_first: bool) -> None:
    """Whoever settled it knew that all members have it."""
    builder = LivingBuilder(durable=True)
    builder.tell_all(0)
    if closed_first:
        builder.close(2)
    event = builder.tell(0, 0, 1)
    builder.receipt("settled", event)
    for pid in (1, 0) if closed_first else (2, 1, 0):
        builder.close(pid)
    assert builder.outcome("receipts") is BROKEN
    assert "closed the group without it" in builder.verdict("receipts").sentence


def test_deliveries_that_were_taken_as_the_group_was_closed_do_not_bring_a_member_back() -> None:
    builder = LivingBuilder(durable=True)
    event = builder.tell(0, 0, 1)
    builder.close(2)
    builder.hand(event, 2)
    builder.tell(0, 0, 1)
    assert builder.outcome("agreement") is HOLDS


def test_who_was_removed_may_have_more_than_those_that_closed_the_group() -> None:
    """They are handed the rest when they are back."""
    builder = LivingBuilder([0, 1], durable=True, strict=True, uniform=True)
    builder.tell_all(0)
    event = builder.tell(1, 1)
    builder.change(remove=[1])
    builder.out(1, 1, event)
    assert builder.outcome("uniform") is BROKEN
    builder.close(0)
    assert builder.outcome("uniform") is UNKNOWN


def test_who_is_away_is_not_expected_to_enter_the_latest_view() -> None:
    builder = LivingBuilder(durable=True)
    builder.phases()
    builder.close(2)
    epoch = builder.decide()
    for pid in (0, 1):
        builder.enter(pid, epoch)
    builder.tell(0, 0, 1)
    builder.phases()
    assert builder.outcome("liveness") is not BROKEN


def test_a_closed_group_is_closed_by_a_row_that_is_no_receipt() -> None:
    builder = away()
    assert [row["reason"] for row in builder.trace.records(Kind.NOTE)].count(CLOSED) == 3
