"""Causal order, strict and optimistic: judged on happened-before that is rebuilt here, one run at a time, or of a large
run one slice of time at a time, and only where something came late (`slices`).

Strict: when a process delivers an event, it has delivered everything that event follows and that is meant for it.
Optimistic: it never delivers an event after one that follows it; what is skipped is skipped for good. Per delivery one
look at the vector of its event's past: everything in it is counted off once, so that a process costs its deliveries
times the publishers, plus the events it lacks.

To deliver an effect and later its cause is wrong in both, whatever the memberships were. Where rows have no true time,
causes that never came and may have been meant for a process leave a doubt.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from whence.check.verdict import what, who
from whence.pipeline.agreed_times import agreed_times
from whence.pipeline.closure import Closure, Process, Step
from whence.pipeline.columns import (
    AFTER_ALL,
    BEFORE_ALL,
    EVENT,
    LIFE,
    MESSAGE,
    PLACE,
    PROCESS,
    RUN_ID,
    VIOLATIONS,
    renewed,
    union,
)
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import DataFrame, F, Window
from whence.pipeline.owed import SENT_AT, TIMES, covers, is_addressed, is_always, owed_times
from whence.pipeline.slices import SLICE, late_causes, run_spans, sliced, slices
from whence.trace.schema import DESTS, EPOCH, EV, GRP, INC, NODE, T_TRUE
from whence.types import EventId

CAUSAL, OPTIMISTIC, INTEGRITY = "causal", "optimistic_causal", "integrity"

_ID = pa.struct([("pid", pa.int32()), ("inc", pa.int32()), ("seq", pa.int64())])
SHAPE = pa.schema(
    [
        (RUN_ID, pa.string()), ("promise", pa.string()), (NODE, pa.int32()), (INC, pa.int32()), (GRP, pa.string()),
        ("events", pa.list_(_ID)), ("evs", pa.list_(pa.int64())), ("sentence", pa.string()),
        ("rests_on_absence", pa.bool_()), ("doubtful", pa.bool_()),
    ]
)  # fmt: skip
SLICE_SHAPE = pa.schema(
    [*SHAPE, (LIFE, pa.int32()), ("cause", pa.int64()), ("at_inc", pa.int32()), ("at_ev", pa.int64())]
)
SLICED = f"{VIOLATIONS}, {LIFE} int, cause bigint, at_inc int, at_ev bigint"


def causal_violations(tables: RunTables, asked: DataFrame) -> DataFrame:
    """Return the violations of causal orders in some runs (run_id, promises)."""
    if not tables.is_large:
        return _in_whole_runs(tables, asked)
    times, agreed = agreed_times(tables, asked.select(RUN_ID))
    cut = F.col(RUN_ID).isin(sorted(agreed - _unsure_runs(tables, asked)))
    # In a time that agrees, nothing was delivered before it was published: integrity needs no look.
    orders = asked.filter(cut).filter(F.arrays_overlap("promises", F.array(F.lit(CAUSAL), F.lit(OPTIMISTIC))))
    return _in_slices(tables, orders, times).unionByName(_in_whole_runs(tables, asked.filter(~cut)))


def _unsure_runs(tables: RunTables, asked: DataFrame) -> set[str]:
    """Return the runs that promise strict order and in which it is unknown who was a member when something was
    published: what a process lacks may then count as a cause all along, and no stretch of time holds it."""
    strict = F.broadcast(asked.filter(F.array_contains("promises", F.lit(CAUSAL))).select(RUN_ID))
    untimed = tables.published.filter(F.col(T_TRUE).isNull()).select(RUN_ID).distinct()
    passing = tables.stays.join(strict, RUN_ID).filter(~is_always(F.col("since"), F.col("until")))
    unsure = passing.filter((F.col("since") == AFTER_ALL) | (F.col("until") == BEFORE_ALL)).select(RUN_ID)
    unsure = unsure.unionByName(passing.select(RUN_ID).join(untimed, RUN_ID)).distinct()
    return {row[RUN_ID] for row in unsure.collect()}


def _in_whole_runs(tables: RunTables, asked: DataFrame) -> DataFrame:
    steps = step_table(tables).join(F.broadcast(asked), RUN_ID)
    stays = tables.stays.join(F.broadcast(asked.select(RUN_ID)), RUN_ID).select(*PROCESS, GRP, "since", "until")
    return steps.groupBy(RUN_ID).cogroup(stays.groupBy(RUN_ID)).applyInArrow(_judged, VIOLATIONS)


def _in_slices(tables: RunTables, asked: DataFrame, times: DataFrame) -> DataFrame:
    """Return the violations in large runs that have times that agree; each slice is a task of its own."""
    strict = asked.filter(F.array_contains("promises", F.lit(CAUSAL))).select(RUN_ID)
    steps, found = steps_of_slices(tables, asked, times, _debts(tables, strict))
    stays = tables.stays.select(*PROCESS, GRP, "since", "until")
    stays = stays.join(F.broadcast(renewed(found.select(RUN_ID, SLICE).distinct())), RUN_ID)
    judged = steps.groupBy(RUN_ID, SLICE).cogroup(stays.groupBy(RUN_ID, SLICE)).applyInArrow(_judged_slice, SLICED)
    return first_effects(judged).select(*SHAPE.names)


def steps_of_slices(
    tables: RunTables, asked: DataFrame, times: DataFrame, debts: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """Return the steps of every slice of some runs (run_id, promises), and their spans (run_id, slice, low, high)."""
    runs = F.broadcast(asked.select(RUN_ID))
    times = tables.keep(times.join(runs, RUN_ID))
    delivered, spans = tables.delivered.join(runs, RUN_ID), tables.keep(run_spans(times))
    found = tables.keep(slices(delivered, times, late_causes(delivered, times, debts), spans))
    steps = step_table(tables).join(sliced(times, found, spans), [RUN_ID, EVENT])
    return steps.join(F.broadcast(asked), RUN_ID), found


def first_effects(judged: DataFrame) -> DataFrame:
    """Return what slices show without what another slice shows by an effect that the process delivered earlier."""
    first = Window.partitionBy(RUN_ID, "promise", NODE, LIFE, "cause").orderBy("at_inc", "at_ev")
    return judged.withColumn("nth", F.row_number().over(first)).filter("nth = 1").drop("nth")


def _debts(tables: RunTables, runs: DataFrame) -> DataFrame:
    """Return what was published while a process was a member, meant for it, and neither published nor delivered by
    it."""
    events = tables.published.join(F.broadcast(runs), RUN_ID).withColumn(SENT_AT, F.col(T_TRUE))
    stays = tables.stays.join(F.broadcast(runs), RUN_ID).select(*PROCESS, GRP, "since", "until")
    there = F.broadcast(renewed(stays))
    has = _there(tables, runs).filter(is_addressed()).join(there, [*PROCESS, GRP])
    has = has.filter(covers(F.col("since"), F.col("until")))
    lacked = lacking_events(tables, events, owed_times(events, stays), has)
    named = lacked.withColumnsRenamed({name: f"o_{name}" for name in (NODE, LIFE, INC, EV)})
    owed = named.join(there, [RUN_ID, GRP]).filter(covers(F.col("since"), F.col("until")) & is_addressed())
    return owed.join(_there(tables, runs).select(*PROCESS, EVENT), [*PROCESS, EVENT], "left_anti")


def lacking_events(tables: RunTables, events: DataFrame, owed: DataFrame, has: DataFrame) -> DataFrame:
    """Return those of some events that fewer processes have (`has`: run_id, event) than they are owed to (`owed`:
    run_id, event, times), so that no event meets every process."""
    sums = owed.unionByName(has.select(RUN_ID, EVENT, F.lit(-1).cast("bigint").alias(TIMES)))
    short = sums.groupBy(RUN_ID, EVENT).agg(F.sum(TIMES).alias(TIMES)).filter(F.col(TIMES) > 0)
    return events.join(tables.keep(short.select(RUN_ID, EVENT)), [RUN_ID, EVENT], "left_semi")


def _there(tables: RunTables, runs: DataFrame) -> DataFrame:
    """Return every event once with each process that published or delivered it."""
    own = (F.col(NODE) == F.col(f"o_{NODE}")) & (F.col(LIFE) == F.col(f"o_{LIFE}"))
    delivered = tables.delivered.filter(~own).select(
        *PROCESS, GRP, EVENT, F.col(f"o_{DESTS}").alias(DESTS), F.col(f"o_{T_TRUE}").alias(SENT_AT)
    )
    published = tables.published.select(*PROCESS, GRP, EVENT, DESTS, F.col(T_TRUE).alias(SENT_AT))
    return published.unionByName(delivered).join(F.broadcast(runs), RUN_ID)


def step_table(tables: RunTables) -> DataFrame:
    """Return the publications and first deliveries of events, in the few columns that happened-before rests on."""
    none = F.lit(None)
    delivered = tables.delivered.select(
        *PROCESS, INC, EV, EVENT, F.lit(False).alias("is_publish"),
        *(none.cast(kind).alias(name) for name, kind in zip(MESSAGE, ("string", "int", "int", "bigint"), strict=True)),
        none.cast("array<int>").alias(DESTS), none.cast("bigint").alias(T_TRUE), none.cast("bigint").alias(EPOCH),
    )  # fmt: skip
    published = tables.published.select(
        *PROCESS, INC, EV, EVENT, F.lit(True).alias("is_publish"), *MESSAGE, DESTS, T_TRUE, EPOCH
    )
    return published.unionByName(delivered)


def followers_delivered(tables: RunTables) -> DataFrame:
    """Return how many deliveries every run has of events that follow others, by their publishers' own program order."""
    mine = [table.select(*PROCESS, *PLACE) for table in (tables.published, tables.delivered)]
    begun = union(mine).groupBy(*PROCESS).agg(F.min(F.struct(*PLACE)).alias("begun"))
    following = tables.published.join(begun, list(PROCESS)).filter(F.struct(*PLACE) > F.col("begun"))
    shown = tables.delivered.select(RUN_ID, EVENT).join(following.select(RUN_ID, EVENT), [RUN_ID, EVENT])
    return shown.groupBy(RUN_ID).agg(F.count("*").alias("followers"))


class _Published(NamedTuple):
    grp: str
    id: EventId
    dests: tuple[int, ...] | None
    t_true: int | None
    epoch: int | None


class ClosedRun:
    """One run in memory: its lines, its events numbered from 0, and happened-before."""

    def __init__(self, steps: pa.Table) -> None:
        steps = steps.sort_by([(name, "ascending") for name in (NODE, LIFE, INC, EV)])
        self.lines: dict[Process, list[Step]] = {}
        self.published: dict[int, _Published] = {}
        firsts = steps.filter(steps.column("is_publish")).sort_by(EVENT)
        self.names: list[int] = firsts.column(EVENT).to_pylist()
        numbers = {event: number for number, event in enumerate(self.names)}
        columns = [steps.column(name).to_pylist() for name in (NODE, LIFE, EVENT, "is_publish", INC, EV)]
        for node, life, event, *step in zip(*columns, strict=True):
            self.lines.setdefault((node, life), []).append(Step(numbers[event], *step))
        columns = [firsts.column(name).to_pylist() for name in (*MESSAGE, DESTS, T_TRUE, EPOCH)]
        for number, (grp, pid, inc, seq, *about) in enumerate(zip(*columns, strict=True)):
            self.published[number] = _Published(grp, EventId(pid, inc, seq), *about)
        self.closure = Closure(self.lines, len(numbers))

    def is_expected(self, event: int, process: Process) -> bool | None:
        """Return whether an event that never came to a process is meant for it; None: who knows."""
        raise NotImplementedError


class _Run(ClosedRun):
    """A run, and who belonged to its groups when."""

    def __init__(self, steps: pa.Table, stays: pa.Table) -> None:
        super().__init__(steps)
        self.stays: dict[tuple[Process, str], list[tuple[int, int]]] = {}
        columns = [stays.column(name).to_pylist() for name in (NODE, LIFE, GRP, "since", "until")]
        for node, life, grp, since, until in zip(*columns, strict=True):
            self.stays.setdefault(((node, life), grp), []).append((since, until))

    def is_expected(self, event: int, process: Process) -> bool | None:
        """Return whether an event is meant for a process that was a member when it was published; None: who knows."""
        row = self.published[event]
        if row.dests is not None and process[0] not in row.dests:
            return False
        stays, at = self.stays.get((process, row.grp), ()), row.t_true
        if at is None:
            return (BEFORE_ALL, AFTER_ALL) in stays or (None if stays else False)
        if any(since <= at < until for since, until in stays):
            return True
        # What begins without time begins AFTER_ALL, and what ends without time ends BEFORE_ALL.
        may = any((since <= at or since == AFTER_ALL) and (at < until or until == BEFORE_ALL) for since, until in stays)
        return None if may else False


def _judged(steps: pa.Table, stays: pa.Table) -> pa.Table:
    """Judge one run by what it promises."""
    return violation_rows(_found(steps, stays))


def _judged_slice(steps: pa.Table, stays: pa.Table) -> pa.Table:
    """Judge one slice of a run; each violation with its process, its cause, and where the effect came."""
    return violation_rows(_found(steps, stays), SLICE_SHAPE)


def _found(steps: pa.Table, stays: pa.Table) -> list[dict[str, Any]]:
    if not steps.num_rows:
        return []
    run_id, promises = steps.column(RUN_ID)[0].as_py(), steps.column("promises")[0].as_py()
    run = _Run(steps, stays)
    found: list[dict[str, Any]] = []
    if CAUSAL in promises:
        found += lacking(run)
    if OPTIMISTIC in promises:
        found += _overtaken(run)
    if INTEGRITY in promises and any(row.t_true is None for row in run.published.values()):
        found += impossible(run)
    return [{RUN_ID: run_id} | row for row in found]


def violation_rows(found: list[dict[str, Any]], shape: pa.Schema = SHAPE) -> pa.Table:
    """Return violations as a table; mostly there are none, and Arrow loads pandas for values of Python."""
    return pa.Table.from_pylist(found, schema=shape) if found else pa.Table.from_batches([], schema=shape)


def _violation(
    promise: str, step: Step, process: Process, grp: str, ids: list[EventId], evs: list[int], sentence: str,
    absence: bool = False, doubtful: bool = False,
) -> dict[str, Any]:  # fmt: skip
    events = [{"pid": each.pid, "inc": each.incarnation, "seq": each.seq} for each in ids]
    return {
        "promise": promise, NODE: process[0], INC: step.inc, GRP: grp, "events": events, "evs": evs,
        "sentence": sentence, "rests_on_absence": absence, "doubtful": doubtful,
    }  # fmt: skip


def lacking(run: ClosedRun) -> Iterator[dict[str, Any]]:
    """Yield every cause that was meant for a process and not there when its effect was delivered."""
    closure, published = run.closure, run.published
    for process, line in run.lines.items():
        have = bytearray(len(closure.slot))
        counted = [0] * len(closure.of_slot)
        later = {step.event: step for step in line if not step.is_publish}
        for step in line:
            if not step.is_publish:
                lacking: list[int] = []
                for slot, count in enumerate(closure.past[step.event]):
                    if count > counted[slot]:
                        lacking += [each for each in closure.of_slot[slot][counted[slot] : count] if not have[each]]
                        counted[slot] = count
                for cause in lacking:
                    have[cause] = 1
                    expected = cause in later or run.is_expected(cause, process)
                    if expected is not False:
                        effect = published[step.event]
                        row = _late(
                            process, step, effect, published[cause], later.get(cause), doubtful=expected is None
                        )
                        yield row | _first_effect(run, process, cause, step)
            have[step.event] = 1


def _first_effect(run: ClosedRun, process: Process, cause: int, step: Step) -> dict[str, Any]:
    """Return where a process delivered the first effect of a cause, by which the same is found in other slices."""
    return {LIFE: process[1], "cause": run.names[cause], "at_inc": step.inc, "at_ev": step.ev}


def _late(
    process: Process, step: Step, effect: _Published, cause: _Published, later: Step | None, *, doubtful: bool
) -> dict[str, Any]:
    fate = "came only later" if later else "never came"
    sentence = (
        f"{who(process[0], step.inc)} delivered {what(effect.id)} although it had not delivered {what(cause.id)}, "
        f"which comes before it and {fate}"
    )
    evs = [step.ev, later.ev] if later else [step.ev]
    return _violation(CAUSAL, step, process, effect.grp, [cause.id, effect.id], evs, sentence, later is None, doubtful)


def _overtaken(run: ClosedRun) -> Iterator[dict[str, Any]]:
    """Yield every delivery after one that follows it, with the first such.

    What has been overtaken is, per publisher, a beginning of its events that only grows: the steps at which it grew
    are kept in order, so that the first one to overtake an event is found by halving.
    """
    closure, published = run.closure, run.published
    for process, line in run.lines.items():
        reach: list[list[int]] = [[0] for _ in closure.of_slot]
        grown_at: list[list[Step]] = [[] for _ in closure.of_slot]
        for step in line:
            if step.is_publish:
                continue
            slot, place = closure.slot[step.event], closure.place[step.event]
            if reach[slot][-1] > place:
                early = grown_at[slot][bisect_right(reach[slot], place) - 1]
                late, name = published[step.event], published[early.event]
                sentence = (
                    f"{who(process[0], step.inc)} delivered {what(late.id)} after {what(name.id)}, which follows it"
                )
                evs = [early.ev, step.ev]
                row = _violation(OPTIMISTIC, step, process, late.grp, [late.id, name.id], evs, sentence)
                yield row | _first_effect(run, process, step.event, early)
            for at, count in enumerate(closure.past[step.event]):
                if count > reach[at][-1]:
                    reach[at].append(count)
                    grown_at[at].append(step)


def impossible(run: ClosedRun) -> Iterator[dict[str, Any]]:
    """Yield deliveries that no order of the steps allows: without true time, this is how an early effect shows."""
    for process, event in run.closure.impossible:
        step = next(step for step in run.lines[process] if step.event == event and not step.is_publish)
        name = run.published[event]
        sentence = f"{who(process[0], step.inc)} delivered {what(name.id)} before it can have been published"
        yield _violation(INTEGRITY, step, process, name.grp, [name.id], [step.ev], sentence)
