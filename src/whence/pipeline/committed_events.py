"""Events that a stream has committed: released or late, in steps with a manifest.

A manifest has the greatest number of each publisher so far. A row beyond it is new, which is nearly every row; only the
others are compared with the rows of earlier steps.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from whence.pipeline.logs import GRP, IDENTITY, INC, PID, PUBLISHER, SEQ

Identity: TypeAlias = tuple[str, int | None, str | None, int, int]
HighestSeq: TypeAlias = dict[str, int]
"""The greatest number of a publisher, by group, publisher and incarnation."""

IDENTITY_DDL: Final = f"{GRP} string, {PID} bigint, {PUBLISHER} string, {INC} int, {SEQ} bigint"
_WHO: Final = (GRP, PID, PUBLISHER, INC)


def identities(directories: Iterable[Path], lowest: int | None = None, highest: int | None = None) -> pa.Table:
    """Return the identities of the events in directories, or of those between two numbers."""
    files = [str(file) for each in directories for file in sorted(each.glob("*.parquet"))]
    within = (ds.field(SEQ) >= lowest) & (ds.field(SEQ) <= highest) if lowest is not None else None
    if not files:
        return pa.table({name: [] for name in IDENTITY})
    return ds.dataset(files, format="parquet").to_table(columns=list(IDENTITY), filter=within)


def seq_ranges(table: pa.Table) -> tuple[HighestSeq, HighestSeq]:
    """Return the least and the greatest number of each publisher."""
    if not table.num_rows:
        return {}, {}
    found = table.group_by(list(_WHO)).aggregate([(SEQ, "min"), (SEQ, "max")]).to_pylist()
    return ({_who(row): row[f"{SEQ}_{end}"] for row in found} for end in ("min", "max"))  # type: ignore[return-value]


def rows_by_group(table: pa.Table) -> dict[str, int]:
    """Return how many rows each group has."""
    return {each["values"]: each["counts"] for each in table.column(GRP).value_counts().to_pylist()}


def already_committed(made: Path, numbers: Mapping[str, int], before: Iterable[Path]) -> list[Identity]:
    """Return the events of a directory that are committed in directories before it."""
    table = identities([made])
    least, _ = seq_ranges(table)
    if all(number > numbers.get(who, -1) for who, number in least.items()):
        return []
    asked = [row for row in table.to_pylist() if row[SEQ] <= numbers.get(_who(row), -1)]
    seqs = [row[SEQ] for row in asked]
    there = {_identity(row) for row in identities(before, min(seqs), max(seqs)).to_pylist()}
    return [each for each in map(_identity, asked) if each in there]


def is_same_event(other: str, rows: str) -> Column:
    """Return the condition that rows of two tables, given by their aliases, are the same event."""
    same = F.lit(True)
    for name in IDENTITY:
        same = same & F.col(f"{rows}.{name}").eqNullSafe(F.col(f"{other}.{name}"))
    return same


def without_events(events: DataFrame, known: list[Identity], *, how: str = "left_anti") -> DataFrame:
    """Return the events that are not known, or with `left_semi` those that are."""
    table = events.sparkSession.createDataFrame(known, IDENTITY_DDL)
    return events.alias("e").join(F.broadcast(table.alias("k")), is_same_event("k", "e"), how)


def with_highest(numbers: HighestSeq, table: pa.Table) -> HighestSeq:
    """Return the greatest numbers, updated with more events."""
    _, greatest = seq_ranges(table)
    return numbers | {who: max(number, numbers.get(who, -1)) for who, number in greatest.items()}


def _who(row: Mapping[str, Any]) -> str:
    publisher = row[PID] if row[PUBLISHER] is None else row[PUBLISHER]
    return f"{row[GRP]}\t{publisher}\t{row[INC]}"


def _identity(row: Mapping[str, Any]) -> Identity:
    return row[GRP], row[PID], row[PUBLISHER], row[INC], row[SEQ]
