"""A program that raises in a schedule: found with its seed, told, shrunk, never the end of the search."""

import json
import re
from pathlib import Path

import pytest
from msgspec import structs

from whence.check import fifo
from whence.check.explain import story
from whence.check.history import History
from whence.check.judge import ORACLES
from whence.check.verdict import Outcome, Verdict
from whence.cli.app import run
from whence.cli.explore import breaks_the_same
from whence.sim import run as runs
from whence.sim.crash import PROMISE
from whence.sim.explore import broken_verdicts, explore, hunt, judged
from whence.sim.lab import spec_of
from whence.sim.shrink import size_of
from whence.sim.swarm import draw

pytestmark = pytest.mark.no_cover

LEVEL, BUG = "fifo", "fails_at_a_hole"


def first_crash() -> int:
    caught = hunt(LEVEL, BUG, PROMISE, seed=1)
    assert caught.seed is not None
    return caught.seed


def test_a_member_that_raises_breaks_a_promise_of_its_own_and_is_named() -> None:
    outcome, (verdict,) = judged(draw(LEVEL, first_crash()), BUG)
    assert (verdict.promise, verdict.outcome, verdict.count) == (PROMISE, Outcome.BROKEN, 1)
    crash, (violation,) = outcome.crash, verdict.violations
    assert crash is not None
    assert crash.at_ns is not None
    assert (violation.node, violation.inc) == (crash.node, crash.inc)
    assert re.search(
        r"failed with KeyError: \(.*mutants/orders.py, line \d+, in FailsAtAHole.admit", violation.sentence
    )
    with pytest.raises(KeyError):
        runs.run(draw(LEVEL, first_crash()), spec_of(LEVEL, BUG))


def test_a_crash_is_told_by_what_its_process_did_last() -> None:
    outcome, (verdict,) = judged(draw(LEVEL, first_crash()), BUG)
    *steps, last = story(History(outcome.trace), verdict.violations[0]).steps
    assert steps
    assert {(step.node, step.inc) for step in steps} == {(last.node, last.inc)}
    assert steps[-1].kind == "recv"  # what it failed on
    assert last.wrong
    assert "KeyError" in last.sentence


def test_exploring_ends_at_a_crash_with_the_lowest_seed_that_shows_one() -> None:
    total = explore(LEVEL, 60, seed=1, workers=2, mutant=BUG)
    assert total.broken is not None
    assert total.broken.seed == first_crash()
    assert [verdict.promise for verdict in total.broken.verdicts] == [PROMISE]


def test_a_hunt_goes_on_after_schedules_in_which_the_bug_made_a_member_fail() -> None:
    """Such a schedule once ended the whole hunt with a KeyError and no seed."""
    crashed = first_crash()
    one = hunt(LEVEL, BUG, "no_duplicates", 1, crashed + 2)
    assert one.crashes >= 1
    assert one.crash_seed == crashed
    assert one.schedules == crashed + 2, "it went on"
    assert not one.caught


def test_an_oracle_that_raises_is_found_with_the_schedule_it_failed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(history: History) -> Verdict:
        return fifo.judge(history) if len(history.published) < 0 else ORACLES["nonesuch"](history)

    monkeypatch.setitem(ORACLES, "fifo", fails)
    outcome, (verdict,) = judged(draw(LEVEL, 1))
    assert verdict.promise == PROMISE
    assert "an oracle failed on the trace with KeyError: 'nonesuch'" in verdict.sentence
    assert outcome.crash is not None
    assert outcome.crash.at_ns is None
    assert story(History(outcome.trace), verdict.violations[0]).steps[-1].wrong


def test_a_replay_names_shrinks_tells_and_keeps_a_crash(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:  # fmt: skip
    seed = str(first_crash())
    replay = ["explore", "--level", LEVEL, "--mutant", BUG, "--replay", seed]
    assert run([*replay, "--out", str(tmp_path)]) == 1
    out, _ = capsys.readouterr()
    assert f"seed {seed}, planted bug {BUG}" in out
    size = re.search(r"shrunk to (\d+):", out)
    assert size is not None
    assert 2 * int(size[1]) < size_of(draw(LEVEL, int(seed)))
    assert "(here)" in out
    kept = tmp_path / f"{LEVEL}-{seed}"
    assert {path.name for path in kept.iterdir()} >= {"scenario.json", "crash.svg"}
    assert run([*replay, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdicts"] == {PROMISE: "broken"}


def test_a_schedule_shrinks_only_to_one_that_fails_in_the_same_place() -> None:
    scenario = draw(LEVEL, first_crash())
    outcome, (verdict,) = judged(scenario, BUG)
    assert outcome.crash is not None
    assert breaks_the_same(verdict, outcome, BUG)(scenario)
    elsewhere = structs.replace(
        outcome, crash=structs.replace(outcome.crash, kind="KeyError in core/node.py Node.tick")
    )
    assert not breaks_the_same(verdict, elsewhere, BUG)(scenario)


def test_a_schedule_shrinks_only_to_one_that_breaks_its_promise_in_the_same_way() -> None:
    """Coverage is also broken where so few members are left that nobody can have a ticket."""
    scenario = draw("optimistic", 8)
    outcome, verdicts = judged(scenario, "never_walks", ["ticket_coverage"])
    (broken,) = broken_verdicts(verdicts)
    assert breaks_the_same(broken, outcome, "never_walks")(scenario)
    other = [structs.replace(violation, sentence="process 3 broke it otherwise") for violation in broken.violations]
    assert not breaks_the_same(structs.replace(broken, violations=other), outcome, "never_walks")(scenario)
