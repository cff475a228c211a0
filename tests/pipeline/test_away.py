"""Groups that members closed and stayed in: `check`, and `verify` on both engines, say the same of each promise."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.check.living import test_away as by_hand
from tests.check.living.living_builder import watched
from tests.check.living.living_worlds import living_world
from tests.pipeline.damage import damaged
from tests.pipeline.damage_living import receipt_altered, run_promises_more_or_less, some_close_the_group
from tests.pipeline.test_living import disagreements
from whence.trace.memory import Phases, Trace
from whence.trace.writer import write_trace


def told_by_hand() -> list[Trace]:
    """The traces of the tests of `check`."""
    with watched() as made:
        for name, test in vars(by_hand).items():
            if name.startswith("test_"):
                marks = getattr(test, "pytestmark", [])
                for given in marks[0].args[1] if marks else [None]:
                    test(given) if marks else test()
    return [builder.trace for builder in made]


def drawn(seed: int) -> list[Trace]:
    """Traces of an ideal group that some closed: as they are, damaged further, and with a deadline."""
    found: list[Trace] = []
    for strict in (False, True):
        trace = damaged(living_world(seed, 50, strict=strict, durable=True).trace, some_close_the_group, seed)
        if trace is None:
            continue
        found.append(trace)
        for way in (receipt_altered, run_promises_more_or_less):
            worse = damaged(trace, way, seed)
            found += [worse] if worse is not None else []
        timed = damaged(trace, some_close_the_group, seed + 1)
        if timed is not None:
            timed.run.phases = Phases(heal_at=0, live_from=0, live_until=10**15, deadline_ns=20_000)
            found.append(timed)
    return found


def test_check_and_verify_say_the_same_of_groups_that_some_closed(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    made = [*told_by_hand(), *(trace for seed in range(60 if long_mode else 2) for trace in drawn(seed))]
    names = [f"closed-{number}" for number in range(len(made))]
    for name, trace in zip(names, made, strict=True):
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    wrong, seen = disagreements(spark, tmp_path, names)
    assert not wrong, "\n".join(wrong)
    for promise in ("agreement", "receipts"):
        for outcome in ("broken", "holds", "unknown"):
            assert seen[promise, outcome], (promise, outcome)
