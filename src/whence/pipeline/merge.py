"""Batch merge: publishers' logs become one causal, deterministic order, per group or over all groups.

The order is the key, so it is the same for any partitioning, any arrival order and any machine. A narrow look at the
keys comes first: a sample of them says where to cut the order into parts, and a count says how many rows of which group
each part gets and which bits of the keys differ at all. Then the rows go through one exchange and one sort, and their
positions follow from it: `pos` is the row's number in its part plus the rows of the parts before. A group
of any size is spread over parts; small groups share one. What readers may rely on is `pos` and the key; the lines of a
file are in that order too. A directory counts when its _SUCCESS file is there, which is written last.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

from whence.errors import UsageError
from whence.pipeline.frames import Column, DataFrame, F
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
    cuts = cuts_of(log, min(parts, PARTS_MAX), by_group=by_group)
    part = _part_of(cuts, by_group)
    words = [f"{word}({name}) as {word}_{name}" for name in KEY for word in ("bit_or", "bit_and")]
    tied = f"count_if(not ({INC} < {1 << INC_BITS} and {K_LO} <=> ({_COMPUTED_LOW}))) as tied"
    by = [part.alias(_PART), *([F.col(GRP)] if by_group else [])]
    cells = log.groupBy(*by).agg(F.count("*").alias("rows"), *map(F.expr, (tied, *words))).collect()
    groups = sorted({cell[GRP] for cell in cells}) if by_group else []
    packing = key_packing(
        [_varying([(cell[f"bit_or_{name}"], cell[f"bit_and_{name}"]) for cell in cells]) for name in KEY], len(groups)
    )
    sizes = {(cell[_PART], groups.index(cell[GRP]) if by_group else 0): cell["rows"] for cell in cells}
    per_part = [sum(1 for part, _ in sizes if part == each) for each in range(len(cuts) + 1)]
    return Layout(
        by_group, cuts, groups, _bases(sizes, len(cuts) + max(1, len(groups))), packing,
        (by_group or unique_across_groups) and not any(cell["tied"] for cell in cells), sum(sizes.values()),
        max(per_part),
    )  # fmt: skip


def cuts_of(log: DataFrame, parts: int, *, by_group: bool) -> list[Cut]:
    """Return the cuts that make parts of about equal size: quantiles of a sample."""
    if parts <= 1:
        return []
    columns = (GRP, K_HI) if by_group else (K_HI,)
    most = SAMPLES_PER_PART * parts
    drawn = log.select(*columns, F.rand(1).alias(_DRAWN))
    rows = drawn.filter(F.col(_DRAWN) < _LOOKED_AT).orderBy(_DRAWN).limit(most).collect()
    if len(rows) < most:
        rows = drawn.orderBy(_DRAWN).limit(most).collect()
    sample = sorted(tuple(row[name] for name in columns) for row in rows)
    at = [sample[number * len(sample) // parts] for number in range(1, parts)] if sample else []
    return sorted({cut for cut in at if cut > sample[0]})


def _varying(words: list[tuple[int | None, int | None]]) -> int:
    """Return the bits that are not the same in all rows, from the OR and the AND of every part's rows."""
    known = [(either or 0, both or 0) for either, both in words]
    ever, always = 0, -1
    for either, both in known:
        ever, always = ever | either, always & both
    return (ever & ~always) & ((1 << 64) - 1)


def _bases(sizes: dict[tuple[int, int], int], count: int) -> list[int]:
    """Return what to add to a row's number in its part, by part + group: its group's rows before, less others' here."""
    base, before, here = [0] * count, dict[int, int](), dict[int, int]()
    for (part, group), rows in sorted(sizes.items()):
        base[part + group] = before.get(group, 0) - here.get(part, 0)
        before[group] = before.get(group, 0) + rows
        here[part] = here.get(part, 0) + rows
    return base


def _part_of(cuts: list[Cut], by_group: bool) -> Column:
    """Return the part of a row: how many cuts lie at or before it, found by halving."""

    def before(cut: Cut) -> Column:
        low = F.col(K_HI) < F.lit(cut[-1])
        return (F.col(GRP) < F.lit(cut[0])) | ((F.col(GRP) == F.lit(cut[0])) & low) if by_group else low

    return _halved(len(cuts) + 1, lambda at: before(cuts[at - 1]))


def _code_of(groups: list[str]) -> Column:
    """Return the number of a row's group among all groups in order."""
    return _halved(max(1, len(groups)), lambda at: F.col(GRP) < groups[at])


def _halved(count: int, is_below: Any, low: int = 0) -> Column:
    if count == 1:
        return F.lit(low)
    half = count // 2
    left, right = _halved(half, is_below, low), _halved(count - half, is_below, low + half)
    return F.when(is_below(low + half), left).otherwise(right)


# --- the order ---


def merged(log: DataFrame, layout: Layout) -> DataFrame:
    """Return all rows in order with their positions: one exchange, one sort, and no window."""
    names = log.columns
    placed = log.withColumns({_PART: _part_of(layout.cuts, layout.by_group), _CODE: F.lit(0)})
    if layout.by_group and len(layout.groups) > WRITERS_MAX:
        coded = log.sparkSession.createDataFrame(list(enumerate(layout.groups)), f"{_CODE} int, {GRP} string")
        placed = placed.drop(_CODE).join(F.broadcast(coded), GRP)
    elif layout.by_group:
        placed = placed.withColumn(_CODE, _code_of(layout.groups))
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
