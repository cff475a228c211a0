"""Random executions on views: what is right is never accused, and a delivery that is taken away is missed."""

from collections import Counter
from random import Random

import pytest

from tests.check.living.living_worlds import living_world
from tests.check.worlds import copy
from tests.pipeline.damage import damaged
from tests.pipeline.damage_living import begun_again
from whence.check.judge import judge
from whence.check.living.members import Living
from whence.check.verdict import Outcome
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, Kind

WORLDS = [(strict, durable) for strict in (False, True) for durable in (False, True)]


def without(trace: Trace, place: int) -> Trace:
    """Return a trace in which one delivery became a row that says nothing."""
    changed = copy(trace)
    row = changed.rows[Kind.DELIVER].pop(place)
    width = len(COLUMNS_OF[Kind.DROP])
    changed.rows[Kind.DROP].append((*row[:6], *[None] * (width - 6)))
    return changed


@pytest.mark.parametrize(("strict", "durable"), WORLDS)
def test_an_ideal_group_keeps_every_promise(strict: bool, durable: bool, long_mode: bool) -> None:
    seen: Counter[tuple[str, Outcome]] = Counter()
    for seed in range(1000 if long_mode else 60):
        trace = living_world(seed, 80, strict=strict, durable=durable).trace
        for verdict in judge(trace):
            assert verdict.is_fine, (seed, verdict.promise, verdict.sentence)
            seen[verdict.promise, verdict.outcome] += 1
    for promise in {promise for promise, _ in seen} - {"bounds"}:
        assert seen[promise, Outcome.HOLDS] > 20, promise


@pytest.mark.parametrize(("strict", "durable"), WORLDS)
def test_a_delivery_that_is_taken_from_a_member_that_stays_is_missed(strict: bool, durable: bool) -> None:
    for seed in range(60):
        trace = living_world(seed, 60, strict=strict, durable=durable).trace
        living, rng = Living(trace), Random(seed)
        staying = [
            place for place, row in enumerate(trace.rows[Kind.DELIVER]) if living.process_of(row) in living.staying
        ]
        changed = without(trace, rng.choice(staying))
        broken = [verdict.promise for verdict in judge(changed) if verdict.outcome is Outcome.BROKEN]
        assert broken, seed


@pytest.mark.parametrize(("strict", "durable"), WORLDS)
def test_the_order_of_rows_in_the_files_does_not_matter(strict: bool, durable: bool) -> None:
    for seed in range(10):
        trace = living_world(seed, 60, strict=strict, durable=durable).trace
        shuffled = copy(trace)
        for rows in shuffled.rows.values():
            Random(seed).shuffle(rows)
        assert judge(shuffled) == judge(trace)


@pytest.mark.parametrize(("strict", "durable"), WORLDS)
def test_groups_of_one_name_and_generations_are_judged_each_by_itself(strict: bool, durable: bool) -> None:
    """Neither breaks a promise of the other, whatever they do; and founders of the second are founders."""
    for seed in range(20):
        trace = living_world(seed, 60, strict=strict, durable=durable).trace
        again = damaged(trace, begun_again, seed)
        assert again is not None
        broken = [verdict.promise for verdict in judge(again) if verdict.outcome is Outcome.BROKEN]
        assert not broken, (seed, broken)
        living = Living(again)
        founders = {each.pid for each in living.memberships.values() if not living.is_joiner(each.process)}
        assert founders == {each.pid for each in Living(trace).memberships.values() if each.joined == 0}
