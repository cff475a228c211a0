"""Events that a stream has committed: released or late, in steps with a manifest.

A manifest has the greatest number of each publisher so far. A row beyond it is new, which is nearly every row; only the
others are compared with the rows of earlier steps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from whence.pipeline.logs import GRP, IDENTITY, INC, PID, PUBLISHER, SEQ
from whence.pipeline.storage import AnyPath, UriPath

Identity: TypeAlias = tuple[str, int | None, str | None, int, int]
HighestSeq: TypeAlias = dict[str, int]
"""The greatest number of a publisher, by group, publisher and incarnation."""

IDENTITY_DDL: Final = f"{GRP} string, {PID} bigint, {PUBLISHER} string, {INC} int, {SEQ} bigint"
_WHO: Final = (GRP, PID, PUBLISHER, INC)
_LEAST, _GREATEST, _ROWS, _EVENTS = "least", "greatest", "rows", "events"


def summary(directories: Iterable[AnyPath]) -> pa.Table:
    """Return, by group, publisher and incarnation, how many rows and events are in directories, and their range of seq.

    Behind URIs, Spark sums up; what comes here grows with publishers, not with events.
    """
    places = list(directories)
    uris = [each for each in places if isinstance(each, UriPath)]
    if uris:
        return _events(uris).groupBy(*_WHO).agg(
            F.min(SEQ).alias(_LEAST), F.max(SEQ).alias(_GREATEST), F.count("*").alias(_ROWS),
            F.count_distinct(SEQ).alias(_EVENTS),
        ).toArrow()  # fmt: skip
    events = _identities(places)
    if not events.num_rows:
        return pa.table({name: [] for name in (*_WHO, _LEAST, _GREATEST, _ROWS, _EVENTS)})
    summed = events.group_by(list(_WHO)).aggregate(
        [(SEQ, "min"), (SEQ, "max"), ([], "count_all"), (SEQ, "count_distinct")]
    )
    return summed.select([*_WHO, f"{SEQ}_min", f"{SEQ}_max", "count_all", f"{SEQ}_count_distinct"]).rename_columns(
        [*_WHO, _LEAST, _GREATEST, _ROWS, _EVENTS]
    )


def _identities(directories: Iterable[AnyPath], lowest: int | None = None, highest: int | None = None) -> pa.Table:
    """Return the identities of the events in directories of this machine's disk, or of those between two numbers."""
    files = [str(file) for each in directories if isinstance(each, Path) for file in sorted(each.glob("*.parquet"))]
    within = (ds.field(SEQ) >= lowest) & (ds.field(SEQ) <= highest) if lowest is not None else None
    if not files:
        return pa.table({name: [] for name in IDENTITY})
    return ds.dataset(files, format="parquet").to_table(columns=list(IDENTITY), filter=within)


def _events(directories: Sequence[UriPath]) -> DataFrame:
    """Return the identities of the events in directories, as Spark reads them."""
    return directories[0].spark.read.schema(IDENTITY_DDL).parquet(*map(str, directories))


def row_total(summed: pa.Table) -> int:
    """Return how many rows were summed up."""
    return sum(summed.column(_ROWS).to_pylist())


def duplicate_total(summed: pa.Table) -> int:
    """Return how many of the rows that were summed up are further ones of an event."""
    events: int = sum(summed.column(_EVENTS).to_pylist())
    return row_total(summed) - events


def rows_by_group(summed: pa.Table) -> dict[str, int]:
    """Return how many events each group has."""
    rows: dict[str, int] = {}
    for each in summed.to_pylist():
        rows[each[GRP]] = rows.get(each[GRP], 0) + each[_ROWS]
    return rows


def already_committed(
    made: AnyPath, summed: pa.Table, numbers: Mapping[str, int], before: Callable[[], Iterable[AnyPath]]
) -> list[Identity]:
    """Return the events of a directory, summed up, that are committed in directories before it."""
    again = [each for each in summed.to_pylist() if each[_LEAST] <= numbers.get(_who(each), -1)]
    if not again:
        return []
    places = list(before())
    if isinstance(made, UriPath):
        return _committed_there(made, again, numbers, [each for each in places if isinstance(each, UriPath)])
    asked = [row for row in _identities([made]).to_pylist() if row[SEQ] <= numbers.get(_who(row), -1)]
    seqs = [row[SEQ] for row in asked]
    there = {_identity(row) for row in _identities(places, min(seqs), max(seqs)).to_pylist()}
    return [each for each in map(_identity, asked) if each in there]


def _committed_there(
    made: UriPath, again: Sequence[Mapping[str, Any]], numbers: Mapping[str, int], before: Sequence[UriPath]
) -> list[Identity]:
    """Return the events of a directory that others have too, among those of publishers whose numbers come again."""
    if not before:
        return []
    spark = made.spark
    limits = [(*(each[name] for name in _WHO), numbers[_who(each)]) for each in again]
    known = spark.createDataFrame(limits, f"{GRP} string, {PID} bigint, {PUBLISHER} string, {INC} int, highest bigint")
    same = F.col(f"e.{SEQ}") <= F.col("k.highest")
    for name in _WHO:
        same = same & F.col(f"e.{name}").eqNullSafe(F.col(f"k.{name}"))
    asked = _events([made]).alias("e").join(F.broadcast(known.alias("k")), same, "left_semi")
    return [
        _identity(row.asDict())
        for row in asked.alias("a").join(_events(before).alias("b"), is_same_event("b", "a"), "left_semi").collect()
    ]


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


def with_highest(numbers: HighestSeq, summed: pa.Table) -> HighestSeq:
    """Return the greatest numbers, updated with more events."""
    greatest = {_who(each): each[_GREATEST] for each in summed.to_pylist()}
    return numbers | {who: max(number, numbers.get(who, -1)) for who, number in greatest.items()}


def _who(row: Mapping[str, Any]) -> str:
    publisher = row[PID] if row[PUBLISHER] is None else row[PUBLISHER]
    return f"{row[GRP]}\t{publisher}\t{row[INC]}"


def _identity(row: Mapping[str, Any]) -> Identity:
    return row[GRP], row[PID], row[PUBLISHER], row[INC], row[SEQ]
