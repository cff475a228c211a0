"""A living run on disk, as its reader has it, and the stories of what broke in it."""

from pathlib import Path

from tests.check.living.living_builder import LivingBuilder
from whence.check.explain import NEVER, story
from whence.check.history import History
from whence.check.judge import history_of, judge, judge_history
from whence.check.living.members import Living
from whence.check.verdict import Outcome
from whence.trace.reader import read_trace
from whence.trace.writer import write_trace


def broken_in_many_ways() -> LivingBuilder:
    builder = LivingBuilder([0, 1, 2, 3], strict=True, uniform=True)
    event = builder.tell_all(0)
    builder.receipt("majority", builder.tell(3, 3))
    builder.change(add=[4])
    builder.hand(event, 4)
    lacking = builder.tell(1, 0, 1)
    builder.tell(0, 0, 1, 4)
    builder.hand(lacking, 2)
    builder.out(3, builder.change(remove=[3]), event)
    builder.phases()
    builder.decide(add=[5])
    builder.enter(0)
    builder.publish(2, epoch=0)
    return builder


def test_every_violation_of_a_living_run_can_be_told() -> None:
    builder = broken_in_many_ways()
    history = history_of(builder.trace)
    assert isinstance(history, Living)
    told = 0
    for verdict in judge_history(history):
        for violation in verdict.violations:
            assert story(history, violation).lines()
            told += 1
    assert told > 10


def test_a_process_that_never_got_in_is_told_by_what_happened_to_it_as_a_member() -> None:
    builder = LivingBuilder()
    builder.crash(2)
    builder.restart(2)
    builder.phases()
    history = history_of(builder.trace)
    (verdict,) = judge_history(history, ["liveness"])
    steps = story(history, verdict.violations[0]).steps
    assert [step.kind for step in steps] == ["view", "join", "crash", "restart", NEVER]
    assert steps[0].sentence == "process 2 enters view 0, of 0, 1, 2"


def test_a_history_built_without_knowing_of_views_is_judged_alike() -> None:
    trace = broken_in_many_ways().trace
    assert judge_history(History(trace)) == judge(trace)


def test_a_living_run_is_judged_alike_from_disk(tmp_path: Path) -> None:
    trace = broken_in_many_ways().trace
    written = read_trace(write_trace(tmp_path, trace))
    assert judge(written) == judge(trace)
    assert [verdict.promise for verdict in judge(written) if verdict.outcome is Outcome.BROKEN]
