"""Which events a stream has accounted for: those that were released, or came late, in steps that are committed.

A manifest knows the greatest number of each publisher so far. A row beyond it is new, which is nearly every row; only
the others are looked for among the rows of earlier steps.
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
Numbers: TypeAlias = dict[str, int]
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


def numbers_of(table: pa.Table) -> tuple[Numbers, Numbers]:
    """Return the least and the greatest number of each publisher."""
    if not table.num_rows:
        return {}, {}
    found = table.group_by(list(_WHO)).aggregate([(SEQ, "min"), (SEQ, "max")]).to_pylist()
    return ({_who(row): row[f"{SEQ}_{end}"] for row in found} for end in ("min", "max"))  # type: ignore[return-value]


def groups_of(table: pa.Table) -> dict[str, int]:
    """Return how many rows a group has."""
    return {each["values"]: each["counts"] for each in table.column(GRP).value_counts().to_pylist()}


def known_among(made: Path, numbers: Mapping[str, int], before: Iterable[Path]) -> list[Identity]:
    """Return which events of a directory are accounted for in directories before it."""
    table = identities([made])
    least, _ = numbers_of(table)
    if all(number > numbers.get(who, -1) for who, number in least.items()):
        return []
    asked = [row for row in table.to_pylist() if row[SEQ] <= numbers.get(_who(row), -1)]
    seqs = [row[SEQ] for row in asked]
    there = {_identity(row) for row in identities(before, min(seqs), max(seqs)).to_pylist()}
    return [each for each in map(_identity, asked) if each in there]


def is_among(other: str, rows: str) -> Column:
    """Return whether a row is the same event as one of another table, both by the names they go by."""
    same = F.lit(True)
    for name in IDENTITY:
        same = same & F.col(f"{rows}.{name}").eqNullSafe(F.col(f"{other}.{name}"))
    return same


def without(events: DataFrame, known: list[Identity], *, how: str = "left_anti") -> DataFrame:
    """Return the events that are not among some, or with `left_semi` those that are."""
    table = events.sparkSession.createDataFrame(known, IDENTITY_DDL)
    return events.alias("e").join(F.broadcast(table.alias("k")), is_among("k", "e"), how)


def grown(numbers: Numbers, table: pa.Table) -> Numbers:
    """Return the greatest numbers with those of more events."""
    _, greatest = numbers_of(table)
    return numbers | {who: max(number, numbers.get(who, -1)) for who, number in greatest.items()}


def _who(row: Mapping[str, Any]) -> str:
    publisher = row[PID] if row[PUBLISHER] is None else row[PUBLISHER]
    return f"{row[GRP]}\t{publisher}\t{row[INC]}"


def _identity(row: Mapping[str, Any]) -> Identity:
    return row[GRP], row[PID], row[PUBLISHER], row[INC], row[SEQ]
