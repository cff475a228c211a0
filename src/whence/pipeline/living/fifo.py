"""FIFO over views: a member is handed each publisher's events in the order they were published, and skips none.

A publisher is a membership. Of each a member is owed the events of views that it is in, from the first one on; a joiner
of a strict group may begin anywhere. Nobody reports gaps. `reached` is the furthest place among a publisher's events
that a member has come to before a row: one running maximum per member and publisher.
"""

from whence.pipeline.columns import (
    EVENT,
    PLACE,
    PROCESS,
    RANK,
    RUN_ID,
    message,
    text,
    union,
    violations,
    what,
    who,
)
from whence.pipeline.frames import DataFrame, F, Window
from whence.pipeline.living.tables import LivingTables
from whence.trace.schema import EPOCH, EV, GRP, M_INC, M_PID, M_SEQ

PROMISE = "fifo"
NOTHING = "nobody delivered anything that its publisher had published something before"
HOLDS = "every member was handed every publisher's events in order, and skipped none"

_PUBLISHER = ("o_node", "o_life")
_NAME = (M_PID, M_INC, M_SEQ)


def fifo_violations(tables: LivingTables) -> DataFrame:
    """Return deliveries out of order, and events of a member's views that it skipped."""
    steps = _steps(tables)
    return union([_inversions(steps), _skips(tables, steps)])


def successors_at_stake(tables: LivingTables) -> DataFrame:
    """Return how many deliveries each run has of events that are not their publisher's first."""
    return tables.delivered.groupBy(RUN_ID).agg(
        F.count_if(F.col(RANK) > 0).alias("at_stake"), F.lit(HOLDS).alias("holds")
    )


def _steps(tables: LivingTables) -> DataFrame:
    """Return every first delivery with how far its receiver had come with its publisher."""
    line = Window.partitionBy(*PROCESS, *_PUBLISHER).orderBy(*PLACE)
    before = line.rowsBetween(Window.unboundedPreceding, -1)
    early = (F.col(name).alias(f"early_{name}") for name in (*_NAME, EV))
    rows = tables.delivered.select(*PROCESS, *PLACE, GRP, *_PUBLISHER, *_NAME, EVENT, RANK)
    return rows.withColumn("furthest", F.max(F.struct(RANK, *early)).over(before))


def _inversions(steps: DataFrame) -> DataFrame:
    late = steps.filter(F.col(RANK) < F.col(f"furthest.{RANK}")).select(
        "*", *(F.col(f"furthest.early_{name}").alias(f"early_{name}") for name in (*_NAME, EV))
    )
    sentence = text(who(), " delivered ", what(), " after event ", F.col(f"early_{M_SEQ}"), " of the same publisher")
    shown = F.array(message(), message(*(f"early_{name}" for name in _NAME)))
    return violations(late, PROMISE, sentence, events=shown, evs=F.array(f"early_{EV}", EV))


def _skips(tables: LivingTables, steps: DataFrame) -> DataFrame:
    late = tables.members.select(*PROCESS, "late")
    reached = F.coalesce(F.col(f"furthest.{RANK}"), F.lit(-1))
    jumps = steps.withColumn("reached", reached).filter(F.col(RANK) > F.col("reached") + 1)
    jumps = jumps.join(F.broadcast(late), list(PROCESS)).filter(~F.col("late") | F.col("furthest").isNotNull())
    skipped = jumps.select(
        *PROCESS, *PLACE, GRP, *_PUBLISHER, *(F.col(name).alias(f"next_{name}") for name in _NAME),
        F.explode(F.sequence(F.col("reached") + 1, F.col(RANK) - 1)).alias(RANK),
    )  # fmt: skip
    passed = tables.publications.select(
        RUN_ID, F.col("p_node").alias(_PUBLISHER[0]), F.col("p_life").alias(_PUBLISHER[1]), RANK, EVENT, EPOCH, *_NAME
    )
    silent = (
        skipped.join(passed, [RUN_ID, *_PUBLISHER, RANK])
        .join(F.broadcast(tables.in_views), [*PROCESS, GRP, EPOCH], "left_semi")
        .join(tables.delivered.select(*PROCESS, EVENT), [*PROCESS, EVENT], "left_anti")
    )
    after = (f"next_{name}" for name in _NAME)
    sentence = text(
        who(), " delivered ", what(*(f"next_{name}" for name in _NAME)), " and skipped ", what(),
        ", which is for it too",
    )  # fmt: skip
    shown = F.array(message(), message(*after))
    return violations(silent, PROMISE, sentence, events=shown, evs=F.array(EV), absence=True)
