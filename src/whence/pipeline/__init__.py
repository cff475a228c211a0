"""Traces and publishers' logs through Spark: judged, measured, merged into one order, swept and reported.

A trace: session -> events (what can be read, the rest set aside) -> deliveries (who published, delivered and was a
member) -> promises, metrics -> verify, report. A log: log_reader -> merge or stream. Everything between
reading and writing is a function from DataFrames to a DataFrame, named for the table it returns.
"""

from importlib.util import find_spec

from whence.errors import UsageError

if find_spec("pyspark") is None:  # said here, before a part of the extra that others need too is missed
    raise UsageError("this command needs Spark; install it with: pip install 'whence[spark]'")
