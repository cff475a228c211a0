"""Verdict: who is out while alive learns up to which event its own took effect: these and no others (views 5.8).

The view that a leave row names is one without the member. Its own events up to the one named are handed to every member
that stays and is in their view; no later one is ever handed to a member of the view without it. The last member of a
group closes it and names the view it was alone in: then nothing is judged. `removed_unknown` says nothing. An event
of another generation says that none of this one took effect.
"""

from whence.pipeline.columns import (
    LIFE,
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
from whence.pipeline.frames import DataFrame, F
from whence.pipeline.living.generations import GROUP, group_named, which
from whence.pipeline.living.memberships import UNKNOWN_VERDICT
from whence.pipeline.living.owed import doubts, lacking, missing
from whence.pipeline.living.tables import LivingTables
from whence.trace.schema import EPOCH, EV, GRP, INC, M_INC, M_PID, M_SEQ, NODE

PROMISE = "verdict"
NOTHING = "nobody who had published learnt which of its events took effect"
UNRECORDED = "nobody recorded the view without the member"

_GONE = ("p_node", "p_life")
_NAME = (M_PID, M_INC, M_SEQ)


def leaves(tables: LivingTables) -> DataFrame:
    """Return every verdict that says something: the view it names, and how many own events took effect (`cut`).

    `is_in`: the member is in that view. `is_foreign`: the event named is none of its own.
    """
    told = tables.members.filter(F.col("out").isNotNull() & ~F.col("out.reason").eqNullSafe(UNKNOWN_VERDICT))
    told = told.select(
        *PROCESS, GRP, F.col(INC).alias("last_inc"), F.col("out.inc").alias(INC), F.col("out.ev").alias(EV),
        F.col(f"out.{EPOCH}").alias(EPOCH), *(F.col(f"out.{name}").alias(name) for name in _NAME),
    )  # fmt: skip
    views = tables.views.select(RUN_ID, GRP, EPOCH, F.size("members").alias("size"))
    inside = tables.in_views.select(*PROCESS, GRP, EPOCH, F.lit(True).alias("is_in"))
    own = tables.published.select(
        RUN_ID, group_named(F.col(GRP)).alias(GROUP), *_NAME, F.struct(NODE, LIFE).alias("publisher"), RANK,
        F.col(GRP).alias("of"),
    )  # fmt: skip
    counts = tables.published.groupBy(*PROCESS).agg(F.count("*").alias("own"))
    known = (
        told.join(F.broadcast(views), [RUN_ID, GRP, EPOCH], "left")
        .join(F.broadcast(inside), [*PROCESS, GRP, EPOCH], "left")
        .withColumn(GROUP, group_named(F.col(GRP)))
        .join(own, [RUN_ID, GROUP, *_NAME], "left")
        .join(counts, list(PROCESS), "left")
    )
    is_own = F.coalesce(F.col("publisher") == F.struct(NODE, LIFE), F.lit(False))
    elsewhere = (F.col(f"publisher.{NODE}") == F.col(NODE)) & (F.col("of") != F.col(GRP))
    said = F.col(M_PID).isNotNull() & ~F.coalesce(elsewhere, F.lit(False))
    return known.filter(F.col("is_in").isNull() | (F.col("size") != 1)).withColumns({
        "is_in": F.col("is_in").isNotNull(), "is_foreign": said & ~is_own, "own": F.coalesce("own", F.lit(0)),
        "cut": F.when(said, F.col(RANK) + 1).otherwise(0),
    }).drop("publisher", RANK, "of", GROUP)  # fmt: skip


def verdict_violations(tables: LivingTables, leaves: DataFrame) -> DataFrame:
    """Return verdicts that name a wrong view or event, and events that do not keep to them."""
    out = text(who(), " was told that it is out since ", which(F.col(EPOCH)))
    inside = violations(leaves.filter("is_in"), PROMISE, text(out, ", and is in that view"), evs=F.array(EV))
    named = text(out, " and that its events took effect up to ", what(), ", which it did not publish")
    foreign = violations(
        leaves.filter("is_foreign"), PROMISE, named, events=F.array(message()), evs=F.array(EV), absence=True
    )
    unknown = doubts(leaves.filter("not is_foreign and size is null"), PROMISE, UNRECORDED)
    judged = leaves.filter("not is_foreign and size is not null").select(
        RUN_ID, F.col(NODE).alias(_GONE[0]), F.col(LIFE).alias(_GONE[1]), "last_inc", "cut",
        F.col(EPOCH).alias("without"),
    )  # fmt: skip
    return union([inside, foreign, unknown, _within(tables, judged), _beyond(tables, judged)])


def leaves_at_stake(leaves: DataFrame) -> DataFrame:
    """Return how many members of each run learnt that they are out and had something at stake."""
    learnt = leaves.filter("is_foreign or own > 0").groupBy(RUN_ID)
    said = text(
        counted(F.count("*"), "member", "members"), " learnt, when they were out, which of their events took effect"
    )
    return learnt.agg(F.count("*").alias("at_stake"), said.alias("holds"))


def _within(tables: LivingTables, judged: DataFrame) -> DataFrame:
    owed = tables.owed.join(F.broadcast(judged), [RUN_ID, *_GONE])
    absent = lacking(tables, owed.filter(F.col(RANK) < F.col("cut")))
    sentence = text(
        who(), " was never handed ", what(), ", and ", who(_GONE[0], "last_inc"), " was told that it took effect"
    )
    return missing(tables, absent, PROMISE, sentence)


def _beyond(tables: LivingTables, judged: DataFrame) -> DataFrame:
    rows = tables.delivered.withColumnsRenamed({"o_node": _GONE[0], "o_life": _GONE[1]})
    wrong = (
        rows.join(F.broadcast(judged), [RUN_ID, *_GONE])
        .filter(F.col(RANK) >= F.col("cut"))
        .join(
            F.broadcast(tables.in_views.select(*PROCESS, GRP, F.col(EPOCH).alias("without"))),
            [*PROCESS, GRP, "without"], "left_semi",
        )
    )  # fmt: skip
    sentence = text(
        who(),
        " was handed ",
        what(),
        ", and ",
        who(_GONE[0], "last_inc"),
        " was told that this one did not take effect",
    )
    return violations(wrong, PROMISE, sentence, events=F.array(message()), evs=F.array(EV))
