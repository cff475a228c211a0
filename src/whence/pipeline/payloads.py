"""Payloads as columns: what applications published as JSON, or as values of `group.typed`, decoded by a schema.

A trace or log has payloads as bytes. What they mean is the application's business, so a reader says it: the names and
types of Spark's, such as "flight string, gate int, seen timestamp". JSON is decoded by Spark itself. Typed values are
MessagePack, decoded by Python where Spark runs: a map by the names of the schema, an array (`array_like`) by their
order. A payload that does not fit is null, and one by one what does not fit within it: rows are never lost.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from whence.errors import UsageError
from whence.trace.schema import PAYLOAD

Encoding: TypeAlias = Literal["json", "msgpack"]
ENCODINGS: Final = ("json", "msgpack")
VALUE: Final = "value"
_STRICT: Final = {"allowSingleQuotes": "false"}

_Fit: TypeAlias = Callable[[Any], Any]
_WHOLE: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
"""The bits of each type of whole numbers."""


def decoded_payloads(
    rows: DataFrame, schema: str | StructType, encoding: Encoding = "json", *, column: str = PAYLOAD, into: str = VALUE
) -> DataFrame:
    """Return rows with another column: the payload as a struct of the schema, null where it does not fit.

    Raises UsageError for a schema or encoding that is none.
    """
    shape = _shape(schema)
    if encoding == "json":
        text = F.when(F.is_valid_utf8(F.col(column)), F.col(column).cast("string"))
        # In brackets the parser must read to the payload's end: what follows an object is an error, or a second one.
        every = F.from_json(F.concat(F.lit("["), text, F.lit("]")), ArrayType(shape), _STRICT)
        return rows.withColumn(into, F.when(F.size(every) == 1, F.get(every, F.lit(0))))
    if encoding != "msgpack":
        raise UsageError(f"payloads are encoded as {' or '.join(ENCODINGS)}, not {encoding!r}")
    return rows.withColumn(into, _unpacked(F.col(column), shape))


def _shape(schema: str | StructType) -> StructType:
    if isinstance(schema, StructType):
        return schema
    sentence = f"{schema!r} is no schema; give names and types, such as 'flight string, gate int'"
    try:
        shape = StructType.fromDDL(schema)
    except Exception as error:
        raise UsageError(sentence) from error
    if not isinstance(shape, StructType):
        raise UsageError(sentence)
    return shape


def _unpacked(payload: Column, shape: StructType) -> Column:
    fit = fitting(shape)

    def unpack(packed: bytes | None) -> Any:
        try:
            return None if packed is None else fit(msgspec.msgpack.decode(packed))
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None

    return F.udf(unpack, shape, useArrow=False)(payload)


def fitting(wanted: DataType) -> _Fit:
    """Return what fits a value into a type: the value as Spark takes it, or None. Raises UsageError for other types."""
    if isinstance(wanted, StructType):
        return _struct(wanted)
    if isinstance(wanted, ArrayType):
        item = fitting(wanted.elementType)
        return lambda value: [item(each) for each in value] if isinstance(value, list | tuple) else None
    if isinstance(wanted, MapType):
        key, held = fitting(wanted.keyType), fitting(wanted.valueType)
        return lambda value: (
            {key(name): held(each) for name, each in value.items() if key(name) is not None}
            if isinstance(value, dict)
            else None
        )
    if (bits := _WHOLE.get(type(wanted))) is not None:
        return lambda value: value if _is_whole(value) and -1 <= value >> (bits - 1) <= 0 else None
    plain = _PLAIN.get(type(wanted))
    if plain is None:
        raise UsageError(f"typed payloads have no {wanted.simpleString()}; take string or binary, and cast it")
    return plain


def _struct(wanted: StructType) -> _Fit:
    fits = [(each.name, fitting(each.dataType)) for each in wanted.fields]

    def fit(value: Any) -> Any:
        if isinstance(value, dict):
            return tuple(fit(value.get(name)) for name, fit in fits)
        if isinstance(value, list | tuple):
            padded = [*value, *[None] * (len(fits) - len(value))]
            return tuple(fit(each) for (_, fit), each in zip(fits, padded, strict=False))
        return None

    return fit


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _number(value: Any) -> float | None:
    return float(value) if _is_whole(value) or isinstance(value, float | Decimal) else None


_PLAIN: Final[dict[type[DataType], _Fit]] = {
    StringType: lambda value: value if isinstance(value, str) else None,
    BinaryType: lambda value: bytes(value) if isinstance(value, bytes) else None,
    BooleanType: lambda value: value if isinstance(value, bool) else None,
    DoubleType: _number,
    FloatType: _number,
    TimestampType: _moment,
}
