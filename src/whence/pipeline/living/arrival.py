"""Agreement and liveness over views: members that stay are handed the same, and who wants to be a member is one.

Agreement: an event that took effect is handed to every member that stays and is in the view it was published in.
Liveness, judged where rows have true time and the run says when its faults stopped: every process that is up and wants
to be a member is live in the latest view; and what members that stay publish in the liveness phase comes to all of them
in time. What is missing counts as `owed` says.
"""

from whence.pipeline.columns import (
    EVENT,
    LIFE,
    PROCESS,
    RUN_ID,
    counted,
    text,
    union,
    what,
    who,
)
from whence.pipeline.frames import DataFrame, F
from whence.pipeline.living.generations import which
from whence.pipeline.living.owed import doubts, lacking, missing, out_of_place
from whence.pipeline.living.tables import LivingTables
from whence.trace.schema import EPOCH, GRP, INC, NODE, T_TRUE, Kind

AGREEMENT, LIVENESS = "agreement", "liveness"
NOTHING = {
    AGREEMENT: "nobody who stays was handed anything",
    LIVENESS: "nobody was up and wanted to be a member",
}
UNPLACED = "nobody recorded the view they were published in"
_MS = 1_000_000
_TIMED = (Kind.PUBLISH, Kind.DELIVER, Kind.JOIN, Kind.VIEW)


# --- agreement ---


def expected(tables: LivingTables) -> DataFrame:
    """Return the events that took effect, each with every member that stays and is in its view."""
    return tables.owed.join(tables.effective, [RUN_ID, EVENT], "left_semi")


def agreement_violations(tables: LivingTables) -> DataFrame:
    """Return what members that stay were not handed; with doubts about events of views that nobody recorded."""
    sentence = text(who(), " was never handed ", what(), ", which took effect in a view it is in")
    absent = missing(tables, lacking(tables, expected(tables)), AGREEMENT, sentence)
    return absent.unionByName(doubts(tables.homeless, AGREEMENT, UNPLACED))


def agreement_at_stake(tables: LivingTables) -> DataFrame:
    """Return how many deliveries are expected in each run."""
    count = F.count("*")
    said = text(counted(count, "expected delivery", "expected deliveries"), " at members that stay, and all were made")
    return expected(tables).groupBy(RUN_ID).agg(count.alias("at_stake"), said.alias("holds"))


# --- liveness ---


def timed_runs(tables: LivingTables) -> DataFrame:
    """Return the runs whose liveness can be judged, with their phases."""
    untimed = tables.rows_of(*_TIMED).filter(F.col(T_TRUE).isNull()).select(RUN_ID).distinct()
    phased = tables.runs.filter("live_from is not null")
    phased = phased.select(RUN_ID, "live_from", "live_until", "deadline_ns", F.size("groups").alias("many"))
    return phased.join(untimed, RUN_ID, "left_anti")


def wanting(tables: LivingTables) -> DataFrame:
    """Return the last membership in each group of every process that is up and wants to be a member."""
    last = tables.members.groupBy(RUN_ID, NODE, GRP).agg(F.max(LIFE).alias(LIFE))
    founders = tables.founders.select(RUN_ID, GRP, NODE, F.lit(True).alias("founds"))
    known = (
        tables.members.join(last, [*PROCESS, GRP])
        .join(F.broadcast(timed_runs(tables)), RUN_ID)
        .join(F.broadcast(founders), [RUN_ID, GRP, NODE], "left")
    )
    asks = ~F.col("silent") | (F.col("goes_on") & ((F.col("many") == 1) | F.col("founds").isNotNull()))
    return known.join(F.broadcast(tables.away), list(PROCESS), "left_anti").filter(
        F.col("up")
        & ~F.col("ended")
        & ~F.col("moved_on")
        & asks
        & (F.coalesce("began_at", F.lit(0)) <= F.col("live_from"))
    )


def liveness_violations(tables: LivingTables) -> DataFrame:
    """Return processes that are not in the latest view, and events that did not come in time."""
    return union([_out(tables), _strangers(tables), _late(tables)])


def liveness_at_stake(tables: LivingTables) -> DataFrame:
    """Return how many processes wanted to be members, and how many deliveries were expected in the liveness phase."""
    both = union(
        [
            wanting(tables).select(RUN_ID, F.lit(1).alias("wants"), F.lit(0).alias("due")),
            _due(tables).select(RUN_ID, F.lit(0).alias("wants"), F.lit(1).alias("due")),
        ]
    )
    sums = both.groupBy(RUN_ID).agg(F.sum("wants").alias("wants"), F.sum("due").alias("due"))
    said = text(
        counted(F.col("wants"), "process", "processes"), " that wanted to be members are, and ",
        counted(F.col("due"), "expected delivery", "expected deliveries"), " came in time",
    )  # fmt: skip
    return sums.select(RUN_ID, (F.col("wants") + F.col("due")).alias("at_stake"), said.alias("holds"))


def _out(tables: LivingTables) -> DataFrame:
    last = tables.latest.select(RUN_ID, GRP, F.col(EPOCH).alias("last"))
    inside = tables.in_views.select(*PROCESS, GRP, F.col(EPOCH).alias("last"), F.lit(True).alias("is_in"))
    entered = tables.steps_of(Kind.VIEW).groupBy(*PROCESS).agg(F.max(EPOCH).alias("entered"))
    known = (
        wanting(tables).join(F.broadcast(last), [RUN_ID, GRP], "left")
        .join(F.broadcast(inside), [*PROCESS, GRP, "last"], "left")
        .join(F.broadcast(entered), list(PROCESS), "left")
    )  # fmt: skip
    wrong = (
        F.when(F.col("is_in").isNull(), F.lit("wanted to be a member and is not in the latest view"))
        .when(F.col("live").isNull(), F.lit("is in the latest view and never became live"))
        .when(
            ~F.col("entered").eqNullSafe(F.col("last")),
            text("never entered ", which(F.col("last")), ", the latest; its last one is ", which(F.col("entered"))),
        )
    )
    found = known.withColumn("wrong", wrong).filter(F.col("wrong").isNotNull())
    return out_of_place(tables, found, LIVENESS, text(who(), " ", F.col("wrong")))


def _strangers(tables: LivingTables) -> DataFrame:
    """Return the processes of a run with one group that left rows before the liveness phase, and none as a member."""
    alone = timed_runs(tables).filter("many = 1")
    named = tables.runs.select(RUN_ID, F.get("groups", F.lit(0)).alias(GRP))
    unknown = tables.node_lives.join(tables.members.select(RUN_ID, NODE).distinct(), [RUN_ID, NODE], "left_anti")
    rows = tables.events.select(RUN_ID, NODE, T_TRUE).join(F.broadcast(unknown), [RUN_ID, NODE])
    early = rows.join(F.broadcast(alone), RUN_ID).filter(F.coalesce(T_TRUE, F.lit(0)) <= F.col("live_from"))
    each = early.groupBy(RUN_ID, NODE).agg(F.max("last_life").alias(INC)).join(F.broadcast(named), RUN_ID)
    return out_of_place(tables, each, LIVENESS, text(who(), " wanted to be a member and never was one"))


def _due(tables: LivingTables) -> DataFrame:
    """Return what members that stay published in the liveness phase, each with every member that it is owed to."""
    phased = timed_runs(tables)
    publishers = tables.staying.select(RUN_ID, F.col(NODE).alias("p_node"), F.col(LIFE).alias("p_life"))
    owed = tables.owed.join(F.broadcast(tables.staying.select(*PROCESS)), list(PROCESS), "left_semi")
    owed = owed.join(F.broadcast(phased), RUN_ID)
    owed = owed.join(F.broadcast(publishers), [RUN_ID, "p_node", "p_life"], "left_semi")
    opened = F.coalesce(F.col(f"live.{T_TRUE}") < F.col("published_at"), F.lit(False))
    return owed.filter(
        F.col("published_at").between(F.col("live_from"), F.col("live_until")) & (~F.col("late") | opened)
    )


def _late(tables: LivingTables) -> DataFrame:
    came = tables.delivered.select(*PROCESS, EVENT, F.col(T_TRUE).alias("came_at"))
    known = _due(tables).join(came, [*PROCESS, EVENT], "left")
    took = F.col("came_at") - F.greatest("published_at", f"live.{T_TRUE}")
    slow = known.withColumn("took", took).filter(F.col("took").isNull() | (F.col("took") > F.col("deadline_ns")))
    when = F.when(F.col("took").isNull(), F.lit("never")).otherwise(
        text("only ", F.format_number(F.col("took") / _MS, 1), " ms after it was due")
    )
    deadline = text("; the deadline is ", F.format_number(F.col("deadline_ns") / _MS, 0), " ms")
    return missing(tables, slow, LIVENESS, text(who(), " delivered ", what(), " ", when, deadline))
