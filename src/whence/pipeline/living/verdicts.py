"""Verdicts about living runs: one for each run and promise, with the number of violations and a sentence."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from whence.check.expected import NO_PHASES
from whence.check.verdict import Outcome
from whence.pipeline.columns import (
    DOUBTFUL,
    EVS,
    PROMISE,
    RUN_ID,
    SENTENCE,
    counted,
    text,
)
from whence.pipeline.living import arrival, integrity, sequences
from whence.pipeline.living.promise_tables import JUDGEMENTS, LivingPromiseTables, stakes
from whence.trace.schema import INC, NODE


def living_verdict_table(tables: LivingPromiseTables, violations: DataFrame) -> DataFrame:
    """Return one verdict per run and promise."""
    asked = tables.runs.select(RUN_ID, "level", "uniform", F.posexplode("promises").alias("number", PROMISE))
    known = asked.join(_counts(violations), [RUN_ID, PROMISE], "left").join(tables.incomplete, RUN_ID, "left")
    known = known.join(stakes(tables), [RUN_ID, PROMISE], "left")
    judged = arrival.timed_runs(tables).select(RUN_ID, F.lit(True).alias("timed"))
    unplaced = tables.homeless.groupBy(RUN_ID).agg(F.count("*").alias("unplaced"))
    known = known.join(judged, RUN_ID, "left").join(unplaced, RUN_ID, "left")
    zero = {name: F.coalesce(name, F.lit(0)) for name in ("count", "at_stake", "unplaced")}
    known = known.withColumns(zero)
    return known.select(
        RUN_ID, "number", PROMISE, _judged(_outcomes()).alias("outcome"),
        F.when(_is_open(), F.lit(0)).otherwise(F.col("count")).alias("count"),
        _judged(_sentences()).alias(SENTENCE), "level",
    )  # fmt: skip


def _counts(violations: DataFrame) -> DataFrame:
    """Return, per run and promise, how many violations there are, the first one's sentence, and the doubts in words."""
    first = F.min(F.struct(NODE, INC, EVS, SENTENCE))[SENTENCE]
    certain = violations.filter(~F.col(DOUBTFUL)).groupBy(RUN_ID, PROMISE)
    found = certain.agg(F.count("*").alias("count"), first.alias("first"))
    each = violations.filter(DOUBTFUL).groupBy(RUN_ID, PROMISE, SENTENCE).agg(F.count("*").alias("cases"))
    said = text(counted(F.col("cases"), "case", "cases"), " cannot be judged: ", F.col(SENTENCE))
    doubts = each.groupBy(RUN_ID, PROMISE).agg(F.array_join(F.array_sort(F.collect_list(said)), "; ").alias("doubts"))
    return found.join(doubts, [RUN_ID, PROMISE], "full")


def _is(promise: str) -> Column:
    return F.col(PROMISE) == promise


def _is_open() -> Column:
    """Return whether a promise is not judged at all, whatever was found."""
    untimed = _is(arrival.LIVENESS) & F.col("timed").isNull()
    return untimed | (_is(sequences.UNIFORM) & ~F.col("uniform"))


def _judged(words: dict[str, Column]) -> Column:
    """Return the first word that applies, in the order in which verdicts are given."""
    unplaced = _is(integrity.PROMISE) & (F.col("unplaced") > 0)
    return (
        F.when(_is(arrival.LIVENESS) & F.col("timed").isNull(), words["untimed"])
        .when(_is(sequences.UNIFORM) & ~F.col("uniform"), words["not_set"])
        .when(F.col("count") > 0, words["broken"])
        .when(F.col("incomplete").isNotNull(), words["incomplete"])
        .when(F.col("doubts").isNotNull(), words["doubts"])
        .when(F.col("at_stake") == 0, words["nothing"])
        .when(unplaced, words["unplaced"])
        .otherwise(words["holds"])
    )


def _outcomes() -> dict[str, Column]:
    unknown = ("untimed", "incomplete", "doubts", "unplaced")
    vacuous = ("not_set", "nothing")
    return (
        {name: F.lit(Outcome.UNKNOWN.value) for name in unknown}
        | {name: F.lit(Outcome.VACUOUS.value) for name in vacuous}
        | {"broken": F.lit(Outcome.BROKEN.value), "holds": F.lit(Outcome.HOLDS.value)}
    )


def _sentences() -> dict[str, Column]:
    more = F.when(F.col("count") > 1, text(" (and ", F.col("count") - 1, " more)")).otherwise("")
    nothing = F.lit("nothing was at stake")
    for promise, each in JUDGEMENTS.items():
        nothing = F.when(_is(promise), each.nothing).otherwise(nothing)
    unplaced = counted(F.col("unplaced"), "event was", "events were")
    return {
        "untimed": F.lit(NO_PHASES),
        "not_set": F.lit("the group does not promise it: it runs without `uniform`"),
        "broken": F.concat(F.col("first"), more),
        "incomplete": F.col("incomplete"),
        "doubts": F.col("doubts"),
        "nothing": nothing,
        "unplaced": text("nobody recorded the view that ", unplaced, " published in"),
        "holds": F.col("holds"),
    }
