"""Traces and publishers' logs as tables: judged, measured, merged into one order, swept and reported.

A trace: session -> events (what can be read, the rest set aside) -> deliveries (who published, delivered and was a
member) -> promises, metrics -> verify, report. A log: log_reader -> merge or stream. Everything between
reading and writing is a function from DataFrames to a DataFrame, named for the table it returns. Tables are on Spark,
or, where they are small, on DuckDB in this process (local/); `frames` has the names for both.
"""

from importlib.util import find_spec

from whence.errors import UsageError

if find_spec("pyspark") is None and find_spec("duckdb") is None:  # said before a part that others need too is missed
    raise UsageError(
        "this command needs an engine; install Spark with: pip install 'whence[spark]', or DuckDB with 'whence[local]'"
    )
