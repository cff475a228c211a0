"""One sequence: strict groups, what joiners have of it, and what those who did not stay were handed."""

from typing import Any

import pytest

from tests.check.living.living_builder import LivingBuilder
from whence.check.verdict import Outcome
from whence.types import EventId

HOLDS, BROKEN, UNKNOWN, VACUOUS = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN, Outcome.VACUOUS


def strict(*sequences: tuple[int, tuple[int, ...]], joiner: bool = False, **parameters: Any) -> LivingBuilder:
    """Three founders, and process 3 if it is a joiner; four events of process 0, 1, 0, 1; who was handed which."""
    builder = LivingBuilder(strict=True, **parameters)
    if joiner:
        builder.change(add=[3])
    events: list[EventId] = [builder.tell(place % 2) for place in range(4)]
    for pid, places in sequences:
        for place in places:
            builder.hand(events[place], pid)
    return builder


ALL = (0, 1, 2, 3)
FOUNDERS = ((0, ALL), (1, ALL), (2, ALL))


def test_all_who_stay_have_one_sequence() -> None:
    assert strict(*FOUNDERS).outcome("strict_total") is HOLDS
    assert strict((0, ALL), (1, ALL), (2, (0, 1))).outcome("strict_total") is HOLDS  # how far it came is not order


def test_two_who_were_handed_too_little_prove_nothing() -> None:
    assert strict((0, (0,)), (1, (0,))).outcome("strict_total") is VACUOUS


def test_two_events_the_other_way_round_break_the_sequence() -> None:
    """Traps T30 and T31: a promise that counts too early, or is forgotten in a crash."""
    verdict = strict((0, ALL), (1, ALL), (2, (0, 1, 3, 2))).verdict("strict_total")
    assert "the other way round" in verdict.sentence


def test_an_event_that_one_member_went_on_without_breaks_the_sequence() -> None:
    """Trap T29: a member no longer waits for the frozen one, whose event is within the cut."""
    for lacking in ((0, 1, 3), (1, 2, 3)):
        verdict = strict((0, ALL), (1, ALL), (2, lacking)).verdict("strict_total")
        assert verdict.outcome is BROKEN
        assert {(violation.node, "went on without" in violation.sentence) for violation in verdict.violations} == {
            (2, True)
        }


def test_removed_members_may_lack_events_but_never_turn_two_round() -> None:
    for handed, expected in (((0, 1, 3), HOLDS), ((1, 0), BROKEN)):
        builder = strict((0, ALL), (1, ALL), (2, handed))
        builder.change(remove=[2])
        assert builder.outcome("strict_total") is expected


def test_a_joiner_has_a_suffix_of_the_sequence() -> None:
    """Traps T32 and T33: it starts too low, and lacks something in between."""
    for handed, expected in ((ALL, HOLDS), ((2, 3), HOLDS), ((1, 2), HOLDS), ((1, 3), BROKEN), ((0, 2, 3), BROKEN)):
        builder = strict(*FOUNDERS, (3, handed), joiner=True)
        assert builder.outcome("strict_total") is expected


def test_two_joiners_are_compared_from_where_the_later_one_began() -> None:
    for late, expected in (((2, 3), HOLDS), ((3,), VACUOUS), ((1, 3), BROKEN)):
        builder = LivingBuilder([0], strict=True)
        builder.change(add=[1])
        builder.change(add=[2])
        builder.change(remove=[0])
        events = [builder.tell(1) for _ in range(4)]
        for pid, places in ((1, (1, 2, 3)), (2, late)):
            for place in places:
                builder.hand(events[place], pid)
        assert builder.outcome("strict_total") is expected


def test_a_joiner_is_owed_everything_after_its_first_event_and_nothing_before() -> None:
    for handed, expected in (((2, 3), HOLDS), ((2,), BROKEN)):
        builder = strict(*FOUNDERS, (3, handed), joiner=True)
        assert builder.outcome("agreement") is expected
        assert builder.outcome("causal") is HOLDS


def test_receipts_and_verdicts_ask_nothing_of_a_joiner_before_its_first_event() -> None:
    builder = LivingBuilder([0, 1, 2, 4], strict=True)
    builder.change(add=[3])
    early = builder.tell(4, 0, 1, 2, 4)
    builder.receipt("majority", early)
    builder.out(4, builder.change(remove=[4]), early)
    builder.tell_all(0)
    assert builder.outcome("receipts") is HOLDS
    assert builder.outcome("verdict") is HOLDS


# --- uniform ---


@pytest.mark.parametrize(
    ("handed", "expected"),
    [((0, 1), HOLDS), (ALL, HOLDS), ((0, 2), BROKEN), ((1,), BROKEN)],
)
def test_a_founder_that_died_was_handed_a_prefix(handed: tuple[int, ...], expected: Outcome) -> None:
    builder = strict((0, ALL), (1, ALL), (2, handed), uniform=True)
    builder.crash(2)
    builder.change(remove=[2])
    assert builder.outcome("uniform") is expected
    assert builder.outcome("strict_total") is HOLDS


def test_who_died_was_handed_nothing_that_those_who_stay_never_were() -> None:
    """Trap T25, the uniform side of it: what it was handed died with it."""
    builder = strict((0, (0, 1)), (1, (0, 1)), (2, (0, 1, 2)), uniform=True)
    builder.crash(2)
    builder.change(remove=[2])
    assert "nobody who stays ever was" in builder.verdict("uniform").sentence
    builder.trace.run.parameters["agreement"] = None
    assert builder.outcome("uniform") is UNKNOWN  # it may still come


def test_a_joiner_that_died_was_handed_a_part_without_holes() -> None:
    for handed, expected in (((1, 2), HOLDS), ((1, 3), BROKEN)):
        builder = strict(*FOUNDERS, (3, handed), joiner=True, uniform=True)
        builder.crash(3)
        builder.change(remove=[3])
        assert builder.outcome("uniform") is expected


def test_where_no_founder_stays_only_what_comes_after_the_beginning_counts() -> None:
    for handed, expected in (((0, 1, 2), HOLDS), ((0, 2), BROKEN), ((0,), VACUOUS)):
        builder = LivingBuilder([0], strict=True, uniform=True)
        builder.change(add=[1])
        events = [builder.tell(0) for _ in range(4)]
        for pid, places in ((0, handed), (1, (1, 2, 3))):
            for place in places:
                builder.hand(events[place], pid)
        builder.crash(0)
        builder.change(remove=[0])
        assert builder.outcome("uniform") is expected


def test_uniform_is_promised_only_where_it_is_set() -> None:
    builder = strict((0, ALL), (1, ALL), (2, (1,)))
    builder.crash(2)
    builder.change(remove=[2])
    assert builder.outcome("uniform") is VACUOUS
    assert builder.broken() == []
