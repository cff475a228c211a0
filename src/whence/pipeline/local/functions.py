"""Functions of columns on the local engine, under PySpark's names and with its meaning.

Where DuckDB means something else by a name, the difference is written out: collected lists leave nulls out, the value
of the greatest row may be null, text in the order of a row's fields, numbers as Java writes them.
"""

import re
from collections.abc import Callable
from itertools import count as counter
from typing import Any, Final

from whence.pipeline.local.column import Column, When, as_sql, column_of
from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.types import quoted

_NAMES: Final = counter()
"""Lambdas may stand within one another, so each calls its argument differently."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotLocal(f"the function {name}")


# --- values ---


def col(name: str) -> Column:
    """Return a column by its name."""
    return column_of(name)


def lit(value: Any) -> Column:
    """Return a value that is the same in every row."""
    return value if isinstance(value, Column) else Column(as_sql(value))


def expr(text: str) -> Column:
    """Return an expression that is given as SQL which both engines take."""
    return Column(f"({text.replace('`', chr(34))})")


def broadcast(frame: Any) -> Any:
    """Return a frame as it is: there is nobody to send it to."""
    return frame


def when(condition: Column, value: Any) -> When:
    """Return a value where a condition holds."""
    return When([(condition.sql, as_sql(value))])


def coalesce(*columns: Any) -> Column:
    """Return the first value that is not null."""
    return _call("coalesce", *columns)


def nullif(one: Any, other: Any) -> Column:
    """Return a value, or null where it equals another."""
    return _call("nullif", one, other)


def least(*columns: Any) -> Column:
    """Return the least value that is not null."""
    return _call("least", *columns)


def greatest(*columns: Any) -> Column:
    """Return the greatest value that is not null."""
    return _call("greatest", *columns)


def call_function(name: str, *columns: Any) -> Column:
    """Return what a function of SQL says that has a name here too."""
    known = {"shiftleft": shiftleft, "shiftright": shiftright}
    if name not in known:
        raise NotLocal(f"the function {name}")
    return known[name](*columns)


def _call(name: str, *columns: Any) -> Column:
    return Column(f"{name}({', '.join(column_of(each).sql for each in columns)})", name)


# --- numbers ---


def ceil(number: Any) -> Column:
    """Return the least whole number that is not below."""
    return Column(f"CAST(ceil({column_of(number).sql}) AS BIGINT)")


def floor(number: Any) -> Column:
    """Return the greatest whole number that is not above."""
    return Column(f"CAST(floor({column_of(number).sql}) AS BIGINT)")


def sqrt(number: Any) -> Column:
    """Return the square root."""
    return _call("sqrt", number)


def pmod(number: Any, by: Any) -> Column:
    """Return the remainder, which is not negative."""
    one, other = column_of(number).sql, column_of(by).sql
    return Column(f"((({one} % {other}) + {other}) % {other})")


def shiftleft(number: Any, bits: Any) -> Column:
    """Return a number with its bits moved up; those that leave its 64 are gone."""
    one, by = column_of(number).sql, as_sql(bits)
    low = f"(CAST({one} & ((CAST(1 AS HUGEINT) << (63 - {by})) - 1) AS BIGINT) << CAST({by} AS INTEGER))"
    top = f"CASE WHEN ({one} >> (63 - {by})) & 1 = 1 THEN CAST(-9223372036854775808 AS BIGINT) ELSE 0 END"
    return Column(f"({low} | {top})")


def shiftright(number: Any, bits: Any) -> Column:
    """Return a number with its bits moved down; a negative one stays so."""
    return Column(f"({column_of(number).sql} >> CAST({as_sql(bits)} AS INTEGER))")


def bit_count(number: Any) -> Column:
    """Return how many bits are set."""
    return Column(f"CAST(bit_count({column_of(number).sql}) AS INTEGER)")


def format_number(number: Any, places: int) -> Column:
    """Return a number as text with commas between thousands, and so many decimal places."""
    value = column_of(number).sql
    real = f"format('{{:,.{places}f}}', CAST({value} AS DOUBLE))"
    if places:
        return Column(real)
    whole = f"format('{{:,}}', CAST({value} AS HUGEINT))"
    return Column(f"CASE WHEN typeof({value}) IN ('DOUBLE', 'FLOAT') THEN {real} ELSE {whole} END")


# --- text ---


def concat(*columns: Any) -> Column:
    """Return texts one after the other, or null where one is null."""
    return Column(f"({' || '.join(column_of(each).sql for each in columns)})")


def format_string(text: str, *columns: Any) -> Column:
    """Return a text with numbers where it has %d, and other texts where it has %s."""
    pieces = re.split("%[ds]", text)
    sql = as_sql(pieces[0])
    for each, piece in zip(columns, pieces[1:], strict=True):
        sql += f" || coalesce(CAST({column_of(each).sql} AS VARCHAR), 'null') || {as_sql(piece)}"
    return Column(f"({sql})")


def lower(text: Any) -> Column:
    """Return a text without capitals."""
    return _call("lower", text)


def hex(number: Any) -> Column:
    """Return a number or bytes in hexadecimal digits."""
    return _call("hex", number)


def endswith(text: Any, end: Any) -> Column:
    """Return whether a text ends with another."""
    return _call("ends_with", text, end)


def substring_index(text: Any, mark: str, count: int) -> Column:
    """Return what stands before the first of a mark."""
    if count != 1:
        raise NotLocal("substring_index beyond the first mark")
    return Column(f"split_part({column_of(text).sql}, {as_sql(mark)}, 1)")


def array_join(items: Any, between: str) -> Column:
    """Return texts as one, without those that are null."""
    return Column(f"coalesce(array_to_string({column_of(items).sql}, {as_sql(between)}), '')")


# --- structs and arrays ---


def struct(*columns: Any) -> Column:
    """Return some columns as one value that compares field by field."""
    parts = [column_of(each) for each in columns]
    made = Column(f"struct_pack({', '.join(f'{quoted(each.name)} := {each.sql}' for each in parts)})", "struct")
    made.fields = tuple(each.sql for each in parts)
    return made


def array(*columns: Any) -> Column:
    """Return some columns as an array."""
    return Column(f"[{', '.join(column_of(each).sql for each in columns)}]")


def size(items: Any) -> Column:
    """Return how many items there are; null where there is no array."""
    return Column(f"CAST(len({column_of(items).sql}) AS INTEGER)")


def get(items: Any, at: Any) -> Column:
    """Return an item by its number from 0, or null."""
    return Column(f"({column_of(items).sql})[({as_sql(at)}) + 1]")


def element_at(items: Any, at: Any) -> Column:
    """Return an item by its number from 1, or null."""
    return Column(f"({column_of(items).sql})[{as_sql(at)}]")


def array_contains(items: Any, value: Any) -> Column:
    """Return whether an item equals a value."""
    return Column(f"list_contains({column_of(items).sql}, {as_sql(value)})")


def arrays_overlap(one: Any, other: Any) -> Column:
    """Return whether two arrays have an item in common."""
    return _call("list_has_any", one, other)


def array_sort(items: Any) -> Column:
    """Return the items in their order, nulls last."""
    return Column(f"list_sort({column_of(items).sql}, 'ASC', 'NULLS LAST')")


def array_distinct(items: Any) -> Column:
    """Return every item once."""
    return _call("list_distinct", items)


def array_compact(items: Any) -> Column:
    """Return the items that are not null."""
    name = f"x{next(_NAMES)}"
    return Column(f"list_filter({column_of(items).sql}, lambda {name}: {name} IS NOT NULL)")


def sequence(first: Any, last: Any) -> Column:
    """Return the whole numbers from one to another."""
    low, high = column_of(first).sql, column_of(last).sql
    up, down = f"generate_series({low}, {high})", f"generate_series({low}, {high}, -1)"
    return Column(f"CASE WHEN {low} <= {high} THEN {up} ELSE {down} END")


def exists(items: Any, says: Callable[[Column], Column]) -> Column:
    """Return whether something is true of an item; null where it is unknown of one and true of none."""
    array_sql = column_of(items).sql
    name = f"x{next(_NAMES)}"
    holds = says(Column(name)).sql
    some, unsure = (
        f"len(list_filter({array_sql}, lambda {name}: {each})) > 0" for each in (holds, f"({holds}) IS NULL")
    )
    return Column(f"CASE WHEN {some} THEN TRUE WHEN {unsure} THEN NULL ELSE len({array_sql}) < 0 END")


def filter(items: Any, says: Callable[[Column], Column]) -> Column:
    """Return the items of which something is true."""
    name = f"x{next(_NAMES)}"
    return Column(f"list_filter({column_of(items).sql}, lambda {name}: {says(Column(name)).sql})")


def transform(items: Any, made: Callable[..., Column]) -> Column:
    """Return what is made of each item, or of each item and its number from 0."""
    name, at = f"x{next(_NAMES)}", f"i{next(_NAMES)}"
    if made.__code__.co_argcount == 1:
        return Column(f"list_transform({column_of(items).sql}, lambda {name}: {made(Column(name)).sql})")
    each = made(Column(name), Column(f"CAST({at} - 1 AS INTEGER)")).sql
    return Column(f"list_transform({column_of(items).sql}, lambda {name}, {at}: {each})")


def explode(items: Any) -> Column:
    """Return a row for every item."""
    return Column(f"unnest({column_of(items).sql})", "col")


def posexplode(items: Any) -> Column:
    """Return a row for every item, with its number from 0."""
    of = column_of(items).sql
    made = Column(of)
    made.parts = (
        Column(f"CAST(unnest(range(len({of}))) AS INTEGER)", "pos"),
        Column(f"unnest({of})", "col"),
    )
    return made


# --- orders ---


def asc(column: Any) -> Column:
    """Return an order that grows."""
    return column_of(column).asc()


def desc(column: Any) -> Column:
    """Return an order that falls."""
    return column_of(column).desc()


# --- over rows ---


def _over_rows(call: str, around: str = "{}") -> Column:
    return Column(around.format(call), call=call, around=around)


def count(column: Any) -> Column:
    """Return how many values are not null; of `*`, how many rows there are."""
    is_rows = isinstance(column, str) and column == "*"
    return _over_rows("count(*)" if is_rows else f"count({column_of(column).sql})")


def count_if(condition: Any) -> Column:
    """Return of how many rows something is true."""
    return _over_rows(f"count(*) FILTER (WHERE {column_of(condition).sql})")


def countDistinct(column: Any) -> Column:
    """Return how many different values there are."""
    return _over_rows(f"count(DISTINCT {column_of(column).sql})")


def sum(number: Any) -> Column:
    """Return the sum of whole numbers."""
    return _over_rows(f"sum({column_of(number).sql})", "CAST({} AS BIGINT)")


def avg(number: Any) -> Column:
    """Return the mean of whole numbers, as one division of their sum."""
    value = column_of(number).sql
    return Column(f"(CAST(sum({value}) AS DOUBLE) / nullif(count({value}), 0))")


def min(column: Any) -> Column:
    """Return the least value."""
    return _over_rows(f"min({column_of(column).sql})")


def max(column: Any) -> Column:
    """Return the greatest value."""
    return _over_rows(f"max({column_of(column).sql})")


def bool_and(condition: Any) -> Column:
    """Return whether something is true of all rows."""
    return _over_rows(f"bool_and({column_of(condition).sql})")


def bool_or(condition: Any) -> Column:
    """Return whether something is true of a row."""
    return _over_rows(f"bool_or({column_of(condition).sql})")


def bit_or(number: Any) -> Column:
    """Return the bits that any row has."""
    return _over_rows(f"bit_or({column_of(number).sql})")


def min_by(value: Any, by: Any) -> Column:
    """Return the value of the least row, null if it is null there."""
    return _by("min", value, by)


def max_by(value: Any, by: Any) -> Column:
    """Return the value of the greatest row, null if it is null there."""
    return _by("max", value, by)


def _by(which: str, value: Any, by: Any) -> Column:
    order = column_of(by).sql
    pair = f"struct_pack(o := {order}, v := {column_of(value).sql})"
    return _over_rows(f"{which}({pair}) FILTER (WHERE ({order}) IS NOT NULL)", "struct_extract({}, 'v')")


def collect_list(column: Any) -> Column:
    """Return the values that are not null."""
    value = column_of(column).sql
    return _over_rows(f"list({value}) FILTER (WHERE ({value}) IS NOT NULL)", "coalesce({}, [])")


def collect_set(column: Any) -> Column:
    """Return the different values that are not null."""
    value = column_of(column).sql
    return _over_rows(f"list(DISTINCT {value}) FILTER (WHERE ({value}) IS NOT NULL)", "coalesce({}, [])")


def percentile_approx(column: Any, points: Any, accuracy: int) -> Column:
    """Return the values at some parts of the rows in order; here they are exact, whatever accuracy is asked for."""
    value = column_of(column).sql
    rows = f"list_sort(list({value}) FILTER (WHERE ({value}) IS NOT NULL))"
    at = f"lambda p: ({rows})[greatest(1, CAST(ceil(p * count({value})) AS BIGINT))]"
    return Column(f"CASE WHEN count({value}) > 0 THEN list_transform({as_sql(list(points))}, {at}) END")


def row_number() -> Column:
    """Return a row's number in its window, from 1."""
    return _over_rows("row_number()", "CAST({} AS INTEGER)")


def first(column: Any) -> Column:
    """Return the value of the first row of a window."""
    return _over_rows(f"first_value({column_of(column).sql})")


def last(column: Any, ignorenulls: bool = False) -> Column:
    """Return the value of the last row of a window, or the last one that is not null."""
    return _over_rows(f"last_value({column_of(column).sql}{' IGNORE NULLS' if ignorenulls else ''})")


def lag(column: Any, offset: int = 1, default: Any = None) -> Column:
    """Return the value of a row before, or a default where there is none."""
    return _over_rows(f"lag({column_of(column).sql}, {offset}, {as_sql(default)})")


def lead(column: Any, offset: int = 1, default: Any = None) -> Column:
    """Return the value of a row after, or a default where there is none."""
    return _over_rows(f"lead({column_of(column).sql}, {offset}, {as_sql(default)})")
