"""What members of living runs owe each other by the end, and when nobody can say.

What took effect is owed to every member that stays and is in the view it was published in. A joiner of a strict group
begins at a place of the one sequence: what the others were handed before its first event is not owed to it. Something
missing counts only where the run says when it must have come; never in a group that may stand still; and, where a group
with journals waits for a member that is down, not in strict groups and not at who is not live yet. What does not count
leaves a doubt, and so does what a member had not taken when it closed the group, as it is a member still. A doubt is a
row like a violation whose sentence says why.
"""

from whence.pipeline.columns import EVENT, LIFE, PROCESS, RUN_ID, message, violations
from whence.pipeline.frames import Column, DataFrame, F
from whence.pipeline.living.tables import AT, LivingTables
from whence.trace.schema import GRP, NODE

CLOSED_BEFORE = "the member closed the group, and goes on where it was when it is back"
LEFT_BEFORE = "the member left, and need not have taken all that it had got"
IN_FLIGHT = "the run does not say by when deliveries must have been made"
AFTER_THE_END = "they were published after the end of the liveness phase"

_OTHER = ("o_node", "o_life")


def lacking(tables: LivingTables, owed: DataFrame) -> DataFrame:
    """Return those of some events, each with a member that stays, that are owed to it and did not come."""
    absent = owed.join(tables.delivered.select(*PROCESS, EVENT), [*PROCESS, EVENT], "left_anti")
    if not tables.has_strict:
        return absent
    is_own = (F.col("p_node") == F.col(NODE)) & (F.col("p_life") == F.col(LIFE))
    at_once = absent.filter(~F.col("late") | is_own)
    later = tables.keep(absent.filter(F.col("late") & ~is_own))
    return at_once.unionByName(later.join(_behind_first(tables, later), [*PROCESS, EVENT], "left_semi"))


def _behind_first(tables: LivingTables, absent: DataFrame) -> DataFrame:
    """Return the events that somebody who stays was handed after what a joiner was handed first of all it has too."""
    others = tables.sequences.join(F.broadcast(tables.judged.select(*PROCESS)), list(PROCESS))
    theirs = others.select(
        RUN_ID, GRP, EVENT, F.col(NODE).alias(_OTHER[0]), F.col(LIFE).alias(_OTHER[1]), F.col(AT).alias("their_at")
    )
    joiners = F.broadcast(absent.select(*PROCESS, GRP).distinct())
    mine = tables.sequences.join(joiners, [*PROCESS, GRP])
    first = (
        mine.join(theirs, [RUN_ID, GRP, EVENT])
        .groupBy(*PROCESS, GRP, *_OTHER)
        .agg(F.min_by("their_at", AT).alias("first"))
    )
    missing = absent.select(*PROCESS, GRP, EVENT).join(theirs, [RUN_ID, GRP, EVENT])
    return missing.join(first, [*PROCESS, GRP, *_OTHER]).filter(F.col("first") < F.col("their_at"))


def missing(
    tables: LivingTables, absent: DataFrame, promise: str, sentence: Column, to: tuple[str, str] = (NODE, LIFE)
) -> DataFrame:
    """Return what did not come to members as violations of a promise, or as doubts where it need not have come yet.
    `to` are the columns of those to whom it should have come."""
    left = tables.judged.filter("ended").select(*PROCESS, F.lit(True).alias("left"))
    known = absent.join(F.broadcast(tables.standing), [RUN_ID, GRP], "left").join(F.broadcast(tables.until), RUN_ID)
    known = known.join(F.broadcast(left), list(PROCESS), "left")
    closed = tables.closings.select(
        RUN_ID, F.col(NODE).alias(to[0]), F.col(LIFE).alias(to[1]), F.lit(True).alias("has_closed"), "closed_at"
    )
    known = known.join(F.broadcast(closed), [RUN_ID, *to], "left")
    due = F.greatest(F.col("published_at"), F.col("owed_from")) + F.col("owed_within") <= F.col("closed_at")
    is_away = F.col("has_closed").isNotNull() & ~F.coalesce(due, F.lit(False))
    waits = F.when(F.col("strict") | F.col("live").isNull(), F.col("awaited"))
    late = F.coalesce("published_at", F.lit(0)) > F.col("until")
    why = F.coalesce(
        F.when(is_away, CLOSED_BEFORE), F.col("standstill"), waits, F.when(F.col("left"), LEFT_BEFORE),
        F.when(F.col("until").isNull(), IN_FLIGHT), F.when(late, AFTER_THE_END),
    )  # fmt: skip
    return found_or_doubted(known.withColumn("why", why), promise, sentence, events=F.array(message()))


def out_of_place(tables: LivingTables, rows: DataFrame, promise: str, sentence: Column) -> DataFrame:
    """Return processes that are not where they should be as violations, or as doubts where their group may wait."""
    known = rows.join(F.broadcast(tables.standing), [RUN_ID, GRP], "left")
    return found_or_doubted(known.withColumn("why", F.coalesce("closed", "standstill", "awaited")), promise, sentence)


def found_or_doubted(
    rows: DataFrame, promise: str, sentence: Column, events: Column | None = None, evs: Column | None = None
) -> DataFrame:
    """Return rows as violations that rest on absence, and as doubts where `why` says so."""
    in_doubt = F.col("why").isNotNull()
    return violations(
        rows, promise, F.coalesce(F.col("why"), sentence), events=events, evs=evs, absence=~in_doubt, doubtful=in_doubt
    )


def doubts(rows: DataFrame, promise: str, why: str) -> DataFrame:
    """Return rows (run_id, node, inc, grp) as doubts."""
    return violations(rows, promise, F.lit(why), doubtful=True)
