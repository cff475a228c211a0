"""A session of the local engine: one DuckDB in this process, which is gone when it is closed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from whence.errors import UsageError
from whence.pipeline import frames
from whence.pipeline.local import functions as local_functions
from whence.pipeline.local.column import Window, as_sql
from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.frame import DataFrame
from whence.pipeline.local.types import duckdb_type, fields, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LocalSession:
    """Makes frames and runs their queries."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._numbers = count()
        self.is_closed = False

    def createDataFrame(self, data: Any, schema: str | None = None) -> DataFrame:
        """Return a frame of a table of Arrow, or of rows with the names and types of their columns."""
        if schema is not None:
            return self._of_rows(data, fields(schema, " "))
        name = f"given_{next(self._numbers)}"
        self._connection.register(name, data)
        return DataFrame(self, quoted(name), data.schema.names)

    def _of_rows(self, rows: Sequence[Sequence[Any]], columns: list[tuple[str, str]]) -> DataFrame:
        """Return a table of a few rows: in SQL, because Arrow loads pandas for values of Python."""
        names = ", ".join(
            f"CAST(c{at} AS {duckdb_type(kind)}) AS {quoted(name)}" for at, (name, kind) in enumerate(columns)
        )
        values = ", ".join(f"({', '.join(map(as_sql, row))})" for row in rows)
        nothing = f"SELECT {', '.join(f'NULL AS c{at}' for at in range(len(columns)))} WHERE FALSE"
        given = ", ".join(f"c{at}" for at in range(len(columns)))
        source = f"(VALUES {values}) AS given({given})" if rows else f"({nothing}) AS given"
        return DataFrame(self, self.table_of(f"SELECT {names} FROM {source}"), [name for name, _ in columns])

    def read_parquet(self, files: Sequence[Path], run: str, kind: str, file: str, row: str) -> DataFrame:
        """Return the rows of files below run_id=…/kind=…, with names for their run, kind, file and number in it.

        Raises NotLocal for names that DuckDB would take for patterns.
        """
        if strange := [path for path in files if set("*?[") & set(str(path))]:
            raise NotLocal(f"files with *, ? or [ in their names, such as {strange[0]}")
        paths = ", ".join(as_sql(str(path)) for path in files)
        options = "filename = true, file_row_number = true, hive_partitioning = false, union_by_name = true"
        named = "'(?:^|/)run_id=([^/]*)/kind=([^/]*)/([^/]*)$'"
        about = ", ".join(
            f"regexp_extract(filename, {named}, {at}) AS {quoted(name)}" for at, name in enumerate((run, kind, file), 1)
        )
        query = f"SELECT *, {about}, file_row_number AS {quoted(row)} FROM read_parquet([{paths}], {options})"
        return DataFrame(self, f"({query})", self.columns_of(query))

    def columns_of(self, query: str) -> list[str]:
        """Return how the columns of a query are called."""
        return [each[0] for each in self._connection.execute(f"DESCRIBE {query}").fetchall()]

    def table_of(self, query: str) -> str:
        """Run a query and keep its rows; return the name of the table."""
        name = quoted(f"made_{next(self._numbers)}")
        self._connection.execute(f"CREATE TEMP TABLE {name} AS {query}")
        return name

    def rows_of(self, query: str) -> Sequence[tuple[Any, ...]]:
        """Run a query and return its rows."""
        rows: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
        return rows

    def arrow_of(self, query: str) -> Any:
        """Run a query and return its rows as a table of Arrow."""
        return self._connection.sql(query).to_arrow_table()


class _DuckDB:
    functions = local_functions
    window = Window


def is_installed() -> bool:
    """Return whether the local engine can run here."""
    return find_spec("duckdb") is not None


@contextmanager
def local_session() -> "Iterator[SparkSession]":
    """Yield a session of the local engine; within the block, names of frames mean its own. Raises UsageError.

    For types it is a session of Spark, because it takes its place wherever tables are made of tables.
    """
    if not is_installed():
        raise UsageError("--engine local needs DuckDB; install it with: pip install 'whence[local]'")
    import duckdb

    with TemporaryDirectory(prefix="whence-") as scratch:
        connection: Any = duckdb.connect(config={"temp_directory": scratch, "preserve_insertion_order": "false"})
        session: Any = LocalSession(connection)
        try:
            with frames.using(_DuckDB()):
                yield session
        finally:
            session.is_closed = True
            connection.close()


def is_local_engine(session: object) -> bool:
    """Return whether a session is one of the local engine."""
    return isinstance(session, LocalSession)
