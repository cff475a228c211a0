"""A large run with a little trouble is judged on the neighbourhood of the trouble, and the verdicts are the same."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from tests.check.worlds import causal_world, swapped
from tests.pipeline import damage
from tests.pipeline.damage import damaged, without_traffic
from tests.pipeline.engines import verify
from whence.check.judge import judge
from whence.pipeline.certificate import PROVABLE, certified
from whence.pipeline.events import find_input, read_events
from whence.pipeline.neighbourhood import can_be_judged_nearby, nearby_events
from whence.sim.lab import spec_of
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.writer import write_trace

WAYS = (
    damage.deliveries_swapped, damage.many_deliveries_swapped, damage.steps_swapped, damage.publications_swapped,
    damage.delivery_never_made, damage.delivered_again, damage.checksum_altered, damage.delivered_what_nobody_published,
    damage.shuffled, damage.published_keys_swapped, damage.keys_swapped_everywhere, damage.one_key_for_two,
    damage.delivered_keys_swapped, damage.clock_of_one_shifted, damage.checksums_lost,
)  # fmt: skip


def quiet_traces(seed: int) -> Iterator[tuple[str, Trace]]:
    """Runs without faults, some of which gave everybody everything."""
    yield f"world-{seed}", causal_world(seed, 4, 120)
    for level in ("causal", "total", "fifo"):
        trace = run(simulation(level, 4, 8, seed, "none"), spec_of(level, None)).trace
        yield f"{level}-{seed}", without_traffic(trace)


def troubled_traces(count: int) -> dict[str, Trace]:
    """Every way of trouble in turn, and two in one run."""
    made: dict[str, Trace] = {}
    rng = Random(count)
    bases = [each for seed in range(max(1, count // 40)) for each in quiet_traces(seed)]
    number = 0
    while len(made) < count:
        name, trace = rng.choice(bases)
        worse = damaged(trace, WAYS[number % len(WAYS)], number)
        if worse is not None and number % 3 == 0:
            worse = damaged(worse, rng.choice(WAYS), number) or worse
        if worse is not None:
            made[f"{name}-{number}"] = worse
        number += 1
    return made


def test_the_neighbourhood_of_trouble_tells_the_same_as_the_whole_run(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    """30 traces, 600 in long mode; sentences of broken promises may show other witnesses, numbers are the same."""
    made = troubled_traces(600 if long_mode else 30)
    for name, trace in made.items():
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    promises = list(PROVABLE)
    wrong = []
    for judged in verify(spark, [tmp_path], promises, certify=True).runs:
        told = {
            verdict.promise: verdict
            for verdict in judge(read_trace(tmp_path / f"run_id={judged.run.run_id}"), promises)
        }
        for verdict in judged.verdicts:
            expected = told[verdict.promise]
            if (verdict.outcome, verdict.count) != (expected.outcome, expected.count):
                wrong.append(f"{judged.run.run_id} {verdict.promise}: check {expected}, verify {verdict}")
    assert not wrong, "\n".join(wrong)


def _with_one_violation() -> Trace:
    """Not every two deliveries that follow each other are cause and effect, but some are."""
    traces = (swapped(causal_world(2, 4, 800), Random(seed)) for seed in range(50))
    return next(trace for trace in traces if judge(trace, ["causal"])[0].count)


def test_one_swap_sends_only_a_few_events_to_full_judgement(spark: SparkSession, tmp_path: Path) -> None:
    trace = _with_one_violation()
    write_trace(tmp_path, trace)
    found = find_input([tmp_path])
    wanted = {trace.run.run_id: ["causal", "integrity"]}
    events = read_events(spark, found, wanted)
    walked = certified(events, wanted)
    (seen,) = walked.seen.values()
    assert can_be_judged_nearby("causal", seen)
    assert "causal" not in walked.verdicts[trace.run.run_id]
    near = nearby_events(events, walked, {trace.run.run_id: ["causal"]})
    assert 0 < near.count() < events.events.count() / 10
