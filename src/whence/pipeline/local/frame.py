"""Frames of the local engine: a query, or a table that was made of one."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from whence.pipeline.local.column import Column, column_of, ordered
from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.functions import expr
from whence.pipeline.local.types import arrow_schema, quoted

if TYPE_CHECKING:
    from whence.pipeline.local.session import LocalSession

_JOINS = {
    "inner": "JOIN", "left": "LEFT JOIN", "left_outer": "LEFT JOIN", "left_semi": "SEMI JOIN", "semi": "SEMI JOIN",
    "left_anti": "ANTI JOIN", "anti": "ANTI JOIN", "full": "FULL JOIN", "outer": "FULL JOIN",
}  # fmt: skip
_OF_LEFT_ONLY = ("SEMI JOIN", "ANTI JOIN")


class Row(tuple[Any, ...]):
    """A row of a result: by place, or by the name of a column."""

    names: tuple[str, ...]

    def __new__(cls, values: Sequence[Any], names: tuple[str, ...]) -> "Row":
        """Make a row of values and the names of their columns."""
        row = super().__new__(cls, values)
        row.names = names
        return row

    def __getitem__(self, at: Any) -> Any:
        """Return a value by its place or name."""
        return super().__getitem__(self.names.index(at) if isinstance(at, str) else at)

    def asDict(self) -> dict[str, Any]:
        """Return the values by name."""
        return dict(zip(self.names, self, strict=True))


class DataFrame:
    """Rows of some columns. Nothing is done before rows are asked for, or a table is made."""

    def __init__(self, session: "LocalSession", source: str, columns: Sequence[str], called: str = "_t") -> None:
        self.sparkSession = session
        self.columns = list(columns)
        self._source, self._called = source, called

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotLocal(f"{name} of tables")

    # --- rows by rows ---

    def select(self, *columns: Any) -> "DataFrame":
        """Return some columns; `*` stands for all there are, `a.*` for all fields of a struct."""
        given = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns
        chosen: list[Column] = []
        for each in given:
            if isinstance(each, str) and each == "*":
                chosen += [column_of(quoted_path(name)) for name in self.columns]
            elif isinstance(each, str) and each.endswith(".*"):
                within = self._selected([column_of(each.removesuffix(".*")).alias("whole")])._source
                names = self.sparkSession.columns_of(f"SELECT unnest(whole) FROM {within} AS _t")
                chosen += [column_of(each.removesuffix(".*"))[name] for name in names]
            else:
                column = column_of(each)
                chosen += column.parts or (column,)
        return self._selected(chosen)

    def _selected(self, chosen: Sequence[Column]) -> "DataFrame":
        items = ", ".join(f"{each.sql} AS {quoted(each.name)}" for each in chosen)
        return self._made(f"SELECT {items} FROM {self._from()}", [each.name for each in chosen])

    def selectExpr(self, *texts: str) -> "DataFrame":
        """Return expressions in SQL that both engines take."""
        raise NotLocal(f"expressions such as {texts[0]}")

    def withColumn(self, name: str, column: Column) -> "DataFrame":
        """Return the rows with one more column, or with another one under its name."""
        return self.withColumns({name: column})

    def withColumns(self, columns: Mapping[str, Column]) -> "DataFrame":
        """Return the rows with more columns, or with others under their names."""
        kept = [columns.get(name, column_of(quoted_path(name))).alias(name) for name in self.columns]
        added = [column.alias(name) for name, column in columns.items() if name not in self.columns]
        return self._selected([*kept, *added])

    def withColumnsRenamed(self, names: Mapping[str, str]) -> "DataFrame":
        """Return the rows with other names for some columns."""
        return self._selected([column_of(quoted_path(name)).alias(names.get(name, name)) for name in self.columns])

    def withColumnRenamed(self, old: str, new: str) -> "DataFrame":
        """Return the rows with another name for a column."""
        return self.withColumnsRenamed({old: new})

    def drop(self, *names: str) -> "DataFrame":
        """Return the rows without some columns."""
        return self._selected([column_of(quoted_path(name)) for name in self.columns if name not in names])

    def filter(self, condition: Column | str) -> "DataFrame":
        """Return the rows of which something is true."""
        says = expr(condition) if isinstance(condition, str) else condition
        return self._made(f"SELECT * FROM {self._from()} WHERE {says.sql}", self.columns)

    where = filter

    def distinct(self) -> "DataFrame":
        """Return every row once."""
        return self._made(f"SELECT DISTINCT * FROM {self._from()}", self.columns)

    def dropDuplicates(self, names: Sequence[str]) -> "DataFrame":
        """Return one row of those with the same values, the least by its other columns."""
        order = ", ".join(ordered(quoted_path(name)) for name in self.columns if name not in names)
        same = ", ".join(map(quoted, names))
        least = f" ORDER BY {same}, {order}" if order else ""
        return self._made(f"SELECT DISTINCT ON ({same}) * FROM {self._from()}{least}", self.columns)

    def orderBy(self, *columns: Any) -> "DataFrame":
        """Return the rows in an order."""
        order = ", ".join(map(ordered, columns))
        return self._made(f"SELECT * FROM {self._from()} ORDER BY {order}", self.columns)

    def limit(self, rows: int) -> "DataFrame":
        """Return the first rows."""
        return self._made(f"SELECT * FROM {self._from()} LIMIT {rows}", self.columns)

    def repartition(self, *_: Any) -> "DataFrame":
        """Return the rows as they are: they lie in one place."""
        return self

    def coalesce(self, _: int) -> "DataFrame":
        """Return the rows as they are: they lie in one place."""
        return self

    def alias(self, name: str) -> "DataFrame":
        """Return the rows under a name that joins can ask for."""
        return DataFrame(self.sparkSession, self._source, self.columns, name)

    # --- with others ---

    def join(self, other: "DataFrame", on: Any, how: str = "inner") -> "DataFrame":
        """Return rows with those of another frame that have the same values, or of which something is true."""
        if how not in _JOINS:
            raise NotLocal(f"joins of the kind {how}")
        word = _JOINS[how]
        if isinstance(on, Column):
            if word not in _OF_LEFT_ONLY:
                raise NotLocal("joins on conditions that keep both sides")
            return self._made(f"SELECT * FROM {self._from()} {word} {other._from()} ON {on.sql}", self.columns)
        keys = [on] if isinstance(on, str) else list(on)
        mine = [*keys, *(name for name in self.columns if name not in keys)]
        theirs = [name for name in other.columns if name not in keys and word not in _OF_LEFT_ONLY]
        if both := [name for name in theirs if name in mine]:
            raise NotLocal(f"a join of two frames that both have {both[0]}")
        shown = [*(f"_l.{quoted(name)}" for name in mine), *(f"_r.{quoted(name)}" for name in theirs)]
        if word == "FULL JOIN":
            shown[: len(keys)] = [f"coalesce(_l.{quoted(key)}, _r.{quoted(key)}) AS {quoted(key)}" for key in keys]
        same = " AND ".join(f"_l.{quoted(key)} = _r.{quoted(key)}" for key in keys)
        query = f"SELECT {', '.join(shown)} FROM {self._source} AS _l {word} {other._source} AS _r ON {same}"
        return self._made(query, [*mine, *theirs])

    def unionByName(self, other: "DataFrame") -> "DataFrame":
        """Return the rows of both."""
        names = ", ".join(map(quoted, self.columns))
        parts = (f"SELECT {names} FROM {each._from()}" for each in (self, other))
        return self._made(" UNION ALL ".join(parts), self.columns)

    def union(self, other: "DataFrame") -> "DataFrame":
        """Return the rows of both, column by column as they stand."""
        parts = (f"SELECT {', '.join(map(quoted, each.columns))} FROM {each._from()}" for each in (self, other))
        return self._made(" UNION ALL ".join(parts), self.columns)

    def groupBy(self, *columns: Any) -> "GroupedData":
        """Return the rows in groups of the same values."""
        return GroupedData(self, [column_of(each) for each in columns])

    def agg(self, *columns: Column) -> "DataFrame":
        """Return one row about all rows."""
        return self.groupBy().agg(*columns)

    # --- as tables and results ---

    def persist(self) -> "DataFrame":
        """Make a table of the rows now, and read that from now on."""
        self._source = self.sparkSession.table_of(f"SELECT * FROM {self._from()}")
        return self

    def unpersist(self) -> "DataFrame":
        """Leave the table to the session: it goes with it."""
        return self

    def localCheckpoint(self, eager: bool = True) -> "DataFrame":
        """Return a table of the rows."""
        made = self.sparkSession.table_of(f"SELECT * FROM {self._from()}")
        return DataFrame(self.sparkSession, made, self.columns)

    def collect(self) -> list[Row]:
        """Return all rows."""
        names = tuple(self.columns)
        return [Row(each, names) for each in self.sparkSession.rows_of(f"SELECT * FROM {self._from()}")]

    def count(self) -> int:
        """Return how many rows there are."""
        return int(self.sparkSession.rows_of(f"SELECT count(*) FROM {self._from()}")[0][0])

    def isEmpty(self) -> bool:
        """Return whether there are none."""
        return not self.sparkSession.rows_of(f"SELECT 1 FROM {self._from()} LIMIT 1")

    def toArrow(self) -> Any:
        """Return all rows as a table of Arrow."""
        return self.sparkSession.arrow_of(f"SELECT * FROM {self._from()}")

    @property
    def write(self) -> "Writer":
        """What writes the rows."""
        return Writer(self)

    def _from(self) -> str:
        return f"{self._source} AS {quoted(self._called)}"

    def _made(self, query: str, columns: Sequence[str]) -> "DataFrame":
        return DataFrame(self.sparkSession, f"({query})", columns)


class GroupedData:
    """Rows in groups of the same values."""

    def __init__(self, frame: DataFrame, keys: list[Column]) -> None:
        self.frame, self.keys = frame, keys

    def agg(self, *columns: Column) -> DataFrame:
        """Return one row about each group."""
        shown = [*self.keys, *columns]
        items = ", ".join(f"{each.sql} AS {quoted(each.name)}" for each in shown)
        places = ", ".join(str(at + 1) for at in range(len(self.keys)))
        query = f"SELECT {items} FROM {self.frame._from()}{f' GROUP BY {places}' if places else ''}"
        return self.frame._made(query, [each.name for each in shown])

    def cogroup(self, other: "GroupedData") -> "CoGrouped":
        """Return the groups beside those of another frame with the same values."""
        return CoGrouped(self, other)

    def applyInArrow(self, made: Callable[[Any], Any], schema: str) -> DataFrame:
        """Return what a function makes of each group."""
        return _applied(self.frame.sparkSession, [made(part) for _, part in self.parts()], schema)

    def parts(self) -> list[tuple[tuple[Any, ...], Any]]:
        """Return the groups by their values, each as a table of Arrow."""
        order = ", ".join(ordered(key) for key in self.keys)
        session, names = self.frame.sparkSession, ", ".join(key.sql for key in self.keys)
        counts = session.rows_of(f"SELECT {names}, count(*) FROM {self.frame._from()} GROUP BY ALL ORDER BY {order}")
        rows = session.arrow_of(f"SELECT * FROM {self.frame._from()} ORDER BY {order}")
        parts, at = [], 0
        for *values, count in counts:
            parts.append((tuple(values), rows.slice(at, count)))
            at += count
        return parts


class CoGrouped:
    """Groups of two frames, side by side."""

    def __init__(self, left: GroupedData, right: GroupedData) -> None:
        self._left, self._right = left, right

    def applyInArrow(self, made: Callable[[Any, Any], Any], schema: str) -> DataFrame:
        """Return what a function makes of each two groups with the same values."""
        left, right = self._left.parts(), dict(self._right.parts())
        missing = [(values, None) for values in right if values not in dict(left)]
        session = self._left.frame.sparkSession
        none = [session.arrow_of(f"SELECT * FROM {each.frame._from()} LIMIT 0") for each in (self._left, self._right)]
        pairs = [(none[0] if one is None else one, right.get(values, none[1])) for values, one in [*left, *missing]]
        return _applied(session, [made(*pair) for pair in pairs], schema)


def _applied(session: "LocalSession", made: list[Any], schema: str) -> DataFrame:
    shape = arrow_schema(schema)
    tables = [table.select(shape.names).cast(shape) for table in made]
    return session.createDataFrame(pa.concat_tables([*tables, pa.Table.from_batches([], schema=shape)]))


class Writer:
    """Writes a frame as Parquet, as a directory that is complete when _SUCCESS is in it."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self._replaces = False

    def mode(self, how: str) -> "Writer":
        """Say what becomes of rows that are there already."""
        self._replaces = how == "overwrite"
        return self

    def parquet(self, path: str) -> None:
        """Write the rows to a directory."""
        if self._replaces:
            shutil.rmtree(path, ignore_errors=True)
        write_part(self._frame.toArrow(), Path(path))
        (Path(path) / "_SUCCESS").touch()


def write_part(table: Any, directory: Path) -> None:
    """Write a table as a file of a directory, under a name that no other file has, as Spark's have."""
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, directory / f"part-00000-{uuid4()}.zstd.parquet", compression="zstd")


def quoted_path(name: str) -> str:
    """Return a name so that dots in it are no path."""
    return f"`{name}`"
