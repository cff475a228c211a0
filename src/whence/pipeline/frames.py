"""The names that rules about tables are written in, whichever engine the tables are on.

A rule is a function from tables to a table, in the words of PySpark's DataFrame API, and it is written once. On Spark
these names are PySpark's own. Within `using` they are those of another engine that speaks the same words (local/).
PySpark is imported when a name of it is first used, so that a command that never asks Spark does not load it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
    from pyspark.sql import functions as F
    from pyspark.sql.window import WindowSpec

__all__ = ["Column", "DataFrame", "F", "Row", "SparkSession", "Window", "WindowSpec", "using"]


class Engine(Protocol):
    """What an engine brings: the functions of columns, and windows over rows."""

    @property
    def functions(self) -> Any:
        """The functions of columns, by name."""

    @property
    def window(self) -> Any:
        """What windows begin with."""


_used: ContextVar[Engine | None] = ContextVar("engine", default=None)
"""The engine that names mean; None for Spark."""


@contextmanager
def using(engine: Engine) -> Iterator[None]:
    """Let the names mean those of an engine within the block."""
    before = _used.set(engine)
    try:
        yield
    finally:
        _used.reset(before)


class _Functions:
    """The functions of columns of the engine in use."""

    def __getattr__(self, name: str) -> Any:
        engine = _used.get()
        return getattr(import_module("pyspark.sql.functions") if engine is None else engine.functions, name)


class _Window:
    """Windows over rows of the engine in use."""

    def __getattr__(self, name: str) -> Any:
        engine = _used.get()
        return getattr(import_module("pyspark.sql").Window if engine is None else engine.window, name)


if not TYPE_CHECKING:
    Column = DataFrame = Row = SparkSession = WindowSpec = Any
    F, Window = _Functions(), _Window()
