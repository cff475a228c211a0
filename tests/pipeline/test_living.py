"""Two oracles of living groups, two ways of thinking: `check`, and `verify` on both engines, say the same of each cell.

Executions of an ideal group, simulated ones, clean and with planted bugs, and all of them damaged by hand in every way
of `damage` and `damage_living`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from tests.check.living.living_builder import (
    LivingBuilder,
    ahead,
    closed_without,
    decided_alone,
    ended_alone,
    forced_out,
    named_and_gone,
    only_known_outside,
    orphaned,
)
from tests.check.living.living_worlds import living_world
from tests.check.living.test_events import builder_with_dead_voters
from tests.check.worlds import causal_world
from tests.pipeline.damage import damaged, damaged_in_turn, rows_shipped_twice, without_traffic
from tests.pipeline.damage_living import (
    ALL_WAYS,
    begun_again,
    everybody_leaves,
    forced_by_an_operator,
    published_in_another_view,
    shift_epochs,
    view_of_another_epoch,
    voters_altered,
)
from tests.pipeline.engines import verify, write_report
from tests.pipeline.test_agreement import cells
from whence.check.judge import judge
from whence.check.levels import LIVING, STRICT
from whence.check.living.members import MemberId
from whence.check.verdict import Outcome
from whence.epochs import NUMBER_BITS, first_epoch, forced_epoch
from whence.pipeline.events import find_input
from whence.pipeline.metrics import measures, run_metrics
from whence.pipeline.verify import ALL_PROMISES
from whence.sim.lab import spec_of
from whence.sim.run import run
from whence.sim.swarm import draw
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.writer import write_trace
from whence_lab.mutants import mutants_of

LEVELS = ("causal-living", "total-strict")


def ideal_traces(seed: int) -> Iterator[tuple[str, Trace]]:
    for strict in (False, True):
        for durable in (False, True):
            yield f"ideal-{strict:d}{durable:d}-{seed}", living_world(seed, 50, strict=strict, durable=durable).trace


def simulated_traces(seed: int) -> Iterator[tuple[str, Trace]]:
    for level in LEVELS:
        trace = run(draw(level, seed), spec_of(level, None), keep_crash=True).trace
        yield f"{level}-{seed}", without_traffic(trace)


def planted_traces(seed: int, every: int) -> Iterator[tuple[str, Trace]]:
    """Schedules of the swarm with a planted bug, whether it shows there or not."""
    bugs = [(level, bug) for level in LEVELS for bug in mutants_of(level)]
    for number, (level, bug) in enumerate(bugs):
        if number % every == seed % every:
            trace = run(draw(level, seed + number), spec_of(level, bug.name), keep_crash=True).trace
            yield f"planted-{level}-{bug.name}-{seed}", without_traffic(trace)


def traces(count: int, seed: int) -> dict[str, Trace]:
    """A number of traces: a quarter as they are, some with planted bugs, the rest damaged in every way in turn."""
    made: dict[str, Trace] = {}
    for offset in range(max(1, count // 24)):
        made |= dict(ideal_traces(seed + offset)) | dict(simulated_traces(seed + offset))
    for number in range(max(1, count // 300)):
        made |= dict(planted_traces(seed + number, max(1, 600 // count)))
    made |= {f"forced-{gone:d}": forced_out(gone=gone).trace for gone in (False, True)}
    made |= {"closed": closed_without(1).trace}
    made |= {f"ahead-{forced:d}": ahead(forced=forced).trace for forced in (False, True)}
    made |= {"ahead-before": ahead(forced=True, before=True).trace}
    made |= {"ahead-at-once": ahead(forced=True, at_once=True).trace}
    made |= {f"alone-{heard:d}": decided_alone(heard=heard).trace for heard in (False, True)}
    made |= {f"outside-{told:d}": only_known_outside(told=told).trace for told in (False, True)}
    made |= {f"ended-{speaks:d}": ended_alone(speaks=speaks).trace for speaks in (False, True)}
    made |= {f"gone-{how}": named_and_gone(how=how).trace for how in ("", "wrong", "removed", "passed")}
    made |= {f"orphaned-{forced:d}": orphaned(forced=forced).trace for forced in (False, True)}
    bases, rng, number = list(made.items()), Random(seed), 0
    while len(made) < count:
        way, (name, trace) = ALL_WAYS[number % len(ALL_WAYS)], rng.choice(bases)
        number += 1
        worse = damaged(trace, way, number)
        if worse is not None:
            made[f"{name}-{way.__name__}-{number}"] = worse
    return made | twice_damaged(bases, count // 4, rng)


def twice_damaged(bases: list[tuple[str, Trace]], count: int, rng: Random) -> dict[str, Trace]:
    """Traces damaged in two ways, every second one by force in the end: a generation that the rest does not fit."""
    made: dict[str, Trace] = {}
    number = 0
    while len(made) < count:
        number += 1
        name, trace = rng.choice(bases)
        ways = (rng.choice(ALL_WAYS), forced_by_an_operator if number % 2 else rng.choice(ALL_WAYS))
        worse = damaged_in_turn(trace, number, *ways)
        if worse is not None:
            made[f"{name}-{ways[0].__name__}-{ways[1].__name__}-{number}"] = worse
    return made


def once_apart() -> dict[str, Trace]:
    """Traces of which different things were said once: an event and its deliveries in different generations, latest
    views that are not the same to all, and a view that says of its voters only once that there are none."""
    apart = [
        damaged_in_turn(forced_out(gone=False).trace, 100_030, published_in_another_view, forced_by_an_operator),
        damaged_in_turn(orphaned(forced=True).trace, 100_176, published_in_another_view, rows_shipped_twice),
        damaged_in_turn(orphaned(forced=False).trace, 100_245, begun_again, voters_altered),
    ]
    alone = damaged(decided_alone(heard=False).trace, view_of_another_epoch, 8)
    if alone is not None:
        apart.append(damaged_in_turn(alone, 100_147, begun_again, forced_by_an_operator))
    assert None not in apart
    return {f"apart-{number}": trace for number, trace in enumerate(apart) if trace is not None}


def disagreements(spark: SparkSession, directory: Path, names: list[str]) -> tuple[list[str], Counter[tuple[str, str]]]:
    """Judge every run in both ways; return the cells in which they differ, and which verdicts were seen."""
    promises = list(ALL_PROMISES)
    on_spark = {judged.run.run_id: cells(judged.verdicts) for judged in verify(spark, [directory], promises).runs}
    wrong: list[str] = []
    seen: Counter[tuple[str, str]] = Counter()
    for name in names:
        told = cells(judge(read_trace(directory / f"run_id={name}"), promises))
        for promise in promises:
            seen[promise, told[promise][0]] += 1
            if told[promise] != on_spark[name][promise]:
                wrong.append(f"{name} {promise}: check {told[promise]}, verify {on_spark[name][promise]}")
    return wrong, seen


def test_check_and_verify_say_the_same_of_every_promise_of_living_groups(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    """79 traces, 1,504 in long mode, by 19 promises."""
    made = traces(1200 if long_mode else 60, seed=1) | once_apart()
    for name, trace in made.items():
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    wrong, seen = disagreements(spark, tmp_path, list(made))
    assert not wrong, "\n".join(wrong)
    if long_mode:  # an agreement on traces that break nothing would be worth nothing
        for promise in (*LIVING, *STRICT):
            assert seen[promise, "broken"], promise
            assert seen[promise, "holds"], promise


def test_every_way_of_damage_can_be_done_to_some_living_trace() -> None:
    bases = [trace for _, trace in (*ideal_traces(2), *simulated_traces(2))]
    done = [way for way in ALL_WAYS if any(damaged(trace, way, 1) is not None for trace in bases)]
    assert len(done) >= 40


def test_a_group_that_everybody_left_is_judged_up_to_its_end(spark: SparkSession, tmp_path: Path) -> None:
    """Nobody stays, and still something was promised: what the last one lacks would show."""
    trace = damaged(living_world(1, 60, strict=True, durable=False).trace, everybody_leaves, 1)
    assert trace is not None
    write_trace(tmp_path, trace)
    (judged,) = verify(spark, [tmp_path]).runs
    told = {verdict.promise: verdict.outcome for verdict in judged.verdicts}
    assert told["agreement"] is Outcome.HOLDS
    assert told["strict_total"] is Outcome.HOLDS


def test_verify_names_views_by_their_numbers_as_check_does(spark: SparkSession, tmp_path: Path) -> None:
    """An epoch is a large number that nobody knows the view by: it says which group and which generation it is of."""
    generation = forced_epoch(first_epoch(99), 7) >> NUMBER_BITS << NUMBER_BITS
    builders = {"blocked": builder_with_dead_voters(), "wrong": gone_back()}
    for name, builder in builders.items():
        builder.trace.run.run_id = name
        shift_epochs(builder.trace, lambda epoch: epoch + generation)
        write_trace(tmp_path, builder.trace)
    said = {
        judged.run.run_id: "; ".join(
            [
                verdict.sentence + "; ".join(found.sentence for found in verdict.violations)
                for verdict in judged.verdicts
            ]
        )
        for judged in verify(spark, [tmp_path]).runs
    }
    blocked = "no quorum of its latest view, 1 of generation 1, is up"
    assert blocked in said["blocked"]
    assert blocked in builders["blocked"].verdict("agreement").sentence
    assert "went back from view 1 of generation 1 to view 0 of generation 1" in said["wrong"]
    assert not re.search(r"[0-9]{8}", "".join(said.values()))


def gone_back() -> LivingBuilder:
    """A member enters views back and forth, and publishes and is out where it is not."""
    builder = LivingBuilder()
    builder.change(add=[3])
    builder.enter(1, 0)
    builder.enter(1, 0, [MemberId(0, 1, 0), MemberId(5, 1, 5)])
    builder.tell(1, 3)
    builder.out(2, 1, None)
    builder.phases()
    return builder


def test_runs_on_views_and_others_are_judged_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    """Each by its own promises; what only the other kind promises is vacuous, and says so."""
    builder = LivingBuilder()
    builder.tell_all(0)
    builder.trace.run.run_id = "on-views"
    write_trace(tmp_path, builder.trace)
    write_trace(tmp_path, causal_world(1, 3, 20))
    told = {judged.run.run_id: judged.verdicts for judged in verify(spark, [tmp_path], ["open", "keys", "causal"]).runs}
    (other,) = set(told) - {"on-views"}
    assert told["on-views"][1].sentence == "groups on views do not promise it"
    assert told[other][0].sentence == "only groups on views promise it"
    assert {verdict.outcome for verdict in (told["on-views"][1], told[other][0])} == {Outcome.VACUOUS}


def test_what_a_group_on_views_loses_is_measured_against_its_views(spark: SparkSession, tmp_path: Path) -> None:
    builder = LivingBuilder()
    builder.tell_all(0)
    builder.change(add=[3])
    builder.tell_all(1)
    builder.tell(2, 0, 1, 2)  # and never to 3, which is in its view
    write_trace(tmp_path, builder.trace)
    with measures(spark, find_input([tmp_path])) as tables:
        (row,) = run_metrics(tables).collect()
    assert (row["deliveries_expected"], row["owed_delivered"], row["views"]) == (3 + 4 + 4, 10, 2)


def test_the_report_judges_groups_on_views_too(spark: SparkSession, tmp_path: Path) -> None:
    builder = LivingBuilder()
    builder.tell(0, 0, 1)
    write_trace(tmp_path / "traces", builder.trace)
    told = {verdict.promise: verdict.outcome for verdict in judge(builder.trace)}
    judged = write_report(spark, [tmp_path / "traces"], tmp_path / "report.html")
    assert {verdict.promise: verdict.outcome for verdict in judged.runs[0].verdicts} == told
    assert "one_chain" in (tmp_path / "report.html").read_text(encoding="utf-8")
