"""Columns of the local engine: an expression as SQL, and what it is called."""

from enum import Enum
from typing import Any, Final

from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.types import duckdb_type, quoted

_WHOLE: Final = ("int", "bigint")
UNBOUNDED: Final = 1 << 40
"""Rows before or after this many are all there are."""


class Column:
    """An expression over the columns of a frame."""

    __slots__ = ("around", "call", "fields", "is_quotient", "name", "parts", "sql")

    def __init__(self, sql: str, name: str = "col", *, call: str = "", around: str = "{}") -> None:
        self.sql, self.name = sql, name
        self.call, self.around = call, around
        """Of a function over rows: the call that OVER may follow, and what stands around it."""
        self.parts: tuple[Column, ...] = ()
        """The columns that this one stands for, where it makes several."""
        self.fields: tuple[str, ...] = ()
        """Of a struct that is made here: its fields."""
        self.is_quotient = False
        """It is what a division gives, which has a fraction."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotLocal(f"{name} of columns")

    def alias(self, *names: str) -> "Column":
        """Return the same under another name, or several where it makes several columns."""
        made = Column(self.sql, names[0], call=self.call, around=self.around)
        if self.parts:
            made.parts = tuple(part.alias(name) for part, name in zip(self.parts, names, strict=True))
        return made

    def over(self, window: "WindowSpec") -> "Column":
        """Return the value over a window of rows."""
        if not self.call:
            raise NotLocal(f"windows over {self.sql}")
        return Column(self.around.format(f"{self.call} OVER ({window.sql})"), self.name)

    def cast(self, kind: str) -> "Column":
        """Return the value in another type. The fraction of a quotient is cut off, as Spark does: DuckDB rounds it."""
        is_cut = self.is_quotient and kind in _WHOLE
        return Column(f"CAST({f'trunc({self.sql})' if is_cut else self.sql} AS {duckdb_type(kind)})", self.name)

    def isNull(self) -> "Column":
        """Return whether it is null."""
        return Column(f"({self.sql} IS NULL)")

    def isNotNull(self) -> "Column":
        """Return whether it is not null."""
        return Column(f"({self.sql} IS NOT NULL)")

    def isin(self, *values: Any) -> "Column":
        """Return whether it is one of some values."""
        among = values[0] if len(values) == 1 and isinstance(values[0], list | tuple | set) else values
        return Column(f"({self.sql} IN ({', '.join(map(as_sql, among))}))" if among else "FALSE")

    def between(self, low: Any, high: Any) -> "Column":
        """Return whether it is neither below one value nor above another."""
        return Column(f"({self.sql} BETWEEN {as_sql(low)} AND {as_sql(high)})")

    def eqNullSafe(self, other: Any) -> "Column":
        """Return whether two values are the same; null is the same as null."""
        return Column(f"({self.sql} IS NOT DISTINCT FROM {as_sql(other)})")

    def startswith(self, text: Any) -> "Column":
        """Return whether it begins with a text."""
        return Column(f"starts_with({self.sql}, {as_sql(text)})")

    def endswith(self, text: Any) -> "Column":
        """Return whether it ends with a text."""
        return Column(f"ends_with({self.sql}, {as_sql(text)})")

    def bitwiseAND(self, other: Any) -> "Column":
        """Return the bits that both have."""
        return Column(f"({self.sql} & {as_sql(other)})")

    def bitwiseOR(self, other: Any) -> "Column":
        """Return the bits that either has."""
        return Column(f"({self.sql} | {as_sql(other)})")

    def getField(self, name: str) -> "Column":
        """Return a field of a struct."""
        return self[name]

    def asc(self) -> "Column":
        """Return an order, nulls first."""
        return Column(f"{self.sql} ASC NULLS FIRST", self.name)

    def desc(self) -> "Column":
        """Return the opposite order, nulls last."""
        return Column(f"{self.sql} DESC NULLS LAST", self.name)

    def __getitem__(self, at: str | int) -> "Column":
        if isinstance(at, str):
            return Column(f"struct_extract({self.sql}, {as_sql(at)})", at)
        return Column(f"({self.sql})[{at + 1}]", f"{self.name}_{at}")

    def _compared(self, operator: str, other: Any) -> "Column":
        """Compare structs field by field, whatever their names are: DuckDB would look for the same names."""
        if isinstance(other, Column) and self.fields and other.fields:
            one, two = (f"row({', '.join(each.fields)})" for each in (self, other))
            return Column(f"({one} {operator} {two})")
        return self._with(operator, other)

    def _with(self, operator: str, other: Any) -> "Column":
        return Column(f"({self.sql} {operator} {as_sql(other)})")

    def _after(self, operator: str, other: Any) -> "Column":
        return Column(f"({as_sql(other)} {operator} {self.sql})")

    def __eq__(self, other: object) -> "Column":  # type: ignore[override]
        return self._compared("=", other)

    def __ne__(self, other: object) -> "Column":  # type: ignore[override]
        return self._compared("<>", other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("a column is true or false row by row; use & and | for and and or")

    def __lt__(self, other: Any) -> "Column":
        return self._compared("<", other)

    def __le__(self, other: Any) -> "Column":
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> "Column":
        return self._compared(">", other)

    def __ge__(self, other: Any) -> "Column":
        return self._compared(">=", other)

    def __and__(self, other: Any) -> "Column":
        return self._with("AND", other)

    def __or__(self, other: Any) -> "Column":
        return self._with("OR", other)

    def __invert__(self) -> "Column":
        return Column(f"(NOT {self.sql})")

    def __neg__(self) -> "Column":
        return Column(f"(-{self.sql})")

    def __add__(self, other: Any) -> "Column":
        return self._with("+", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Column":
        return self._with("-", other)

    def __rsub__(self, other: Any) -> "Column":
        return self._after("-", other)

    def __mul__(self, other: Any) -> "Column":
        return self._with("*", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Column":
        made = self._with("/", other)
        made.is_quotient = True
        return made

    def __mod__(self, other: Any) -> "Column":
        return self._with("%", other)


class When(Column):
    """A value by the first of some conditions that holds."""

    __slots__ = ("_branches",)

    def __init__(self, branches: list[tuple[str, str]]) -> None:
        self._branches = branches
        super().__init__(f"CASE {' '.join(f'WHEN {when} THEN {then}' for when, then in branches)} END")

    def when(self, condition: Column, value: Any) -> "When":
        """Return a value where none of the conditions before holds, and this one does."""
        return When([*self._branches, (condition.sql, as_sql(value))])

    def otherwise(self, value: Any) -> Column:
        """Return a value where none of the conditions holds."""
        return Column(f"{self.sql.removesuffix(' END')} ELSE {as_sql(value)} END")


class WindowSpec:
    """The rows that a function looks at: of the same values, in an order, from one row to another."""

    def __init__(self, same: tuple[str, ...] = (), order: tuple[str, ...] = (), frame: str = "") -> None:
        self._same, self._order, self._frame = same, order, frame

    @property
    def sql(self) -> str:
        """What stands in the brackets after OVER."""
        same = f"PARTITION BY {', '.join(self._same)}" if self._same else ""
        order = f"ORDER BY {', '.join(self._order)}" if self._order else ""
        return " ".join(part for part in (same, order, self._frame) if part)

    def partitionBy(self, *columns: Any) -> "WindowSpec":
        """Look only at rows of the same values."""
        return WindowSpec(tuple(column_of(each).sql for each in columns), self._order, self._frame)

    def orderBy(self, *columns: Any) -> "WindowSpec":
        """Look at rows in an order."""
        return WindowSpec(self._same, tuple(ordered(each) for each in columns), self._frame)

    def rowsBetween(self, first: int, last: int) -> "WindowSpec":
        """Look at the rows from one to another, counted from the row itself."""
        return WindowSpec(self._same, self._order, f"ROWS BETWEEN {_bound(first)} AND {_bound(last)}")


class Window:
    """Windows over rows, as PySpark begins them."""

    unboundedPreceding: Final = -UNBOUNDED
    unboundedFollowing: Final = UNBOUNDED
    currentRow: Final = 0

    @staticmethod
    def partitionBy(*columns: Any) -> WindowSpec:
        """Look only at rows of the same values."""
        return WindowSpec().partitionBy(*columns)

    @staticmethod
    def orderBy(*columns: Any) -> WindowSpec:
        """Look at rows in an order."""
        return WindowSpec().orderBy(*columns)


def _bound(rows: int) -> str:
    if abs(rows) >= UNBOUNDED:
        return f"UNBOUNDED {'PRECEDING' if rows < 0 else 'FOLLOWING'}"
    return "CURRENT ROW" if not rows else f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"


def column_of(what: Any) -> Column:
    """Return a column by its name (`a`, or `a.b` for a field of it), or as it is."""
    if isinstance(what, Column):
        return what
    if not isinstance(what, str):
        return Column(as_sql(what))
    path = [part.strip("`") for part in what.split(".")] if "`" not in what else [what.strip("`")]
    return Column(".".join(map(quoted, path)), path[-1])


def ordered(what: Any) -> str:
    """Return an order as SQL; without a direction, it grows, and nulls come first."""
    sql = column_of(what).sql
    return sql if sql.endswith((" NULLS FIRST", " NULLS LAST")) else f"{sql} ASC NULLS FIRST"


def as_sql(value: Any) -> str:
    """Return a value or a column as SQL. Raises NotLocal."""
    if isinstance(value, Column):
        return value.sql
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value) if value >= 0 else f"({value})"
    if isinstance(value, float):
        return f"CAST({value!r} AS DOUBLE)"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_sql, value))}]"
    raise NotLocal(f"values such as {value!r}")
