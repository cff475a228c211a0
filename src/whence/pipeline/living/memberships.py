"""Memberships: which member of which group every row of a living run is a step of.

A membership is what a trace shows of one member: rows of one process in one group, in program order. It ends for good
with a leave row or a wiped disk, and without journals with a crash. Without journals each incarnation is another one.
A row that names another epoch as the one that added the process begins another one too. What happens to the process as
a whole, a crash or a restart, happens in all groups of the run. A crash after the end belongs to nobody: it tells only
that the process is down.

All of it is one sort of every process's rows, and running values along it.
"""

from typing import Final

from whence.pipeline.columns import KIND, LIFE, PROCESS, RUN_ID, place, union
from whence.pipeline.deliveries import with_memory
from whence.pipeline.frames import Column, DataFrame, F, Window, WindowSpec
from whence.pipeline.living.generations import line_of
from whence.trace.schema import (
    EPOCH,
    EV,
    GRP,
    IDS,
    INC,
    M_INC,
    M_PID,
    M_SEQ,
    NODE,
    REASON,
    T_TRUE,
    VALUE,
    Kind,
)

RECEIPTS: Final = ("stored", "majority", "settled")
"""Reasons of notes: how far the publisher was told that its events came."""
LEFT, UNKNOWN_VERDICT, WIPED, UNSUPPLIABLE = "left", "removed_unknown", "wiped", "unsuppliable"
FORCED: Final = "forced"
"""The reason of notes: a member entered an operator's view."""
OUTSIDE: Final = "outside"
"""The reason of notes: a member that is out learnt of a view."""

TURNS: Final = (Kind.CRASH, Kind.RESTART)
IN_LINE: Final = (Kind.PUBLISH, Kind.DELIVER, Kind.GAP, Kind.JOIN, Kind.LEAVE, Kind.VIEW, Kind.NOTE, *TURNS)

JOINED, NONCE = "joined", "nonce"
"""The epoch of the view that added a member, and the incarnation that asked for it."""

_LINE: Final = (RUN_ID, NODE, GRP)
_STEP: Final = (KIND, INC, EV, REASON, "durable")


def is_kind(*kinds: Kind) -> Column:
    """Return whether a row is of one of these kinds."""
    return F.col(KIND).isin([kind.value for kind in kinds])


def told_rows(rows: DataFrame) -> DataFrame:
    """Return the rows that are steps of a member of the group they name."""
    named = rows.filter(~is_kind(*TURNS) & F.col(GRP).isNotNull())
    return named.filter(~is_kind(Kind.NOTE) | F.col(REASON).isin(list(RECEIPTS)))


def step_table(runs: DataFrame, named: DataFrame, turns: DataFrame) -> DataFrame:
    """Return the steps of all memberships: LIFE numbers those of a process. `beyond` is a crash after the end.

    `turns` are the crashes and restarts, one for each group in which they happen.
    """
    steps = with_memory(runs, union([named, turns.select(*named.columns)]).drop(LIFE)).repartition(RUN_ID, NODE)
    line = Window.partitionBy(*_LINE).orderBy(INC, EV)
    lives = Window.partitionBy(RUN_ID, NODE).orderBy(GRP, INC, EV)
    steps = _with_crashes_beyond(steps, line)
    steps = steps.withColumn("cut", _is_cut(line)).withColumn("stretch", F.sum(F.col("cut").cast("int")).over(line))
    steps = _with_claims(steps, line)
    return steps.withColumn(LIFE, F.sum(F.col("begins").cast("int")).over(lives).cast("int"))


def _before(line: WindowSpec) -> WindowSpec:
    return line.rowsBetween(Window.unboundedPreceding, -1)


def _with_crashes_beyond(steps: DataFrame, line: WindowSpec) -> DataFrame:
    """Find the crashes after the end of a membership: after a leave, after a wiped disk, and without a journal after
    another crash or in another incarnation."""
    before, here = _before(line), place(F.col(INC), F.col(EV))
    crash = is_kind(Kind.CRASH)
    other = F.last(F.when(~crash, F.struct(*_STEP)), ignorenulls=True).over(before)
    known = steps.withColumns({
        "_other": other,
        "_fatal": F.max(F.when(crash & ((F.col(REASON) == WIPED) | ~F.col("durable")), here)).over(before),
    })  # fmt: skip
    at = place(F.col("_other.inc"), F.col("_other.ev"))
    over = F.col("_fatal").isNotNull() & (F.col("_other").isNull() | (F.col("_fatal") > at))
    over = over | F.coalesce(_is_another(F.col("_other")), F.lit(False))
    left = F.coalesce(F.col(f"_other.{KIND}") == Kind.LEAVE.value, F.lit(False))
    return known.withColumn("beyond", crash & (left | over)).drop("_other", "_fatal")


def _is_another(last: Column) -> Column:
    """Return whether a step is one of another incarnation, which does not go on from that of an earlier step."""
    return (last[INC] != F.col(INC)) & ~(F.col("durable") & last["durable"])


def _is_cut(line: WindowSpec) -> Column:
    """Return whether a step begins another membership, whatever it says of itself."""
    last = F.last(F.when(~F.col("beyond"), F.struct(*_STEP)), ignorenulls=True).over(_before(line))
    ended = (last[KIND] == Kind.LEAVE.value) | (
        (last[KIND] == Kind.CRASH.value) & (~last["durable"] | (F.coalesce(last[REASON], F.lit("")) == WIPED))
    )
    anew = is_kind(Kind.RESTART) & F.coalesce(F.col(REASON) == WIPED, F.lit(False))
    return ~F.col("beyond") & (last.isNull() | F.coalesce(ended | _is_another(last), F.lit(False)) | anew)


def _with_claims(steps: DataFrame, line: WindowSpec) -> DataFrame:
    """Find what steps say of the member: the epoch that added it, and the incarnation that asked."""
    own = F.get(F.filter(IDS, lambda member: member["pid"] == F.col(NODE)), F.lit(0))
    views = is_kind(Kind.VIEW)
    known = steps.withColumn("own", F.when(views, own)).withColumn(
        "claim", F.when(views, F.col("own.seq")).when(is_kind(Kind.JOIN), F.col(EPOCH))
    )
    said = F.last(F.when(F.col("claim").isNotNull(), F.struct("stretch", "claim")), ignorenulls=True)
    known = known.withColumn("_said", said.over(_before(line)))
    same = F.coalesce(F.col("_said.stretch") == F.col("stretch"), F.lit(False))
    begins = F.col("cut") | (same & F.coalesce(F.col("_said.claim") != F.col("claim"), F.lit(False)))
    asked = F.when(views & F.col("own").isNotNull(), F.struct(F.col("own.inc").alias(NONCE))).when(
        is_kind(Kind.JOIN) & (~same | begins), F.struct(F.col(VALUE).cast("int").alias(NONCE))
    )
    return known.withColumns({"begins": begins, "asked": asked}).drop("_said", "own")


def membership_table(steps: DataFrame, views: DataFrame) -> DataFrame:
    """Return every membership: whose it is, since which view, how it began and ended. `back`: it did something since
    its process was last restarted; who says nothing had ended, and died before the row that tells it."""
    here = place(F.col(INC), F.col(EV))
    within = ~F.col("beyond")
    live = F.struct(INC, EV, T_TRUE)
    survives = is_kind(Kind.VIEW) & (line_of(F.col("claim")) != line_of(F.col(EPOCH)))
    out = F.struct(INC, EV, T_TRUE, EPOCH, REASON, M_PID, M_INC, M_SEQ)
    wiped = F.coalesce(F.col(REASON) == WIPED, F.lit(False))
    ends = is_kind(Kind.LEAVE) | (is_kind(Kind.CRASH) & (~F.col("durable") | wiped))
    last_done = F.coalesce(F.max_by(KIND, F.when(within & ~is_kind(Kind.CRASH), here)), F.lit(""))
    found = steps.groupBy(*PROCESS, GRP).agg(
        F.min(F.when(within, F.col(INC))).alias("first_inc"), F.max(F.when(within, F.col(INC))).alias(INC),
        F.max("claim").alias(JOINED), F.max_by("asked", F.when(F.col("asked").isNotNull(), here))[NONCE].alias(NONCE),
        F.min_by(live, F.when(is_kind(Kind.JOIN) | F.coalesce(survives, F.lit(False)), here)).alias("live"),
        F.max_by(out, F.when(is_kind(Kind.LEAVE), here)).alias("out"),
        F.bool_or(within & ends).alias("ended"), F.max_by("durable", F.when(within, here)).alias("durable"),
        F.coalesce(F.max_by(KIND, F.when(is_kind(*TURNS), here)) != Kind.CRASH.value, F.lit(True)).alias("up"),
        F.bool_and(is_kind(*TURNS)).alias("silent"),
        (last_done != Kind.RESTART.value).alias("back"),
        F.min_by(T_TRUE, F.when(within, here)).alias("began_at"),
    )  # fmt: skip
    in_group = Window.partitionBy(*_LINE).orderBy(LIFE)
    known = found.withColumn("goes_on", F.lag(F.col("out").isNull(), 1, True).over(in_group))
    return _named_by_views(known, views)


def _named_by_views(found: DataFrame, views: DataFrame) -> DataFrame:
    """Name the memberships whose own rows do not, where exactly one member of all views fits."""
    members = (
        views.select(RUN_ID, GRP, F.explode("members").alias("member"))
        .select(RUN_ID, GRP, F.col("member.pid").alias(NODE), F.col("member.inc").alias("_nonce"),
                F.col("member.seq").alias("_joined"))
        .distinct()
    )  # fmt: skip
    taken = found.filter(F.col(JOINED).isNotNull()).select(RUN_ID, GRP, NODE, F.col(JOINED).alias("_joined"))
    free = members.join(taken, [RUN_ID, GRP, NODE, "_joined"], "left_anti")
    bare = found.filter(F.col(JOINED).isNull()).select(*PROCESS, GRP, "first_inc", INC)
    fitting = (
        bare.join(free, [RUN_ID, GRP, NODE])
        .filter(F.col("_nonce").between(F.col("first_inc"), F.col(INC)))
        .groupBy(*PROCESS)
        .agg(F.count("*").alias("_fitting"), F.min("_nonce").alias("_nonce"), F.min("_joined").alias("_joined"))
        .filter("_fitting = 1")
    )
    named = found.join(fitting, list(PROCESS), "left")
    return named.withColumns(
        {JOINED: F.coalesce(JOINED, "_joined"), NONCE: F.coalesce(F.col("_nonce"), F.col(NONCE))}
    ).drop("_nonce", "_joined", "_fitting")
