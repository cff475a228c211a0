"""Deduplication: which rows are the same event, and which of them counts.

Rows of one event are those with the same group, publisher, incarnation and number, whatever else they say. The row
that counts is the least by its key, then by all its columns, so that it is the same for any partitioning. The others
are set aside and counted. Batch and stream use the same definition.
"""

from typing import Final

from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.pipeline.logs import GRP, IDENTITY, INC, KEY, LOG, PID, PUBLISHER, SEQ

IS_FIRST: Final = "is_first"
_BLOCK_BITS: Final = 6
_BLOCK: Final = "block"


def with_is_first(events: DataFrame) -> DataFrame:
    """Return events with a flag on the row of each that counts."""
    rest = [name for name in LOG if name not in (*IDENTITY, *KEY)]
    order = Window.partitionBy(*IDENTITY).orderBy(*KEY, *rest)
    return events.withColumn(IS_FIRST, F.row_number().over(order) == 1)


def duplicate_blocks(events: DataFrame, *, by_group: bool) -> DataFrame:
    """Return the blocks of numbers that have duplicates, in a group or in all of them together.

    A block is 64 numbers of a publisher, so that counting costs little more than reading.
    """
    who = [*([GRP] if by_group else []), PID, PUBLISHER, INC]
    at = F.col(SEQ).bitwiseAND((1 << _BLOCK_BITS) - 1).cast("int")
    bit = F.call_function("shiftleft", F.lit(1).cast("bigint"), at)
    blocks = events.select(*who, _block().alias(_BLOCK), bit.alias("bit")).groupBy(*who, _BLOCK)
    counted = blocks.agg(F.count("*").alias("rows"), F.bit_count(F.bit_or("bit")).alias("numbers"))
    return counted.filter("numbers < rows").select(*who, _BLOCK)


def split_duplicates(events: DataFrame, blocks: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return every event once, and the duplicates, given the blocks that have some."""
    same = [F.col(f"e.{name}").eqNullSafe(F.col(f"b.{name}")) for name in blocks.columns if name != _BLOCK]
    is_near: Column = _block("e.") == F.col(f"b.{_BLOCK}")
    for each in same:
        is_near = is_near & each
    near, far = (events.alias("e").join(blocks.alias("b"), is_near, how) for how in ("left_semi", "left_anti"))
    marked = with_is_first(near)
    once = far.unionByName(marked.filter(IS_FIRST).drop(IS_FIRST))
    return once, marked.filter(f"not {IS_FIRST}").drop(IS_FIRST)


def _block(of: str = "") -> Column:
    return F.shiftright(F.col(f"{of}{SEQ}"), _BLOCK_BITS)
