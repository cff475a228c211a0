"""Integrity over views: what is delivered was published before, as it was, in a view that the receiver is in.

Besides what holds in any run: an event is published by a member of the view it names, which is not behind the latest
view that its publisher had entered; a delivery names the epoch of the publication, and the receiver is in that view.
After a restart a process says first where it is, and what it finds in its journal may be older than that.
"""

from whence.check.integrity import UNCOMPARED
from whence.pipeline.columns import (
    EVENT,
    KIND,
    PLACE,
    PROCESS,
    RUN_ID,
    counted,
    message,
    text,
    union,
    violations,
    what,
    who,
)
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.pipeline.living.generations import which
from whence.pipeline.living.memberships import JOINED, is_kind
from whence.pipeline.living.owed import doubts
from whence.pipeline.living.tables import LivingTables
from whence.pipeline.promises import integrity
from whence.trace.schema import EPOCH, EV, GRP, PAYLOAD_CRC, Kind

PROMISE = integrity.PROMISE
NOTHING = "nothing was delivered"


def integrity_violations(tables: LivingTables) -> DataFrame:
    """Return what is wrong in any run, and publications and deliveries in wrong views; with what leaves doubts."""
    return union(
        [integrity.integrity_violations(tables), _published(tables), _delivered(tables), _uncompared(tables)]
    )  # fmt: skip


def deliveries_at_stake(tables: LivingTables) -> DataFrame:
    """Return how many deliveries each run has."""
    bare = F.when(F.count(PAYLOAD_CRC) == 0, UNCOMPARED).otherwise("")
    said = text(counted(F.count("*"), "delivery", "deliveries"), " of events as they were published", bare)
    return tables.delivered.groupBy(RUN_ID).agg(F.count("*").alias("at_stake"), said.alias("holds"))


def _known_views(tables: LivingTables, rows: DataFrame, epoch: str) -> DataFrame:
    """Return rows with whether the view of an epoch was recorded (`is_known`), and the member is in it (`is_in`)."""
    recorded = tables.views.select(RUN_ID, GRP, F.col(EPOCH).alias(epoch), F.lit(True).alias("is_known"))
    inside = tables.in_views.select(*PROCESS, GRP, F.col(EPOCH).alias(epoch), F.lit(True).alias("is_in"))
    return rows.join(F.broadcast(recorded), [RUN_ID, GRP, epoch], "left").join(
        F.broadcast(inside), [*PROCESS, GRP, epoch], "left"
    )


def _is_outside() -> Column:
    return F.col("is_known").isNotNull() & F.col("is_in").isNull()


def _published(tables: LivingTables) -> DataFrame:
    steps = tables.steps.filter(is_kind(Kind.VIEW, Kind.RESTART)).select(*PROCESS, *PLACE, KIND, EPOCH)
    line = Window.partitionBy(*PROCESS).orderBy(*PLACE)
    resumes = F.coalesce(F.lag(KIND).over(line) == Kind.RESTART.value, F.lit(False))
    entries = steps.withColumn("entered", F.when(is_kind(Kind.VIEW) & ~resumes, F.col(EPOCH)))
    marks = entries.select(*PROCESS, *PLACE, F.struct("entered").alias("mark"), F.lit(None).cast("bigint").alias(EVENT))
    rows = tables.published.select(*PROCESS, *PLACE, F.lit(None).cast("struct<entered:bigint>").alias("mark"), EVENT)
    last = F.last("mark", ignorenulls=True).over(line.rowsBetween(Window.unboundedPreceding, -1))
    where = marks.unionByName(rows).withColumn("last", last).filter(F.col(EVENT).isNotNull())
    named = tables.members.filter(F.col(JOINED).isNotNull()).select(*PROCESS, F.lit(True).alias("is_named"))
    known = tables.published.join(
        where.select(*PROCESS, *PLACE, F.col("last.entered").alias("entered")), [*PROCESS, *PLACE]
    ).join(F.broadcast(named), list(PROCESS), "left")
    known = _known_views(tables, known, EPOCH)
    wrong = F.when(
        F.col(EPOCH) < F.col("entered"),
        text(" in ", which(F.col(EPOCH)), ", after it had entered ", which(F.col("entered"))),
    ).when(F.col("is_named").isNull() | _is_outside(), text(" in ", which(F.col(EPOCH)), ", which it is not in"))
    found = known.withColumn("wrong", wrong).filter(F.col("wrong").isNotNull())
    sentence = text(who(), " published ", what(), F.col("wrong"))
    return violations(found, PROMISE, sentence, events=F.array(message()), evs=F.array(EV))


def _delivered(tables: LivingTables) -> DataFrame:
    origin = f"o_{EPOCH}"
    rows = tables.deliver_rows.filter(F.col(EVENT).isNotNull())
    known = _known_views(tables, rows, origin)
    same = F.col(EPOCH).eqNullSafe(F.col(origin))
    wrong = F.when(
        ~same, text(" as one of ", which(F.col(EPOCH)), ", and it was published in ", which(F.col(origin)))
    ).when(_is_outside(), text(" of ", which(F.col(origin)), ", which it is not in"))
    found = known.withColumn("wrong", wrong).filter(F.col("wrong").isNotNull())
    sentence = text(who(), " delivered ", what(), F.col("wrong"))
    return violations(found, PROMISE, sentence, events=F.array(message()), evs=F.array(EV))


def _uncompared(tables: LivingTables) -> DataFrame:
    one_sum = F.col(PAYLOAD_CRC).isNull() != F.col(f"o_{PAYLOAD_CRC}").isNull()
    return doubts(
        tables.delivered.filter(one_sum), PROMISE,
        "only one of a delivery and its publication has a checksum, and they cannot be compared",
    )  # fmt: skip
