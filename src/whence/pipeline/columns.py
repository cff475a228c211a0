"""The pipeline's own columns, spelled once beside those of trace/schema.py, and the sentences made of them."""

from typing import Final

import pyarrow as pa

from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.trace.layout import TYPES
from whence.trace.schema import COLUMNS, EPOCH, EV, GRP, INC, M_INC, M_PID, M_SEQ, NODE, Kind

RUN_ID, KIND = "run_id", "kind"
LIFE = "life"
"""0 where a process remembers across crashes, so that its incarnations are one process; else its incarnation."""
EVENT = "event"
"""An event's number in its run: where its first publish row lies on disk, by file and row."""
RANK = "rank"
"""An event's place among those of its publisher, by its sequence number."""
NTH = "nth"
"""The rank of a row among those of the same event: 1 for a first publication or delivery."""
FILE, ROW = "file", "row"
PROMISE, IDS_SHOWN, EVS, SENTENCE, ABSENCE = "promise", "events", "evs", "sentence", "rests_on_absence"
DOUBTFUL = "doubtful"
"""A possible violation that the rows leave open; in living runs its sentence says why."""

MESSAGE: Final = (GRP, M_PID, M_INC, M_SEQ)
PROCESS: Final = (RUN_ID, NODE, LIFE)
PLACE: Final = (INC, EV)
"""Program order within a process."""

BEFORE_ALL, AFTER_ALL = -1, 2**63 - 1

VIOLATIONS: Final = (
    f"{RUN_ID} string, {PROMISE} string, {NODE} int, {INC} int, {GRP} string, "
    f"{IDS_SHOWN} array<struct<pid:int,inc:int,seq:bigint>>, {EVS} array<bigint>, {SENTENCE} string, "
    f"{ABSENCE} boolean, {DOUBTFUL} boolean"
)
"""Violations of promises, one row each: the process, the events that show it, and a sentence."""

NEVER_NULL: Final = (NODE, INC, EV)
NEVER_NULL_IN: Final = {Kind.PUBLISH: MESSAGE, Kind.DELIVER: MESSAGE}
NEVER_NULL_ON_VIEWS: Final = {Kind.VIEW: (GRP, EPOCH)}
"""Of groups on views besides: who enters a view says which."""


def ddl_of(name: str) -> str:
    """Return the Spark type of a trace's column."""
    kind = TYPES[name]
    if pa.types.is_list(kind):
        inner = "struct<pid:int,inc:int,seq:bigint>" if pa.types.is_struct(kind.value_type) else "int"
        return f"array<{inner}>"
    simple = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string", pa.binary(): "binary"}
    return simple[kind]


TRACE_DDL: Final = ", ".join(f"{name} {ddl_of(name)}" for name in COLUMNS)


def place(inc: Column, ev: Column) -> Column:
    """Return a row's place in its process, as one value that compares."""
    return F.struct(inc.alias(INC), ev.alias(EV))


def who(node: Column | str = NODE, inc: Column | str = INC) -> Column:
    """Return the name of a process for sentences."""
    node, inc = (F.col(each) if isinstance(each, str) else each for each in (node, inc))
    later = F.concat(F.lit("process "), node.cast("string"), F.lit(" in its incarnation "), inc.cast("string"))
    return F.when(inc <= 1, F.concat(F.lit("process "), node.cast("string"))).otherwise(later)


def what(pid: str = M_PID, inc: str = M_INC, seq: str = M_SEQ) -> Column:
    """Return the name of an event for sentences."""
    return F.concat(F.lit("event "), F.col(seq).cast("string"), F.lit(" of "), who(pid, inc))


def text(*parts: Column | str) -> Column:
    """Return a sentence from its parts; null becomes `None`."""
    shown = [F.lit(part) if isinstance(part, str) else F.coalesce(part.cast("string"), F.lit("None")) for part in parts]
    return F.concat(*shown)


def counted(count: Column, one: str, many: str) -> Column:
    """Return how many of something there are."""
    return text(F.format_number(count, 0), F.when(count == 1, F.lit(f" {one}")).otherwise(F.lit(f" {many}")))


def message(pid: str = M_PID, inc: str = M_INC, seq: str = M_SEQ) -> Column:
    """Return an event's identity as witnesses show it."""
    return F.struct(F.col(pid).alias("pid"), F.col(inc).alias("inc"), F.col(seq).alias("seq"))


def violations(
    rows: DataFrame,
    promise: str,
    sentence: Column,
    *,
    events: Column | None = None,
    evs: Column | None = None,
    absence: bool | Column = False,
    doubtful: bool | Column = False,
) -> DataFrame:
    """Return the rows as violations of a promise; they have run_id, node, inc and grp."""
    shown = F.array().cast("array<struct<pid:int,inc:int,seq:bigint>>") if events is None else events
    return rows.select(
        RUN_ID, F.lit(promise).alias(PROMISE), NODE, INC, GRP, shown.alias(IDS_SHOWN),
        (F.array().cast("array<bigint>") if evs is None else evs).alias(EVS), sentence.alias(SENTENCE),
        (F.lit(absence) if isinstance(absence, bool) else absence).alias(ABSENCE),
        (F.lit(doubtful) if isinstance(doubtful, bool) else doubtful).alias(DOUBTFUL),
    )  # fmt: skip


def renewed(table: DataFrame) -> DataFrame:
    """Return a table under names of its own, for joins with others that were made from the same rows."""
    return table.select(*(F.col(name).alias(name) for name in table.columns))


def union(tables: list[DataFrame]) -> DataFrame:
    """Return the union of tables of one shape, as a flat tree: Spark Connect refuses deep plans."""
    while len(tables) > 1:
        pairs = [tables[at : at + 2] for at in range(0, len(tables), 2)]
        tables = [pair[0].unionByName(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return tables[0]


def merged_spans(spans: DataFrame, whose: tuple[str, ...]) -> DataFrame:
    """Return spans (whose, low, high) with those that overlap as one."""
    by_low = Window.partitionBy(*whose).orderBy("low", "high")
    reached = F.max("high").over(by_low.rowsBetween(Window.unboundedPreceding, -1))
    fresh = spans.withColumn("is_fresh", F.coalesce(reached < F.col("low"), F.lit(True)).cast("int"))
    numbered = fresh.withColumn("number", F.sum("is_fresh").over(by_low))
    return numbered.groupBy(*whose, "number").agg(F.min("low").alias("low"), F.max("high").alias("high"))


def in_spans(rows: DataFrame, at: Column, spans: DataFrame, whose: tuple[str, ...]) -> DataFrame:
    """Return the rows at which a number lies in one of the spans (whose, low, high) of theirs, which do not overlap.

    What lies between the first and the last is divided into as many parts of equal length as there are spans, so that
    a row meets only the few spans that touch its part, and no task holds all of them.
    """
    extent = spans.groupBy(*whose).agg(
        F.min("low").alias("begin"), F.max("high").alias("end"), F.count("*").alias("parts")
    )
    extent = F.broadcast(extent.localCheckpoint(eager=True))

    def part(number: Column) -> Column:  # as doubles, which keep the order of numbers
        begin, end = F.col("begin").cast("double"), F.col("end").cast("double")
        return F.floor((number.cast("double") - begin) / (end - begin + 1) * F.col("parts")).cast("bigint")

    touched = F.explode(F.sequence(part(F.col("low")), part(F.col("high"))))
    spread = spans.join(extent, list(whose)).withColumn("part", touched).select(*whose, "part", "low", "high")
    near = rows.join(extent, list(whose)).filter(at.between(F.col("begin"), F.col("end"))).withColumn("part", part(at))
    found = near.join(spread, [*whose, "part"]).filter(at.between(F.col("low"), F.col("high")))
    return found.select(*rows.columns)


SENT_ROWS = 250_000
"""Rows of a table that may be sent to every task: some tens of megabytes there."""


def sent_if_few(table: DataFrame) -> DataFrame:
    """Return a table that was made already, marked to be sent to every task for a join where it has few rows."""
    return F.broadcast(table) if table.limit(SENT_ROWS + 1).count() <= SENT_ROWS else table
