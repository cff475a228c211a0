"""Views: at the end, partial views name the living, know every one of them, and never their owner.

(a) No last view of a live member names a node that was gone for good before the faults stopped; (b) every member since
the liveness phase began was named by another live member since; (c) no view ever names its owner; (d) every process
that has been up since the liveness phase began is a member. All but (c) need true time: who was there, and since when.
"""

from whence.pipeline.columns import AFTER_ALL, PROCESS, RUN_ID, text, union, violations, who
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import DataFrame, F, Window
from whence.trace.schema import DESTS, EV, GRP, INC, NODE, T_TRUE, Kind

PROMISE = "views"


def view_violations(tables: RunTables) -> DataFrame:
    """Return views that name their owner or the gone, and processes that nobody knows or that were never let in."""
    seen = tables.rows_of(Kind.VIEW).select(*PROCESS, INC, EV, GRP, T_TRUE, F.col(DESTS).alias("view"))
    phased = tables.runs.filter("live_from is not null").select(RUN_ID, "live_from", "heal_at")
    phased = phased.join(untimed_runs(tables), RUN_ID, "left_anti")
    watched = seen.select(RUN_ID).distinct().join(F.broadcast(phased), RUN_ID)
    members = _members(tables)
    return union(
        [
            _owners(seen),
            _ghosts(seen, members, watched),
            _unnamed(seen, members, watched),
            _shut_out(tables, members, watched),
        ]
    )


def untimed_runs(tables: RunTables) -> DataFrame:
    """Return the runs in which a row that tells who was there, or who knew whom, has no true time."""
    return (
        tables.rows_of(Kind.VIEW, Kind.JOIN, Kind.LEAVE, Kind.CRASH)
        .filter(F.col(T_TRUE).isNull())
        .select(RUN_ID)
        .distinct()
    )


def _members(tables: RunTables) -> DataFrame:
    """Return every stay with whether it makes a live member, and when it ended where it does not."""
    crashed = tables.rows_of(Kind.CRASH).groupBy(*PROCESS).agg(F.max_by(T_TRUE, F.struct(INC, EV)).alias("crashed_at"))
    known = tables.stays.join(tables.processes.select(*PROCESS, INC, "up"), list(PROCESS)).join(
        crashed, list(PROCESS), "left"
    )  # fmt: skip
    ended = F.when(F.col("until") == AFTER_ALL, F.coalesce("crashed_at", F.lit(AFTER_ALL))).otherwise(F.col("until"))
    return known.withColumn("live", (F.col("until") == AFTER_ALL) & F.col("up")).withColumn("ended", ended)


def _owners(seen: DataFrame) -> DataFrame:
    own = seen.filter(F.array_contains("view", F.col(NODE)))
    return violations(own, PROMISE, text(who(), " had itself in its view"), evs=F.array(EV))


def _ghosts(seen: DataFrame, members: DataFrame, watched: DataFrame) -> DataFrame:
    of_node = members.groupBy(RUN_ID, GRP, NODE).agg(
        F.bool_or("live").alias("alive"), F.max(F.when(~F.col("live"), F.col("ended"))).alias("ended")
    )
    gone = of_node.join(F.broadcast(watched), RUN_ID).filter(~F.col("alive") & (F.col("ended") < F.col("heal_at")))
    latest = Window.partitionBy(*PROCESS, GRP).orderBy(F.desc(INC), F.desc(EV))
    last = seen.withColumn("nth", F.row_number().over(latest)).filter("nth = 1")
    last = last.join(members.filter("live").select(*PROCESS, GRP), [*PROCESS, GRP])
    named = last.select(*PROCESS, INC, EV, GRP, F.explode("view").alias("ghost"))
    ghosts = named.join(gone.select(RUN_ID, GRP, F.col(NODE).alias("ghost")), [RUN_ID, GRP, "ghost"])
    sentence = text(
        who(), " still has process ", F.col("ghost"), " in its view, which was gone for good before the faults stopped"
    )
    return violations(ghosts, PROMISE, sentence, evs=F.array(EV), absence=True)


def _unnamed(seen: DataFrame, members: DataFrame, watched: DataFrame) -> DataFrame:
    live = members.filter("live").join(F.broadcast(watched), RUN_ID)
    named = (
        seen.join(live.select(*PROCESS, GRP, "live_from"), [*PROCESS, GRP])
        .filter(F.col(T_TRUE) >= F.col("live_from"))
        .select(RUN_ID, GRP, NODE, F.explode("view").alias("other"))
        .filter(F.col("other") != F.col(NODE))
        .select(RUN_ID, GRP, F.col("other").alias(NODE))
        .distinct()
    )
    company = live.groupBy(RUN_ID, GRP).agg(F.count("*").alias("living")).filter("living > 1")
    steady = live.filter(F.col("since") <= F.col("live_from")).join(company, [RUN_ID, GRP])
    unknown = steady.join(named, [RUN_ID, GRP, NODE], "left_anti")
    sentence = text(who(), " was in nobody's view whenever one was recorded, so nothing reaches it")
    return violations(unknown, PROMISE, sentence, absence=True)


def _shut_out(tables: RunTables, members: DataFrame, watched: DataFrame) -> DataFrame:
    groups = tables.founders.select(RUN_ID, GRP).distinct()
    since = tables.processes.join(F.broadcast(watched), RUN_ID).filter(
        F.col("up") & F.col("has_rows") & ~F.col("left") & (F.col("began") < F.col("live_from"))
    )
    outside = since.join(groups, RUN_ID).join(
        members.filter("live").select(*PROCESS, GRP), [*PROCESS, GRP], "left_anti"
    )  # fmt: skip
    sentence = text(who(), " was up since before the liveness phase and was never let in")
    return violations(outside, PROMISE, sentence, absence=True)
