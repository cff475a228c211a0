"""Receipts: what was acknowledged is not lost by any change that the protocol makes by itself (views 7).

A note `majority` or `settled` speaks of an own event and all earlier own ones: from then on every member that stays and
is in their view is handed them. `stored` says it only as long as the publisher stays. `settled` says more where members
remember and rows have true time: the other members that stay were handed them before the note.
"""

from whence.pipeline.columns import (
    EVENT,
    LIFE,
    MESSAGE,
    PLACE,
    PROCESS,
    RANK,
    RUN_ID,
    counted,
    message,
    text,
    union,
    violations,
    what,
    who,
)
from whence.pipeline.frames import DataFrame, F, Window
from whence.pipeline.living.owed import lacking, missing
from whence.pipeline.living.tables import LivingTables
from whence.trace.schema import EV, INC, NODE, REASON, T_TRUE, Kind

PROMISE = "receipts"
NOTHING = "no member that stays was owed anything that was acknowledged"
STORED, SETTLED = "stored", "settled"

_PUBLISHER = (RUN_ID, "p_node", "p_life")


def receipt_violations(tables: LivingTables, owed: DataFrame) -> DataFrame:
    """Return acknowledged events that did not come, or not before the note, and notes about others' events."""
    lost = text(who(), " was never handed ", what(), ", which was acknowledged as ", F.col("level"))
    settled = _settled_without(tables)
    absent = lacking(tables, owed)
    if tables.has_closings:
        absent = absent.join(
            settled.select(*PROCESS, EVENT, "level").distinct(), [*PROCESS, EVENT, "level"], "left_anti"
        )
    told = text(
        who("n_node", "n_inc"), " was told that ", what(), " is settled, and ", who(), " closed the group without it"
    )  # fmt: skip
    shown = settled.withColumn("said", told).withColumns({NODE: F.col("n_node"), INC: F.col("n_inc")})
    without = violations(shown, PROMISE, F.col("said"), events=F.array(message()), evs=F.array("n_ev"), absence=True)
    return union([_foreign(tables), missing(tables, absent, PROMISE, lost), _too_soon(tables, owed), without])


def _settled_without(tables: LivingTables) -> DataFrame:
    """Return what was settled and members lack that closed the group, whenever it was published."""
    closed = acknowledged(tables, tables.meant).filter(F.col("level") == SETTLED)
    closed = closed.join(F.broadcast(tables.closings.select(*PROCESS)), list(PROCESS), "left_semi")
    others = (F.col("p_node") != F.col(NODE)) | (F.col("p_life") != F.col(LIFE))
    return lacking(tables, closed.filter(others))


def receipts_at_stake(tables: LivingTables, owed: DataFrame) -> DataFrame:
    """Return how many acknowledged events of each run are owed to somebody who stays."""
    known = owed.unionByName(_settled_without(tables).select(*owed.columns)) if tables.has_closings else owed
    each = known.select(RUN_ID, EVENT, "level").distinct().groupBy(RUN_ID)
    said = text(
        counted(F.count("*"), "acknowledged event", "acknowledged events"),
        " reached every member that stays and is in their view",
    )
    return each.agg(F.count("*").alias("at_stake"), said.alias("holds"))


def acknowledged(tables: LivingTables, owed: DataFrame) -> DataFrame:
    """Return every event that was acknowledged, by the first note that covers it, with each member that it is owed
    to."""
    notes = _notes(tables).filter(F.col("p_node") == F.col(NODE))
    line = Window.partitionBy(*_PUBLISHER, "level").orderBy(LIFE, *PLACE)
    since = F.coalesce(F.max(RANK).over(line.rowsBetween(Window.unboundedPreceding, -1)), F.lit(-1))
    told = notes.withColumn("since", since).filter(F.col(RANK) > F.col("since"))
    there = tables.judged.select(RUN_ID, F.col(NODE).alias("p_node"), F.col(LIFE).alias("p_life"))
    kept = told.filter(F.col("level") != STORED)
    stored = told.filter(F.col("level") == STORED).join(F.broadcast(there), list(_PUBLISHER), "left_semi")
    covered = kept.unionByName(stored).select(
        *_PUBLISHER, "level", F.col(NODE).alias("n_node"), F.col(INC).alias("n_inc"), F.col(EV).alias("n_ev"),
        F.col(T_TRUE).alias("told_at"), F.explode(F.sequence(F.col("since") + 1, F.col(RANK))).alias(RANK),
    )  # fmt: skip
    return owed.join(covered, [*_PUBLISHER, RANK])


def _notes(tables: LivingTables) -> DataFrame:
    """Return what publishers were told: each note with its event's publisher, null where nobody published it."""
    named = tables.publications.select(RUN_ID, *MESSAGE, "p_node", "p_life", RANK)
    rows = tables.steps_of(Kind.NOTE).select(*PROCESS, *PLACE, *MESSAGE, T_TRUE, F.col(REASON).alias("level"))
    return rows.join(named, [RUN_ID, *MESSAGE], "left")


def _foreign(tables: LivingTables) -> DataFrame:
    wrong = _notes(tables).filter(~F.col("p_node").eqNullSafe(F.col(NODE)))
    sentence = text(who(), " was told that ", what(), " is ", F.col("level"), ", and did not publish it")
    return violations(wrong, PROMISE, sentence, events=F.array(message()), evs=F.array(EV), absence=True)


def _too_soon(tables: LivingTables, owed: DataFrame) -> DataFrame:
    remembering = tables.members.filter("durable").select(*PROCESS)
    came = tables.delivered.select(*PROCESS, EVENT, F.col(T_TRUE).alias("came_at"))
    others = (F.col("p_node") != F.col(NODE)) | (F.col("p_life") != F.col(LIFE))
    settled = owed.filter((F.col("level") == SETTLED) & others & (F.col("told_at") != 0)).join(
        remembering, list(PROCESS)
    )
    soon = settled.join(came, [*PROCESS, EVENT]).filter(F.col("came_at") > F.col("told_at"))
    sentence = text(who("n_node", "n_inc"), " was told that ", what(), " is settled before ", who(), " was handed it")
    shown = soon.withColumn("said", sentence).withColumns({NODE: F.col("n_node"), INC: F.col("n_inc")})
    return violations(shown, PROMISE, F.col("said"), events=F.array(message()), evs=F.array("n_ev"))
