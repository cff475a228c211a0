"""Stamps: keys grow along every edge that generates happened-before; the rest follows because order is transitive.

The edges are program order between publications of a process, and from a delivery to the next publication: what a
process publishes has a greater key than everything it published or delivered before. One running maximum per process.
Only runs whose events have keys say anything.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from whence.pipeline.columns import EVENT, PLACE, PROCESS, message, text, violations, what, who
from whence.pipeline.deliveries import Tables
from whence.trace.schema import EV, GRP, K_HI, K_LO, K_MID, M_INC, M_PID, M_SEQ

PROMISE = "stamps"


def against_stamps(tables: Tables) -> DataFrame:
    """Return publications whose key is not greater than that of something their publisher knew."""
    key = F.struct(K_HI, F.coalesce(K_MID, F.lit(0)).alias(K_MID), K_LO)
    shape = (*PROCESS, *PLACE, GRP, M_PID, M_INC, M_SEQ)
    published = tables.published.select(*shape, key.alias("key"), F.lit(True).alias("is_publish"))
    known = F.struct(
        F.col(f"o_{K_HI}").alias(K_HI), F.coalesce(f"o_{K_MID}", F.lit(0)).alias(K_MID), F.col(f"o_{K_LO}").alias(K_LO)
    )
    heard = tables.arrivals.filter(F.col(EVENT).isNotNull()).select(
        *shape, known.alias("key"), F.lit(False).alias("is_publish")
    )
    line = Window.partitionBy(*PROCESS).orderBy(*PLACE).rowsBetween(Window.unboundedPreceding, -1)
    before = F.max(F.struct("key", M_PID, M_INC, M_SEQ)).over(line)
    steps = published.unionByName(heard).filter(F.col(f"key.{K_HI}").isNotNull()).withColumn("before", before)
    low = steps.filter(F.col("is_publish") & (F.col("before.key") >= F.col("key")))
    low = low.select(
        "*", *(F.col(f"before.{name}").alias(f"b_{name}") for name in (M_PID, M_INC, M_SEQ))
    )  # fmt: skip
    then = (f"b_{M_PID}", f"b_{M_INC}", f"b_{M_SEQ}")
    sentence = text(who(), " published ", what(), " with a key that is not greater than that of ", what(*then))
    return violations(low, PROMISE, sentence, events=F.array(message(), message(*then)), evs=F.array(EV))
