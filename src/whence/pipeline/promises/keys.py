"""Keys: an event has one key, everywhere and alone, and keys tell in which order events are delivered and follow.

Keys grow along every edge that generates happened-before, program order between publications and from a delivery to
the next publication, and along every process's deliveries; the rest follows because order is transitive. One running
maximum per process and group each. Rows without a key say nothing; where others have one, or the level gives one to
all, that is no proof.
"""

from whence.pipeline.columns import (
    EVENT,
    PLACE,
    PROCESS,
    RUN_ID,
    message,
    renewed,
    text,
    union,
    violations,
    what,
    who,
)
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.trace.schema import EV, GRP, K_HI, K_LO, K_MID, M_INC, M_PID, M_SEQ

PROMISE = "keys"

_NAME = (M_PID, M_INC, M_SEQ)
_THEN = tuple(f"b_{name}" for name in _NAME)
_SHAPE = (*PROCESS, *PLACE, GRP, *_NAME)


def key(prefix: str = "") -> Column:
    """Return the key of a row, or of its event's publication (prefix o_), as one value that compares; or null."""
    high, middle, low = (F.col(f"{prefix}{name}") for name in (K_HI, K_MID, K_LO))
    parts = F.struct(high.alias(K_HI), F.coalesce(middle, F.lit(0)).alias(K_MID), F.coalesce(low, F.lit(0)).alias(K_LO))
    return F.when(high.isNotNull(), parts)


def key_violations(tables: RunTables) -> DataFrame:
    """Return keys that events share or change, and deliveries and publications whose key is not the greatest so far."""
    return union([_shared(tables), _changed(tables), _unordered(tables), _low(tables)])


def keyed_rows(tables: RunTables) -> DataFrame:
    """Return how many publications and first deliveries every run has, and how many of them have a key."""
    rows = union([table.select(RUN_ID, key().alias("key")) for table in (tables.published, tables.delivered)])
    return rows.groupBy(RUN_ID).agg(F.count("key").alias("keyed"), F.count("*").alias("to_key"))


def _shared(tables: RunTables) -> DataFrame:
    same = Window.partitionBy(RUN_ID, GRP, "key").orderBy(EVENT)
    keyed = tables.published.withColumn("key", key()).filter("key is not null")
    rows = keyed.withColumn("first", F.first(F.struct(*_NAME)).over(same)).withColumn("n", F.row_number().over(same))
    again = _with_before(rows.filter("n > 1"), "first")
    sentence = text(what(), " was published with the key of ", what(*_THEN))
    return violations(again, PROMISE, sentence, events=F.array(message(), message(*_THEN)), evs=F.array(EV))


def _changed(tables: RunTables) -> DataFrame:
    other = tables.delivered.filter(F.coalesce(key() != key("o_"), F.lit(False)))
    sentence = text(who(), " delivered ", what(), " with another key than it was published with")
    return violations(other, PROMISE, sentence, events=F.array(message()), evs=F.array(EV))


def _unordered(tables: RunTables) -> DataFrame:
    line = Window.partitionBy(*PROCESS, GRP).orderBy(*PLACE).rowsBetween(Window.unboundedPreceding, -1)
    rows = tables.delivered.select(*_SHAPE, key().alias("key")).filter("key is not null")
    # Of equal keys the first one stands: a struct compares by its next field, so that must fall along the line.
    before = F.max(F.struct("key", *((-F.col(name)).alias(f"-{name}") for name in PLACE), *_NAME, EV)).over(line)
    late = rows.withColumn("before", before).filter(F.col("key") <= F.col("before.key"))
    late = _with_before(late, "before").withColumn("early_ev", F.col(f"before.{EV}"))
    sentence = text(who(), " delivered ", what(), " after ", what(*_THEN), ", whose key is not smaller")
    shown = F.array(message(), message(*_THEN))
    return violations(late, PROMISE, sentence, events=shown, evs=F.array("early_ev", EV))


def _low(tables: RunTables) -> DataFrame:
    published = tables.published.select(*_SHAPE, key().alias("key"), F.lit(True).alias("is_publish"))
    # Only what publishers delivered counts, and mostly few publish.
    publishers = F.broadcast(renewed(tables.published.select(*PROCESS).distinct()))
    heard = tables.delivered.join(publishers, list(PROCESS), "left_semi")
    heard = heard.select(*_SHAPE, key("o_").alias("key"), F.lit(False).alias("is_publish"))
    line = Window.partitionBy(*PROCESS, GRP).orderBy(*PLACE).rowsBetween(Window.unboundedPreceding, -1)
    before = F.max(F.struct("key", *((-F.col(name)).alias(f"-{name}") for name in PLACE), *_NAME)).over(line)
    steps = published.unionByName(heard).filter("key is not null").withColumn("before", before)
    low = _with_before(steps.filter(F.col("is_publish") & (F.col("key") <= F.col("before.key"))), "before")
    sentence = text(who(), " published ", what(), " with a key that is not greater than that of ", what(*_THEN))
    return violations(low, PROMISE, sentence, events=F.array(message(), message(*_THEN)), evs=F.array(EV))


def _with_before(rows: DataFrame, name: str) -> DataFrame:
    """Return rows with the identity of the event that a struct tells of, as columns."""
    return rows.select("*", *(F.col(f"{name}.{part}").alias(f"b_{part}") for part in _NAME))
