"""Causal order of a large run is judged slice by slice, where something came late, and finds what the whole shows."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.check.trace_builder import TraceBuilder
from tests.check.worlds import any_world, causal_world, copy
from tests.pipeline import damage, test_living
from tests.pipeline.damage import damaged, without_traffic
from whence.check.judge import judge
from whence.pipeline import slices
from whence.pipeline.agreed_times import agreed_times
from whence.pipeline.columns import RUN_ID
from whence.pipeline.events import find_input, read_events
from whence.pipeline.frames import F
from whence.pipeline.living import order
from whence.pipeline.living.promise_tables import LivingPromiseTables
from whence.pipeline.local.session import local_session
from whence.pipeline.promise_tables import PromiseTables
from whence.pipeline.promises import causal
from whence.pipeline.session import is_local
from whence.sim.lab import spec_of
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.sim.swarm import draw
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.schema import Kind
from whence.trace.writer import write_trace
from whence.types import EventId
from whence_lab.mutants import mutants_of

SHOWN = (RUN_ID, "promise", "node", "inc", "grp", "evs", "sentence", "rests_on_absence", "doubtful")
SECOND = 1_000_000_000
NODES = 40
"""More than a certificate's pass has running maxima for."""
ASKED = [causal.CAUSAL, causal.OPTIMISTIC]
ON_VIEWS = [order.CAUSAL, order.OPEN, order.INTEGRITY]
WAYS = (
    damage.deliveries_swapped, damage.many_deliveries_swapped, damage.steps_swapped, damage.publications_swapped,
    damage.delivery_never_made, damage.delivered_again, damage.shuffled, damage.clock_of_one_shifted,
    damage.some_without_true_time,
)  # fmt: skip


def traces(count: int) -> dict[str, Trace]:
    """Runs with churn, several publishers, destinations and planted bugs, as they are and damaged in every way."""
    bases: list[tuple[str, Trace]] = []
    for seed in range(max(2, count // 20)):
        for level in ("causal", "optimistic", "fifo"):
            bases += [(f"{level}-{seed}", run(simulation(level, 5, 8, seed, "swarm"), spec_of(level, None)).trace)]
        bases.append((f"world-{seed}", causal_world(seed, 5, 150, partial=seed % 2 == 0)))
        bases.append((f"any-{seed}", any_world(seed, 4, 80)))
        bugs = mutants_of("causal")
        bug = bugs[seed % len(bugs)]
        bases.append(
            (f"bug-{bug.name}-{seed}", run(draw("causal", seed), spec_of("causal", bug.name), keep_crash=True).trace)
        )
    made = {name: without_traffic(trace) for name, trace in bases}
    rng, number = Random(count), 0
    while len(made) < count:
        name, trace = rng.choice(bases)
        worse = damaged(without_traffic(trace), WAYS[number % len(WAYS)], number)
        number += 1
        if worse is not None:
            made[f"{name}-{number}"] = worse
    return made


def rounds(count: int, late: EventId | None = None, *, churn: bool = True) -> Trace:
    """Everybody publishes an event in every round, in either of two groups, and then delivers what all published in it,
    in an order of its own; one member may deliver an event a round late. With churn one leaves, and one joins."""
    groups = {"even": list(range(NODES - 1)), "odd": list(range(NODES - 1))}
    builder = TraceBuilder(range(NODES), groups=groups, level="causal", run_id="rounds")
    here, kept = list(range(NODES - 1)), dict[EventId, str]()
    for number in range(count):
        grp = ("even", "odd")[number % 2]
        published = dict.fromkeys([builder.publish(node, grp=grp, m_seq=number + 1) for node in here])
        sent = {EventId(event.pid, event.incarnation, number + 1): grp for event in published}
        for node in here:
            order = list(sent.items())[node:] + list(sent.items())[:node]
            for event, where in [*order, *(kept.items() if node == 7 else ())]:
                if node != 7 or event != late or event in kept:
                    builder.deliver(node, event, grp=where)
        kept = {event: where for event, where in sent.items() if event == late}
        for kind, when, node in ((Kind.LEAVE, count // 3, 3), (Kind.JOIN, count // 2, NODES - 1)):
            if churn and number == when:
                for each in groups:
                    builder.row(kind, node, grp=each)
                here = sorted({*here} ^ {node})
    return builder.trace


def tables_of(session: Any, directory: Path, *, large: bool) -> PromiseTables:
    given = find_input([directory])
    events = read_events(session, given, dict.fromkeys(given.runs, ASKED))
    on_disk = str(directory / "tables") if large and is_local(session) else None  # where the command keeps large tables
    return PromiseTables(events._replace(is_small=not large, work=on_disk))


def found(session: Any, directory: Path, *, large: bool) -> list[str]:
    """Return the violations of both causal orders, as lines, judged as those of large runs or of small ones."""
    tables = tables_of(session, directory, large=large)
    rows = causal.causal_violations(tables, tables.runs.select(RUN_ID, "promises")).select(*SHOWN).collect()
    return sorted(msgspec.json.encode(tuple(row)).decode() for row in rows)


def spans(session: Any, directory: Path) -> tuple[set[str], list[tuple[int, int]]]:
    """Return which runs are cut into slices, and from when to when each slice of them is judged."""
    tables = tables_of(session, directory, large=True)
    asked = tables.runs.select(RUN_ID, "promises")
    times, agreed = agreed_times(tables, asked.select(RUN_ID))
    runs = asked.filter(F.col(RUN_ID).isin(sorted(agreed - causal._unsure_runs(tables, asked))))
    _, cut = causal.steps_of_slices(tables, runs, times, causal._debts(tables, runs.select(RUN_ID)))
    return {row[RUN_ID] for row in runs.collect()}, [(row["low"], row["high"]) for row in cut.collect()]


def by_own_clocks(trace: Trace) -> Trace:
    """The same without true time, as a live run has it: each process has only its clock, set and running as it will."""
    bare = damage.without_true_time(copy(trace), Random(0))
    assert bare is not None
    return bare


def test_slices_show_the_violations_that_the_whole_run_shows(
    spark: SparkSession, tmp_path: Path, long_mode: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 traces, 500 in long mode, every second one by the processes' own clocks, in slices of a few deliveries, on
    both engines; and `check` counts as many."""
    monkeypatch.setattr(slices, "SLICE_ROWS", 20)
    made = traces(500 if long_mode else 24)
    made = {name: by_own_clocks(trace) if number % 2 else trace for number, (name, trace) in enumerate(made.items())}
    for name, trace in made.items():
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    sliced = found(spark, tmp_path, large=True)
    with local_session() as local:
        assert found(local, tmp_path, large=True) == sliced
        assert found(local, tmp_path, large=False) == sliced
        cut_runs, cut = spans(local, tmp_path)
    assert len(cut_runs) > len(made) / 3
    assert len(cut) > len(cut_runs)
    shown = [tuple(msgspec.json.decode(line)) for line in sliced]
    certain = Counter(row[0] for row in shown if row[1] == causal.CAUSAL and not row[-1])
    seen = Counter(row[0] for row in shown if row[1] == causal.CAUSAL and not any(row[-2:]))
    assert set(certain) & cut_runs
    for name in made:
        (verdict,) = judge(read_trace(tmp_path / f"run_id={name}"), [causal.CAUSAL])
        assert seen[name] <= verdict.count <= certain[name], (name, verdict)


def test_slices_of_groups_on_views_show_what_the_whole_run_shows(
    spark: SparkSession, tmp_path: Path, long_mode: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """79 traces, 604 in long mode, every second one by the processes' own clocks: violations, and what follows what
    joiners know, on both engines."""
    monkeypatch.setattr(slices, "SLICE_ROWS", 10)
    made = test_living.traces(300 if long_mode else 60, seed=2) | test_living.once_apart()
    for number, (name, trace) in enumerate(made.items()):
        here = by_own_clocks(trace) if number % 2 else trace
        here.run.run_id = name
        write_trace(tmp_path, here)
    sliced = closed(spark, tmp_path, large=True)
    with local_session() as local:
        assert closed(local, tmp_path, large=True) == sliced
        assert closed(local, tmp_path, large=False) == sliced
    assert all(sliced)


def closed(session: Any, directory: Path, *, large: bool) -> tuple[list[str], list[str]]:
    """Return what happened-before tells of runs on views, as lines, judged as that of large runs or of small ones."""
    given = find_input([directory])
    events = read_events(session, given, dict.fromkeys(given.runs, ON_VIEWS))
    on_disk = str(directory / "tables") if large and is_local(session) else None
    told = LivingPromiseTables(events._replace(is_small=not large, work=on_disk)).closed
    shown = (told.violations.select(*SHOWN), told.followed)
    lines = [sorted(msgspec.json.encode(tuple(row)).decode() for row in table.collect()) for table in shown]
    return lines[0], lines[1]


def test_clocks_that_begin_anywhere_and_drift_are_put_right(tmp_path: Path) -> None:
    """Ten minutes of events: one clock runs an hour behind and a second too slow, one a day ahead and a second too
    fast. What came late is found all the same, and nothing else is looked at."""
    trace = rounds(12, late=EventId(0, 1, 6), churn=False)
    begin = min(row[4] for row in trace.rows[Kind.PUBLISH])
    length = max(row[4] for rows in trace.rows.values() for row in rows) - begin
    skews = {3: (-3600, -1), 5: (86_400, 1)}
    for kind, rows in trace.rows.items():
        for place, row in enumerate(rows):
            offset, drift = skews.get(row[0], (0, 0))
            passed = (row[4] - begin) * (600 * SECOND) // length
            clock = passed + offset * SECOND + drift * SECOND * passed // (600 * SECOND)
            damage.change(trace, kind, place, t_clk=clock, t_true=None)
    write_trace(tmp_path, trace)
    with local_session() as local:
        _, ((low, high),) = spans(local, tmp_path)
        shown = found(local, tmp_path, large=True)
        assert shown == found(local, tmp_path, large=False)
    assert high - low < 600 * SECOND / 4
    assert shown


def test_where_no_order_is_possible_no_time_agrees(tmp_path: Path) -> None:
    """Two processes each deliver the other's event before they publish what that one had delivered."""
    builder = TraceBuilder(range(2), level="causal", run_id="circle")
    one, other = EventId(0, 1, 1), EventId(1, 1, 1)
    builder.deliver(0, other)
    builder.deliver(1, one)
    builder.publish(0)
    builder.publish(1)
    write_trace(tmp_path, builder.trace)
    with local_session() as local:
        tables = tables_of(local, tmp_path, large=True)
        assert agreed_times(tables, tables.runs.select(RUN_ID))[1] == set()


def test_nothing_is_closed_where_every_event_came_before_any_that_may_follow_it(tmp_path: Path) -> None:
    """Messages take longer than they differ: none comes after one whose publisher had heard of anything as late."""
    write_trace(tmp_path, rounds(12))
    with local_session() as local:
        assert spans(local, tmp_path) == ({"rounds"}, [])
        assert found(local, tmp_path, large=True) == []


def test_one_late_event_sends_only_the_time_it_took_to_full_judgement(tmp_path: Path) -> None:
    trace = rounds(12, late=EventId(0, 1, 6))
    write_trace(tmp_path, trace)
    with local_session() as local:
        _, ((low, high),) = spans(local, tmp_path)
        shown = found(local, tmp_path, large=True)
        assert shown == found(local, tmp_path, large=False)
    took = [row[4] for row in trace.rows[Kind.PUBLISH]]
    assert high - low < (max(took) - min(took)) / 4
    assert {msgspec.json.decode(line)[1] for line in shown} == set(ASKED)
    assert all("event 6 of process 0" in line for line in shown)
