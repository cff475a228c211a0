"""Exploring: many schedules of the levels that are right, none broken; every planted bug and the canary found."""

import pytest

from tests.simulation.hunts import hunted
from whence.check.judge import ORACLES
from whence.check.levels import PROMISES_OF
from whence.check.verdict import Outcome, Verdict
from whence.errors import UsageError
from whence.sim.canary import CANARY
from whence.sim.crash import PROMISE as CRASH
from whence.sim.explore import MUTANT_SCHEDULES_MAX, Batch, Caught, explore, hunt, judged
from whence.sim.lab import spec_of
from whence.sim.swarm import draw
from whence_lab.mutants import MUTANTS, find, mutants_of

pytestmark = pytest.mark.no_cover

LEVELS = ("eventual", "fifo")
PARTS = 5
"""Each level's schedules come in so many tests, so that they can run side by side."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("level", LEVELS)
def test_no_schedule_of_the_swarm_breaks_a_promise(level: str, part: int, long_mode: bool) -> None:
    """300 schedules of each level, 7,500 in long mode; each judged, none broken, no verdict left open."""
    schedules = (7_500 if long_mode else 300) // PARTS
    total = explore(level, schedules, seed=1 + part * schedules, workers=1)
    assert total.broken is None
    assert total.unknown == 0
    assert total.schedules == schedules
    assert total.delivered > total.published > schedules


BUGS = [(level, mutant.name) for level in LEVELS for mutant in mutants_of(level)]


@pytest.mark.parametrize(("level", "name"), BUGS)
def test_a_planted_bug_is_caught_by_the_promise_it_must_break(level: str, name: str, long_mode: bool) -> None:
    """Within 1,000 schedules; and the schedule that shows it shows nothing against the level without the bug."""
    caught = hunted(level, name, long_mode)
    assert caught.caught
    assert caught.seed is not None
    assert 1 <= caught.seed <= MUTANT_SCHEDULES_MAX
    is_valid = {verdict.promise: verdict.outcome for verdict in judged(draw(level, caught.seed))[1]}
    assert is_valid.get(find(level, name).law, Outcome.HOLDS) is Outcome.HOLDS
    assert CRASH not in is_valid


def test_a_hunt_counts_its_schedules_from_the_seed_it_begins_with() -> None:
    law = find("fifo", "mixes_lives").law
    for first in (1, 2):
        caught = hunt("fifo", "mixes_lives", law, seed=first)
        assert caught.seed == caught.schedules + first - 1
    assert hunt("fifo", "mixes_lives", law, seed=first, schedules=0) == Caught(False, 0, law)


def test_the_canary_is_caught_and_its_seed_shows_the_same_again() -> None:
    """A level that is wrong on purpose: an exploration that lets it pass is blind."""
    total = explore(CANARY, 200, seed=1, workers=1)
    assert total.broken is not None
    assert [verdict.promise for verdict in total.broken.verdicts] == ["fifo"]
    assert against(judged(draw(CANARY, total.broken.seed))[1]) == total.broken.verdicts
    assert all(verdict.violations for verdict in total.broken.verdicts)


def test_a_violation_is_reported_by_the_lowest_seed_that_shows_one_on_any_number_of_workers() -> None:
    """So that two people who explore the same seeds speak of the same schedule."""
    found = [explore("fifo", 60, seed=5, workers=workers, mutant="mixes_lives").broken for workers in (1, 2)]
    first = next(seed for seed in range(5, 65) if against(judged(draw("fifo", seed), "mixes_lives")[1]))
    assert [broken.seed if broken is not None else None for broken in found] == [first, first]
    assert found[0] == found[1]


def test_exploring_stops_soon_after_a_violation() -> None:
    assert explore(CANARY, 5_000, seed=1, workers=1).schedules < 100


def test_progress_is_reported_as_it_is_made() -> None:
    seen: list[int] = []
    explore("eventual", 45, seed=1, workers=1, on_progress=lambda so_far: seen.append(so_far.schedules))
    assert seen == sorted(seen)
    assert seen[-1] == 45
    assert len(seen) > 1


def test_counts_of_one_exploration_do_not_leak_into_the_next() -> None:
    first, second = Batch(), Batch()
    first.add(explore("eventual", 3, seed=1, workers=1))
    assert first.effective
    assert not second.effective
    assert not Batch().coverage


def test_what_was_covered_is_counted_once_per_schedule_and_dimension() -> None:
    total = explore("eventual", 20, seed=1, workers=1)
    dimensions = dict.fromkeys(dimension for dimension, _ in total.coverage)
    assert len(dimensions) >= 8
    for dimension in dimensions:
        assert sum(times for (of, _), times in total.coverage.items() if of == dimension) == 20
    assert all(0 < total.kinds[kind] <= 20 and total.kinds[kind] <= times for kind, times in total.effective.items())


def against(verdicts: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome is Outcome.BROKEN]


# --- the lists ---


@pytest.mark.parametrize("level", LEVELS)
def test_bugs_are_named_once_and_break_promises_that_their_level_makes(level: str) -> None:
    bugs = mutants_of(level)
    assert len({bug.name for bug in bugs}) == len(bugs)
    assert all(bug.law in (*PROMISES_OF[level], CRASH) for bug in bugs)


@pytest.mark.parametrize("level", LEVELS)
def test_every_promise_of_a_level_is_broken_by_some_planted_bug(level: str) -> None:
    """A promise that no bug breaks is one whose oracle nobody has seen at work."""
    assert set(PROMISES_OF[level]) == {bug.law for bug in mutants_of(level)} - {CRASH} | UNBROKEN[level]


UNBROKEN: dict[str, set[str]] = {"eventual": {"liveness"}, "fifo": set()}
"""Only an order that waits can be late without losing anything, and `eventual` never waits."""


def test_the_canary_promises_what_fifo_does() -> None:
    assert PROMISES_OF[CANARY] == PROMISES_OF["fifo"]
    assert all(promise in ORACLES for promise in PROMISES_OF[CANARY])


def test_unknown_levels_and_bugs_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="nonesuch"):
        spec_of("nonesuch", None)
    with pytest.raises(UsageError, match="nonesuch"):
        spec_of("fifo", "nonesuch")
    with pytest.raises(UsageError, match="forgets_what_it_saw"):
        spec_of("fifo", "forgets_what_it_saw")
    assert {bug.name for bug in MUTANTS} >= {bug.name for bug in mutants_of("fifo")}
