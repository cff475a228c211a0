"""Batch merge: publishers' logs become one causal, deterministic order, per group or over all groups.

The order is the key, so it is the same for any partitioning, any arrival order and any machine. A narrow look at the
keys comes first: a sample of them says where to cut the order into parts, and a count says how many rows of which group
each part gets and which bits of the keys differ at all. Then the rows go through one exchange and one sort, and their
positions follow from it: `pos` is the row's number in its part plus the rows of the parts before. A group
of any size is spread over parts; small groups share one. What readers may rely on is `pos` and the key; the lines of a
file are in that order too. A directory counts when its _SUCCESS file is there, which is written last.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

from whence.errors import UsageError
from whence.pipeline.frames import Column, DataFrame, F, Row
from whence.pipeline.logs import (
    DONE,
    GRP,
    HEARTBEAT,
    INC,
    INC_BITS,
    K_HI,
    K_LO,
    KEY,
    LOG,
    ORDER,
    PID,
    POS,
    REASON,
    SEQ,
    SEQ_BITS,
)
from whence.pipeline.session import first_line, is_connected
from whence.pipeline.sole_writer import CLAIM, sole_writer
from whence.pipeline.sort_key import KeyPacking, key_packing
from whence.pipeline.storage import AnyPath, UriPath, entries, listed, put_new, remove

PARTS_MAX: Final = 128
"""Parts an order is cut into at most: a part may be larger than memory, since sorts spill to disk."""
SAMPLES_PER_PART: Final = 100
_LOOKED_AT: Final = 1 / 64
"""The part of the rows that a sample is drawn from at first; where these are few, it is drawn from all."""
WRITERS_MAX: Final = 32
"""Files that a task may have open at once; more groups in a part than this are sorted by group first."""
GROUPS_IN_PLAN: Final = 128
"""Groups that are looked up in a table of the plan itself; more are joined."""

_IN_PARTITION: Final = (1 << 33) - 1
"""The bits of Spark's growing ids that count rows within a partition."""
_PART, _CODE, _DRAWN = "part", "code", "drawn"
_MARKS: Final = "mapreduce.fileoutputcommitter.marksuccessfuljobs"

Cut: TypeAlias = tuple[Any, ...]
"""Where a part begins: (group, high word of the key), or the word alone where all groups are one order."""


class Layout(NamedTuple):
    """Where each row of a log goes, and what its position is counted from."""

    by_group: bool
    cuts: list[Cut]
    groups: list[str]
    base: list[int]
    """By part + number of the group, which grows along the order: what to add to a row's number in its part."""
    packing: KeyPacking
    is_decided: bool
    """Whether the key alone decides, because no two events have the same."""
    rows: int
    writers: int


def events_of_groups(log: DataFrame, groups: list[str] | None) -> DataFrame:
    """Return the events of some groups, or of all: rows that have a place in the order, without heartbeats."""
    events = log.filter(F.col(REASON).isNull() & ~F.col(HEARTBEAT)).select(*LOG)
    return events if groups is None else events.filter(F.col(GRP).isin(groups))


# --- the layout ---


_COMPUTED_LOW: Final = f"shiftleft({PID}, {INC_BITS + SEQ_BITS}) | shiftleft(bigint({INC}), {SEQ_BITS}) | {SEQ}"
"""The low word of a key that holds publisher, incarnation and number, so that it is unique."""


def layout_of(log: DataFrame, parts: int, *, by_group: bool, unique_across_groups: bool = False) -> Layout:
    """Return the layout of an order in parts, from a look at the keys of events.

    `unique_across_groups`: no two events of a publisher have the same number, in whatever groups they are.
    """
    sample = _sampled(log, min(parts, PARTS_MAX))
    cuts = _cuts_in(sample, min(parts, PARTS_MAX), by_group=by_group)
    some = sample[0] if sample else dict.fromkeys(KEY, 0)
    words = [f"bit_or({name} ^ {some[name] or 0}L) as {name}" for name in KEY]
    tied = f"count_if(not ({INC} < {1 << INC_BITS} and {K_LO} <=> ({_COMPUTED_LOW}))) as tied"
    by = [_PART, *([GRP] if by_group else [])]
    placed = _in_parts(log, cuts, by_group=by_group)
    cells = placed.groupBy(*by).agg(F.count("*").alias("rows"), *map(F.expr, (tied, *words))).collect()
    groups = sorted({cell[GRP] for cell in cells}) if by_group else []
    packing = key_packing([_any_bits(cell[name] for cell in cells) for name in KEY], len(groups))
    sizes = {(cell[_PART], groups.index(cell[GRP]) if by_group else 0): cell["rows"] for cell in cells}
    per_part = [sum(1 for part, _ in sizes if part == each) for each in range(len(cuts) + 1)]
    return Layout(
        by_group, cuts, groups, _bases(sizes, len(cuts) + max(1, len(groups))), packing,
        (by_group or unique_across_groups) and not any(cell["tied"] for cell in cells), sum(sizes.values()),
        max(per_part),
    )  # fmt: skip


def _sampled(log: DataFrame, parts: int) -> list[Row]:
    """Return the groups and keys of some rows, from which to cut so many parts."""
    if parts <= 1:
        return []
    most = SAMPLES_PER_PART * parts
    drawn = log.select(GRP, *KEY, F.rand(1).alias(_DRAWN))
    rows = drawn.filter(F.col(_DRAWN) < _LOOKED_AT).orderBy(_DRAWN).limit(most).collect()
    return rows if len(rows) == most else drawn.orderBy(_DRAWN).limit(most).collect()


def _cuts_in(sample: list[Row], parts: int, *, by_group: bool) -> list[Cut]:
    """Return the cuts that make parts of about equal size: quantiles of a sample."""
    keys = sorted((row[GRP], row[K_HI]) if by_group else (row[K_HI],) for row in sample)
    at = [keys[number * len(keys) // parts] for number in range(1, parts)] if keys else []
    return sorted({cut for cut in at if cut > keys[0]})


def _any_bits(words: Iterable[int | None]) -> int:
    """Return the bits that are set in any of some words: bits that differ, if each word is what differs in some rows
    from one and the same row."""
    found = 0
    for word in words:
        found |= word or 0
    return found & ((1 << 64) - 1)


def _bases(sizes: dict[tuple[int, int], int], count: int) -> list[int]:
    """Return what to add to a row's number in its part, by part + group: its group's rows before, less others' here."""
    base, before, here = [0] * count, dict[int, int](), dict[int, int]()
    for (part, group), rows in sorted(sizes.items()):
        base[part + group] = before.get(group, 0) - here.get(part, 0)
        before[group] = before.get(group, 0) + rows
        here[part] = here.get(part, 0) + rows
    return base


def _in_parts(log: DataFrame, cuts: list[Cut], *, by_group: bool) -> DataFrame:
    """Return rows with their part: how many cuts lie at or before a row."""
    words = _table([cut[-1] for cut in cuts], "bigint")
    groups = _table([cut[0] for cut in cuts] if by_group else [], "string")

    def is_behind(cut: Column) -> Column:
        has_more = F.element_at(words, cut) <= F.col(K_HI)
        if not by_group:
            return has_more
        group = F.element_at(groups, cut)
        return (group < F.col(GRP)) | ((group == F.col(GRP)) & has_more)

    return _counted(log, _PART, len(cuts), is_behind)


def _coded(log: DataFrame, groups: list[str]) -> DataFrame:
    """Return rows with the number of their group among all groups in order."""
    after_first = groups[1:]
    table = _table(after_first, "string")
    return _counted(log, _CODE, len(after_first), lambda at: F.element_at(table, at) <= F.col(GRP))


def _counted(log: DataFrame, name: str, count: int, is_behind: Callable[[Column], Column]) -> DataFrame:
    """Return rows with how many of so many sorted values lie at or before them, found by halving.

    Each halving is a small step of its own: a comparison with every value in one expression would be more code than
    Java compiles.
    """
    counted = log.withColumn(name, F.lit(0))
    for step in reversed(range(count.bit_length())):
        at = F.col(name) + (1 << step)
        counted = counted.withColumn(name, F.when(is_behind(at), at).otherwise(F.col(name)))
    return counted


def _table(values: list[Any], kind: str) -> Column:
    """Return an array that ends in nulls, which lie before no row, so that halving never looks beyond it."""
    return F.lit(values + [None] * ((1 << len(values).bit_length()) - 1 - len(values))).cast(f"array<{kind}>")


# --- the order ---


def merged(log: DataFrame, layout: Layout) -> DataFrame:
    """Return all rows in order with their positions: one exchange, one sort, and no window."""
    names = log.columns
    placed = _in_parts(log, layout.cuts, by_group=layout.by_group)
    if len(layout.groups) > GROUPS_IN_PLAN:
        codes = log.sparkSession.createDataFrame(list(enumerate(layout.groups)), f"{_CODE} int, {GRP} string")
        placed = placed.join(F.broadcast(codes), GRP)
    else:
        placed = _coded(placed, layout.groups)
    one = layout.packing.column(KEY, F.col(_CODE))
    within: list[Column | str] = [GRP, *ORDER] if layout.by_group else [*ORDER, GRP]
    if layout.writers <= WRITERS_MAX:
        within = [one] if layout.packing.is_exact and layout.is_decided else [one, *within]
    ordered = placed.repartitionById(len(layout.cuts) + 1, F.col(_PART)).sortWithinPartitions(*within)
    number = F.monotonically_increasing_id().bitwiseAND(_IN_PARTITION)
    base = F.element_at(F.lit(layout.base), F.col(_PART) + F.col(_CODE) + 1)
    return ordered.select(*names, (number + base).alias(POS))


def merged_by_group(log: DataFrame, parts: int) -> DataFrame:
    """Return the order of each group, with positions within it."""
    return merged(log, layout_of(log, parts, by_group=True))


def merged_in_one(log: DataFrame, parts: int, *, unique_across_groups: bool = False) -> DataFrame:
    """Return one order over all rows, with positions."""
    return merged(log, layout_of(log, parts, by_group=False, unique_across_groups=unique_across_groups))


# --- writing ---


def write_merged(
    log: DataFrame, out: AnyPath, parts: int, *, by_group: bool, unique_across_groups: bool = False
) -> int:
    """Write the order of events, each group below out/grp=… or all as one; return the rows. Raises UsageError.

    Nothing is left there if it fails. It does not count before it is marked as done.
    """
    try:
        layout = layout_of(log, parts, by_group=by_group, unique_across_groups=unique_across_groups)
    except Exception as error:
        raise UsageError(f"LOGS: they cannot be read: {first_line(error)}") from error
    try:
        # Rows come in order, so that every group's file can be written as they come rather than sorted once more.
        log.sparkSession.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(min(layout.writers, WRITERS_MAX)))
        writer = merged(log, layout).write.mode("append").option("compression", "zstd").option(_MARKS, "false")
        (writer.partitionBy(GRP) if by_group else writer).parquet(str(out))
    except Exception as error:
        raise UsageError(f"--out: {out} could not be written and {discarded(out)}: {first_line(error)}") from error
    return layout.rows


def check_empty(out: AnyPath) -> None:
    """Check that a directory is empty or absent, but for a writer's claim. Raises UsageError."""
    if isinstance(out, UriPath) and is_connected(out.spark):
        is_free = listed([out]).isEmpty()
    else:
        is_free = not out.exists() or (out.is_dir() and set(entries(out)) <= {CLAIM})
    if not is_free:
        raise UsageError(f"--out: {out} is not empty; give a new directory")


@contextmanager
def new_directory(out: AnyPath) -> Iterator[None]:
    """Be the only one that writes to an empty or absent directory within the block. Raises UsageError, StorageError."""
    check_empty(out)
    with sole_writer(out):
        check_empty(out)  # whoever had it before may have written there
        yield


def mark_done(out: AnyPath, *, by_group: bool) -> None:
    """Mark a directory as complete."""
    if not isinstance(out, UriPath):
        (out / DONE).touch()
    elif not is_connected(out.spark):
        put_new(out / DONE, b"")
    elif by_group:  # a job that writes no row leaves the mark of one that has ended
        nothing = out.spark.createDataFrame([], f"{GRP} string, {POS} bigint")
        nothing.write.mode("append").partitionBy(GRP).parquet(str(out))
    else:
        out.spark.read.parquet(str(out)).limit(0).write.mode("append").parquet(str(out))


def discarded(out: AnyPath) -> str:
    """Remove what was written to a directory that does not count; return what became of it."""
    if isinstance(out, UriPath) and is_connected(out.spark):
        return f"is incomplete: it has no {DONE}, and Spark Connect removes nothing; remove it"
    remove(out)
    return "was removed"
