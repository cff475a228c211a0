"""Liveness over views: after healing, who wants to be a member is one, and what is published arrives in time."""

from typing import Any

from tests.check.living.living_builder import LivingBuilder
from whence.check.verdict import Outcome
from whence.trace.schema import Kind

HOLDS, BROKEN, UNKNOWN, VACUOUS = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN, Outcome.VACUOUS


def healed(**parameters: Any) -> LivingBuilder:
    """Process 3 died and was removed, 4 joined; then the faults stop."""
    builder = LivingBuilder([0, 1, 2, 3], **parameters)
    builder.tell_all(3)
    builder.crash(3)
    builder.change(add=[4], remove=[3])
    builder.phases(deadline_ns=20_000)
    return builder


def test_a_healed_group_delivers_and_has_everybody_in() -> None:
    builder = healed()
    builder.tell_all(4)
    builder.tell_all(0)
    verdict = builder.verdict("liveness")
    assert verdict.outcome is HOLDS
    assert verdict.sentence.startswith("4 processes that wanted to be members are, and 8 expected deliveries came")


def test_what_never_comes_or_comes_late_breaks_liveness() -> None:
    """Trap T28: a removed member still counts in the frontier, and nothing is handed out any more."""
    never, late = healed(), healed()
    never.tell(0, 0, 1, 2)
    assert "process 4 delivered event 1 of process 0 never" in never.verdict("liveness").sentence
    event = late.tell(0, 0, 1, 2)
    late.now += 30_000
    late.hand(event, 4)
    assert "process 4 delivered event 1 of process 0 only 0.0 ms after it was due" in late.verdict("liveness").sentence
    assert late.outcome("agreement") is HOLDS


def test_a_process_that_comes_back_without_a_journal_gets_in_again() -> None:
    """Trap T13 makes a joiner wait for ever; so does any change that does not end."""
    for gets_in, expected in ((True, HOLDS), (False, BROKEN)):
        builder = LivingBuilder()
        builder.crash(2)
        builder.restart(2)
        if gets_in:
            builder.change(add=[2])
        builder.phases()
        builder.tell_all(0)
        assert builder.outcome("liveness") is expected
    assert "process 2 in its incarnation 2 wanted to be a member" in builder.verdict("liveness").sentence


def test_a_joiner_must_become_live() -> None:
    builder = LivingBuilder()
    builder.decide(add=[3])
    for pid in (0, 1, 2, 3):
        builder.enter(pid)
    builder.phases()
    assert "is in the latest view and never became live" in builder.verdict("liveness").sentence
    builder.live(3)
    assert builder.outcome("liveness") is HOLDS


def test_everybody_enters_the_latest_view_in_the_end() -> None:
    """Trap T37: a view is decided, and those who need to know it never do."""
    builder = LivingBuilder()
    builder.decide(remove=[2])
    builder.enter(0)
    builder.out(2, 1, None)
    builder.phases()
    assert "process 1 never entered view 1, the latest; its last one is view 0" in builder.verdict("liveness").sentence
    builder.enter(1)
    assert builder.outcome("liveness") is HOLDS


def test_who_was_removed_for_good_or_left_owes_nothing() -> None:
    builder = healed()
    builder.out(2, builder.change(remove=[2]), None, reason="left")
    builder.crash(2)
    builder.restart(2)
    builder.tell_all(0)
    assert builder.outcome("liveness") is HOLDS


def test_who_was_removed_while_alive_and_does_not_know_it_is_not_at_rest() -> None:
    builder = LivingBuilder()
    builder.change(remove=[2])
    builder.phases()
    builder.tell_all(0)
    assert "process 2 wanted to be a member and is not in the latest view" in builder.verdict("liveness").sentence


def test_a_process_that_asks_after_healing_is_given_time() -> None:
    builder = healed()
    builder.row(Kind.NOTE, 7, reason="stored")
    builder.tell_all(0)
    assert builder.outcome("liveness") is HOLDS


def test_a_blocked_group_is_not_accused_and_a_minority_that_is_down_is_no_excuse() -> None:
    for dead, expected in (([2], BROKEN), ([1, 2], UNKNOWN)):
        builder = LivingBuilder()
        builder.row(Kind.NOTE, 3, reason="stored")  # it asks, and nobody lets it in
        for pid in dead:
            builder.crash(pid)
        builder.phases()
        assert builder.outcome("liveness") is expected


def test_a_strict_joiner_is_owed_what_is_published_once_it_is_live() -> None:
    for is_live, expected in ((True, BROKEN), (False, HOLDS)):
        builder = LivingBuilder(strict=True)
        builder.phases()
        builder.decide(add=[3])
        for pid in (0, 1, 2, 3):
            builder.enter(pid)
        if is_live:
            builder.live(3)
        builder.tell(0, 0, 1, 2)
        builder.tell_all(0)
        if not is_live:
            builder.live(3)
        assert builder.outcome("liveness") is expected


def test_without_phases_or_true_time_nobody_can_say() -> None:
    builder = LivingBuilder()
    builder.tell_all(0)
    assert builder.outcome("liveness") is UNKNOWN
    builder.phases()
    builder.tell_all(0, t_true=None)
    assert builder.outcome("liveness") is UNKNOWN


def test_a_process_of_which_nobody_knows_wanted_to_be_a_member() -> None:
    """Where there is one group, whoever is up wants to be in it."""
    builder = LivingBuilder()
    builder.row(Kind.SEND, 9, peer=0)
    builder.phases()
    assert "process 9 wanted to be a member and never was one" in builder.verdict("liveness").sentence


def test_with_journals_a_strict_group_and_joiners_wait_for_a_member_that_is_down() -> None:
    for durable, strict, expected in ((True, True, UNKNOWN), (True, False, BROKEN), (False, True, BROKEN)):
        builder = LivingBuilder([0, 1, 2, 3], durable=durable, strict=strict)
        builder.crash(3)
        builder.phases()
        builder.tell(0, 0, 1)
        assert builder.outcome("liveness") is expected
        assert builder.outcome("agreement") is expected
    waiting = LivingBuilder(durable=True)
    waiting.decide(add=[3])
    for pid in (0, 1, 3):
        waiting.enter(pid)
    waiting.crash(2)
    waiting.phases()
    assert "waits for process 2, which is down" in waiting.verdict("liveness").sentence


def test_a_member_that_becomes_live_late_is_given_the_deadline_from_then_on() -> None:
    builder = LivingBuilder()
    builder.phases(deadline_ns=20_000)
    builder.decide(add=[3])
    for pid in (0, 1, 2, 3):
        builder.enter(pid)
    event = builder.tell(0, 0, 1, 2)
    builder.now += 50_000
    builder.live(3)
    builder.hand(event, 3)
    assert builder.outcome("liveness") is HOLDS
