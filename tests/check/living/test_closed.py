"""Groups that everybody left by themselves: nobody stays, and they are judged up to the ends of their members."""

import pytest

from tests.check.living.living_builder import LivingBuilder
from whence.check.living.members import Living
from whence.check.verdict import Outcome
from whence.trace.schema import Kind
from whence.types import EventId

HOLDS, BROKEN, UNKNOWN, VACUOUS = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN, Outcome.VACUOUS


def leave(builder: LivingBuilder, pid: int) -> None:
    """Write that a member leaves, and all its events took effect; the last one names the view that it is alone in."""
    own = [row for row in builder.trace.records(Kind.PUBLISH) if row["m_pid"] == pid]
    last = EventId(pid, own[-1]["m_inc"], own[-1]["m_seq"]) if own else None
    alone = builder.members == [pid]
    epoch = builder.epochs[pid] if alone else builder.change(remove=[pid])
    builder.out(pid, epoch, last, reason="left")


def closed(builder: LivingBuilder, *order: int) -> LivingBuilder:
    """Let all members leave, in some order."""
    for pid in order:
        leave(builder, pid)
    return builder


@pytest.mark.parametrize("strict", [False, True])
def test_a_group_that_everybody_left_is_judged(strict: bool) -> None:
    builder = LivingBuilder(strict=strict)
    for pid in (0, 1, 2, 0):
        builder.tell_all(pid)
    told = closed(builder, 2, 0, 1)
    assert told.outcome("agreement") is HOLDS
    assert "at members that stay, and all were made" in told.verdict("agreement").sentence
    assert told.outcome("strict_total") is HOLDS
    assert told.broken() == []


def test_what_the_last_one_lacks_leaves_a_doubt() -> None:
    """Its application need not have taken what the process got."""
    builder = LivingBuilder()
    builder.tell(0, 0, 1)
    told = closed(builder, 0, 1, 2)
    assert told.outcome("agreement") is UNKNOWN
    assert "the member left, and need not have taken" in told.verdict("agreement").sentence


def test_who_left_is_not_owed_the_last_events_of_those_that_left_later() -> None:
    """They go on publishing in the old view until they learn of the next one."""
    builder = LivingBuilder()
    builder.tell_all(0)
    builder.tell(0, 0, 1)  # under way to 2 when that one is out
    assert closed(builder, 2, 1, 0).outcome("agreement") is HOLDS


def test_who_left_is_owed_the_events_of_those_that_left_before_it() -> None:
    builder = LivingBuilder()
    builder.tell(2, 2, 0)
    assert closed(builder, 2, 1, 0).outcome("agreement") is UNKNOWN


def test_sequences_of_those_that_left_are_parts_of_one() -> None:
    builder = LivingBuilder(strict=True)
    events = [builder.tell(0), builder.tell(1)]
    builder.hand(events[0], 0, 1)
    builder.hand(events[1], 0, 1)
    builder.hand(events[1], 2)
    builder.hand(events[0], 2)
    assert closed(builder, 2, 1, 0).outcome("strict_total") is BROKEN


def test_a_group_whose_last_member_crashed_was_not_closed() -> None:
    builder = LivingBuilder([0, 1])
    builder.tell_all(0)
    leave(builder, 0)
    builder.crash(1)
    assert Living(builder.trace).judged == {}
    assert builder.outcome("agreement") is VACUOUS


def test_who_was_removed_does_not_count_in_a_group_that_was_closed() -> None:
    builder = LivingBuilder()
    builder.tell(2, 2)
    epoch = builder.change(remove=[2])
    builder.out(2, epoch, None)
    builder.tell_all(0)
    assert closed(builder, 0, 1).outcome("agreement") is HOLDS
