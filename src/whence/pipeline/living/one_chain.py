"""One chain: there is one view per epoch, for everybody, for ever (views 1 and 8).

Whoever enters an epoch enters the view that the first one entered, and is in it once. Who is in a view was in the one
before, or was added by this one. A member enters views one by one and never goes back. One process acts for a member:
the incarnation that asked for it, or, with a journal, a later one that has not lost its disk since.
"""

from whence.pipeline.columns import LIFE, PLACE, PROCESS, RUN_ID, counted, text, union, violations, who
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.pipeline.living.generations import view_name, which
from whence.pipeline.living.memberships import JOINED, NONCE, WIPED
from whence.pipeline.living.tables import LivingTables
from whence.trace.schema import DESTS, EPOCH, EV, GRP, INC, NODE, REASON, Kind

PROMISE = "one_chain"
NOTHING = "no epoch was entered by two members"


def chain_violations(tables: LivingTables) -> DataFrame:
    """Return views that differ or do not follow from the one before, wrong entries, and wrong actors."""
    return union([_rows(tables), _steps(tables), _entries(tables), _actors(tables), _owners(tables)])


def views_at_stake(tables: LivingTables) -> DataFrame:
    """Return how many epochs of each run were entered more than once."""
    said = text(counted(F.count("*"), "view", "views"), ", one per epoch, whoever entered it")
    return tables.views.groupBy(RUN_ID).agg(F.count_if(F.col("entries") > 1).alias("at_stake"), said.alias("holds"))


def _rows(tables: LivingTables) -> DataFrame:
    first = tables.views.select(
        RUN_ID, GRP, EPOCH, F.col("members").alias("first_members"), F.col("voters").alias("first_voters")
    )
    rows = tables.view_rows.join(F.broadcast(first), [RUN_ID, GRP, EPOCH])
    pids = F.transform("members", lambda member: member["pid"])
    both = (F.coalesce("voters", F.lit(0)) != 0) & (F.coalesce("first_voters", F.lit(0)) != 0)
    differs = (F.col("members") != F.col("first_members")) | (both & (F.col("voters") != F.col("first_voters")))
    named = F.coalesce(DESTS, F.array().cast("array<int>"))
    wrong = (
        F.when(
            differs,
            text("entered another ", which(F.col(EPOCH)), " than others did: ", _told("members"), ", not ",
                 _told("first_members")),
        )
        .when(~F.array_contains(pids, F.col(NODE)), text("entered ", which(F.col(EPOCH)), ", which it is not in"))
        .when(
            (F.size(F.array_distinct(pids)) != F.size(pids)) | (named != pids),
            text("entered ", which(F.col(EPOCH)), ", in which one process is there twice or is named wrongly"),
        )
    )  # fmt: skip
    found = rows.withColumn("wrong", wrong).filter(F.col("wrong").isNotNull())
    return violations(found, PROMISE, text(who(), " ", F.col("wrong")), evs=F.array(EV))


def _told(name: str) -> Column:
    shown = F.transform(
        name, lambda each: F.concat(each["pid"].cast("string"), F.lit(" since "), view_name(each["seq"]))
    )
    return F.array_join(shown, ", ")


def _steps(tables: LivingTables) -> DataFrame:
    before = tables.views.select(RUN_ID, GRP, (F.col(EPOCH) + 1).alias(EPOCH), F.col("members").alias("before"))
    each = tables.views.join(before, [RUN_ID, GRP, EPOCH]).select(
        RUN_ID, GRP, EPOCH, NODE, INC, EV, "before", F.explode("members").alias("member")
    )
    strange = each.filter(
        (F.col("member.seq") != F.col(EPOCH)) & ~F.exists("before", lambda other: other == F.col("member"))
    )
    sentence = text(
        "process ", F.col("member.pid"), " is in ", which(F.col(EPOCH)), " as a member since ",
        view_name(F.col("member.seq")), ", and ", which(F.col(EPOCH) - 1), " did not have that member",
    )  # fmt: skip
    return violations(strange, PROMISE, sentence, evs=F.array(EV))


def _entries(tables: LivingTables) -> DataFrame:
    line = Window.partitionBy(*PROCESS).orderBy(*PLACE)
    rows = tables.steps_of(Kind.VIEW).select(*PROCESS, *PLACE, GRP, EPOCH)
    rows = rows.withColumn("before", F.lag(F.struct(EPOCH, INC, EV)).over(line)).filter("before is not null")
    came = F.col(f"before.{EPOCH}")
    back, skipped = F.col(EPOCH) < came, (F.col(EPOCH) > came + 1) & (F.col("before.inc") == F.col(INC))
    wrong = rows.filter(back | skipped)
    does = F.when(back, " went back from ").otherwise(" jumped from ")
    sentence = text(who(), does, which(came), " to ", which(F.col(EPOCH)))
    return violations(wrong, PROMISE, sentence, evs=F.array("before.ev", EV), absence=F.col(EPOCH) > came)


def _actors(tables: LivingTables) -> DataFrame:
    wipes = (
        tables.rows_of(Kind.CRASH).filter(F.col(REASON) == WIPED)
        .groupBy(RUN_ID, NODE).agg(F.collect_set(INC).alias("wipes"))
    )  # fmt: skip
    known = tables.members.filter(f"{NONCE} is not null and {JOINED} is not null")
    known = known.join(F.broadcast(wipes), [RUN_ID, NODE], "left")
    lost = F.coalesce(F.exists("wipes", lambda inc: (F.col(NONCE) <= inc) & (inc < F.col(INC))), F.lit(False))
    acts = F.when(F.col("durable") | (F.col(NONCE) == 0), F.col(INC) >= F.col(NONCE)).otherwise(
        F.col(INC) == F.col(NONCE)
    )
    wrong = known.filter(lost | ~acts)
    wiped = F.when(lost, ", and the disk was wiped meanwhile").otherwise("")
    sentence = text(who(), " acts for the member that its incarnation ", F.col(NONCE), " asked for", wiped)
    return violations(wrong, PROMISE, sentence)


def _owners(tables: LivingTables) -> DataFrame:
    same = Window.partitionBy(RUN_ID, GRP, NODE, JOINED).orderBy(LIFE)
    named = tables.members.filter(F.col(JOINED).isNotNull())
    again = named.withColumns({"nth": F.row_number().over(same), "first": F.first(INC).over(same)}).filter("nth > 1")
    sentence = text(
        who(), " acts for the member that joined in ", which(F.col(JOINED)), ", which ", who(NODE, "first"), " had been"
    )
    return violations(again, PROMISE, sentence)
