"""Three oracles, three ways of thinking: the in-process one, Spark (certified and not), and a plain one in these tests.

Traces of all levels, clean, with planted bugs, and damaged by hand in every way of `damage`: equal verdicts and counts,
cell by cell.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from msgspec import structs
from pyspark.sql import SparkSession

from tests.check.worlds import any_world, causal_world, swapped
from tests.pipeline import plain_oracle
from tests.pipeline.damage import (
    WAYS,
    change,
    checksums_lost,
    damaged,
    damaged_in_turn,
    delivered_keys_swapped,
    keys_lost,
    last_number_claimed_twice,
    number_claimed_twice,
    publication_never_told,
    some_without_true_time,
    steps_swapped,
    without_traffic,
)
from tests.pipeline.engines import verify
from whence.check.judge import judge
from whence.check.verdict import Verdict
from whence.pipeline.promise_tables import PROMISES
from whence.sim.lab import spec_of
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.sim.swarm import SWARMS, draw
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.schema import Kind
from whence.trace.writer import write_trace
from whence_lab.mutants import mutants_of

LEVELS = ("eventual", "fifo", "optimistic", "causal", "total", "cbcast", "barriers", "neighbourhood")
ROWS_MAX = 2_500
"""The plain oracle looks at all pairs."""

Cell = tuple[str, int]


def small(trace: Trace) -> bool:
    return trace.count() <= ROWS_MAX


def clean_traces(seed: int) -> Iterator[tuple[str, Trace]]:
    """Runs of every level, calm and under faults, and executions by no protocol at all."""
    for level in LEVELS:
        faults = "swarm" if level in ("eventual", "fifo", "optimistic", "causal", "total") else "none"
        for kind in dict.fromkeys(("none", faults)):
            nodes = 5 if level == "optimistic" else 4
            trace = run(simulation(level, nodes, 8, seed, kind), spec_of(level, None)).trace
            yield f"{level}-{kind}-{seed}", without_traffic(trace)
    yield f"causal-world-{seed}", causal_world(seed, 4, 60, partial=seed % 2 == 0)
    yield f"any-world-{seed}", any_world(seed, 4, 60)


def planted_traces(seed: int, every: int) -> Iterator[tuple[str, Trace]]:
    """Schedules of the swarm with a planted bug, whether it shows there or not."""
    bugs = [(level, bug) for level in SWARMS for bug in mutants_of(level)]
    for number, (level, bug) in enumerate(bugs):
        if number % every == seed % every:
            trace = run(draw(level, seed + number), spec_of(level, bug.name), keep_crash=True).trace
            yield f"planted-{level}-{bug.name}-{seed}", without_traffic(trace)


def traces(count: int, seed: int) -> dict[str, Trace]:
    """A number of small traces: a fifth clean, a fifth planted, the rest damaged in one or two ways, each in turn."""
    made: dict[str, Trace] = {}
    bases: list[tuple[str, Trace]] = []
    while len(made) < count // 5:
        fresh = [each for each in clean_traces(seed) if small(each[1])]
        made |= dict(fresh)
        bases += fresh
        seed += 1
    for name, trace in planted_traces(seed, max(1, 250 // max(1, count // 5))):
        if small(trace) and len(made) < 2 * count // 5:
            made[name] = trace
            bases.append((name, trace))
    rng, number = Random(seed), 0
    while len(made) < count:
        way, (name, trace) = WAYS[number % len(WAYS)], rng.choice(bases)
        number += 1
        worse = damaged(trace, way, number)
        if worse is not None:
            made[f"{name}-{way.__name__}-{number}"] = worse
    return made


def once_apart() -> dict[str, Trace]:
    """Traces of which different or wrong things were said once: a publisher that is handed its own event after one that
    follows it, a publication without a time, keys and checksums that were lost, numbers that two rows claim, an event
    that nobody published where keys are wrong."""
    bases = dict(clean_traces(1))
    changed = [damaged(bases["fifo-none-1"], steps_swapped, seed) for seed in (497, 1)]
    untimed = bases["causal-swarm-1"]
    assert untimed.run.phases is not None
    change(untimed, Kind.PUBLISH, 0, t_true=None)
    untimed.run = structs.replace(untimed.run, phases=structs.replace(untimed.run.phases, deadline_ns=1), digest=None)
    total, causal = bases["total-none-1"], bases["causal-none-1"]
    changed += [damaged(causal, some_without_true_time, seed) for seed in (28, 29)]
    changed += [damaged(total, keys_lost, seed) for seed in range(6)]
    changed += [damaged(causal, checksums_lost, seed) for seed in range(4)]
    changed += [
        damaged(causal, way, seed) for way in (number_claimed_twice, last_number_claimed_twice) for seed in (1, 2)
    ]
    changed.append(damaged_in_turn(total, 100_002, publication_never_told, delivered_keys_swapped))
    return {f"apart-{number}": trace for number, trace in enumerate([*changed, untimed]) if trace is not None}


def cells(verdicts: list[Verdict]) -> dict[str, Cell]:
    return {verdict.promise: (verdict.outcome.value, verdict.count) for verdict in verdicts}


def disagreements(spark: SparkSession, directory: Path, names: list[str]) -> tuple[list[str], Counter[tuple[str, str]]]:
    """Judge every run in four ways; return the cells in which they differ, and which verdicts were seen."""
    promises = list(PROMISES)
    on_spark = {
        certify: {
            judged.run.run_id: cells(judged.verdicts)
            for judged in verify(spark, [directory], promises, certify=certify).runs
        }
        for certify in (False, True)
    }
    wrong: list[str] = []
    seen: Counter[tuple[str, str]] = Counter()
    for name in names:
        at = directory / f"run_id={name}"
        told = {
            "check": cells(judge(read_trace(at), promises)), "verify": on_spark[False][name],
            "certified": on_spark[True][name], "plain": plain_oracle.judge(at),
        }  # fmt: skip
        for promise in promises:
            answers = {who: answer[promise] for who, answer in told.items()}
            seen[promise, answers["check"][0]] += 1
            if len(set(answers.values())) > 1:
                wrong.append(f"{name} {promise}: {answers}")
    return wrong, seen


def test_check_verify_and_a_plain_oracle_say_the_same_of_every_promise(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    """35 traces, 600 and some in long mode, by 13 promises, in four ways."""
    made = traces(600 if long_mode else 12, seed=1) | once_apart()
    for name, trace in made.items():
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    wrong, seen = disagreements(spark, tmp_path, list(made))
    assert not wrong, "\n".join(wrong)
    assert seen["keys", "unknown"] >= 6, "every way to lose keys leaves it open whether they were right"
    if long_mode:  # an agreement on traces that break nothing would be worth nothing
        for promise in plain_oracle.PROMISES:
            assert seen[promise, "broken"], promise
            assert seen[promise, "holds"], promise


def test_every_way_of_damage_can_be_done_to_some_trace() -> None:
    bases = [trace for _, trace in clean_traces(1) if small(trace)]
    for way in WAYS:
        assert any(damaged(trace, way, 1) is not None for trace in bases), way.__name__
    assert len(WAYS) >= 25


def test_the_plain_oracle_shares_no_code_with_the_package() -> None:
    source = Path(plain_oracle.__file__).read_text(encoding="utf-8")
    assert not [line for line in source.splitlines() if "import" in line and "whence" in line]


def test_the_plain_oracle_finds_a_swap_by_itself(tmp_path: Path) -> None:
    """Not every two deliveries that follow each other are cause and effect, but some are."""
    world = causal_world(3, 4, 60)
    told = []
    for number, trace in enumerate([world, *(swapped(world, Random(seed)) for seed in range(20))]):
        write_trace(tmp_path / str(number), trace)
        (run,) = (tmp_path / str(number)).glob("run_id=*")
        told.append(plain_oracle.judge(run)["optimistic_causal"][0])
    assert told[0] == "holds"
    assert "broken" in told[1:]
