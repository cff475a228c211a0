"""Uniform total order: in each group, the delivery sequences of all processes, crashed ones too, fit into one order.

Two certificates settle most groups natively. With keys: every process delivers in increasing key, and an event has one
key everywhere. Without: every sequence is the beginning of the longest, that is, the n-th deliveries of all processes
are one event. Only groups that show neither are sorted topologically, one at a time, in memory; what remains lies on
or between cycles. Every process that disagrees with one before it is a violation; where no two do, a cycle is.

Of a large group only the neighbourhood of what is turned round is sorted. Give every event a place, by the longest
sequence; then every cycle goes back as far as it goes forward, so that all its events lie between the two ends of
a step backwards in some sequence. Without such a step there is nothing to sort.
"""

from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa

from whence.check.verdict import what, who
from whence.pipeline.columns import EVENT, LIFE, PLACE, PROCESS, RUN_ID, VIOLATIONS, in_spans, merged_spans
from whence.pipeline.columns import PROMISE as PROMISE_COLUMN
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import DataFrame, F, Window
from whence.pipeline.promises.causal import violation_rows
from whence.trace.schema import EV, GRP, INC, K_HI, K_LO, K_MID, M_INC, M_PID, M_SEQ, NODE
from whence.types import EventId

PROMISE = "total_order"
_KEY = (K_HI, K_MID, K_LO)

Process: TypeAlias = tuple[int, int]
Sequences: TypeAlias = dict[Process, list[int]]


def total_order_violations(tables: RunTables, asked: DataFrame, promise: str = PROMISE) -> DataFrame:
    """Return the disagreements in the runs that were asked about (run_id), as violations of a promise."""
    rows = tables.delivered.join(F.broadcast(asked), RUN_ID)
    open_groups = uncertified(rows)
    left = rows.join(F.broadcast(open_groups), [RUN_ID, GRP]).select(*PROCESS, *PLACE, GRP, EVENT, M_PID, M_INC, M_SEQ)
    left = around_steps_back(tables, left) if tables.is_large else left
    found = left.groupBy(RUN_ID, GRP).applyInArrow(_judged, VIOLATIONS)
    return found if promise == PROMISE else found.withColumn(PROMISE_COLUMN, F.lit(promise))


def comparable_groups(tables: RunTables) -> DataFrame:
    """Return how many groups every run has in which two processes delivered two events each."""
    lines = tables.delivered.groupBy(*PROCESS, GRP).agg(F.count("*").alias("events")).filter("events > 1")
    groups = lines.groupBy(RUN_ID, GRP).agg(F.count("*").alias("lines")).filter("lines > 1")
    return groups.groupBy(RUN_ID).agg(F.count("*").alias("comparable"))


def uncertified(delivered: DataFrame) -> DataFrame:
    """Return the groups (run_id, grp) that show neither certificate."""
    line = Window.partitionBy(*PROCESS, GRP).orderBy(*PLACE)
    key = F.struct(*(F.coalesce(F.col(name), F.lit(0)).alias(name) for name in _KEY))
    own_key = F.struct(*(F.coalesce(F.col(f"o_{name}"), F.lit(0)).alias(name) for name in _KEY))
    steps = delivered.select(
        RUN_ID, GRP, EVENT, F.row_number().over(line).alias("at"),
        (F.col(K_HI).isNull() | F.coalesce(F.lag(key).over(line) >= key, F.lit(False)) | (key != own_key)).alias("off"),
    )  # fmt: skip
    at = steps.groupBy(RUN_ID, GRP, "at").agg(
        F.min(EVENT).alias("low"), F.max(EVENT).alias("high"), F.bool_or("off").alias("off")
    )
    return (
        at.groupBy(RUN_ID, GRP)
        .agg(F.bool_or(F.col("low") != F.col("high")).alias("differs"), F.bool_or("off").alias("off"))
        .filter("differs and off")
        .select(RUN_ID, GRP)
    )


def around_steps_back(tables: RunTables, rows: DataFrame) -> DataFrame:
    """Return the deliveries whose events lie between the two ends of a step backwards in any sequence."""
    line = Window.partitionBy(*PROCESS, GRP).orderBy(*PLACE)
    before = line.rowsBetween(Window.unboundedPreceding, -1)
    counted = tables.keep(rows.withColumn("nth", F.row_number().over(line)))
    lengths = counted.groupBy(*PROCESS, GRP).agg(F.max("nth").alias("n"))
    longest = lengths.groupBy(RUN_ID, GRP).agg(F.max(F.struct("n", NODE, LIFE)).alias("longest"))
    longest = longest.select(RUN_ID, GRP, F.col(f"longest.{NODE}").alias(NODE), F.col(f"longest.{LIFE}").alias(LIFE))
    spine = counted.join(F.broadcast(longest), [*PROCESS, GRP]).select(RUN_ID, GRP, EVENT, F.col("nth").alias("spine"))
    known = counted.join(spine, [RUN_ID, GRP, EVENT], "left")
    # What the longest sequence lacks stands behind the last event that it shares with a sequence that has it.
    last = F.coalesce(F.last("spine", ignorenulls=True).over(before), F.lit(0))
    behind = F.struct(last.alias("at"), F.col(NODE).alias("node"), F.col(LIFE).alias("life"), F.col("nth").alias("nth"))
    there = F.struct(F.col("spine").alias("at"), *(F.lit(-1).alias(name) for name in ("node", "life", "nth")))
    known = known.withColumn("stands", F.when(F.col("spine").isNotNull(), there).otherwise(behind))
    by_event = Window.partitionBy(RUN_ID, GRP, EVENT)
    placed = tables.keep(known.withColumn("stands", F.min("stands").over(by_event)))
    stepped = placed.withColumn("from", F.lag("stands").over(line)).filter(F.col("from") > F.col("stands"))
    spans = stepped.select(RUN_ID, GRP, F.col("stands")["at"].alias("low"), F.col("from")["at"].alias("high"))
    spans = tables.keep(merged_spans(spans, (RUN_ID, GRP)))
    return in_spans(placed, F.col("stands")["at"], spans, (RUN_ID, GRP)).select(*rows.columns)


def _judged(group: pa.Table) -> pa.Table:
    """Judge the sequences of one group."""
    group = group.sort_by([(name, "ascending") for name in (NODE, LIFE, INC, EV)])
    sequences: Sequences = {}
    rows: dict[tuple[Process, int], tuple[int, int]] = {}
    ids: dict[int, EventId] = {}
    columns = [group.column(name).to_pylist() for name in (NODE, LIFE, INC, EV, EVENT, M_PID, M_INC, M_SEQ)]
    for node, life, inc, ev, event, *name in zip(*columns, strict=True):
        sequences.setdefault((node, life), []).append(event)
        rows[(node, life), event] = inc, ev
        ids[event] = EventId(*name)
    tangled = _tangled(sequences)
    left = {process: [event for event in line if event in tangled] for process, line in sequences.items()}
    found = (_inversions(left, rows, ids) or [_cycle(left, rows, ids)]) if tangled else []
    where = {RUN_ID: group.column(RUN_ID)[0].as_py(), GRP: group.column(GRP)[0].as_py(), "promise": PROMISE}
    return violation_rows([where | row for row in found])


def _tangled(sequences: Sequences) -> set[int]:
    """Return the events that no order can place: peel off what nothing precedes, then what nothing follows."""
    edges = list(dict.fromkeys(edge for line in sequences.values() for edge in pairwise(line)))
    left = _peel({event for line in sequences.values() for event in line}, edges)
    return _peel(left, [(b, a) for a, b in edges if a in left and b in left]) if left else left


def _peel(events: set[int], edges: list[tuple[int, int]]) -> set[int]:
    follows: dict[int, list[int]] = {}
    waits = dict.fromkeys(events, 0)
    for before, after in edges:
        follows.setdefault(before, []).append(after)
        waits[after] += 1
    free = [event for event, count in waits.items() if not count]
    for event in free:  # grows while we walk it
        for after in follows.get(event, ()):
            waits[after] -= 1
            if not waits[after]:
                free.append(after)
    return {event for event, count in waits.items() if count}


def _inversions(
    sequences: Sequences, rows: dict[tuple[Process, int], tuple[int, int]], ids: dict[int, EventId]
) -> list[dict[str, Any]]:
    """Return, for each process that disagrees with one before it, the two closest events it delivers in the opposite
    order of the first such.

    Processes with the same sequence are compared as one.
    """
    orders: list[tuple[Process, tuple[int, ...]]] = []
    compared: dict[tuple[int, ...], int] = {}
    against: dict[tuple[int, ...], tuple[Process, int, int]] = {}
    found = []
    for one, events in sorted(sequences.items()):
        line = tuple(events)
        if line not in compared:
            orders.append((one, line))
        for other, other_line in orders[compared.get(line, 0) :] if line not in against else ():
            if pair := _turned(line, other_line):
                against[line] = other, *pair
                break
        compared[line] = len(orders)
        if line in against:
            other, a, b = against[line]
            sentence = (
                f"{who(one[0], rows[one, b][0])} delivered {what(ids[a])} before {what(ids[b])}, and "
                f"{who(other[0], rows[other, a][0])} delivered them the other way round"
            )
            found.append(_witness(one, [a, b], rows, ids, sentence))
    return found


def _turned(line: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the two closest events of a sequence that another has in the opposite order, or None."""
    here, there = ({event: at for at, event in enumerate(each)} for each in (line, other))
    common = [event for event in line if event in there]
    turned = [(a, b) for a, b in pairwise(common) if there[a] > there[b]]
    return min(turned, key=lambda pair: here[pair[1]] - here[pair[0]], default=None)


def _cycle(
    sequences: Sequences, rows: dict[tuple[Process, int], tuple[int, int]], ids: dict[int, EventId]
) -> dict[str, Any]:
    """Return a cycle: no two processes disagree, but several together leave no order.

    Every event that is left was delivered after another of them. Whoever goes back from one to the next comes to an
    event a second time, and what lies between is a cycle.
    """
    before: dict[int, tuple[int, Process]] = {}
    for process, line in sorted(sequences.items()):
        for one, other in pairwise(line):
            before.setdefault(other, (one, process))
    event, gone = min(before), dict[int, int]()
    while event not in gone:
        gone[event] = len(gone)
        event = before[event][0]
    cycle = [each for each, at in gone.items() if at >= gone[event]][::-1]
    chain = ", ".join(
        f"{what(ids[a])} before {what(ids[b])} at process {before[b][1][0]}" for a, b in pairwise([*cycle, cycle[0]])
    )
    return _witness(before[cycle[1]][1], cycle, rows, ids, f"no single order explains the deliveries: {chain}")


def _witness(
    process: Process, events: list[int], rows: dict[tuple[Process, int], tuple[int, int]], ids: dict[int, EventId],
    sentence: str,
) -> dict[str, Any]:  # fmt: skip
    (_, first), (inc, second) = rows[process, events[0]], rows[process, events[1]]
    return {
        NODE: process[0], INC: inc,
        "events": [{"pid": ids[event].pid, "inc": ids[event].incarnation, "seq": ids[event].seq} for event in events],
        "evs": [first, second], "sentence": sentence, "rests_on_absence": False, "doubtful": False,
    }  # fmt: skip
